"""What the ends of its parents' runs mean for a job that depends on them (docs/workflows.md).

The parents' rows are read, never counted along: an event that is lost, late or comes twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from functions.domain.decision import Drop, Due, Write, attention_no_later, with_run
from functions.domain.definition import Definition
from functions.domain.dependence import Dependency, Join, On, UpstreamFailure
from functions.domain.ids import dependent_slot_id
from functions.domain.job import Job, Upstream
from functions.domain.run import ActiveRun, LastRun, Outcome, RunState

LOOK_EVERY = 3_600
"""Seconds between two looks at parents that nobody asked for: what a lost message costs at most."""
ENDS_LOOKED_AT = 100
"""Ends of one parent that join `any` looks at, the newest: of those before none met the condition then."""

_MET = {
    On.SUCCESS: (Outcome.COMPLETED,),
    On.FAILURE: (Outcome.PERMANENTLY_FAILED,),
    On.COMPLETION: (Outcome.COMPLETED, Outcome.PERMANENTLY_FAILED),
}
_UNMET = {
    Outcome.COMPLETED: "UPSTREAM_SUCCEEDED",
    Outcome.PERMANENTLY_FAILED: "UPSTREAM_FAILED",
    Outcome.CANCELLED: "UPSTREAM_CANCELLED",
    Outcome.SKIPPED: "UPSTREAM_SKIPPED",
}
CONDITION_FALSE, GONE, TIMED_OUT = "CONDITION_FALSE", "UPSTREAM_GONE", "UPSTREAM_TIMEOUT"

UNMET = {
    "UPSTREAM_SUCCEEDED": "A job that this one depends on has succeeded, and it was to fail.",
    "UPSTREAM_FAILED": "A job that this one depends on has failed.",
    "UPSTREAM_CANCELLED": "A job that this one depends on was cancelled.",
    "UPSTREAM_SKIPPED": "A job that this one depends on was skipped.",
    CONDITION_FALSE: "The condition on the result of a job that this one depends on is false.",
    GONE: "A job that this one depends on is gone, or over, and never ran.",
    TIMED_OUT: "Jobs that this one depends on did not end within upstreamTimeoutSeconds.",
}
"""Reasons of runs that end without an attempt because a dependency was not met, and what to say of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """What a dependency needs to know of a parent's row."""

    ends: int = 0
    last: LastRun | None = None
    """The end numbered `ends`."""
    over: bool = True
    """No run of it will come, unless a caller asks for one."""
    once: bool = False
    next_due: int | None = None


def parent_of(row: Job | None) -> Parent:
    if row is None:
        return Parent()
    ends = 0 if row.followed is None else row.followed.ends
    return Parent(
        ends=ends,
        last=row.last_run if ends else None,
        over=row.deleted_at is not None or (row.next_slot is None and not row.runs and not row.waits_for_parents),
        once=row.followed is not None and row.followed.once,
        next_due=None if row.paused else row.next_due,
    )


