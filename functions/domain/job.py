"""The job's state row: the one aggregate of everything about a job that can still change.

All instants are whole epoch seconds, UTC. The meaning of each field is fixed by docs/job-lifecycle.md.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from functions.domain.actor import Actor
from functions.domain.definition import Definition, Priority
from functions.domain.errors import CorruptDefinitionError
from functions.domain.run import APPROVAL, HINT_SLACK, ActiveRun, LastRun, Outcome, RunState
from functions.domain.silence import Silence


class JobStatus(enum.StrEnum):
    SCHEDULED = "SCHEDULED"
    BLOCKED = "BLOCKED"
    """Waits for the jobs that it depends on, or for an approval."""
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"
    """Those that it depends on did not end as it needs."""


class SkipReason(enum.StrEnum):
    OVERLAP = "OVERLAP"
    MISFIRE = "MISFIRE"
    PAUSED = "PAUSED"
    SCHEDULE_CHANGED = "SCHEDULE_CHANGED"
    JOB_CANCELLED = "JOB_CANCELLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Slots passed over and not yet in history: an outbox of one."""

    first: int
    last: int
    count: int
    reason: SkipReason


class GateChanged(enum.StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class GateChange(NamedTuple):
    revision: int
    """Of the job, once it was done."""
    what: GateChanged


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """What a job knows of those it depends on (docs/workflows.md)."""

    marks: tuple[int, ...]
    """For each dependency, in its order: the number of the parent's end that was taken last."""
    look_at: int | None = None
    """When to look at the parents next; None where nothing can come of it any more: they are over."""
    since: int | None = None
    """Since when it has waited in this round; None while it waits for a first parent to begin one."""
    blocked_by: int | None = None
    """Index of the dependency that was not met when somebody looked last."""
    seen: tuple[int, ...] = ()
    """With join `any`, of each dependency the end up to which none of this round met it; () for not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What a job that others depend on keeps for them. The end numbered `ends` is the row's `last_run`."""

    ends: int
    """Runs that have ended since it is followed; the last one before that counts."""
    told: int
    """The end that all dependents were looked at for; less than it once more where the job is over since."""
    cursor: str | None = None
    """While a walk along the dependents goes on: `<the end it began with>#<the dependent that was looked at last>`."""
    once: bool = False
    """It runs once, by its schedule or because all that it depends on do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    id: str
    owner: str
    created_by: str
    created_at: int
    revision: int = 1
    """Changes by callers."""
    seq: int = 1
    """All writes. A write names the `seq` it read; the store adds one."""
    write_id: str = ""
    acted: Actor | None = None
    """Who made the last caller's action; None in rows of a release before."""
    updated_by: str | None = None
    """Id of the caller who changed the job last, by whatever counts a revision; None for its creator."""
    changed_by: str | None = None
    """Id of the caller who changed its target or payload last; None for its creator."""
    gate_change: GateChange | None = None
    """The last change of its approval gate."""
    definition: Definition | None = None
    """None when it was not asked for, or cannot be read."""
    definition_row: str | None = None
    """Name of the definition's own row, `D#<revision>#<write id>`; None when it is inline. The store sets it."""
    revised_by: str = ""
    """writeId of the last caller's action: evidence of an own write."""
    priority: Priority = Priority.NORMAL
    """Which run queue the job's hints go to; in the row, so that the sweep needs no definition."""
    lean: bool = False
    """A first attempt that succeeds may end lean: the job is one-time and called by one process that
    waits for the answer, and nobody has revoked that. Once false, it
    stays so."""
    spread: int = 0
    """Seconds added to every scheduled slot before it is due (spreadSeconds, hashed by job id)."""
    next_slot: int | None = None
    last_slot: int | None = None
    """Highest scheduled slot started, queued or skipped. Manual, retried and forced runs never touch it."""
    runs: Mapping[str, ActiveRun] = field(default_factory=lambda: MappingProxyType({}))
    cancelled_calls: Mapping[str, ActiveRun] = field(default_factory=lambda: MappingProxyType({}))
    """By slot id: attempts that a caller cancelled while their calls went on. Each keeps its permits until its lease is
    over, or its owner says that the call has ended. They are no runs any more: nothing else counts them."""
    fence: int = 0
    """Grows with every dispatch, revocation and cancel, job-wide."""
    gap: Gap | None = None
    catch_up_to: int | None = None
    """Slots up to this one run one after the other, whatever the overlap policy: missed ones under misfire policy
    `run_all`, and the job's last one where it came due while a run that was asked for was active."""
    starts: int = 0
    """Scheduled runs begun, for `maxRuns`."""
    brake_minute: int = 0
    brake_count: int = 0
    """Starts within `brake_minute` (epoch // 60): ends a runaway chain."""
    attention_at: int | None = None
    wakes: int = 0
    """Wakes by the sweep in a row without progress."""
    paused: bool = False
    cancelled: bool = False
    deleted_at: int | None = None
    last_run: LastRun | None = None
    silence: Silence | None = None
    """The silence alarm; None where the job has none, or none any more."""
    upstream: Upstream | None = None
    """None for a job that depends on no other."""
    followed: Followed | None = None
    """None for a job on which no other depends."""

    @property
    def defined(self) -> Definition:
        """The definition; raises CorruptDefinitionError when there is none to read."""
        if self.definition is None:
            raise CorruptDefinitionError
        return self.definition

    @property
    def next_due(self) -> int | None:
        """When `next_slot` is due: the slot plus the job's spread."""
        return None if self.next_slot is None else self.next_slot + self.spread

    @property
    def has_active(self) -> bool:
        """Whether a run runs or waits to (QUEUED does not count: it exists only while another is active)."""
        return any(run.state is not RunState.QUEUED for run in self.runs.values())

    def cancelled_call(self, slot: str, attempt: int) -> ActiveRun | None:
        """The call of a cancelled attempt that may still go on."""
        call = self.cancelled_calls.get(slot)
        return call if call is not None and call.attempt == attempt else None

    @property
    def goes_on(self) -> bool:
        """Whether a run runs, or waits for what will come: the pause holds the others for as long as it lasts."""
        return any(
            run.state is RunState.RUNNING or (run.state is RunState.WAITING and not self.holds(run))
            for run in self.runs.values()
        )

    @property
    def next_waits(self) -> bool:
        """Whether `next_slot` waits for the run before it to end: a missed one of `run_all`, or the job's last one."""
        return (
            self.next_slot is not None
            and self.catch_up_to is not None
            and self.next_slot <= self.catch_up_to
            and self.has_active
        )

    @property
    def is_silent(self) -> bool:
        """Whether the silence alarm was raised and no success has come since."""
        return self.silence is not None and self.silence.alerted

    def holds(self, run: ActiveRun) -> bool:
        """Whether the pause keeps this waiting run back."""
        return self.paused and not run.manual

    @property
    def waiting(self) -> tuple[str, ActiveRun] | None:
        """The run that has waited for others longest, with its slot id; None where none does, or the pause holds it."""
        waiting = [
            (slot, run)
            for slot, run in self.runs.items()
            if run.waits_for not in (None, APPROVAL) and run.state is RunState.WAITING and not self.holds(run)
        ]
        return min(waiting, key=lambda entry: (entry[1].deferred_at or 0, entry[0]), default=None)

    @property
    def waits_for_parents(self) -> bool:
        """Whether something may come of the jobs that this one depends on: it is not settled."""
        return self.upstream is not None and self.upstream.look_at is not None and not self.cancelled

    @property
    def is_over(self) -> bool:
        """Whether no run of it will come, unless a caller asks for one."""
        nothing = self.next_slot is None and not self.runs and not self.waits_for_parents
        return nothing or self.deleted_at is not None

    @property
    def look_due(self) -> int | None:
        """When to look at the graph that the job is part of: to tell its dependents of an end, to ask its parents."""
        dues = []
        if self.followed is not None and self.followed.ends > self.followed.told:
            dues.append(self.created_at if self.last_run is None else self.last_run.ended_at)
        waits = self.upstream is not None and not self.runs and not self.paused and not self.cancelled
        if waits and self.upstream is not None and self.upstream.look_at is not None:
            dues.append(self.upstream.look_at)
        return min(dues, default=None)

    def bound(self, now: int) -> int | None:
        """The instant by which somebody must look at this row; None when it is at rest (docs/protocol.md, 1.2)."""
        looks = [run.lease_expires_at for run in self.runs.values() if run.state is RunState.RUNNING]
        looks += [call.lease_expires_at for call in self.cancelled_calls.values()]
        looks += [
            run.look_at(now) for run in self.runs.values() if run.state is RunState.WAITING and not self.holds(run)
        ]
        if self.next_due is not None and not self.paused and not self.next_waits:
            looks.append(self.next_due + HINT_SLACK)
        if self.look_due is not None:
            looks.append(self.look_due + HINT_SLACK)
        bounds = [look for look in looks if look is not None]
        if not bounds and self.gap is not None:
            bounds.append(now + HINT_SLACK)
        if self.silence is not None and self.silence.due_at is not None:
            bounds.append(self.silence.due_at)
        return min(bounds, default=None)

    @property
    def status(self) -> JobStatus:  # noqa: PLR0911 - a line a status
        if self.cancelled:
            return JobStatus.CANCELLED
        if self.runs:  # Most jobs of a list have none.
            states = {run.state for run in self.runs.values()}
            if RunState.RUNNING in states:
                return JobStatus.RUNNING
            waiting = [run for run in self.runs.values() if run.state is RunState.WAITING]
            moving = [run for run in waiting if not self.holds(run)]
            if any(run.attempt > 0 and not run.at_gate for run in moving):
                return JobStatus.RETRYING
            if any(run.at_gate for run in moving):
                return JobStatus.BLOCKED
        if self.runs or self.next_slot is not None:
            return JobStatus.PAUSED if self.paused else JobStatus.SCHEDULED
        if self.waits_for_parents:
            return JobStatus.PAUSED if self.paused else JobStatus.BLOCKED
        return self._status_at_rest

    @property
    def _status_at_rest(self) -> JobStatus:
        """By how the last run ended."""
        if self.upstream is not None and self.last_run is not None and self.last_run.outcome is Outcome.SKIPPED:
            return JobStatus.SKIPPED
        if self.last_run is None or self.last_run.outcome is Outcome.COMPLETED:
            return JobStatus.COMPLETED
        return JobStatus.CANCELLED if self.last_run.outcome is Outcome.CANCELLED else JobStatus.FAILED
