"""Client, commands' tables and demo against the real API, engine and sender, over ports in memory, in virtual time."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from rich.console import Console

from functions.adapters.address_guard import AddressGuard
from functions.adapters.http_target import HttpTarget
from functions.adapters.webhook_signature import WebhookSignature
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.outcome import TargetAnswer
from gnomon.client import Client
from gnomon.display import executions_table, job_details, jobs_table
from gnomon.errors import GnomonApiError
from gnomon.follow import look
from gnomon.job_body import rfc3339
from gnomon.local import demo
from gnomon.local.receiver import Receiver
from tests.driver import Driver
from tests.gateway import RULES, Gateway


class Secrets:
    def get(self, _secret: str) -> str:
        raise AssertionError(_secret)


class Played:
    """The engine in virtual time, with what a person would use of it."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.client = Client("https://api.test", "token", transport=httpx.MockTransport(Gateway(self.driver)))
        self.output = io.StringIO()
        self.console = Console(file=self.output, width=200, no_color=True, highlight=False)
        # Nobody is there, until a test sends for real.
        error = ExecutionError(code="NETWORK_ERROR", message="no answer")
        self.driver.world.targets.answers = [TargetAnswer(status=ExecutionStatus.FAILED, error=error)]

    def send_for_real(self) -> None:
        signature = WebhookSignature(self.driver.world.webhook_keys, clock=self.driver.clock)
        sender = HttpTarget(guard=AddressGuard(RULES), secrets=Secrets(), signature=signature, clock=self.driver.clock)
        targets = self.driver.world.targets
        targets.answers = [lambda invocation: sender.call(invocation, targets.targets[-1])]

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.driver.clock.now(), UTC)

    def shown(self, table: Any) -> str:
        self.console.print(table)
        return self.output.getvalue()


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.mark.usefixtures("loopback")
def test_the_demo_ends_well(played: Played) -> None:
    clock = played.driver.clock
    played.send_for_real()
    with Receiver(played.client.get_webhook_key()["secret"], demo.ANSWERS, clock=clock.now) as receiver:
        stage = demo.Stage(
            client=played.client,
            receiver=receiver,
            console=played.console,
            now=played.now,
            sleep=played.driver.run,
            monotonic=clock.now,
        )
        job = demo.play(stage)
        calls = [delivery.answered for delivery in receiver.deliveries if delivery.path == "/flaky"]
    assert calls == [503, 503, 200]
    assert job["status"] == "COMPLETED"
    assert "HTTP_503" in played.output.getvalue()
    assert [job["status"] for job in played.client.list_jobs()] == ["COMPLETED"]


def test_what_the_flags_make_is_accepted_and_comes_back(played: Played) -> None:
    body = {
        "name": "nightly",
        "description": "the report",
        "schedule": {"type": "cron", "expression": "0 9 * * MON-FRI", "timezone": "Europe/Berlin"},
        "target": {"type": "http", "url": "https://example.com/x", "method": "PUT"},
        "payload": {"n": 2**127, "r": 1.0, "text": "é😀"},
        "retryConfig": {"maxRetries": 5, "backoffStrategy": "linear", "initialDelaySeconds": 3, "jitter": 0.5},
        "timeoutSeconds": 30,
        "priority": "high",
        "overlapPolicy": "queue",
        "misfirePolicy": "run_all",
        "maxRuns": 7,
        "tags": ["a", "b"],
    }
    created = played.client.create_job(body, idempotency_key="k1")
    assert repr({name: created[name] for name in body}) == repr(body)  # type: ignore[literal-required]  # by design
    assert played.client.create_job(body, idempotency_key="k1")["id"] == created["id"]
    shown = played.shown(job_details(created, played.now()))
    assert "cron 0 9 * * MON-FRI Europe/Berlin" in shown
    assert "http https://example.com/x" in shown
    assert "a, b" in shown


