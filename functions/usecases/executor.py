"""A hint arrives: start what it names, call the target, record what came of it (docs/protocol.md, 1.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from functions.domain.claims import Held, decide_accept, no_report
from functions.domain.decision import Drop, Due, HintDecision, Overdue, Resend, Verdict, Wait, Write
from functions.domain.ending import decide_end, expired, put_off
from functions.domain.errors import NotStartedError, UnavailableError
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.ids import ExecutionKey, execution_id, run_id, slot_instant
from functions.domain.job import Job, SkipReason
from functions.domain.lean import decide_lean_end, fits_the_row, may_end_lean
from functions.domain.lease import LEASE_GRACE, seconds_to_call
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.overlap import MAX_ACTIVE
from functions.domain.path import PathKind, call_seconds, path_of
from functions.domain.permits import decide_call_over
from functions.domain.run import ActiveRun, RunState
from functions.domain.step import step_of
from functions.usecases import circuits, graph
from functions.usecases.admission import Admission
from functions.usecases.circuits import Answered
from functions.usecases.consequences import carry_out
from functions.usecases.judging import judged
from functions.usecases.services import Attempts, Engine, Executor
from functions.usecases.upstream_values import payload_of
from functions.usecases.writing import TRIES, Applied, apply, insist, send

_LOOKS = 3
"""Times an early hint waits and looks again before it is sent once more."""
_BUSY_SECONDS = (5.0, 60.0)
"""How long an attempt waits that the state machine had no room for, at random: it takes 300 starts a second."""


@dataclass(frozen=True, slots=True)
class Handled:
    """What came of a hint, for the log."""

    reason: str
    execution: Execution | None = None
    """The attempt that ended; None where none did, or its outcome comes later."""
    lateness: float | None = None
    """Seconds from the instant the attempt was due to its start."""


@dataclass(frozen=True, slots=True)
class _Recorded:
    """History has the end of an attempt that the row shows as running."""

    job: Job
    execution: Execution
    fence: int


def handle_hint(executor: Executor, hint: Hint) -> Handled:
    """Do what the hint names, if it is still due.

    Raises CorruptDefinitionError or UnavailableError, and whatever the platform raises: the message comes again.
    """
    job = executor.jobs.get(hint.job_id)
    if job is None:
        return Handled("NO_SUCH_JOB")
    return Handled(graph.look(executor, job)) if hint.is_look else _handle(executor, job, hint)


def _handle(executor: Executor, job: Job, hint: Hint) -> Handled:
    admission = Admission(executor, hint)
    try:
        return _handle_by(executor, job, hint, admission)
    finally:
        admission.leave()


def _handle_by(executor: Executor, job: Job, hint: Hint, admission: Admission) -> Handled:
    decision: Applied | Drop | Wait | Resend | Verdict | Overdue = Drop("EARLY")
    for _ in range(_LOOKS):
        decision = _decide(executor, job, hint, admission)
        if not isinstance(decision, Wait):
            break
        executor.clock.sleep(decision.seconds)
    if isinstance(decision, Applied):
        send(executor, decision.job, decision.write.hints)
    admission.settle(decision)
    if isinstance(decision, Resend):
        send(executor, job, [Due(hint.slot_id, hint.attempt, decision.due_at)])
        return Handled("SENT_AGAIN")
    if isinstance(decision, (Verdict, Overdue)):
        return _end(executor, decision)
    if not isinstance(decision, Applied):
        return Handled(decision.reason if isinstance(decision, Drop) else "EARLY")
    return _go_on(executor, decision)


def _decide(
    executor: Executor, job: Job, hint: Hint, admission: Admission
) -> Applied | Drop | Wait | Resend | Verdict | Overdue:
    """Write what the hint comes to. The row first follows what has ended already, where that is in the hint's way."""

    def decide(row: Job, mark: str) -> HintDecision | _Recorded:
        decision = admission.decide(row, mark)
        return _recorded(executor, row, hint, decision) or decision

    for _ in range(MAX_ACTIVE + 1):
        decision: Applied | Drop | Wait | Resend | Verdict | Overdue | _Recorded = apply(executor, job, decide)
        if not isinstance(decision, _Recorded):
            return decision
        follow(executor, decision.job, decision.execution, fence=decision.fence)
        job = executor.jobs.get(job.id) or job
    raise UnavailableError("The job's runs ended one after the other while a hint was handled.")


def _recorded(executor: Executor, row: Job, hint: Hint, decision: HintDecision) -> _Recorded | None:
    """An attempt in whose way, or for whose sake, the hint came, and that has ended: its owner lost its races for the
    row, or died. Read only before a slot is skipped, and for a second hint of an attempt."""
    skipped = isinstance(decision, Write) and decision.reason == SkipReason.OVERLAP
    if not skipped and not isinstance(decision, Drop):
        return None
    for slot, run in row.runs.items():
        again = slot == hint.slot_id and run.attempt == hint.attempt
        if run.state is RunState.RUNNING and (skipped or again):
            execution = executor.history.get(row.id, slot, run.attempt)
            if execution is not None:
                return _Recorded(row, execution, run.fence)
    return None


