"""What a cancel or a delete does to a job's row (docs/protocol.md, 1.5)."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from functions.domain.actor import Actor
from functions.domain.commands import revised
from functions.domain.decision import (
    Drop,
    Due,
    Write,
    waiting_hints,
    with_attention,
)
from functions.domain.ending import ended_from_outside
from functions.domain.errors import ConflictError
from functions.domain.execution import Execution, ExecutionStatus
from functions.domain.job import Job, SkipReason
from functions.domain.permits import with_calls
from functions.domain.rescheduling import (
    into_gap,
)
from functions.domain.run import LastRun, Outcome


def executions_to_cancel(
    job: Job, *, now: float, write_id: str, reason: str = "JOB_CANCELLED", by: Actor | None = None
) -> list[Execution]:
    """The history rows that cancel each run of the job: put, if absent, before the row is written."""
    ended = [
        ended_from_outside(
            job.id, slot, run, status=ExecutionStatus.CANCELLED, reason=reason, now=now, write_id=write_id
        )
        for slot, run in job.runs.items()
    ]
    return [replace(one, cancelled_by=by) for one in ended]


def can_be_cancelled(job: Job) -> bool:
    return bool(job.runs) or job.next_slot is not None or job.waits_for_parents


def decide_cancel(
    job: Job, *, deleted: bool, begun: bool = False, now: float, write_id: str, by: Actor | None = None
) -> Write | Drop:
    """The row of a cancelled job, once history says so of each run.

    Raises ConflictError when nothing is left to cancel.

    `deleted` also marks the row as soft-deleted; then a job that is over is no conflict. `begun`: this cancel has ended
    the job's last run already, and there was no other.
    """
    if job.cancelled and not (deleted and job.deleted_at is None):
        return Drop("CANCELLED_ALREADY")
    cancelled = job.cancelled or begun or can_be_cancelled(job)
    if not cancelled and not deleted:
        raise ConflictError(f"The job is {job.status.value}: there is nothing left to cancel.")
    instant = int(now)
    row = revised(job, write_id, by)
    flush = None
    if job.next_slot is not None:
        row, flush = into_gap(row, until=instant, reason=SkipReason.JOB_CANCELLED, definition=job.definition)
    row = replace(
        with_calls(row, job.runs),
        cancelled=cancelled,
        deleted_at=instant if deleted else None,
        last_run=_cancelled_run(job, instant) or job.last_run,
        runs=MappingProxyType({}),
        next_slot=None,
        catch_up_to=None,
        fence=job.fence + 1,
        wakes=0,
        silence=None,
    )
    return Write(job=with_attention(row, instant), reason="DELETED" if deleted else "CANCELLED", flush=flush)


def _cancelled_run(job: Job, now: int) -> LastRun | None:
    ended = [
        LastRun(
            slot_id=slot,
            attempt=run.current_attempt,
            outcome=Outcome.CANCELLED,
            fence=run.fence,
            ended_at=now,
        )
        for slot, run in job.runs.items()
    ]
    return max(ended, key=lambda run: run.slot_id, default=None)


def armed_hints(job: Job) -> tuple[Due, ...]:
    """Every hint the job may have in flight, held or not: what a cancel or a new schedule takes back, best effort."""
    return waiting_hints(replace(job, paused=False))
