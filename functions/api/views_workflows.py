"""Workflows in the contract's JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functions.api.body import compact
from functions.api.views import last_run_view, waiting_view
from functions.domain.instants import rfc3339
from functions.domain.waiting import job_waits
from functions.domain.workflow import edges_of
from functions.domain.workflow_status import blockers_of, critical_path, status_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from functions.domain.workflow import Edge, Member
    from functions.graph_ports import Workflow
    from functions.ports import Page
    from functions.usecases.workflow_reading import Seen


def workflow_text(seen: Seen, now: float) -> str:
    """The workflow as it stands, without the jobs' definitions."""
    names = {member.job_id: member.name for member in seen.members}
    view = _head(seen.workflow) | {
        "status": status_of(seen.members, seen.rows, now=now).value,
        "jobs": [_member(member, seen, names) for member in seen.members],
        "edges": [_edge(edge) for edge in edges_of(seen.members)],
        "criticalPath": [
            {"name": span.name, "jobId": span.job_id, "seconds": span.seconds}
            for span in critical_path(seen.members, now=now)
        ],
    }
    return compact(view)


def workflows_text(page: Page[Workflow]) -> str:
    data = [_head(workflow) | {"jobCount": len(workflow.jobs)} for workflow in page.items]
    return compact({"data": data, "pagination": {} if page.cursor is None else {"cursor": page.cursor}})


def _head(workflow: Workflow) -> dict[str, Any]:
    return {
        "id": workflow.id,
        "name": workflow.name,
        "owner": workflow.owner,
        "createdBy": workflow.created_by,
        "createdAt": rfc3339(workflow.created_at),
    }


def _member(member: Member, seen: Seen, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": member.name,
        "jobId": member.job_id,
        "status": member.status,
        "waitsFor": None if member.waits_for is None else member.waits_for.value,
        "waitingFor": None if member.job is None else waiting_view(job_waits(member.job)),
        "blockedBy": [
            {"name": one.name, "jobId": one.job_id, "status": one.status}
            for one in blockers_of(member, seen.rows, names)
        ],
        "nextRunAt": None if member.job is None or member.job.next_due is None else rfc3339(member.job.next_due),
        "readyAt": _instant(member.ready_at),
        "startedAt": _instant(member.started_at),
        "endedAt": _instant(member.ended_at),
        "lastRun": None if member.job is None else last_run_view(member.job),
    }


def _edge(edge: Edge) -> dict[str, Any]:
    return {
        "from": edge.parent,
        "fromId": edge.parent_id,
        "to": edge.child,
        "on": edge.dependency.on.value,
        "when": edge.dependency.when,
    }


def _instant(instant: float | None) -> str | None:
    return None if instant is None else rfc3339(instant)
