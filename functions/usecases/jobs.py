"""Create, read, list, change and delete jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from functions.domain.approval import must_not_dodge
from functions.domain.caller import Caller
from functions.domain.cancellation import armed_hints
from functions.domain.commands import decide_change, new_job
from functions.domain.decision import Drop, Write
from functions.domain.definition import Definition
from functions.domain.errors import (
    ConflictError,
    GraphChangedError,
    InvalidFieldError,
    JobExistsError,
    NotFoundError,
    PreconditionFailedError,
    UnavailableError,
)
from functions.domain.following import first_hints
from functions.domain.hint import Hint
from functions.domain.idempotency import IdempotencyKey
from functions.domain.job import Job, JobStatus
from functions.ports import Page
from functions.usecases.consequences import carry_out
from functions.usecases.dependencies import connected
from functions.usecases.owners import EVERYBODY, list_everybodys
from functions.usecases.quotas import add_recurring, is_new_recurring
from functions.usecases.rewiring import Wiring, rewired_edges, wire
from functions.usecases.services import Services
from functions.usecases.writing import TRIES, Applied, apply, send


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDraft:
    """A job as a caller wants it, checked."""

    document: dict[str, Any]
    """The contract's JSON document without `payload` and `enabled`, defaults left out."""
    payload: str
    """JSON text."""
    enabled: bool | None = None
    """None: on for a new job, unchanged for another."""
    owner: str | None = None
    """Of a new job; None for the caller's default."""


@dataclass(frozen=True, slots=True)
class Created:
    job: Job
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilters:
    status: JobStatus | None = None
    type: str | None = None
    tag: str | None = None
    silent: bool | None = None
    """Whether the silence alarm was raised and no success has come since."""

    def accept(self, job: Job) -> bool:
        document = job.definition.document if job.definition else {}
        return (
            (self.status is None or job.status is self.status)
            and (self.type is None or document.get("type") == self.type)
            and (self.tag is None or self.tag in document.get("tags", ()))
            and (self.silent is None or job.is_silent is self.silent)
        )


def create_job(
    services: Services,
    caller: Caller,
    draft: JobDraft,
    *,
    key: IdempotencyKey | None = None,
    check: Callable[[], None] = lambda: None,
) -> Created:
    """Create a job; with a key, the same request again finds the job that the first one made, or makes it.

    The id is drawn first and kept under the key, so it is the same whether the first request finished, crashed or
    still runs. A job that was deleted since is found as it was deleted. `check` raises InvalidFieldError for what is
    refused by now; it does not refuse a request whose job was made while it was still allowed.
    Raises ForbiddenError, InvalidFieldError, IdempotencyKeyReusedError.
    """
    caller.must_write()
    now = services.clock.now()
    job_id, replayed = services.new_job_id(), False
    try:
        check()
        job = drafted(services, caller, draft, job_id=job_id, now=now)
    except InvalidFieldError:
        made = None if key is None else _made_before(services, key, now=now)
        if made is None:
            raise
        return Created(made, replayed=True)
    if key is not None:
        claim = services.idempotency.claim(key.scope, key.key, body_hash=key.body_hash, ids=[job_id], now=now)
        job_id, replayed = claim.ids[0], claim.replayed
        if replayed:
            job = drafted(services, caller, draft, job_id=job_id, now=now)
        if replayed and job.defined.depends_on and services.jobs.get(job_id, with_definition=False) is not None:
            return Created(made_job(services, caller, job_id), replayed=True)
    try:
        job = _admitted(services, job, now=now)
    except (InvalidFieldError, ConflictError):
        if key is not None and not replayed:
            services.idempotency.release(key.scope, key.key, claim)
        if not replayed or services.jobs.get(job_id, with_definition=False) is None:
            raise
        return Created(made_job(services, caller, job_id), replayed=True)
    services.owners.register(job.owner)
    try:
        job = services.jobs.create(job)
    except JobExistsError:
        return Created(made_job(services, caller, job_id), replayed=True)
    send(services, job, first_hints(job))
    return Created(job, replayed)


def _admitted(services: Services, job: Job, *, now: float) -> Job:
    """The new job with its edges, counted if it is recurring."""
    job = connected(services, job, now=now)
    if job.defined.schedule.recurring:
        add_recurring(services, job.owner)
    return job


def _made_before(services: Services, key: IdempotencyKey, *, now: float) -> Job | None:
    """The job that an earlier request with this key made; None when there is none, and then nothing is kept."""
    ids = [services.new_job_id()]
    claim = services.idempotency.claim(key.scope, key.key, body_hash=key.body_hash, ids=ids, now=now)
    if not claim.replayed:
        services.idempotency.release(key.scope, key.key, claim)
        return None
    return services.jobs.get(claim.ids[0])


def made_job(services: Services, caller: Caller, job_id: str) -> Job:
    """The job that an earlier request with the same key made, deleted since or not."""
    job = services.jobs.get(job_id)
    if job is None:
        raise no_such_job(job_id)
    must_see(caller, job)
    return job


def drafted(services: Services, caller: Caller, draft: JobDraft, *, job_id: str, now: float) -> Job:
    """The row of a new job. Raises InvalidFieldError where its schedule has no slot, and ForbiddenError for an owner
    that the caller does not act for."""
    definition = Definition.read(draft.document, draft.payload, job_id=job_id, created_at=int(now))
    job = new_job(
        job_id,
        definition,
        owner=caller.owner_of_new(draft.owner),
        created_by=caller.id,
        enabled=draft.enabled is not False,
        now=now,
        write_id=services.new_write_id(),
    )
    return replace(job, acted=caller.actor)


