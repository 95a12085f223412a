"""A due run that does not start says what it waits for: in its job, lists, history, and on the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from gnomon.client import Client
from gnomon.local.places import ROOT
from tests.e2e.stack import Stack, instant, once, unique, until
from tests.e2e.target import Endpoint

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


def waiting(client: Client, job_id: str, kind: str) -> dict[str, Any]:
    """What the job waits for, once it waits for something of this kind; all answers say the same."""

    def said() -> dict[str, Any] | None:
        found: Any = client.get_job(job_id)["waitingFor"]
        return found if found and found["kind"] == kind else None

    found = until(said, seconds=40, hint=f"{job_id} waits for {kind}")
    listed = next(job for job in client.list_jobs(page_size=100) if job["id"] == job_id)
    assert listed["waitingFor"] == found
    return found


def test_each_kind_is_named_with_its_since(
    stack: Stack, scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    queue, key = unique("queue"), unique("key")
    limit = {"concurrencyKey": key, "maxConcurrency": 1}
    slow = create(schedule=once(0), target=endpoint.target("hang"), timeoutSeconds=25, **limit)
    until(lambda: scheduler.get_job(slow["id"])["status"] == "RUNNING", seconds=20)
    due = once(2)
    for_worker = create(schedule=due, target={"type": "worker", "queue": queue})
    for_permit = create(schedule=due, **limit)
    for_approval = create(schedule=due, approval={"role": "release-managers", "timeoutSeconds": 600})
    parent = create()
    for_parent = create(schedule=None, dependsOn=[{"jobId": parent["id"]}])

    for job, kind, name in (
        (for_worker, "worker", queue),
        (for_permit, "concurrency", key),
        (for_approval, "approval", "release-managers"),
        (for_parent, "dependencies", parent["id"]),
    ):
        found = waiting(scheduler, job["id"], kind)
        assert found["name"] == name
        assert instant(found["since"]) >= instant(job["createdAt"])
        if kind != "dependencies":
            assert next(iter(scheduler.history(job["id"])))["waitingFor"] == found
            assert scheduler.get_job(job["id"])["activeRuns"][0]["waitingFor"] == found
    shown = subprocess.run(
        [sys.executable, "-m", "gnomon", "jobs", "get", for_worker["id"]],
        cwd=ROOT,
        env=os.environ | {"GNOMON_STACK": str(stack.place.stack_file), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"worker {queue} since " in shown
    until(lambda: scheduler.get_job(for_permit["id"])["status"] == "COMPLETED", seconds=60)
    assert scheduler.get_job(for_permit["id"])["waitingFor"] is None
