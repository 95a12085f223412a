"""Workflows as a person reads them: a tree with the state of each job, and the chain that has taken the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from gnomon.display import WIDE, one_line, short_ids, status, waiting_words
from gnomon.moments import away, moment, parse
from gnomon.safe_text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from gnomon.workflow_shapes import Workflow, WorkflowMember, WorkflowSummary

ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
"""States of a workflow of which nothing follows by itself."""
_OUTSIDE = "a job outside"


def workflows_table(workflows: Sequence[WorkflowSummary], now: datetime, *, width: int = WIDE) -> Table:
    """A row for each workflow, on one line."""
    table = Table("ID", "NAME", "JOBS", "CREATED", box=None, pad_edge=False)
    one_line(table, cut={"NAME"})
    table.columns[2].justify = "right"
    is_wide = width >= WIDE
    ids = {} if is_wide else short_ids(workflow["id"] for workflow in workflows)
    when = moment if is_wide else away
    for workflow in workflows:
        table.add_row(
            printable(ids.get(workflow["id"], workflow["id"])),
            Text(printable(workflow.get("name", ""))),
            str(workflow.get("jobCount", "")),
            when(workflow.get("createdAt"), now),
        )
    return table


def workflow_picture(workflow: Workflow, now: datetime) -> Group:
    """A tree: each job stands once, below the one of its parents that is farthest from the start."""
    members = {member["name"]: member for member in workflow.get("jobs", [])}
    parents = _parents(workflow)
    depths = _depths(parents)
    tree = Tree(Text.assemble((printable(workflow.get("name", "")), "bold"), "  ", status(workflow.get("status", ""))))
    branches: dict[str, Tree] = {}
    for name in sorted(members, key=lambda one: depths[one]):
        above = max(parents[name], key=lambda one: depths[one], default=None)
        branch = tree if above is None else branches.get(above, tree)
        others = [one for one in parents[name] if one != above]
        branches[name] = branch.add(_label(members[name], others, now))
    path = " → ".join(f"{span['name']} {span['seconds']} s" for span in workflow.get("criticalPath", []))
    return Group(tree, Text(printable(f"critical path: {path}" if path else ""), style="dim"))


def member_line(member: WorkflowMember, now: datetime) -> str:
    """One job as a plain line, for logs and pipes."""
    return _label(member, [], now).plain


def _parents(workflow: Workflow) -> dict[str, list[str]]:
    parents: dict[str, list[str]] = {member["name"]: [] for member in workflow.get("jobs", [])}
    for edge in workflow.get("edges", []):
        above = edge["from"]
        if above is not None and above in parents:
            parents[edge["to"]].append(above)
    return parents


def _depths(parents: Mapping[str, list[str]]) -> dict[str, int]:
    """The length of the longest way from a start to each; rows read one after another may show a cycle that was none,
    so no way is longer than all jobs."""
    depths = dict.fromkeys(parents, 0)
    for _ in parents:
        deeper = {name: max((depths[one] + 1 for one in above), default=0) for name, above in parents.items()}
        if deeper == depths:
            break
        depths = deeper
    return depths


def _label(member: WorkflowMember, others: list[str], now: datetime) -> Text:
    parts = [Text(printable(member["name"])), status(member.get("status", "")), Text(_waits(member, now), style="dim")]
    if others:
        parts.append(Text(printable(f"also after {', '.join(others)}"), style="dim"))
    return Text("  ").join(part for part in parts if part.plain)


def _waits(member: WorkflowMember, now: datetime) -> str:
    """What it waits for, else how long its run has taken."""
    match member.get("waitsFor"):
        case "jobs":
            names = [blocker["name"] or f"{_OUTSIDE} ({blocker['jobId']})" for blocker in member.get("blockedBy", [])]
            return printable(f"waits for {', '.join(names)}") if names else "is looked at"
        case "approval":
            return "waits for an approval"
        case "turn":
            return f"waits for {waiting_words(member.get('waitingFor'), now)}"
        case "resume":
            return "is paused"
        case "time":
            return f"starts {moment(member.get('nextRunAt'), now)}" if member.get("nextRunAt") else "starts"
        case _:
            return _took(member, now)


def _took(member: WorkflowMember, now: datetime) -> str:
    last = member.get("lastRun")
    if member.get("endedAt") and last and last.get("reason"):
        return printable(last["reason"])
    ready, ended = parse(member.get("readyAt")), parse(member.get("endedAt"))
    if ready is None:
        return ""
    return f"{max(0, round(((ended or now) - ready).total_seconds()))} s"
