"""A run of a job: its entry in the job's row while it is active, and what the row keeps of the one that ended last.

All instants are whole epoch seconds, UTC, unless something else is said.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from functions.domain.result import NOT_KEPT

HINT_SLACK = 30
"""Seconds after which somebody looks at what should have happened by a hint."""
WAIT_LOOK, WAIT_LOOK_MAX = 60, 900
"""Seconds between looks at a run that waits for others: as long as it has waited, between these."""
APPROVAL = "approval"
"""What a run at its gate waits for; `due_at` is the gate's deadline."""


class RunState(enum.StrEnum):
    """Where an active run stands. Stored as its one letter."""

    RUNNING = "R"
    """Attempt `attempt` runs under a lease."""
    WAITING = "W"
    """Attempt `attempt + 1` starts at `due_at`: a retry, a manual or forced run, a released waiter, a deferral."""
    QUEUED = "Q"
    """Waits for the run before it (overlap policy `queue`)."""


class Outcome(enum.StrEnum):
    """How a run ended."""

    COMPLETED = "COMPLETED"
    PERMANENTLY_FAILED = "PERMANENTLY_FAILED"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"


class Decision(enum.StrEnum):
    """What was decided at an approval gate."""

    APPROVED = "approved"
    REJECTED = "rejected"


TIMEOUT = "timeout"
"""Who decided, where no person did in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A decision at an approval gate."""

    decision: Decision
    by: str
    """Id of the caller, or TIMEOUT."""
    at: int
    comment: str | None = None
    subject: str | None = None
    """What was approved, hashed: the target and the payload. None where it does not matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRun:
    """A run's entry in the row. It is active for the overlap policy as long as it is present."""

    state: RunState
    attempt: int
    attempt_limit: int
    fence: int = 0
    lease_expires_at: int | None = None
    started_at: float | None = None
    """When the running attempt started, to the millisecond."""
    due_at: int | None = None
    manual: bool = False
    """Runs although the job is paused: a caller asked for it."""
    forced: bool = False
    """The next attempt was asked for by a caller: no retry window ends it."""
    asked_attempt: int = 0
    """The last attempt that a caller asked for by a forced retry: poison is counted from it on; 0 for none."""
    started_by: str | None = None
    """writeId of the start that made this RUNNING: evidence of an own write."""
    waits_for: str | None = None
    """What a WAITING run waits for besides its time: `worker:<owner>/<queue>`, `key:<owner>|<concurrency key>`, or
    APPROVAL: then `due_at` is the deadline of its gate."""
    deferrals: int = 0
    """Times this attempt was put off before it started."""
    deferred_for: str | None = None
    """Why it was put off last."""
    deferred_at: int | None = None
    """When it was put off first."""
    looked_at: int | None = None
    """When the sweep looked last at a run that waits for others."""
    held_back_at: int | None = None
    """When its circuit held it back first, without another wait since."""
    granted: str | None = None
    """The permit, `<key>#<index>`, that is kept for a WAITING run whose turn it is: its hint is under way."""
    holds: tuple[str, ...] = ()
    """The permits that the running attempt holds, `<key>#<index>` each."""
    probes: str | None = None
    """Key of the circuit whose probe the running attempt started as."""
    worker_id: str | None = None
    """The worker that holds the running attempt; None where the engine itself called the target."""
    deadline_at: int | None = None
    """When a running attempt that waits for a report times out; None where whoever called the target keeps the time."""

    took: tuple[int, ...] = ()
    """The ends of parents' runs that this run was made for, by number, in the order of `dependsOn`."""
    verdict: Outcome | None = None
    """How the run ends without an attempt, as soon as somebody looks at it; None for one that is to run."""
    verdict_for: str | None = None
    """The reason of the verdict."""
    approval: Approval | None = None
    """What was decided at its gate."""
    asked_by: str | None = None
    """Id of the caller who asked for it; kept also without a gate, since the job may be given one before it starts."""

    def look_at(self, now: int) -> int:
        """When somebody must look at this WAITING run: soon after its hint, or again and again while others hold it.

        Counted from the last look and not from `now`: a row that is written often is looked at, too.
        """
        if self.waits_for in (None, APPROVAL):
            return (self.due_at or now) + HINT_SLACK
        began = now if self.due_at is None else self.due_at
        last = began if self.looked_at is None else self.looked_at
        return last + min(max(last - began, WAIT_LOOK), WAIT_LOOK_MAX)

    def looked(self, now: int) -> ActiveRun:
        """The run after somebody has looked at it, if its time had come."""
        others = self.state is RunState.WAITING and self.waits_for not in (None, APPROVAL)
        due = others and self.look_at(now) <= now
        return replace(self, looked_at=now) if due else self

    @property
    def is_first(self) -> bool:
        """Whether it waits for its first attempt, and for nothing but its time."""
        fresh = self.state is RunState.WAITING and self.attempt == 0 and self.waits_for is None
        return fresh and self.verdict is None and self.deferrals == 0

    @property
    def at_gate(self) -> bool:
        """Whether it waits for an approval."""
        return self.state is RunState.WAITING and self.waits_for == APPROVAL

    @property
    def current_attempt(self) -> int:
        """The number of the attempt that runs, or of the one that a run which waits starts next."""
        return self.attempt if self.state is RunState.RUNNING else self.attempt + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The run that ended last."""

    slot_id: str
    attempt: int
    outcome: Outcome
    fence: int
    ended_at: int
    error_code: str | None = None
    """Of a run that is COMPLETED: why its result was not kept."""
    reason: str | None = None
    """Why it ended without an attempt; None for one that ran."""
    ended_by: str | None = None
    """writeId of the lean end that made this: the run's only execution is here, and in no row of history."""
    started_at: float | None = None
    completed_at: float | None = None
    result: str | None = None
    """Of that execution, as JSON text; the instants to the millisecond."""
    approval: Approval | None = None
    """What was decided at its gate."""

    @property
    def missing_result_code(self) -> str | None:
        """Error code of a success whose result was not kept: too large, or unreadable. It is never taken for null."""
        return self.error_code if self.outcome is Outcome.COMPLETED and self.error_code in NOT_KEPT else None
