"""How many recurring jobs an owner may have that are not over: they start runs for ever, so they bound what it costs.

The owner's row counts those that were made, and none that has ended. Once that count is at the limit, the owner's jobs
are counted, and the count is corrected. A creation that fails after this is counted until then.
"""

from __future__ import annotations

import threading

from functions.domain.errors import ConflictError, UnavailableError
from functions.domain.job import Job
from functions.usecases.services import Services
from functions.usecases.writing import TRIES

_PAGE = 100
OTHER_PAGES = 20
"""So many pages of jobs that do not count are read at most: an owner may have any number of them."""
RECOUNT_SECONDS = 30
"""For so long after a recount began, a full owner is refused without another."""
_recounting = threading.Lock()
"""Items of one bulk wait for the recount of one of them, and are not refused because it has begun."""


def add_recurring(services: Services, owner: str, more: int = 1) -> None:
    """Make room for so many more recurring jobs of the owner. Raises ConflictError where there is none."""
    most = services.recurring_jobs
    if more <= most:
        if services.owners.add_recurring(owner, more, most=most) is None:
            return
        with _recounting:
            if _found_room(services, owner, more, most=most):
                return
    raise ConflictError(
        f"The owner {owner} may have {most} recurring jobs on this stage, and has no room for {more} more: cancel or "
        f"delete some. Those that are over do not count, {RECOUNT_SECONDS} s later at the latest."
    )


def is_new_recurring(before: Job, *, recurring: bool) -> bool:
    """Whether a change makes the job one of the owner's recurring ones, or brings it back to them."""
    return recurring and (before.is_over or before.definition is None or not before.definition.schedule.recurring)


def is_live_recurring(job: Job) -> bool:
    """Whether the job is one of its owner's recurring ones that are not over."""
    if job.deleted_at is not None or job.is_over:
        return False
    return job.definition is None or job.definition.schedule.recurring


def _found_room(services: Services, owner: str, more: int, *, most: int) -> bool:
    """Count what the owner's jobs leave room for, unless they were counted just now."""
    for _ in range(TRIES):
        full = services.owners.add_recurring(owner, more, most=most)
        if full is None:
            return True
        now = int(services.clock.now())
        if full.recounted_at is not None and now < full.recounted_at + RECOUNT_SECONDS:
            return False
        # The instant is written first: no other request counts at the same time, or soon after one that died of it.
        if not services.owners.correct_recurring(owner, full.made, instead_of=full, now=now):
            continue
        live = _live(services, owner, enough=most)
        if live is None:
            return True
        services.owners.correct_recurring(owner, live, instead_of=full._replace(recounted_at=now), now=now)
    raise UnavailableError("The owner's recurring jobs were counted by others meanwhile: try again.")


def _live(services: Services, owner: str, *, enough: int) -> int | None:
    """How many the owner has, as the index of owners shows them; not counted beyond `enough`. None if it has too many
    other jobs to tell."""
    live, cursor = 0, None
    for _ in range(enough // _PAGE + OTHER_PAGES):
        page = services.jobs.list_by_owners([owner], limit=_PAGE, cursor=cursor)
        live += sum(map(is_live_recurring, services.jobs.get_many(page.items)))
        if page.cursor is None or live >= enough:
            return live
        cursor = page.cursor
    return None
