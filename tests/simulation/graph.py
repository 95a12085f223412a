"""Stories of graphs: jobs that depend on others in a world of faults, before a judge of their own (graph_judge.py).

Targets do what the plan says, job by job. Where nobody interferes, the plan alone tells how every job ends.
"""

from __future__ import annotations

import random
from typing import Any

from functions.domain.caller import Caller, Role
from functions.domain.errors import ConflictError, NotFoundError, UnavailableError
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.idempotency import IdempotencyKey
from functions.domain.ids import run_id
from functions.domain.job import Job
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.run import Decision
from functions.usecases.approvals import GateDecision, decide_run
from functions.usecases.jobs import JobDraft, change_job, create_job
from functions.usecases.services import Executor, Services
from tests.driver import ADMIN
from tests.faults import Crash
from tests.simulation.actors import Actor, TroubleError
from tests.simulation.graph_judge import LATE, GraphJudge
from tests.simulation.graph_plan import PATIENCES, GraphPlan, Node, graph
from tests.simulation.plan import Action
from tests.simulation.ports import SimTargets
from tests.simulation.story import REQUESTS, Story, Told
from tests.simulation.world import World

SETTLE = 5_000
"""Seconds without faults: a look an hour brings what nothing else does."""
BUSY = TargetAnswer(
    status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_503", message="503 Service Unavailable")
)
REFUSED = TargetAnswer(
    status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_400", message="400 Bad Request"), retryable=False
)


APPROVER = Caller(id="eve", owner="root", roles=frozenset({Role.ADMIN}))
DECISIONS = {
    "approve": (Decision.APPROVED,),
    "reject": (Decision.REJECTED,),
    "both": (Decision.APPROVED, Decision.REJECTED),
}


class GraphWorld(World):
    plan: GraphPlan

    def executor(self, actor: Actor) -> Executor:
        ports = {name: getattr(super(GraphWorld, self).executor(actor), name) for name in Executor.__dataclass_fields__}
        return Executor(**{**ports, "targets": PlannedTargets(self)})


class PlannedTargets(SimTargets):
    """Each answers what its job's plan says."""

    world: GraphWorld

    def __init__(self, world: GraphWorld) -> None:
        super().__init__(world)
        self._graph = world

    def call(self, invocation: Invocation, target: dict[str, object]) -> TargetAnswer:
        world, actor = self._graph, self._graph.actor
        world.judge.called(invocation, actor)
        world.wait(0.05 + actor.choose.random() * 0.5)
        if world.meets("dies in the call", actor, world.nature.faults):
            raise Crash("in the call")
        job = world.jobs.stored(invocation.job_id).defined
        return self._planned(world.plan.nodes[int(job.name[1:])], invocation)

    def _planned(self, node: Node, invocation: Invocation) -> TargetAnswer:
        plan, attempt = self._graph.plan, invocation.attempt
        result, fate = node.result, node.fate
        if not plan.exact:
            # Another run, another fate: recurring jobs, and those that a caller lets run again.
            choose = random.Random(f"{plan.seed}/{node.number}/{invocation.slot_id}/{attempt}")
            fate = "exhausted" if choose.random() < plan.nature.fails else fate if attempt == 1 else "succeeds"
            result = choose.choice([result, 0, 1, 2, 3])
        if fate == "refused":
            return REFUSED
        if fate == "exhausted" or attempt <= node.busy:
            return BUSY
        wide = ',"pad":"' + "x" * 150 + '"' if node.number % 3 == 0 else ""
        text = "null" if result is None else f'{{"n":{result}{wide}}}'
        return TargetAnswer(status=ExecutionStatus.COMPLETED, result=text)


