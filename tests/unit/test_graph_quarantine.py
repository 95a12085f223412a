"""A quarantine of several runs is as many ends, for those that depend on the job."""

from __future__ import annotations

import pytest

from functions.domain.visit import MAX_WAKES
from functions.usecases.actions import execute_job
from tests.driver import SCHEDULER, Driver
from tests.fakes import World
from tests.faults import Faults
from tests.graphs import Graph


def test_each_run_that_is_quarantined_is_an_end() -> None:
    graph = Graph()
    graph.job("a", schedule={"type": "interval", "everySeconds": 60}, overlapPolicy="allow")
    graph.job("b", ("a", "failure"))
    for _ in range(2):
        execute_job(graph.driver.services, SCHEDULER, graph.ids["a"])
    graph.world.jobs.lose_definition(graph.ids["a"])
    graph.run(3 * 3_600)
    assert graph.outcomes("a") == [("FAILED", "QUARANTINED")] * 3, "two by hand, and its slot"
    followed = graph.row("a").followed
    assert followed is not None
    assert (followed.ends, followed.told) == (3, 3)
    assert graph.outcomes("b") == [("COMPLETED", None)] * 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["crash_before", "crash_after", "lose_answer"])
def test_a_quarantine_that_dies_goes_on_at_the_next_tick(kind: str) -> None:
    for number in range(1, 40):
        faults = Faults()
        graph = Graph(Driver(World(faults=faults)))
        graph.job("a", schedule={"type": "interval", "everySeconds": 60}, overlapPolicy="allow")
        graph.job("b", ("a", "failure"))
        execute_job(graph.driver.services, SCHEDULER, graph.ids["a"])
        graph.world.jobs.lose_definition(graph.ids["a"])
        while graph.row("a").wakes < MAX_WAKES:
            graph.run(60)
        faults.inject(**{kind: number})
        graph.run(1_200)
        followed = graph.row("a").followed
        assert followed is not None
        assert (followed.ends, followed.told) == (2, 2), (kind, number)
        assert graph.runs("b") == 2, (kind, number)
        if faults.count < number:
            return
    raise AssertionError("more steps than were thought")
