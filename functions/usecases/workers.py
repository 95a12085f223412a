"""Workers register, send heartbeats, and drain."""

from __future__ import annotations

from dataclasses import dataclass, replace

from functions.domain.caller import Caller
from functions.domain.claims import Held, Holder, decide_extend, running
from functions.domain.decision import Drop, Write
from functions.domain.errors import (
    CorruptDefinitionError,
    NotFoundError,
    NotYoursError,
    UnavailableError,
)
from functions.domain.execution import ExecutionStatus
from functions.domain.ids import ExecutionKey, parse_execution_id
from functions.domain.job import Job
from functions.domain.lease import is_overdue
from functions.domain.worker import Worker, new_worker_id
from functions.ports import Page
from functions.usecases.claiming import own_worker
from functions.usecases.executor import time_out
from functions.usecases.owners import EVERYBODY
from functions.usecases.services import Services
from functions.usecases.writing import TRIES, Applied, apply


@dataclass(frozen=True, slots=True)
class Kept:
    """An execution that a heartbeat has kept for its worker."""

    execution_id: str
    lease_expires_at: int


def register_worker(
    services: Services,
    caller: Caller,
    *,
    name: str,
    queues: tuple[str, ...],
    max_items: int,
    owner: str | None = None,
) -> Worker:
    """A worker for executions of one owner that the caller acts for; raises ForbiddenError for another owner."""
    caller.must_write()
    owner = caller.owner_of_new(owner)
    now = int(services.clock.now())
    worker = Worker(
        id=new_worker_id(owner),
        owner=owner,
        created_by=caller.id,
        name=name,
        queues=queues,
        max_items=max_items,
        registered_at=now,
        seen_at=now,
    )
    services.workers.register(worker)
    return worker


def read_worker(services: Services, caller: Caller, worker_id: str) -> Worker:
    """Raises NotFoundError for what does not exist or the caller may not see."""
    worker = services.workers.get(worker_id)
    if worker is None:
        raise NotFoundError(f"There is no worker {worker_id}.")
    try:
        caller.must_read(worker.owner)
    except NotFoundError:
        raise NotFoundError(f"There is no worker {worker_id}.") from None
    return worker


def list_workers(
    services: Services, caller: Caller, *, owner: str | None = None, limit: int = 50, cursor: str | None = None
) -> Page[Worker]:
    """A page of an owner's workers by id, `*` for everybody's; without an owner, of all that the caller acts for.

    Those that were not heard of for a day are gone. A page may be empty and still have a cursor.
    """
    wanted = caller.must_list(owner, "workers")
    return services.workers.list(None if wanted == (EVERYBODY,) else wanted, limit=limit, cursor=cursor)


def drain_worker(services: Services, caller: Caller, worker_id: str) -> Worker:
    """Give the worker nothing more: its polls, those that wait included, are answered with nothing at once."""
    for _ in range(TRIES):
        worker = read_worker(services, caller, worker_id)
        caller.must_change(worker.owner)
        if worker.draining:
            return worker
        saved = services.workers.save(worker, replace(worker, draining=True, drained_by=caller.actor))
        if saved is not None:
            return saved
    raise UnavailableError("The worker changed while it was to drain: try again.")


def heartbeat(
    services: Services, caller: Caller, worker_id: str, held: tuple[tuple[str, int], ...]
) -> tuple[Worker, list[Kept]]:
    """Note that the worker lives, and prolong the leases of these executions (id, fence).

    Raises NotYoursError where one of them is no longer the worker's: lost, cancelled, or ended. Those that are have
    been prolonged all the same.
    """
    own_worker(services, caller, worker_id)
    now = services.clock.now()
    worker = services.workers.seen(worker_id, now=now)
    if worker is None:
        raise NotFoundError(f"There is no worker {worker_id}.")
    kept: list[Kept] = []
    gone: dict[str, str] = {}
    for execution, fence in held:
        extended = _extend(services, execution, Holder(worker_id=worker_id, fence=fence))
        if isinstance(extended, Kept):
            kept.append(extended)
        else:
            gone[execution] = _what_became_of(services, execution, extended)
    if gone:
        raise NotYoursError(gone)
    return worker, kept


def _extend(services: Services, execution: str, holder: Holder) -> Kept | str:
    """The execution with its lease as it now is, or what has become of one that the holder does not hold.

    One that no clock takes a report on any more is ended here.
    """
    key = parse_execution_id(execution)
    if key is None:
        return "LOST"
    try:
        job = services.jobs.get(key.job_id, with_definition=False)
        run = None if job is None else running(job, key)
        if run is not None and holder.holds(run) and is_overdue(run, services.clock.now()):
            _end_late(services, key, holder)
            return ExecutionStatus.TIMED_OUT.value
    except CorruptDefinitionError:
        return "LOST"
    if job is None:
        return "LOST"

    def decide(row: Job, _: str) -> Write | Held | Drop:
        return decide_extend(row, key, holder, now=services.clock.now())

    decided: Applied | Held | Drop = apply(services, job, decide)
    if isinstance(decided, Drop):
        return decided.reason
    return Kept(execution, decided.job.runs[key.slot_id].lease_expires_at or 0)


def _end_late(services: Services, key: ExecutionKey, holder: Holder) -> None:
    """End the attempt as TIMED_OUT, by a row with its definition; raises CorruptDefinitionError."""
    job = services.jobs.get(key.job_id)
    run = None if job is None else running(job, key)
    if job is not None and run is not None and holder.holds(run):
        time_out(services, job, key.slot_id)


def _what_became_of(services: Services, execution: str, as_the_row_says: str) -> str:
    key = parse_execution_id(execution)
    stored = None if key is None else services.history.get(*key)
    if stored is None:
        return as_the_row_says
    lost = stored.error is not None and stored.error.code == "WORKER_LOST"
    return "LOST" if lost else stored.status.value
