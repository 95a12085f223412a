"""Workers, and what they are given, in the contract's JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functions.api.body import compact
from functions.api.views import active_view, with_raw
from functions.domain.instants import rfc3339
from functions.usecases.history import active_execution

if TYPE_CHECKING:
    from collections.abc import Iterable

    from functions.domain.worker import Worker
    from functions.ports import Page
    from functions.usecases.claiming import Claimed
    from functions.usecases.workers import Kept


def worker_text(worker: Worker, now: float) -> str:
    return compact(_worker(worker, now))


def workers_text(page: Page[Worker], now: float) -> str:
    pagination = {} if page.cursor is None else {"cursor": page.cursor}
    return compact({"data": [_worker(worker, now) for worker in page.items], "pagination": pagination})


def heartbeat_text(worker: Worker, kept: Iterable[Kept], now: float) -> str:
    """The worker, and the lease of each execution it named."""
    executions = [{"id": each.execution_id, "leaseExpiresAt": rfc3339(each.lease_expires_at)} for each in kept]
    return compact({**_worker(worker, now), "executions": executions})


def claimed_text(claimed: Iterable[Claimed]) -> str:
    """Executions with payload and lease, as a poll gives them."""
    return f'{{"data":[{",".join(_claimed(each) for each in claimed)}]}}'


def _claimed(claimed: Claimed) -> str:
    job, run = claimed.job, claimed.run
    view = active_view(active_execution(job, claimed.slot_id, run)) | {
        "leaseExpiresAt": None if run.lease_expires_at is None else rfc3339(run.lease_expires_at),
        "deadlineAt": None if run.deadline_at is None else rfc3339(run.deadline_at),
        "queue": job.defined.worker_queue,
    }
    return with_raw(view, "payload", claimed.payload)


def _worker(worker: Worker, now: float) -> dict[str, Any]:
    return {
        "id": worker.id,
        "name": worker.name,
        "status": worker.status(now).value,
        "queues": list(worker.queues),
        "maxItems": worker.max_items,
        "draining": worker.draining,
        "owner": worker.owner,
        "createdBy": worker.created_by,
        "registeredAt": rfc3339(worker.registered_at),
        "lastSeenAt": rfc3339(worker.seen_at),
    }
