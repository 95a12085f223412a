"""Whatever is decided by a value of an enumeration is stated here for each of its values.

A rule that names one value and forgets its neighbour (a timeout beside a failure) is right in every test that has the
first. A value that is added to an enumeration fails `test_each_enumeration_is_stated_in_full` until it has its line.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest

from functions import domain, telemetry
from functions.api.caller import caller_of
from functions.api.mermaid import mermaid_text
from functions.api.views import job_text
from functions.domain.actor import Actor, ActorKind
from functions.domain.approval import decide_gate, gate_before, time_over
from functions.domain.approval_policy import ApprovalPolicy, OnTimeout
from functions.domain.caller import Caller, Role
from functions.domain.circuit import (
    Admission,
    Circuit,
    CircuitPolicy,
    CircuitState,
    Health,
    Probe,
    admission,
    after_end,
)
from functions.domain.commands import decide_change, decide_execute, decide_retry
from functions.domain.decision import Drop, Write
from functions.domain.definition import Completion, MisfirePolicy, OverlapPolicy, Priority
from functions.domain.dependence import Dependency, Join, On, UpstreamFailure
from functions.domain.dispatch import decide_hint, started
from functions.domain.ending import decide_end, expired, judge
from functions.domain.errors import ConflictError, ForbiddenError, NotFoundError
from functions.domain.event import Attempt, Change, EventType
from functions.domain.events import events_of
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.ids import slot_id
from functions.domain.job import Gap, GateChange, GateChanged, Job, JobStatus, SkipReason, Upstream
from functions.domain.lean import fits_the_row, may_be_lean
from functions.domain.lease import Hold
from functions.domain.outcome import TargetAnswer, health_of
from functions.domain.path import PathKind, call_seconds, path_of
from functions.domain.result import Extent
from functions.domain.retry import BackoffStrategy, Failure, RetryPolicy
from functions.domain.run import APPROVAL, Decision, LastRun, Outcome, RunState
from functions.domain.schedule import Schedule, ScheduleType
from functions.domain.silence import Silence
from functions.domain.upstream import unmet
from functions.domain.waiting import WaitKind
from functions.domain.worker import Worker, WorkerStatus
from functions.domain.workflow import Member, WaitsFor
from functions.domain.workflow_status import WorkflowStatus, status_of
from functions.events.models import MODELS
from functions.usecases.dead_letters import announce_dead_letters
from tests.api_client import machine, user
from tests.driver import Driver, middle
from tests.factories import JOB_ID, NOW, make_definition, make_execution, make_hint, make_job, make_run
from tests.telling import image

ALICE = Actor(id="alice", kind=ActorKind.PERSON)
BOB = Actor(id="bob", kind=ActorKind.PERSON)

SLOT = slot_id(NOW)
ONCE = {"schedule": {"type": "once", "at": "2027-01-15T08:00:00Z"}}
PARENT = "11111111-1111-4111-8111-111111111111"
LAST: Any = {"slot_id": SLOT, "attempt": 1, "fence": 1, "ended_at": NOW}


# --- how an attempt ends ---


@dataclass(frozen=True)
class End:
    """What an attempt that ended with this status means, where it is the last one of its run."""

    outcome: Outcome
    told: EventType
    dead_letter: bool = False
    failed: bool = False
    """Retries, and what counts as a failed attempt."""
    breaks_silence: bool = False
    counted: bool = True


ENDS: Mapping[ExecutionStatus, End | None] = {
    ExecutionStatus.QUEUED: None,
    ExecutionStatus.RUNNING: None,
    ExecutionStatus.COMPLETED: End(Outcome.COMPLETED, EventType.COMPLETED, breaks_silence=True),
    ExecutionStatus.FAILED: End(
        Outcome.PERMANENTLY_FAILED, EventType.PERMANENTLY_FAILED, dead_letter=True, failed=True
    ),
    ExecutionStatus.TIMED_OUT: End(
        Outcome.PERMANENTLY_FAILED, EventType.PERMANENTLY_FAILED, dead_letter=True, failed=True
    ),
    ExecutionStatus.CANCELLED: End(Outcome.CANCELLED, EventType.RUN_CANCELLED, counted=False),
    ExecutionStatus.SKIPPED: End(Outcome.SKIPPED, EventType.SKIPPED, counted=False),
}
"""None: no end, and never in history."""
REAL_ENDS = [(status, end) for status, end in ENDS.items() if end is not None]


def running(**changes: Any) -> Job:
    """A one-time job whose only run runs."""
    document = {**ONCE, **changes.pop("document", {})}
    return make_job(document=document, next_slot=None, last_slot=NOW, runs={SLOT: make_run()}, fence=1, **changes)


@pytest.mark.parametrize(("status", "end"), list(ENDS.items()))
@pytest.mark.parametrize("final", [True, False])
def test_which_ends_are_dead_letters(status: ExecutionStatus, end: End | None, final: bool) -> None:
    execution = make_execution(status=status, final=final)
    expected = final and end is not None and end.dead_letter
    assert execution.is_dead_letter == expected
    world = Driver().world
    assert announce_dead_letters(world.jobs, world.dead_letters, [execution]) == int(expected)


@pytest.mark.parametrize(("status", "end"), REAL_ENDS)
def test_what_the_row_and_the_world_are_told_of_a_last_end(status: ExecutionStatus, end: End) -> None:
    job = running(silence=Silence(after=60, since=NOW - 500, alerted=True, once=False))
    execution = make_execution(status=status)
    decided = decide_end(job, execution, fence=1, now=NOW + 1)
    assert isinstance(decided, Write)
    last = decided.job.last_run
    assert last is not None
    assert (last.outcome, decided.job.runs) == (end.outcome, {})
    assert decided.job.is_silent != end.breaks_silence
    after = replace(decided.job, seq=job.seq + 1)
    told = events_of(Change(before=job, after=after, at=NOW + 1), {Attempt(SLOT, 1): execution})
    assert [event.type for event in told if event.type is not EventType.RECOVERED] == [end.told]
    assert (EventType.RECOVERED in {event.type for event in told}) == end.breaks_silence


@pytest.mark.parametrize(("status", "end"), [(status, end) for status, end in REAL_ENDS if end.counted])
def test_only_failures_are_retried(status: ExecutionStatus, end: End) -> None:
    """Of what a target may answer."""
    error = ExecutionError(code="HTTP_503", message="no") if end.failed else None
    answer = TargetAnswer(status=status, error=error)
    judged = judge(running(), SLOT, answer, before=(), now=NOW, write_id="w", uniform=middle)
    assert judged.status is status
    assert judged.final != end.failed
    assert (judged.next_retry_at is None) != end.failed


@pytest.mark.parametrize(("status", "end"), REAL_ENDS)
def test_which_ends_are_counted(status: ExecutionStatus, end: End, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    monkeypatch.setattr(telemetry, "_count", lambda name, number, **_: counted.append(name))
    telemetry.attempt_ended(make_execution(status=status))
    assert counted == [telemetry.ATTEMPTS] * end.counted + [telemetry.FAILED_ATTEMPTS] * end.failed


@pytest.mark.parametrize(("status", "end"), list(ENDS.items()))
def test_only_a_success_may_be_kept_in_the_row_alone(status: ExecutionStatus, end: End | None) -> None:
    kept = fits_the_row(make_execution(status=status))
    assert kept == (end is not None and end.outcome is Outcome.COMPLETED)


@pytest.mark.parametrize(
    ("status", "retryable", "code", "health"),
    [
        (ExecutionStatus.COMPLETED, True, None, Health.UP),
        (ExecutionStatus.FAILED, True, "HTTP_503", Health.DOWN),
        (ExecutionStatus.FAILED, False, "HTTP_404", Health.UP),
        (ExecutionStatus.FAILED, False, "PAYLOAD_ERROR", Health.UNKNOWN),
        (ExecutionStatus.TIMED_OUT, True, "TIMEOUT", Health.DOWN),
    ],
)
def test_what_an_answer_says_of_its_target(
    status: ExecutionStatus, retryable: bool, code: str | None, health: Health
) -> None:
    error = None if code is None else ExecutionError(code=code, message="")
    assert health_of(TargetAnswer(status=status, retryable=retryable, error=error)) is health


# --- how a run ends ---


@dataclass(frozen=True)
class Ended:
    at_rest: JobStatus
    """Of a job that does not run again."""
    in_graph: JobStatus
    """Of one that depends on others."""
    meets: frozenset[On]
    unmet: str
    retry: bool
    """Whether a caller may have it tried again."""
    verdict: ExecutionStatus | None
    """How history has a run that ends so without an attempt; None where none does."""


OUTCOMES = {
    Outcome.COMPLETED: Ended(
        JobStatus.COMPLETED,
        JobStatus.COMPLETED,
        frozenset({On.SUCCESS, On.COMPLETION}),
        "UPSTREAM_SUCCEEDED",
        retry=False,
        verdict=None,
    ),
    Outcome.PERMANENTLY_FAILED: Ended(
        JobStatus.FAILED,
        JobStatus.FAILED,
        frozenset({On.FAILURE, On.COMPLETION}),
        "UPSTREAM_FAILED",
        retry=True,
        verdict=ExecutionStatus.FAILED,
    ),
    Outcome.CANCELLED: Ended(
        JobStatus.CANCELLED,
        JobStatus.CANCELLED,
        frozenset(),
        "UPSTREAM_CANCELLED",
        retry=False,
        verdict=ExecutionStatus.CANCELLED,
    ),
    Outcome.SKIPPED: Ended(
        JobStatus.FAILED,
        JobStatus.SKIPPED,
        frozenset(),
        "UPSTREAM_SKIPPED",
        retry=False,
        verdict=ExecutionStatus.SKIPPED,
    ),
}
ONS = dict.fromkeys(On)
"""Each is in `meets` of OUTCOMES."""


def over(outcome: Outcome, **changes: Any) -> Job:
    return make_job(document=ONCE, next_slot=None, last_slot=NOW, last_run=LastRun(outcome=outcome, **LAST), **changes)


@pytest.mark.parametrize(("outcome", "ended"), list(OUTCOMES.items()))
def test_how_a_job_stands_after_its_last_run(outcome: Outcome, ended: Ended) -> None:
    job = over(outcome)
    assert job.status is ended.at_rest
    assert replace(job, upstream=Upstream(marks=(), look_at=None)).status is ended.in_graph
    # What else there is counts more.
    assert replace(job, cancelled=True).status is JobStatus.CANCELLED
    assert replace(job, next_slot=NOW + 60).status is JobStatus.SCHEDULED


@pytest.mark.parametrize(("outcome", "ended"), list(OUTCOMES.items()))
def test_which_runs_may_be_tried_again(outcome: Outcome, ended: Ended) -> None:
    job = over(outcome)

    def retry() -> Any:
        return decide_retry(job, delay=0, now=NOW + 1, write_id="w", by=ALICE)

    if ended.retry:
        assert retry().job.runs[SLOT].forced
    else:
        with pytest.raises(ConflictError):
            retry()
    assert Member(name="a", job_id=JOB_ID, job=job).can_be_retried == ended.retry


@pytest.mark.parametrize(("outcome", "on"), list(product(Outcome, On)))
def test_which_ends_meet_a_dependency(outcome: Outcome, on: On) -> None:
    ended = OUTCOMES[outcome]
    said = unmet(Dependency(job_id=JOB_ID, on=on), LastRun(outcome=outcome, **LAST), lambda _: True)
    assert said == (None if on in ended.meets else ended.unmet)
    dropped = LastRun(outcome=outcome, error_code="RESULT_TOO_LARGE", **LAST)
    assert (dropped.missing_result_code is not None) == (outcome is Outcome.COMPLETED)


@pytest.mark.parametrize(("outcome", "ended"), list(OUTCOMES.items()))
def test_how_a_verdict_is_kept(outcome: Outcome, ended: Ended) -> None:
    run = make_run(state=RunState.WAITING, verdict=outcome, verdict_for="UPSTREAM_FAILED")
    if ended.verdict is None:
        with pytest.raises(KeyError):
            expired(JOB_ID, SLOT, run, reason="UPSTREAM_FAILED", now=NOW, write_id="w")
        return
    row = expired(JOB_ID, SLOT, run, reason="UPSTREAM_FAILED", now=NOW, write_id="w")
    assert (row.status, row.final, row.error is not None) == (
        ended.verdict,
        True,
        ended.verdict is ExecutionStatus.FAILED,
    )


# --- where a run stands ---


@dataclass(frozen=True)
class Stands:
    active: bool
    status: JobStatus
    looked_at: int | None
    """When somebody must look at its job."""
    attempt: int
    fires: bool
    """Whether a hint for its next attempt starts it."""


STATES = {
    RunState.RUNNING: Stands(True, JobStatus.RUNNING, NOW + 75, 1, fires=False),
    RunState.WAITING: Stands(True, JobStatus.SCHEDULED, NOW + 30, 1, fires=True),
    RunState.QUEUED: Stands(False, JobStatus.SCHEDULED, None, 1, fires=False),
}


@pytest.mark.parametrize(("state", "stands"), list(STATES.items()))
def test_where_a_run_stands(state: RunState, stands: Stands) -> None:
    run = make_run(state=state)
    job = make_job(document=ONCE, next_slot=None, last_slot=NOW, runs={SLOT: run})
    assert (job.has_active, job.status, job.bound(NOW)) == (stands.active, stands.status, stands.looked_at)
    assert run.current_attempt == stands.attempt
    decided = decide_hint(job, make_hint(attempt=run.attempt + 1), now=NOW, write_id="w")
    assert isinstance(decided, Write) == stands.fires
    waits = replace(run, waits_for="key:team-a|db", deferred_at=NOW)
    assert (replace(job, runs={SLOT: waits}).waiting is not None) == (state is RunState.WAITING)
    assert replace(run, waits_for=APPROVAL).at_gate == (state is RunState.WAITING)
    assert run.is_first == (state is RunState.WAITING)


# --- policies ---


OVERLAPS: Mapping[OverlapPolicy, Mapping[str, tuple[str | None, bool]]] = {
    # What becomes of a slot that is due, and whether a caller may have another run.
    OverlapPolicy.SKIP: {"none": ("STARTED", True), "one": ("OVERLAP", False), "two": ("OVERLAP", False)},
    OverlapPolicy.QUEUE: {"none": ("STARTED", True), "one": ("QUEUED", True), "two": ("OVERLAP", False)},
    OverlapPolicy.ALLOW: {"none": ("STARTED", True), "one": ("STARTED", True), "two": ("STARTED", True)},
}
ACTIVE = {
    "none": {},
    "one": {slot_id(NOW - 60): make_run()},
    "two": {slot_id(NOW - 60): make_run(), slot_id(NOW - 30): make_run(state=RunState.QUEUED)},
}


@pytest.mark.parametrize(("policy", "active"), list(product(OverlapPolicy, ACTIVE)))
def test_what_comes_of_a_slot_beside_other_runs(policy: OverlapPolicy, active: str) -> None:
    said, may_execute = OVERLAPS[policy][active]
    job = make_job(
        document={"overlapPolicy": policy.value}, next_slot=NOW, last_slot=None, runs=ACTIVE[active], fence=1
    )
    decided = decide_hint(job, make_hint(), now=NOW, write_id="w")
    assert isinstance(decided, Write)
    assert decided.reason == said

    def execute() -> Write:
        return decide_execute(job, f"{SLOT}maaaaaaaa", now=NOW, write_id="w", by=ALICE)

    if may_execute:
        assert len(execute().job.runs) == len(job.runs) + 1
    else:
        with pytest.raises(ConflictError):
            execute()


MISFIRES: Mapping[MisfirePolicy, tuple[str, int | None, int, int | None]] = {
    # Of five slots, a minute apart, that are all too late: what is done, which one runs, how many are skipped, and up
    # to which others follow at once.
    MisfirePolicy.RUN_ONCE: ("STARTED", NOW + 240, 4, None),
    MisfirePolicy.SKIP: ("MISFIRE", None, 5, None),
    MisfirePolicy.RUN_ALL: ("STARTED", NOW, 0, NOW + 240),
}


@pytest.mark.parametrize(("policy", "expected"), list(MISFIRES.items()))
def test_what_comes_of_slots_that_are_too_late(
    policy: MisfirePolicy, expected: tuple[str, int | None, int, int | None]
) -> None:
    job = make_job(document={"misfirePolicy": policy.value}, created_at=NOW - 60, next_slot=NOW)
    decided = decide_hint(job, make_hint(), now=NOW + 302, write_id="w")
    assert isinstance(decided, Write)
    row, runs = decided.job, [int(slot) for slot in decided.job.runs]
    skipped = 0 if row.gap is None else row.gap.count
    assert (decided.reason, runs[0] if runs else None, skipped, row.catch_up_to) == expected
    in_time = decide_hint(job, make_hint(), now=NOW + 60, write_id="w")
    assert isinstance(in_time, Write)
    assert (in_time.reason, in_time.job.gap, in_time.job.catch_up_to) == ("STARTED", None, None)


DELAYS = {
    BackoffStrategy.EXPONENTIAL: [10, 20, 40, 60, 60],
    BackoffStrategy.LINEAR: [10, 20, 30, 40, 50],
    BackoffStrategy.FIXED: [10, 10, 10, 10, 10],
}


@pytest.mark.parametrize(("strategy", "delays"), list(DELAYS.items()))
def test_how_long_each_strategy_waits(strategy: BackoffStrategy, delays: list[int]) -> None:
    policy = RetryPolicy(
        max_retries=9, backoff_strategy=strategy, jitter=0, initial_delay_seconds=10, max_delay_seconds=60
    )
    found = [
        policy.decide(Failure("X"), attempt=attempt, attempt_limit=10, slot=NOW, now=NOW, uniform=middle).next_retry_at
        for attempt in range(1, 6)
    ]
    assert found == [NOW + delay for delay in delays]


WAYS: Mapping[Completion, Mapping[str, tuple[PathKind, bool, bool]]] = {
    # By what the definition says besides: the way of its attempts, whether a first success may be kept in the row
    # alone, and whether the attempt waits for a report.
    Completion.RESPONSE: {
        "short": (PathKind.DIRECT, True, False),
        "long": (PathKind.STATE_MACHINE, False, False),
        "orchestrated": (PathKind.STATE_MACHINE, False, False),
        "worker": (PathKind.PULLED, False, True),
    },
    Completion.CALLBACK: {
        "short": (PathKind.DIRECT, False, True),
        "long": (PathKind.DIRECT, False, True),
        "orchestrated": (PathKind.DIRECT, False, True),
    },
}
SAYS: Mapping[str, Mapping[str, Any]] = {
    "short": {"timeoutSeconds": 60},
    "long": {"timeoutSeconds": 61},
    "orchestrated": {"orchestrated": True, "timeoutSeconds": 30},
    "worker": {"target": {"type": "worker", "queue": "q"}, "timeoutSeconds": 600},
}
PATHS: Mapping[PathKind, tuple[dict[str, Any], int]] = {
    # A definition whose attempts have 700 seconds, and how many of them the call of the target may take.
    PathKind.DIRECT: ({"completion": "callback"}, 60),
    PathKind.STATE_MACHINE: ({}, 700),
    PathKind.PULLED: ({"target": SAYS["worker"]["target"]}, 700),
}


@pytest.mark.parametrize(("kind", "expected"), list(PATHS.items()))
def test_how_long_a_call_may_take(kind: PathKind, expected: tuple[dict[str, Any], int]) -> None:
    says, seconds = expected
    definition = make_definition(**ONCE, timeoutSeconds=700, **says)
    assert (path_of(definition).kind, call_seconds(definition)) == (kind, seconds)


@pytest.mark.parametrize(("completion", "what"), [(one, what) for one, ways in WAYS.items() for what in ways])
def test_which_way_an_attempt_goes(completion: Completion, what: str) -> None:
    kind, lean, reported = WAYS[completion][what]
    definition = make_definition(**ONCE, completion=completion.value, **SAYS[what])
    assert path_of(definition).kind is kind
    assert may_be_lean(definition) == lean
    job = make_job(definition=definition, next_slot=None)
    run = make_run(state=RunState.WAITING)
    worker = "w" if kind is PathKind.PULLED else None
    row = started(job, SLOT, run, definition, now=NOW, write_id="w", worker_id=worker)
    assert (row.runs[SLOT].deadline_at is not None) == reported


SCHEDULES: Mapping[ScheduleType, tuple[dict[str, Any], bool, list[int]]] = {
    # A document, whether it recurs, and its slots of five minutes.
    ScheduleType.CRON: ({"schedule": {"type": "cron", "expression": "*/2 * * * *"}}, True, [NOW + 120, NOW + 240]),
    ScheduleType.INTERVAL: ({"schedule": {"type": "interval", "everySeconds": 150}}, True, [NOW + 150, NOW + 300]),
    ScheduleType.ONCE: ({"schedule": {"type": "once", "at": "2027-01-15T08:01:00Z"}}, False, [NOW + 60]),
    ScheduleType.UPSTREAM: ({"dependsOn": [{"jobId": PARENT}]}, True, []),
}


@pytest.mark.parametrize(("kind", "expected"), list(SCHEDULES.items()))
def test_when_a_schedule_is_due(kind: ScheduleType, expected: tuple[dict[str, Any], bool, list[int]]) -> None:
    document, recurring, slots = expected
    schedule = Schedule.read(document, job_id=JOB_ID, created_at=NOW)
    assert (schedule.type, schedule.recurring) == (kind, recurring)
    found, at = [], NOW
    while (slot := schedule.next_after(at)) is not None and slot <= NOW + 300:
        found.append(slot)
        at = slot
    assert found == slots
    assert schedule.count(NOW + 1, NOW + 300) == len(slots)
    assert schedule.last_at_or_before(NOW + 300) == (slots[-1] if slots else None)
    schedule.check(now=NOW)


# --- gates ---


ON_TIMEOUT = {OnTimeout.REJECT: (Decision.REJECTED, Outcome.CANCELLED), OnTimeout.APPROVE: (Decision.APPROVED, None)}
DECISIONS = {Decision.APPROVED: (None, None), Decision.REJECTED: (Outcome.CANCELLED, "REJECTED")}


def at_gate(on_timeout: OnTimeout = OnTimeout.REJECT) -> Job:
    gate = {"role": "admin", "timeoutSeconds": 100, "onTimeout": on_timeout.value}
    run = make_run(state=RunState.WAITING, waits_for=APPROVAL, due_at=NOW + 100)
    return make_job(document={**ONCE, "approval": gate}, next_slot=None, last_slot=NOW, runs={SLOT: run})


@pytest.mark.parametrize(("on_timeout", "expected"), list(ON_TIMEOUT.items()))
def test_what_the_end_of_a_gates_time_decides(on_timeout: OnTimeout, expected: tuple[Decision, Outcome | None]) -> None:
    job = at_gate(on_timeout)
    policy = gate_before(job.defined, job.runs[SLOT])
    assert policy is not None
    assert policy == ApprovalPolicy(role="admin", timeout_seconds=100, on_timeout=on_timeout)
    decided = time_over(job, SLOT, job.runs[SLOT], policy, job.defined, now=NOW + 100)
    run = decided.job.runs[SLOT] if isinstance(decided, Write) else decided
    assert run.approval is not None
    assert (run.approval.decision, run.verdict) == expected


@pytest.mark.parametrize(("decision", "expected"), list(DECISIONS.items()))
def test_what_a_decision_means_for_its_run(decision: Decision, expected: tuple[Outcome | None, str | None]) -> None:
    decided = decide_gate(at_gate(), SLOT, decision, by=BOB, comment=None, now=NOW + 5, write_id="w")
    run = decided.job.runs[SLOT]
    assert (run.verdict, run.verdict_for, run.at_gate) == (*expected, False)
    assert run.approval is not None
    assert (run.approval.decision, run.approval.subject is not None) == (decision, decision is Decision.APPROVED)


# --- circuits ---


CIRCUITS: Mapping[CircuitState, tuple[Circuit, Mapping[str, Admission]]] = {
    CircuitState.CLOSED: (Circuit(key="k", failures=4), {"nobody": Admission.GO}),
    CircuitState.OPEN: (Circuit(key="k", open_until=NOW + 1), {"nobody": Admission.BLOCKED, "mine": Admission.BLOCKED}),
    CircuitState.HALF_OPEN: (
        Circuit(key="k", open_until=NOW),
        {
            "nobody": Admission.PROBE,
            "mine": Admission.PROBE,
            "anothers": Admission.BLOCKED,
            "anothers, late": Admission.TAKE_OVER,
        },
    ),
}
PROBES = {
    "nobody": None,
    "mine": Probe(execution_id="e", until=NOW - 5),
    "anothers": Probe(execution_id="x", until=NOW + 1),
    "anothers, late": Probe(execution_id="x", until=NOW),
}
HEALTHS: Mapping[Health, tuple[int | None, str]] = {
    # Failures of a closed circuit that had three, None for no change; and what a probe's end leaves.
    Health.UP: (0, "closed"),
    Health.DOWN: (4, "open"),
    Health.UNKNOWN: (None, "half open, without a probe"),
}


@pytest.mark.parametrize(
    ("state", "probe"), [(state, probe) for state, (_, said) in CIRCUITS.items() for probe in said]
)
def test_whom_a_circuit_lets_through(state: CircuitState, probe: str) -> None:
    circuit, said = CIRCUITS[state]
    circuit = replace(circuit, probe=PROBES[probe])
    assert circuit.state(NOW) is state
    assert admission(circuit, "e", now=NOW) is said[probe]


@pytest.mark.parametrize(("health", "expected"), list(HEALTHS.items()))
def test_what_an_attempt_says_of_its_target(health: Health, expected: tuple[int | None, str]) -> None:
    failures, left = expected
    counted = after_end(Circuit(key="k", failures=3), CircuitPolicy(), "e", health, started_at=NOW, now=NOW)
    assert (None if counted is None else counted.failures) == failures
    opened = Circuit(key="k", failures=5, open_until=NOW, probe=Probe(execution_id="e", until=NOW + 9))
    after = after_end(opened, CircuitPolicy(), "e", health, started_at=NOW, now=NOW)
    assert after is not None
    state = after.state(NOW).value.lower().replace("_", " ")
    assert state + (", without a probe" if state == "half open" and after.probe is None else "") == left


# --- graphs ---


FAILURES = {
    UpstreamFailure.SKIP: Outcome.SKIPPED,
    UpstreamFailure.FAIL: Outcome.PERMANENTLY_FAILED,
    UpstreamFailure.RUN: None,
}
JOINS: Mapping[Join, int] = {Join.ALL: 0, Join.ANY: 1}
"""Runs that the child has after one of two parents has ended."""


def with_parents(driver: Driver, count: int, **changes: Any) -> tuple[list[Job], Job]:
    parents = [driver.create(schedule={"type": "once", "at": f"2027-01-15T09:0{n}:00Z"}) for n in range(count)]
    depends = [{"jobId": parent.id} for parent in parents]
    return parents, driver.create(schedule=None, dependsOn=depends, **changes)


@pytest.mark.parametrize(("policy", "outcome"), list(FAILURES.items()))
def test_what_comes_of_a_run_whose_dependency_is_not_met(policy: UpstreamFailure, outcome: Outcome | None) -> None:
    driver = Driver()
    error = ExecutionError(code="HTTP_404", message="")
    driver.world.targets.answers = [
        TargetAnswer(status=ExecutionStatus.FAILED, error=error, retryable=False),
        TargetAnswer(status=ExecutionStatus.COMPLETED),
    ]
    _, child = with_parents(driver, 1, onUpstreamFailure=policy.value)
    driver.run(3_700)
    last = driver.row(child.id).last_run
    assert last is not None
    assert last.outcome is (outcome or Outcome.COMPLETED)
    assert (last.reason is not None) == (outcome is not None)


@pytest.mark.parametrize(("join", "runs"), list(JOINS.items()))
def test_which_parents_a_join_waits_for(join: Join, runs: int) -> None:
    driver = Driver()
    _, child = with_parents(driver, 2, join=join.value)
    driver.run(3_600 + 30)
    assert len(driver.executions(child.id)) == runs
    driver.run(600)
    assert len(driver.executions(child.id)) == 1


# --- jobs and workflows ---


@dataclass(frozen=True)
class Shown:
    job: Callable[[], Job]
    waits_for: WaitsFor | None
    workflow: WorkflowStatus
    """Of one that has this job alone."""


RESTS = {"document": ONCE, "next_slot": None, "last_slot": NOW}
JOBS: Mapping[JobStatus, Shown] = {
    JobStatus.SCHEDULED: Shown(lambda: make_job(next_slot=NOW + 60), WaitsFor.TIME, WorkflowStatus.WAITING),
    JobStatus.BLOCKED: Shown(at_gate, WaitsFor.APPROVAL, WorkflowStatus.WAITING),
    JobStatus.RUNNING: Shown(running, None, WorkflowStatus.RUNNING),
    JobStatus.RETRYING: Shown(
        lambda: make_job(**RESTS, runs={SLOT: make_run(state=RunState.WAITING, attempt=1, due_at=NOW + 60)}),
        None,
        WorkflowStatus.RUNNING,
    ),
    JobStatus.PAUSED: Shown(lambda: make_job(next_slot=NOW + 60, paused=True), WaitsFor.RESUME, WorkflowStatus.WAITING),
    JobStatus.COMPLETED: Shown(lambda: over(Outcome.COMPLETED), None, WorkflowStatus.COMPLETED),
    JobStatus.FAILED: Shown(lambda: over(Outcome.PERMANENTLY_FAILED), None, WorkflowStatus.FAILED),
    JobStatus.CANCELLED: Shown(lambda: over(Outcome.COMPLETED, cancelled=True), None, WorkflowStatus.CANCELLED),
    JobStatus.SKIPPED: Shown(
        lambda: over(Outcome.SKIPPED, upstream=Upstream(marks=(), look_at=None)), None, WorkflowStatus.COMPLETED
    ),
}
WAITS = {
    WaitsFor.TIME: JobStatus.SCHEDULED,
    WaitsFor.APPROVAL: JobStatus.BLOCKED,
    WaitsFor.JOBS: JobStatus.BLOCKED,
    WaitsFor.RESUME: JobStatus.PAUSED,
    WaitsFor.TURN: JobStatus.SCHEDULED,
}


@pytest.mark.parametrize(("status", "shown"), list(JOBS.items()))
def test_how_a_job_is_shown(status: JobStatus, shown: Shown) -> None:
    job = shown.job()
    member = Member(name="a", job_id=job.id, job=job)
    assert job.status is status
    assert member.waits_for is shown.waits_for
    assert status_of([member], {job.id: job}, now=NOW) is shown.workflow
    assert f":::{status.value.lower()}\n" in mermaid_text([member])
    assert f"classDef {status.value.lower()} fill:" in mermaid_text([member])
    assert json.loads(job_text(job))["status"] == status.value


@pytest.mark.parametrize(("waits", "status"), list(WAITS.items()))
def test_what_a_job_waits_for(waits: WaitsFor, status: JobStatus) -> None:
    job = JOBS[status].job()
    if waits is WaitsFor.JOBS:
        document = {"dependsOn": [{"jobId": PARENT}], "schedule": None}
        up = Upstream(marks=(0,), look_at=NOW + 60)
        job = make_job(document=document, next_slot=None, upstream=up)
    if waits is WaitsFor.TURN:
        offered = make_run(state=RunState.WAITING, attempt=0, due_at=NOW, waits_for="type:reports")
        job = make_job(runs={slot_id(NOW): offered}, next_slot=None)
    member = Member(name="a", job_id=job.id, job=job)
    assert (member.status, member.waits_for) == (status, waits)
    assert bool(member.blocking()) == (waits is WaitsFor.JOBS)


WORKFLOWS: Mapping[WorkflowStatus, list[list[JobStatus]]] = {
    # What comes first counts more.
    WorkflowStatus.RUNNING: [[JobStatus.RUNNING, one] for one in JobStatus],
    WorkflowStatus.WAITING: [
        [waits, ended]
        for waits in (JobStatus.SCHEDULED, JobStatus.BLOCKED, JobStatus.PAUSED)
        for ended in (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.SKIPPED)
    ],
    WorkflowStatus.FAILED: [
        [JobStatus.FAILED, one] for one in (JobStatus.COMPLETED, JobStatus.CANCELLED, JobStatus.SKIPPED)
    ],
    WorkflowStatus.CANCELLED: [[JobStatus.CANCELLED, one] for one in (JobStatus.COMPLETED, JobStatus.SKIPPED)],
    WorkflowStatus.COMPLETED: [[JobStatus.COMPLETED, JobStatus.SKIPPED]],
}


@pytest.mark.parametrize(("status", "jobs"), [(status, jobs) for status, cases in WORKFLOWS.items() for jobs in cases])
def test_how_a_workflow_of_two_stands(status: WorkflowStatus, jobs: list[JobStatus]) -> None:
    for order in (jobs, jobs[::-1]):
        members = [
            Member(name=name, job_id=name, job=replace(JOBS[one].job(), id=name))
            for name, one in zip("ab", order, strict=True)
        ]
        rows = {member.job_id: member.job for member in members if member.job is not None}
        assert status_of(members, rows, now=NOW) is status


# --- what is kept, and who calls ---


SKIPS = dict.fromkeys(SkipReason)


@pytest.mark.parametrize("reason", list(SKIPS))
def test_each_reason_of_a_gap_is_kept_and_told(reason: SkipReason) -> None:
    before = make_job()
    gap = Gap(first=NOW - 120, last=NOW - 60, count=2, reason=reason)
    after = replace(before, gap=gap, seq=before.seq + 1)
    assert image(after).gap == gap
    [told] = events_of(Change(before=before, after=after, at=NOW), {})
    assert (told.type, told.facts["reason"], told.facts["count"]) == (EventType.SKIPPED, reason.value, 2)


PRIORITIES = dict.fromkeys(Priority)


@pytest.mark.parametrize("priority", list(PRIORITIES))
def test_a_hint_goes_to_the_queue_of_its_jobs_priority(priority: Priority) -> None:
    driver = Driver()
    driver.create(schedule=ONCE["schedule"], priority=priority.value)
    assert [delivery.priority for delivery in driver.world.timetable.sent] == [priority]


WORKERS: Mapping[WorkerStatus, tuple[bool, int]] = {
    # Draining, and seconds since it was seen.
    WorkerStatus.ACTIVE: (False, 90),
    WorkerStatus.DRAINING: (True, 90),
    WorkerStatus.OFFLINE: (False, 91),
}


@pytest.mark.parametrize(("status", "expected"), list(WORKERS.items()))
def test_how_a_worker_stands(status: WorkerStatus, expected: tuple[bool, int]) -> None:
    draining, silent = expected
    worker = Worker(
        id="w",
        owner="team-a",
        created_by="alice",
        name="",
        queues=("q",),
        max_items=1,
        registered_at=NOW - 1_000,
        seen_at=NOW - silent,
        draining=draining,
    )
    assert worker.status(NOW) is status


ROLES: Mapping[Role, tuple[bool, bool, bool, bool]] = {
    # Reads others', writes, changes others', administers.
    Role.ADMIN: (True, True, True, True),
    Role.SCHEDULER: (True, True, False, False),
    Role.READER: (True, False, False, False),
    Role.VIEWER: (False, False, False, False),
    Role.REPORTER: (False, False, False, False),
}


@pytest.mark.parametrize(("role", "expected"), list(ROLES.items()))
def test_what_a_role_may(role: Role, expected: tuple[bool, bool, bool, bool]) -> None:
    caller = Caller(id="a", owner="a", roles=frozenset({role}))

    def may(check: Callable[[], None]) -> bool:
        try:
            check()
        except (ForbiddenError, NotFoundError):
            return False
        return True

    found = (
        may(lambda: caller.must_read("b")),
        may(caller.must_write),
        may(lambda: caller.must_change("b")),
        may(lambda: caller.must_administer("it")),
    )
    assert found == expected
    assert may(lambda: caller.must_read("a"))
    assert may(lambda: caller.must_change("a")) == found[1]
    assert caller.must_list(None, "jobs") == caller.must_list("a", "jobs") == ("a",)
    assert may(lambda: caller.must_list("*", "jobs")) == may(lambda: caller.must_list("b", "jobs")) == found[0]


EVENTS = {model.type: model for model in MODELS}
ADMISSIONS = {said: None for _, by_probe in CIRCUITS.values() for said in by_probe.values()}


STATED_ELSEWHERE = (Extent, Hold, WaitKind)
"""In test_target_result.py, test_who_holds.py and test_waiting.py."""
ACTORS = {
    ActorKind.PERSON: (user("ann", "admin"), "ann", "app"),
    ActorKind.MACHINE: (machine("bot", "gnomon/write"), "bot", "bot"),
    ActorKind.SYSTEM: None,
}
"""The claims of a caller of this kind, and what is told of it; none calls for the product."""


@pytest.mark.parametrize("kind", [ActorKind.PERSON, ActorKind.MACHINE])
def test_who_calls_by_its_token(kind: ActorKind) -> None:
    stated = ACTORS[kind]
    assert stated is not None
    claims, actor_id, client_id = stated
    actor = caller_of(claims).actor
    assert actor == Actor(id=actor_id, kind=kind, client_id=client_id)
    assert Actor.read(actor.as_text()) == actor


GATES = {
    GateChanged.ADDED: (None, {"role": "admin", "timeoutSeconds": 60}),
    GateChanged.CHANGED: ({"role": "admin", "timeoutSeconds": 60}, {"role": "admin", "timeoutSeconds": 61}),
    GateChanged.REMOVED: ({"role": "admin", "timeoutSeconds": 60}, None),
}


@pytest.mark.parametrize("what", list(GateChanged))
def test_what_became_of_a_gate(what: GateChanged) -> None:
    before, after = GATES[what]
    job = make_job(document={"approval": before} if before else {})
    definition = make_definition(**({"approval": after} if after else {}))
    by = Actor(id="ann", kind=ActorKind.PERSON)
    changed = decide_change(job, definition, enabled=None, now=NOW + 1, write_id="w", by=by)
    assert isinstance(changed, Write)
    assert changed.job.gate_change == GateChange(revision=2, what=what)
    again = decide_change(changed.job, definition, enabled=True, now=NOW + 2, write_id="x", by=by)
    assert isinstance(again, Drop)


STATED: Mapping[type[enum.Enum], Mapping[Any, Any]] = {
    ActorKind: ACTORS,
    Admission: ADMISSIONS,
    BackoffStrategy: DELAYS,
    CircuitState: CIRCUITS,
    Completion: WAYS,
    Decision: DECISIONS,
    EventType: EVENTS,
    ExecutionStatus: ENDS,
    GateChanged: GATES,
    Health: HEALTHS,
    JobStatus: JOBS,
    Join: JOINS,
    MisfirePolicy: MISFIRES,
    On: ONS,
    OnTimeout: ON_TIMEOUT,
    Outcome: OUTCOMES,
    OverlapPolicy: OVERLAPS,
    PathKind: PATHS,
    Priority: PRIORITIES,
    Role: ROLES,
    RunState: STATES,
    ScheduleType: SCHEDULES,
    SkipReason: SKIPS,
    UpstreamFailure: FAILURES,
    WaitsFor: WAITS,
    WorkerStatus: WORKERS,
    WorkflowStatus: WORKFLOWS,
}


def test_each_enumeration_is_stated_in_full() -> None:
    found = {
        one
        for module in pkgutil.iter_modules(domain.__path__)
        for one in vars(importlib.import_module(f"{domain.__name__}.{module.name}")).values()
        if inspect.isclass(one) and issubclass(one, enum.Enum) and one.__module__.startswith(domain.__name__)
    }
    assert found == STATED.keys() | set(STATED_ELSEWHERE)
    for one, stated in STATED.items():
        assert set(one) == set(stated), one.__name__