def test_every_action_reaches_its_route(played: Played) -> None:
    job = played.client.create_job(
        {
            "name": "x",
            "schedule": {"type": "interval", "everySeconds": 3600},
            "target": {
                "type": "sqs",
                "queueUrl": "https://sqs.eu-central-1.amazonaws.com/123456789012/gnomon-test-alice--q",
            },
        }
    )
    job_id = job["id"]
    assert played.client.pause_job(job_id)["status"] == "PAUSED"
    assert played.client.resume_job(job_id)["status"] == "SCHEDULED"
    assert len(played.client.execute_job(job_id)["activeRuns"]) == 1
    with pytest.raises(GnomonApiError, match="CONFLICT"):
        played.client.execute_job(job_id)
    (execution,) = played.client.history(job_id)
    assert execution["status"] == "QUEUED"
    assert played.client.get_execution(execution["id"])["id"] == execution["id"]
    assert played.client.update_job(job_id, {"tags": ["new"]})["tags"] == ["new"]
    assert played.client.cancel_job(job_id)["status"] == "CANCELLED"
    assert look(played.client, job_id).at_rest
    played.client.delete_job(job_id)
    assert list(played.client.list_jobs()) == []
    with pytest.raises(GnomonApiError, match="NOT_FOUND"):
        played.client.get_job(job_id)


def test_a_paused_job_whose_retry_is_held_is_at_rest_and_one_run_by_hand_is_not(played: Played) -> None:
    nowhere = {"type": "http", "url": "http://127.0.0.1:1/"}
    at = rfc3339(played.now())
    job = played.client.create_job({"name": "x", "schedule": {"type": "once", "at": at}, "target": nowhere})
    played.driver.run(5)
    assert played.client.get_job(job["id"])["status"] == "RETRYING"
    assert not look(played.client, job["id"]).at_rest
    played.client.pause_job(job["id"])
    assert look(played.client, job["id"]).at_rest
    every = {"type": "interval", "everySeconds": 3600}
    other = played.client.create_job({"name": "y", "schedule": every, "target": nowhere})
    played.client.pause_job(other["id"])
    assert look(played.client, other["id"]).at_rest
    played.client.execute_job(other["id"])
    assert not look(played.client, other["id"]).at_rest


def test_pages_lists_history_and_gaps_as_the_api_gives_them(played: Played) -> None:
    nowhere = {"type": "http", "url": "http://127.0.0.1:1/"}
    every = {"type": "interval", "everySeconds": 60}
    retry = {"maxRetries": 0}
    ids = [
        played.client.create_job({"name": f"j{n}", "schedule": every, "target": nowhere, "retryConfig": retry})["id"]
        for n in range(5)
    ]
    assert {job["id"] for job in played.client.list_jobs(page_size=2)} == set(ids)
    played.driver.run(130)
    played.client.pause_job(ids[0])
    played.driver.run(600)
    played.client.resume_job(ids[0])
    played.driver.run(120)
    found = list(played.client.history(ids[0], page_size=2))
    assert [entry["status"] for entry in found][-3:] == ["SKIPPED", "FAILED", "FAILED"]
    shown = played.shown(executions_table(found, played.now()))
    assert "PAUSED; 10 slots to" in shown
    assert "NETWORK_ERROR" in shown
    assert "j0" in played.shown(jobs_table(played.client.list_jobs(), played.now()))


def test_errors_and_preview_of_the_real_api(played: Played) -> None:
    with pytest.raises(GnomonApiError) as caught:
        played.client.preview("61 * * * *")
    assert caught.value.code == "VALIDATION_ERROR"
    assert [problem.field for problem in caught.value.details] == ["expression"]
    assert caught.value.request_id == "request-1"
    preview = played.client.preview("0 9 * * MON-FRI", timezone="Europe/Berlin", count=3)
    assert len(preview["slots"]) == len(preview["local"]) == 3
    assert all("T09:00:00+01:00" in local for local in preview["local"])
