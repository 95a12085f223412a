"""What an attempt that ended, or was lost, comes to: its row of history, which is the decision about it."""

from __future__ import annotations

from functions.domain.ending import attempts_before, judge, lost
from functions.domain.execution import Execution, ExecutionError
from functions.domain.job import ActiveRun, Job
from functions.domain.outcome import TargetAnswer
from functions.domain.retry import POISON_AT
from functions.usecases.services import Engine, Executor
from functions.usecases.writing import ruled


def record_answer(executor: Executor, job: Job, slot: str, answer: TargetAnswer) -> Execution:
    """Put the history row for the answer to the attempt that runs in `slot`; returns the row that is stored."""
    job = ruled(executor, job)
    return executor.history.record(
        judge(
            job,
            slot,
            answer,
            before=() if answer.error is None else _errors_before(executor, job, slot, job.runs[slot]),
            now=executor.clock.now(),
            write_id=executor.new_write_id(),
            uniform=executor.uniform,
        )
    )


def record_lost(engine: Engine, job: Job, slot: str, run: ActiveRun) -> Execution:
    """Put the history row of an attempt whose owner died; returns the row that is stored."""
    return engine.history.record(
        lost(
            job.id,
            slot,
            run,
            before=_errors_before_loss(engine, job, slot, run),
            now=engine.clock.now(),
            write_id=engine.new_write_id(),
        )
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
