"""The driver with calls that take time: each consumer is a thread, and only one of all goes on at a time.

driver = BusyDriver(lambda invocation: 150)    # every call lasts 150 s of virtual time
driver.run(3600)
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from functions.domain.execution import ExecutionStatus
from functions.domain.outcome import Invocation, TargetAnswer
from tests.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from functions.usecases.executor import Handled
    from tests.fakes import Delivery

PATIENCE = 30
"""Real seconds after which a consumer that neither calls nor ends is stuck."""
OK = TargetAnswer(status=ExecutionStatus.COMPLETED, result="1")


@dataclass
class Call:
    """A target that is being called."""

    invocation: Invocation
    started: float
    ends: float
    goes_on: threading.Event = field(default_factory=threading.Event)


class BusyDriver(Driver):
    """`seconds` says how long a call lasts; `answer` what comes of it; `lag` how late consumers are."""

    def __init__(
        self,
        seconds: Callable[[Invocation], float],
        *,
        answer: Callable[[Invocation], TargetAnswer] = lambda _: OK,
        lag: float = 0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.seconds = seconds
        self.answer = answer
        self.lag = lag
        self.calling: list[Call] = []
        self.most_calling = 0
        self._turn = threading.Semaphore(0)
        self.world.targets.answers = [self._call]

    def _call(self, invocation: Invocation) -> TargetAnswer:
        now = self.clock.now()
        lasts = self.seconds(invocation)
        if lasts > 0:
            call = Call(invocation, now, now + lasts)
            self.calling.append(call)
            self.most_calling = max(self.most_calling, len(self.calling))
            self._turn.release()
            call.goes_on.wait()  # for ever, where the test ends before the call does
        return self.answer(invocation)

    def deliver(self, delivery: Delivery) -> Handled | None:
        """Returns when the consumer is done or waits for its target; what it handled is in `handled` then."""

        def consume() -> None:
            try:
                super(BusyDriver, self).deliver(delivery)
                self.run_machine()  # what the state machine does, this thread does for it
            finally:
                self._turn.release()

        threading.Thread(target=consume, daemon=True).start()
        assert self._turn.acquire(timeout=PATIENCE)
        return None

    def _end(self, call: Call) -> None:
        self.calling.remove(call)
        call.goes_on.set()
        assert self._turn.acquire(timeout=PATIENCE)

    def run_until(self, instant: float, *, limit: int = 100_000) -> None:
        clock, timetable = self.world.clock, self.world.timetable
        for _ in range(limit):
            visible = timetable.next_visible()
            ending = min(self.calling, key=lambda call: call.ends, default=None)
            events = [self._next_sweep] if self.sweeps else []
            events += [] if visible is None else [visible + self.lag]
            events += [] if ending is None else [ending.ends]
            at = min(events, default=instant)
            if at >= instant:
                break
            clock.time = max(clock.time, at)
            if ending is not None and ending.ends <= at:
                self._end(ending)
            elif self.sweeps and self._next_sweep <= at:
                self._next_sweep += 60
                self.sweep_now()
            else:
                for delivery in timetable.take_due(clock.time - self.lag):
                    self.deliver(delivery)
        else:
            raise AssertionError(f"no rest after {limit} steps")
        clock.time = max(clock.time, instant)
