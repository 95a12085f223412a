"""What one owner may have of a run queue's capacity, so that its backlog delays no other owner.

Lambda runs a batch of hints until the slowest of its calls is over. So the capacity that an owner can take from the
others is counted in executor processes: each runs one batch at a time. All instants are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

OVERSHOOT = 5
"""The starts of a minute exceed their limit by a fifth at most: processes count several with one write."""
BACK_OFF = (1.0, 2.0)
"""Seconds, at random, for which a start is put off that finds no process; doubled with each time, up to `DOUBLINGS`."""
DOUBLINGS = 3
RAMP = (1.0, 15.0)
"""Seconds, at random, into the next minute at which a start is tried again that finds its minute used up."""


class Share(NamedTuple):
    """Of one owner, in one priority."""

    processes: int
    """Executor processes that may run the owner's attempts at the same time, up to 10 attempts each."""
    starts_per_minute: int
    """Attempts that they may start."""

    @property
    def uncounted(self) -> int:
        """Starts that a process may make with each write that counts them."""
        return max(1, self.starts_per_minute // (OVERSHOOT * self.processes))


class Refusal(NamedTuple):
    """The owner has used its share."""

    until: int | None
    """When its next minute begins; None where all of its processes are at work."""

    def try_again_at(self, now: float, deferrals: int, uniform: float) -> int:
        """When the start is tried again, after it was put off `deferrals` times. `uniform` is drawn from 0 to 1."""
        if self.until is not None:
            return self.until + int(_between(RAMP, uniform))
        return int(now + _between(BACK_OFF, uniform) * 2 ** min(deferrals, DOUBLINGS)) + 1


def _between(span: tuple[float, float], uniform: float) -> float:
    return span[0] + (span[1] - span[0]) * uniform


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUse:
    """How much of its share an owner uses."""

    minute: int = 0
    starts: int = 0
    """Within that minute."""
    processes: Mapping[str, float] = field(default_factory=dict)
    """Those at work for the owner, and until when they have said they are."""

    def lapsed(self, now: float) -> frozenset[str]:
        """Processes that have died, or finished without a word."""
        return frozenset(name for name, until in self.processes.items() if until <= now)

    def at_work(self, now: float) -> int:
        """How many processes are counted."""
        return len(self.processes) - len(self.lapsed(now))


def minute_of(now: float) -> int:
    return int(now) // 60


def refusal(use: ShareUse, share: Share, process: str, *, now: float) -> Refusal | None:
    """Why the process may not start another attempt of the owner; None where it may."""
    if use.minute >= minute_of(now) and use.starts >= share.starts_per_minute:
        return Refusal(until=(use.minute + 1) * 60)
    others = use.processes.keys() - use.lapsed(now) - {process}
    return Refusal(until=None) if len(others) >= share.processes else None


def entered(use: ShareUse, process: str, *, starts: int, until: float, now: float) -> ShareUse:
    """The use once the process is at work until then, and has made so many starts since it was last heard of."""
    minute = minute_of(now)
    same = use.minute >= minute
    lapsed = use.lapsed(now)
    processes = {name: at for name, at in use.processes.items() if name not in lapsed} | {process: until}
    return ShareUse(
        minute=use.minute if same else minute,
        starts=use.starts + starts if same else starts,
        processes=MappingProxyType(processes),
    )
