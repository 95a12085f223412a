"""What a change of a job's row tells the world: lifecycle events, made from the row before and after one write.

One write may mean several events. Their order is fixed: ends of attempts, skipped slots, what a caller did, decisions
at gates, runs made for other jobs' runs, runs that came to a gate, starts, a wait for others, silence. So an event is
known by the write's `seq` and its place among the write's events, and a change that is read twice makes the same events
with the same ids (docs/events.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from functions.domain.event import Attempt, Change, EventType, LifecycleEvent, Told, attempt_facts, run_facts
from functions.domain.execution import Execution, ExecutionStatus
from functions.domain.graph_events import of_runs, of_wait
from functions.domain.ids import execution_id, is_manual, run_id, slot_id, slot_instant
from functions.domain.job import Gap, Job
from functions.domain.run import ActiveRun, LastRun, Outcome, RunState

LOST = "WORKER_LOST"
_OUTCOMES = {
    ExecutionStatus.COMPLETED: Outcome.COMPLETED,
    ExecutionStatus.CANCELLED: Outcome.CANCELLED,
    ExecutionStatus.SKIPPED: Outcome.SKIPPED,
}


def ended_attempts(change: Change) -> tuple[Attempt, ...]:
    """The attempts whose end the change follows: their history rows say how they ended."""
    if change.before is None:
        return ()
    ended = []
    for slot in sorted(change.before.runs):
        old, new = change.before.runs[slot], change.after.runs.get(slot)
        if new is None or (old.state is RunState.RUNNING and new.state is not RunState.RUNNING):
            ended.append(Attempt(slot, old.current_attempt))
    passed = _ended_unstarted(change.before, change.after)
    return (*ended, *(() if passed is None else (Attempt(passed.slot_id, passed.attempt),)))


def in_history(change: Change) -> tuple[Attempt, ...]:
    """Of `ended_attempts`, those whose end is not in the row itself (a lean end)."""
    last = change.after.last_run
    kept = None if last is None or last.ended_by is None else (last.slot_id, last.attempt)
    return tuple(ended for ended in ended_attempts(change) if ended != kept)


def events_of(change: Change, history: Mapping[Attempt, Execution]) -> tuple[LifecycleEvent, ...]:
    """The events of one write, in their order.

    `history` has the rows of `in_history`; what is not there ended as the job's `last_run` says.
    """
    after = change.after
    told = [*_created(change)] if change.before is None else [*_changed(change.before, change, history)]
    return tuple(
        LifecycleEvent(
            type=one.type,
            source=after.id,
            seq=after.seq,
            index=index,
            time=one.time,
            facts={"job_id": after.id, "owner": after.owner, **one.facts},
        )
        for index, one in enumerate(told)
    )


def _created(change: Change) -> Iterator[Told]:
    after = change.after
    facts = {"next_run_at": after.next_due, "paused": after.paused}
    yield Told(EventType.SCHEDULED, change.at, facts | _by(after))
    yield from of_wait(None, after, change.at)


def _changed(before: Job, change: Change, history: Mapping[Attempt, Execution]) -> Iterator[Told]:
    after = change.after
    for ended in ended_attempts(change):
        yield from _end(before, after, ended, history.get(ended), change.at)
    gap = _skipped(before, after.gap)
    if gap is not None:
        facts = {"first": gap.first, "last": gap.last, "count": gap.count, "reason": gap.reason.value}
        yield Told(EventType.SKIPPED, change.at, facts)
    revised = after.revised_by != before.revised_by
    for one in (*_by_callers(before, after, change.at), *(_asked(before, after, change.at) if revised else ())):
        yield one._replace(facts=one.facts | (_by(after) if revised else {}))
    yield from of_runs(before, after, change.at)
    for slot in sorted(after.runs):
        run, old = after.runs[slot], before.runs.get(slot)
        if run.state is RunState.RUNNING and (old is None or old.state is not RunState.RUNNING):
            facts = attempt_facts(after, slot, run.attempt, worker_id=run.worker_id)
            yield Told(EventType.STARTED, run.started_at or change.at, facts)
    yield from of_wait(before, after, change.at)
    yield from _silence(before, after, change.at)


def _silence(before: Job, after: Job, at: float) -> Iterator[Told]:
    silence, old = after.silence, before.silence
    if after.is_silent and not before.is_silent and silence is not None:
        facts = {
            "silent_since": silence.since,
            "alert_after_seconds": silence.after,
            "last_success_at": silence.last_success_at,
        }
        yield Told(EventType.SILENT, at, facts)
    last = after.last_run
    succeeded = last is not None and last != before.last_run and last.outcome is Outcome.COMPLETED
    if before.is_silent and not after.is_silent and succeeded and old is not None:
        yield Told(EventType.RECOVERED, at, {"silent_since": old.since, "alert_after_seconds": old.after})


def _by_callers(before: Job, after: Job, at: float) -> Iterator[Told]:
    following = None if after.paused else after.next_due
    changed = after.revision > before.revision and _redefined(before, after)
    if changed:
        yield Told(EventType.CHANGED, at, {"revision": after.revision})
    if after.owner != before.owner:
        yield Told(EventType.TRANSFERRED, at, {"previous_owner": before.owner})
    if after.gate_change is not None and after.gate_change != before.gate_change:
        yield Told(EventType.GATE_CHANGED, at, {"gate": after.gate_change.what.value})
    if changed and after.next_due is not None and after.next_due != before.next_due:
        yield Told(EventType.SCHEDULED, at, {"next_run_at": after.next_due, "paused": after.paused})
    if after.paused and not before.paused:
        yield Told(EventType.PAUSED, at, {})
    if before.paused and not after.paused:
        yield Told(EventType.RESUMED, at, {"next_run_at": following})
    if after.cancelled and not before.cancelled:
        yield Told(EventType.CANCELLED, at, {})
    if after.deleted_at is not None and before.deleted_at is None:
        yield Told(EventType.DELETED, at, {})


def _asked(before: Job, after: Job, at: float) -> Iterator[Told]:
    """Runs and retries that a caller asked for."""
    for slot in sorted(after.runs):
        run, old = after.runs[slot], before.runs.get(slot)
        if old is None and is_manual(slot) and not run.forced:
            yield Told(EventType.RUN_REQUESTED, at, run_facts(after, slot))
        if run.forced and run != old and run.state is RunState.WAITING:
            yield _retry(after, slot, run, at)


def _by(after: Job) -> dict[str, Any]:
    return {} if after.acted is None else {"by": after.acted.facts}


def _end(before: Job, after: Job, ended: Attempt, row: Execution | None, at: float) -> Iterator[Told]:
    """How an attempt ended, and what follows for its run."""
    slot, attempt = ended
    run, waiting = before.runs.get(slot), after.runs.get(slot)
    outcome, code, time = _outcome(after, ended, row, at)
    facts = attempt_facts(after, slot, attempt, worker_id=None if run is None else run.worker_id)
    started = run.started_at if run is not None and run.state is RunState.RUNNING else None
    status = _status(row, outcome)
    if outcome is Outcome.COMPLETED:
        yield Told(EventType.COMPLETED, time, facts | {"started_at": started, "error_code": code})
        return
    if outcome is Outcome.CANCELLED:
        facts |= {"started_at": started, "reason": row.reason if row is not None else None}
        if row is not None and row.cancelled_by is not None:
            facts["by"] = row.cancelled_by.facts
        yield Told(EventType.RUN_CANCELLED, time, facts)
        return
    if outcome is Outcome.SKIPPED:
        yield Told(EventType.SKIPPED, time, _skipped_run(after, ended, row))
        return
    if code == LOST:
        yield Told(EventType.WORKER_LOST, time, facts | {"started_at": started})
    facts |= {
        "started_at": started,
        "status": status.value,
        "error_code": code,
        "reason": row.reason if row is not None else None,
    }
    if waiting is None:
        yield Told(EventType.PERMANENTLY_FAILED, time, facts)
        return
    yield Told(EventType.FAILED, time, facts)
    yield _retry(after, slot, waiting, time)


def _retry(after: Job, slot: str, run: ActiveRun, at: float) -> Told:
    facts = attempt_facts(after, slot, run.attempt + 1) | {"next_retry_at": run.due_at, "forced": run.forced}
    return Told(EventType.RETRY_SCHEDULED, at, facts)


def _outcome(after: Job, ended: Attempt, row: Execution | None, at: float) -> tuple[Outcome, str | None, float]:
    """How the attempt ended, its error's code, and when."""
    if row is not None:
        code = row.error.code if row.error is not None else None
        return _OUTCOMES.get(row.status, Outcome.PERMANENTLY_FAILED), code, row.completed_at
    last = after.last_run
    if last is not None and (last.slot_id, last.attempt) == ended:
        return last.outcome, last.error_code, last.ended_at if last.completed_at is None else last.completed_at
    return Outcome.CANCELLED if after.cancelled else Outcome.PERMANENTLY_FAILED, None, at


