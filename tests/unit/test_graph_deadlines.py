"""A wait that is over is noticed at its instant, at any depth: the hourly look is for nothing that was foreseen."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.domain.hint import LOOK_SLOT, Hint
from functions.domain.run import Decision
from functions.usecases.actions import pause_job
from functions.usecases.approvals import GateDecision, decide_run
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import ADMIN, SCHEDULER
from tests.factories import NOW, make_document
from tests.graphs import DAY, Graph

HOUR = 3_600
NOTICED = 130
"""Seconds after its instant by which a wait that is over is noticed: by the sweep."""
TIMED_OUT = ("SKIPPED", "UPSTREAM_TIMEOUT")
SLOW = {"maxRetries": 3, "initialDelaySeconds": 20_000, "maxDelaySeconds": 20_000, "jitter": 0}


def at(seconds: float) -> dict[str, Any]:
    return {"type": "once", "at": datetime.fromtimestamp(NOW + seconds, UTC).isoformat()}


def pause(graph: Graph, name: str) -> None:
    pause_job(graph.driver.services, SCHEDULER, graph.ids[name])


def look_at(graph: Graph, name: str) -> None:
    graph.driver.deliver_hint(Hint(graph.ids[name], LOOK_SLOT, 0))


def change(graph: Graph, name: str, **document: Any) -> None:
    draft = JobDraft(document=make_document(**document), payload="{}")
    change_job(graph.driver.services, SCHEDULER, graph.ids[name], change=lambda _: draft)


def is_given_up(graph: Graph, name: str, instant: float) -> None:
    """Not before the instant, and soon after it."""
    graph.run_to(instant - 5)
    assert graph.outcomes(name) == []
    graph.run_to(instant + NOTICED)
    assert graph.outcomes(name) == [TIMED_OUT]


@pytest.mark.parametrize("waiting", [0, 6, 12])
def test_one_of_many_parents_stops_waiting(waiting: int) -> None:
    """The others were there all the time, and blocked."""
    graph = Graph()
    graph.job("never", enabled=False)
    graph.job("waits", "never", upstreamTimeoutSeconds=10_000)
    names = [f"p{number}" for number in range(12)]
    for name in names:
        graph.job(name, enabled=False)
    names.insert(waiting, "waits")
    graph.job("child", *names, upstreamTimeoutSeconds=9_000)
    graph.job("below", "child", *names, upstreamTimeoutSeconds=8_000)
    is_given_up(graph, "child", 10_000)
    assert graph.outcomes("below") == [TIMED_OUT]


def test_a_parent_that_waits_is_paused() -> None:
    graph = Graph()
    graph.job("never", enabled=False)
    graph.job("b", "never", upstreamTimeoutSeconds=DAY)
    graph.job("c", "b", upstreamTimeoutSeconds=HOUR)
    graph.run_to(5 * HOUR + 100)
    assert graph.status("c") == ["BLOCKED"]
    pause(graph, "b")
    graph.run(NOTICED)
    assert graph.outcomes("c") == [TIMED_OUT]


def test_one_of_many_parents_that_waits_is_paused() -> None:
    """It was the one that is asked alone."""
    graph = Graph()
    graph.job("never", enabled=False)
    names = [f"p{number}" for number in range(12)]
    for name in names:
        graph.job(name, enabled=False)
    graph.job("b", "never", upstreamTimeoutSeconds=DAY)
    graph.job("c", *names, "b", upstreamTimeoutSeconds=HOUR)
    graph.run_to(5 * HOUR + 100)
    assert graph.status("c") == ["BLOCKED"]
    pause(graph, "b")
    graph.run(NOTICED)
    assert graph.outcomes("c") == [TIMED_OUT]


@pytest.mark.parametrize("order", [1, -1])
def test_many_parents_are_read_now_and_then_though_the_wait_is_short(order: int) -> None:
    graph = Graph()
    names = [f"p{number}" for number in range(100)]
    for place, name in enumerate(names[::order]):
        graph.job(name, schedule=at(60 + 10 * place))
    graph.job("child", *names, upstreamTimeoutSeconds=60)
    graph.world.jobs.calls.clear()
    graph.run(1_200)
    assert graph.outcomes("child") == [("COMPLETED", None)]
    assert graph.world.jobs.calls.count("get_rows") < 40


def test_a_parent_is_paused_before_its_slot() -> None:
    graph = Graph()
    graph.job("b", schedule=at(DAY))
    graph.job("c", "b", upstreamTimeoutSeconds=HOUR)
    graph.run_to(5 * HOUR + 100)
    pause(graph, "b")
    graph.run(NOTICED)
    assert graph.outcomes("c") == [TIMED_OUT]


def test_a_parent_is_paused_while_its_new_schedule_is_told() -> None:
    """Those who were looked at before the pause hear of it, too."""
    graph = Graph()
    graph.job("b", schedule=at(5 * DAY))
    graph.job("c", "b", upstreamTimeoutSeconds=HOUR)
    graph.run_to(5 * HOUR)
    of, paused = graph.world.dependents.of, []

    def and_then(parent: str, **page: Any) -> Any:
        if parent == graph.ids["b"] and not paused:
            look_at(graph, "c")
            assert graph.status("c") == ["BLOCKED"]
            paused.append(parent)
            pause(graph, "b")
            return []
        return of(parent, **page)

    graph.world.dependents.of = and_then  # type: ignore[method-assign]
    change(graph, "b", schedule=at(DAY))
    graph.run(NOTICED)
    assert paused
    assert graph.outcomes("c") == [TIMED_OUT]


def test_a_parent_is_scheduled_sooner() -> None:
    graph = Graph()
    graph.job("b", schedule=at(5 * DAY))
    graph.job("c", "b", upstreamTimeoutSeconds=600)
    graph.run_to(HOUR + 100)
    change(graph, "b", schedule=at(2 * HOUR), retryConfig=SLOW)
    graph.retries["b"] = 3
    is_given_up(graph, "c", 2 * HOUR + 600)


def test_a_parent_begins_to_run_after_a_long_wait() -> None:
    graph = Graph()
    graph.job("a", schedule=at(5 * HOUR + 1_800))
    graph.job("b", "a", retryConfig=SLOW)
    graph.job("c", "b", upstreamTimeoutSeconds=600)
    graph.retries["b"] = 3
    graph.run_to(5 * HOUR + 1_800 + 60)
    assert graph.status("b") == ["RETRYING"]
    is_given_up(graph, "c", 5 * HOUR + 1_800 + 600)


def test_a_parent_that_starts_at_the_earliest_may_take_its_time_from_there() -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", "a", schedule=at(5 * HOUR), retryConfig=SLOW)
    graph.job("c", "b", upstreamTimeoutSeconds=600)
    graph.retries["b"] = 3
    is_given_up(graph, "c", 5 * HOUR + 600)


def test_a_parent_that_passed_its_gate_may_take_its_time_from_there() -> None:
    graph = Graph()
    gate = {"role": "scheduler", "timeoutSeconds": DAY, "fourEyes": False}
    graph.job("b", approval=gate, retryConfig=SLOW)
    graph.job("c", "b", upstreamTimeoutSeconds=600)
    graph.retries["b"] = 3
    graph.run_to(5 * HOUR)
    assert graph.status("b", "c") == ["BLOCKED", "BLOCKED"]
    decide_run(graph.driver.services, ADMIN, graph.ids["b"], GateDecision(decision=Decision.APPROVED))
    is_given_up(graph, "c", 5 * HOUR + 600)


def test_nothing_is_told_because_of_a_runs_own_progress() -> None:
    """It would cost each run of a chain a message, and each dependent a look."""
    graph = Graph()
    graph.job("a")
    graph.job("b", "a")
    graph.job("c", "b")
    graph.retries["b"] = 2
    of, told = graph.world.dependents.of, Counter[str]()

    def counted(parent: str, **page: Any) -> Any:
        told[graph.name_of(parent)] += 1
        return of(parent, **page)

    graph.world.dependents.of = counted  # type: ignore[method-assign]
    graph.run()
    assert graph.status("c") == ["COMPLETED"]
    assert told == {"a": 1, "b": 1}, "an end each"
