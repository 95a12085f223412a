"""Workflows on the running stack: made whole, run in order and once, cancelled, retried, watched."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gnomon.errors import GnomonApiError
from gnomon.workflow_client import WorkflowClient
from tests.e2e.processes import kill, processes_of
from tests.e2e.stack import Api, Aws, Stack, job_body, once, unique, until
from tests.e2e.target import Endpoint
from tests.workflow_examples import examples

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(240)]

PATH = "/v1/workflows"
NEVER = {"maxRetries": 0}
LATER = {"type": "once", "at": "2030-01-01T00:00:00Z"}
ENDED = ("COMPLETED", "FAILED", "CANCELLED")
CHILDREN = 1_000
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Stage:
    """What a workflow needs of the stack."""

    client: WorkflowClient
    endpoint: Endpoint

    def job(self, *after: str, answers: str = "200", **fields: Any) -> dict[str, Any]:
        edges = {"dependsOn": [{"job": one} for one in after]} if after else {}
        return {"target": self.endpoint.target(answers), "timeoutSeconds": 10, **edges, **fields}

    def diamond(self, **jobs: Any) -> dict[str, Any]:
        job = self.job
        return {
            "name": unique("diamond"),
            "jobs": {"a": job(), "b": job("a"), "c": job("a"), "d": job("b", "c"), **jobs},
        }

    def create(self, body: dict[str, Any]) -> str:
        return self.client.create_workflow(body)["id"]

    def ended(self, workflow_id: str, *, seconds: float = 40) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            seen: Any = self.client.get_workflow(workflow_id)
            return dict(seen) if seen["status"] in ENDED else None

        return until(look, seconds=seconds, every=0.5, hint=f"workflow {workflow_id} ends")

    def calls(self, seen: dict[str, Any]) -> dict[str, list[float]]:
        """When each job's target was called, by local name."""
        return {one["name"]: [call.at for call in self.endpoint.calls(one["jobId"])] for one in seen["jobs"]}


@pytest.fixture(scope="module")
def stage(stack: Stack, endpoint: Endpoint) -> Iterator[Stage]:
    with WorkflowClient(stack.api_url, stack.tokens["scheduler"]) as client:
        yield Stage(client, endpoint)


def statuses(seen: Any) -> dict[str, str]:
    return {one["name"]: one["status"] for one in seen["jobs"]}


def test_a_diamond_ends_exactly_once(stage: Stage) -> None:
    seen = stage.ended(stage.create(stage.diamond()))
    assert set(statuses(seen).values()) == {"COMPLETED"}
    called = stage.calls(seen)
    assert {name: len(at) for name, at in called.items()} == {"a": 1, "b": 1, "c": 1, "d": 1}
    assert called["a"] < min(called["b"], called["c"])
    assert called["d"] > max(called["b"], called["c"])
    assert seen["criticalPath"][0]["name"] == "a"
    assert seen["criticalPath"][-1]["name"] == "d"


def test_what_comes_after_a_failure_is_skipped_and_runs_by_the_retry_of_what_failed(stage: Stage) -> None:
    body = stage.diamond(b=stage.job("a", answers="500-200", retryConfig=NEVER))
    workflow_id = stage.create(body)
    seen = stage.ended(workflow_id)
    assert statuses(seen) == {"a": "COMPLETED", "b": "FAILED", "c": "COMPLETED", "d": "SKIPPED"}
    assert seen["jobs"][3]["lastRun"]["reason"] == "UPSTREAM_FAILED"
    assert stage.client.retry_workflow(workflow_id)["status"] == "RUNNING"
    seen = until(
        lambda: _completed(stage, workflow_id), seconds=30, every=0.5, hint="the retry and what comes after it"
    )
    assert {name: len(at) for name, at in stage.calls(seen).items()} == {"a": 1, "b": 2, "c": 1, "d": 1}
    with pytest.raises(GnomonApiError) as refused:
        stage.client.retry_workflow(workflow_id)
    assert refused.value.status == 409


def _completed(stage: Stage, workflow_id: str) -> dict[str, Any] | None:
    seen: Any = stage.client.get_workflow(workflow_id)
    return dict(seen) if seen["status"] == "COMPLETED" else None


