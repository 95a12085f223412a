"""What a hint means: start, fire, end, skip, queue, defer, or nothing (docs/protocol.md, 1.3)."""

from __future__ import annotations

import math
from dataclasses import replace

from functions.domain.approval import NEEDED, gate_before, is_not_the_deadlines, time_over, wait_at_gate
from functions.domain.decision import (
    Deferral,
    Drop,
    Due,
    HintDecision,
    Overdue,
    Resend,
    Verdict,
    Wait,
    Write,
    attention_no_later,
    decide_verdict,
    next_hint,
    pass_over,
    with_attention,
    with_run,
)
from functions.domain.definition import Completion, Definition, MisfirePolicy, OverlapPolicy
from functions.domain.hint import Hint
from functions.domain.ids import slot_id, slot_instant
from functions.domain.job import Job, SkipReason
from functions.domain.lease import CLOCK_SKEW, LEASE_MARGIN, WORKER_LEASE, times_out_at
from functions.domain.overlap import MAX_ACTIVE, must_step_back, refuses_scheduled
from functions.domain.path import call_seconds
from functions.domain.run import ActiveRun, LastRun, Outcome, RunState

CATCH_UP_LIMIT = 100
"""Missed slots that misfire policy `run_all` runs at most; older ones are skipped."""
CIRCUIT_OPEN = "CIRCUIT_OPEN"  # the reason of a deferral by the target's circuit
STARTS_PER_MINUTE = 300
"""Brake of one job: more starts in a minute are a runaway chain (an every-second job has 60)."""


def decide_hint(job: Job, hint: Hint, *, now: float, write_id: str, deferral: Deferral | None = None) -> HintDecision:
    """Decide what the hint means for this row; `deferral` puts off the start it would be.

    Raises CorruptDefinitionError where a definition is needed.
    """
    if job.cancelled:
        return Drop("JOB_CANCELLED")
    run = job.runs.get(hint.slot_id)
    if run is not None and run.state is RunState.RUNNING:
        return _time_out(job, hint, run, now)
    if run is not None:
        return _fire(job, hint, run, now=now, write_id=write_id, deferral=deferral)
    if job.next_slot is not None and hint.slot_id == slot_id(job.next_slot) and hint.attempt == 1:
        return _take_next(job, job.next_slot, now=now, write_id=write_id, deferral=deferral)
    return Drop("NOTHING_DUE")


def _early(due_at: int, now: float) -> Wait | Resend | None:
    if due_at <= now:
        return None
    return Wait(due_at - now) if due_at - now <= CLOCK_SKEW else Resend(due_at)


def _fire(  # noqa: PLR0911 - a line a decision
    job: Job, hint: Hint, run: ActiveRun, *, now: float, write_id: str, deferral: Deferral | None
) -> HintDecision:
    if run.state is not RunState.WAITING or hint.attempt != run.current_attempt:
        return Drop("NOT_WAITING")
    if job.holds(run):
        return Drop("PAUSED")
    if is_not_the_deadlines(run, now):
        return Drop(NEEDED)
    due_at = run.due_at if run.due_at is not None else int(now)
    # Until then a function whose clock is behind takes a decision at the gate.
    early = _early(due_at + CLOCK_SKEW if run.at_gate else due_at, now)
    if early is not None:
        return early
    if run.verdict is not None:
        return Verdict(hint.slot_id, job)
    if is_expired(hint.slot_id, run, job.defined, now):
        return too_late(job, hint.slot_id, now=now)
    passed = _pass_gate(job, hint.slot_id, run, now=now)
    if isinstance(passed, Write):
        return passed
    run = passed
    if must_step_back(job, hint.slot_id):
        return _step_back(job, hint.slot_id, run, now=now)
    deferral = put_off(job, now) or deferral or _offered(job, now)
    if deferral is not None:
        return _wait_on(job, hint.slot_id, run, deferral, now=now)
    row = started(job, hint.slot_id, run, job.defined, now=now, write_id=write_id)
    return Write(job=row, reason="STARTED", hints=deadline_hint(row, hint.slot_id), starts=hint.slot_id)


