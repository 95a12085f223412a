"""What this process uses of each owner's share: most starts cost no call.

A process says that it is at work for an owner for `KEEP` seconds. Further starts within them cost nothing. One whose
calls go on says so again, until the last of them must be over, and says when that is earlier. A refusal is remembered
for a second. A process that found the last place of the share gives it back as soon as its calls are over, so that
owners with few processes, and many short calls, are not held up by processes that have nothing to do.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from functions.domain.ids import new_write_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from functions.domain.definition import Priority
    from functions.domain.shares import Refusal, Share
    from functions.limit_ports import Entry, ShareRows
    from functions.ports import Clock

logger = logging.getLogger(__name__)

KEEP = 4.0
"""Seconds for which a process is counted after a write, unless it says more."""
LOOK_EVERY = 1.5
"""Seconds between two looks whether calls go on beyond what is written."""
SPARE = 2.0
"""Seconds before their end at which a start is written: there is time for a look before they are over."""
REFUSED_SECONDS = 1.0
REMEMBERED = 1_000


class Later(Protocol):
    def cancel(self) -> None: ...


@dataclass(eq=False, slots=True)
class _Mine:
    """What this process does for one owner, in one priority."""

    owner: str
    priority: Priority
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while a row is written, so that the threads of a batch write it once."""
    running: int = 0
    ends_at: float = 0.0
    """When the last of what runs must be over."""
    until: float = 0.0
    """As it is written."""
    stays: bool = False
    """Whether it was written for what runs, and not for KEEP seconds."""
    is_last: bool = False
    """Whether the share had no further process: then this one does not keep its place when it has nothing to do."""
    left: int = 0
    """Starts that may be made before the next write."""
    uncounted: int = 0
    """Starts that no write has counted yet."""
    refusal: Refusal | None = None
    refused_until: float = 0.0
    used: float = 0.0
    """When a start last asked for it."""
    later: Later | None = None


def _timer(seconds: float, call: Callable[[], None]) -> Later:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
    return timer


class ProcessShares:
    """Shares over the rows of all processes."""

    def __init__(
        self,
        rows: ShareRows,
        shares: Mapping[Priority, Share],
        *,
        clock: Clock,
        call_later: Callable[[float, Callable[[], None]], Later] = _timer,
    ) -> None:
        self._rows = rows
        self._shares = shares
        self._clock = clock
        self._call_later = call_later
        self._process = new_write_id()
        self._mine: dict[tuple[str, Priority], _Mine] = {}
        self._lock = threading.Lock()
        """Held while that is read or changed."""

    def enter(self, owner: str, priority: Priority, *, lasts: float) -> Refusal | Entry:
        mine = self._of(owner, priority)
        with mine.lock:
            now = self._clock.now()
            if mine.refusal is not None and now < mine.refused_until:
                return mine.refusal
            mine.uncounted += 1
            if now + SPARE > mine.until or mine.left < 1:
                refused = self._write(mine, now)
                if refused is not None:
                    mine.uncounted -= 1
                    mine.refusal, mine.refused_until = refused, now + REFUSED_SECONDS
                    return refused
            mine.left -= 1
            mine.running += 1
            mine.ends_at = max(mine.ends_at, now + lasts)
            if mine.later is None:
                mine.later = self._call_later(LOOK_EVERY, lambda: self._look(mine))
        return _Entry(self, mine)

    def leave(self, mine: _Mine) -> None:
        with mine.lock:
            mine.running -= 1
            if mine.running > 0:
                return
            mine.ends_at = 0.0
            if mine.later is not None:
                mine.later.cancel()
                mine.later = None
            if mine.stays or mine.is_last:
                mine.stays, mine.is_last, mine.until = False, False, 0.0
                self._tell(lambda: self._rows.leave(mine.owner, mine.priority, self._process, now=self._clock.now()))

    def _of(self, owner: str, priority: Priority) -> _Mine:
        """The one object of an owner and priority. It may be forgotten only while none of its calls can begin."""
        with self._lock:
            if len(self._mine) >= REMEMBERED:
                now = self._clock.now()
                self._mine = {key: one for key, one in self._mine.items() if one.running or now < one.used + KEEP}
            mine = self._mine.setdefault((owner, priority), _Mine(owner, priority))
            mine.used = self._clock.now()
            return mine

    def _write(self, mine: _Mine, now: float) -> Refusal | None:
        share, until = self._shares[mine.priority], max(now + KEEP, mine.until)
        try:
            refused = self._rows.enter(
                mine.owner, mine.priority, share, self._process, starts=mine.uncounted, until=until, now=now
            )
        except (ClientError, BotoCoreError):
            # A limit that cannot be asked holds up nothing.
            logger.warning("the share of %s cannot be counted", mine.owner, exc_info=True)
            refused = None
        else:
            mine.uncounted = mine.uncounted if refused is not None else 0
            mine.is_last = self._rows.at_work(mine.owner, mine.priority, now=now) >= share.processes
        if refused is None:
            mine.until, mine.left = until, share.uncounted
        return refused

    def _look(self, mine: _Mine) -> None:
        """Say for how long this process is at work, where that is longer than it said."""
        with mine.lock:
            if mine.running < 1:
                mine.later = None
                return
            if mine.until < mine.ends_at:
                now, until = self._clock.now(), mine.ends_at
                at_work = (mine.owner, mine.priority, self._process)
                told = self._tell(lambda: self._rows.stay(*at_work, until=until, now=now))
                if told:  # else the next look says it again
                    mine.stays, mine.until = True, until
            mine.later = self._call_later(LOOK_EVERY, lambda: self._look(mine))

    def _tell(self, write: Callable[[], None]) -> bool:
        """Whether it was written."""
        try:
            write()
        except (ClientError, BotoCoreError):
            logger.warning("the use of a share was not written", exc_info=True)
            return False
        return True


@dataclass(frozen=True, slots=True)
class _Entry:
    shares: ProcessShares
    mine: _Mine

    def leave(self) -> None:
        self.shares.leave(self.mine)
