"""Runs the real use cases over the in-memory ports in virtual time: queue, consumers, and the sweep each minute."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from functions.domain.caller import Caller, Role
from functions.domain.definition import Priority
from functions.domain.errors import TRANSIENT, GnomonError
from functions.domain.execution import Execution, SkippedSlots
from functions.domain.hint import Hint
from functions.domain.job import Job
from functions.domain.lean import kept_execution
from functions.domain.timing import hand_back_seconds
from functions.graph_ports import Dependents, Graphs
from functions.limit_ports import Circuits, Slots
from functions.ports import Clock, JobStore, RunHistory
from functions.usecases.executor import Handled, handle_hint
from functions.usecases.jobs import JobDraft, create_job
from functions.usecases.services import Executor, Services
from functions.usecases.sweep import Swept, sweep
from tests.factories import make_document
from tests.fakes import Delivery, World
from tests.faults import Crash, TroubleError
from tests.machine import walk

VISIBILITY = 540
"""Seconds after which a message comes back that was taken and not deleted."""
MAX_RECEIVES = 5
"""Deliveries after which the run queue gives a message to its dead-letter queue."""
SCHEDULER = Caller(id="alice", owner="team-a", roles=frozenset({Role.SCHEDULER}))
ADMIN = Caller(id="root", owner="root", roles=frozenset({Role.ADMIN}))
VIEWER = Caller(id="victor", owner="victor", roles=frozenset({Role.VIEWER}))


def middle(low: float, high: float) -> float:
    """A jitter that changes nothing."""
    return (low + high) / 2


class Driver:
    """One world, driven. Every delivery runs to its end before the next: races are made by faults and by hand."""

    def __init__(
        self,
        world: World | None = None,
        *,
        sweeps: bool = True,
        jobs: JobStore | None = None,
        history: RunHistory | None = None,
        circuits: Circuits | None = None,
        slots: Slots | None = None,
        dependents: Dependents | None = None,
        graphs: Graphs | None = None,
    ) -> None:
        """The ports that are named put adapters in the place of the fakes."""
        self.world = world or World()
        self.sweeps = sweeps
        self.handled: list[Handled] = []
        self.ended: list[Execution] = []
        """Attempts as those were told who count them."""
        self.dead_messages: list[Delivery] = []
        self.crashes = 0
        self.states: list[str] = []
        """Those that executions of the state machine went through."""
        marks = itertools.count(1)
        shared: dict[str, Any] = {
            "jobs": jobs or self.world.jobs,
            "history": history or self.world.history,
            "timetable": self.world.timetable,
            "slots": slots or self.world.slots,
            "clock": self.world.clock,
            "types": self.world.types,
            "new_write_id": lambda: f"w{next(marks)}",
            "ended": self.ended.append,
            "parallel": 1,
        }
        machine = self.world.machine
        circuits = circuits or self.world.circuits
        dependents = dependents or self.world.dependents
        self.executor = Executor(
            **shared,
            targets=self.world.targets,
            uniform=middle,
            is_transient=lambda error: isinstance(error, TroubleError),
            machine=machine,
            shares=self.world.shares,
            circuits=circuits,
            dependents=dependents,
        )
        self.services = Services(
            **shared,
            uniform=middle,
            idempotency=self.world.idempotency,
            owners=self.world.owners,
            workers=self.world.workers,
            progress=self.world.progress,
            machine=machine,
            dependents=dependents,
            graphs=graphs or self.world.graphs,
            workflows=self.world.workflows,
            circuits=circuits,
            retry_configs=self.world.retry_configs,
            webhook_keys=self.world.webhook_keys,
        )
        self._next_sweep = self.world.clock.now() + 60

    @property
    def clock(self) -> Clock:
        return self.world.clock

    def create(
        self,
        *,
        caller: Caller = SCHEDULER,
        payload: str = "{}",
        enabled: bool | None = None,
        breaker: Mapping[str, int] | None = None,
        **document: Any,
    ) -> Job:
        """`breaker`: the job asks for a circuit, whose thresholds, the stage's, are these."""
        if breaker is not None:
            self.world.types.set_circuits(**breaker)
            document["circuitBreaker"] = {}
        draft = JobDraft(document=make_document(**document), payload=payload, enabled=enabled)
        return create_job(self.services, caller, draft).job

    def row(self, job_id: str) -> Job:
        row = self.services.jobs.get(job_id)
        assert row is not None
        return row

    def all_rows(self) -> list[Job]:
        """Those of every job of the scheduler's, but for deleted ones."""
        page = self.services.jobs.list_by_owners((SCHEDULER.owner,), limit=100, cursor=None)
        return [self.row(one) for one in page.items]

    def history(self, job_id: str) -> list[Execution | SkippedSlots]:
        """What the job's history shows of what has ended, newest first: rows of history, and what the row keeps."""
        kept = kept_execution(self.row(job_id))
        beside = [] if kept is None else [kept]
        return list(self.services.history.list(job_id, limit=100, cursor=None, beside=beside).items)

    def executions(self, job_id: str) -> list[Execution]:
        """The job's ended executions, oldest first."""
        return [entry for entry in reversed(self.history(job_id)) if isinstance(entry, Execution)]

    def deliver(self, delivery: Delivery) -> Handled | None:
        """One consumer takes one message; a consumer that dies leaves it to come back, one that cannot do its work just
        now hands it back."""
        try:
            handled = handle_hint(self.executor, delivery.hint)
        except Crash:
            self.crashes += 1
            self._comes_back(delivery, VISIBILITY)
            return None
        except (*TRANSIENT, TroubleError):
            self._comes_back(delivery, hand_back_seconds(delivery.receives, uniform=middle))
            return None
        except GnomonError:
            self._comes_back(delivery, VISIBILITY)
            return None
        self.handled.append(handled)
        return handled

    def run_machine(self) -> None:
        """Run what the state machine was started for. Which states' functions die is said by the faults."""
        for step in self.world.machine.take():
            self.states += walk(self.executor, step)
            self.world.machine.ended(step)

    def _comes_back(self, delivery: Delivery, seconds: float) -> None:
        """A message that was not deleted is visible again after a while, but not for ever."""
        if delivery.receives >= MAX_RECEIVES:
            self.dead_messages.append(delivery)
            return
        later = self.clock.now() - delivery.visible_at + seconds
        self.world.timetable.duplicate(delivery, later=later).receives += 1

    def deliver_hint(self, hint: Hint) -> Handled | None:
        """A message that nobody armed: a very late copy."""
        return self.deliver(Delivery(hint, 0, Priority.NORMAL, self.clock.now()))

    def sweep_now(self) -> Swept | None:
        try:
            return sweep(self.executor, deadline=self.clock.now() + 50, shuffle=lambda _: None, parallel=1)
        except Crash:
            self.crashes += 1
            return None

    def call(self, action: Callable[[], Any]) -> Any:
        """A caller's request to a function that may die in it."""
        try:
            return action()
        except Crash:
            self.crashes += 1
            return None

    def run_until(self, instant: float, *, limit: int = 20_000) -> None:
        """Let everything that is due until `instant` happen, in the order of time."""
        clock = self.world.clock
        for _ in range(limit):
            visible = self.world.timetable.next_visible()
            at = min(visible if visible is not None else instant, self._next_sweep if self.sweeps else instant)
            if at >= instant:
                break
            clock.time = max(clock.time, at)
            if self.sweeps and self._next_sweep <= clock.time:
                self._next_sweep += 60
                self.sweep_now()
                continue
            for delivery in self.world.timetable.take_due():
                self.deliver(delivery)
                self.run_machine()
        else:
            raise AssertionError(f"no rest after {limit} steps")
        clock.time = max(clock.time, instant)

    def run(self, seconds: float) -> None:
        self.run_until(self.clock.now() + seconds)

    def leap_to(self, instant: float) -> None:
        """So long nothing runs and nobody sweeps."""
        self.world.clock.time = self._next_sweep = instant
