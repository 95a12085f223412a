"""What a graph leaves behind when its jobs are deleted: no edge, on either side."""

from __future__ import annotations

import pytest

from functions.domain.hint import LOOK_SLOT, Hint
from functions.usecases.actions import execute_job
from functions.usecases.cancelling import cancel_job, delete_job
from tests.driver import SCHEDULER, Driver
from tests.fakes import World
from tests.faults import Faults
from tests.graphs import Graph

NEVER = {"type": "once", "at": "2027-06-15T08:00:00Z"}


def delete(graph: Graph, name: str) -> None:
    delete_job(graph.driver.services, SCHEDULER, graph.ids[name])


def children(graph: Graph, name: str) -> set[str]:
    return {graph.name_of(one) for one in graph.world.dependents.of(graph.ids[name], after=None, limit=200)}


def test_a_child_that_is_deleted_is_forgotten_by_its_parents_at_once() -> None:
    graph = Graph()
    for name in "abc":
        graph.job(name, schedule=NEVER)
    graph.job("x", *"abc")
    graph.job("y", *"ab")
    graph.run(5)
    delete(graph, "x")
    graph.run(5)
    assert [children(graph, name) for name in "abc"] == [{"y"}, {"y"}, set()]
    assert graph.status("y") == ["BLOCKED"]


@pytest.mark.parametrize("before", ["waits", "completed", "cancelled"])
def test_a_parent_that_is_deleted_forgets_its_children_once_they_know(before: str) -> None:
    graph = Graph()
    graph.job("a", **({} if before == "completed" else {"schedule": NEVER}))
    for number in range(60):
        graph.job(f"c{number}", "a")
    graph.run()
    if before == "cancelled":
        cancel_job(graph.driver.services, SCHEDULER, graph.ids["a"])
        graph.run()
    assert len(children(graph, "a")) == 60
    delete(graph, "a")
    graph.run()
    assert children(graph, "a") == set()
    ended = ("COMPLETED", None) if before == "completed" else ("SKIPPED", "UPSTREAM_CANCELLED")
    assert all(graph.outcomes(f"c{number}") == [ended] for number in range(60))
    assert graph.at_rest("a", *(f"c{number}" for number in range(60)))


def test_a_job_that_is_deleted_runs_no_more_whatever_its_parents_do() -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", "a")
    graph.run()
    delete(graph, "b")
    execute_job(graph.driver.services, SCHEDULER, graph.ids["a"])
    graph.run(5)
    graph.driver.deliver_hint(Hint(graph.ids["b"], LOOK_SLOT, 0))
    graph.run()
    assert graph.calls == {"a": 2, "b": 1}
    assert graph.at_rest("a", "b")


@pytest.mark.parametrize("kind", ["crash_before", "crash_after", "lose_answer"])
def test_no_crash_of_a_deletion_leaves_a_child_that_waits_for_ever(kind: str) -> None:
    for number in range(1, 60):
        faults = Faults()
        graph = Graph(Driver(World(faults=faults)))
        graph.job("a", schedule=NEVER)
        graph.job("b", "a")
        graph.job("c", "b")
        graph.run(5)
        faults.inject(**{kind: number})
        graph.driver.call(lambda graph=graph: delete(graph, "a"))
        graph.run(1_300)
        if graph.row("a").deleted_at is not None:
            assert children(graph, "a") == set(), (kind, number)
            assert graph.status("b", "c") == ["SKIPPED", "SKIPPED"], (kind, number)
            assert graph.at_rest("a", "b", "c"), (kind, number)
        if faults.count < number:
            return
    raise AssertionError("more steps than were thought")
