"""Virtual time. Actors are plain synchronous code; one runs at a time, and the earliest event runs next.

An actor that waits while nothing else is due before it just moves the clock. Only where somebody else comes first is
it parked: its thread keeps its stack, and another thread carries the loop on. So an undisturbed actor costs no switch,
and the order of everything depends on the events' instants alone.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable


class StoryOver(BaseException):
    """Ends the actors that are left when a story fails."""


class Baton:
    """What a thread waits for before it goes on."""

    def __init__(self) -> None:
        self._given = threading.Semaphore(0)

    def give(self) -> None:
        self._given.release()

    def take(self) -> None:
        self._given.acquire()


class Scheduler:
    """`at` plans an event; the actor that runs calls `wait`; `run` lets everything happen."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.failure: BaseException | None = None
        self._events: list[tuple[float, int, Callable[[], None] | Baton]] = []
        self._numbers = itertools.count()
        self._resting: list[Baton] = []
        self._parked: set[Baton] = set()
        self._end = now
        self._over = threading.Event()
        self._done = Baton()

    def at(self, instant: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(instant, self.now), next(self._numbers), event))

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        self.at(self.now + seconds, event)

    def wait(self, seconds: float) -> None:
        """Let virtual time go by for the actor that calls, and let others act in it."""
        if self._over.is_set():
            raise StoryOver
        until = self.now + seconds
        if not self._events or self._events[0][0] > until:
            self.now = until
            return
        me = Baton()
        self._parked.add(me)
        heapq.heappush(self._events, (until, next(self._numbers), me))
        self._carry_on()
        me.take()
        if self._over.is_set():
            raise StoryOver

    def run(self, until: float) -> None:
        """Run all events before `until`, and the actors then under way to their ends. Raises what an event raised."""
        self._end = until
        self._carry_on()
        self._done.take()
        for baton in [*self._resting, *self._parked]:
            baton.give()
        if self.failure is not None:
            raise self.failure

    def _carry_on(self) -> None:
        """Give the loop to another thread."""
        if self._resting:
            self._resting.pop().give()
        else:
            threading.Thread(target=self._loop, daemon=True).start()

    def _loop(self) -> None:
        me = Baton()
        while not self._over.is_set():
            if not self._events or (self._events[0][0] >= self._end and not self._parked):
                self._finish()
                return
            instant, _, event = heapq.heappop(self._events)
            self.now = max(self.now, instant)
            if isinstance(event, Baton):
                self._parked.discard(event)
                self._resting.append(me)
                event.give()
                me.take()
                continue
            try:
                event()
            except StoryOver:
                return
            except BaseException as failure:  # noqa: BLE001 - handed to whoever called run
                self.failure = self.failure or failure
                self._finish()

    def _finish(self) -> None:
        if not self._over.is_set():
            self._over.set()
            self._done.give()
