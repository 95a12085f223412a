"""A plan, played: the real use cases in a world of faults, before the judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from functions.domain.caller import Caller, Role
from functions.domain.errors import ConflictError, ForbiddenError, InvalidFieldError, NotFoundError, UnavailableError
from functions.domain.idempotency import IdempotencyKey
from functions.domain.job import Job
from functions.domain.run import RunState
from functions.usecases.actions import execute_job, pause_job, resume_job, retry_job
from functions.usecases.cancelling import cancel_execution, cancel_job, delete_job
from functions.usecases.circuits import reset_circuit
from functions.usecases.jobs import JobDraft, change_job, create_job
from functions.usecases.services import Services
from tests.driver import ADMIN
from tests.simulation.crowd import TYPE, crowd, stage_of
from tests.simulation.crowd_judge import CrowdJudge
from tests.simulation.model import Judge, Violation
from tests.simulation.outages import is_one, outage
from tests.simulation.plan import Action, Plan, plan
from tests.simulation.world import World

SETTLE = 1_500
"""Seconds without faults at the end of a story: the longest back-off of the sweep, and the ordinary repair."""


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


class Story:
    """A plan, played."""

    settle = SETTLE
    world_of = World
    requests: Mapping[str, Request]

    def __init__(
        self,
        plan: Plan,
        *,
        judge: Judge | CrowdJudge | None = None,
        only: frozenset[str] | None = None,
        traced: bool = False,
    ) -> None:
        self.plan, self.only = plan, only
        self.judge = judge or Judge()
        self.world = self.world_of(
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
            if action.job not in created and action.kind != "reset":
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
            world.scheduler.run(plan.ends + self.settle)
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
        if job_id is None and action.kind not in ("create", "again", "reset"):
            return
        world = self.world
        label = None if job_id is None else world.label(job_id)
        actor = world.actor_of(f"call {action.id}{again}", "caller", job=label, action=action.kind, team=action.team)
        services = world.services(actor)
        world.note(f"{actor.key} {label or ''}")

        def ask() -> None:
            try:
                answer = self.requests[action.kind](self, services, action, job_id or "")
            except (ConflictError, ForbiddenError, NotFoundError, InvalidFieldError, UnavailableError) as error:
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
        return create_job(services, caller_of(original), draft, key=key).job

    def change(self, services: Services, action: Action, job_id: str) -> None:
        draft = JobDraft(document=action.document or {}, payload='{"a":1}', enabled=action.enabled)
        change_job(services, ADMIN, job_id, change=lambda _: draft)

    def same(self, services: Services, action: Action, job_id: str) -> None:
        """A PUT of what is there, in other words."""

        def change(row: Job) -> JobDraft:
            document = {"overlapPolicy": "skip", "priority": "normal", **reversed_keys(row.defined.document)}
            return JobDraft(document=document, payload=row.defined.payload, enabled=not row.paused)

        change_job(services, ADMIN, job_id, change=change)

    def touch(self, services: Services, action: Action, job_id: str) -> None:
        def change(row: Job) -> JobDraft:
            return JobDraft(document={**row.defined.document, "tags": [action.id]}, payload="1")

        change_job(services, ADMIN, job_id, change=change)

    def respread(self, services: Services, action: Action, job_id: str) -> None:
        """Another spread, and sometimes another limit, of the schedule as it is."""

        def change(row: Job) -> JobDraft:
            document = {**row.defined.document, "spreadSeconds": action.seconds}
            if action.seconds == 60 and document["schedule"]["type"] != "once":
                document["maxRuns"] = row.starts + 2
            return JobDraft(document=document, payload=row.defined.payload)

        change_job(services, ADMIN, job_id, change=change)

    def retry(self, services: Services, action: Action, job_id: str) -> None:
        retry_job(services, ADMIN, job_id, delay_seconds=action.seconds)

    def cancel_execution(self, services: Services, action: Action, job_id: str) -> None:
        row = self.world.jobs.rows[job_id]
        for slot, run in row.runs.items():
            attempt = run.attempt + (run.state is not RunState.RUNNING)
            cancel_execution(services, ADMIN, f"{job_id}-{slot}-{attempt:04d}")
            return


def reversed_keys(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in reversed(document)}


def _reset(services: Services, action: Action) -> None:
    """Of one of the circuits there are, by whoever it occurs to."""
    keys = sorted(circuit for circuit in services.circuits.rows)  # type: ignore[attr-defined]  # the simulation's
    if keys:
        reset_circuit(services, caller_of(action), keys[action.job % len(keys)])


def caller_of(action: Action) -> Caller:
    if not action.team:
        return ADMIN
    return Caller(id=action.team, owner=action.team, roles=frozenset({Role.SCHEDULER}))


Request = Callable[[Story, Services, Action, str], object]
REQUESTS: dict[str, Request] = {
    "create": Story.create,
    "again": Story.create,
    "pause": lambda _, services, __, job_id: pause_job(services, ADMIN, job_id),
    "resume": lambda _, services, __, job_id: resume_job(services, ADMIN, job_id),
    "change": Story.change,
    "same": Story.same,
    "respread": Story.respread,
    "touch": Story.touch,
    "execute": lambda _, services, __, job_id: execute_job(services, ADMIN, job_id),
    "retry": Story.retry,
    "cancel": lambda _, services, __, job_id: cancel_job(services, ADMIN, job_id),
    "cancel execution": Story.cancel_execution,
    "reset": lambda _, services, action, __: _reset(services, action),
    "delete": lambda _, services, __, job_id: delete_job(services, ADMIN, job_id),
}
Story.requests = REQUESTS


CROWDS = 4
"""Every so many-th story is one of a crowd."""


def tell(seed: int, *, only: frozenset[str] | None = None, traced: bool = False) -> Told:
    """Play the story of a seed; `only`, if given, names what takes place in it: all else is left out."""
    if seed % CROWDS != CROWDS - 1:
        told = outage(seed) if is_one(seed) else plan(seed)
        return Story(told, only=only, traced=traced).tell()
    rules = stage_of(seed)
    story = Story(crowd(seed), judge=CrowdJudge(rules), only=only, traced=traced)
    story.world.types.set_circuits(*rules.shared, **rules.thresholds)
    story.world.types.put(TYPE, **rules.type_document)
    return story.tell()
