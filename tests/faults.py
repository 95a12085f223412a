"""Faults of the platform, injected at each mutation of a port: over the fakes and over the adapters alike.

    faults = Faults(crash_after=3)                 # the process dies after its third write or send
    faults = Faults(crash_before=3)                # … before it
    faults = Faults(lose_answer=2)                 # the second is applied, its answer lost, and the SDK repeats it
    faults = Faults(lose_answer=2, meanwhile=f)    # … and f() happens between the two
    faults = Faults(on_step=f)                     # f("before" | "after", name) at each; may write, or raise Crash

    jobs = InMemoryJobs(faults=faults)             # tests/fakes.py
    faults.watch(dynamodb_client)                  # the same numbers over real adapters, on moto
    faults.inject(crash_after=1)                   # other faults from here on, counted from 1

`faults.steps` lists the mutations that were applied: "jobs.save" of the fakes, "dynamodb.UpdateItem" of the clients.
A test that stops a flow after each step runs it with `crash_after=n` for n = 1, 2, … until `faults.crashed` is False.
`disarm()` ends all faults: what follows is the next process. A mutation whose condition is refused is counted, too.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

MUTATIONS = {
    "dynamodb": ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"),
    "sqs": ("SendMessage", "SendMessageBatch", "DeleteMessage"),
    "events": ("PutEvents",),
    "scheduler": ("CreateSchedule", "DeleteSchedule"),
    "stepfunctions": ("StartExecution", "StopExecution"),
}


class TroubleError(Exception):
    """The platform refused a call after the SDK's retries: throttled, or down."""


class Crash(BaseException):
    """The process died here. No `except Exception` stops it."""


@dataclass
class Faults:
    """Counts mutations from 1 and makes the named one go wrong."""

    crash_before: int | None = None
    crash_after: int | None = None
    lose_answer: int | None = None
    meanwhile: Callable[[], None] | None = None
    on_step: Callable[[str, str], None] | None = None
    steps: list[str] = field(default_factory=list)
    crashed: bool = False
    _count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def count(self) -> int:
        """Mutations so far, refused ones too."""
        return self._count

    def disarm(self) -> None:
        """No fault from here on; what happened so far stays to be read."""
        self.crash_before = self.crash_after = self.lose_answer = self.on_step = self.meanwhile = None

    def inject(
        self,
        *,
        crash_before: int | None = None,
        crash_after: int | None = None,
        lose_answer: int | None = None,
        meanwhile: Callable[[], None] | None = None,
        on_step: Callable[[str, str], None] | None = None,
    ) -> None:
        """Replace the faults; mutations are counted from 1 again."""
        self.crash_before, self.crash_after, self.lose_answer = crash_before, crash_after, lose_answer
        self.meanwhile, self.on_step = meanwhile, on_step
        self.crashed, self._count = False, 0
        self.steps.clear()

    def run(self, name: str, apply: Callable[[], T], *, repeats: bool = True) -> T:
        """One mutation of a fake. `apply` must bear being repeated, as a conditional write with a mark does;
        `repeats` is False where no SDK repeats the call."""
        number = self._before(name)
        result = apply()
        if number == self.lose_answer and repeats:
            if self.meanwhile is not None:
                self.meanwhile()
            result = apply()
        self._after(name, number)
        return result

    def watch(self, client: Any) -> None:
        """Make the mutations of a boto3 client these numbered steps."""
        service = client.meta.service_model.service_name
        for operation in MUTATIONS[service]:
            name, numbers = f"{service}.{operation}", threading.local()

            def before(name: str = name, numbers: Any = numbers, **_: Any) -> None:
                numbers.value, numbers.repeated = self._before(name), False

            def repeat(numbers: Any = numbers, **_: Any) -> float | None:
                if numbers.value != self.lose_answer or numbers.repeated:
                    return None
                number, numbers.repeated = numbers.value, True
                if self.meanwhile is not None:
                    self.meanwhile()
                numbers.value, numbers.repeated = number, True
                return 0.0  # botocore sends the request again after so many seconds

            def after(name: str = name, numbers: Any = numbers, parsed: Any = None, **_: Any) -> None:
                if parsed is None or "Error" not in parsed:
                    self._after(name, numbers.value)

            events = client.meta.events
            events.register_first(f"before-call.{service}.{operation}", before)
            events.register_first(f"needs-retry.{service}.{operation}", repeat)
            events.register_last(f"after-call.{service}.{operation}", after)

    def _before(self, name: str) -> int:
        with self._lock:
            self._count += 1
            number = self._count
        if self.on_step is not None:
            self.on_step("before", name)
        if number == self.crash_before:
            self.crashed = True
            raise Crash(f"before {name}")
        return number

    def _after(self, name: str, number: int) -> None:
        self.steps.append(name)
        if self.on_step is not None:
            self.on_step("after", name)
        if number == self.crash_after:
            self.crashed = True
            raise Crash(f"after {name}")
