"""A story of a graph: which jobs depend on which, what their targets do, who interferes, what goes wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.factories import make_document
from tests.simulation.actors import Nature, Weather
from tests.simulation.plan import BASES, Action, Plan

LENGTH = 700
PATIENCE = 9_000
"""Seconds that a job waits for its parents: beyond all faults and their repair, within the story."""
PATIENCES = (PATIENCE, PATIENCE, PATIENCE + 1, PATIENCE + 700, 11_000)
CONDITIONS: dict[str, Callable[[int | None], bool]] = {
    "n > `1`": lambda n: n is not None and n > 1,
    "n == `0`": lambda n: n == 0,
    "n": lambda n: n is not None,
    "!missing": lambda _: True,
    "missing": lambda _: False,
    "abs(n) > `0`": lambda n: n is not None and n > 0,
}
"""JMESPath over a result {"n": 0…3} or null, and what is meant by it. Zero is true in JMESPath; an error is not."""


@dataclass(frozen=True)
class Edge:
    parent: int
    on: str = "success"
    when: str | None = None


@dataclass
class Node:
    """A job of the graph, and what its target does."""

    number: int
    edges: tuple[Edge, ...] = ()
    join: str = "all"
    policy: str = "skip"
    kind: str = "once"
    """once, recurring; never: it is paused for good."""
    fate: str = "succeeds"
    """succeeds, after some attempts that are retried · refused: fails for good at once · exhausted: fails always."""
    busy: int = 0
    """Attempts that fail before the one that succeeds."""
    result: int | None = None
    gate: str | None = None
    """What is decided of its runs: approve, reject; both at once, so that the first one counts; nobody decides: then
    onTimeout says approve or reject."""
    document: dict[str, Any] = field(default_factory=dict)
    created: float = 0.0


@dataclass
class GraphPlan(Plan):
    nodes: list[Node] = field(default_factory=list)
    exact: bool = True
    """Whether nobody interferes and everything runs once: then the plan alone tells how each job ends."""


def graph(seed: int) -> GraphPlan:
    """The story of a seed."""
    choose = random.Random(f"{seed}/graph")
    base = BASES["winter"]
    exact = choose.random() < 0.55
    faults = choose.choice([0, 0, 0.004, 0.015, 0.03, 0.06])
    nature = Nature(
        faults=faults,
        stalls=choose.choice([0, faults / 2, 0.01]),
        messages=choose.choice([0, 0.05, 0.3]),
        fails=0.0 if exact else choose.choice([0, 0.15, 0.4]),
        hangs=0.0,
        skewed=choose.random() < 0.8,
    )
    nodes = _nodes(choose, base, exact)
    actions = [
        Action(f"a{node.number} create", "create", node.number, node.created, None, node.document, node.kind != "never")
        for node in nodes
    ]
    if not exact:
        actions += _interference(choose, nodes, base)
    return GraphPlan(seed, base, base + LENGTH, nature, _weather(choose, base), actions, nodes, exact)


def _nodes(choose: random.Random, base: int, exact: bool) -> list[Node]:
    size = choose.choice([2, 3, 4, 4, 5, 6, 7, 8, 9, 10, 12, choose.choice([12, 60])])
    density = choose.choice([1.0, 1.5, 2.5, 5.0])
    wide = choose.random() < 0.3
    late = choose.choice([0.0, 0.0, 0.3])
    nodes = []
    for number in range(size):
        roots = choose.random() < (0.6 if number < 3 else 0.1)
        edges = () if number == 0 or roots else _edges(choose, number, density, wide)
        node = Node(number, edges, fate=choose.choice(["succeeds"] * 5 + ["refused", "exhausted"]))
        node.join = choose.choice(["all", "all", "any"])
        node.policy = choose.choice(["skip", "skip", "skip", "fail", "run"])
        node.busy = choose.choice([0, 0, 0, 1, 2])
        node.result = choose.choice([None, 0, 1, 2, 3])
        if not edges:
            node.kind = "never" if choose.random() < 0.04 else "once"
            if not exact and choose.random() < 0.35:
                node.kind = "recurring"
        if choose.random() < 0.15:
            node.gate = choose.choice(["approve", "approve", "reject", "nobody: approve", "nobody: reject"])
            node.gate = "both" if not exact and choose.random() < 0.3 else node.gate
        # Some are made long after those they depend on have finished.
        node.created = base + 1 + choose.random() * (5 if choose.random() >= late else LENGTH * 0.8)
        node.document = _document(choose, node, base, exact)
        nodes.append(node)
    return nodes


def _edges(choose: random.Random, number: int, density: float, wide: bool) -> tuple[Edge, ...]:
    most = min(number, max(1, round(choose.expovariate(1 / density))))
    window = number if wide else min(number, 6)
    parents = choose.sample(range(number - window, number), min(most, window))
    return tuple(
        Edge(
            parent,
            choose.choice(["success"] * 4 + ["failure", "completion"]),
            choose.choice([*CONDITIONS]) if choose.random() < 0.2 else None,
        )
        for parent in parents
    )


def _document(choose: random.Random, node: Node, base: int, exact: bool) -> dict[str, Any]:
    """All but the ids of its parents, which are not known yet."""
    schedule: dict[str, Any] | None = None
    changes: dict[str, Any] = {}
    if node.kind == "recurring":
        schedule = {"type": "interval", "everySeconds": choose.choice([20, 45, 90])}
        changes["maxRuns"] = choose.choice([1, 3, 6])
    elif not node.edges:
        at = max(node.created + 2, base + choose.choice([10, 10, choose.randrange(5, 200)]))
        schedule = {"type": "once", "at": datetime.fromtimestamp(int(at), UTC).isoformat()}
    elif choose.random() < 0.1:
        at = node.created + choose.choice([5, 60, 300])
        schedule = {"type": "once", "at": datetime.fromtimestamp(int(at), UTC).isoformat()}
    if node.edges:
        changes |= {
            "join": node.join,
            "onUpstreamFailure": node.policy,
            "upstreamTimeoutSeconds": PATIENCES[node.number % len(PATIENCES)],
        }
    if node.gate is not None:
        silent, _, then = node.gate.partition(": ")
        patience = choose.choice([60, 200]) if silent == "nobody" or choose.random() < 0.1 else 3_000
        if silent == "nobody" and not exact:
            patience = 15  # for each of many runs, one after the other
        changes["approval"] = {"role": "scheduler", "timeoutSeconds": patience, "onTimeout": then or "reject"}
        if patience < 3_000 and silent != "nobody":
            changes["approval"]["onTimeout"] = "approve" if node.gate == "approve" else "reject"
    # One that succeeds in the end may lose any number of attempts to faults.
    retries = {"refused": 30, "exhausted": 1, "succeeds": 90}[node.fate]
    return make_document(
        name=f"n{node.number}",
        schedule=schedule,
        timeoutSeconds=choose.choice([5, 20]),
        retryConfig={"maxRetries": retries, "initialDelaySeconds": 3, "backoffStrategy": "fixed", "jitter": 0.3},
        overlapPolicy=choose.choice(["skip", "skip", "allow", "queue"]) if node.kind == "recurring" else None,
        description=choose.choice([None, None, "x" * 900]),
        **changes,
    )


def _interference(choose: random.Random, nodes: list[Node], base: int) -> list[Action]:
    kinds = [
        "cancel",
        "cancel execution",
        "retry",
        "retry",
        "retry",
        "pause",
        "pause",
        "delete",
        "execute",
        "edges",
        "edges",
    ]
    found, number = [], 100
    for _ in range(choose.choice([1, 3, 6, 10, 20])):
        kind, job = choose.choice(kinds), choose.randrange(len(nodes))
        at: float | None = base + 3 + choose.random() * LENGTH * 0.9
        write = None
        if choose.random() < 0.3:
            at, write = None, choose.randrange(2, 12 * len(nodes))
        found.append(Action(f"a{number} {kind}", kind, job, at, write))
        if kind == "pause" and choose.random() < 0.9:
            later = (at or base + LENGTH * 0.5) + choose.choice([0.5, 3, 20, 200])
            found.append(Action(f"a{number + 1} resume", "resume", job, later))
        number += 2
    return found


def _weather(choose: random.Random, base: int) -> list[Weather]:
    found = []
    for number in range(choose.choice([0, 0, 0, 1, 2])):
        kind = choose.choice(["sqs", "consumers", "sweep", "flood", "lag", "dynamodb"])
        begins = base + choose.random() * LENGTH * 0.8
        lasts = choose.choice([5, 60, 200])
        found.append(Weather(f"weather{number} {kind}", kind, begins, min(begins + lasts, base + LENGTH)))
    return found
