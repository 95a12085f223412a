"""What the states of the state machine do (infra/states.py draws them; docs/architecture.md).

Each looks first whether the run is still as the machine's execution was started for it, running under that fence: what
comes late, twice, or for a run that was taken back, changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from functions.domain.approval import NEEDED, gate_before
from functions.domain.ending import put_off
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus
from functions.domain.job import Job
from functions.domain.lease import seconds_to_call
from functions.domain.outcome import TargetAnswer
from functions.domain.run import ActiveRun, RunState
from functions.domain.step import Step
from functions.usecases import circuits
from functions.usecases.circuits import Answered
from functions.usecases.executor import attempt, follow
from functions.usecases.judging import judged, judged_lost
from functions.usecases.services import Attempts


@dataclass(frozen=True, slots=True)
class Checked:
    """What the machine does next: `closed` calls the target, `open` ends without a call, `stopped` does nothing."""

    state: str
    until: int | None = None
    """When an open circuit lets somebody try again."""


def check_circuit(attempts: Attempts, step: Step) -> Checked:
    """Whether the attempt may still be made."""
    found = _mine(attempts, step)
    if found is None:
        return Checked("stopped")
    until = circuits.blocks(attempts, found[0], step.slot_id)
    return Checked("closed") if until is None else Checked("open", until)


def end_as_circuit_open(attempts: Attempts, step: Step, *, until: int) -> Execution | None:
    """The target's circuit opened after the start: the attempt is put off and takes its number with it."""

    def row(job: Job, run: ActiveRun) -> Execution:
        now, mark = attempts.clock.now(), attempts.new_write_id()
        return put_off(job.id, step.slot_id, run, "CIRCUIT_OPEN", until=until, now=now, write_id=mark)

    return _conclude(attempts, step, row)


def invoke(attempts: Attempts, step: Step) -> Execution | None:
    """Call the target and put the attempt's history row; None where there is nothing to do, or no time left.

    The time for the call is the job's, and ends with what the lease leaves of it: nobody owns the attempt beyond.
    """
    found = _mine(attempts, step)
    if found is None:
        return None
    job, run = found
    recorded = attempts.history.get(job.id, step.slot_id, step.attempt)
    if recorded is not None:
        return recorded
    if gate_before(job.defined, run) is not None:
        return _end_as_not_approved(attempts, step)
    left = seconds_to_call(run, attempts.clock.now())
    if left < 1:
        return None
    seconds = min(job.defined.timeout_seconds, left)
    execution, answer = attempt(attempts, job, step.slot_id, timeout_seconds=seconds)
    answered = Answered(job, step.slot_id, answer)
    if execution.status is ExecutionStatus.CANCELLED:
        # Nobody may come after this: the cancel stops the machine.
        follow(attempts, job, execution, fence=run.fence, answered=answered)
    else:
        circuits.report(attempts, answered)
    return execution


def _end_as_not_approved(attempts: Attempts, step: Step) -> Execution | None:
    """What was approved is not what the call would be by now: the run comes to its gate again."""

    def row(job: Job, run: ActiveRun) -> Execution:
        now, mark = attempts.clock.now(), attempts.new_write_id()
        return put_off(job.id, step.slot_id, run, NEEDED, until=math.ceil(now), now=now, write_id=mark)

    return _conclude(attempts, step, row)


def record_outcome(attempts: Attempts, step: Step) -> Execution | None:
    """Let the job's row follow what history says of the attempt."""
    recorded = attempts.history.get(step.job_id, step.slot_id, step.attempt)
    if recorded is None:
        return record_failure(attempts, step)
    found = _mine(attempts, step)
    if found is None:
        return None
    job, run = found
    follow(attempts, job, recorded, fence=run.fence)
    return recorded


def record_failure(attempts: Attempts, step: Step) -> Execution | None:
    """The function that called the target died, or was never run: what history says, or else WORKER_LOST."""

    def row(job: Job, run: ActiveRun) -> Execution:
        message = "The function that called the target ended without an answer."
        return judged_lost(attempts, job, step.slot_id, run, message=message)

    return _conclude(attempts, step, row)


def record_timeout(attempts: Attempts, step: Step) -> Execution | None:
    """The machine gave up waiting for the function that calls the target: what history says, or else TIMED_OUT."""

    def row(job: Job, _run: ActiveRun) -> Execution:
        error = ExecutionError(code="TIMEOUT", message=f"no answer within {job.defined.timeout_seconds} s")
        return judged(attempts, job, step.slot_id, TargetAnswer(status=ExecutionStatus.TIMED_OUT, error=error))

    return _conclude(attempts, step, row, TargetAnswer(status=ExecutionStatus.TIMED_OUT))


def _conclude(
    attempts: Attempts, step: Step, row: Callable[[Job, ActiveRun], Execution], answer: TargetAnswer | None = None
) -> Execution | None:
    """Put the history row if absent, and let the job's row follow the one that is stored.

    `answer` is what that row says of the target, None for nothing: whose row it is tells the circuit.
    """
    found = _mine(attempts, step)
    if found is None:
        return None
    job, run = found
    mine = row(job, run)
    execution = attempts.history.record(mine)
    tells = answer is not None and execution.write_id == mine.write_id
    answered = Answered(job, step.slot_id, answer) if answer is not None and tells else None
    follow(attempts, job, execution, fence=run.fence, answered=answered)
    return execution


def _mine(attempts: Attempts, step: Step) -> tuple[Job, ActiveRun] | None:
    """The job and its run, where that is still the attempt this step was started for."""
    job = attempts.jobs.get(step.job_id)
    run = None if job is None else job.runs.get(step.slot_id)
    if job is None or run is None or run.state is not RunState.RUNNING:
        return None
    return (job, run) if (run.fence, run.attempt) == (step.fence, step.attempt) else None
