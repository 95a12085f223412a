"""Which way a hint takes to be delivered when it is due (docs/architecture.md)."""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from functions.domain.ids import is_scheduled
from functions.domain.retry import Uniform

if TYPE_CHECKING:
    from functions.domain.hint import Hint

QUEUE_DELAY_LIMIT = 900
"""Longest `DelaySeconds` of an SQS message (SQS quotas)."""
SCHEDULE_LEAD = 180
"""A schedule fires at least this long before its hint is due: EventBridge Scheduler promises a minute."""
SCHEDULE_SPREAD = 600
"""Schedules of jobs due at one instant fire spread over this many seconds."""
HAND_BACK_MAX = 60
"""Longest time after which a hint that could not be handled just now comes again."""


class QueueDelay(NamedTuple):
    """A message that becomes visible after `seconds`, 0 to 900."""

    seconds: int


class OneTimeSchedule(NamedTuple):
    """A schedule that puts the hint into its queue at `fires_at` (epoch seconds); the consumer sends the residue."""

    name: str
    fires_at: int


def route(hint: Hint, *, due_at: int, now: float) -> QueueDelay | OneTimeSchedule:
    """The queue's own delay up to 15 minutes; a schedule beyond."""
    delay = seconds_until(due_at, now=now)
    if delay <= QUEUE_DELAY_LIMIT:
        return QueueDelay(delay)
    return one_time_schedule(hint, due_at=due_at)


def seconds_until(due_at: int, *, now: float) -> int:
    """Whole seconds, rounded up so that nothing comes early; 0 for what is past."""
    return max(0, math.ceil(due_at - now))


def hand_back_seconds(receives: int, *, uniform: Uniform) -> int:
    """Seconds after which a hint comes again that a consumer has taken `receives` times and could not handle just now:
    1, 2, 4, …, up to half as much more at random, so that those who failed together do not come again together."""
    doubled = 1 << min(max(receives - 1, 0), 8)
    return min(round(doubled * uniform(1.0, 1.5)), HAND_BACK_MAX)


def one_time_schedule(hint: Hint, *, due_at: int) -> OneTimeSchedule:
    """The hint's schedule, derived: arming twice meets the same name.

    The name is at most 64 characters (EventBridge Scheduler quotas).
    """
    kind = "s" if hint.attempt == 1 and is_scheduled(hint.slot_id) else "r"
    job, slot = hint.job_id.replace("-", ""), hashlib.sha256(hint.slot_id.encode()).hexdigest()[:4]
    spread = int.from_bytes(hashlib.sha256(hint.job_id.encode()).digest()[:4], "big") % SCHEDULE_SPREAD
    return OneTimeSchedule(
        name=f"{job}-{kind}-{due_at}-{hint.attempt}-{slot}",
        fires_at=due_at - SCHEDULE_LEAD - spread,
    )


def schedule_expression(instant: int) -> str:
    """EventBridge Scheduler's one-time expression; its time zone is given apart, so it carries no offset."""
    return f"at({datetime.fromtimestamp(instant, UTC):%Y-%m-%dT%H:%M:%S})"
