"""The in-memory ports of tests/fakes.py in virtual time: each call is a step of an actor, seen by the judge."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, TypeVar

from functions.domain.errors import HintNotSentError, UnavailableError
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.timing import OneTimeSchedule, route
from tests.fakes import (
    Delivery,
    FakeClock,
    FakeMachine,
    FakeTimetable,
    InMemoryCircuits,
    InMemoryHistory,
    InMemoryJobs,
    InMemorySlots,
)
from tests.faults import Crash, Faults
from tests.graph_fakes import InMemoryDependents
from tests.simulation.actors import TroubleError
from tests.simulation.reasons import execution_says_why, row_says_why

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from functions.domain.circuit import Circuit
    from functions.domain.concurrency import Slot
    from functions.domain.definition import Priority
    from functions.domain.hint import Hint
    from functions.domain.job import Gap, Job
    from functions.domain.run import LastRun
    from functions.domain.step import Step
    from tests.simulation.actors import Actor, Message
    from tests.simulation.world import World

T = TypeVar("T")

RETENTION = 3 * 3600
"""Seconds after which a history row is gone: short, so that stories outlive it."""
RESULTS = ("true", "true", None, f'"{"x" * 200}"')
"""What targets answer: the last is too long for the job's row."""
OTHERS = 2_000
"""Messages of other jobs while a queue is flooded: more than the sweep feeds beyond."""


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


class SimJobs(InMemoryJobs):
    def __init__(self, world: World) -> None:
        super().__init__(faults=StepFaults(world))
        self._world = world

    def get(self, job_id: str, *, with_definition: bool = True) -> Job | None:
        return self._world.look("jobs.get", lambda: super(SimJobs, self).get(job_id, with_definition=with_definition))

    def get_rows(self, job_ids: Sequence[str]) -> dict[str, Job]:
        return self._world.look("jobs.get_rows", lambda: super(SimJobs, self).get_rows(job_ids))

    def get_many(self, job_ids: Sequence[str]) -> list[Job]:
        return self._world.look("jobs.get_many", lambda: super(SimJobs, self).get_many(job_ids))

    def _store(self, job: Job) -> None:
        before = self._read(job.id) if job.id in self.rows else None
        super()._store(job)
        row_says_why(job)
        self._world.judge.wrote(before, self._read(job.id), self._world.actor)

    def waiting_for(self, what: str, shard: int, *, limit: int) -> list[tuple[str, str]]:
        return self._world.look("jobs.waiting_for", lambda: super(SimJobs, self).waiting_for(what, shard, limit=limit))

    def stored(self, job_id: str) -> Job:
        """The row as it is, for those who judge."""
        return self._read(job_id)

    def attention_due(self, until: float) -> bool:
        return any(at <= until for at in self._attention.values())


class SimDependents(InMemoryDependents):
    def __init__(self, world: World) -> None:
        super().__init__(faults=StepFaults(world))
        self._world = world

    def of(self, parent: str, *, after: str | None, limit: int) -> Sequence[str]:
        return self._world.look(
            "dependents.of", lambda: super(SimDependents, self).of(parent, after=after, limit=limit)
        )


class SimCircuits(InMemoryCircuits):
    def __init__(self, world: World) -> None:
        super().__init__(faults=StepFaults(world))
        self._world = world

    def get(self, key: str) -> Circuit:
        return self._world.look("circuits.get", lambda: super(SimCircuits, self).get(key))

    def save(self, read: Circuit, new: Circuit, *, now: float) -> Circuit:
        world = self._world

        def apply() -> Circuit:
            before = self.rows.get(read.key)
            stored = self._put(read, new)
            if stored is not before:
                world.judge.changed(stored, world.actor)
            return stored

        return self.faults.run("circuits.save", apply)


class SimSlots(InMemorySlots):
    def __init__(self, world: World) -> None:
        super().__init__(faults=StepFaults(world))
        self._world = world

    def held(self, key: str) -> Sequence[Slot]:
        return self._world.look("slots.held", lambda: super(SimSlots, self).held(key))

    def take(self, key: str, slot: Slot, *, instead_of: Slot | None) -> bool:
        taken = super().take(key, slot, instead_of=instead_of)
        world = self._world
        world.note(f"    {world.actor.key} {'takes' if taken else 'is refused'} {key}#{slot.index} {slot.mark}")
        return taken

    def free(self, key: str, index: int, *, holder: str, mark: str | None = None) -> None:
        super().free(key, index, holder=holder, mark=mark)
        self._world.note(f"    {self._world.actor.key} frees {key}#{index} {mark}")


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
                execution_says_why(execution)
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

    def end(self, job_id: str, number: int) -> LastRun | None:
        return self._world.look("history.end", lambda: super(SimHistory, self).end(job_id, number))

    def _expire(self, key: tuple[str, str, int]) -> None:
        row = self.executions.get(key)
        if row is not None and row.completed_at + RETENTION < self._world.scheduler.now:
            del self.executions[key]


