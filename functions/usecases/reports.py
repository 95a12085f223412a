"""Reports on running executions, by the worker that holds one or with the token its target was sent."""

from __future__ import annotations

from dataclasses import dataclass

from functions.domain.caller import Caller
from functions.domain.claims import Holder, is_same_report, report_mark, running, why_not_held
from functions.domain.errors import ConflictError, ForbiddenError, NotFoundError
from functions.domain.execution import Execution, ExecutionStatus
from functions.domain.ids import ExecutionKey, parse_execution_id
from functions.domain.job import Job
from functions.domain.lease import is_held, is_overdue
from functions.domain.outcome import TargetAnswer
from functions.domain.progress import Progress
from functions.domain.run import ActiveRun
from functions.usecases.executor import call_over, follow, time_out
from functions.usecases.judging import judged
from functions.usecases.services import Services


@dataclass(frozen=True, slots=True)
class _Reported:
    key: ExecutionKey
    job: Job
    run: ActiveRun | None
    """The running attempt the report is about; None where it is over, or the reporter does not hold it."""
    became: str = "LOST"
    """What has become of one that the reporter does not hold, as far as the row says."""


def end_execution(
    services: Services, caller: Caller, execution: str, holder: Holder, answer: TargetAnswer
) -> Execution:
    """End the execution as its holder says; the same report again finds what the first one recorded.

    Raises ConflictError where it is not the reporter's: another fence, another worker, ended, cancelled, or too late.
    """
    found = _find(services, caller, execution, holder)
    if found.run is None:
        _end_call(services, found, holder)
        return _as_recorded(services, found, holder, answer)
    run, job = found.run, found.job
    mark = None if holder.token is None else report_mark(holder.token)
    recorded = services.history.record(judged(services, job, found.key.slot_id, answer, write_id=mark))
    follow(services, job, recorded, fence=run.fence)
    if not is_same_report(recorded, holder, answer):
        raise _ended(recorded)
    return recorded


def _end_call(services: Services, found: _Reported, holder: Holder) -> None:
    """The work of an attempt that was cancelled is over, says its holder: it keeps its permits no longer."""
    call = found.job.cancelled_call(found.key.slot_id, found.key.attempt)
    if call is not None and holder.holds(call):
        call_over(services, found.job.id, found.key.slot_id, call)


def report_progress(services: Services, caller: Caller, execution: str, holder: Holder, progress: Progress) -> bool:
    """Keep how far the execution is; False where the last report is less than a second old: then nothing is kept.

    Raises ConflictError as `end_execution` does.
    """
    found = _find(services, caller, execution, holder)
    if found.run is None:
        raise _refusal(services, found)
    return services.progress.report(execution, progress, now=services.clock.now())


def _find(services: Services, caller: Caller, execution: str, holder: Holder) -> _Reported:
    """The execution and, where the reporter holds it, its run. One that no clock takes a report on any more is ended
    here."""
    key = parse_execution_id(execution)
    job = None if key is None else services.jobs.get(key.job_id)
    if key is None or job is None:
        raise NotFoundError(f"There is no execution {execution}.")
    _must_report(caller, job, execution, holder)
    run = running(job, key)
    if run is None or not holder.holds(run):
        return _Reported(key, job, None)
    now = services.clock.now()
    if is_held(run, now):
        return _Reported(key, job, run)
    if is_overdue(run, now):
        time_out(services, job, key.slot_id)
    return _Reported(key, job, None, why_not_held(run, now))


def _must_report(caller: Caller, job: Job, execution: str, holder: Holder) -> None:
    """A worker's report takes the right to change the job. A token is its bearer's right to report on one attempt,
    whoever owns the job, so that the target may have credentials of its own."""
    if caller.only_reports:
        if holder.token is None:
            raise ForbiddenError("Your scope gnomon/report takes the callback token of the attempt, and no workerId.")
        return
    try:
        caller.must_read(job.owner)
    except NotFoundError:
        raise NotFoundError(f"There is no execution {execution}.") from None
    caller.must_write()
    if holder.token is None:
        caller.must_change(job.owner)


def _as_recorded(services: Services, found: _Reported, holder: Holder, answer: TargetAnswer) -> Execution:
    stored = services.history.get(*found.key)
    if stored is not None and is_same_report(stored, holder, answer):
        return stored
    raise _refusal(services, found)


def _refusal(services: Services, found: _Reported) -> ConflictError:
    stored = services.history.get(*found.key)
    if stored is not None:
        return _ended(stored)
    if found.became == ExecutionStatus.TIMED_OUT:
        return ConflictError(f"{found.became}: the execution's deadline is over; this report changes nothing.")
    return ConflictError(
        "LOST: the execution is not yours, or no longer: it runs for another, under another fence or token, or has not "
        "started."
    )


def _ended(stored: Execution) -> ConflictError:
    if stored.status is ExecutionStatus.CANCELLED:
        return ConflictError(f"CANCELLED: the execution was cancelled ({stored.reason}); nothing follows.")
    error = f" ({stored.error.code})" if stored.error is not None else ""
    return ConflictError(f"{stored.status.value}: the execution has ended as that{error}; this report changes nothing.")
