"""What one write of a job's row tells: which events, in which order, with what in them (docs/events.md)."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

from functions.domain.actor import Actor, ActorKind
from functions.domain.event import Attempt, Change, EventType, LifecycleEvent
from functions.domain.events import ended_attempts, events_of, in_history
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus
from functions.domain.ids import execution_id, slot_id
from functions.domain.job import Gap, Job, SkipReason
from functions.domain.run import ActiveRun, LastRun, Outcome, RunState
from tests.factories import JOB_ID, NOW, make_definition, make_execution, make_job, make_run

SLOT = slot_id(NOW)
LATER = NOW + 100


def told(before: Job | None, after: Job, *rows: Execution) -> list[LifecycleEvent]:
    after = after if before is None else replace(after, seq=before.seq + 1)
    history = {Attempt(row.slot_id, row.attempt): row for row in rows}
    return list(events_of(Change(before=before, after=after, at=LATER), history))


def facts(event: LifecycleEvent) -> dict[str, Any]:
    """What an event says besides whose it is."""
    assert (event.facts["job_id"], event.facts["owner"]) == (JOB_ID, "team-a")
    return {name: value for name, value in event.facts.items() if name not in ("job_id", "owner")}


def types(events: list[LifecycleEvent]) -> list[EventType]:
    return [event.type for event in events]


def runs(**entries: ActiveRun) -> MappingProxyType[str, ActiveRun]:
    return MappingProxyType({slot.removeprefix("_"): run for slot, run in entries.items()})


def running(slot: str = SLOT, **changes: Any) -> MappingProxyType[str, ActiveRun]:
    return MappingProxyType({slot: make_run(started_at=NOW + 0.25, **changes)})


def waiting(slot: str = SLOT, **changes: Any) -> MappingProxyType[str, ActiveRun]:
    return MappingProxyType({slot: make_run(state=RunState.WAITING, **changes)})


NOTHING: MappingProxyType[str, ActiveRun] = MappingProxyType({})


def last_run(outcome: Outcome, **changes: Any) -> LastRun:
    given = {"slot_id": SLOT, "attempt": 1, "outcome": outcome, "fence": 1, "ended_at": LATER}
    return LastRun(**given | changes)


def test_a_new_job_is_scheduled() -> None:
    [event] = told(None, make_job(spread=5))

    assert (event.type, event.id, event.time) == (EventType.SCHEDULED, f"{JOB_ID}:1:0", LATER)
    assert facts(event) == {"next_run_at": NOW + 65, "paused": False}
    [made] = told(None, make_job(acted=Actor(id="ann", kind=ActorKind.PERSON)))
    assert made.facts["by"] == {"id": "ann", "kind": "person", "client_id": None}


def test_a_start_names_its_attempt_and_its_instant() -> None:
    before = make_job(next_slot=NOW, seq=4)

    [event] = told(before, replace(before, runs=running(), next_slot=NOW + 60))

    assert (event.type, event.time, event.seq) == (EventType.STARTED, NOW + 0.25, 5)
    assert event.facts["execution_id"] == execution_id(JOB_ID, SLOT, 1)
    assert event.facts["scheduled_for"] == NOW
    assert event.facts["manual"] is False


def test_a_success_is_one_event() -> None:
    before = make_job(runs=running())
    after = replace(before, runs=NOTHING, last_run=last_run(Outcome.COMPLETED))

    [event] = told(before, after, make_execution(completed_at=NOW + 0.5))

    assert (event.type, event.time) == (EventType.COMPLETED, NOW + 0.5)
    assert event.facts["started_at"] == NOW + 0.25


def test_a_success_whose_result_was_not_kept_says_so() -> None:
    before = make_job(runs=running())
    after = replace(before, runs=NOTHING, last_run=last_run(Outcome.COMPLETED, error_code="RESULT_TOO_LARGE"))
    row = make_execution(error=ExecutionError(code="RESULT_TOO_LARGE", message="40000 bytes"))

    for [event] in (told(before, after, row), told(before, after)):
        assert (event.type, event.facts["error_code"]) == (EventType.COMPLETED, "RESULT_TOO_LARGE")


def test_a_success_without_a_row_in_history_is_told_by_the_last_run() -> None:
    before = make_job(runs=running())

    [event] = told(before, replace(before, runs=NOTHING, last_run=last_run(Outcome.COMPLETED)))

    assert (event.type, event.time) == (EventType.COMPLETED, LATER)


def test_a_lean_end_is_told_by_the_row_alone() -> None:
    before = make_job(runs=running())
    kept = last_run(Outcome.COMPLETED, completed_at=NOW + 0.75, started_at=NOW + 0.25, ended_by="w")
    after = replace(before, runs=NOTHING, last_run=kept)

    assert in_history(Change(before=before, after=after, at=LATER)) == ()
    [event] = told(before, after)

    assert (event.type, event.time) == (EventType.COMPLETED, NOW + 0.75)


def test_a_failure_that_is_retried_says_when() -> None:
    before = make_job(runs=running())
    after = replace(before, runs=waiting(attempt=1, due_at=NOW + 30))
    row = make_execution(
        status=ExecutionStatus.TIMED_OUT, final=False, next_retry_at=NOW + 30, reason="RETRY_SCHEDULED"
    )

    failed, retry = told(before, after, row)

    assert (failed.type, retry.type) == (EventType.FAILED, EventType.RETRY_SCHEDULED)
    assert (failed.facts["status"], failed.facts["error_code"]) == ("TIMED_OUT", "HTTP_503")
    assert failed.facts["reason"] == "RETRY_SCHEDULED"
    assert (retry.facts["attempt"], retry.facts["next_retry_at"], retry.facts["forced"]) == (2, NOW + 30, False)


def test_a_lost_owner_is_told_before_what_becomes_of_the_run() -> None:
    before = make_job(runs=running())
    lost = ExecutionError(code="WORKER_LOST", message="")
    row = make_execution(status=ExecutionStatus.FAILED, error=lost)

    events = told(before, replace(before, runs=NOTHING, last_run=last_run(Outcome.PERMANENTLY_FAILED)), row)

    assert types(events) == [EventType.WORKER_LOST, EventType.PERMANENTLY_FAILED]


def test_a_failure_for_good_is_no_other_failure() -> None:
    before = make_job(runs=running())
    row = make_execution(status=ExecutionStatus.FAILED, reason="RETRIES_EXHAUSTED")

    [event] = told(before, replace(before, runs=NOTHING, last_run=last_run(Outcome.PERMANENTLY_FAILED)), row)

    assert event.type is EventType.PERMANENTLY_FAILED
    assert event.facts["reason"] == "RETRIES_EXHAUSTED"


def test_an_end_a_released_run_and_a_gap_in_one_write_have_their_order() -> None:
    """The end first, then the slots that were skipped; the released run is told when it starts."""
    second = slot_id(NOW + 60)
    before = make_job(runs=runs(**{SLOT: make_run(), second: make_run(state=RunState.QUEUED, due_at=None)}))
    gap = Gap(first=NOW + 120, last=NOW + 120, count=1, reason=SkipReason.OVERLAP)
    after = replace(before, runs=waiting(second), last_run=last_run(Outcome.COMPLETED), gap=gap)

    events = told(before, after, make_execution())

    assert types(events) == [EventType.COMPLETED, EventType.SKIPPED]
    assert [event.index for event in events] == [0, 1]


def test_a_gap_that_grows_tells_what_it_grew_by() -> None:
    old = Gap(first=NOW, last=NOW + 60, count=2, reason=SkipReason.OVERLAP)
    before = make_job(gap=old, next_slot=NOW + 120)

    [event] = told(before, replace(before, gap=replace(old, last=NOW + 240, count=5), next_slot=NOW + 300))

    assert facts(event) == {"first": NOW + 120, "last": NOW + 240, "count": 3, "reason": "OVERLAP"}


def test_a_gap_that_is_put_into_history_or_replaced_is_not_told_again() -> None:
    old = Gap(first=NOW, last=NOW + 60, count=2, reason=SkipReason.OVERLAP)
    new = Gap(first=NOW + 120, last=NOW + 120, count=1, reason=SkipReason.PAUSED)
    before = make_job(gap=old, next_slot=NOW + 120)

    assert told(before, replace(before, gap=None)) == []
    [event] = told(before, replace(before, gap=new))
    assert (event.facts["first"], event.facts["count"]) == (NOW + 120, 1)


def test_a_quarantined_slot_that_was_never_in_the_row_is_told() -> None:
    before = make_job(next_slot=NOW)
    failed = last_run(Outcome.PERMANENTLY_FAILED, error_code="QUARANTINED")
    after = replace(before, next_slot=None, last_slot=NOW, last_run=failed)

    assert ended_attempts(Change(before=before, after=after, at=LATER)) == ((SLOT, 1),)
    [event] = told(before, after)

    assert (event.type, event.facts["error_code"]) == (EventType.PERMANENTLY_FAILED, "QUARANTINED")
    assert event.facts["started_at"] is None


def test_a_one_time_slot_that_is_skipped_is_a_skip_and_no_failure() -> None:
    before = make_job(next_slot=NOW)
    gap = Gap(first=NOW, last=NOW, count=1, reason=SkipReason.MISFIRE)
    after = replace(before, next_slot=None, gap=gap, last_run=last_run(Outcome.SKIPPED, attempt=0))

    assert types(told(before, after)) == [EventType.SKIPPED]


def test_a_cancel_ends_every_run_and_then_the_job() -> None:
    second = slot_id(NOW + 60)
    both = {SLOT: make_run(), second: make_run(state=RunState.WAITING, attempt=1)}
    before = make_job(runs=MappingProxyType(both))
    after = replace(before, runs=NOTHING, cancelled=True, next_slot=None, deleted_at=LATER)
    row = make_execution(status=ExecutionStatus.CANCELLED, reason="JOB_CANCELLED")

    events = told(before, after, row, replace(row, slot_id=second, attempt=2, started_at=None))

    expected = [EventType.RUN_CANCELLED, EventType.RUN_CANCELLED, EventType.CANCELLED, EventType.DELETED]
    assert types(events) == expected
    assert [event.facts["attempt"] for event in events[:2]] == [1, 2]
    assert events[0].facts["reason"] == "JOB_CANCELLED"


def test_a_pause_and_a_resume() -> None:
    before = make_job()
    paused = replace(before, paused=True, revision=2)

    assert types(told(before, paused)) == [EventType.PAUSED]
    [resumed] = told(paused, replace(paused, paused=False, revision=3, next_slot=NOW + 120))
    assert (resumed.type, facts(resumed)) == (EventType.RESUMED, {"next_run_at": NOW + 120})


def test_a_change_tells_its_revision_and_a_new_next_run() -> None:
    before = make_job()
    definition = make_definition(schedule={"type": "interval", "everySeconds": 90})
    after = replace(before, definition=definition, revision=2)

    assert types(told(before, after)) == [EventType.CHANGED]
    changed, scheduled = told(before, replace(after, next_slot=NOW + 90))
    assert (facts(changed), scheduled.facts["next_run_at"]) == ({"revision": 2}, NOW + 90)


def test_a_change_is_seen_where_the_definition_has_a_row_of_its_own() -> None:
    before = make_job(definition=None, definition_row="D#1#a")

    assert types(told(before, replace(before, definition_row="D#2#b", revision=2))) == [EventType.CHANGED]
    assert told(before, replace(before, revision=2)) == []


def test_a_forced_retry_is_a_retry_that_somebody_asked_for() -> None:
    before = make_job(last_run=last_run(Outcome.PERMANENTLY_FAILED))
    after = replace(before, runs=waiting(attempt=1, forced=True, manual=True, due_at=NOW + 5), revised_by="other")

    [event] = told(before, after)

    assert (event.type, event.facts["attempt"], event.facts["forced"]) == (EventType.RETRY_SCHEDULED, 2, True)


def test_what_waits_longer_or_is_only_looked_at_is_no_event() -> None:
    before = make_job(runs=waiting(attempt=1, forced=True))
    put_off = make_run(state=RunState.WAITING, attempt=1, forced=True, due_at=NOW + 60, deferrals=1)

    assert told(before, replace(before, runs=MappingProxyType({SLOT: put_off}))) == []
    assert told(before, replace(before, attention_at=NOW + 500, wakes=1)) == []
    revoked = make_job(runs=running())
    assert told(revoked, replace(revoked, fence=9)) == []
