"""The lean end: the first attempt of a one-time job that succeeds is its own history, in the row's last run.

It saves one write of two, and the row alone decides. So whoever else puts history for an attempt first takes the leave
to end lean out of the row: the revoke (docs/protocol.md, 1.4).
"""

from __future__ import annotations

from dataclasses import replace

from functions.domain.decision import Drop, Write
from functions.domain.definition import Completion, Definition
from functions.domain.ending import decide_end
from functions.domain.execution import LOST_RESULT, Execution, ExecutionStatus
from functions.domain.ids import is_scheduled
from functions.domain.job import Job
from functions.domain.path import PathKind, path_of
from functions.domain.run import LastRun, Outcome, RunState

LEAN_RESULT_BYTES = 128
"""Longest result, in bytes of UTF-8, that is kept in the row."""


def may_be_lean(definition: Definition) -> bool:
    """Whether a job with this definition may have the leave: one slot, and one process that calls and ends."""
    path = path_of(definition)
    direct = path.kind is PathKind.DIRECT and definition.completion is Completion.RESPONSE
    alone = not definition.depends_on and definition.approval is None
    return direct and alone and not definition.schedule.recurring


def may_end_lean(job: Job, slot: str, attempt: int) -> bool:
    """Whether this attempt of the row may end lean: what its owner asks and who revokes asks, of the row alone."""
    return job.lean and attempt == 1 and is_scheduled(slot)


def has_lean_run(job: Job) -> bool:
    """Whether a run of the row may end lean, now or once it has started."""
    return job.lean and any(may_end_lean(job, slot, run.current_attempt) for slot, run in job.runs.items())


def fits_the_row(execution: Execution) -> bool:
    """Whether the row can keep all that history shows of this execution."""
    if execution.status is not ExecutionStatus.COMPLETED or len((execution.result or "").encode()) > LEAN_RESULT_BYTES:
        return False
    return _execution(execution.job_id, _last_run(execution, now=0)) == execution


def decide_lean_end(job: Job, execution: Execution, *, now: float, write_id: str) -> Write | Drop:
    """The one write by which the owner ends its attempt, if nobody has taken its leave to."""
    run = job.runs.get(execution.slot_id)
    if run is None or run.state is not RunState.RUNNING or not may_end_lean(job, execution.slot_id, execution.attempt):
        return Drop("NOT_MINE")
    ended = decide_end(job, execution, fence=execution.fence, now=now)
    if isinstance(ended, Drop):
        return ended
    last = _last_run(replace(execution, write_id=write_id), now=int(now))
    return replace(ended, job=replace(ended.job, last_run=last))


def decide_revoke(job: Job) -> Write | Job:
    """Take the leave to end lean from all attempts of the job, for good; the row as it is where nobody has it."""
    return Write(job=replace(job, lean=False), reason="REVOKED") if job.lean else job


def kept_execution(job: Job) -> Execution | None:
    """The execution that has no row of history because the row's last run is it."""
    last = job.last_run
    return None if last is None or last.ended_by is None else _execution(job.id, last)


def displaced(before: Job, after: Job) -> Execution | None:
    """The execution whose history row must be put before the write that makes `after` of `before`."""
    return None if after.last_run == before.last_run else kept_execution(before)


def _last_run(execution: Execution, *, now: int) -> LastRun:
    return LastRun(
        slot_id=execution.slot_id,
        attempt=execution.attempt,
        outcome=Outcome.COMPLETED,
        fence=execution.fence,
        ended_at=now,
        started_at=execution.started_at,
        completed_at=execution.completed_at,
        result=execution.result,
        ended_by=execution.write_id,
    )


def _execution(job_id: str, last: LastRun) -> Execution:
    return Execution(
        job_id=job_id,
        slot_id=last.slot_id,
        attempt=last.attempt,
        status=ExecutionStatus.COMPLETED,
        final=True,
        fence=last.fence,
        write_id=last.ended_by or "",
        started_at=last.started_at,
        completed_at=float(last.ended_at) if last.completed_at is None else last.completed_at,
        result=last.result,
        error=None if last.error_code is None else LOST_RESULT,
    )
