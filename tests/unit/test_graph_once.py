"""A job that comes to run once, or again and again, by what is above it: those below it hear of it, at any depth."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from functions.usecases.actions import pause_job, resume_job
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import SCHEDULER
from tests.factories import NOW, make_document
from tests.graphs import DAY, Graph

EVERY = {"type": "interval", "everySeconds": 100}


def at(seconds: float) -> dict[str, Any]:
    return {"type": "once", "at": datetime.fromtimestamp(NOW + seconds, UTC).isoformat()}


def change(graph: Graph, name: str, *parents: str, **document: Any) -> None:
    if parents:
        document |= {"dependsOn": [{"jobId": graph.ids[one]} for one in parents], "schedule": None}
    draft = JobDraft(document=make_document(**document), payload="{}")
    change_job(graph.driver.services, SCHEDULER, graph.ids[name], change=lambda _: draft)


def chain(graph: Graph, depth: int, **root: Any) -> str:
    """A root with jobs after it, and `last`, which runs for the last of these or for another job: whichever ends."""
    graph.job("r0", **root)
    for number in range(1, depth + 1):
        graph.job(f"r{number}", f"r{number - 1}")
    graph.job("other", schedule=at(310))
    graph.job("last", f"r{depth}", "other", join="any")
    graph.run(5)
    return f"r{depth}"


def once(graph: Graph, name: str) -> bool:
    followed = graph.row(name).followed
    assert followed is not None
    return followed.once


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_root_that_runs_again_and_again_from_now_on(depth: int) -> None:
    graph = Graph()
    end = chain(graph, depth, schedule=at(DAY))
    assert once(graph, end)
    change(graph, "r0", schedule=EVERY)
    graph.run_to(950)
    assert not once(graph, end)
    assert graph.runs(end) == 9
    assert graph.runs("last") == 9, "the other job, which runs once, came second"


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_root_that_runs_once_from_now_on(depth: int) -> None:
    graph = Graph()
    end = chain(graph, depth, schedule={"type": "interval", "everySeconds": 5_000})
    change(graph, "r0", schedule=at(700))
    graph.run_to(1_000)
    assert once(graph, end)
    assert graph.runs(end) == 1
    assert graph.runs("last") == 1, "for the other job"
    assert graph.at_rest("last")


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_what_was_not_to_count_any_more_counts_where_it_runs_again_and_again(depth: int) -> None:
    graph = Graph()
    end = chain(graph, depth, schedule=at(DAY))
    graph.run_to(400)
    assert graph.runs("last") == 1
    change(graph, "r0", schedule=EVERY)
    graph.run_to(950)
    assert graph.runs(end) == 5
    assert graph.runs("last") == 6


def test_a_job_in_between_that_is_given_a_parent_which_runs_again_and_again() -> None:
    graph = Graph()
    end = chain(graph, 3, schedule=at(DAY))
    graph.job("again", schedule=EVERY)
    change(graph, "r1", "again")
    graph.run_to(950)
    assert not once(graph, end)
    assert graph.runs("last") == 9


def test_a_job_in_between_that_is_paused_hears_of_it_at_resume() -> None:
    graph = Graph()
    end = chain(graph, 3, schedule=at(DAY))
    pause_job(graph.driver.services, SCHEDULER, graph.ids["r2"])
    change(graph, "r0", schedule=EVERY)
    graph.run_to(350)
    assert once(graph, end)
    resume_job(graph.driver.services, SCHEDULER, graph.ids["r2"])
    graph.run_to(950)
    assert not once(graph, end)
    assert graph.runs("last") == 10
