"""What an attempt that ended, or was lost, comes to: its row of history, by the rules of its job and its type."""

from __future__ import annotations

from functions.domain.ending import attempts_before, judge, lost
from functions.domain.errors import CorruptDefinitionError
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus
from functions.domain.job import Job
from functions.domain.outcome import TargetAnswer
from functions.domain.retry import POISON_AT
from functions.domain.run import ActiveRun
from functions.usecases.services import Engine
from functions.usecases.writing import ruled

LEASE_OVER = "The attempt's lease expired before its outcome was recorded."


def judged(engine: Engine, job: Job, slot: str, answer: TargetAnswer, *, write_id: str | None = None) -> Execution:
    """The history row for the answer to the attempt that runs in `slot`; `write_id` where its mark is given."""
    job = ruled(engine, job)
    may_be_poison = answer.status is not ExecutionStatus.COMPLETED and answer.error is not None and answer.retryable
    return judge(
        job,
        slot,
        answer,
        before=_errors_before(engine, job, slot, job.runs[slot]) if may_be_poison else (),
        now=engine.clock.now(),
        write_id=write_id or engine.new_write_id(),
        uniform=engine.uniform,
    )


def judged_lost(engine: Engine, job: Job, slot: str, run: ActiveRun, *, message: str = LEASE_OVER) -> Execution:
    """The history row of an attempt whose owner died."""
    return lost(
        job.id,
        slot,
        run,
        before=_errors_before_loss(engine, job, slot, run),
        now=engine.clock.now(),
        write_id=engine.new_write_id(),
        message=message,
    )


def _errors_before_loss(engine: Engine, job: Job, slot: str, run: ActiveRun) -> tuple[ExecutionError | None, ...]:
    """The sweep reads no definitions: only a run that may be lost for the third time is worth it."""
    if run.attempt < POISON_AT:
        return ()
    defined = job if job.definition is not None else engine.jobs.get(job.id)
    if defined is None or defined.definition is None:
        return ()
    return _errors_before(engine, ruled(engine, defined), slot, run)


def _errors_before(engine: Engine, job: Job, slot: str, run: ActiveRun) -> tuple[ExecutionError | None, ...]:
    return tuple(_error_of(engine, job.id, slot, attempt) for attempt in attempts_before(run, job.defined.retry))


def _error_of(engine: Engine, job_id: str, slot: str, attempt: int) -> ExecutionError | None:
    """None where the row is gone, or cannot be read: then nobody knows that it was the same error."""
    try:
        row = engine.history.get(job_id, slot, attempt)
    except CorruptDefinitionError:
        return None
    return None if row is None else row.error