def test_cancel_leaves_none_skipped(stage: Stage) -> None:
    body = stage.diamond(a=stage.job(answers="sleep"))
    workflow_id = stage.create(body)
    until(lambda: stage.calls(dict(stage.client.get_workflow(workflow_id)))["a"], seconds=20, hint="the first job runs")
    cancelled = stage.client.cancel_workflow(workflow_id)
    assert set(statuses(cancelled).values()) == {"CANCELLED"}
    assert stage.client.cancel_workflow(workflow_id)["status"] == "CANCELLED", "again is no error"
    time.sleep(5)
    seen: Any = stage.client.get_workflow(workflow_id)
    assert set(statuses(seen).values()) == {"CANCELLED"}
    assert [len(at) for at in stage.calls(seen).values()] == [1, 0, 0, 0]


def test_mermaid_and_list(stage: Stage) -> None:
    body = stage.diamond(a=stage.job(schedule=LATER, name='evil "]; click'))
    workflow_id = stage.create(body)
    text = stage.client.workflow_mermaid(workflow_id)
    assert text.startswith('graph TD\n  j0["evil #34;#93;#59; click<br/>a<br/>SCHEDULED"]:::scheduled\n')
    assert "  j1 --> j3\n" in text
    listed = next(stage.client.list_workflows())
    assert (listed["id"], listed["name"], listed["jobCount"]) == (workflow_id, body["name"], 4)
    stage.client.cancel_workflow(workflow_id)
    assert ":::cancelled" in stage.client.workflow_mermaid(workflow_id)


