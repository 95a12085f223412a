"""Stories of workers and callbacks: real claims, heartbeats, reports in a world of faults, before a judge of their own.

Workers die, stall beyond their leases, repeat what got no answer, report what is no longer theirs, and drain; targets
that accepted report early, late, twice, with tokens of other attempts, or never; callers pause and cancel meanwhile.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from functions.domain.claims import Holder
from functions.domain.errors import ConflictError, GnomonError
from functions.domain.ids import execution_id
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.progress import Progress
from functions.usecases.actions import execute_job, pause_job, resume_job, retry_job
from functions.usecases.cancelling import cancel_execution, cancel_job
from functions.usecases.executor import Executor
from functions.usecases.jobs import JobDraft, change_job, create_job
from functions.usecases.reports import end_execution, report_progress
from functions.usecases.services import Services
from tests.driver import ADMIN
from tests.factories import make_document
from tests.simulation.actors import Actor, Nature
from tests.simulation.hands import BAD, GOOD, Hand, Hands
from tests.simulation.life import Violation
from tests.simulation.ports import SimTargets
from tests.simulation.work_gates import gated
from tests.simulation.work_judge import WorkJudge
from tests.simulation.world import World

BASE, LENGTH, SETTLE = 1_800_000_000, 1_500, 2_400
RETRIES: list[dict[str, Any]] = [
    {"maxRetries": 0},
    {"maxRetries": 2, "initialDelaySeconds": 5, "jitter": 0},
    {"maxRetries": 3, "initialDelaySeconds": 2, "retryWindowSeconds": 200},
]


class WorkWorld(World):
    """A world whose targets accept, and report later."""

    story: WorkStory

    def executor(self, actor: Actor) -> Executor:
        ports = {name: getattr(super(WorkWorld, self).executor(actor), name) for name in Executor.__dataclass_fields__}
        return Executor(**{**ports, "targets": LateTargets(self, self.story)})


class LateTargets(SimTargets):
    def __init__(self, world: World, story: WorkStory) -> None:
        super().__init__(world)
        self._story = story

    def call(self, invocation: Invocation, target: dict[str, object]) -> TargetAnswer:
        if invocation.callback_token is not None:
            self._story.accepted(invocation)
        return super().call(invocation, target)


class Asked(NamedTuple):
    """A request, and what came of it."""

    actor: Actor
    answer: Any
    """None where the function died or failed, or refused with something else than a conflict."""


class WorkStory:
    def __init__(self, seed: int, *, only: frozenset[str] | None = None, traced: bool = False) -> None:
        choose = self.choose = random.Random(f"{seed}/work")
        nature = Nature(
            faults=choose.choice([0, 0, 0.004, 0.015, 0.04]),
            messages=choose.choice([0, 0.05, 0.3]),
            fails=choose.choice([0, 0.3]),
            hangs=choose.choice([0, 0.05]),
            stalls=choose.choice([0, 0.01, 0.05]),
        )
        self.judge = WorkJudge()
        self.world = WorkWorld(
            seed, now=float(BASE), nature=nature, weather=(), calm_at=BASE + LENGTH, judge=self.judge, only=only
        )
        self.world.story = self
        self.judge.world, self.judge.story = self.world, self
        self.trace: list[str] = []
        if traced:
            self.world.trace = self.trace.append
        self.jobs: list[str] = []
        self.tokens: list[str] = []
        self.hands = Hands(self)
        self._requests = 0

    def tell(self) -> Violation | None:
        choose, at = self.choose, self.world.scheduler.at
        mixes = random.Random(f"{self.world.seed}/work's mixes")
        all_keyed, all_gated = mixes.random() < 0.2, mixes.random() < 0.25
        for number in range(choose.choice([1, 2, 3])):
            document = self._document()
            if all_keyed:
                document |= {"concurrencyKey": "k", "maxConcurrency": mixes.choice([1, 1, 2])}
            if all_gated or mixes.random() < 0.1:
                document = gated(document, mixes.choice([30, 120, 600]), mixes.choice(["approve", "reject"]))
            at(BASE + 1 + number, lambda document=document: self._create(document))
        for number in range(choose.choice([1, 2, 4])):
            queues = choose.choice([("q0",), ("q0", "q1"), ("q1",)])
            hand = Hand(f"w{number}", queues, self.world.draw(f"hand {number}"))
            at(BASE + choose.uniform(0, 60), lambda hand=hand: self.hands.register(hand))
        steady = Hand("steady", ("q0", "q1"), self.world.draw("steady"), steady=True)
        at(BASE + LENGTH, lambda: self.hands.register(steady))
        for _ in range(choose.choice([0, 2, 6])):
            kind = choose.choice(["pause", "resume", "cancel execution", "execute", "move", "cancel"])
            pick = choose.random()
            at(BASE + choose.uniform(5, LENGTH), lambda kind=kind, pick=pick: self._act(kind, pick))
        for _ in range(mixes.choice([0, 3, 8, 20]) if all_gated else mixes.choice([0, 0, 4])):
            kind = mixes.choice(["retry", "retry", "change", "change", "move", "pause", "resume"])
            pick, when = mixes.random(), BASE + mixes.uniform(5, LENGTH)
            at(when, lambda kind=kind, pick=pick: self._act(kind, pick))
            if kind in ("change", "move"):
                at(when + mixes.choice([0.01, 2]), lambda pick=pick: self._act("retry", pick))
        at(BASE + LENGTH + 1, lambda: [self._act("resume", n / len(self.jobs)) for n in range(len(self.jobs))])
        at(BASE + choose.uniform(0, 60), self.world.tick)
        try:
            self.world.scheduler.run(BASE + LENGTH + SETTLE)
            self.judge.close()
        except Violation as violation:
            return violation
        return None

    def _document(self) -> dict[str, Any]:
        choose = self.choose
        once = {"type": "once", "at": datetime.fromtimestamp(BASE + choose.randrange(5, 200), UTC).isoformat()}
        every = {"type": "interval", "everySeconds": choose.choice([60, 150])}
        changes: dict[str, Any] = {"target": {"type": "worker", "queue": choose.choice(["q0", "q1"])}}
        timeout = choose.choice([20, 60, 200, 400, 1_000])
        if choose.random() < 0.35:
            changes = {"completion": "callback"}
            timeout = choose.choice([20, 60, 90, 400, 1_000, 20_000])
        if choose.random() < 0.3:
            changes |= {"concurrencyKey": "k", "maxConcurrency": choose.choice([1, 2])}
        return make_document(
            schedule=choose.choice([once, every, every]),
            overlapPolicy=choose.choice(["skip", "allow", "queue"]),
            timeoutSeconds=timeout,
            retryConfig=choose.choice(RETRIES),
            endAt=datetime.fromtimestamp(BASE + LENGTH - 100, UTC).isoformat(),
            **changes,
        )

    # --- requests ---

    def ask(self, what: str, ask: Callable[[Services, Actor], Any], *, kind: str = "worker") -> Asked:
        self._requests += 1
        actor = self.world.actor_of(f"{what} {self._requests}", kind, action=what)
        services, found = self.world.services(actor), []

        def work() -> None:
            try:
                found.append(ask(services, actor))
            except ConflictError as error:
                self.world.note(f"{actor.key}: {error}")
                found.append(error)

        self.world.run(actor, work)
        return Asked(actor, found[0] if found else None)

    def _create(self, document: dict[str, Any]) -> None:
        draft = JobDraft(document=document, payload="{}", enabled=None)
        made = self.ask("create", lambda services, _: create_job(services, ADMIN, draft).job, kind="caller").answer
        if made is None:
            self.world.scheduler.after(1, lambda: self._create(document))
        else:
            self.jobs.append(made.id)

    def _act(self, kind: str, pick: float) -> None:
        if not self.jobs:
            return
        job_id = self.jobs[int(pick * len(self.jobs))]

        def act(services: Services, _: Actor) -> Any:
            if kind == "move":
                return change_job(services, ADMIN, job_id, change=self._moved)
            if kind == "change":
                payload = json.dumps(f"{pick:.3f}")
                return change_job(
                    services,
                    ADMIN,
                    job_id,
                    change=lambda row: JobDraft(document=dict(row.defined.document), payload=payload),
                )
            if kind == "retry":
                return retry_job(services, ADMIN, job_id, delay_seconds=0 if pick < 0.7 else 20)
            if kind == "cancel execution":
                for slot, run in self.world.jobs.rows[job_id].runs.items():
                    return cancel_execution(services, ADMIN, execution_id(job_id, slot, run.current_attempt))
                return None
            acts = {"pause": pause_job, "resume": resume_job, "execute": execute_job, "cancel": cancel_job}
            return acts[kind](services, ADMIN, job_id)

        self.ask(kind, act, kind="caller")

    def _moved(self, row: Any) -> JobDraft:
        """Its workers' jobs to another queue."""
        document = dict(row.defined.document)
        if document["target"]["type"] == "worker":
            document["target"] = {"type": "worker", "queue": "q1" if document["target"]["queue"] == "q0" else "q0"}
        return JobDraft(document=document, payload="1")

    # --- callbacks ---

    def accepted(self, invocation: Invocation) -> None:
        """A target was called that reports later: or at once, or never, or with another attempt's token."""
        token, choose = str(invocation.callback_token), self.world.draw(f"late {invocation.execution_id}")
        self.judge.sent_token(invocation, token)
        self.tokens.append(token)
        calm = self.world.scheduler.now >= BASE + LENGTH
        after = 2.0 if calm else choose.choice([0.01, 0.2, 3, 19, 40, 73, 79, 150, 500])
        answer = GOOD if calm or choose.random() < 0.6 else BAD
        execution, holder = invocation.execution_id, Holder(token=token)
        if calm or choose.random() < 0.8:
            for time in range(choose.choice([1, 2])):
                later = after + time * choose.choice([0.0, 30.0])
                self.world.scheduler.after(later, lambda: self.report("target", execution, holder, answer))
        if choose.random() < 0.3:
            near = choose.choice([after / 2, *self.near_the_end(execution)])
            self.world.scheduler.after(near, lambda: self.show_progress("target", execution, holder))
        if choose.random() < 0.3:
            near = choose.choice(self.near_the_end(execution))
            self.world.scheduler.after(near, lambda: self.report("target", execution, holder, answer))
        if choose.random() < 0.2:
            other = Holder(token=choose.choice([*self.tokens, "guess"]))
            self.world.scheduler.after(1, lambda: self.report("target", execution, other, GOOD))

    def near_the_end(self, execution: str) -> list[float]:
        """Seconds from now to instants around the end of the attempt's lease and its deadline."""
        run = self.judge.attempts[execution].run
        edges = [run.lease_expires_at or 0, run.deadline_at or 0]
        now = self.world.scheduler.now
        return [edge - now + by for edge in edges for by in (-1.5, 0.5, 1.2, 2.5, 6.0, 20.0) if edge + by > now]

    # --- what owners say, of workers and targets alike ---

    def report(
        self,
        who: str,
        execution: str,
        holder: Holder,
        answer: TargetAnswer,
        *,
        dead: Callable[[], bool] = lambda: False,
        tries: int = 4,
    ) -> None:
        if dead():
            return
        began = self.world.scheduler.now
        self.judge.reporting(execution, holder, answer)
        asked = self.ask(
            f"{who} report",
            lambda services, _: end_execution(services, ADMIN, execution, holder, answer),
        )
        if asked.answer is None:
            if tries:
                again = lambda: self.report(who, execution, holder, answer, dead=dead, tries=tries - 1)  # noqa: E731
                self.world.scheduler.after(2, again)
            return
        refused = isinstance(asked.answer, GnomonError)
        self.judge.told(execution, holder, answer, began, skew=asked.actor.skew, refused=refused)

    def show_progress(self, who: str, execution: str, holder: Holder) -> None:
        began, progress = self.world.scheduler.now, Progress(percent=50)
        asked = self.ask(
            f"{who} progress",
            lambda services, _: report_progress(services, ADMIN, execution, holder, progress),
        )
        if asked.answer is not None:
            refused = isinstance(asked.answer, GnomonError)
            self.judge.heard(execution, holder, began, skew=asked.actor.skew, refused=refused)


def tell(seed: int, *, traced: bool = False) -> tuple[Violation | None, list[str]]:
    """Play the story of a seed: the promise it broke, if any, and what happened."""
    story = WorkStory(seed, traced=traced)
    return story.tell(), story.trace
