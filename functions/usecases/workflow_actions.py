"""What callers do to a workflow: each of its jobs is cancelled or retried as it would be alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from functions.domain.caller import Caller
from functions.domain.errors import ConflictError, ForbiddenError, NotFoundError
from functions.domain.idempotency import IdempotencyKey
from functions.domain.job import Job
from functions.domain.workflow import cancel_order
from functions.parallel import for_all
from functions.usecases.actions import retry_job
from functions.usecases.cancelling import cancel_job
from functions.usecases.services import Services
from functions.usecases.workflow_reading import Seen, read_workflow
from functions.usecases.workflows import field_of

_PARALLEL = 8


def cancel_workflow(services: Services, caller: Caller, workflow_id: str) -> Seen:
    """Cancel what is left of each job, children before their parents: so they are cancelled, and not skipped.

    Raises NotFoundError, ForbiddenError, and ConflictError where nothing is left to cancel and nothing was cancelled.
    """
    seen = read_workflow(services, caller, workflow_id)
    caller.must_change(seen.workflow.owner)
    ids = {member.name: member.job_id for member in seen.members if member.job is not None}
    cancelled: list[Job] = []

    def cancel(name: str) -> Job | None:
        try:
            return cancel_job(services, caller, ids[name]) if name in ids else None
        except (ConflictError, ForbiddenError, NotFoundError):
            return None  # it has ended, was deleted, or was transferred

    for group in cancel_order(seen.members):
        cancelled += [job for job in for_all(cancel, group, at_once=_PARALLEL) if job is not None]
    if not cancelled:
        raise ConflictError("No job of the workflow has anything left to cancel.")
    return read_workflow(services, caller, workflow_id)


def retry_workflow(
    services: Services,
    caller: Caller,
    workflow_id: str,
    *,
    check: Callable[[Job], None] = lambda _: None,
    key: IdempotencyKey | None = None,
) -> Seen:
    """Retry each job whose own attempts failed for good; those after them run again as their parents end anew.

    With a key the same request again retries no job twice, and none that failed since. Raises NotFoundError,
    ForbiddenError, ConflictError where no job failed, and what `check` raises for a job that must not run as it is:
    then none is retried.
    """
    seen = read_workflow(services, caller, workflow_id)
    caller.must_change(seen.workflow.owner)
    for member in seen.members:
        if member.job is not None and member.can_be_retried:
            with field_of(member.name):
                check(member.job)
    failed: Sequence[str] = [member.job_id for member in seen.members if member.can_be_retried]
    if key is not None:
        claim = services.idempotency.claim(
            key.scope, key.key, body_hash=key.body_hash, ids=failed, now=services.clock.now()
        )
        failed = claim.ids

    def retry(job_id: str) -> Job | None:
        own = None if key is None else IdempotencyKey(f"{key.scope} {job_id}", key.key, key.body_hash)
        try:
            return retry_job(services, caller, job_id, check=check, key=own)
        except (ConflictError, ForbiddenError, NotFoundError):
            return None  # another caller retried it, or it was cancelled, deleted or transferred

    retried = [job for job in for_all(retry, failed, at_once=_PARALLEL) if job is not None]
    if not retried:
        if key is not None:
            services.idempotency.release(key.scope, key.key, claim)
        raise ConflictError("No job of the workflow has failed with an attempt of its own: there is nothing to retry.")
    return read_workflow(services, caller, workflow_id)
