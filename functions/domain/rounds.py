"""Which ends of its parents a job takes next, for one run: those of one parent one by one, of several together.

The parents' rows are read, never counted along: an event that is lost, late or comes twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from functions.domain.dependence import Join
from functions.domain.job import Upstream
from functions.domain.run import LastRun
from functions.domain.upstream import ABSORBED, CONDITION_FALSE, GONE, TIMED_OUT, Ends, Parent, is_done_with

ENDS_LOOKED_AT = 100
"""Ends of one parent that join `any` looks at, the newest: of those before none met the condition then."""
SEEN_AT = 10
"""Ends that a look of join `any` reads in vain before the row says so: a write is dearer than some reads."""


@dataclass(frozen=True, slots=True)
class Round:
    """Ends that are taken together, for one run."""

    took: tuple[int, ...]
    """Numbers, 0 for none."""
    marks: tuple[int, ...]
    instant: int | None
    """What the run's slot names; None for now."""
    reason: str | None = None
    """Why the run does not come to an attempt; None where all is met."""


@dataclass(frozen=True, slots=True)
class Blocked:
    by: int
    """Index of the dependency whose parent is waited for."""
    since: int | None = None
    """When the round began that is not complete."""
    soon: bool = False
    """Nobody tells when the wait is over."""
    seen: tuple[int, ...] | None = None
    """Of each parent, the end up to which join `any` need not look again; None for no more than is known."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing will come of the parents any more."""


Found = Round | Blocked | Settled


def next_round(join: Join, up: Upstream, parents: Sequence[Parent], ends: Ends) -> Found:
    """The next ends that the job takes, what it waits for, or that nothing will come; `parents` in the order of
    `dependsOn`, one at least. The rules are those of docs/workflows.md, "Dependencies"."""
    if join is Join.ANY and len(parents) > 1:
        return _of_any(up, parents, ends)
    # Absorbed when the join was another: taken up to now.
    marks = [parent.ends if mark == ABSORBED else mark for parent, mark in zip(parents, up.marks, strict=True)]
    up = replace(up, marks=tuple(marks))
    return _of_one(up, parents[0], ends) if len(parents) == 1 else _of_all(up, parents, ends)


def _of_one(up: Upstream, parent: Parent, ends: Ends) -> Found:
    """Its ends one by one, oldest first."""
    number = _oldest(up.marks[0] + 1, parent.ends, ends)
    end = None if number is None else ends.of(0, number)
    if number is None or end is None:
        return _nothing_new(up, [parent]) or _latest(up, [parent], ends)
    return Round((number,), (number,), _instant(up, [end]), ends.unmet(0, end))


def _oldest(first: int, last: int, ends: Ends) -> int | None:
    """The number of the oldest end of one parent that is still kept, among these; None for none.

    They are kept for as long as each other, so what has expired comes first: found by halves, not one by one.
    """
    if first > last:
        return None
    if ends.of(0, first) is not None:
        return first
    while first < last:
        middle = (first + last) // 2
        if ends.of(0, middle) is None:
            first = middle + 1
        else:
            last = middle
    return last


def _nothing_new(up: Upstream, parents: Sequence[Parent]) -> Blocked | Settled | None:
    """None where all parents are over, and the job has not been judged by the last end of each."""
    blocked = _blocked(up, parents)
    if blocked is not None:
        return blocked
    return Settled() if up.since is None else None


