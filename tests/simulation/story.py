"""What happens in a story, drawn from its seed: jobs, what callers do to them, weather; and how it is played."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from functions.domain.errors import ConflictError, InvalidFieldError, NotFoundError, UnavailableError
from functions.domain.job import Job, RunState
from functions.usecases.actions import (
    cancel_execution,
    cancel_job,
    delete_job,
    execute_job,
    pause_job,
    resume_job,
    retry_job,
)
from functions.usecases.jobs import IdempotencyKey, JobDraft, change_job, create_job
from functions.usecases.services import Services
from tests.driver import ADMIN
from tests.factories import make_document
from tests.simulation.model import Judge, Violation
from tests.simulation.slots import slots_between
from tests.simulation.world import Nature, Weather, World

BASES = {
    "winter": 1_800_000_000,
    "New York, spring": 1_804_993_200,
    "New York, autumn": 1_825_552_800,
    "Lord Howe, autumn": 1_806_750_000,
    "Lord Howe, spring": 1_822_476_600,
}
"""A few hours before clocks change (2027), and a day on which nothing changes."""
SETTLE = 1_500
"""Seconds without faults at the end of a story: the longest back-off of the sweep, and the ordinary repair."""

HOT_SCHEDULES: list[dict[str, Any]] = [
    {"type": "interval", "everySeconds": 10},
    {"type": "interval", "everySeconds": 25},
    {"type": "interval", "everySeconds": 60},
    {"type": "interval", "everySeconds": 120},
    {"type": "cron", "expression": "* * * * *"},
    {"type": "cron", "expression": "*/3 * * * *"},
]
DAY_SCHEDULES: list[dict[str, Any]] = [
    {"type": "interval", "everySeconds": 900},
    {"type": "interval", "everySeconds": 3600},
    {"type": "interval", "everySeconds": 5000},
    {"type": "cron", "expression": "*/20 * * * *", "timezone": "Europe/Berlin"},
    {"type": "cron", "expression": "30 2 * * *", "timezone": "America/New_York"},
    {"type": "cron", "expression": "0,30 1,2,3 * * *", "timezone": "America/New_York"},
    {"type": "cron", "expression": "15 * * * *", "timezone": "America/New_York"},
    {"type": "cron", "expression": "*/30 1,2,3 * * *", "timezone": "America/New_York"},
    {"type": "cron", "expression": "10 2 * * *", "timezone": "Australia/Lord_Howe"},
    {"type": "cron", "expression": "0,40 1,2 * * *", "timezone": "Australia/Lord_Howe"},
    {"type": "cron", "expression": "*/15 * * * *", "timezone": "Australia/Lord_Howe"},
]
RETRIES: list[dict[str, Any]] = [
    {"maxRetries": 0},
    {"maxRetries": 1, "initialDelaySeconds": 1, "jitter": 0},
    {"maxRetries": 2, "initialDelaySeconds": 5},
    {"maxRetries": 3, "initialDelaySeconds": 10, "multiplier": 3, "maxDelaySeconds": 60, "jitter": 1},
    {"maxRetries": 3, "initialDelaySeconds": 20, "backoffStrategy": "linear", "retryWindowSeconds": 100},
    {"maxRetries": 2, "initialDelaySeconds": 30, "backoffStrategy": "fixed", "retryWindowSeconds": 200, "jitter": 0.5},
]


@dataclass(frozen=True)
class Action:
    """Something a caller does. `at` is an instant, or the number of a write of a row in whose middle it comes."""

    id: str
    kind: str
    job: int
    at: float | None
    write: int | None = None
    document: dict[str, Any] | None = None
    enabled: bool | None = None
    seconds: int = 0


@dataclass
class Plan:
    seed: int
    base: int
    ends: float
    """When faults and callers end; the story goes on until all has settled."""
    nature: Nature
    weather: list[Weather]
    actions: list[Action]


@dataclass
class Told:
    """How a story went."""

    seed: int
    violation: Violation | None
    met: list[str]
    """Actions, weather and faults that took part: what can be left out."""
    job_days: float
    writes: int
    runs: int
    switches: int = 0
    trace: list[str] = field(default_factory=list)


def plan(seed: int) -> Plan:
    """The story of a seed."""
    choose = random.Random(f"{seed}/plan")
    hot = choose.random() < 0.55
    base = BASES["winter"] if hot else choose.choice(list(BASES.values()))
    length = choose.choice([600, 1200, 2400]) if hot else choose.choice([8, 24, 24, 48]) * 3600
    nature = Nature(
        faults=choose.choice([0, 0, 0.004, 0.015, 0.05]),
        messages=choose.choice([0, 0, 0.05, 0.3]),
        fails=choose.choice([0, 0.2, 0.6]),
        hangs=choose.choice([0, 0, 0.05]),
        skewed=choose.random() < 0.8,
    )
    documents = [_document(choose, hot, base, length) for _ in range(choose.choice([1, 1, 2] if hot else [1, 2, 3, 4]))]
    actions = [
        Action(
            f"a{number} create",
            "create",
            number,
            base + 1 + choose.random() * 3,
            None,
            document,
            choose.random() > 0.05,
        )
        for number, document in enumerate(documents)
    ]
    for number in range(choose.choice([0, 3, 8, 16])):
        actions += _action(choose, len(documents) + 2 * number, documents, hot, base, length, actions)
    return Plan(seed, base, base + length, nature, _weather(choose, base, length), actions)


def _document(choose: random.Random, hot: bool, base: int, length: int) -> dict[str, Any]:
    if choose.random() < 0.25:
        at = base + choose.randrange(2, length)
        schedule = {"type": "once", "at": datetime.fromtimestamp(at, UTC).isoformat()}
    else:
        schedule = choose.choice(HOT_SCHEDULES if hot else DAY_SCHEDULES)
    document = make_document(
        schedule=schedule,
        overlapPolicy=choose.choice(["skip", "skip", "allow", "queue"]),
        misfirePolicy=choose.choice(["run_once", "skip", "run_all"]),
        retryConfig=choose.choice(RETRIES),
        timeoutSeconds=choose.choice([5, 30, 60]),
        description=choose.choice([None, None, "x" * 900]),
    )
    if schedule["type"] != "once":
        if choose.random() < 0.15:
            document["maxRuns"] = choose.choice([1, 3, 8])
        if choose.random() < 0.15:
            document["endAt"] = datetime.fromtimestamp(base + length // 2, UTC).isoformat()
    if choose.random() < 0.15:
        document["spreadSeconds"] = choose.choice([5, 10])
    return document


def _action(
    choose: random.Random,
    number: int,
    documents: list[dict[str, Any]],
    hot: bool,
    base: int,
    length: int,
    before: list[Action],
) -> list[Action]:
    kinds = ["pause"] * 3 + ["resume"] * 2 + ["change"] * 3 + ["touch", "execute", "execute", "retry", "retry"]
    kinds += ["cancel execution", "cancel execution", "again"] + ["cancel"] * (choose.random() < 0.5)
    kinds += ["delete"] * (choose.random() < 0.3)
    kind, job = choose.choice(kinds), choose.randrange(len(documents))
    at: float | None = base + 5 + choose.random() * (length - 10)
    write = None
    how = choose.random()
    if how < 0.45:
        slots = slots_between(documents[job], base + 2, base, base + length)
        at = (choose.choice(slots) if slots else base + 30) + choose.choice([-0.4, -0.1, 0.0, 0.1, 0.3, 1.0, 4.0])
    elif how < 0.6 and len(before) > len(documents):
        at = choose.choice(before).at
    elif how < 0.8:
        write, at = choose.randrange(2, 60), None
    document = _document(choose, hot, base, length) if kind == "change" else None
    enabled = choose.choice([None, None, True, False]) if kind == "change" else None
    made = [Action(f"a{number} {kind}", kind, job, at, write, document, enabled, choose.choice([0, 0, 30]))]
    if kind == "pause" and choose.random() < 0.8 and at is not None:
        later = at + choose.choice([1, 20, 65, 200])
        made.append(Action(f"a{number + 1} resume", "resume", job, later))
    return made


def _weather(choose: random.Random, base: int, length: int) -> list[Weather]:
    found = []
    for number in range(choose.choice([0, 0, 0, 1, 1, 3])):
        kind = choose.choice(["sqs", "eventbridge", "consumers", "sweep", "flood", "lag", "dynamodb"])
        begins = base + choose.random() * length
        lasts = choose.choice([5, 60, 150, 400, 1200])
        found.append(Weather(f"weather{number} {kind}", kind, begins, min(begins + lasts, base + length)))
    return found


class Story:
    """A plan, played."""

    def __init__(self, plan: Plan, *, only: frozenset[str] | None = None, traced: bool = False) -> None:
        self.plan, self.only = plan, only
        self.judge = Judge()
        self.world = World(
            plan.seed,
            now=float(plan.base),
            nature=plan.nature,
            weather=plan.weather,
            calm_at=plan.ends,
            judge=self.judge,
            only=only,
        )
        self.judge.world = self.world
        self.trace: list[str] = []
        if traced:
            self.world.trace = self.trace.append
        self.ids: dict[int, str] = {}
        self._asked: dict[int, Action] = {}
        self._saves = 0

    def tell(self) -> Told:
        world, plan = self.world, self.plan
        actions = [action for action in plan.actions if self.only is None or action.id in self.only]
        created = {action.job for action in actions if action.kind == "create"}
        for action in actions:
            if action.job not in created:
                continue
            if action.at is not None:
                world.scheduler.at(action.at, lambda action=action: self.request(action))
        by_write = {action.write: action for action in actions if action.write is not None and action.job in created}
        world.before_save = lambda: self._saved(by_write)
        world.scheduler.at(plan.base + world.draw("sweep").uniform(0, 60), world.tick)
        for weather in world.weather:
            self.judge.hampered(weather)
        violation = None
        try:
            world.scheduler.run(plan.ends + SETTLE)
            self.judge.close()
        except Violation as found:
            violation = found
        days = sum(world.scheduler.now - life.row.created_at for life in self.judge.lives.values()) / 86_400
        took_part = [one.id for one in world.weather] + [action.id for action in actions] + world.met
        return Told(plan.seed, violation, took_part, days, self.judge.writes, self.judge.runs, trace=self.trace)

    def _saved(self, by_write: dict[int | None, Action]) -> None:
        self._saves += 1
        action = by_write.get(self._saves)
        if action is not None and self.world.scheduler.now < self.plan.ends:
            self.world.scheduler.after(0, lambda: self.request(action))

    def request(self, action: Action, again: str = "") -> None:
        """One request of a caller; one that gets no answer may be repeated."""
        job_id = self.ids.get(action.job)
        if job_id is None and action.kind not in ("create", "again"):
            return
        world = self.world
        label = None if job_id is None else world.label(job_id)
        actor = world.actor_of(f"call {action.id}{again}", "caller", job=label, action=action.kind)
        services = world.services(actor)
        world.note(f"{actor.key} {label or ''}")

        def ask() -> None:
            try:
                answer = REQUESTS[action.kind](self, services, action, job_id or "")
            except (ConflictError, NotFoundError, InvalidFieldError, UnavailableError) as error:
                world.note(f"{actor.key}: {type(error).__name__} {error}")
                self.judge.replied(actor, job_id, error)
            else:
                world.note(f"{actor.key}: done")
                self.judge.replied(actor, job_id, None)
                if action.kind in ("create", "again") and isinstance(answer, Job):
                    self._created(action, answer)

        answered = world.run(actor, ask)
        if not answered and (action.kind == "create" or actor.choose.random() < 0.6):
            world.scheduler.after(actor.choose.choice([0.1, 1.0, 5.0]), lambda: self.request(action, again + "r"))

    def _created(self, action: Action, job: Job) -> None:
        first = self.ids.setdefault(action.job, job.id)
        if first != job.id:
            raise Violation("one request with its key made two jobs", f"{first} {job.id}")

    def create(self, services: Services, action: Action, job_id: str) -> Job | None:
        original = next(one for one in self.plan.actions if one.kind == "create" and one.job == action.job)
        if action.kind == "again" and self.world.scheduler.now > (original.at or 0) + 3000:
            return None  # its key is kept for an hour
        draft = JobDraft(document=original.document or {}, payload="{}", enabled=original.enabled)
        key = IdempotencyKey("root POST /v1/jobs", f"key{action.job}", "hash")
        return create_job(services, ADMIN, draft, key=key).job

    def change(self, services: Services, action: Action, job_id: str) -> None:
        draft = JobDraft(document=action.document or {}, payload='{"a":1}', enabled=action.enabled)
        change_job(services, ADMIN, job_id, change=lambda _: draft)

    def touch(self, services: Services, action: Action, job_id: str) -> None:
        def change(row: Job) -> JobDraft:
            return JobDraft(document={**row.defined.document, "tags": [action.id]}, payload="1")

        change_job(services, ADMIN, job_id, change=change)

    def retry(self, services: Services, action: Action, job_id: str) -> None:
        retry_job(services, ADMIN, job_id, delay_seconds=action.seconds)

    def cancel_execution(self, services: Services, action: Action, job_id: str) -> None:
        row = self.world.jobs.rows[job_id]
        for slot, run in row.runs.items():
            attempt = run.attempt + (run.state is not RunState.RUNNING)
            cancel_execution(services, ADMIN, f"{job_id}-{slot}-{attempt:04d}")
            return


Request = Callable[[Story, Services, Action, str], object]
REQUESTS: dict[str, Request] = {
    "create": Story.create,
    "again": Story.create,
    "pause": lambda _, services, __, job_id: pause_job(services, ADMIN, job_id),
    "resume": lambda _, services, __, job_id: resume_job(services, ADMIN, job_id),
    "change": Story.change,
    "touch": Story.touch,
    "execute": lambda _, services, __, job_id: execute_job(services, ADMIN, job_id),
    "retry": Story.retry,
    "cancel": lambda _, services, __, job_id: cancel_job(services, ADMIN, job_id),
    "cancel execution": Story.cancel_execution,
    "delete": lambda _, services, __, job_id: delete_job(services, ADMIN, job_id),
}


def tell(seed: int, *, only: frozenset[str] | None = None, traced: bool = False) -> Told:
    """Play the story of a seed; `only`, if given, names what takes place in it: all else is left out."""
    return Story(plan(seed), only=only, traced=traced).tell()
