"""How many recurring jobs an owner may have that are not over: they start runs for ever, so they bound what it costs.

The owner's row counts those that were made, and none that has ended. Once that count is at the limit, the owner's jobs
are counted, and the count is corrected. A creation that fails after this is counted until then.
"""

from __future__ import annotations

from functions.domain.errors import ConflictError, UnavailableError
from functions.domain.job import Job
from functions.usecases.services import Services
from functions.usecases.writing import TRIES

_PAGE = 100
RECOUNT_SECONDS = 30
"""After a count that came to a refusal, others are refused without one for so long."""


def add_recurring(services: Services, owner: str, more: int = 1) -> None:
    """Make room for so many more recurring jobs of the owner. Raises ConflictError where there is none."""
    most = services.recurring_jobs
    for _ in range(TRIES):
        full = services.owners.add_recurring(owner, more, most=most)
        if full is None:
            return
        now = services.clock.now()
        if full.recounted_at is not None and now < full.recounted_at + RECOUNT_SECONDS:
            break
        live = _live(services, owner, enough=most - more + 1)
        corrected = services.owners.correct_recurring(owner, live, instead_of=full.made, now=int(now))
        if corrected and live + more > most:
            break
    else:
        raise UnavailableError("The owner's recurring jobs were counted by others meanwhile: try again.")
    raise ConflictError(
        f"The owner {owner} may have {most} recurring jobs on this stage, and has no room for {more} more: cancel or "
        f"delete some. Those that are over do not count, {RECOUNT_SECONDS} s later at the latest."
    )


def is_new_recurring(before: Job, *, recurring: bool) -> bool:
    """Whether a change makes the job one of the owner's recurring ones, or brings it back to them."""
    return recurring and (before.is_over or before.definition is None or not before.definition.schedule.recurring)


def _live(services: Services, owner: str, *, enough: int) -> int:
    """How many the owner has, as the index of owners shows them; not counted beyond `enough`."""
    live, cursor = 0, None
    while True:
        page = services.jobs.list_by_owners([owner], limit=_PAGE, cursor=cursor)
        live += sum(_is_live(job) for job in services.jobs.get_many(page.items))
        if page.cursor is None or live >= enough:
            return live
        cursor = page.cursor


def _is_live(job: Job) -> bool:
    if job.deleted_at is not None or job.is_over:
        return False
    return job.definition is None or job.definition.schedule.recurring
