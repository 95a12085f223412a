"""Cancel and delete: a job with all its runs, or one execution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from functions.domain.actor import Actor
from functions.domain.caller import Caller
from functions.domain.cancellation import can_be_cancelled, decide_cancel, executions_to_cancel
from functions.domain.commands import decide_gap_written
from functions.domain.decision import Drop, Write
from functions.domain.ending import ended_from_outside
from functions.domain.errors import ConflictError, NotFoundError, UnavailableError
from functions.domain.execution import Execution, ExecutionStatus
from functions.domain.ids import parse_execution_id
from functions.domain.job import Job
from functions.domain.lean import has_lean_run, may_end_lean
from functions.domain.path import PathKind, path_of
from functions.domain.run import RunState
from functions.domain.step import step_of
from functions.usecases.consequences import carry_out
from functions.usecases.executor import follow
from functions.usecases.history import recorded_execution
from functions.usecases.jobs import disarm_replaced, load_changeable, load_job, must_change
from functions.usecases.services import Services
from functions.usecases.writing import PATIENCE, TRIES, Applied, apply, revoke


def cancel_job(services: Services, caller: Caller, job_id: str, *, if_match: int | None = None) -> Job:
    """Cancel the job: final at once, its running attempts too. Raises ConflictError when it is over."""
    return _cancel(services, caller, job_id, if_match, deleted=False)


def delete_job(services: Services, caller: Caller, job_id: str, *, if_match: int | None = None) -> None:
    """Cancel what is left of the job and mark it deleted; its row goes by TTL."""
    _cancel(services, caller, job_id, if_match, deleted=True)


def _cancel(services: Services, caller: Caller, job_id: str, if_match: int | None, *, deleted: bool) -> Job:
    """History says CANCELLED of each run first; a run that history knows to have ended otherwise ends so (V4)."""
    job = load_changeable(services, caller, job_id, if_match)
    marks: set[str] = set()
    until = services.clock.now() + PATIENCE
    while True:
        if has_lean_run(job):
            job = revoke(services, job, check=lambda row: must_change(caller, row, if_match))
        now, mark = services.clock.now(), services.new_write_id()
        marks.add(mark)
        job, settled = _cancel_runs(services, job, now=now, mark=mark, by=caller.actor)
        decided: Applied | Job | Drop = job
        if settled:
            check = partial(must_change, caller, if_match=if_match)
            decide = _cancels(services, job, marks, deleted=deleted, check=check, by=caller.actor)
            decided = apply(services, job, decide, until=until)
        if not isinstance(decided, Job):
            break
        job = decided  # another run has started, or one has ended otherwise: look at all of them again
        if services.clock.now() >= until:
            raise UnavailableError("The job changed while it was being cancelled: try again.")
    if isinstance(decided, Drop):
        return job if job.cancelled else load_job(services, job.id)
    disarm_replaced(services, decided)
    for slot in decided.before.runs:
        _stop(services, decided.before, slot)
    carry_out(services, decided)
    cleared = apply(services, decided.job, lambda row, _: decide_gap_written(row, now=services.clock.now()))
    return cleared.job if isinstance(cleared, Applied) else decided.job


def _cancels(
    services: Services, seen: Job, marks: set[str], *, deleted: bool, check: Callable[[Job], None], by: Actor
) -> Callable[[Job, str], Write | Job | Drop]:
    """Cancel a row whose runs history knows to be cancelled: those of `seen`. A row with others is returned.

    `check` may refuse a row that has changed since by raising.
    """

    def decide(row: Job, mark: str) -> Write | Job | Drop:
        if row.seq != seen.seq and not row.cancelled:
            check(row)
            if _attempts(row) != _attempts(seen):
                return row
        # Another process may have had the row follow what this request put into history: then nothing is left in it.
        begun = not can_be_cancelled(row) and _ended_by(services, row, marks)
        return decide_cancel(row, deleted=deleted, begun=begun, now=services.clock.now(), write_id=mark, by=by)

    return decide


def _attempts(job: Job) -> dict[str, int]:
    """The attempts that a cancel ends, by slot."""
    return {slot: run.current_attempt for slot, run in job.runs.items()}


def _ended_by(services: Services, job: Job, marks: set[str]) -> bool:
    """Whether the last run was ended by the history row with one of these marks."""
    last = job.last_run
    stored = None if last is None else services.history.get(job.id, last.slot_id, last.attempt)
    return stored is not None and stored.status is ExecutionStatus.CANCELLED and stored.write_id in marks


def _cancel_runs(services: Services, job: Job, *, now: float, mark: str, by: Actor) -> tuple[Job, bool]:
    """Record each run as cancelled; False when one had ended otherwise, and the row had to follow that first."""
    settled = True
    for execution in executions_to_cancel(job, now=now, write_id=mark, by=by):
        stored = services.history.record(execution)
        if stored.status is not ExecutionStatus.CANCELLED:
            job, settled = follow(services, job, stored, fence=execution.fence), False
    if settled:
        return job, True
    return services.jobs.get(job.id) or job, False


def cancel_execution(services: Services, caller: Caller, execution_id: str) -> Execution:
    """Cancel one execution, running or waiting; the job goes on. Raises ConflictError when it has ended otherwise."""
    key = parse_execution_id(execution_id)
    if key is None:
        raise NotFoundError(f"There is no execution {execution_id}.")
    try:
        job = load_changeable(services, caller, key.job_id, None)
    except NotFoundError:
        raise NotFoundError(f"There is no execution {execution_id}.") from None
    if may_end_lean(job, key.slot_id, key.attempt) and key.slot_id in job.runs:
        job = revoke(services, job, check=lambda row: must_change(caller, row))
    run = job.runs.get(key.slot_id)
    if run is None or run.current_attempt != key.attempt:
        return _ended_already(recorded_execution(services, job, key), execution_id)
    cancelled = ended_from_outside(
        job.id,
        key.slot_id,
        run,
        status=ExecutionStatus.CANCELLED,
        reason="EXECUTION_CANCELLED",
        now=services.clock.now(),
        write_id=services.new_write_id(),
    )
    stored = services.history.record(replace(cancelled, cancelled_by=caller.actor))
    job = _follow_to_its_end(services, job, stored)
    if stored.status is ExecutionStatus.CANCELLED and key.slot_id in job.runs:
        _stop(services, job, key.slot_id)
    return _ended_already(stored, execution_id)


def _follow_to_its_end(services: Services, job: Job, stored: Execution) -> Job:
    """Let the row follow, also where the attempt that was to be cancelled has started since the row was read.

    Returns the row that the last try began with.
    """
    for _ in range(TRIES):
        run = job.runs.get(stored.slot_id)
        if run is None or run.current_attempt != stored.attempt:
            break
        if follow(services, job, stored, fence=run.fence, goes_on=True) is not job:
            break
        job = services.jobs.get(job.id) or job
    return job


def _stop(services: Services, job: Job, slot: str) -> None:
    """End the state machine's execution of a running attempt, best effort: its steps find the run gone in any case.

    By the definition as it is now: one that runs in the machine since before a change goes on in vain.
    """
    run, definition = job.runs[slot], job.definition
    if definition is None or run.state is not RunState.RUNNING:
        return
    if path_of(definition).kind is PathKind.STATE_MACHINE:
        services.machine.stop(step_of(job.id, slot, run, timeout_seconds=definition.timeout_seconds))


def _ended_already(execution: Execution | None, execution_id: str) -> Execution:
    if execution is None:
        raise NotFoundError(f"There is no execution {execution_id}.")
    if execution.status is not ExecutionStatus.CANCELLED:
        raise ConflictError(f"The execution has ended as {execution.status.value}: it cannot be cancelled.")
    return execution
