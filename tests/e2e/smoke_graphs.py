"""Checks of what jobs that depend on others need: their parents' rows, edges, and workflows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.e2e.stack import once, unique

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.smoke import Smoke

SOON = 15.0
"""Seconds that both runs take at most, cold starts of two processes included."""


def _after(*paths: str) -> list[dict[str, Any]]:
    return [{"jobId": path.rpartition("/")[2]} for path in paths]


def runs_what_waited(smoke: Smoke) -> None:
    parent = smoke.create(schedule=once(0))
    child = smoke.create(schedule=None, dependsOn=_after(parent))
    ends = time.monotonic() + SOON
    while (found := smoke.get(child)["status"]) != "COMPLETED":
        assert time.monotonic() < ends, f"{found}, not COMPLETED, {SOON:.0f} s after its parent was due"
        time.sleep(0.2)


def moves_an_edge(smoke: Smoke) -> None:
    """The change is written together with the version of the owner's graph; the edge that is gone is forgotten."""
    first, second = smoke.create(), smoke.create()
    child = smoke.create(schedule=None, dependsOn=_after(first))
    answer = smoke.api.call("PATCH", child, {"dependsOn": _after(second)}, role="admin")
    assert answer.status_code == 200, f"PATCH: {answer.status_code}"
    answer = smoke.api.call("PATCH", second, {"schedule": None, "dependsOn": _after(child)}, role="admin")
    assert answer.status_code == 400, f"a cycle: {answer.status_code}"
    assert not _edges(smoke, first), "the edge of a job that depends on another now is still there"
    assert _edges(smoke, second) == [child.rpartition("/")[2]]


def _edges(smoke: Smoke, path: str) -> list[str]:
    items = smoke.aws.dynamodb.query(
        TableName=smoke.stack.outputs["CoordinationTable"],
        KeyConditionExpression="#kind = :kind",
        ExpressionAttributeNames={"#kind": "kind"},
        ExpressionAttributeValues={":kind": {"S": f"dependents#{path.rpartition('/')[2]}"}},
    )["Items"]
    return [item["name"]["S"] for item in items]


def lists_workflows(smoke: Smoke) -> None:
    step = {"target": {"type": "handler", "name": "echo"}, "timeoutSeconds": 5}
    jobs = {"first": step, "then": step | {"dependsOn": [{"job": "first"}]}}
    answer = smoke.api.post("/v1/workflows", {"name": unique("flow"), "jobs": jobs}, role="admin")
    assert answer.status_code == 201, f"create a workflow: {answer.status_code}"
    path = answer.headers["Location"]
    members = answer.json()["jobs"]
    smoke.made += [f"/v1/jobs/{member['jobId']}" for member in members]
    listed = [workflow["id"] for workflow in smoke.get("/v1/workflows?limit=100")["data"]]
    assert path.rpartition("/")[2] in listed, "a workflow that was created is not listed"


GRAPH_CHECKS: dict[str, dict[str, Callable[[Smoke], None]]] = {
    "api": {"ReadListedWorkflows": lists_workflows},
    "executor": {"ReadParents": runs_what_waited},
}
"""The check that a grant's removal must fail, by function and name in infra.grants."""