def _pass_gate(job: Job, slot: str, run: ActiveRun, *, now: float) -> ActiveRun | Write:
    """The run, where it may start; else the write by which it waits at its gate, or ends because nobody decided."""
    policy = gate_before(job.defined, run)
    if policy is None:
        return run
    if run.at_gate:
        return time_over(job, slot, run, policy, job.defined, now=now)
    row, due = wait_at_gate(job, slot, run, policy, now=now)
    return Write(job=row, reason=NEEDED, hints=due)


def _time_out(job: Job, hint: Hint, run: ActiveRun, now: float) -> HintDecision:
    """The hint for a running attempt is that of its deadline, or a copy of the one that started it."""
    ends_at = times_out_at(run)
    if hint.attempt != run.attempt or ends_at is None:
        return Drop("NOT_WAITING")
    return _early(ends_at, now) or Overdue(hint.slot_id, job)


def deadline_hint(row: Job, slot: str) -> tuple[Due, ...]:
    """The hint by which an attempt that waits for a report, a worker's or a callback, times out."""
    run = row.runs[slot]
    ends_at = times_out_at(run)
    return () if ends_at is None else (Due(slot, run.attempt, ends_at),)


def _wait_on(job: Job, slot: str, run: ActiveRun, deferral: Deferral, *, now: float) -> Write | Drop:
    if run.waits_for is not None and run.waits_for == deferral.waits_for:
        return Drop(deferral.reason)
    row, due = _defer(job, slot, run, deferral, now=now)
    return Write(job=row, reason=deferral.reason, hints=due)


def is_expired(slot: str, run: ActiveRun, definition: Definition, now: float) -> bool:
    """Whether a retry comes too late for `retryWindowSeconds`, held back by a pause, say. One asked for never does."""
    return run.attempt > 0 and not run.forced and definition.retry.is_over(slot_instant(slot), now=now)


def _step_back(job: Job, slot: str, run: ActiveRun, *, now: float) -> Write:
    """The run waits for the end of the one that runs."""
    queued = replace(run, state=RunState.QUEUED, waits_for=None, looked_at=None)
    row = replace(with_run(job, slot, queued), wakes=0)
    return Write(job=replace(row, attention_at=attention_no_later(row, int(now))), reason="QUEUED")


def too_late(job: Job, slot: str, *, reason: str = "RETRY_WINDOW_OVER", now: float) -> Write:
    """Give the run that can start no attempt in time its verdict, for a reason of `ending.TOO_LATE`."""
    return decide_verdict(job, slot, outcome=Outcome.PERMANENTLY_FAILED, reason=reason, now=now)


def _take_next(job: Job, slot: int, *, now: float, write_id: str, deferral: Deferral | None) -> HintDecision:
    if job.paused:
        return Drop("PAUSED")
    if job.last_slot is not None and slot <= job.last_slot:
        return Drop("SLOT_TAKEN")
    early = _early(slot + job.spread, now)
    if early is not None:
        return early
    if job.next_waits:
        return Drop("CATCHING_UP")
    definition = job.defined
    if job.runs:
        return _overlap(job, slot, definition, now=now, write_id=write_id, deferral=deferral)
    return _misfire(job, slot, definition, now=now, write_id=write_id, deferral=deferral)


def _overlap(
    job: Job, slot: int, definition: Definition, *, now: float, write_id: str, deferral: Deferral | None
) -> HintDecision:
    """A slot comes due while a run is active: the overlap policy alone decides, slot by slot."""
    if definition.overlap is OverlapPolicy.ALLOW and len(job.runs) < MAX_ACTIVE:
        return _begin(job, slot, definition, now=now, write_id=write_id, deferral=deferral)
    queued = any(run.state is RunState.QUEUED for run in job.runs.values())
    if definition.overlap is OverlapPolicy.QUEUE and not queued:
        waiter = ActiveRun(state=RunState.QUEUED, attempt=0, attempt_limit=1 + definition.retry.max_retries)
        row = with_run(advance(job, slot, definition, started=True), slot_id(slot), waiter)
        row = with_attention(replace(row, wakes=0), int(now))
        return Write(job=row, reason="QUEUED", hints=next_hint(row))
    if _is_last(job, slot, definition) and not refuses_scheduled(job, definition):
        row = with_attention(replace(job, catch_up_to=slot, wakes=0), int(now))
        return Write(job=row, reason="QUEUED")
    return _skip(job, slot, slot, definition, now=now, reason=SkipReason.OVERLAP)


