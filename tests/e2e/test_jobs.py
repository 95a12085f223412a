"""Jobs from their creation to their end, by the API."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.stack import instant, job_body, once, problem, rfc3339, unique, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from gnomon.client import Client
    from tests.e2e.stack import Api
    from tests.e2e.target import Endpoint

pytestmark = pytest.mark.e2e


def every(seconds: int) -> dict[str, Any]:
    return {"type": "interval", "everySeconds": seconds}


def test_interval_runs_at_its_slots(scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]) -> None:
    job = create(schedule=every(2), target=endpoint.target(), maxRuns=3)
    until(lambda: scheduler.get_job(job["id"])["status"] == "COMPLETED", seconds=40)
    executions = list(scheduler.history(job["id"]))
    created = int(instant(job["createdAt"]))
    assert [instant(each["scheduledFor"]) for each in executions] == [created + 6, created + 4, created + 2]
    assert len(endpoint.calls(job["id"])) == 3
    assert scheduler.get_job(job["id"])["nextRunAt"] is None


def test_cron_of_a_zone(scheduler: Client, create: Callable[..., Any]) -> None:
    expression, zone = "30 9 * * MON-FRI", "Europe/Berlin"
    job = create(schedule={"type": "cron", "expression": expression, "timezone": zone})
    preview = scheduler.preview(expression, timezone=zone, count=3)
    assert job["nextRunAt"] == preview["slots"][0]
    assert all("T09:30:00+0" in local for local in preview["local"])


@pytest.mark.case(6)
def test_pause_change_resume(scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]) -> None:
    job = create(schedule=every(2), target=endpoint.target(), retryConfig={"maxRetries": 7})
    paused = scheduler.pause_job(job["id"])
    assert (paused["status"], paused["enabled"]) == ("PAUSED", False)
    until(lambda: not scheduler.get_job(job["id"])["activeRuns"], seconds=40)
    calls = len(endpoint.calls(job["id"]))
    changed = scheduler.update_job(job["id"], {"schedule": {"everySeconds": 3}})
    assert (changed["status"], changed["schedule"]["everySeconds"]) == ("PAUSED", 3)
    assert changed["retryConfig"] == {"maxRetries": 7}
    assert changed["target"] == job["target"]
    time.sleep(4)
    assert len(endpoint.calls(job["id"])) == calls
    resumed = scheduler.resume_job(job["id"])
    assert resumed["status"] == "SCHEDULED"
    resumed_at = time.time()
    until(lambda: len(endpoint.calls(job["id"])) > calls, seconds=40)
    slot = instant(endpoint.calls(job["id"])[calls].headers["gnomon-scheduled-for"])
    # Slots in the pause are skipped: the first run is that of the first slot after it.
    assert resumed_at - 1 <= slot <= resumed_at + 3


def test_overdue_one_time_job_runs_at_resume(scheduler: Client, create: Callable[..., Any]) -> None:
    job = create(schedule=once(2), enabled=False)
    assert job["status"] == "PAUSED"
    time.sleep(4)
    assert list(scheduler.history(job["id"])) == []
    scheduler.resume_job(job["id"])
    until(lambda: scheduler.get_job(job["id"])["status"] == "COMPLETED", seconds=40)


def test_execute_now_leaves_the_schedule_alone(
    scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]
) -> None:
    job = create(target=endpoint.target())
    ran = scheduler.execute_job(job["id"])
    assert ran["nextRunAt"] == job["nextRunAt"]
    (execution,) = until(
        lambda: [each for each in scheduler.history(job["id"]) if each["status"] == "COMPLETED"], seconds=10
    )
    assert "m" in execution["runId"].removeprefix(job["id"])
    after = scheduler.get_job(job["id"])
    assert (after["status"], after["nextRunAt"]) == ("SCHEDULED", job["nextRunAt"])


@pytest.mark.case(38)
def test_execute_twice_at_once(scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]) -> None:
    job = create(target=endpoint.target(), overlapPolicy="allow")
    for _ in range(2):
        scheduler.execute_job(job["id"])
    until(lambda: len(endpoint.calls(job["id"])) == 2, seconds=40)
    assert len({call.headers["gnomon-run-id"] for call in endpoint.calls(job["id"])}) == 2

    busy = create(target=endpoint.target("sleep"))
    scheduler.execute_job(busy["id"])
    until(lambda: endpoint.calls(busy["id"]), seconds=40, every=0.05)
    with pytest.raises(Exception, match="CONFLICT"):
        scheduler.execute_job(busy["id"])


def test_cancel_while_waiting(scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]) -> None:
    job = create(schedule=once(3), target=endpoint.target())
    cancelled = scheduler.cancel_job(job["id"])
    assert (cancelled["status"], cancelled["nextRunAt"]) == ("CANCELLED", None)
    time.sleep(5)
    assert endpoint.calls(job["id"]) == []
    with pytest.raises(Exception, match="CONFLICT"):
        scheduler.execute_job(job["id"])


@pytest.mark.case(18)
def test_cancel_while_running(scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]) -> None:
    job = create(schedule=once(0), target=endpoint.target("sleep"), retryConfig={"maxRetries": 3})
    until(lambda: endpoint.calls(job["id"]), seconds=40, every=0.05)
    assert scheduler.cancel_job(job["id"])["status"] == "CANCELLED"
    time.sleep(4.5)
    (execution,) = scheduler.history(job["id"])
    assert (execution["status"], execution["final"]) == ("CANCELLED", True)
    after = scheduler.get_job(job["id"])
    assert (after["status"], after["activeRuns"]) == ("CANCELLED", [])
    assert len(endpoint.calls(job["id"])) == 1

    done = create(schedule=once(0))
    until(lambda: scheduler.get_job(done["id"])["status"] == "COMPLETED", seconds=40)
    with pytest.raises(Exception, match="CONFLICT"):
        scheduler.cancel_job(done["id"])


def test_cancel_one_execution(scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]) -> None:
    job = create(target=endpoint.target("sleep"))
    scheduler.execute_job(job["id"])
    until(lambda: endpoint.calls(job["id"]), seconds=40, every=0.05)
    (running,) = scheduler.history(job["id"])
    assert running["status"] == "RUNNING"
    assert scheduler.get_execution(running["id"])["status"] == "RUNNING"
    assert scheduler.cancel_execution(running["id"])["status"] == "CANCELLED"
    assert scheduler.get_execution(running["id"])["status"] == "CANCELLED"
    assert scheduler.get_job(job["id"])["status"] == "SCHEDULED"


@pytest.mark.case(18)
def test_cancel_one_execution_that_waits(scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]) -> None:
    """A retry, and a run that is queued behind another: neither comes, and the job goes on."""
    retry = {"maxRetries": 3, "initialDelaySeconds": 3, "backoffStrategy": "fixed", "jitter": 0}
    failed = create(schedule=once(0), target=endpoint.target("503"), retryConfig=retry)
    until(lambda: scheduler.get_job(failed["id"])["status"] == "RETRYING", seconds=40, every=0.05)
    waiting, _ = scheduler.history(failed["id"])
    assert (waiting["status"], waiting["attempt"]) == ("QUEUED", 2)
    for _ in range(2):
        assert scheduler.cancel_execution(waiting["id"])["status"] == "CANCELLED"
    after = scheduler.get_job(failed["id"])
    assert (after["status"], after["activeRuns"]) == ("CANCELLED", [])

    busy = create(target=endpoint.target("sleep"), overlapPolicy="queue")
    for _ in range(2):
        scheduler.execute_job(busy["id"])
    until(lambda: endpoint.calls(busy["id"]), seconds=40, every=0.05)
    [queued] = [each for each in scheduler.history(busy["id"]) if each["status"] == "QUEUED"]
    assert scheduler.cancel_execution(queued["id"])["status"] == "CANCELLED"
    until(lambda: scheduler.get_job(busy["id"])["status"] == "SCHEDULED", seconds=40, hint="the first run ends")
    time.sleep(3)
    assert len(endpoint.calls(failed["id"])) == len(endpoint.calls(busy["id"])) == 1
    assert sorted(each["status"] for each in scheduler.history(busy["id"])) == ["CANCELLED", "COMPLETED"]


def test_delete(api: Api, scheduler: Client, endpoint: Endpoint) -> None:
    job = scheduler.create_job(job_body(schedule=once(3), target=endpoint.target()))
    path = f"/v1/jobs/{job['id']}"
    assert api.call("DELETE", path).status_code == 204
    problem(api.get(path), 404, "NOT_FOUND")
    problem(api.call("DELETE", path), 404, "NOT_FOUND")
    problem(api.get(f"{path}/history"), 404, "NOT_FOUND")
    assert job["id"] not in [each["id"] for each in scheduler.list_jobs()]
    time.sleep(5)
    assert endpoint.calls(job["id"]) == []


def test_overlap_skip(scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]) -> None:
    job = create(schedule=every(1), target=endpoint.target("sleep"))
    until(lambda: len(endpoint.calls(job["id"])) == 3, seconds=40)
    scheduler.pause_job(job["id"])
    runs = [instant(call.headers["gnomon-scheduled-for"]) for call in endpoint.calls(job["id"])]
    assert all(later - earlier >= 3 for earlier, later in itertools.pairwise(runs))
    skipped = [each for each in scheduler.history(job["id"]) if each["status"] == "SKIPPED"]
    assert skipped
    assert {each["reason"] for each in skipped} == {"OVERLAP"}
    # Every slot between two runs is in a line of history.
    covered = {slot for each in skipped for slot in range(int(instant(each["from"])), int(instant(each["to"])) + 1)}
    assert covered.issuperset(set(range(int(runs[0]), int(runs[2]))) - {int(run) for run in runs})


def test_overlap_queue(scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]) -> None:
    job = create(schedule=every(2), target=endpoint.target("sleep"), overlapPolicy="queue", maxRuns=2)
    until(
        lambda: [run["status"] for run in scheduler.get_job(job["id"])["activeRuns"]] == ["RUNNING", "QUEUED"],
        seconds=40,
        every=0.1,
    )
    until(lambda: scheduler.get_job(job["id"])["status"] == "COMPLETED", seconds=40)
    first, second = endpoint.calls(job["id"])
    assert second.at - first.at >= 3
    slots = [instant(call.headers["gnomon-scheduled-for"]) for call in (first, second)]
    assert slots[1] - slots[0] == 2


def test_big_definition(api: Api, scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]) -> None:
    payload = {"text": "ä" * 51_000}
    job = create(schedule=once(0), target=endpoint.target(), payload=payload)
    until(lambda: scheduler.get_job(job["id"])["status"] == "COMPLETED", seconds=40)
    (call,) = endpoint.calls(job["id"])
    assert len(call.body) > 100 * 1024 - 500
    assert call.body.decode() == '{"text":"' + payload["text"] + '"}'
    assert scheduler.get_job(job["id"])["payload"] == payload
    patched = scheduler.update_job(job["id"], {"tags": ["big"]})
    assert patched["payload"] == payload
    listed = next(each for each in api.get("/v1/jobs").json()["data"] if each["id"] == job["id"])
    assert "payload" not in listed


def test_history_pages(api: Api, scheduler: Client, endpoint: Endpoint, create: Callable[..., Any]) -> None:
    job = create(schedule=every(1), target=endpoint.target(), maxRuns=5)
    until(lambda: scheduler.get_job(job["id"])["status"] == "COMPLETED", seconds=40)
    path, ids, cursor = f"/v1/jobs/{job['id']}/history?limit=2", [], ""
    for _ in range(5):
        page = api.get(path + cursor).json()
        ids += [each["id"] for each in page["data"]]
        if "cursor" not in page["pagination"]:
            break
        cursor = f"&cursor={page['pagination']['cursor']}"
    assert len(set(ids)) == 5
    assert ids == sorted(ids, reverse=True)


def test_conditional_requests(api: Api, create: Callable[..., Any]) -> None:
    path = f"/v1/jobs/{create()['id']}"
    tag = api.get(path).headers["ETag"]
    unchanged = api.get(path, headers={"If-None-Match": tag})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    patch = {"Content-Type": "application/merge-patch+json"}
    changed = api.call("PATCH", path, {"tags": ["a"]}, headers={"If-Match": tag, **patch})
    assert changed.status_code == 200
    assert changed.headers["ETag"] != tag
    problem(api.call("PATCH", path, {"tags": ["b"]}, headers={"If-Match": tag, **patch}), 412, "PRECONDITION_FAILED")
    problem(api.call("DELETE", path, headers={"If-Match": tag}), 412, "PRECONDITION_FAILED")
    assert api.get(path, headers={"If-None-Match": tag}).status_code == 200
    assert api.get(path).json()["tags"] == ["a"]


def test_replace(api: Api, create: Callable[..., Any]) -> None:
    job = create(description="old", tags=["old"])
    replaced = api.call("PUT", f"/v1/jobs/{job['id']}", job_body(name="new"))
    assert replaced.status_code == 200
    assert replaced.json()["name"] == "new"
    assert "description" not in replaced.json()
    assert replaced.json()["revision"] == job["revision"] + 1
    assert replaced.json()["createdAt"] == job["createdAt"]


@pytest.mark.case(24)
def test_idempotency_key(api: Api, scheduler: Client) -> None:
    key, body = {"X-Idempotency-Key": unique("key")}, job_body(payload={"a": 1, "b": 2})
    first = api.post("/v1/jobs", body, headers=key)
    again = api.post("/v1/jobs", dict(reversed(body.items())), headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    problem(api.post("/v1/jobs", body | {"name": "other"}, headers=key), 422, "IDEMPOTENCY_KEY_REUSED")
    other = api.post("/v1/jobs", body, headers=key, role="admin")
    assert other.status_code == 201
    assert other.json()["id"] != first.json()["id"]
    for bad in ("", "x" * 256):
        problem(api.post("/v1/jobs", body, headers={"X-Idempotency-Key": bad}), 400, "VALIDATION_ERROR")
    scheduler.delete_job(first.json()["id"])
    assert api.call("DELETE", f"/v1/jobs/{other.json()['id']}", role="admin").status_code == 204


@pytest.mark.case(1)
@pytest.mark.case(2)
def test_one_time_instants(api: Api, scheduler: Client, create: Callable[..., Any]) -> None:
    job = create(schedule={"type": "once", "at": "2027-01-31T15:59:42.123+01:00"})
    assert job["nextRunAt"] == "2027-01-31T14:59:42Z"
    soon = create(schedule={"type": "once", "at": rfc3339(time.time() - 5)})
    until(lambda: scheduler.get_job(soon["id"])["status"] == "COMPLETED", seconds=40)
    past = {"type": "once", "at": rfc3339(time.time() - 3600)}
    assert "schedule.at" in problem(api.post("/v1/jobs", job_body(schedule=past)), 400, "VALIDATION_ERROR")
    gap = {"type": "once", "at": "2027-03-28T02:30:00", "timezone": "Europe/Berlin"}
    message = problem(api.post("/v1/jobs", job_body(schedule=gap)), 400, "VALIDATION_ERROR")["schedule.at"]
    assert "01:30" in message or "01:59" in message
    assert "03:00" in message or "03:30" in message
