"""The world of a story: the in-memory ports of tests/fakes.py in virtual time, and everything AWS does wrong.

Each port call takes time before and after it, so others act between a read and its write. Every draw comes from the
seed and the name of what it is drawn for: leaving one fault or action out of a story changes no other draw.
"""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from functions.domain.errors import GnomonError, HintNotSentError
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.timing import OneTimeSchedule, one_time_schedule, route
from functions.usecases.executor import handle_hint
from functions.usecases.services import Executor, Services
from functions.usecases.sweep import sweep
from tests.fakes import (
    AUTO_DELETION,
    FakeClock,
    FakeTimetable,
    InMemoryHistory,
    InMemoryIdempotencyKeys,
    InMemoryOwners,
)
from tests.fakes import InMemoryJobs as Jobs
from tests.faults import Crash, Faults
from tests.simulation.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.domain.definition import Priority
    from functions.domain.job import Gap, Job
    from tests.simulation.model import Judge

T = TypeVar("T")

SKEW = 2.0
"""Seconds by which a function's clock may be wrong, either way (docs/architecture.md): two differ by 2."""
VISIBILITY = 540
MAX_RECEIVES = 5
RETENTION = 3 * 3600
"""Seconds after which a history row is gone: short, so that stories outlive it."""
OTHERS = 2_000
"""Messages of other jobs while a queue is flooded: more than the sweep feeds beyond."""
BASE32 = "abcdefghijklmnopqrstuvwxyz234567"


class TroubleError(Exception):
    """The platform refused a call after the SDK's retries: throttled, or down."""


@dataclass(eq=False)
class Actor:
    """One invocation of a function."""

    key: str
    kind: str
    """consumer, sweep or caller."""
    choose: random.Random
    skew: float
    began: float
    job: str | None = None
    """Label of the job it is about."""
    hint: Hint | None = None
    action: str = ""
    steps: int = 0
    disturbed: bool = False
    """Whether a fault met it."""
    credits: set[tuple[str, int, int]] = field(default_factory=set)
    """Hints that its applied writes entitle it to send."""
    sent: set[tuple[str, str, int, int]] = field(default_factory=set)
    wrote: int = 0
    resent: int = 0
    started: set[tuple[str, int]] = field(default_factory=set)


@dataclass(eq=False)
class Message:
    key: str
    hint: Hint
    receives: int = 0


@dataclass(frozen=True)
class Weather:
    """A time in which something does not work."""

    id: str
    kind: str
    """sqs, eventbridge: sends are refused · consumers, sweep: do not run · flood: other jobs fill the queues ·
    lag: the indexes stand still · dynamodb: half of the calls fail."""
    begins: float
    ends: float


class ActorClock:
    """The world's time, as the clock of the function shows it."""

    def __init__(self, world: World, actor: Actor) -> None:
        self._world, self._actor = world, actor

    def now(self) -> float:
        return self._world.scheduler.now + self._actor.skew

    def sleep(self, seconds: float) -> None:
        self._world.wait(max(0.0, seconds))