def _go_on(executor: Executor, applied: Applied) -> Handled:
    """Do what the winner of the write has to do: end a run, make an attempt, or nothing."""
    write, slot = applied.write, applied.write.starts
    if write.ends is not None:
        return Handled(write.reason, record_verdict(executor, applied.job, write.ends))
    if slot is None:
        return Handled(write.reason)
    started_at = applied.job.runs[slot].started_at
    lateness = None if started_at is None else started_at - _due_at(applied.before, slot)
    way = path_of(applied.job.defined)
    if way.kind is PathKind.STATE_MACHINE:
        return Handled(way.reason, _hand_over(executor, applied.job, slot), lateness)
    return Handled(write.reason, _execute(executor, applied.job, slot), lateness)


def _end(executor: Executor, decision: Verdict | Overdue) -> Handled:
    if isinstance(decision, Verdict):
        reason = decision.job.runs[decision.slot_id].verdict_for or ""
        return Handled(reason, record_verdict(executor, decision.job, decision.slot_id))
    return Handled("DEADLINE_OVER", time_out(executor, decision.job, decision.slot_id))


def _due_at(before: Job, slot: str) -> int:
    waiting = before.runs.get(slot)
    if waiting is not None and waiting.due_at is not None:
        return waiting.due_at
    return slot_instant(slot) + before.spread


def _execute(executor: Executor, job: Job, slot: str) -> Execution | None:
    """Call the target and record what came of it; None where it accepted and will report the outcome itself, or where
    the start took so long that its lease leaves no time for the call: then the attempt is lost."""
    run = job.runs[slot]
    seconds = min(call_seconds(job.defined), seconds_to_call(run, executor.clock.now()))
    if seconds < 1:
        return None
    answer = _call(executor, job, slot, timeout_seconds=seconds)
    answered = Answered(job, slot, answer)
    if run.deadline_at is not None and answer.status is ExecutionStatus.COMPLETED:
        _accept(executor, job, slot)
        circuits.report(executor, answered)
        return None
    return conclude(executor, job, _judged_in_time(executor, job, slot, answer), answered)


def _accept(executor: Executor, job: Job, slot: str) -> None:
    """Give the target, which accepted, until the attempt's deadline. One that has reported by now needs nothing."""
    run = job.runs[slot]
    key = ExecutionKey(job.id, slot, run.attempt)

    def decide(row: Job, _: str) -> Write | Held | Drop:
        return decide_accept(row, key, fence=run.fence, now=executor.clock.now())

    apply(executor, job, decide, until=_owned_until(job, slot))


def _owned_until(job: Job, slot: str) -> float:
    """Until when whoever runs the attempt records what came of it: then the sweep may take it for lost."""
    return (job.runs[slot].lease_expires_at or 0) - LEASE_GRACE


def _judged_in_time(attempts: Attempts, job: Job, slot: str, answer: TargetAnswer) -> Execution:
    return insist(attempts, lambda: judged(attempts, job, slot, answer), until=_owned_until(job, slot))


def _hand_over(executor: Executor, job: Job, slot: str) -> Execution | None:
    """Have the state machine run the attempt; the history row of one that was certainly not started.

    One that may have been is the lease's matter.
    """
    run, definition = job.runs[slot], job.defined
    try:
        executor.machine.start(step_of(job.id, slot, run, timeout_seconds=definition.timeout_seconds))
    except UnavailableError:
        return None
    except NotStartedError as error:
        refusal = error
    else:
        return None
    if refusal.busy:
        now = executor.clock.now()
        until = math.ceil(now + executor.uniform(*_BUSY_SECONDS))
        over = definition.retry.is_over(slot_instant(slot), now=until)
        mark = executor.new_write_id()
        row = put_off(job.id, slot, run, "NOT_STARTED", until=None if over else until, now=now, write_id=mark)
    else:
        problem = ExecutionError(code="NOT_STARTED", message=f"The state machine did not take the attempt: {refusal}")
        row = judged(executor, job, slot, TargetAnswer(status=ExecutionStatus.FAILED, error=problem))
    execution = executor.history.record(row)
    follow(executor, job, execution, fence=run.fence)
    return execution


