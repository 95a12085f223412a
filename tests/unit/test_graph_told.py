"""What graphs of jobs and gates tell: write by write, and in whole stories as history has them, whatever dies."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from functions.domain.actor import Actor, ActorKind
from functions.domain.event import Attempt, Change, EventType, LifecycleEvent
from functions.domain.events import events_of
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus, SkippedSlots
from functions.domain.job import Job, Upstream
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.run import APPROVAL, Approval, Decision, LastRun, Outcome, RunState
from tests.driver import Driver
from tests.factories import JOB_ID, NOW, make_execution, make_job, make_run, new_id
from tests.fakes import FakeClock, World
from tests.faults import Faults
from tests.flows import SETTLE
from tests.telling import Heard
from tests.unit.test_events_told import ToldJobs

SLOT = f"{NOW}dabcdefgh"
A, B = new_id(), new_id()
CHILD = make_job(
    next_slot=None,
    document={
        "schedule": None,
        "dependsOn": [{"jobId": A}, {"jobId": B}],
        "approval": {"role": "admin", "timeoutSeconds": 60},
    },
    upstream=Upstream(marks=(0, 0), look_at=NOW, since=NOW),
)
WAITS = replace(CHILD, upstream=Upstream(marks=(0, 0), look_at=NOW + 99, since=NOW, blocked_by=1))
TAKEN = Upstream(marks=(1, 1), look_at=NOW)


def told(before: Job | None, after: Job, *rows: Execution) -> list[LifecycleEvent]:
    history = {Attempt(row.slot_id, row.attempt): row for row in rows}
    return list(events_of(Change(before=before, after=replace(after, seq=7), at=NOW + 5), history))


def facts(event: LifecycleEvent) -> dict[str, Any]:
    return {name: value for name, value in event.facts.items() if name not in ("job_id", "owner")}


def with_run(job: Job, **changes: Any) -> Job:
    run = make_run(**{"state": RunState.WAITING, "took": (1, 1), **changes})
    return replace(job, upstream=TAKEN, runs=MappingProxyType({SLOT: run}))


def test_a_wait_is_told_once_when_somebody_has_looked() -> None:
    assert [event.type for event in told(None, CHILD)] == [EventType.SCHEDULED]
    [event] = told(CHILD, WAITS)
    assert (event.type, facts(event)) == (EventType.BLOCKED, {"blocked_by": B, "since": NOW})
    other = replace(WAITS, upstream=Upstream(marks=(0, 0), look_at=NOW + 99, since=NOW, blocked_by=0))
    assert told(WAITS, other) == []
    assert [event.type for event in told(None, WAITS)] == [EventType.SCHEDULED, EventType.BLOCKED]


@pytest.mark.parametrize("changes", [{"paused": True}, {"cancelled": True}])
def test_who_is_held_otherwise_is_not_blocked(changes: dict[str, Any]) -> None:
    assert EventType.BLOCKED not in [event.type for event in told(CHILD, replace(WAITS, **changes))]


def test_a_job_whose_definition_is_elsewhere_names_nobody() -> None:
    [event] = told(replace(CHILD, definition=None), replace(WAITS, definition=None))
    assert facts(event) == {"blocked_by": None, "since": NOW}
    [event] = told(replace(WAITS, definition=None), replace(with_run(CHILD), definition=None))
    assert facts(event)["parents"] is None


def test_a_run_that_was_made_for_others_names_those_it_took() -> None:
    [event] = told(WAITS, with_run(CHILD, took=(0, 3)))
    assert event.type is EventType.UNBLOCKED
    assert facts(event) == {"run_id": f"{JOB_ID}-{SLOT}", "scheduled_for": NOW, "parents": [B]}


def test_a_run_that_is_to_end_at_once_is_told_by_its_end() -> None:
    made = with_run(CHILD, verdict=Outcome.SKIPPED, verdict_for="UPSTREAM_FAILED", manual=True)
    assert told(WAITS, made) == []
    last = LastRun(
        slot_id=SLOT, attempt=1, outcome=Outcome.SKIPPED, fence=1, ended_at=NOW + 3, reason="UPSTREAM_FAILED"
    )
    ended = replace(CHILD, upstream=TAKEN, last_run=last)
    row = make_execution(
        slot_id=SLOT, status=ExecutionStatus.SKIPPED, started_at=None, completed_at=NOW + 3.5, reason="UPSTREAM_FAILED"
    )
    with_row, without = told(made, ended, row), told(made, ended)
    assert [event.type for event in with_row] == [EventType.SKIPPED]
    assert (with_row[0].time, without[0].time) == (NOW + 3.5, NOW + 3)
    assert (
        facts(with_row[0])
        == facts(without[0])
        == {
            "run_id": f"{JOB_ID}-{SLOT}",
            "execution_id": f"{JOB_ID}-{SLOT}-0001",
            "first": NOW,
            "last": NOW,
            "count": 1,
            "reason": "UPSTREAM_FAILED",
        }
    )


def test_a_run_that_fails_because_of_others_is_a_dead_letter() -> None:
    made = with_run(CHILD, verdict=Outcome.PERMANENTLY_FAILED, verdict_for="UPSTREAM_FAILED", manual=True)
    error = ExecutionError(code="UPSTREAM_FAILED", message="")
    row = make_execution(slot_id=SLOT, status=ExecutionStatus.FAILED, reason="UPSTREAM_FAILED", error=error)
    [event] = told(made, replace(CHILD, upstream=TAKEN), row)
    assert (event.type, event.facts["error_code"]) == (EventType.PERMANENTLY_FAILED, "UPSTREAM_FAILED")


def test_a_retry_is_not_made_for_others_again() -> None:
    failed = make_execution(slot_id=SLOT, status=ExecutionStatus.FAILED, final=False, next_retry_at=NOW + 9)
    running, waiting = with_run(CHILD, state=RunState.RUNNING), with_run(CHILD, attempt=1, due_at=NOW + 9)
    assert [event.type for event in told(running, waiting, failed)] == [EventType.FAILED, EventType.RETRY_SCHEDULED]


GATE: dict[str, Any] = {"waits_for": APPROVAL, "due_at": NOW + 60}


def test_a_run_at_its_gate_asks_once() -> None:
    [event] = told(with_run(CHILD), with_run(CHILD, **GATE))
    assert event.type is EventType.APPROVAL_NEEDED
    assert facts(event) == {
        "run_id": f"{JOB_ID}-{SLOT}",
        "scheduled_for": NOW,
        "decide_by": NOW + 60,
        "role": "admin",
    }
    assert told(with_run(CHILD, **GATE), replace(with_run(CHILD, **GATE), attention_at=NOW)) == []
    both = told(WAITS, with_run(CHILD, **GATE))
    assert [event.type for event in both] == [EventType.UNBLOCKED, EventType.APPROVAL_NEEDED]


@pytest.mark.parametrize(
    ("decision", "kind"), [(Decision.APPROVED, EventType.APPROVED), (Decision.REJECTED, EventType.REJECTED)]
)
def test_a_decision_is_told_once_with_who_and_why(decision: Decision, kind: EventType) -> None:
    approval = Approval(decision=decision, by="bob", at=NOW + 3, comment="checked")
    decided = with_run(CHILD, approval=approval)
    [event] = told(with_run(CHILD, **GATE), decided)
    assert (event.type, event.time) == (kind, NOW + 3)
    by = {"id": "bob", "kind": "person", "client_id": None}
    assert facts(event) == {"run_id": f"{JOB_ID}-{SLOT}", "scheduled_for": NOW, "by": by, "comment": "checked"}
    machine = Actor("bob", ActorKind.MACHINE, "bob")
    [event] = told(with_run(CHILD, **GATE), replace(decided, acted=machine, revised_by="w-2"))
    assert facts(event)["by"] == {"id": "bob", "kind": "machine", "client_id": "bob"}
    started = replace(decided, runs=MappingProxyType({SLOT: replace(decided.runs[SLOT], state=RunState.RUNNING)}))
    assert [event.type for event in told(decided, started)] == [EventType.STARTED]
    assert [event.type for event in told(with_run(CHILD, **GATE), started)] == [kind, EventType.STARTED]
    assert told(with_run(CHILD), decided) == [], "a retry that a caller forced bears the approval of its run"


def test_a_gate_that_was_taken_away_is_no_decision() -> None:
    assert told(with_run(CHILD, **GATE), with_run(CHILD)) == []


# Whole stories, by the engine

OK = TargetAnswer(status=ExecutionStatus.COMPLETED, result="true")
FAILED = TargetAnswer(status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_400", message=""), retryable=False)
MINUTELY = {"type": "interval", "everySeconds": 60}
Graph = dict[str, Job]


def once(driver: Driver, seconds: float, name: str, **more: Any) -> Job:
    at = f"2027-01-15T08:{int(seconds) // 60:02}:{int(seconds) % 60:02}Z"
    return driver.create(schedule={"type": "once", "at": at}, name=name, **more)


def after(driver: Driver, name: str, *parents: Job, on: str = "success", **more: Any) -> Job:
    depends = [{"jobId": one.id, "on": on} for one in parents]
    return driver.create(schedule=None, dependsOn=depends, name=name, **more)


def diamond(driver: Driver, **more: Any) -> Graph:
    a = once(driver, 90, "A")
    b, c = after(driver, "B", a), after(driver, "C", a)
    return {"A": a, "B": b, "C": c, "D": after(driver, "D", b, c, **more)}


def recurring(driver: Driver) -> Graph:
    parent = driver.create(schedule={**MINUTELY}, maxRuns=3, name="A")
    return {"A": parent, "B": after(driver, "B", parent, on="completion")}


STORIES: dict[str, tuple[Callable[[Driver], Graph], str | None]] = {
    "diamond": (diamond, None),
    "one of a diamond fails": (diamond, "B"),
    "one fails, and those after it, too": (lambda driver: diamond(driver, onUpstreamFailure="fail"), "B"),
    "one fails, and the one after it runs": (lambda driver: diamond(driver, onUpstreamFailure="run"), "B"),
    "recurring": (recurring, None),
}


def play(name: str, **faulty: int) -> tuple[dict[str, Heard], bool]:
    """The story, with a job that fails where it says so, heard by somebody who compares it with history."""
    build, fails = STORIES[name]
    clock, faults = FakeClock(NOW), Faults()
    world = World(clock=clock, faults=faults)
    jobs = ToldJobs(clock, faults)
    driver = Driver(world, jobs=jobs)
    graph = build(driver)
    faults.inject(**faulty)

    def answer(invocation: Invocation) -> TargetAnswer:
        return FAILED if fails is not None and invocation.job_id == graph[fails].id else OK

    world.targets.answers = [answer]
    driver.run(400)
    crashed = faults.crashed
    faults.disarm()
    driver.run(SETTLE)
    stories = {}
    for letter, job in graph.items():
        story = stories[letter] = Heard()
        for before, row, at in jobs.writes:
            if row.id == job.id:
                story.hear(before, row, at, lambda slot, attempt, id_=job.id: world.history.get(id_, slot, attempt))
        rows = driver.history(job.id)
        executions = [one for one in rows if isinstance(one, Execution)]
        story.check(driver.row(job.id), executions, [one for one in rows if isinstance(one, SkippedSlots)])
    return stories, crashed


def heard(story: Heard) -> list[str]:
    return [event.type.value.removeprefix("job.") for event in story.events]


RAN = ["unblocked", "started", "completed"]


def test_a_diamond_tells_who_waits_and_who_goes_on() -> None:
    stories, _ = play("diamond")
    assert heard(stories["A"]) == ["scheduled", "started", "completed"]
    assert [heard(stories[name]) for name in "BCD"] == [["scheduled", "blocked", *RAN]] * 3
    [unblocked] = stories["D"].of(EventType.UNBLOCKED)
    parents = [stories[name].events[0].facts["job_id"] for name in "BC"]
    assert unblocked.facts["parents"] == parents
    [blocked] = stories["B"].of(EventType.BLOCKED)
    assert blocked.facts["blocked_by"] == stories["A"].events[0].facts["job_id"]


def test_where_one_fails_the_one_after_it_is_skipped_failed_or_run() -> None:
    ends = {"": "skipped", ", and those after it, too": "permanently_failed"}
    for more, end in ends.items():
        stories, _ = play("one of a diamond fails" if not more else f"one fails{more}")
        assert heard(stories["B"])[-2:] == ["started", "permanently_failed"]
        assert heard(stories["D"]) == ["scheduled", "blocked", end]
        assert stories["D"].events[-1].facts["reason"] == "UPSTREAM_FAILED"
    stories, _ = play("one fails, and the one after it runs")
    assert heard(stories["D"]) == ["scheduled", "blocked", *RAN]


def test_each_run_of_a_recurring_job_is_told_by_the_one_after_it() -> None:
    stories, _ = play("recurring")
    assert heard(stories["B"]) == ["scheduled", *["blocked", *RAN] * 3]


@pytest.mark.slow
@pytest.mark.parametrize("when", ["crash_before", "crash_after"])
@pytest.mark.parametrize("name", STORIES)
def test_a_death_after_any_step_is_told_as_it_was_repaired(name: str, when: str) -> None:
    for step in itertools.count(1):
        _, crashed = play(name, **{when: step})
        if not crashed:
            assert step > 5, "the story has steps"
            break