def _skipped_run(after: Job, ended: Attempt, row: Execution | None) -> dict[str, Any]:
    """A run that ended without an attempt, because those that the job depends on ended otherwise than it needs."""
    slot, attempt = ended
    reason = row.reason if row is not None else after.last_run.reason if after.last_run is not None else None
    ids = {"run_id": run_id(after.id, slot), "execution_id": execution_id(after.id, slot, attempt)}
    return ids | {"first": slot_instant(slot), "last": slot_instant(slot), "count": 1, "reason": reason or ""}


def _status(row: Execution | None, outcome: Outcome) -> ExecutionStatus:
    if row is not None:
        return row.status
    return ExecutionStatus.COMPLETED if outcome is Outcome.COMPLETED else ExecutionStatus.FAILED


def _ended_unstarted(before: Job, after: Job) -> LastRun | None:
    """The next slot's run, if it ended without ever being in the row: it was quarantined. One that was skipped, or
    went with its job, has no attempt."""
    last = after.last_run
    if last is None or last == before.last_run or last.attempt == 0 or last.slot_id in before.runs:
        return None
    return last if before.next_slot is not None and last.slot_id == slot_id(before.next_slot) else None


def _skipped(before: Job, gap: Gap | None) -> Gap | None:
    """The slots that this write passed over: all of a new gap, or what an older one grew by."""
    old = before.gap
    if gap is None or gap == old:
        return None
    if old is None or (gap.first, gap.reason) != (old.first, old.reason):
        return gap
    first = before.next_slot if before.next_slot is not None and before.next_slot > old.last else gap.last
    return Gap(first=first, last=gap.last, count=gap.count - old.count, reason=gap.reason)


def _redefined(before: Job, after: Job) -> bool:
    return before.definition_row != after.definition_row or before.definition != after.definition
