"""What an attempt that ended, or was lost, comes to: its row of history, by the rules of its job and its type."""

from __future__ import annotations

from functions.domain.ending import attempts_before, judge, lost
from functions.domain.execution import Execution, ExecutionError
from functions.domain.job import ActiveRun, Job
from functions.domain.outcome import TargetAnswer
from functions.domain.retry import POISON_AT
from functions.usecases.services import Engine
from functions.usecases.writing import ruled

LEASE_OVER = "The attempt's lease expired before its outcome was recorded."


def judged(engine: Engine, job: Job, slot: str, answer: TargetAnswer, *, write_id: str | None = None) -> Execution:
    """The history row for the answer to the attempt that runs in `slot`; `write_id` where its mark is given."""
    job = ruled(engine, job)
    return judge(
        job,
        slot,
        answer,
        before=() if answer.error is None else _errors_before(engine, job, slot, job.runs[slot]),
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
    rows = [engine.history.get(job.id, slot, attempt) for attempt in attempts_before(run, job.defined.retry)]
    return tuple(None if row is None else row.error for row in rows)
