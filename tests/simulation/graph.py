"""Stories of graphs: jobs that depend on others in a world of faults, before a judge of their own (graph_judge.py).

Targets do what the plan says, job by job. Where nobody interferes, the plan alone tells how every job ends.
"""

from __future__ import annotations

import random
from typing import Any

from functions.domain.errors import UnavailableError
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.job import Job
from functions.domain.outcome import Invocation, TargetAnswer
from functions.usecases.executor import Executor
from functions.usecases.jobs import IdempotencyKey, JobDraft, create_job
from functions.usecases.services import Services
from tests.driver import ADMIN
from tests.faults import Crash
from tests.simulation.actors import Actor, TroubleError
from tests.simulation.graph_judge import GraphJudge
from tests.simulation.graph_plan import PATIENCE, GraphPlan, Node, graph
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

    def __init__(self, plan: GraphPlan, *, only: frozenset[str] | None = None, traced: bool = False) -> None:
        super().__init__(plan, judge=GraphJudge(plan), only=only, traced=traced)
        self.world.plan = plan
        if any(node.kind == "never" for node in plan.nodes):
            self.settle = PATIENCE + SETTLE

    def make(self, services: Services, action: Action, _: str) -> Job | None:
        """Create a job, once those that it depends on are there."""
        node = self.plan.nodes[action.job]
        if any(edge.parent not in self.ids for edge in node.edges):
            asked = self.only is None or all(f"a{edge.parent} create" in self.only for edge in node.edges)
            if asked:
                self.world.scheduler.after(0.7, lambda: self.request(action))
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

    def _edge(self, edge: Any) -> dict[str, Any]:
        found = {"jobId": self.ids[edge.parent], "on": edge.on}
        return found | ({} if edge.when is None else {"when": edge.when})


GraphStory.requests = {**REQUESTS, "create": GraphStory.make}


def tell(seed: int, *, only: frozenset[str] | None = None, traced: bool = False) -> Told:
    """Play the graph story of a seed."""
    return GraphStory(graph(seed), only=only, traced=traced).tell()
