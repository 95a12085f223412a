"""What a job needs to know of those it depends on: their ends, and whether more will come (docs/workflows.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from functions.domain.dependence import Dependency, On
from functions.domain.expression_costs import LOOK_STEPS, STEPS
from functions.domain.ids import slot_instant
from functions.domain.job import Job, Upstream
from functions.domain.result import TOO_LARGE, UNREADABLE
from functions.domain.run import ActiveRun, LastRun, Outcome, RunState

ABSORBED = 9_999_999_999
"""Mark of a parent that runs once and of which nothing counts any more: a job with join `any` has run."""

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
CONDITION_TOO_COSTLY = "CONDITION_TOO_COSTLY"
CONDITION_FALSE, GONE, TIMED_OUT = "CONDITION_FALSE", "UPSTREAM_GONE", "UPSTREAM_TIMEOUT"
RESULT_NOT_KEPT = {TOO_LARGE: "UPSTREAM_RESULT_TOO_LARGE", UNREADABLE: "UPSTREAM_RESULT_UNREADABLE"}
"""By the error code of the run that has no result."""

UNMET = {
    "UPSTREAM_SUCCEEDED": "A job that this one depends on has succeeded, and it was to fail.",
    "UPSTREAM_FAILED": "A job that this one depends on has failed.",
    "UPSTREAM_CANCELLED": "A job that this one depends on was cancelled.",
    "UPSTREAM_SKIPPED": "A job that this one depends on was skipped.",
    CONDITION_FALSE: "The condition on the result of a job that this one depends on is false.",
    CONDITION_TOO_COSTLY: (
        "The conditions on the results of the jobs that this one depends on take too many steps: each may take "
        f"{STEPS:,}, all of one check together {LOOK_STEPS:,}. Make `when` simpler, or results smaller."
    ),
    RESULT_NOT_KEPT[TOO_LARGE]: (
        "The result of a job that this one depends on was too large to be kept, so `when` cannot be evaluated."
    ),
    RESULT_NOT_KEPT[UNREADABLE]: (
        "The result of a job that this one depends on could not be read, so `when` cannot be evaluated."
    ),
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
    idle: bool = True
    """Nothing of it runs, or is to run by its own schedule."""
    once: bool = False
    due: int | None = None
    """The latest instant at which something of it is, or was, to begin: nobody waits for it in vain before."""
    again: bool = False
    """It would be over, but what runs above it may let it run again."""
    is_late: bool = True
    """Where it is missing at the end of a wait, an end of it is under way: its only one, or that of a run, or slot."""
    waits: bool = False
    """It waits for parents of its own, and not for ever."""


NO_PARENTS: Mapping[str, Parent] = MappingProxyType({})


def parent_of(row: Job | None) -> Parent:
    """What the row says; of none, or one that is gone, that nothing will come of it."""
    if row is None:
        return Parent()
    ends = 0 if row.followed is None else row.followed.ends
    once = row.followed is not None and row.followed.once
    due = None if row.paused else _due_of(row)
    return Parent(
        ends=ends,
        last=row.last_run if ends else None,
        over=row.is_over,
        idle=row.is_over or (row.next_slot is None and not row.runs),
        once=once,
        due=due,
        is_late=once or bool(row.runs) or due is not None,
        waits=_waits(row),
    )


def may_be_given_up_sooner(before: Job, after: Job) -> bool:
    """Whether a write lets the waits for the job end sooner than was known, by what is no run's own progress: a pause,
    an approval, another schedule. Those who wait have to hear of it; what a run's progress means they foresee."""
    old, new = parent_of(before), parent_of(after)
    if new.over or _attempts(before) != _attempts(after):
        return False
    if old.waits and not new.waits:
        return True
    return old.due is not None and not new.waits and (new.due is None or new.due < old.due)


def _attempts(row: Job) -> dict[str, int]:
    return {slot: run.current_attempt for slot, run in row.runs.items()}


def _due_of(row: Job) -> int | None:
    dues = [_due_of_run(slot, run) for slot, run in row.runs.items()]
    if row.next_due is not None:
        dues.append(row.next_due)
    return max(dues, default=None)


def _due_of_run(slot: str, run: ActiveRun) -> int:
    """Retries do not move it on; a first attempt that waits does, for its earliest start or at its gate, or that began
    late."""
    dues = [slot_instant(slot)]
    if run.state is RunState.WAITING and run.attempt == 0:
        dues.append(run.due_at or 0)
    if run.state is RunState.RUNNING and run.attempt == 1:
        dues.append(int(run.started_at or 0))
    if run.approval is not None:
        dues.append(run.approval.at)
    return max(dues)


def _waits(row: Job) -> bool:
    up = row.upstream
    return row.waits_for_parents and up is not None and up.since is not None and not row.runs and not row.paused


def unmet(dependency: Dependency, end: LastRun, holds: Callable[[str], bool]) -> str | None:
    """Why this end of the parent's run does not meet the dependency; None where it does.

    `holds` tells whether an expression is true of the run's result.
    """
    if end.outcome not in _MET[dependency.on]:
        return _UNMET[end.outcome]
    if dependency.when is None:
        return None
    if end.missing_result_code is not None:
        return RESULT_NOT_KEPT[end.missing_result_code]
    return None if holds(dependency.when) else CONDITION_FALSE


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The ends of the parents, as they are asked for: reads that most looks do not need."""

    of: Callable[[int, int], LastRun | None]
    """(index of the dependency, number) to the end; None where it was kept no longer."""
    unmet: Callable[[int, LastRun], str | None]


def is_done_with(parent: Parent, mark: int) -> bool:
    """Whether nothing of the parent counts any more for who has this mark of it: another was enough, or its one run
    came too late."""
    return mark == ABSORBED or (parent.once and mark > parent.ends)


def counting_again(up: Upstream, parents: Sequence[Parent]) -> Upstream:
    """The marks where a parent of which nothing was to count any more runs again and again since: it counts from now
    on."""
    marks = tuple(
        parent.ends if mark == ABSORBED and not parent.once and not parent.over else mark
        for parent, mark in zip(parents, up.marks, strict=True)
    )
    return up if marks == up.marks else replace(up, marks=marks)


def initial_marks(parents: Sequence[Parent]) -> tuple[int, ...]:
    """The marks of a job that begins to depend on these: the last end of one that is over counts at once.

    So does that of one which runs once and has, though it has not looked yet whether more is to come.
    """
    return tuple(max(0, one.ends - 1) if one.over or (one.once and one.idle) else one.ends for one in parents)
