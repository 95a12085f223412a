"""Failed attempts are repeated, recorded, and announced when there is no other."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from standardwebhooks import Webhook

from tests.e2e.stack import instant, once, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from gnomon.client import Client
    from tests.e2e.letters import Letters
    from tests.e2e.stack import Stack
    from tests.e2e.target import Endpoint

pytestmark = pytest.mark.e2e


def fixed(retries: int, delay: float = 1) -> dict[str, Any]:
    return {"maxRetries": retries, "backoffStrategy": "fixed", "initialDelaySeconds": delay, "jitter": 0}


def ended(client: Client, job_id: str, status: str, *, seconds: float = 40) -> None:
    until(lambda: client.get_job(job_id)["status"] == status, seconds=seconds, hint=f"{job_id} is {status}")


def test_two_failures_then_success(
    stack: Stack, scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    job = create(
        schedule=once(0),
        target=endpoint.target("503-503-200") | {"headers": {"X-Team": "billing"}},
        payload={"order": 4711, "note": "ä€😀"},
        retryConfig=fixed(3),
    )
    ended(scheduler, job["id"], "COMPLETED")
    third, second, first = scheduler.history(job["id"])
    for attempt, execution in enumerate((first, second), start=1):
        assert execution["attempt"] == attempt
        assert (execution["status"], execution["final"]) == ("FAILED", False)
        assert execution["reason"] == "RETRY_SCHEDULED"
        assert execution["error"]["code"] == "HTTP_503"
        assert instant(execution["nextRetryAt"]) >= instant(execution["completedAt"])
    assert (third["attempt"], third["status"], third["final"]) == (3, "COMPLETED", True)
    assert third["error"] is None
    assert third["result"] == {"answered": True}
    assert instant(third["startedAt"]) >= instant(second["nextRetryAt"])
    run_id = f"{job['id']}-{int(instant(job['schedule']['at'])):010d}"
    assert {execution["runId"] for execution in (first, second, third)} == {run_id}

    calls = endpoint.calls(job["id"])
    for call, execution in zip(calls, (first, second, third), strict=True):
        # Raises where the signature is not genuine.
        Webhook(stack.webhook_secret).verify(call.body, dict(call.headers))
        assert json.loads(call.body) == {"order": 4711, "note": "ä€😀"}
        assert call.method == "POST"
        assert call.headers["content-type"] == "application/json"
        assert call.headers["webhook-id"] == run_id, "the same in every attempt: the key to do the work once"
        assert "gnomon-execution-id" not in call.headers
        assert call.headers["gnomon-job-id"] == job["id"]
        assert call.headers["gnomon-run-id"] == run_id
        assert call.headers["gnomon-attempt"] == str(execution["attempt"])
        assert call.headers["gnomon-scheduled-for"] == job["schedule"]["at"]
        assert call.headers["x-team"] == "billing"

    last = scheduler.get_job(job["id"])["lastRun"]
    assert last is not None
    assert (last["runId"], last["outcome"], last["attempt"]) == (run_id, "COMPLETED", 3)


@pytest.mark.case(8)
def test_exhausted_retries_are_one_dead_letter(
    scheduler: Client, endpoint: Endpoint, letters: Letters, create: Callable[..., dict[str, Any]]
) -> None:
    target = endpoint.target("500") | {"headers": {"Authorization": "Bearer very-secret-token"}}
    job = create(name="doomed", schedule=once(0), target=target, payload={"card": "4111"}, retryConfig=fixed(3))
    ended(scheduler, job["id"], "FAILED")
    history = list(scheduler.history(job["id"]))
    assert [each["attempt"] for each in history] == [4, 3, 2, 1]
    assert [each["final"] for each in history] == [True, False, False, False]
    assert history[0]["reason"] == "RETRIES_EXHAUSTED"
    assert len(endpoint.calls(job["id"])) == 4
    last = scheduler.get_job(job["id"])["lastRun"]
    assert last is not None
    assert last["outcome"] == "PERMANENTLY_FAILED"
    assert last["errorCode"] == "HTTP_500"

    (letter,) = letters.of(job["id"], wait=5)
    assert letter["id"] == history[0]["id"]
    assert letter["jobName"] == "doomed"
    assert letter["owner"] == job["owner"]
    assert letter["runId"] == history[0]["runId"]
    assert letter["attempts"] == 4
    assert letter["scheduledFor"] == job["schedule"]["at"]
    assert letter["error"]["code"] == "HTTP_500"
    assert letter["reason"] == "RETRIES_EXHAUSTED"
    assert letter["target"]["url"] == endpoint.url("500")
    assert letter["failedAt"] == history[0]["completedAt"]
    assert letter["retry"] == f"/v1/jobs/{job['id']}/retry"
    assert letter["history"] == f"/v1/jobs/{job['id']}/history"
    assert "very-secret-token" not in json.dumps(letter)
    assert "4111" not in json.dumps(letter)


@pytest.mark.case(8)
def test_without_retries_one_call(
    scheduler: Client, endpoint: Endpoint, letters: Letters, create: Callable[..., dict[str, Any]]
) -> None:
    job = create(schedule=once(0), target=endpoint.target("500"), retryConfig=fixed(0))
    ended(scheduler, job["id"], "FAILED")
    assert len(endpoint.calls(job["id"])) == 1
    assert len(letters.of(job["id"], wait=4)) == 1


def test_forced_retry_completes(
    scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]], letters: Letters
) -> None:
    job = create(schedule=once(0), target=endpoint.target("500-200"), retryConfig=fixed(0))
    ended(scheduler, job["id"], "FAILED")
    assert scheduler.retry_job(job["id"])["status"] in ("RETRYING", "RUNNING")
    ended(scheduler, job["id"], "COMPLETED")
    second, first = scheduler.history(job["id"])
    assert first["runId"] == second["runId"]
    assert [first["status"], second["status"]] == ["FAILED", "COMPLETED"]
    assert second["attempt"] == 2
    assert len(letters.of(job["id"], wait=0)) == 1


@pytest.mark.parametrize("status", ["404", "410", "304"])
def test_not_retryable_fails_at_once(
    scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]], status: str
) -> None:
    job = create(schedule=once(0), target=endpoint.target(status), retryConfig=fixed(3))
    ended(scheduler, job["id"], "FAILED")
    (execution,) = scheduler.history(job["id"])
    assert (execution["reason"], execution["error"]["code"]) == ("NOT_RETRYABLE", f"HTTP_{status}")
    assert "null" not in execution["error"]["message"]


def test_a_status_counts_though_its_body_is_cut(
    scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    job = create(schedule=once(0), target=endpoint.target("short-early"), retryConfig=fixed(1))
    ended(scheduler, job["id"], "COMPLETED")
    second, first = scheduler.history(job["id"])
    assert (first["error"]["code"], second["status"]) == ("HTTP_503", "COMPLETED")
    assert second["result"] == {"answered": True}
    assert instant(first["nextRetryAt"]) - instant(first["completedAt"]) >= 3, "it asked for three seconds"
    assert len(endpoint.calls(job["id"])) == 2


@pytest.mark.on_time
def test_timeout_is_an_attempt(scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]) -> None:
    job = create(schedule=once(0), target=endpoint.target("sleep-200"), timeoutSeconds=1, retryConfig=fixed(1))
    ended(scheduler, job["id"], "COMPLETED")
    second, first = scheduler.history(job["id"])
    assert (first["status"], first["error"]["code"], first["final"]) == ("TIMED_OUT", "TIMEOUT", False)
    assert instant(first["completedAt"]) - instant(first["startedAt"]) < 2.5
    assert second["status"] == "COMPLETED"


@pytest.mark.on_time
@pytest.mark.case(36)
def test_waiting_retry_survives_changes_and_is_held_by_a_pause(
    scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    job = create(schedule=once(0), target=endpoint.target("500-500-200"), retryConfig=fixed(3, delay=4))
    until(lambda: len(list(scheduler.history(job["id"]))) == 2, seconds=40, hint="the first retry waits")
    waiting, first = scheduler.history(job["id"])
    assert (waiting["status"], waiting["attempt"]) == ("QUEUED", 2)
    scheduler.update_job(job["id"], {"tags": ["changed"]})
    until(lambda: len(endpoint.calls(job["id"])) == 2, seconds=40, every=0.05)
    # At its time, the change notwithstanding.
    assert 0 <= endpoint.calls(job["id"])[1].at - instant(first["nextRetryAt"]) <= 1.5
    until(lambda: scheduler.get_job(job["id"])["status"] == "RETRYING", seconds=5, every=0.05)
    scheduler.pause_job(job["id"])
    time.sleep(6)
    assert len(endpoint.calls(job["id"])) == 2
    scheduler.resume_job(job["id"])
    ended(scheduler, job["id"], "COMPLETED")
    assert len(endpoint.calls(job["id"])) == 3