def load_job(services: Services, job_id: str) -> Job:
    """The job's row; raises NotFoundError when there is none, or it was deleted."""
    job = services.jobs.get(job_id)
    if job is None or job.deleted_at is not None:
        raise no_such_job(job_id)
    return job


def no_such_job(job_id: str) -> NotFoundError:
    return NotFoundError(f"There is no job {job_id}.")


def read_job(services: Services, caller: Caller, job_id: str) -> Job:
    """Raises NotFoundError for what does not exist or the caller may not see."""
    job = load_job(services, job_id)
    must_see(caller, job)
    return job


def must_see(caller: Caller, job: Job) -> None:
    try:
        caller.must_read(job.owner)
    except NotFoundError:
        raise no_such_job(job.id) from None


def must_change(caller: Caller, job: Job, if_match: int | None = None) -> None:
    """Raises unless the caller may change this job as it now is (`if_match`: the revision it must have)."""
    if job.deleted_at is not None:
        raise no_such_job(job.id)
    must_see(caller, job)
    caller.must_change(job.owner)
    must_be_as_read(job, if_match)


def load_changeable(services: Services, caller: Caller, job_id: str, if_match: int | None) -> Job:
    """The job, which the caller may change as it now is. Raises as `load_job` and `must_change`."""
    job = load_job(services, job_id)
    must_change(caller, job, if_match)
    return job


def must_be_as_read(job: Job, if_match: int | None) -> None:
    """Raises PreconditionFailedError unless the job has the revision `if_match`; None is any."""
    if if_match is not None and job.revision != if_match:
        raise PreconditionFailedError(
            f"The job has revision {job.revision}, If-Match names {if_match}: read the job and repeat with its ETag."
        )


def list_jobs(
    services: Services,
    caller: Caller,
    *,
    owner: str | None = None,
    filters: JobFilters = JobFilters(),
    limit: int = 50,
    cursor: str | None = None,
) -> Page[Job]:
    """A page of an owner's jobs, newest first; without an owner, of all owners that the caller acts for; with owner `*`
    everybody's, owner by owner.

    Filters thin a page out: it may be empty and still have a cursor.
    """
    wanted = caller.must_list(owner, "jobs")

    def of(one: str, limit: int, cursor: str | None) -> Page[str]:
        return services.jobs.list_by_owners((one,), limit=limit, cursor=cursor)

    if wanted == (EVERYBODY,):
        page = list_everybodys(services.owners.all(), of, limit=limit, cursor=cursor)
    else:
        page = services.jobs.list_by_owners(wanted, limit=limit, cursor=cursor)
    jobs = [job for job in services.jobs.get_many(page.items) if job.deleted_at is None]
    return Page(items=[job for job in jobs if filters.accept(job)], cursor=page.cursor)


def change_job(
    services: Services,
    caller: Caller,
    job_id: str,
    *,
    change: Callable[[Job], JobDraft],
    if_match: int | None = None,
) -> Job:
    """Replace a job's definition by what `change` makes of the row; it is called again when a race is lost.

    Raises NotFoundError, ForbiddenError, PreconditionFailedError, ConflictError, what `change` raises, and
    InvalidFieldError for jobs that it cannot depend on.
    """
    for _ in range(TRIES):
        try:
            return _change(services, caller, job_id, change, if_match)
        except GraphChangedError:
            continue
    raise UnavailableError("The jobs that this one depends on were changed meanwhile: try again.")


def _change(
    services: Services, caller: Caller, job_id: str, change: Callable[[Job], JobDraft], if_match: int | None
) -> Job:
    job = load_changeable(services, caller, job_id, if_match)
    drafts = {job.seq: change(job)}
    added = False

    def decide(row: Job, mark: str) -> Write | Job:
        must_change(caller, row, if_match)
        draft = drafts.get(row.seq) or change(row)
        definition = Definition.read(draft.document, draft.payload, job_id=job_id, created_at=row.created_at)
        must_not_dodge(row, definition, caller)
        nonlocal added
        if not added and is_new_recurring(row, recurring=definition.schedule.recurring):
            add_recurring(services, row.owner)
            added = True
        now = services.clock.now()
        wiring = Wiring() if row.cancelled else wire(services, row, definition)
        changed = decide_change(
            row, definition, enabled=draft.enabled, now=now, write_id=mark, parents=wiring.parents, by=caller.actor
        )
        return row if isinstance(changed, Drop) else wiring.applied(changed)

    applied = apply(services, job, decide, tries=TRIES)
    if isinstance(applied, Job):
        return applied
    rewired_edges(services, applied.before, applied.job)
    disarm_replaced(services, applied)
    carry_out(services, applied)
    return applied.job


def disarm_replaced(services: Services, applied: Applied) -> None:
    """Take back, best effort, the schedules of what this write took out of the row."""
    kept = set(armed_hints(applied.job))
    for due in armed_hints(applied.before):
        if due not in kept:
            services.timetable.disarm(Hint(applied.job.id, due.slot_id, due.attempt), due_at=due.due_at)
