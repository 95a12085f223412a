"""Decide who may act on a running attempt: its owner, no one, or any other function.

Section 7 of docs/protocol.md lists who asks. Instants are epoch seconds by the clock of the function that asks.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functions.domain.run import ActiveRun

CLOCK_SKEW = 2
"""Seconds by which clocks of two functions may differ: a hint so early waits instead of being sent again."""
LEASE_MARGIN = 15
"""Seconds a lease outlives the time that its owner has for its work."""
LEASE_GRACE = 5
"""Seconds others wait beyond a lease; an owner that calls a target stops as long before it."""
WORKER_LEASE = 90
"""Seconds for which a worker holds an attempt after its claim or its last heartbeat."""
REPORT_GRACE = 2
"""Seconds after its deadline in which an attempt can still be reported on."""


class Hold(enum.Enum):
    """Functions whose clocks differ by CLOCK_SKEW at most never answer HELD and FREE at the same instant."""

    HELD = "held"
    """Its owner's heartbeats, progress and reports count. No one else may end it for lateness."""
    LAPSED = "lapsed"
    """Its owner is refused, and others still wait: by another function's clock it may still be held."""
    FREE = "free"
    """Its owner is refused. Others may end it, and take its permits and its place as a probe."""


def hold_of(run: ActiveRun, now: float) -> Hold:
    """What a running attempt's lease and deadline say at `now`. Time alone never leads back to HELD."""
    lease = run.lease_expires_at or 0
    if lease + LEASE_GRACE <= now or is_overdue(run, now):
        return Hold.FREE
    return Hold.LAPSED if lease <= now or is_too_late(run, now) else Hold.HELD


def is_held(run: ActiveRun, now: float) -> bool:
    """Whether what the owner of a running attempt says counts."""
    return hold_of(run, now) is Hold.HELD


def is_free(run: ActiveRun, now: float) -> bool:
    """Whether others may end a running attempt, and take what it holds."""
    return hold_of(run, now) is Hold.FREE


def is_too_late(run: ActiveRun, now: float) -> bool:
    """Whether a report on the attempt comes after its deadline and the grace."""
    return run.deadline_at is not None and run.deadline_at + REPORT_GRACE <= now


def times_out_at(run: ActiveRun) -> int | None:
    """When an attempt without a report is ended: by then no function takes a report. None where it has no deadline."""
    return None if run.deadline_at is None else run.deadline_at + REPORT_GRACE + CLOCK_SKEW


def is_overdue(run: ActiveRun, now: float) -> bool:
    """Whether the attempt is to end as timed out."""
    ends_at = times_out_at(run)
    return ends_at is not None and ends_at <= now


def seconds_to_call(run: ActiveRun, now: float) -> int:
    """Whole seconds that the lease leaves for a call of the target; under 1 where it must not be called any more."""
    return int((run.lease_expires_at or 0) - LEASE_GRACE - now)