def _is_last(job: Job, slot: int, definition: Definition) -> bool:
    """Whether no slot comes after this one once it has started."""
    return advance(job, slot, definition, started=True).next_slot is None


def _misfire(
    job: Job, slot: int, definition: Definition, *, now: float, write_id: str, deferral: Deferral | None
) -> HintDecision:
    """Nothing is active: start the slot, or do what the misfire policy says where it is more than the grace late.

    One that waited for a run to end was not missed.
    """
    schedule = definition.schedule
    threshold = math.ceil(now - definition.misfire_grace - job.spread) - 1
    waited = job.catch_up_to == slot and _is_last(job, slot, definition)
    if slot > threshold or waited:
        return _begin(job, slot, definition, now=now, write_id=write_id, deferral=deferral)
    latest = schedule.last_at_or_before(threshold)
    if latest is None or latest < slot:  # a slot of an older schedule
        latest = slot
    if definition.misfire is MisfirePolicy.SKIP:
        return _skip(job, slot, latest, definition, now=now, reason=SkipReason.MISFIRE)
    if definition.misfire is MisfirePolicy.RUN_ONCE:
        return _begin(job, latest, definition, now=now, write_id=write_id, deferral=deferral)
    oldest = _oldest_to_catch_up(slot, latest, definition)
    return _begin(replace(job, catch_up_to=latest), oldest, definition, now=now, write_id=write_id, deferral=deferral)


def _oldest_to_catch_up(slot: int, latest: int, definition: Definition) -> int:
    oldest = latest
    for _ in range(CATCH_UP_LIMIT - 1):
        before = definition.schedule.last_at_or_before(oldest - 1)
        if before is None or before < slot:
            break
        oldest = before
    return oldest


def _begin(
    job: Job, slot: int, definition: Definition, *, now: float, write_id: str, deferral: Deferral | None
) -> Write:
    """Start the scheduled run of `slot`; slots between `next_slot` and it are passed over."""
    flush = None
    first = job.next_slot
    if first is not None and first < slot:
        last = max(definition.schedule.last_at_or_before(slot - 1) or first, first)
        gap, flush = pass_over(job, definition.schedule, first=first, last=last, reason=SkipReason.MISFIRE)
        job = replace(job, gap=gap)
    job = advance(job, slot, definition, started=True)
    run = ActiveRun(state=RunState.WAITING, attempt=0, attempt_limit=1 + definition.retry.max_retries, due_at=int(now))
    policy = gate_before(definition, run)
    if policy is not None:
        row, due = wait_at_gate(job, slot_id(slot), run, policy, now=now)
        return Write(job=row, reason=NEEDED, flush=flush, hints=(*next_hint(row), *due))
    deferral = put_off(job, now) or deferral or _offered(job, now)
    if deferral is not None:
        row, due = _defer(job, slot_id(slot), run, deferral, now=now)
        return Write(job=row, reason=deferral.reason, flush=flush, hints=(*next_hint(row), *due))
    row = started(job, slot_id(slot), run, definition, now=now, write_id=write_id)
    hints = (*next_hint(row), *deadline_hint(row, slot_id(slot)))
    return Write(job=row, reason="STARTED", flush=flush, hints=hints, starts=slot_id(slot))


def _skip(job: Job, first: int, last: int, definition: Definition, *, now: float, reason: SkipReason) -> Write:
    gap, flush = pass_over(job, definition.schedule, first=first, last=last, reason=reason)
    row = replace(advance(job, last, definition, started=False), gap=gap, wakes=0)
    if not definition.schedule.recurring:
        missed = LastRun(slot_id=slot_id(last), attempt=0, outcome=Outcome.SKIPPED, fence=row.fence, ended_at=int(now))
        row = replace(row, last_run=missed)
    row = with_attention(row, int(now))
    return Write(job=row, reason=reason.value, flush=flush, hints=next_hint(row))


