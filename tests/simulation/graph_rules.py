"""How the jobs of a graph end when nobody interferes: a plain model of docs/workflows.md, of the plan alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulation.graph_plan import CONDITIONS, Edge, Node

OUTCOME_OF = {"succeeds": "COMPLETED", "refused": "PERMANENTLY_FAILED", "exhausted": "PERMANENTLY_FAILED"}
MEETS = {
    "success": ("COMPLETED",),
    "failure": ("PERMANENTLY_FAILED",),
    "completion": ("COMPLETED", "PERMANENTLY_FAILED"),
}
REASON = {
    "COMPLETED": "UPSTREAM_SUCCEEDED",
    "PERMANENTLY_FAILED": "UPSTREAM_FAILED",
    "CANCELLED": "UPSTREAM_CANCELLED",
    "SKIPPED": "UPSTREAM_SKIPPED",
}
REFUSALS = {"reject": "REJECTED", "nobody: reject": "APPROVAL_TIMEOUT"}


@dataclass(frozen=True)
class End:
    """How a run ended; the reason of one that was never attempted."""

    outcome: str
    reason: str | None = None
    n: int | None = None
    """In its result."""


def why_not(on: str, when: str | None, end: End) -> str | None:
    """Why the end does not meet the dependency; None where it does."""
    if end.outcome not in MEETS[on]:
        return REASON[end.outcome]
    return None if when is None or CONDITIONS[when](end.n) else "CONDITION_FALSE"


def verdict(policy: str, reason: str) -> End | None:
    """How a run ends whose dependencies are not met; None where it runs all the same."""
    return {"skip": End("SKIPPED", reason), "fail": End("PERMANENTLY_FAILED", reason), "run": None}[policy]


def foretold(nodes: Sequence[Node]) -> list[End | None]:
    """The one end of each job, in their order; None for one that never ends."""
    ends: list[End | None] = []
    for node in nodes:
        ends.append(None if node.kind == "never" else _end_of(node, [(edge, ends[edge.parent]) for edge in node.edges]))
    return ends


def _end_of(node: Node, parents: Sequence[tuple[Edge, End | None]]) -> End:
    reason = _unmet(node.join if len(parents) > 1 else "all", parents)
    judged = None if reason is None else verdict(node.policy, reason)
    if judged is not None:
        return judged
    if node.gate in REFUSALS:
        return End("CANCELLED", REFUSALS[node.gate])
    outcome = OUTCOME_OF[node.fate]
    return End(outcome, n=node.result if outcome == "COMPLETED" else None)


def _unmet(join: str, parents: Sequence[tuple[Edge, End | None]]) -> str | None:
    reasons = ["UPSTREAM_TIMEOUT" if end is None else why_not(edge.on, edge.when, end) for edge, end in parents]
    if not parents or (join == "any" and None in reasons):
        return None
    if any(end is None for _, end in parents):
        return "UPSTREAM_TIMEOUT"
    return next((reason for reason in reasons if reason is not None), None)
