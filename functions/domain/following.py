"""What a write of a job's row means for the graph that the job is part of: ends are counted, looks fall due.

Applied to every write, whoever makes it (usecases/writing.py): so none of them can forget it (docs/workflows.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from functions.domain.decision import Drop, Due, Write, attention_no_later, waiting_hints, with_attention
from functions.domain.hint import LOOK_SLOT
from functions.domain.ids import dependent_slot_id, slot_id
from functions.domain.job import Followed, Job
from functions.domain.run import LastRun, Outcome
from functions.domain.upstream import may_be_given_up_sooner


def in_its_graph(before: Job, after: Job, *, now: int) -> tuple[Job, tuple[Due, ...]]:
    """The row that the write makes of `before`, and the hint to send where the graph must be looked at."""
    row = _with_its_end(before, after, now)
    row = _looks_again(before, row, now)
    if row is after:
        # Of one that is deleted the edges are taken back; nothing is lost where the message is.
        return row, ((look_hint(now),) if after.upstream is not None and _is_deleted_now(before, after) else ())
    return replace(row, attention_at=attention_no_later(row, now)), (look_hint(now),)


def look_hint(now: int) -> Due:
    return Due(LOOK_SLOT, 0, now)


def first_hints(job: Job) -> tuple[Due, ...]:
    """What to send once a new job's row exists."""
    waits = job.waits_for_parents and not job.paused
    return (*waiting_hints(job), look_hint(job.created_at)) if waits else waiting_hints(job)


def followed_by(job: Job, *, once: bool) -> Followed:
    """What a job keeps from when another depends on it; its last run, if it had one, is its first end."""
    ends = 0 if job.last_run is None else 1
    return Followed(ends=ends, told=ends, once=once)


class Telling(NamedTuple):
    """One walk along the dependents. It goes on over several messages, and whatever ends meanwhile is told by the
    next one: so those at the end of a long list hear of a parent that ends again and again."""

    number: int
    """The end that it began with: every dependent hears of it, or of a later one."""
    after: str | None
    """The last dependent that was looked at."""
    state: tuple[bool, bool, bool]
    """Whether the job is over, is paused, runs but once, as those who were looked at have seen it."""
    told: int
    """`Followed.told` of the row that this walk, or part of it, began with: less in the row since, and there is more
    to tell than those who were looked at have seen."""
    done: bool = False
    """There is no other dependent after that one."""


def telling(job: Job) -> Telling | None:
    """What is to be told of the job; None where all is."""
    followed = job.followed
    if followed is None or followed.ends <= followed.told:
        return None
    number, _, after = (followed.cursor or "").partition("#")
    return Telling(int(number) if after else followed.ends, after or None, _state(job), followed.told)


def decide_told(job: Job, walk: Telling, *, now: float) -> Write | Drop:
    """All dependents were looked at, or those up to `walk.after`: then another message goes on."""
    followed = job.followed
    if followed is None or followed.told >= walk.number:
        return Drop("TOLD")
    if _state(job) != walk.state or followed.told < walk.told:
        return _anew(job, followed, now)
    hint = look_hint(int(now))
    if not walk.done:
        row = replace(job, followed=replace(followed, cursor=f"{walk.number}#{walk.after}"))
        return Write(job=row, reason="TELLING", hints=(hint,))
    row = replace(job, followed=replace(followed, told=walk.number, cursor=None))
    more = (hint,) if followed.ends > walk.number else ()
    return Write(job=with_attention(row, int(now)), reason="TOLD", hints=more)


def _state(job: Job) -> tuple[bool, bool, bool]:
    return job.is_over, job.paused, job.followed is not None and job.followed.once


def _anew(job: Job, followed: Followed, now: float) -> Write:
    """The walk begins once more: some have looked while the job was not over, or was."""
    row = replace(job, followed=replace(followed, cursor=None))
    return Write(job=row, reason="TOLD_ANEW", hints=(look_hint(int(now)),))


def superseded_end(before: Job, after: Job) -> tuple[int, LastRun] | None:
    """The end, by its number, that must be kept before the write that makes `after` of `before`."""
    if before.followed is None or before.last_run is None or after.last_run == before.last_run:
        return None
    return before.followed.ends, before.last_run


def _with_its_end(before: Job, after: Job, now: int) -> Job:
    """A run that ended has the next number. So has the cancel of a job, even where nothing of it ran."""
    followed = after.followed
    if before.followed is None or followed is None:
        return after
    ended = after.last_run != before.last_run
    if not ended and after.cancelled and not before.cancelled:
        after, ended = replace(after, last_run=_cancelled(before, now)), True
    if ended:
        return replace(after, followed=replace(followed, ends=before.followed.ends + 1))
    if after.is_over and not before.is_over and followed.told >= followed.ends:
        # No end, but those who wait for one have to know that none comes.
        return _to_be_told(after, followed)
    if followed.once != before.followed.once or _is_deleted_now(before, after) or may_be_given_up_sooner(before, after):
        return _to_be_told(after, followed)
    return after


def _is_deleted_now(before: Job, after: Job) -> bool:
    return after.deleted_at is not None and before.deleted_at is None


def _to_be_told(row: Job, followed: Followed) -> Job:
    """From the beginning of the list. A walk along it that goes on sees by `told` that it has to begin again."""
    return replace(row, followed=replace(followed, told=min(followed.told, followed.ends) - 1, cursor=None))


def _cancelled(job: Job, now: int) -> LastRun:
    slot = dependent_slot_id(now, job.id, ()) if job.next_slot is None else slot_id(job.next_slot)
    return LastRun(slot_id=slot, attempt=0, outcome=Outcome.CANCELLED, fence=job.fence, ended_at=now)


def _looks_again(before: Job, after: Job, now: int) -> Job:
    """A job that depends on others looks at them once nothing of it is active, or a pause is over."""
    if after.upstream is None or after.upstream != before.upstream or after.cancelled or after.runs or after.paused:
        return after
    return replace(after, upstream=replace(after.upstream, look_at=now)) if before.runs or before.paused else after
