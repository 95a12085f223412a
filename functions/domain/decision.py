"""What an event means for a job's row: a value with a reason, made by pure functions, applied by the use cases.

Only a write that applied has effects; whoever loses the race for it sends nothing (docs/protocol.md, 1.2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from functions.domain.ids import slot_id
from functions.domain.job import Gap, Job, SkipReason
from functions.domain.run import ActiveRun, Outcome, RunState
from functions.domain.schedule import Schedule


class Due(NamedTuple):
    """A hint to send once the write has applied."""

    slot_id: str
    attempt: int
    due_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Replace the row by `job`, on condition that it is still the one the decision was made from."""

    job: Job
    reason: str
    flush: Gap | None = None
    """Slots whose history row is put before this write, because it clears or replaces the gap."""
    hints: tuple[Due, ...] = ()
    starts: str | None = None
    """Slot id of the run whose attempt the winner of this write executes."""
    ends: str | None = None
    """Slot id of the run that this write gave a verdict: the winner records it, and lets the row follow."""
    graph: int | None = None
    """The version of the owner's graph that was read, where this write adds edges between jobs that exist."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Nothing to do."""

    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """The hint is early by no more than clocks differ: look again after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Resend:
    """The hint is early: send it once more for the residual delay."""

    due_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferral:
    """A start that is due is put off. Decided by reads before the claim: a started attempt only ends (V12)."""

    reason: str
    until: int
    """When to look again, epoch seconds; for a run that waits for others, when it began to."""
    waits_for: str | None = None
    """What it waits for besides time: then no hint is sent, whoever frees it does."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The run in this slot has a verdict: history ends it before its next attempt (A10)."""

    slot_id: str
    job: Job


@dataclass(frozen=True, slots=True)
class Overdue:
    """A running attempt that waits for a report has none by its deadline: it ends as timed out."""

    slot_id: str
    job: Job


HintDecision = Write | Drop | Wait | Resend | Verdict | Overdue
"""What a hint comes to. What somebody decides at a gate is `functions.domain.run.Decision`."""


def attention_no_later(job: Job, now: int) -> int | None:
    """`attention_at` for a write that must not move the index key unless it is too late (V1)."""
    bound = job.bound(now)
    if bound is None or job.attention_at is None:
        return bound
    return min(job.attention_at, bound)


def with_attention(job: Job, now: int) -> Job:
    """The row with its attention set to its bound: what a write that may move the index key does."""
    return replace(job, attention_at=job.bound(now))


def with_run(job: Job, slot: str, run: ActiveRun) -> Job:
    return replace(job, runs=MappingProxyType({**job.runs, slot: run}))


def without_run(job: Job, slot: str) -> Job:
    return replace(job, runs=MappingProxyType({key: run for key, run in job.runs.items() if key != slot}))


def decide_verdict(job: Job, slot: str, *, outcome: Outcome, reason: str, now: float) -> Write:
    """Decide in the row that the waiting run in `slot` ends without another attempt. History comes after this write.

    An end by anybody but the owner of an attempt is decided here first: a start, a forced retry or a change that wrote
    the row before is decided about again, and one that comes later finds a run that does not start any more.
    """
    run = condemned(job.runs[slot], outcome=outcome, reason=reason)
    run = replace(run, due_at=min(run.due_at or int(now), int(now)))
    row = replace(with_run(job, slot, run), lean=False, wakes=0)
    row = replace(row, attention_at=attention_no_later(row, int(now)))
    return Write(job=row, reason=reason, ends=slot)


def condemned(run: ActiveRun, *, outcome: Outcome, reason: str) -> ActiveRun:
    """The waiting run with its verdict: it ends without another attempt, whatever pause or wait holds it."""
    return replace(run, verdict=outcome, verdict_for=reason, manual=True, waits_for=None)


def next_hint(job: Job) -> tuple[Due, ...]:
    """The hint for `next_slot`, unless the run before it sends it when it ends (misfire policy `run_all`)."""
    if job.next_slot is None or job.next_due is None or job.next_waits:
        return ()
    return (Due(slot_id(job.next_slot), 1, job.next_due),)


def waiting_hints(job: Job) -> tuple[Due, ...]:
    """Hints for all that waits in the row and that no pause holds."""
    waiting = tuple(
        Due(slot, run.current_attempt, run.due_at or 0)
        for slot, run in job.runs.items()
        if run.state is RunState.WAITING and not job.holds(run)
    )
    return waiting if job.paused else waiting + next_hint(job)


def pass_over(job: Job, schedule: Schedule, *, first: int, last: int, reason: SkipReason) -> tuple[Gap, Gap | None]:
    """Add the slots `first` … `last` to the row's gap; returns the new gap, and the old one where it must be put first.

    A gap is extended only for the same reason, and where no slot was started since: it ends on the last slot taken.
    """
    # At least the one that is known: after an update of the time zones `first` may be no slot of the schedule any more.
    count = max(1, schedule.count(first, last)) if schedule.recurring else 1
    old = job.gap
    if old is None:
        return Gap(first=first, last=last, count=count, reason=reason), None
    if old.reason is reason and job.last_slot == old.last:
        return Gap(first=old.first, last=last, count=old.count + count, reason=reason), None
    return Gap(first=first, last=last, count=count, reason=reason), old