def unmet(dependency: Dependency, end: LastRun, holds: Callable[[str], bool]) -> str | None:
    """Why this end of the parent's run does not meet the dependency; None where it does.

    `holds` tells whether an expression is true of the run's result.
    """
    if end.outcome not in _MET[dependency.on]:
        return _UNMET[end.outcome]
    return None if dependency.when is None or holds(dependency.when) else CONDITION_FALSE


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The ends of the parents, as they are asked for: reads that most looks do not need."""

    of: Callable[[int, int], LastRun | None]
    """(index of the dependency, number) to the end; None where it was kept no longer."""
    unmet: Callable[[int, LastRun], str | None]


@dataclass(frozen=True, slots=True)
class _Round:
    """Ends that are taken together, for one run."""

    took: tuple[int, ...]
    """Numbers, 0 for none."""
    marks: tuple[int, ...]
    instant: int
    reason: str | None = None
    """Why the run does not come to an attempt; None where all is met."""


@dataclass(frozen=True, slots=True)
class _Blocked:
    by: int
    since: int | None = None
    """When the round began that is not complete."""


class _Settled:
    """Nothing will come of the parents any more."""


def initial_marks(parents: Sequence[Parent]) -> tuple[int, ...]:
    """The marks of a job that begins to depend on these: the last end of one that is over counts at once."""
    return tuple(max(0, parent.ends - 1) if parent.over else parent.ends for parent in parents)


def decide_look(job: Job, parents: Sequence[Parent], ends: Ends, *, now: float) -> Write | Drop:
    """Take what the parents have ended since the last look, for one run; or say when to look again."""
    up, instant = job.upstream, int(now)
    if up is None or job.cancelled:
        return Drop("NO_UPSTREAM")
    if job.paused:
        return Drop("PAUSED")
    if job.runs:
        return Drop("ACTIVE")
    found = _found(job, up, parents, ends)
    if isinstance(found, _Blocked):
        since = up.since if up.since is not None else found.since
        deadline = _deadline(job.defined, since, up, parents)
        if deadline is None or now < deadline:
            return _wait(job, up, found.by, since, deadline, instant)
        found = _timed_out(up, parents, since or instant)
    if isinstance(found, _Settled):
        return _write(job, replace(up, look_at=None, since=None, blocked_by=None), instant, "SETTLED")
    return _make(job, up, found, now=instant)


def _found(job: Job, up: Upstream, parents: Sequence[Parent], ends: Ends) -> _Round | _Blocked | _Settled:
    if len(parents) == 1:
        return _of_one(up, parents[0], ends)
    if job.defined.join is Join.ANY:
        return _of_any(job, up, parents, ends)
    return _of_all(up, parents, ends)


def _of_one(up: Upstream, parent: Parent, ends: Ends) -> _Round | _Blocked | _Settled:
    """Its ends one by one, oldest first."""
    for number in range(up.marks[0] + 1, parent.ends + 1):
        end = ends.of(0, number)
        if end is not None:
            return _Round((number,), (number,), end.ended_at, ends.unmet(0, end))
    return _nothing_new(up, [parent])


def _nothing_new(up: Upstream, parents: Sequence[Parent]) -> _Round | _Blocked | _Settled:
    for index, parent in enumerate(parents):
        if not parent.over:
            return _Blocked(index)
    if up.since is None:
        return _Settled()
    return _Round((), up.marks, up.since, GONE)


def _of_all(up: Upstream, parents: Sequence[Parent], ends: Ends) -> _Round | _Blocked | _Settled:
    """The latest of each, once each has a new one or is over."""
    new = [parent.ends > mark for parent, mark in zip(parents, up.marks, strict=True)]
    if not any(new):
        return _nothing_new(up, parents)
    latest = [parent.last for parent in parents]
    for index, parent in enumerate(parents):
        if not new[index] and not parent.over:
            began = min(end.ended_at for end, is_new in zip(latest, new, strict=True) if is_new and end is not None)
            return _Blocked(index, began)
    reasons = (GONE if end is None else ends.unmet(index, end) for index, end in enumerate(latest))
    return _latest(up, parents, next((reason for reason in reasons if reason is not None), None))


def _latest(up: Upstream, parents: Sequence[Parent], reason: str | None) -> _Round:
    marks = tuple(max(parent.ends, mark) for parent, mark in zip(parents, up.marks, strict=True))
    instant = max((parent.last.ended_at for parent in parents if parent.last is not None), default=up.since or 0)
    return _Round(tuple(parent.ends for parent in parents), marks, instant, reason)


def _of_any(job: Job, up: Upstream, parents: Sequence[Parent], ends: Ends) -> _Round | _Blocked | _Settled:
    """The first new end that meets its condition. Parents that run once count only until the job has run."""
    has_run = job.last_run is not None and job.last_run.reason is None
    first: str | None = None
    new = [False] * len(parents)
    for index, (parent, mark) in enumerate(zip(parents, up.marks, strict=True)):
        if has_run and parent.once:
            continue
        for number in range(max(mark, parent.ends - ENDS_LOOKED_AT) + 1, parent.ends + 1):
            end = ends.of(index, number)
            if end is None:
                continue
            reason = ends.unmet(index, end)
            if reason is None:
                took = tuple(number if place == index else 0 for place in range(len(parents)))
                marks = tuple(number if place == index else old for place, old in enumerate(up.marks))
                return _Round(took, marks, end.ended_at)
            first, new[index] = first or reason, True
    if not any(new):
        return _nothing_new(up, parents)
    for index, parent in enumerate(parents):
        if not new[index] and not parent.over:
            return _Blocked(index)
    return _latest(up, parents, first)


def _deadline(definition: Definition, since: int | None, up: Upstream, parents: Sequence[Parent]) -> int | None:
    """When the wait is over: never before those that are still to end had their own time."""
    if since is None:
        return None
    dues = [
        parent.next_due
        for parent, mark in zip(parents, up.marks, strict=True)
        if parent.next_due is not None and parent.ends <= mark
    ]
    return max(since, *dues, since) + definition.upstream_timeout


def _timed_out(up: Upstream, parents: Sequence[Parent], since: int) -> _Round:
    """What is there is taken; the next end of each that is missing belongs to this round, too, and starts nothing."""
    marks = tuple(
        parent.ends if parent.ends > mark or parent.over else mark + 1
        for parent, mark in zip(parents, up.marks, strict=True)
    )
    return _Round(tuple(parent.ends for parent in parents), marks, since, TIMED_OUT)


def _wait(job: Job, up: Upstream, by: int, since: int | None, deadline: int | None, now: int) -> Write | Drop:
    look_at = now + LOOK_EVERY if deadline is None else min(now + LOOK_EVERY, deadline)
    if up.look_at is not None and up.look_at > now and (up.blocked_by, up.since) == (by, since):
        return Drop("BLOCKED")
    return _write(job, replace(up, look_at=look_at, since=since, blocked_by=by), now, "BLOCKED")


def _write(job: Job, up: Upstream, now: int, reason: str) -> Write | Drop:
    if up == job.upstream:
        return Drop(reason)
    row = replace(job, upstream=up)
    return Write(job=replace(row, attention_at=row.bound(now)), reason=reason)


def _make(job: Job, up: Upstream, found: _Round, *, now: int) -> Write:
    """The run for these ends, or the one that says why there is none."""
    definition = job.defined
    taken = [
        (dependency.job_id, number)
        for dependency, number in zip(definition.depends_on, found.took, strict=False)
        if number
    ]
    if found.reason == TIMED_OUT:
        taken.append((TIMED_OUT, found.instant))
    slot = dependent_slot_id(found.instant, job.id, taken)
    due_at = max(now, definition.schedule.at or 0)
    run = ActiveRun(
        state=RunState.WAITING,
        attempt=0,
        attempt_limit=1 + definition.retry.max_retries,
        due_at=due_at,
        took=found.took,
    )
    if found.reason is not None and definition.on_upstream_failure is not UpstreamFailure.RUN:
        skips = definition.on_upstream_failure is UpstreamFailure.SKIP
        verdict = Outcome.SKIPPED if skips else Outcome.PERMANENTLY_FAILED
        run = replace(run, due_at=now, verdict=verdict, verdict_for=found.reason, manual=True)
    row = replace(
        with_run(job, slot, run),
        upstream=replace(up, marks=found.marks, look_at=now, since=None, blocked_by=None),
        wakes=0,
    )
    row = replace(row, attention_at=attention_no_later(row, now))
    return Write(job=row, reason="UNBLOCKED", hints=(Due(slot, 1, run.due_at or now),))
