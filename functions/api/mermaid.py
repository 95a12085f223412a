"""A workflow as a Mermaid flowchart (mermaid.js.org, syntax of flowcharts)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.domain.dependence import On
from functions.domain.job import JobStatus
from functions.domain.workflow import DELETED, edges_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.domain.workflow import Edge, Member

_COLOURS = {
    JobStatus.SCHEDULED: "#dbeafe",
    JobStatus.BLOCKED: "#fef3c7",
    JobStatus.RUNNING: "#a5f3fc",
    JobStatus.RETRYING: "#fed7aa",
    JobStatus.PAUSED: "#fde68a",
    JobStatus.COMPLETED: "#bbf7d0",
    JobStatus.FAILED: "#fecaca",
    JobStatus.CANCELLED: "#e5e7eb",
    JobStatus.SKIPPED: "#f3f4f6",
    DELETED: "#ffffff",
}
_PLAIN = frozenset(" ._-/:")


def mermaid_text(members: Sequence[Member]) -> str:
    """A node for each job, with its state as the class; jobs outside the workflow are rounded."""
    nodes = {member.job_id: f"j{index}" for index, member in enumerate(members)}
    lines = ["graph TD"]
    for member in members:
        title = member.name if member.definition is None else member.definition.name
        label = f"{_escaped(member.name)}<br/>{member.status}"
        if title.rsplit("/", 1)[-1] != member.name:
            label = f"{_escaped(title)}<br/>{label}"
        lines.append(f'  {nodes[member.job_id]}["{label}"]:::{member.status.lower()}')
    edges = edges_of(members)
    for edge in edges:
        if edge.parent_id not in nodes:
            nodes[edge.parent_id] = f"x{len(nodes)}"
            lines.append(f'  {nodes[edge.parent_id]}(["{edge.parent_id}"])')
    lines += [f"  {nodes[edge.parent_id]} {_arrow(edge)} {nodes[_id(edge, members)]}" for edge in edges]
    statuses = sorted({member.status for member in members})
    lines += [
        f"  classDef {status.lower()} fill:{_COLOURS[status]},stroke:#374151,color:#111827" for status in statuses
    ]
    return "\n".join(lines) + "\n"


def _id(edge: Edge, members: Sequence[Member]) -> str:
    return next(member.job_id for member in members if member.name == edge.child)


def _arrow(edge: Edge) -> str:
    words = [] if edge.dependency.on is On.SUCCESS else [edge.dependency.on.value]
    if edge.dependency.when is not None:
        words.append(f"when {_escaped(edge.dependency.when)}")
    return f'-->|"{" ".join(words)}"|' if words else "-->"


def _escaped(text: str) -> str:
    """Names and expressions are free text: what is no letter or digit becomes an entity, which ends no label."""
    return "".join(char if char.isalnum() or char in _PLAIN else f"#{ord(char)};" for char in text)
