"""Jobs that depend on others, by the API: one request a job."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from gnomon.errors import GnomonApiError
from tests.e2e.stack import job_body, once, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from gnomon.client import Client
    from tests.e2e.target import Endpoint

pytestmark = pytest.mark.e2e

PATIENCE = 40
AT_ONCE = {"maxRetries": 0}


def after(*parents: dict[str, Any], **words: Any) -> dict[str, Any]:
    """The words of a job that depends on these; `words` are those of each dependency."""
    return {"schedule": None, "dependsOn": [{"jobId": one["id"], **words} for one in parents]}


def ended(client: Client, job: dict[str, Any], status: str) -> dict[str, Any]:
    """The job's only execution, once the job has this status."""
    until(lambda: client.get_job(job["id"])["status"] == status, seconds=PATIENCE, hint=f"{job['id']} to be {status}")
    (execution,) = client.history(job["id"])
    return dict(execution)


@pytest.mark.on_time
def test_a_diamond_ends_once(scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]) -> None:
    top = create(schedule=once(3), target=endpoint.target())
    left, right = (create(**after(top), target=endpoint.target()) for _ in range(2))
    bottom = create(**after(left, right), target=endpoint.target())
    assert bottom["status"] == "BLOCKED"
    ended(scheduler, bottom, "COMPLETED")
    calls = [endpoint.calls(one["id"]) for one in (top, left, right, bottom)]
    assert [len(each) for each in calls] == [1, 1, 1, 1]
    first, *middle, last = (each[0].at for each in calls)
    assert first < min(middle)
    assert max(middle) < last
    assert last - first < 15
    assert scheduler.get_job(bottom["id"])["upstream"]["nextLookAt"] is None


def test_a_condition_that_is_false_skips(scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]) -> None:
    parent = create(schedule=once(2), target=endpoint.target())
    runs = create(**after(parent, when="answered"), target=endpoint.target())
    skips = create(**after(parent, when="!answered"), target=endpoint.target())
    ended(scheduler, runs, "COMPLETED")
    execution = ended(scheduler, skips, "SKIPPED")
    assert (execution["status"], execution["reason"], execution["startedAt"]) == ("SKIPPED", "CONDITION_FALSE", None)
    assert scheduler.get_job(skips["id"])["lastRun"]["reason"] == "CONDITION_FALSE"
    assert endpoint.calls(skips["id"]) == []


def test_what_becomes_of_a_failing_jobs_dependents(
    scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]
) -> None:
    parent = create(schedule=once(3), target=endpoint.target("500"), retryConfig=AT_ONCE)
    made = {
        policy: create(**after(parent), onUpstreamFailure=policy, target=endpoint.target())
        for policy in ("skip", "fail", "run")
    }
    below = create(**after(made["skip"]), target=endpoint.target())
    cleanup = create(**after(parent, on="failure"), target=endpoint.target())
    skipped, failed = ended(scheduler, made["skip"], "SKIPPED"), ended(scheduler, made["fail"], "FAILED")
    assert (skipped["status"], skipped["reason"]) == ("SKIPPED", "UPSTREAM_FAILED")
    assert (failed["status"], failed["reason"], failed["final"]) == ("FAILED", "UPSTREAM_FAILED", True)
    assert ended(scheduler, made["run"], "COMPLETED")["status"] == "COMPLETED"
    assert ended(scheduler, below, "SKIPPED")["reason"] == "UPSTREAM_SKIPPED"
    assert ended(scheduler, cleanup, "COMPLETED")["status"] == "COMPLETED"
    calls = {policy: len(endpoint.calls(job["id"])) for policy, job in made.items()}
    assert calls == {"skip": 0, "fail": 0, "run": 1}


def test_a_forced_retry_of_the_parent_runs_its_child_after_all(
    scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]
) -> None:
    parent = create(schedule=once(2), target=endpoint.target("500-200"), retryConfig=AT_ONCE)
    child = create(**after(parent), target=endpoint.target())
    ended(scheduler, child, "SKIPPED")
    scheduler.retry_job(parent["id"])
    until(lambda: scheduler.get_job(child["id"])["status"] == "COMPLETED", seconds=PATIENCE)
    assert [one["status"] for one in scheduler.history(child["id"])] == ["COMPLETED", "SKIPPED"]


def test_a_cycle_is_refused_and_changes_nothing(scheduler: Client, create: Callable[..., Any]) -> None:
    top = create(name="top", schedule=once(3_600))
    middle = create(name="middle", **after(top))
    bottom = create(name="bottom", **after(middle))
    before = scheduler.get_job(top["id"])
    with pytest.raises(GnomonApiError) as refused:
        scheduler.update_job(top["id"], after(bottom))
    assert refused.value.status == 400
    names = [f"{name} ({job['id']})" for name, job in (("top", top), ("bottom", bottom), ("middle", middle))]
    assert " → ".join([*names, names[0]]) in str(refused.value.details)
    assert scheduler.get_job(top["id"]) == before
    other = create(schedule=once(3_600))
    assert scheduler.update_job(other["id"], after(bottom))["status"] == "BLOCKED"
    assert scheduler.cancel_job(bottom["id"])["status"] == "CANCELLED"
    execution = ended(scheduler, other, "SKIPPED")
    assert execution["reason"] == "UPSTREAM_CANCELLED"


@pytest.mark.on_time
def test_a_parent_that_is_over_counts_at_once(
    scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]
) -> None:
    parent = create(schedule=once(1), target=endpoint.target())
    until(lambda: scheduler.get_job(parent["id"])["status"] == "COMPLETED", seconds=PATIENCE)
    begun = time.time()
    child = create(**after(parent), target=endpoint.target())
    ended(scheduler, child, "COMPLETED")
    assert endpoint.calls(child["id"])[0].at - begun < 10


def test_a_child_runs_once_for_each_run_of_a_recurring_job(
    scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]
) -> None:
    every = {"type": "interval", "everySeconds": 2}
    parent = create(schedule=every, target=endpoint.target(), maxRuns=4, enabled=False)
    child = create(**after(parent), target=endpoint.target())
    scheduler.resume_job(parent["id"])
    until(lambda: scheduler.get_job(child["id"])["status"] == "COMPLETED", seconds=60)
    assert len(endpoint.calls(parent["id"])) == len(endpoint.calls(child["id"])) == 4
    runs = [one["runId"] for one in scheduler.history(child["id"])]
    assert len(set(runs)) == 4
    assert {one["status"] for one in scheduler.history(child["id"])} == {"COMPLETED"}


def test_whom_a_job_may_not_depend_on(scheduler: Client, admin: Client, create: Callable[..., Any]) -> None:
    foreign = admin.create_job(job_body(schedule=once(3_600)))
    try:
        for parent in (foreign, {"id": "7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f"}):
            with pytest.raises(GnomonApiError) as refused:
                create(**after(parent))
            assert refused.value.status == 400
            assert f"There is no job {parent['id']}." in str(refused.value.details)
    finally:
        admin.delete_job(foreign["id"])
