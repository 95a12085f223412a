"""What the sweep does for a row whose attention is due (docs/protocol.md, 1.4): the first line that applies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from functions.domain.decision import (
    Drop,
    Due,
    Write,
    attention_no_later,
    waiting_hints,
    with_attention,
    without_run,
)
from functions.domain.ending import ended_from_outside, expired, released
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus
from functions.domain.following import look_hint
from functions.domain.ids import slot_id
from functions.domain.job import Job
from functions.domain.lease import LEASE_GRACE, is_free
from functions.domain.permits import calls_over, without_lapsed
from functions.domain.run import APPROVAL, ActiveRun, LastRun, Outcome, RunState

WAKE_BACKOFF = 60
WAKE_BACKOFF_MAX = 900
MAX_WAKES = 10
"""Wakes without progress after which a row is quarantined."""


@dataclass(frozen=True, slots=True)
class Recover:
    """A running attempt's lease is over: its history row decides what became of it."""

    slot_id: str
    run: ActiveRun


@dataclass(frozen=True, slots=True)
class Ask:
    """Somebody must look at the graph; the row says when until one has, and that write moves its attention on: to move
    it now, too, would be dearer than a second message, should nobody have looked when the sweep comes again."""

    hints: tuple[Due, ...]


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The row was woken in vain too often: end what is due as failed, without reading the definition."""

    due: tuple[tuple[str, ActiveRun], ...]


def decide_visit(  # noqa: PLR0911 - a line a decision
    job: Job, *, now: float, read_at: float, feeding: bool, sent: frozenset[Due] = frozenset()
) -> Recover | Quarantine | Ask | Write | Drop:
    """Decide about a row that was read strongly, not before `read_at`: a lease that was over then stays over, one that
    is over by now may have been prolonged since, and history asks for no row's condition.

    `feeding` is False while the queues hold a backlog: then due work is neither woken nor counted (A16).
    `sent` are the hints that this visit has just sent for the runs it recovered: they had no time to start anything.
    """
    instant = int(now)
    silence = job.silence
    if silence is not None and silence.due_at is not None and silence.due_at <= now:
        silent = replace(job, silence=replace(silence, alerted=True))
        # `at` stays due where there is a rest: the visit goes on with it.
        return Write(job=replace(silent, attention_at=attention_no_later(silent, instant)), reason="SILENT")
    over = calls_over(job, until=read_at - LEASE_GRACE, now=now)
    if over is not None:
        return over
    for slot, run in job.runs.items():
        if run.state is RunState.RUNNING and is_free(run, read_at):
            return Recover(slot, run)
    due = tuple(
        hint
        for hint in waiting_hints(job)
        if hint.due_at <= now and hint not in sent and not _waits_for_others(job, hint.slot_id)
    )
    looks = job.look_due is not None and job.look_due <= now and look_hint(instant) not in sent
    early = job.attention_at is not None and job.attention_at > now  # the index lags: its back-off is not over
    if (due or looks) and (early or not feeding):
        return Drop("WATCHED" if early else "BACKLOG")
    if due and job.wakes >= MAX_WAKES:
        return Quarantine(tuple((hint.slot_id, _run_of(job, hint.slot_id)) for hint in due))
    row = without_lapsed(_looked(job, instant), now=instant) if feeding else job
    if looks and not due:
        # One that nobody makes is asked for again and again, and never counted: the job itself may be well.
        return Ask((look_hint(instant),))
    if due:
        wait = min(WAKE_BACKOFF * 2**job.wakes, WAKE_BACKOFF_MAX)
        rest = replace(row, followed=None, upstream=None) if looks else row
        bound = _bound_of_what_is_not_due(rest, {hint.slot_id for hint in due}, instant)
        at = instant + wait if bound is None else min(instant + wait, bound)
        hints = (*due, look_hint(instant)) if looks else due
        return Write(job=replace(row, attention_at=at, wakes=job.wakes + 1), reason="WOKEN", hints=hints)
    settled = replace(row, wakes=0, attention_at=row.bound(instant))
    if job.gap is not None and _only_the_gap(job, instant):
        return Write(job=with_attention(replace(job, gap=None, wakes=0), instant), reason="GAP", flush=job.gap)
    return Drop("WATCHED") if settled == job else Write(job=settled, reason="WATCHED")


def decide_stranded(job: Job, *, now: float) -> Write | Drop:
    """What waits for others under a definition that nobody can read: it is due, so that it is woken and at last
    quarantined, as whatever else cannot be started. Whoever could start it only passes it over."""
    instant = int(now)
    runs = {
        slot: run if run.waits_for in (None, APPROVAL) else replace(run, waits_for=None, due_at=instant)
        for slot, run in job.runs.items()
    }
    if runs == dict(job.runs):
        return Drop("WATCHED")
    return Write(job=with_attention(replace(job, runs=MappingProxyType(runs)), instant), reason="STRANDED")


def quarantined(job: Job, slot: str, run: ActiveRun, *, now: float, write_id: str) -> Execution:
    """The history row that ends a run which could not be started: by its verdict, where it has one."""
    if run.verdict is not None:
        return expired(job.id, slot, run, reason=run.verdict_for or "QUARANTINED", now=now, write_id=write_id)
    message = (
        f"Woken {MAX_WAKES} times without a start: the job's stored definition cannot be read, or no function can."
    )
    return ended_from_outside(
        job.id,
        slot,
        run,
        status=ExecutionStatus.FAILED,
        reason="QUARANTINED",
        now=now,
        write_id=write_id,
        error=ExecutionError(code="QUARANTINED", message=message),
    )


def after_quarantine(job: Job, due: tuple[tuple[str, ActiveRun], ...], *, now: float) -> Write | Drop:
    """The row without the first of what was due, so that each is an end of its own; without all of it, it is at rest: a
    change of its schedule, or a forced retry, revives it.

    A run that was started in the meantime is left to its owner, who finds the history row.
    """
    left = [(slot, run) for slot, run in due if is_still_due(job, slot, run)]
    if not left:
        return Drop("PROGRESS")
    slot, run = left[0]
    ended = LastRun(
        slot_id=slot,
        attempt=run.current_attempt,
        outcome=run.verdict or Outcome.PERMANENTLY_FAILED,
        fence=run.fence,
        ended_at=int(now),
        error_code="QUARANTINED" if run.verdict is None else None,
        reason=run.verdict_for,
        approval=run.approval,
    )
    row = replace(without_run(job, slot), last_run=ended)
    if _is_next(row, slot):
        row = replace(row, next_slot=None, last_slot=row.next_slot, catch_up_to=None)
    # Woken as often as before where more is left: whoever finds it, should this visit die, goes on at once.
    row = replace(released(row, int(now)), gap=None, wakes=job.wakes if len(left) > 1 else 0)
    return Write(job=with_attention(row, int(now)), reason="QUARANTINED", flush=job.gap)


def is_still_due(job: Job, slot: str, run: ActiveRun) -> bool:
    """Whether what was found to be due, the next slot or a waiting run, is in the row as it was."""
    return _is_next(job, slot) or job.runs.get(slot) == run


def _is_next(job: Job, slot: str) -> bool:
    return job.next_slot is not None and slot == slot_id(job.next_slot)


def _looked(job: Job, now: int) -> Job:
    """The row after those who wait for others were looked after."""
    runs = {slot: run.looked(now) for slot, run in job.runs.items()}
    return job if runs == dict(job.runs) else replace(job, runs=MappingProxyType(runs))


def _waits_for_others(job: Job, slot: str) -> bool:
    """Whether the run is due but not ours to wake: whoever frees what it waits for does."""
    run = job.runs.get(slot)
    return run is not None and run.waits_for not in (None, APPROVAL)


def _run_of(job: Job, slot: str) -> ActiveRun:
    return job.runs.get(slot) or ActiveRun(state=RunState.WAITING, attempt=0, attempt_limit=1)


def _bound_of_what_is_not_due(job: Job, due: set[str], now: int) -> int | None:
    rest = job
    for slot in due:
        rest = without_run(rest, slot)
    if job.next_waits or (rest.next_slot is not None and slot_id(rest.next_slot) in due):
        rest = replace(rest, next_slot=None)
    return replace(rest, gap=None).bound(now)


def _only_the_gap(job: Job, now: int) -> bool:
    return replace(job, gap=None, silence=None).bound(now) is None