def attempt(
    attempts: Attempts, job: Job, slot: str, *, timeout_seconds: int | None = None
) -> tuple[Execution, TargetAnswer]:
    """Call the target of the running attempt, within the job's timeout unless another is given, and put its history
    row, which is the decision about it. Returns the row that is stored, and the answer, which the caller reports to
    the target's circuit. Raises CorruptDefinitionError."""
    answer = _call(attempts, job, slot, timeout_seconds=timeout_seconds)
    row = _judged_in_time(attempts, job, slot, answer)
    return insist(attempts, lambda: attempts.history.record(row), until=_owned_until(job, slot)), answer


def _call(attempts: Attempts, job: Job, slot: str, *, timeout_seconds: int | None) -> TargetAnswer:
    run, definition = job.runs[slot], job.defined
    payload = payload_of(attempts, job, slot)
    if isinstance(payload, TargetAnswer):
        return payload
    invocation = Invocation(
        job_id=job.id,
        owner=job.owner,
        slot_id=slot,
        run_id=run_id(job.id, slot),
        execution_id=execution_id(job.id, slot, run.attempt),
        attempt=run.attempt,
        scheduled_for=slot_instant(slot),
        payload=payload,
        timeout_seconds=timeout_seconds or definition.timeout_seconds,
        callback_token=None if run.deadline_at is None else run.started_by,
    )
    return attempts.targets.call(invocation, dict(definition.target))


def record_verdict(engine: Engine, job: Job, slot: str) -> Execution:
    """End the run in `slot`, which has a verdict; returns what history has of it."""
    run = job.runs[slot]
    now, mark = engine.clock.now(), engine.new_write_id()
    execution = engine.history.record(expired(job.id, slot, run, reason=run.verdict_for or "", now=now, write_id=mark))
    follow(engine, job, execution, fence=run.fence)
    return execution


def time_out(engine: Engine, job: Job, slot: str) -> Execution:
    """End the running attempt whose report did not come in time; returns what history has of it."""
    execution = engine.history.record(judged(engine, job, slot, no_report(job)))
    follow(engine, job, execution, fence=job.runs[slot].fence)
    return execution


def follow(
    engine: Engine,
    job: Job,
    execution: Execution,
    *,
    fence: int,
    answered: Answered | None = None,
    goes_on: bool = False,
    until: float | None = None,
) -> Job:
    """Let the job's row follow the history row of the run seen under `fence`, then do what follows from that.

    `answered`: what the target said, where the attempt's owner ends it. `goes_on`: a caller cancels it, so its call may
    go on and keeps its permits. Tried until `until`, as `apply`.
    Returns the row as this write left it; `job` where the run was no longer there.
    """

    def decide(row: Job, _: str) -> Write | Drop:
        return decide_end(row, execution, fence=fence, now=engine.clock.now(), goes_on=goes_on)

    ended = apply(engine, job, decide, until=until)
    if isinstance(ended, Applied):
        return _ended(engine, ended, execution, answered)
    if answered is not None:
        call_over(engine, job.id, execution.slot_id, job.runs[execution.slot_id])
        circuits.report(engine, answered)
    return job


def _ended(engine: Engine, ended: Applied, execution: Execution, answered: Answered | None) -> Job:
    carry_out(engine, ended, answered)
    engine.ended(execution)
    return ended.job


def call_over(engine: Engine, job_id: str, slot: str, run: ActiveRun) -> None:
    """The call of an attempt that others have ended is over, says its owner: where it was cancelled, and kept its
    permits for it, they are free now."""
    row = engine.jobs.get(job_id, with_definition=False) if run.holds else None
    if row is None:
        return
    over = apply(engine, row, lambda row, _: decide_call_over(row, slot, run.attempt, now=engine.clock.now()))
    if isinstance(over, Applied):
        carry_out(engine, over)


def conclude(engine: Engine, job: Job, execution: Execution, answered: Answered | None = None) -> Execution:
    """End an attempt as the one process that may: the one whose start won, once. Returns what is recorded of it.

    `job` is the row as the start left it.
    """
    may = may_end_lean(job, execution.slot_id, execution.attempt) and fits_the_row(execution)
    if may and _end_lean(engine, job, execution, answered):
        return execution
    until = _owned_until(job, execution.slot_id)
    recorded = insist(engine, lambda: engine.history.record(execution), until=until)
    follow(engine, job, recorded, fence=execution.fence, answered=answered, until=until)
    return recorded


def _end_lean(engine: Engine, job: Job, execution: Execution, answered: Answered | None) -> bool:
    """End the attempt in one write of the row; False where that is not to be had, and history has to decide."""

    def decide(row: Job, mark: str) -> Write | Drop:
        return decide_lean_end(row, execution, now=engine.clock.now(), write_id=mark)

    try:
        ended = apply(engine, job, decide, tries=TRIES, until=_owned_until(job, execution.slot_id))
    except UnavailableError:
        return False
    if isinstance(ended, Drop):
        return False
    _ended(engine, ended, execution, answered)
    return True
