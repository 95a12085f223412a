"""How an attempt ends: first as a row of history, which is the decision; then in the job's row, which follows it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from functions.domain.decision import Drop, Due, Write, next_hint, waiting_hints, with_attention, with_run, without_run
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus
from functions.domain.ids import MAX_ATTEMPTS, slot_instant
from functions.domain.job import Job
from functions.domain.outcome import TargetAnswer
from functions.domain.permits import with_calls
from functions.domain.retry import POISON_AT, Failure, RetryDecision, RetryPolicy, Uniform
from functions.domain.run import ActiveRun, LastRun, Outcome, RunState
from functions.domain.silence import broken
from functions.domain.upstream import UNMET

_OUTCOMES = {
    ExecutionStatus.COMPLETED: Outcome.COMPLETED,
    ExecutionStatus.FAILED: Outcome.PERMANENTLY_FAILED,
    ExecutionStatus.TIMED_OUT: Outcome.PERMANENTLY_FAILED,
    ExecutionStatus.CANCELLED: Outcome.CANCELLED,
    ExecutionStatus.SKIPPED: Outcome.SKIPPED,
}


UNSPENT = {
    "NOT_STARTED": "The state machine had no room for the attempt.",
    "CIRCUIT_OPEN": "The target's circuit opened before the call.",
    "APPROVAL_NEEDED": "Target or payload were changed between the start and the call: that was not approved.",
}
"""Reasons of attempts that ended without a call and were no fault of their target, and what to say of each. Such an
attempt takes its number with it, and its run may make one more for it."""


def attempts_before(run: ActiveRun, policy: RetryPolicy) -> tuple[int, ...]:
    """The attempts whose errors tell whether that of the running one is poison; none where they cannot matter.

    They are counted from the last one that a caller asked for.
    """
    first = run.attempt - POISON_AT + 1
    if not policy.poison_detection or first < max(1, run.asked_attempt) or run.attempt >= run.attempt_limit:
        return ()
    return tuple(range(first, run.attempt))


def _is_poison(error: ExecutionError | None, before: Sequence[ExecutionError | None]) -> bool:
    """Whether this error and each of the attempts before, as `attempts_before` names them, are one and the same."""
    return bool(before) and error is not None and error.code not in UNSPENT and all(one == error for one in before)


def judge(
    job: Job,
    slot: str,
    answer: TargetAnswer,
    *,
    before: Sequence[ExecutionError | None],
    now: float,
    write_id: str,
    uniform: Uniform,
) -> Execution:
    """The history row for the answer to the attempt that runs in `slot`.

    The instant of a retry is drawn here, and only here.
    `before`: the errors of `attempts_before`.
    """
    run = job.runs[slot]
    next_retry_at, reason = None, None
    if answer.status is not ExecutionStatus.COMPLETED:
        code = answer.error.code if answer.error else "TARGET_ERROR"
        decision = job.defined.retry.decide(
            Failure(code, answer.retryable, answer.retry_after),
            attempt=run.attempt,
            attempt_limit=run.attempt_limit,
            slot=slot_instant(slot),
            now=now,
            uniform=uniform,
        )
        if decision.next_retry_at is not None and _is_poison(answer.error, before):
            decision = RetryDecision(None, "POISON")
        next_retry_at, reason = decision
    row = _ended(job.id, slot, run, answer.status, now=now, write_id=write_id)
    return _with_next(replace(row, reason=reason, error=answer.error, result=answer.result), next_retry_at)


def lost(
    job_id: str,
    slot: str,
    run: ActiveRun,
    *,
    before: Sequence[ExecutionError | None],
    now: float,
    write_id: str,
    message: str,
) -> Execution:
    """The history row for an attempt whose owner died: an attempt spent, repeated without backoff.

    `before`: the errors of `attempts_before`. What kills its process each time is poison as any other error is.
    """
    error = ExecutionError(code="WORKER_LOST", message=message)
    exhausted, poison = run.attempt >= run.attempt_limit, _is_poison(error, before)
    reason = "RETRIES_EXHAUSTED" if exhausted else "POISON" if poison else "RETRY_SCHEDULED"
    row = _ended(job_id, slot, run, ExecutionStatus.FAILED, now=now, write_id=write_id)
    return _with_next(replace(row, reason=reason, error=error), None if exhausted or poison else math.ceil(now))


def put_off(
    job_id: str, slot: str, run: ActiveRun, reason: str, *, until: int | None, now: float, write_id: str
) -> Execution:
    """The history row for an attempt that was started and then not made, for a reason of UNSPENT.

    Another follows at `until`, unless that is None: after the start there are only ends, so it is another number.
    """
    row = _ended(job_id, slot, run, ExecutionStatus.FAILED, now=now, write_id=write_id)
    error = ExecutionError(code=reason, message=UNSPENT[reason])
    return _with_next(replace(row, reason=reason, error=error), None if run.attempt >= MAX_ATTEMPTS else until)


def ended_from_outside(
    job_id: str,
    slot: str,
    run: ActiveRun,
    *,
    status: ExecutionStatus,
    reason: str,
    now: float,
    write_id: str,
    error: ExecutionError | None = None,
) -> Execution:
    """The history row by which a run is ended before its time: cancelled, or too late for another attempt.

    It takes the number of the running attempt, or of the one that would have come next (A10).
    """
    return replace(_ended(job_id, slot, run, status, now=now, write_id=write_id), reason=reason, error=error)


def _ended(job_id: str, slot: str, run: ActiveRun, status: ExecutionStatus, *, now: float, write_id: str) -> Execution:
    """The history row of the run's attempt, the one that runs or would come next, as far as each end has it."""
    return Execution(
        job_id=job_id,
        slot_id=slot,
        attempt=run.current_attempt,
        status=status,
        final=True,
        fence=run.fence,
        write_id=write_id,
        started_at=run.started_at if run.state is RunState.RUNNING else None,
        completed_at=round(now, 3),
        deferrals=run.deferrals,
        deferred_for=run.deferred_for,
        worker_id=run.worker_id,
        approval=run.approval,
    )