class GraphStory(Story):
    settle = SETTLE
    world_of = GraphWorld
    plan: GraphPlan
    judge: GraphJudge

    def __init__(self, plan: GraphPlan, *, only: frozenset[str] | None = None, traced: bool = False) -> None:
        super().__init__(plan, judge=GraphJudge(plan), only=only, traced=traced)
        self.world.plan = plan
        self.judge.at_gate = self._at_gate
        self._early: list[Action] = []
        """Jobs that wait for others to be created."""
        if any(node.kind == "never" for node in plan.nodes):
            self.settle = max(PATIENCES) + SETTLE

    def tell(self) -> Told:
        self.world.scheduler.at(self.plan.ends + LATE, self.judge.in_time)
        return super().tell()

    def make(self, services: Services, action: Action, _: str) -> Job | None:
        """Create a job, once those that it depends on are there."""
        node = self.plan.nodes[action.job]
        if any(edge.parent not in self.ids for edge in node.edges):
            self._early.append(action)
            return None
        document = dict(node.document)
        if node.edges:
            document["dependsOn"] = [self._edge(edge) for edge in node.edges]
        draft = JobDraft(document=document, payload="{}", enabled=action.enabled)
        key = IdempotencyKey("root POST /v1/jobs", f"key{action.job}", "hash")
        try:
            return create_job(services, ADMIN, draft, key=key).job
        except UnavailableError as error:
            raise TroubleError from error  # the caller repeats it

    def _created(self, action: Action, job: Job) -> None:
        super()._created(action, job)
        early, self._early = self._early, []
        for one in early:
            self.world.scheduler.after(0.1, lambda one=one: self.request(one))

    def rewire(self, services: Services, action: Action, job_id: str) -> None:
        """Let a job depend on others than before: on any, also on those that depend on it."""
        choose = self.world.draw(f"edges {action.id}")
        others = sorted(other for number, other in self.ids.items() if number != action.job)

        def change(row: Job) -> JobDraft:
            document = dict(row.defined.document)
            kept = list(document.get("dependsOn", ()))
            if not kept or not others:
                raise ConflictError("It runs by its own schedule.")
            kept = choose.sample(kept, choose.randrange(len(kept) + 1))
            added = choose.sample(others, min(len(others), choose.choice([1, 1, 2])))
            known = {edge["jobId"] for edge in kept}
            document["dependsOn"] = kept + [{"jobId": one, "on": "completion"} for one in added if one not in known]
            return JobDraft(document=document, payload="{}")

        change_job(services, ADMIN, job_id, change=change)

    def _edge(self, edge: Any) -> dict[str, Any]:
        found = {"jobId": self.ids[edge.parent], "on": edge.on}
        return found | ({} if edge.when is None else {"when": edge.when})

    # --- gates ---

    def _at_gate(self, job_id: str, slot: str) -> None:
        """A run waits for approval: somebody decides, or two do, or nobody."""
        row = self.world.jobs.stored(job_id)
        gate = self.plan.nodes[int(row.defined.name[1:])].gate
        choose = self.world.draw(f"gate {self.world.label(job_id)} {slot}")
        after = choose.choice([0.3, 2.0, 20.0])
        for number, decision in enumerate(DECISIONS.get(gate or "", ())):
            name = f"gate {self.world.label(job_id)} {slot} {number}"
            self.world.scheduler.after(
                after, lambda name=name, decision=decision: self._decide(name, job_id, slot, decision)
            )

    def _decide(self, name: str, job_id: str, slot: str, decision: Decision) -> None:
        actor = self.world.actor_of(name, "caller", job=self.world.label(job_id), action=decision.value)

        def ask() -> None:
            verdict = GateDecision(decision=decision, run=run_id(job_id, slot))
            try:
                decide_run(self.world.services(actor), APPROVER, job_id, verdict)
            except (ConflictError, NotFoundError) as error:
                self.world.note(f"{actor.key}: {error}")

        if not self.world.run(actor, ask):
            self.world.scheduler.after(1.0, lambda: self._decide(name + "r", job_id, slot, decision))


GraphStory.requests = {**REQUESTS, "create": GraphStory.make, "edges": GraphStory.rewire}


def tell(seed: int, *, only: frozenset[str] | None = None, traced: bool = False) -> Told:
    """Play the graph story of a seed."""
    return GraphStory(graph(seed), only=only, traced=traced).tell()
