"""Stories of owners that share a fleet of executor processes, one of which floods it.

A process takes up to ten messages, the oldest first, and is busy until the slowest of their calls is over, as Lambda
runs a batch. Calls hang, processes die. Real executors run over ports in memory, in virtual time.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from functions.adapters.process_shares import ProcessShares
from functions.domain.caller import Caller, Role
from functions.domain.definition import Priority
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.job import Job
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.shares import OVERSHOOT, Refusal, Share, minute_of
from functions.ports import ArmedHint
from functions.usecases.executor import handle_hint
from functions.usecases.jobs import JobDraft, create_job
from functions.usecases.services import Executor
from tests.driver import Driver
from tests.factories import make_document
from tests.fakes import Delivery, FakeClock, FakeTimetable, InMemoryJobs, World
from tests.faults import Crash
from tests.flows import OK
from tests.share_fakes import InMemoryShareRows
from tests.simulation.life import Violation
from tests.simulation.scheduler import Scheduler

BASE = 1_800_000_000
PROCESSES, BATCH = 10, 10
FLOOD = "team-a"
PROMPT = 2.0
"""Seconds after it is due within which a job of another owner starts."""
LENGTH = 240
TIMEOUT = ExecutionError(code="TIMEOUT", message="it never answers")


class VirtualClock(FakeClock):
    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(BASE)
        self.scheduler = scheduler

    def now(self) -> float:
        return self.scheduler.now

    def sleep(self, seconds: float) -> None:
        self.scheduler.wait(max(0.0, seconds))


class SlowJobs(InMemoryJobs):
    """Each call takes some milliseconds, in which others act."""

    def __init__(self, story: FairStory) -> None:
        super().__init__()
        self._story = story

    def get(self, job_id: str, *, with_definition: bool = True) -> Job | None:
        self._story.step()
        return super().get(job_id, with_definition=with_definition)

    def save(self, read: Job, new: Job, *, graph: int | None = None) -> Job:
        self._story.step()
        return super().save(read, new, graph=graph)


class Queue(FakeTimetable):
    """One run queue: what is armed is visible when it is due."""

    def __init__(self, clock: FakeClock, story: FairStory) -> None:
        super().__init__(clock)
        self._story = story

    def _arm(self, hint: Hint, due_at: int, priority: Priority) -> None:
        super()._arm(hint, due_at, priority)
        self._story.scheduler.at(self.armed[-1].visible_at, self._story.poke)

    def arm_all(self, hints: Any) -> int:
        for one in hints:
            assert isinstance(one, ArmedHint)
            self._story.check(one.owner == self._story.owner_of(one.hint.job_id), "hints name their job's owner", "")
        return super().arm_all(hints)


class Rows(InMemoryShareRows):
    """Those of one process, which writes nothing once it is dead."""

    def __init__(self, shared: InMemoryShareRows, process: Process) -> None:
        super().__init__()
        self.rows = shared.rows
        self._process = process

    def stay(self, *args: Any, **options: Any) -> None:
        if not self._process.dead:
            super().stay(*args, **options)

    def leave(self, *args: Any, **options: Any) -> None:
        if not self._process.dead:
            super().leave(*args, **options)


@dataclass(eq=False)
class Later:
    call: Callable[[], None] | None

    def __call__(self) -> None:
        if self.call is not None:
            self.call()

    def cancel(self) -> None:
        self.call = None


@dataclass(eq=False)
class Process:
    story: FairStory
    number: int
    dead: bool = False
    running: int = 0
    """Messages of its batch that are not done."""
    calling: list[str] = field(default_factory=list)
    """Owners whose targets it calls."""

    def __post_init__(self) -> None:
        story = self.story

        def call_later(seconds: float, call: Callable[[], None]) -> Later:
            later = Later(lambda: None if self.dead else call())
            story.scheduler.after(seconds, later)
            return later

        self.shares = ProcessShares(
            Rows(story.rows, self), {Priority.NORMAL: story.share}, clock=story.clock, call_later=call_later
        )

    def take(self, batch: list[Delivery]) -> None:
        self.running = len(batch)
        for delivery in batch:
            self.story.scheduler.after(0.02, lambda delivery=delivery: self._handle(delivery))

    def _handle(self, delivery: Delivery) -> None:
        try:
            if not self.dead:
                handle_hint(self.story.executor(self), delivery.hint)
        except Crash:
            pass
        self.running -= 1
        self.story.poke()


class FairStory:
    def __init__(self, seed: int) -> None:
        choose = self.choose = random.Random(f"{seed}/fair")
        self.share = Share(processes=choose.choice([3, 5, 7]), starts_per_minute=choose.choice([40, 100_000]))
        self.deaths = choose.choice([0.0, 0.0, 0.02])
        self.hangs = choose.choice([1.0, 1.0, 0.3])
        self.scheduler = Scheduler(float(BASE))
        self.clock = VirtualClock(self.scheduler)
        self.rows = InMemoryShareRows()
        world = World(clock=self.clock)
        world.jobs, world.timetable = SlowJobs(self), Queue(self.clock, self)
        self.driver = Driver(world, jobs=world.jobs)
        self.processes = [Process(self, number) for number in range(PROCESSES)]
        self._numbers = itertools.count(PROCESSES)
        self.due: dict[str, int] = {}
        self.started: dict[str, float] = {}
        self.starts: dict[tuple[str, int], int] = {}

    def step(self) -> None:
        self.scheduler.wait(self.choose.uniform(0.002, 0.01))

    def check(self, holds: bool, rule: str, what: str) -> None:
        if not holds:
            raise Violation(rule, what)

    def owner_of(self, job_id: str) -> str:
        return self.driver.world.jobs.rows[job_id].owner

    def executor(self, process: Process) -> Executor:
        ports = {name: getattr(self.driver.executor, name) for name in Executor.__dataclass_fields__}
        shares = AskedShares(self, process)
        return Executor(
            **{**ports, "shares": shares, "targets": Targets(self, process), "uniform": self.choose.uniform}
        )

    def poke(self) -> None:
        """Each process that is idle takes what is visible."""
        self.processes = [
            Process(self, next(self._numbers)) if one.dead and not one.running else one for one in self.processes
        ]
        for process in self.processes:
            due = [] if process.running or process.dead else self.driver.world.timetable.deliverable()[:BATCH]
            if due:
                for delivery in due:
                    self.driver.world.timetable.drop(delivery)
                process.take(due)

    def create(self, owner: str, at: int) -> None:
        caller = Caller(id=owner, owner=owner, roles=frozenset({Role.SCHEDULER}))
        when = datetime.fromtimestamp(at, UTC).isoformat()
        document = make_document(
            schedule={"type": "once", "at": when}, timeoutSeconds=25, retryConfig={"maxRetries": 0}
        )
        job = create_job(self.driver.services, caller, JobDraft(document=document, payload="{}")).job
        self.due[job.id] = at

    def tell(self) -> Violation | None:
        flood = self.choose.choice([BASE + 5, BASE + 50])
        for number in range(120):
            # At once, or one by one: each message then has a process to itself.
            self.scheduler.at(flood - 3 + number * self.choose.choice([0.0, 0.02]), lambda: self.create(FLOOD, flood))
        for number in range(12):
            at = flood + self.choose.randrange(0, 60)
            self.scheduler.at(flood - 3, lambda at=at, number=number: self.create(f"team-{'bcd'[number % 3]}", at))
        try:
            self.scheduler.run(BASE + LENGTH)
            self.judge()
        except Violation as violation:
            return violation
        return None

    def judge(self) -> None:
        for job_id, due in self.due.items():
            owner = self.owner_of(job_id)
            late = self.started.get(job_id, BASE + LENGTH) - due
            if owner != FLOOD:
                self.check(late <= PROMPT, "an owner's backlog delays no other's jobs", f"{owner}: {late:.1f} s late")
        for (_, minute), starts in self.starts.items():
            most = self.share.starts_per_minute * (1 + 1 / OVERSHOOT)
            self.check(starts <= most, "a minute has no more starts of an owner than it may", f"{minute}: {starts}")
        begun = sum(self.owner_of(job_id) == FLOOD for job_id in self.started)
        enough = min(120, 2 * self.share.starts_per_minute, 30)
        self.check(begun >= enough, "an owner uses its share", f"{begun} of its jobs began")


@dataclass
class AskedShares:
    """The process's shares; an owner without a backlog is never refused."""

    story: FairStory
    process: Process

    def enter(self, owner: str, priority: Priority, *, lasts: float) -> Any:
        entered = self.process.shares.enter(owner, priority, lasts=lasts)
        if isinstance(entered, Refusal):
            self.story.check(owner == FLOOD, "an owner's limit holds back no other's jobs", owner)
        return entered


@dataclass
class Targets:
    story: FairStory
    process: Process

    def call(self, invocation: Invocation, _target: dict[str, object]) -> TargetAnswer:
        story, process, owner = self.story, self.process, self.story.owner_of(invocation.job_id)
        now = story.scheduler.now
        story.started.setdefault(invocation.job_id, now)
        key = owner, minute_of(now)
        story.starts[key] = story.starts.get(key, 0) + 1
        process.calling.append(owner)
        at_work = sum(owner in one.calling and not one.dead for one in story.processes)
        story.check(at_work <= story.share.processes, "no more processes work for an owner than may", str(at_work))
        if story.choose.random() < story.deaths:
            process.dead = True
            process.calling.clear()
            raise Crash
        hangs = owner == FLOOD and story.choose.random() < story.hangs
        story.scheduler.wait(float(invocation.timeout_seconds) if hangs else 0.1)
        if process.dead:
            raise Crash
        process.calling.remove(owner)
        return TargetAnswer(status=ExecutionStatus.TIMED_OUT, error=TIMEOUT) if hangs else OK


def tell(seed: int) -> Violation | None:
    """What a story broke; None where it kept every promise."""
    return FairStory(seed).tell()
