"""The world of a story: the in-memory ports of tests/fakes.py in virtual time, and everything AWS does wrong.

Each port call takes time before and after it, so others act between a read and its write. Every draw comes from the
seed and the name of what it is drawn for: leaving one fault or action out of a story changes no other draw.
"""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from functions.domain.errors import TRANSIENT, GnomonError, UnavailableError
from functions.domain.hint import Hint
from functions.domain.timing import hand_back_seconds
from functions.usecases.executor import handle_hint
from functions.usecases.services import Executor, Services
from functions.usecases.sweep import sweep
from tests.fakes import (
    FakeJobTypes,
    InMemoryIdempotencyKeys,
    InMemoryOwners,
    InMemoryProgress,
    InMemoryRetryConfigs,
    InMemoryWebhookKeys,
    InMemoryWorkers,
)
from tests.faults import Crash
from tests.graph_fakes import InMemoryWorkflows
from tests.machine import walk
from tests.share_fakes import FakeShares
from tests.simulation.actors import Actor, Message, Nature, TroubleError, Weather
from tests.simulation.kinds import TYPES
from tests.simulation.ports import (
    ActorClock,
    PresentClock,
    SimCircuits,
    SimDependents,
    SimHistory,
    SimJobs,
    SimMachine,
    SimSlots,
    SimTargets,
    SimTimetable,
    StepFaults,
)
from tests.simulation.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.domain.step import Step
    from tests.simulation.model import Judge

T = TypeVar("T")

SKEW = 2.0
"""Seconds by which a function's clock may be wrong, either way (docs/architecture.md): two differ by 2."""
VISIBILITY = 540
MAX_RECEIVES = 5
BASE32 = "abcdefghijklmnopqrstuvwxyz234567"