def advance(job: Job, slot: int, definition: Definition, *, started: bool) -> Job:
    """Move `next_slot` past `slot`, which was started, queued or skipped."""
    starts = job.starts + started
    over = definition.max_runs is not None and starts >= definition.max_runs
    following = None if over else definition.schedule.next_after(slot)
    caught_up = job.catch_up_to is not None and (following is None or following > job.catch_up_to)
    return replace(
        job,
        next_slot=following,
        last_slot=slot,
        starts=starts,
        catch_up_to=None if caught_up else job.catch_up_to,
    )


def started(
    job: Job,
    slot: str,
    run: ActiveRun,
    definition: Definition,
    *,
    now: float,
    write_id: str,
    worker_id: str | None = None,
) -> Job:
    """The row in which attempt `run.attempt + 1` runs under a new fence and lease, a worker's where it is named.

    The lease is for the call alone where a callback follows it: `decide_accept` prolongs it.
    """
    fence, instant = job.fence + 1, math.ceil(now)
    lease = instant + call_seconds(definition) + LEASE_MARGIN
    if worker_id is not None:
        lease = min(lease, instant + WORKER_LEASE)
    reported = worker_id is not None or definition.completion is Completion.CALLBACK
    running = replace(
        run,
        state=RunState.RUNNING,
        attempt=run.attempt + 1,
        fence=fence,
        lease_expires_at=lease,
        started_at=round(now, 3),
        due_at=None,
        forced=False,
        started_by=write_id,
        waits_for=None,
        held_back_at=None,
        granted=None,
        worker_id=worker_id,
        deadline_at=instant + definition.timeout_seconds if reported else None,
    )
    minute = int(now) // 60
    row = replace(
        with_run(job, slot, running),
        fence=fence,
        wakes=0,
        brake_minute=minute,
        brake_count=job.brake_count + 1 if job.brake_minute == minute else 1,
    )
    return replace(row, attention_at=attention_no_later(row, int(now)))


def _defer(job: Job, slot: str, run: ActiveRun, deferral: Deferral, *, now: float) -> tuple[Job, tuple[Due, ...]]:
    """The row in which the run waits, and the hint for it: none where it waits for others."""
    waiting = replace(
        run,
        due_at=deferral.until,
        waits_for=deferral.waits_for,
        looked_at=None,
        deferrals=run.deferrals + 1,
        deferred_for=deferral.reason,
        deferred_at=int(now) if run.deferred_at is None else run.deferred_at,
        held_back_at=_held_back_at(run, deferral, int(now)),
        granted=None,
    )
    row = replace(with_run(job, slot, waiting), wakes=0)
    row = replace(row, attention_at=attention_no_later(row, int(now)))
    return row, () if deferral.waits_for is not None else (Due(slot, run.attempt + 1, deferral.until),)


def _held_back_at(run: ActiveRun, deferral: Deferral, now: int) -> int | None:
    if deferral.reason != CIRCUIT_OPEN:
        return None
    return now if run.deferred_for != CIRCUIT_OPEN or run.held_back_at is None else run.held_back_at


def put_off(job: Job, now: float) -> Deferral | None:
    """The brake: no more starts in this minute."""
    if job.brake_minute == int(now) // 60 and job.brake_count >= STARTS_PER_MINUTE:
        return Deferral(reason="BRAKE", until=(int(now) // 60 + 1) * 60)
    return None


def _offered(job: Job, now: float) -> Deferral | None:
    """What is due is not started here but waits until a worker claims it."""
    queue = job.defined.worker_queue
    if queue is None:
        return None
    return Deferral(reason="WAITS_FOR_WORKER", until=int(now), waits_for=worker_queue(job.owner, queue))


def worker_queue(owner: str, queue: str) -> str:
    """What a worker's job waits for: a claim from this queue of its owner."""
    return f"worker:{owner}/{queue}"
