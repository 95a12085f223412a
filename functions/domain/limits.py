"""Token buckets as one number each: the "theoretical arrival time" of the generic cell rate algorithm (ITU-T I.371).

`arrival` is the instant at which the bucket is full again. Instants and spans are whole microseconds, so that a
conditional write can add and compare them exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MICROSECONDS = 1_000_000


def microseconds(instant: float) -> int:
    """Epoch seconds as whole microseconds."""
    return round(instant * MICROSECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Holds `limit` tokens and refills evenly over `period_seconds`."""

    limit: int
    period_seconds: int

    @property
    def period(self) -> int:
        return self.period_seconds * MICROSECONDS

    def cost(self, tokens: int) -> int:
        """How much later the bucket is full again for taking so many tokens.

        Rounded down, so that a full bucket really gives `limit` of them.
        """
        return tokens * self.period // self.limit

    def latest(self, tokens: int, *, now: int) -> int:
        """The latest `arrival` at which so many tokens can still be taken."""
        return now + self.period - self.cost(tokens)

    def take(self, arrival: int, tokens: int, *, now: int) -> int | None:
        """The new arrival, None when there are too few tokens."""
        if tokens == 0:
            return arrival
        start = max(arrival, now)
        return start + self.cost(tokens) if start <= self.latest(tokens, now=now) else None

    def remaining(self, arrival: int, *, now: int) -> int:
        """Whole tokens left."""
        free = self.period - max(0, arrival - now)
        return max(0, free * self.limit // self.period)

    def seconds_until(self, arrival: int, tokens: int, *, now: int) -> int:
        """Seconds until so many tokens are there, at least 1; those of a full bucket when it never holds as many."""
        wait = max(arrival, now) - self.latest(min(tokens, self.limit), now=now)
        return max(1, math.ceil(wait / MICROSECONDS))

    def reset_seconds(self, arrival: int, *, now: int) -> int:
        """Seconds until the bucket is full."""
        return math.ceil(max(0, arrival - now) / MICROSECONDS)
