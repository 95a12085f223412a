"""What happened to a job's runs, the active ones included."""

from __future__ import annotations

from dataclasses import dataclass, replace

from functions.domain.caller import Caller
from functions.domain.definition import Completion
from functions.domain.errors import NotFoundError
from functions.domain.execution import Execution, ExecutionStatus, SkippedSlots
from functions.domain.ids import ExecutionKey, execution_id, parse_execution_id, run_id
from functions.domain.job import Job
from functions.domain.lean import kept_execution
from functions.domain.progress import Progress
from functions.domain.run import ActiveRun, Approval, RunState
from functions.domain.waiting import Waiting, run_waits
from functions.ports import Page
from functions.usecases.jobs import read_job
from functions.usecases.services import Engine, Services


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveExecution:
    """An attempt that runs, or waits to: read from the job's row."""

    job_id: str
    slot_id: str
    attempt: int
    status: ExecutionStatus
    """RUNNING or QUEUED."""
    fence: int
    started_at: float | None
    due_at: int | None
    """When a waiting one starts, epoch seconds; None while it waits for the run before it, or the job is paused."""
    reason: str | None = None
    """Why a waiting one was put off."""
    deferrals: int = 0
    deferred_for: str | None = None
    worker_id: str | None = None
    """The worker that holds a running one."""
    approval: Approval | None = None
    """What was decided at its run's gate."""
    waiting: Waiting | None = None
    """What a waiting one waits for besides its time."""
    progress: Progress | None = None
    """How far a running one is, where it says so."""

    @property
    def id(self) -> str:
        return execution_id(self.job_id, self.slot_id, self.attempt)

    @property
    def run_id(self) -> str:
        return run_id(self.job_id, self.slot_id)


HistoryEntry = Execution | SkippedSlots | ActiveExecution


def job_history(
    services: Services, caller: Caller, job_id: str, *, limit: int = 50, cursor: str | None = None
) -> Page[HistoryEntry]:
    """Newest first; the first page begins with what is active. What only the row knows, an execution that it keeps and
    slots that were skipped, is in its place, once, whatever history has of it already."""
    job = read_job(services, caller, job_id)
    known = [one for one in (kept_execution(job), _pending_gap(job, services.clock.now())) if one is not None]
    page = services.history.list(job_id, limit=limit, cursor=cursor, beside=known)
    if cursor is not None:
        return Page(items=page.items, cursor=page.cursor)
    active: list[HistoryEntry] = [
        _with_progress(services, job, entry) for entry in _active(job) if not _is_recorded(services, entry, page)
    ]
    return Page(items=[*active, *page.items], cursor=page.cursor)


def _is_recorded(services: Services, entry: ActiveExecution, page: Page[Execution | SkippedSlots]) -> bool:
    """Whether history has the attempt's end, which its job's row does not follow yet; `page` is the first one."""
    ended = [one for one in page.items if isinstance(one, Execution)]
    if any((one.slot_id, one.attempt) == (entry.slot_id, entry.attempt) for one in ended):
        return True
    on_another = page.cursor is not None and (not ended or entry.slot_id <= ended[-1].slot_id)
    return on_another and services.history.get(entry.job_id, entry.slot_id, entry.attempt) is not None


def read_execution(services: Services, caller: Caller, execution: str) -> Execution | ActiveExecution:
    """Raises NotFoundError for what does not exist or the caller may not see."""
    key = parse_execution_id(execution)
    if key is None:
        raise NotFoundError(f"There is no execution {execution}.")
    try:
        job = read_job(services, caller, key.job_id)
    except NotFoundError:
        raise NotFoundError(f"There is no execution {execution}.") from None
    recorded = recorded_execution(services, job, key)
    if recorded is not None:
        return recorded
    for entry in _active(job):
        if (entry.slot_id, entry.attempt) == (key.slot_id, key.attempt):
            return _with_progress(services, job, entry)
    raise NotFoundError(f"There is no execution {execution}.")


def recorded_execution(engine: Engine, job: Job, key: ExecutionKey) -> Execution | None:
    """How an attempt has ended, as the row keeps it or else history; None where it has not.

    `job` is read before: an execution that leaves the row is in history first.
    """
    kept = kept_execution(job)
    if kept is not None and (kept.slot_id, kept.attempt) == (key.slot_id, key.attempt):
        return kept
    return engine.history.get(*key)


def _active(job: Job) -> list[ActiveExecution]:
    return [active_execution(job, slot, job.runs[slot]) for slot in sorted(job.runs, reverse=True)]


def _with_progress(services: Services, job: Job, entry: ActiveExecution) -> ActiveExecution:
    """With how far it is, which costs a read: only for those that run and may have said so."""
    if entry.status is not ExecutionStatus.RUNNING or job.definition is None:
        return entry
    if job.defined.target.get("type") not in ("handler", "worker") and job.defined.completion is Completion.RESPONSE:
        return entry
    return replace(entry, progress=services.progress.read(entry.id))


def active_execution(job: Job, slot: str, run: ActiveRun) -> ActiveExecution:
    """The run's attempt that runs, or comes next."""
    running = run.state is RunState.RUNNING
    return ActiveExecution(
        job_id=job.id,
        slot_id=slot,
        attempt=run.current_attempt,
        status=ExecutionStatus.RUNNING if running else ExecutionStatus.QUEUED,
        fence=run.fence,
        started_at=run.started_at,
        due_at=None if job.holds(run) or run.waits_for is not None else run.due_at,
        reason=None if running else run.deferred_for,
        deferrals=run.deferrals,
        deferred_for=run.deferred_for,
        worker_id=run.worker_id,
        approval=run.approval,
        waiting=run_waits(job, slot, run),
    )


def _pending_gap(job: Job, now: float) -> SkippedSlots | None:
    """Slots that were skipped and are not yet in history, or not all of them."""
    gap = job.gap
    if gap is None:
        return None
    return SkippedSlots(
        job_id=job.id, first=gap.first, last=gap.last, count=gap.count, reason=gap.reason, recorded_at=now
    )