class World:
    """All ports of a story, its messages, its functions."""

    def __init__(
        self,
        seed: int,
        *,
        now: float,
        nature: Nature,
        weather: Sequence[Weather],
        calm_at: float,
        judge: Judge,
        only: frozenset[str] | None = None,
    ) -> None:
        self.seed, self.nature, self.calm_at, self.judge, self.only = seed, nature, calm_at, judge, only
        self.scheduler = Scheduler(now)
        self.weather = [one for one in weather if self.takes_place(one.id)]
        self.actor = Actor("world", "world", random.Random(0), 0.0, now)
        self.jobs = SimJobs(self)
        self.history = SimHistory(self)
        self.timetable = SimTimetable(self)
        self.circuits = SimCircuits(self)
        self.slots = SimSlots(self)
        self.shares = FakeShares(PresentClock(self))
        self.idempotency = InMemoryIdempotencyKeys(faults=StepFaults(self))
        self.owners = InMemoryOwners(faults=StepFaults(self))
        self.workers = InMemoryWorkers(faults=StepFaults(self))
        self.retry_configs = InMemoryRetryConfigs(faults=StepFaults(self))
        self.types = FakeJobTypes(self.retry_configs)
        for name, config in TYPES.items():
            self.types.put(name, **config)
        self.machine = SimMachine(self)
        self.dependents = SimDependents(self)
        self.workflows = InMemoryWorkflows()
        self.met: list[str] = []
        """Names of the faults that happened, in order: what can be left out of the story."""
        self.trace: Callable[[str], None] | None = None
        self.before_save: Callable[[], None] = lambda: None
        self.waiting = 0
        """Messages in the run queues that wait for a consumer."""
        self._labels: dict[str, str] = {}
        self._marks = itertools.count(1)
        self._ids = self.draw("job ids")
        self._arms: dict[str, int] = {}
        self._sweeping = False
        self._ticks = itertools.count(1)

    # --- names and draws ---

    def draw(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}")

    def takes_place(self, name: str) -> bool:
        return self.only is None or name in self.only

    def label(self, job_id: str) -> str:
        """j0, j1, … in the order of creation."""
        return self._labels.setdefault(job_id, f"j{len(self._labels)}")

    def actor_of(self, key: str, kind: str, **about: Any) -> Actor:
        choose = self.draw(key)
        skew = choose.uniform(-SKEW / 2, SKEW / 2) if self.nature.skewed else 0.0
        return Actor(key, kind, choose, skew, self.scheduler.now, **about)

    # --- steps ---

    def wait(self, seconds: float) -> None:
        actor = self.actor
        self.scheduler.wait(seconds)
        self.actor = actor

    def meets(self, what: str, actor: Actor, probability: float) -> bool:
        """Whether this fault happens here."""
        if actor.choose.random() >= probability or self.scheduler.now >= self.calm_at:
            return False
        name = f"{actor.key}/{actor.steps} {what}"
        if not self.takes_place(name):
            return False
        self.met.append(name)
        actor.disturbed = True
        self.note(f"FAULT {name}")
        self.judge.fault(name, actor.job, actor)
        return True

    def look(self, name: str, read: Callable[[], T]) -> T:
        """A read: takes time before and after, and can fail."""
        self._before(name)
        result = read()
        self.wait(self._latency())
        return result

    def mutate(self, name: str, apply: Callable[[], T], *, repeats: bool = True) -> T:
        if name == "jobs.save":
            self.before_save()
        actor = self._before(name)
        faults = self.nature.faults
        if name != "targets.call" and self.meets(f"dies before {name}", actor, faults):
            raise Crash(f"before {name}")
        result = apply()
        if repeats and self.meets(f"answer lost of {name}", actor, faults):
            self.wait(actor.choose.choice([0.05, 0.3, 2.0]))
            result = apply()
        if self.meets(f"dies after {name}", actor, faults):
            raise Crash(f"after {name}")
        self.wait(self._latency())
        return result

    def _before(self, name: str) -> Actor:
        actor = self.actor
        actor.steps += 1
        self.wait(self._latency())
        if self.is_on("dynamodb") and actor.choose.random() < 0.5 and not name.startswith("timetable"):
            actor.disturbed = True
            self.judge.fault(f"{actor.key} throttled", actor.job, actor)
            raise TroubleError
        if self.meets(f"stalls at {name}", actor, self.nature.stalls):
            self.wait(actor.choose.choice([3.0, 10.0, 31.0, 95.0, 200.0]))
        return actor

    def _latency(self) -> float:
        choose = self.actor.choose
        return choose.uniform(0.002, 0.03) if choose.random() < 0.95 else choose.uniform(0.1, 0.8)

    # --- weather ---

    def is_on(self, kind: str) -> bool:
        now = self.scheduler.now
        return any(one.kind == kind and one.begins <= now < one.ends for one in self.weather)

    def ends_of(self, kind: str) -> float:
        now = self.scheduler.now
        return max((one.ends for one in self.weather if one.kind == kind and one.begins <= now < one.ends), default=now)

    # --- messages ---

    def message(self, hint: Hint) -> Message:
        name = f"{self.label(hint.job_id)} {hint.slot_id} {hint.attempt}"
        number = self._arms[name] = self._arms.get(name, 0) + 1
        return Message(f"{name} #{number}", hint)

    def enqueue(self, hint: Hint, visible_at: float, message: Message | None = None) -> None:
        message = message or self.message(hint)
        choose, job = self.draw(message.key), self.label(hint.job_id)
        sort, again, delay = choose.random(), choose.random(), choose.random()
        visible_at += 0.01 + delay * 0.3

        def happens(what: str) -> bool:
            name = f"message {message.key} {what}"
            if self.scheduler.now >= self.calm_at or not self.takes_place(name):
                return False
            self.met.append(name)
            self.note(f"FAULT {name}")
            self.judge.fault(name, job, None)
            return True

        rate = self.nature.messages
        if sort < rate / 3 and happens("is lost"):
            return
        if rate / 3 <= sort < 2 * rate / 3 and happens("is late"):
            visible_at += choose.choice([3, 20, 60, 200, 700])
        if again < rate / 3 and happens("comes twice"):
            later = choose.choice([0.0, 0.02, 0.4, 2.0, 70.0, 600.0, 5 * 3600.0])
            self.scheduler.at(visible_at + later, lambda: self.deliver(Message(message.key + "b", hint)))
        self.scheduler.at(visible_at, lambda: self.deliver(message))

    def out(self, kind: str, job_id: str) -> str | None:
        """The weather of this kind that keeps consumers from the hints of this job; None where there is none."""
        row = self.jobs.rows.get(job_id)
        kinds = (kind,) if row is None else (kind, f"{kind} {row.priority.value}")
        return next(filter(self.is_on, kinds), None)

    def deliver(self, message: Message) -> None:
        """A consumer takes a message. One that fails or dies leaves it to come back."""
        hint = message.hint
        label = self.label(hint.job_id)
        self.waiting -= message.waits
        message.waits = False
        out = self.out("consumers", hint.job_id)
        if out is not None:
            self._comes_back(message, self.ends_of(out) + self.draw(f"{message.key} after").uniform(0, 3))
            return
        message.receives += 1
        received = self.scheduler.now
        actor = self.actor_of(f"consumer {message.key}.{message.receives}", "consumer", job=label, hint=hint)
        self.note(f"{actor.key} takes it")

        def handle() -> None:
            if self.is_on(f"poison {label}") or self.out("release", hint.job_id) is not None:
                raise TroubleError
            handled = handle_hint(self.executor(actor), hint)
            self.note(f"{actor.key}: {handled.reason}")

        if self.run(actor, handle):
            return
        if message.receives >= MAX_RECEIVES:
            self.judge.fault(f"{message.key} goes to the dead-letter queue", label, actor)
            return
        again = received + VISIBILITY
        if isinstance(actor.failure, (*TRANSIENT, TroubleError)):
            again = self.scheduler.now + hand_back_seconds(message.receives, uniform=actor.choose.uniform)
        self._comes_back(message, again)

    def _comes_back(self, message: Message, at: float) -> None:
        message.waits = True
        self.waiting += 1
        self.scheduler.at(at, lambda: self.deliver(message))

    def hand_over(self, step: Step) -> None:
        """The state machine runs an attempt: one actor for the functions of all its states, each of which may die."""
        label = self.label(step.job_id)
        actor = self.actor_of(f"machine {label} {step.execution_name[37:]}", "machine", job=label)

        def work() -> None:
            states = walk(self.executor(actor), step, fails=(Crash, GnomonError, TroubleError))
            self.note(f"{actor.key}: {' '.join(states)}")

        def begin() -> None:
            if step.execution_name in self.machine.running:
                self.run(actor, work)
                self.machine.ended(step)

        self.scheduler.after(actor.choose.uniform(0.05, 1.0), begin)

    # --- functions ---

    def engine_ports(self, actor: Actor) -> dict[str, Any]:
        return {
            "jobs": self.jobs,
            "history": self.history,
            "timetable": self.timetable,
            "slots": self.slots,
            "clock": ActorClock(self, actor),
            "types": self.types,
            "uniform": actor.choose.uniform,
            "new_write_id": lambda: f"w{next(self._marks)}",
            "parallel": 1,
        }

    def executor(self, actor: Actor) -> Executor:
        return Executor(
            **self.engine_ports(actor),
            targets=SimTargets(self),
            machine=self.machine,
            shares=self.shares,
            circuits=self.circuits,
            dependents=self.dependents,
            is_transient=lambda error: isinstance(error, TroubleError),
        )

    def services(self, actor: Actor) -> Services:
        return Services(
            **self.engine_ports(actor),
            idempotency=self.idempotency,
            owners=self.owners,
            workers=self.workers,
            progress=InMemoryProgress(),
            retry_configs=self.retry_configs,
            webhook_keys=InMemoryWebhookKeys(),
            machine=self.machine,
            circuits=self.circuits,
            dependents=self.dependents,
            graphs=self.jobs.graphs,
            workflows=self.workflows,
            new_job_id=lambda: str(uuid.UUID(int=self._ids.getrandbits(128), version=4)),
            new_manual_slot_id=lambda now: f"{int(now):010d}m{''.join(actor.choose.choices(BASE32, k=8))}",
        )

    def run(self, actor: Actor, body: Callable[[], None]) -> bool:
        """Let an actor do its work; False when it died or failed."""
        outer, self.actor = self.actor, actor
        try:
            body()
            self.judge.finished(actor)
        except Crash:
            self.judge.fault(f"{actor.key} died", actor.job, actor)
            return False
        except (GnomonError, TroubleError) as error:
            self.note(f"{actor.key} failed: {type(error).__name__} {error}")
            actor.failure = error
            if not isinstance(error, UnavailableError):  # lost races are no fault that explains anything
                self.judge.fault(f"{actor.key} failed", actor.job, actor)
            return False
        finally:
            self.actor = outer
        return True

    def tick(self) -> None:
        """EventBridge Scheduler starts the sweep each minute; one runs at a time. An idle tick is left out."""
        number = next(self._ticks)
        self.scheduler.after(60, self.tick)
        if self.is_on("lag") != self.jobs.lagging:
            if self.jobs.lagging:
                self.jobs.catch_up()
            else:
                self.jobs.lagging = True
        if self._sweeping or self.is_on("sweep") or not self.jobs.attention_due(self.scheduler.now + SKEW):
            return
        actor = self.actor_of(f"sweep {number}", "sweep")
        self._sweeping = True

        def look_after() -> None:
            swept = sweep(
                self.executor(actor),
                deadline=self.scheduler.now + actor.skew + 52,
                shuffle=actor.choose.shuffle,
                parallel=1,
            )
            self.note(f"{actor.key}: {swept.reasons} {swept.failed or ''}")
            if swept.failed:
                self.judge.fault(f"{actor.key} failed", None, actor)
            if "BACKLOG" in swept.reasons:
                self.judge.fault(f"{actor.key} feeds nothing", None, actor)

        try:
            self.run(actor, look_after)
        finally:
            self._sweeping = False

    def note(self, line: str) -> None:
        if self.trace is not None:
            self.trace(f"{self.scheduler.now:.3f} {line}")