def _blocked(up: Upstream, parents: Sequence[Parent], began: int | None = None) -> Blocked | None:
    """What is waited for besides the ends that are new; None for nothing.

    Named is that of the last look, or the one in the middle: whether they end in their order or another, it stands for
    many of them for long (usecases/graph.py asks it alone).
    """
    left = missing(up, parents)
    if not left:
        return None
    by = up.blocked_by if up.blocked_by in left else left[len(left) // 2]
    return Blocked(by, began, any(parents[index].again for index in left))


def missing(up: Upstream, parents: Sequence[Parent]) -> list[int]:
    """Indices of the parents that may still end anew, and have not."""
    return [
        index
        for index, (parent, mark) in enumerate(zip(parents, up.marks, strict=True))
        if parent.ends <= mark and not _is_over(parent, mark)
    ]


def _is_over(parent: Parent, mark: int) -> bool:
    return parent.over or is_done_with(parent, mark)


def _of_all(up: Upstream, parents: Sequence[Parent], ends: Ends) -> Found:
    """The latest of each, once each has a new one or is over."""
    new = [index for index, mark in enumerate(up.marks) if parents[index].ends > mark]
    if not new:
        return _nothing_new(up, parents) or _latest(up, parents, ends)
    began = min((last.ended_at for index in new if (last := parents[index].last) is not None), default=None)
    return _blocked(up, parents, began) or _latest(up, parents, ends)


def _latest(up: Upstream, parents: Sequence[Parent], ends: Ends) -> Round:
    """All meet their condition, or the first that does not says why."""
    reasons = (GONE if one.last is None else ends.unmet(index, one.last) for index, one in enumerate(parents))
    return _round(up, parents, next((reason for reason in reasons if reason is not None), None))


def _round(up: Upstream, parents: Sequence[Parent], reason: str | None) -> Round:
    marks = tuple(max(parent.ends, mark) for parent, mark in zip(parents, up.marks, strict=True))
    taken = [parent.last for parent in parents if parent.last is not None]
    return Round(_took(up, parents), marks, _instant(up, taken) if taken else None, reason)


def _took(up: Upstream, parents: Sequence[Parent]) -> tuple[int, ...]:
    return tuple(0 if mark == ABSORBED else parent.ends for parent, mark in zip(parents, up.marks, strict=True))


def _instant(up: Upstream, taken: Iterable[LastRun]) -> int:
    """When the latest of these ended, or when the job began to wait for them: that of a parent that was over long ago
    is no reason to give up retries at once."""
    return max([end.ended_at for end in taken] + [up.since or 0])


def _of_any(up: Upstream, parents: Sequence[Parent], ends: Ends) -> Found:
    """The first new end that meets its condition. Then parents that run once have had their turn, all of them."""
    new = [index for index, (parent, mark) in enumerate(zip(parents, up.marks, strict=True)) if parent.ends > mark]
    if not new:
        return _nothing_new(up, parents) or _any_of_the_latest(up, parents, ends)
    began: list[int] = []
    for index in new:
        parent, seen = parents[index], up.seen[index] if up.seen else 0
        for number in range(max(up.marks[index], seen, parent.ends - ENDS_LOOKED_AT) + 1, parent.ends + 1):
            end = ends.of(index, number)
            if end is None:
                continue
            if ends.unmet(index, end) is None:
                return _first(up, parents, index, number, end)
            began.append(end.ended_at)
    blocked = _blocked(up, parents, min(began, default=None))
    if blocked is not None:
        return replace(blocked, seen=tuple(one.ends for one in parents)) if len(began) > SEEN_AT else blocked
    last = parents[new[0]].last
    return _round(up, parents, GONE if last is None else ends.unmet(new[0], last) or CONDITION_FALSE)


def _any_of_the_latest(up: Upstream, parents: Sequence[Parent], ends: Ends) -> Round:
    """All parents were over before the job looked at them for the first time: the last end of each that counts."""
    reasons = []
    for index, (parent, mark) in enumerate(zip(parents, up.marks, strict=True)):
        if is_done_with(parent, mark):
            continue
        reasons.append(GONE if parent.last is None else ends.unmet(index, parent.last))
        if parent.last is not None and reasons[-1] is None:
            return _first(up, parents, index, parent.ends, parent.last)
    return _round(up, parents, next(iter(reasons), GONE))


def _first(up: Upstream, parents: Sequence[Parent], index: int, number: int, end: LastRun) -> Round:
    took = tuple(number if place == index else 0 for place in range(len(parents)))
    marks = [number if place == index else mark for place, mark in enumerate(up.marks)]
    absorbed = tuple(ABSORBED if parent.once else mark for parent, mark in zip(parents, marks, strict=True))
    return Round(took, absorbed, _instant(up, [end]))


def deadline(timeout: int, since: int | None, up: Upstream, parents: Sequence[Parent]) -> int | None:
    """When the wait is over: never before those that are still to end had their own time.

    None while there is no such instant: for a round that has not begun, or for a parent that itself waits, whose wait
    is over in time.
    """
    left = [parents[index] for index in missing(up, parents)]
    if since is None or any(parent.waits for parent in left):
        return None
    return max([since] + [parent.due for parent in left if parent.due is not None]) + timeout


def may_stand(timeout: int, up: Upstream, parent: Parent) -> bool:
    """Whether this parent, which is missing, alone keeps the wait from being over before the job's next look: then the
    others need no read."""
    if up.since is None or up.look_at is None or parent.waits:
        return True
    return up.look_at <= max(up.since, parent.due or 0) + timeout


def timed_out(up: Upstream, parents: Sequence[Parent], instant: int) -> Round:
    """What is there is taken. Of each that is missing, the end that is late belongs to this round, too, and starts
    nothing: one, however many rounds it was late for, and none of a parent of which nothing was under way."""
    marks = tuple(
        max(parent.ends, mark) if parent.ends > mark or _is_over(parent, mark) else parent.ends + parent.is_late
        for parent, mark in zip(parents, up.marks, strict=True)
    )
    return Round(_took(up, parents), marks, instant, TIMED_OUT)