class StepFaults(Faults):
    """Every mutation of a fake becomes a step of the actor that runs."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def run(self, name: str, apply: Callable[[], T], *, repeats: bool = True) -> T:
        return self._world.mutate(name, apply, repeats=repeats)


class SimJobs(Jobs):
    def __init__(self, world: World) -> None:
        super().__init__(faults=StepFaults(world))
        self._world = world

    def get(self, job_id: str, *, with_definition: bool = True) -> Job | None:
        return self._world.look("jobs.get", lambda: super(SimJobs, self).get(job_id, with_definition=with_definition))

    def due_for_attention(self, shard: int, *, until: int) -> Iterator[str]:
        return super().due_for_attention(shard, until=until)

    def _store(self, job: Job) -> None:
        before = self._read(job.id) if job.id in self.rows else None
        super()._store(job)
        self._world.judge.wrote(before, self._read(job.id), self._world.actor)

    def attention_due(self, until: float) -> bool:
        return any(at <= until for at in self._attention.values())


class SimHistory(InMemoryHistory):
    """Rows are gone when their time is over."""

    def __init__(self, world: World) -> None:
        super().__init__(faults=StepFaults(world))
        self._world = world

    def record(self, execution: Execution) -> Execution:
        key = (execution.job_id, execution.slot_id, execution.attempt)

        def apply() -> Execution:
            self._expire(key)
            new = key not in self.executions
            stored = self.executions.setdefault(key, execution)
            if new:
                self._world.judge.recorded(execution, self._world.actor)
            return stored

        return self.faults.run("history.record", apply)

    def record_gap(self, job_id: str, gap: Gap, *, now: float) -> None:
        super().record_gap(job_id, gap, now=now)
        self._world.judge.skipped(self.gaps[job_id, gap.first])

    def get(self, job_id: str, slot_id: str, attempt: int) -> Execution | None:
        def look() -> Execution | None:
            self._expire((job_id, slot_id, attempt))
            return super(SimHistory, self).get(job_id, slot_id, attempt)

        return self._world.look("history.get", look)

    def _expire(self, key: tuple[str, str, int]) -> None:
        row = self.executions.get(key)
        if row is not None and row.completed_at + RETENTION < self._world.scheduler.now:
            del self.executions[key]


class SimTimetable(FakeTimetable):
    """SQS and EventBridge Scheduler: what is armed becomes an event of the world."""

    def __init__(self, world: World) -> None:
        super().__init__(FakeClock(), faults=StepFaults(world))
        self._world = world
        self._schedules: dict[str, Message] = {}

    def arm(self, hint: Hint, *, due_at: int, priority: Priority) -> None:
        self._world.judge.sends(hint, due_at, self._world.actor)
        self.faults.run("timetable.arm", lambda: self._arm(hint, due_at, priority))

    def _arm(self, hint: Hint, due_at: int, priority: Priority) -> None:
        world = self._world
        now = world.scheduler.now
        way = route(hint, due_at=due_at, now=now + world.actor.skew)
        far = isinstance(way, OneTimeSchedule)
        if world.refuses("eventbridge" if far else "sqs"):
            world.judge.fault(f"{world.actor.key} refused", world.label(hint.job_id), world.actor)
            raise HintNotSentError
        if not isinstance(way, OneTimeSchedule):
            world.enqueue(hint, now + way.seconds)
            return
        if self._names.get(way.name, 0.0) > now:
            return  # ConflictException: armed already
        fires_at = way.fires_at + world.draw(f"fires {way.name}").uniform(0, 60)
        self._names[way.name] = fires_at + AUTO_DELETION
        message = self._schedules[way.name] = world.message(hint)

        def fire() -> None:
            if self._schedules.get(way.name) is message:
                del self._schedules[way.name]
                world.enqueue(hint, world.scheduler.now, message)

        world.scheduler.at(fires_at, fire)

    def disarm(self, hint: Hint, *, due_at: int) -> None:
        name = one_time_schedule(hint, due_at=due_at).name

        def apply() -> None:
            if self._schedules.pop(name, None) is not None:
                self._names.pop(name, None)

        self.faults.run("timetable.disarm", apply)

    def backlog(self) -> int:
        return OTHERS if self._world.is_on("flood") else 0


class SimTargets:
    """Targets that succeed, fail, hang, and answer in their own time."""

    def __init__(self, world: World) -> None:
        self._world = world

    def call(self, invocation: Invocation, target: dict[str, object]) -> TargetAnswer:
        world, actor = self._world, self._world.actor
        world.judge.called(invocation, actor)
        nature, choose = world.nature, actor.choose
        sort, length = choose.random(), choose.random()
        seconds = 0.05 + length * 0.5 if choose.random() < 0.8 else length * invocation.timeout_seconds
        if nature.hangs > sort:
            world.wait(float(invocation.timeout_seconds))
            answer = TargetAnswer(
                status=ExecutionStatus.TIMED_OUT, error=ExecutionError(code="TIMEOUT", message="no answer")
            )
        else:
            world.wait(seconds)
            answer = self._answer(sort, choose)
        if world.meets("dies in the call", actor, nature.faults):
            raise Crash("in the call")
        world.judge.answered(invocation, answer, actor)
        return answer

    def _answer(self, sort: float, choose: random.Random) -> TargetAnswer:
        nature, other = self._world.nature, choose.random()
        if sort > nature.hangs + nature.fails:
            return TargetAnswer(status=ExecutionStatus.COMPLETED, result="true")
        if other < 0.1:
            error = ExecutionError(code="HTTP_400", message="400 Bad Request")
            return TargetAnswer(status=ExecutionStatus.FAILED, error=error, retryable=False)
        error = ExecutionError(code="HTTP_503", message="503 Service Unavailable")
        after = 45 if other < 0.2 else None
        return TargetAnswer(status=ExecutionStatus.FAILED, error=error, retry_after=after)


@dataclass(frozen=True)
class Nature:
    """How this story's world is. Probabilities, a call or a message."""

    faults: float = 0.0
    """Of each step of an actor."""
    messages: float = 0.0
    """Of each message: lost, late, or twice."""
    fails: float = 0.2
    hangs: float = 0.02
    skewed: bool = True


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
        self.idempotency = InMemoryIdempotencyKeys(faults=StepFaults(self))
        self.owners = InMemoryOwners(faults=StepFaults(self))
        self.met: list[str] = []
        """Names of the faults that happened, in order: what can be left out of the story."""
        self.trace: Callable[[str], None] | None = None
        self.before_save: Callable[[], None] = lambda: None
        self.parked_messages = 0
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
        if self.meets(f"stalls at {name}", actor, self.nature.faults / 2):
            self.wait(actor.choose.choice([3.0, 10.0, 31.0, 95.0, 200.0]))
        return actor

    def _latency(self) -> float:
        choose = self.actor.choose
        return choose.uniform(0.002, 0.03) if choose.random() < 0.95 else choose.uniform(0.1, 0.8)

    # --- weather ---

    def is_on(self, kind: str) -> bool:
        now = self.scheduler.now
        return any(one.kind == kind and one.begins <= now < one.ends for one in self.weather)

    def refuses(self, service: str) -> bool:
        return self.is_on(service)

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

    def deliver(self, message: Message) -> None:
        """A consumer takes a message. One that fails or dies leaves it to come back."""
        if self.is_on("consumers"):
            later = self.ends_of("consumers") + self.draw(f"{message.key} after").uniform(0, 3)
            self.scheduler.at(later, lambda: self.deliver(message))
            return
        message.receives += 1
        received = self.scheduler.now
        hint = message.hint
        label = self.label(hint.job_id)
        actor = self.actor_of(f"consumer {message.key}.{message.receives}", "consumer", job=label, hint=hint)
        self.note(f"{actor.key} takes it")

        def handle() -> None:
            handled = handle_hint(self.executor(actor), hint)
            self.note(f"{actor.key}: {handled.reason}")

        if self.run(actor, handle):
            return
        if message.receives >= MAX_RECEIVES:
            self.judge.fault(f"{message.key} goes to the dead-letter queue", label, actor)
            return
        self.scheduler.at(received + VISIBILITY, lambda: self.deliver(message))

    # --- functions ---

    def engine_ports(self, actor: Actor) -> dict[str, Any]:
        return {
            "jobs": self.jobs,
            "history": self.history,
            "timetable": self.timetable,
            "clock": ActorClock(self, actor),
            "new_write_id": lambda: f"w{next(self._marks)}",
        }

    def executor(self, actor: Actor) -> Executor:
        return Executor(**self.engine_ports(actor), targets=SimTargets(self), uniform=actor.choose.uniform)

    def services(self, actor: Actor) -> Services:
        return Services(
            **self.engine_ports(actor),
            idempotency=self.idempotency,
            owners=self.owners,
            new_job_id=lambda: str(uuid.UUID(int=self._ids.getrandbits(128), version=4)),
            new_manual_slot_id=lambda now: f"{int(now):010d}m{''.join(actor.choose.choices(BASE32, k=8))}",
        )

    def run(self, actor: Actor, body: Callable[[], None]) -> bool:
        """Let an actor do its work; False when it died or failed."""
        outer, self.actor = self.actor, actor
        try:
            body()
        except Crash:
            self.judge.fault(f"{actor.key} died", actor.job, actor)
            return False
        except (GnomonError, TroubleError) as error:
            self.note(f"{actor.key} failed: {type(error).__name__} {error}")
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