@pytest.mark.parametrize(("answers", "code", "last"), [("200", 0, "COMPLETED"), ("500", 1, "FAILED")])
def test_the_command_line_watches_it_to_its_end(stack: Stack, stage: Stage, answers: str, code: int, last: str) -> None:
    body = stage.diamond(b=stage.job("a", answers=answers, retryConfig=NEVER))
    workflow_id = stage.create(body)
    environment = {**os.environ, "GNOMON_API_URL": stack.api_url, "GNOMON_TOKEN": stack.tokens["scheduler"]}
    watched = subprocess.run(
        [sys.executable, "-m", "gnomon", "workflow", "watch", workflow_id, "--interval", "0.5"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert watched.returncode == code, watched.stderr
    lines = watched.stdout.splitlines()
    assert lines[-1] == f"{body['name']}: {last}"
    assert any(line.startswith(f"b  {last}") for line in lines)


def test_the_example_of_the_nightly_load(stage: Stage) -> None:
    """As it is written, except its targets, and that its first job is run by hand instead of at two."""
    body = examples()["nightly-load"]
    for job in body["jobs"].values():
        job["target"] = stage.endpoint.target()
    workflow_id = stage.create(body)
    first: Any = stage.client.get_workflow(workflow_id)
    ids = {one["name"]: one["jobId"] for one in first["jobs"]}
    assert first["status"] == "WAITING"
    stage.client.execute_job(ids["extract"])
    skipped = until(lambda: stage.client.get_job(ids["publish"])["lastRun"], seconds=30, hint="the last job is judged")
    assert (skipped["outcome"], skipped["reason"]) == ("SKIPPED", "CONDITION_FALSE"), "the endpoint answers no rows"
    seen: Any = stage.client.get_workflow(workflow_id)
    assert {name: len(at) for name, at in stage.calls(seen).items()} == {
        "extract": 1,
        "clean": 1,
        "enrich": 1,
        "publish": 0,
    }
    stage.client.cancel_workflow(workflow_id)


def test_the_example_of_the_release(stack: Stack, stage: Stage) -> None:
    body = examples()["release"]
    for name, job in body["jobs"].items():
        job["target"] = stage.endpoint.target("500" if name == "check" else "200")
    workflow_id = stage.create(body)
    at_gate = until(
        lambda: [one for one in _jobs(stage, workflow_id) if one["waitsFor"] == "approval"],
        seconds=30,
        hint="the run is at its gate",
    )
    path = f"/v1/jobs/{at_gate[0]['jobId']}/approve"
    with contextlib.closing(Api(stack)) as api:
        assert api.post(path, {}).status_code == 403, "its maker"
        assert api.post(path, {"comment": "go"}, role="admin").status_code == 200
    seen = stage.ended(workflow_id)
    assert statuses(seen) == {
        "build": "COMPLETED",
        "staging": "COMPLETED",
        "production": "COMPLETED",
        "check": "FAILED",
        "rollback": "COMPLETED",
    }


def _jobs(stage: Stage, workflow_id: str) -> list[dict[str, Any]]:
    seen: Any = stage.client.get_workflow(workflow_id)
    return list(seen["jobs"])


def test_the_example_of_the_month_end(stage: Stage) -> None:
    body = examples()["month-end"]
    for name, job in body["jobs"].items():
        job["target"] = stage.endpoint.target("500" if name == "south" else "200")
    seen = stage.ended(stage.create(body))
    assert statuses(seen) == {
        "split": "COMPLETED",
        "north": "COMPLETED",
        "south": "FAILED",
        "west": "COMPLETED",
        "merge": "COMPLETED",
        "page": "COMPLETED",
    }
    assert {len(at) for at in stage.calls(seen).values()} == {1}


def test_a_killed_function_leaves_nothing_and_the_same_key_finishes_it(stack: Stack, aws: Aws, stage: Stage) -> None:
    """Its processes die while edges are being put, long before the jobs are there."""
    fan = {"root": stage.job()} | {f"j{n}": stage.job("root") for n in range(60)}
    body = {"name": unique("killed"), "jobs": {**fan, "last": stage.job(*[f"j{n}" for n in range(37)])}}
    key = {"X-Idempotency-Key": unique("key")}
    before = _edges(stack, aws)
    pids = processes_of(stack.outputs["ApiFunction"], of=stack.place)
    with contextlib.closing(Api(stack)) as api, ThreadPoolExecutor(1) as thread:
        first = thread.submit(api.post, PATH, body, headers=key)
        until(lambda: _edges(stack, aws) >= before + 5, seconds=20, every=0.005, hint="edges are being put")
        kill(pids)
        assert first.result().status_code >= 500
        assert before + 5 <= _edges(stack, aws) < before + 97, "the kill was not in the middle"
        assert body["name"] not in [one["name"] for one in stage.client.list_workflows()]
        assert not [one for one in stage.client.list_jobs() if one["name"].startswith(body["name"])]
        again = api.post(PATH, body, headers=key)
        assert again.status_code == 201, again.text[:500]
        assert again.headers["Idempotency-Replayed"] == "true"
        assert _edges(stack, aws) == before + 97
        seen = stage.ended(again.json()["id"], seconds=90)
        assert {len(at) for at in stage.calls(seen).values()} == {1}
        assert api.post(PATH, body, headers=key).json()["id"] == again.json()["id"]


def _edges(stack: Stack, aws: Aws) -> int:
    pages = aws.dynamodb.get_paginator("scan").paginate(
        TableName=stack.outputs["CoordinationTable"],
        FilterExpression="begins_with(kind, :edges)",
        ExpressionAttributeValues={":edges": {"S": "dependents#"}},
        ConsistentRead=True,
        Select="COUNT",
    )
    return sum(int(page["Count"]) for page in pages)


@pytest.mark.timeout(540)
def test_a_parent_of_a_thousand_starts_each_once(stack: Stack, stage: Stage) -> None:
    parent = stage.client.create_job(job_body(name=unique("parent"), schedule=LATER, target=stage.endpoint.target()))
    mark = unique("child")
    children: list[str] = []
    with contextlib.closing(Api(stack)) as api:
        for start in range(0, CHILDREN, 100):
            items = [
                job_body(
                    name=f"{mark}-{n}",
                    schedule=None,
                    dependsOn=[{"jobId": parent["id"]}],
                    target=stage.endpoint.target(),
                    timeoutSeconds=30,
                )
                for n in range(start, start + 100)
            ]
            made = api.post("/v1/jobs/bulk", {"items": items}).json()["data"]
            assert {one["status"] for one in made} == {201}, made[0]
            children += [one["job"]["id"] for one in made]
    stage.client.update_job(parent["id"], {"schedule": once(1)})
    begun, left = time.time(), set(children)

    def done() -> bool:
        left.difference_update(stage.endpoint.callers())
        return not left

    until(done, seconds=420, every=1, hint="every child is started")
    print(f"{CHILDREN} children of one parent were started within {time.time() - begun:.0f} s")
    time.sleep(5)
    assert {len(stage.endpoint.calls(one)) for one in children} == {1}