class PresentClock(FakeClock):
    """The clock of the actor that runs."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def now(self) -> float:
        return self._world.scheduler.now + self._world.actor.skew


class SimTimetable(FakeTimetable):
    """SQS and EventBridge Scheduler: what is armed becomes an event of the world. `armed` holds the schedules."""

    def __init__(self, world: World) -> None:
        super().__init__(PresentClock(world), faults=StepFaults(world))
        self._world = world

    def arm(self, hint: Hint, *, due_at: int, priority: Priority) -> None:
        self._world.judge.sends(hint, due_at, self._world.actor)
        super().arm(hint, due_at=due_at, priority=priority)

    def _arm(self, hint: Hint, due_at: int, priority: Priority) -> None:
        world, actor = self._world, self._world.actor
        far = isinstance(route(hint, due_at=due_at, now=self.clock.now()), OneTimeSchedule)
        if world.is_on("eventbridge" if far else "sqs"):
            world.judge.fault(f"{actor.key} refused", world.label(hint.job_id), actor)
            raise HintNotSentError
        known = len(self.armed)
        super()._arm(hint, due_at, priority)
        if len(self.armed) == known:
            return  # ConflictException: armed already
        delivery = self.armed[-1]
        self.sent.clear()
        if delivery.schedule is None:
            self.armed.pop()
            world.enqueue(hint, delivery.visible_at - actor.skew)
            return
        message = world.message(hint)
        world.scheduler.at(
            delivery.visible_at + world.draw(f"fires {message.key}").uniform(0, 60),
            lambda: self._fire(delivery, message),
        )

    def _fire(self, delivery: Delivery, message: Message) -> None:
        if any(one is delivery for one in self.armed):
            self.drop(delivery)
            self._world.enqueue(delivery.hint, self._world.scheduler.now, message)

    def backlog(self) -> int:
        return self._world.waiting + (OTHERS if self._world.is_on("flood") else 0)


class SimMachine(FakeMachine):
    """What is started becomes an event of the world."""

    def __init__(self, world: World) -> None:
        super().__init__(PresentClock(world), faults=StepFaults(world))
        self._world = world

    def start(self, step: Step) -> None:
        actor = self._world.actor
        try:
            super().start(step)
        except TroubleError as error:
            raise UnavailableError from error
        finally:
            # Whoever started the attempt is done with it: it is the machine's now, or the lease's.
            actor.started.discard((step.job_id, step.slot_id, step.attempt))

    def _start(self, step: Step) -> None:
        super()._start(step)
        for new in self.take():
            self._world.hand_over(new)

    def stop(self, step: Step) -> None:
        with contextlib.suppress(TroubleError):
            super().stop(step)


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
            host = str(target.get("url", "")).removeprefix("https://").split(".")[0]
            answer = self._answer(sort, choose, down=world.is_on(f"{host} down"))
        if world.meets("dies in the call", actor, nature.faults):
            raise Crash("in the call")
        world.judge.answered(invocation, answer, actor)
        return answer

    def _answer(self, sort: float, choose: random.Random, *, down: bool) -> TargetAnswer:
        nature, other = self._world.nature, choose.random()
        if down:
            error = ExecutionError(code="HTTP_503", message="503 Service Unavailable")
            return TargetAnswer(status=ExecutionStatus.FAILED, error=error)
        if sort > nature.hangs + nature.fails:
            return TargetAnswer(status=ExecutionStatus.COMPLETED, result=RESULTS[int(other * len(RESULTS))])
        if other < 0.1:
            error = ExecutionError(code="HTTP_400", message="400 Bad Request")
            return TargetAnswer(status=ExecutionStatus.FAILED, error=error, retryable=False)
        error = ExecutionError(code="HTTP_503", message="503 Service Unavailable")
        after = 45 if other < 0.2 else None
        return TargetAnswer(status=ExecutionStatus.FAILED, error=error, retry_after=after)
