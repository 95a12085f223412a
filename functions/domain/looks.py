"""A job looks at those it depends on: it takes what they have ended for one run, or says when to look again.

Everything is in one write of its row (docs/protocol.md, 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from functions.domain.decision import Drop, Due, Write, attention_no_later, with_run
from functions.domain.dependence import UpstreamFailure
from functions.domain.ids import dependent_slot_id
from functions.domain.job import Job, Upstream
from functions.domain.rounds import Blocked, Round, Settled, deadline, may_stand, missing, next_round, timed_out
from functions.domain.run import ActiveRun, Outcome, RunState
from functions.domain.upstream import TIMED_OUT, Ends, Parent, counting_again

LOOK_EVERY = 3_600
"""Seconds between two looks at parents that nobody asked for: what a lost message costs at most."""
LOOK_SOON = 300
"""The same where no message is sent: what runs above a parent comes to its end without another run of it."""


def decide_look(job: Job, parents: Sequence[Parent], ends: Ends, *, now: float) -> Write | Drop:
    """Take what the parents have ended since the last look, for one run; or say when to look again."""
    up, instant = job.upstream, int(now)
    if up is None or may_not_look(job) is not None:
        return Drop(may_not_look(job) or "NO_UPSTREAM")
    up = counting_again(up, parents)
    found = next_round(job.defined.join, up, parents, ends)
    if isinstance(found, Blocked):
        since = up.since if up.since is not None else found.since
        until = deadline(job.defined.upstream_timeout, since, up, parents)
        if until is None or now < until:
            return _wait(job, replace(up, since=since), found, parents, until, instant)
        found = timed_out(up, parents, until)
    if isinstance(found, Settled) or _is_taken(job, up, found):
        return _write(job, replace(up, look_at=None, since=None, blocked_by=None, seen=()), instant, "SETTLED")
    return _make(job, up, found, now=instant)


def as_often(job: Job, decision: Write | Drop, *, once: bool) -> Write | Drop:
    """The decision of a look at parents that run once, all of them, or not: so does the job, and says so to those who
    depend on it."""
    row = decision.job if isinstance(decision, Write) else job
    if row.followed is None or row.followed.once == once:
        return decision
    row = replace(row, followed=replace(row.followed, once=once))
    return replace(decision, job=row) if isinstance(decision, Write) else Write(job=row, reason=decision.reason)


def _is_taken(job: Job, up: Upstream, found: Round) -> bool:
    """Whether the job has run for all of these ends: a caller has given it another parent since, of which none came."""
    old = any(found.took) and all(number <= mark for number, mark in zip(found.took, up.marks, strict=True))
    first = up.since == job.created_at  # whatever has run since, it was not for them
    return old and job.last_run is not None and not first and found.reason != TIMED_OUT


def may_not_look(job: Job) -> str | None:
    """Why nothing is taken of the parents now; None where it may be."""
    if job.upstream is None or job.cancelled or job.deleted_at is not None:
        return "NO_UPSTREAM"
    if job.paused:
        return "PAUSED"
    return "ACTIVE" if job.runs else None


def look_later(job: Job, *, now: float, settled_too: bool = False) -> Write | Drop:
    """Of a job whose definition cannot be read: nobody knows what it depends on, until that is repaired. Or, with
    `settled_too`, a parent's row: what ended meanwhile is found when that can be read again."""
    up = job.upstream
    if up is None or (up.look_at is None and not settled_too) or (up.look_at is not None and up.look_at > now):
        return Drop("NO_DEFINITION")
    return _write(job, replace(up, look_at=int(now) + LOOK_EVERY), int(now), "NO_DEFINITION")


def _wait(
    job: Job, up: Upstream, found: Blocked, parents: Sequence[Parent], until: int | None, now: int
) -> Write | Drop:
    timeout = job.defined.upstream_timeout
    # A parent that waits itself has no time yet; once it begins, it has as long as the job may wait.
    look_at = min(now + (LOOK_SOON if found.soon else LOOK_EVERY), now + timeout)
    if until is not None:
        look_at = min(look_at, until)
    waiting = replace(up, seen=up.seen if found.seen is None else found.seen, look_at=look_at)
    waiting = replace(waiting, blocked_by=_stands_longest(timeout, waiting, found.by, parents))
    same = job.upstream is not None and waiting == replace(job.upstream, look_at=look_at)
    if same and up.look_at is not None and now < up.look_at <= look_at:
        return Drop("BLOCKED")
    return _write(job, waiting, now, "BLOCKED")


def _stands_longest(timeout: int, up: Upstream, found: int, parents: Sequence[Parent]) -> int:
    """The parent that was found to block, or that whose own time is over last, where it is over before the next look:
    it stands for all of them at looks before that (usecases/graph.py)."""
    if may_stand(timeout, up, parents[found]):
        return found
    return max(missing(up, parents), key=lambda index: (parents[index].waits, parents[index].due or 0), default=found)


def _write(job: Job, up: Upstream, now: int, reason: str) -> Write | Drop:
    if up == job.upstream:
        return Drop(reason)
    row = replace(job, upstream=up)
    return Write(job=replace(row, attention_at=row.bound(now)), reason=reason)


def _make(job: Job, up: Upstream, found: Round, *, now: int) -> Write:
    """The run for these ends, or the one that says why there is none."""
    definition = job.defined
    taken = [
        (dependency.job_id, number)
        for dependency, number in zip(definition.depends_on, found.took, strict=False)
        if number
    ]
    instant = now if found.instant is None else found.instant
    if found.reason == TIMED_OUT:
        taken.append((TIMED_OUT, instant))
    judged = found.reason is not None and definition.on_upstream_failure is not UpstreamFailure.RUN
    earliest = 0 if judged else definition.schedule.at or 0
    slot = dependent_slot_id(max(instant, earliest), job.id, taken)
    run = ActiveRun(
        state=RunState.WAITING,
        attempt=0,
        attempt_limit=1 + definition.retry.max_retries,
        due_at=max(now, earliest),
        took=found.took,
    )
    if judged:
        skips = definition.on_upstream_failure is UpstreamFailure.SKIP
        verdict = Outcome.SKIPPED if skips else Outcome.PERMANENTLY_FAILED
        run = replace(run, verdict=verdict, verdict_for=found.reason, manual=True)
    row = replace(
        with_run(job, slot, run),
        upstream=replace(up, marks=found.marks, look_at=now, since=None, blocked_by=None, seen=()),
        wakes=0,
    )
    row = replace(row, attention_at=attention_no_later(row, now))
    return Write(job=row, reason="UNBLOCKED", hints=(Due(slot, 1, run.due_at or now),))
