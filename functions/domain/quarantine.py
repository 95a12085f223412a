"""The end of a run that was woken too often without a start: its verdict in the job's row first, then history.

The verdict comes first so that a quarantine never meets a start, a forced retry or a cancel halfway. One that wrote the
row before is decided about again, and a run with a verdict does not start any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from functions.domain.decision import Write, condemned, next_hint, with_attention, with_run
from functions.domain.dispatch import advance
from functions.domain.ending import ended_from_outside, expired
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus
from functions.domain.job import Job
from functions.domain.run import ActiveRun, Outcome, RunState

QUARANTINED = "QUARANTINED"


def quarantine(job: Job, due: Iterable[str], *, now: int) -> Write:
    """Give the runs in the slots that are due their verdict, the next slot's, too; a run that has one keeps it.

    The schedule goes on: the slot after the next one is next, due or not. It is no start for `maxRuns`. Only under a
    definition that cannot be read no slot is next. The write's hints come after these runs have ended: before, the
    overlap policy would skip the slot.
    """
    row = job
    for slot in due:
        run = row.runs.get(slot)
        if run is None:
            run = ActiveRun(state=RunState.WAITING, attempt=0, attempt_limit=1, due_at=now)
            row = _without_next(row)
        if run.verdict is None:
            run = condemned(run, outcome=Outcome.PERMANENTLY_FAILED, reason=QUARANTINED)
        row = with_run(row, slot, run)
    row = with_attention(replace(row, lean=False, wakes=0), now)
    return Write(job=row, reason=QUARANTINED, hints=() if row.next_slot == job.next_slot else next_hint(row))


def _without_next(job: Job) -> Job:
    slot = job.next_slot
    if slot is None or job.definition is None:
        return replace(job, next_slot=None, last_slot=slot or job.last_slot, catch_up_to=None)
    return advance(job, slot, job.definition, started=False)


def quarantined(job: Job, slot: str, *, wakes: int, now: float, write_id: str) -> Execution:
    """The history row that ends the run in `slot`, which has its verdict. `job` with its definition."""
    run = job.runs[slot]
    if run.verdict_for != QUARANTINED:
        return expired(job.id, slot, run, reason=run.verdict_for or QUARANTINED, now=now, write_id=write_id)
    if job.definition is None:
        why = (
            "the job's stored definition cannot be read. The job is at rest: replace the definition with a PUT, or "
            "resume the job once it can be read."
        )
    else:
        why = "the executor failed at this job each time, while it started others. Its schedule goes on."
    error = ExecutionError(code=QUARANTINED, message=f"Woken {wakes} times without a start: {why}")
    return ended_from_outside(
        job.id,
        slot,
        run,
        status=ExecutionStatus.FAILED,
        reason=QUARANTINED,
        now=now,
        write_id=write_id,
        error=error,
    )
