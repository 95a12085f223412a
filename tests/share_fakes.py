"""Owners' shares in memory. tests/contract/test_share_rows.py runs one suite over the rows and over DynamoDB's."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from functions.domain.shares import Refusal, Share, ShareUse, entered, refusal

if TYPE_CHECKING:
    from functions.domain.definition import Priority
    from functions.ports import Clock

WIDE = Share(processes=10_000, starts_per_minute=1_000_000)


class InMemoryShareRows:
    def __init__(self) -> None:
        self.rows: dict[tuple[str, Priority], ShareUse] = {}
        self.calls: list[str] = []
        self._lock = threading.Lock()

    def enter(
        self, owner: str, priority: Priority, share: Share, process: str, *, starts: int, until: float, now: float
    ) -> Refusal | None:
        self.calls.append("enter")
        with self._lock:
            use = self.rows.get((owner, priority), ShareUse())
            refused = refusal(use, share, process, now=now)
            if refused is None:
                self.rows[owner, priority] = entered(use, process, starts=starts, until=until, now=now)
            return refused

    def at_work(self, owner: str, priority: Priority, *, now: float) -> int:
        return self.rows.get((owner, priority), ShareUse()).at_work(now)

    def stay(self, owner: str, priority: Priority, process: str, *, until: float, now: float) -> None:
        self.calls.append("stay")
        self._put(owner, priority, lambda processes: {**processes, process: until})

    def leave(self, owner: str, priority: Priority, process: str, *, now: float) -> None:
        self.calls.append("leave")
        self._put(owner, priority, lambda processes: {name: at for name, at in processes.items() if name != process})

    def _put(self, owner: str, priority: Priority, change: Callable[[Mapping[str, float]], dict[str, float]]) -> None:
        with self._lock:
            use = self.rows.get((owner, priority))
            if use is not None:
                self.rows[owner, priority] = replace(use, processes=MappingProxyType(change(use.processes)))


class FakeShares:
    """Each attempt has a process to itself. `share` holds for every priority."""

    def __init__(self, clock: Clock, share: Share = WIDE) -> None:
        self.rows = InMemoryShareRows()
        self.share = share
        self.clock = clock
        self._names = itertools.count(1)

    def enter(self, owner: str, priority: Priority, *, lasts: float) -> Refusal | _Entry:
        now, process = self.clock.now(), f"p{next(self._names)}"
        refused = self.rows.enter(owner, priority, self.share, process, starts=1, until=now + lasts, now=now)
        return refused or _Entry(self, owner, priority, process)

    def at_work(self, owner: str, priority: Priority) -> int:
        """Processes at work for the owner."""
        return self.rows.at_work(owner, priority, now=self.clock.now())


@dataclass(frozen=True)
class _Entry:
    shares: FakeShares
    owner: str
    priority: Priority
    process: str

    def leave(self) -> None:
        self.shares.rows.leave(self.owner, self.priority, self.process, now=self.shares.clock.now())
