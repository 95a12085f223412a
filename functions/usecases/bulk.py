"""Create many jobs with one request: each item by itself, the request as a whole idempotent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from functions.domain.caller import Caller
from functions.domain.errors import GnomonError, JobExistsError
from functions.domain.following import first_hints
from functions.domain.idempotency import IdempotencyKey
from functions.parallel import for_all
from functions.usecases.dependencies import connected
from functions.usecases.jobs import Created, JobDraft, drafted, made_job
from functions.usecases.quotas import add_recurring
from functions.usecases.services import Services
from functions.usecases.writing import send_all

MAX_ITEMS = 100


@dataclass(frozen=True, slots=True)
class BulkCreated:
    results: Sequence[Created | GnomonError]
    """In the order of the items: the job as it is, or why it was refused."""
    replayed: bool


def create_jobs(
    services: Services,
    caller: Caller,
    drafts: Sequence[JobDraft | GnomonError],
    *,
    check: Callable[[JobDraft], None],
    key: IdempotencyKey | None = None,
) -> BulkCreated:
    """Create a job for each draft; an item that is refused (an error in its place, or by `check`) hinders no other.

    All ids are drawn first and kept under the key, so the same request again, after whatever became of the first,
    finds each job that was made and makes the others. Raises ForbiddenError, IdempotencyKeyReusedError.
    """
    caller.must_write()
    now = services.clock.now()
    ids, replayed = [services.new_job_id() for _ in drafts], False
    if key is not None:
        claim = services.idempotency.claim(key.scope, key.key, body_hash=key.body_hash, ids=ids, now=now)
        ids, replayed = list(claim.ids), claim.replayed
    owners = {draft.owner or caller.owner for draft in drafts if isinstance(draft, JobDraft)}
    for owner in filter(caller.acts_for, sorted(owners)):
        services.owners.register(owner)

    def create(item: tuple[str, JobDraft | GnomonError]) -> Created | GnomonError:
        job_id, draft = item
        if isinstance(draft, GnomonError):
            return draft
        try:
            return _create(services, caller, job_id, draft, check=check, replayed=replayed, now=now)
        except GnomonError as error:
            return error

    # BatchWriteItem takes no condition (DynamoDB API), so each job is a put of its own.
    results = for_all(create, zip(ids, drafts, strict=True))
    made = [one.job for one in results if isinstance(one, Created) and not one.replayed]
    send_all(services, ((job, first_hints(job)) for job in made))
    return BulkCreated(results, replayed)


def _create(
    services: Services,
    caller: Caller,
    job_id: str,
    draft: JobDraft,
    *,
    check: Callable[[JobDraft], None],
    replayed: bool,
    now: float,
) -> Created:
    """Make the job, or find it where the request that drew its id has made it."""
    if replayed:
        stored = services.jobs.get(job_id)
        if stored is not None:
            return Created(stored, replayed=True)
    check(draft)
    try:
        job = connected(services, drafted(services, caller, draft, job_id=job_id, now=now), now=now)
        if job.defined.schedule.recurring:
            add_recurring(services, job.owner)
        job = services.jobs.create(job)
    except JobExistsError:
        return Created(made_job(services, caller, job_id), replayed=True)
    return Created(job, replayed=False)