def _with_next(execution: Execution, next_retry_at: int | None) -> Execution:
    """The row of an attempt that another follows at that instant; final where that is None."""
    return replace(execution, final=next_retry_at is None, next_retry_at=next_retry_at)


TOO_LATE = {
    "RETRY_WINDOW_OVER": ExecutionError(
        code="RETRY_WINDOW_OVER", message="The retry could not start within retryWindowSeconds of its slot."
    ),
    "CIRCUIT_OPEN": ExecutionError(
        code="CIRCUIT_OPEN", message="The circuit of the target was open for as long as the attempt could wait."
    ),
    "QUARANTINED": ExecutionError(code="QUARANTINED", message="Woken too often without a start."),
}
"""Reasons of runs that ended because their next attempt could not start in time, and what to say of each."""


_VERDICTS = {
    Outcome.PERMANENTLY_FAILED: ExecutionStatus.FAILED,
    Outcome.CANCELLED: ExecutionStatus.CANCELLED,
    Outcome.SKIPPED: ExecutionStatus.SKIPPED,
}


def expired(job_id: str, slot: str, run: ActiveRun, *, reason: str, now: float, write_id: str) -> Execution:
    """The history row that ends a run by its verdict, without another attempt."""
    status, error = _VERDICTS[run.verdict or Outcome.PERMANENTLY_FAILED], None
    if status is ExecutionStatus.FAILED:
        error = TOO_LATE.get(reason) or ExecutionError(code=reason, message=UNMET.get(reason, reason))
    return ended_from_outside(job_id, slot, run, status=status, reason=reason, now=now, write_id=write_id, error=error)


def decide_end(job: Job, execution: Execution, *, fence: int, now: float, goes_on: bool = False) -> Write | Drop:
    """Let the row follow what history says of an attempt (docs/protocol.md, 1.3).

    `goes_on`: a caller cancels the attempt: where it does end so, its call may go on and keeps its permits.

    The run must still be as its decider saw it: under `fence`, running that attempt or waiting to start it. The
    history row may bear an older fence: a cancel that died after it, before the attempt started.
    """
    slot = execution.slot_id
    run = job.runs.get(slot)
    if run is None or run.fence != fence or not _is_about(run, execution):
        return Drop("NOT_MINE")
    instant = int(now)
    if execution.final:
        last = _last_run(execution, now=instant)
        if run.verdict is not None and execution.reason not in TOO_LATE:
            last = replace(last, reason=execution.reason)
        row = replace(without_run(job, slot), last_run=last)
        if goes_on and execution.status is ExecutionStatus.CANCELLED:
            row = with_calls(row, {slot: run})
        if execution.status is ExecutionStatus.COMPLETED:
            row = replace(row, silence=broken(row.silence, at=int(execution.completed_at), next_due=row.next_due))
    else:
        is_unspent = execution.reason in UNSPENT
        waiting = replace(
            run,
            state=RunState.WAITING,
            attempt_limit=run.attempt_limit + is_unspent,
            due_at=execution.next_retry_at,
            lease_expires_at=None,
            started_at=None,
            started_by=None,
            deferrals=0,
            deferred_for=execution.reason if is_unspent else None,
            deferred_at=instant if is_unspent else None,
            holds=(),
            probes=None,
            worker_id=None,
            deadline_at=None,
        )
        row = with_run(job, slot, waiting)
    row = with_attention(replace(released(row, instant), gap=None, wakes=0), instant)
    return Write(job=row, reason=execution.status.value, flush=job.gap, hints=_hints(job, row))


def released(job: Job, now: int) -> Job:
    """The row in which a queued run, the earliest, is due once nothing before it goes on any more (V8).

    What a pause holds goes on no more than the pause, so it holds back nothing that was asked for by a caller.
    """
    for slot in sorted(slot for slot, run in job.runs.items() if run.state is RunState.QUEUED):
        run = job.runs[slot]
        if job.goes_on:
            break
        if not (job.has_active and job.holds(run)):
            job = with_run(job, slot, replace(run, state=RunState.WAITING, due_at=max(now, run.due_at or now)))
    return job


def _is_about(run: ActiveRun, execution: Execution) -> bool:
    """Only an end takes the number of an attempt that has not started."""
    return run.current_attempt == execution.attempt and (run.state is RunState.RUNNING or execution.final)


def _last_run(execution: Execution, *, now: int) -> LastRun:
    return LastRun(
        slot_id=execution.slot_id,
        attempt=execution.attempt,
        outcome=_OUTCOMES[execution.status],
        fence=execution.fence,
        ended_at=now,
        error_code=execution.error.code if execution.error else None,
        approval=execution.approval,
    )


def _hints(before: Job, after: Job) -> tuple[Due, ...]:
    """What this end made due: its own retry, a released run, a missed slot that waited for it."""
    armed = {hint for hint in waiting_hints(before) if hint.slot_id in before.runs}
    made = tuple(hint for hint in waiting_hints(after) if hint.slot_id in after.runs and hint not in armed)
    return made + (next_hint(after) if before.next_waits and not after.paused else ())
