"""The API's function on AWS in memory: its environment, its adapters, how many calls a request takes."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from functions import bootstrap
from functions.domain.definition import Priority
from functions.handlers.api import handler
from functions.settings import CircuitRules, RetryDefaults, TargetRules
from tests.api_client import make_body, sample_event
from tests.conftest import REGION, Aws

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTEXT: Any = SimpleNamespace(aws_request_id="5f1d2c3b-4a59-4687-9a0b-1c2d3e4f5061")


@pytest.fixture(autouse=True)
def _environment(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    queues = {priority.value: {"url": url, "arn": arn} for priority, (url, arn) in aws.queues.items()}
    variables = {
        "STAGE": "test",
        "VERSION": "0.1.0",
        "API_ADDRESS": "https://{domain}",
        "JOBS_TABLE": aws.jobs_table,
        "EXECUTIONS_TABLE": aws.executions_table,
        "IDEMPOTENCY_TABLE": aws.idempotency_table,
        "COORDINATION_TABLE": aws.coordination_table,
        "RETRY_DEFAULTS": json.dumps(dataclasses.asdict(RetryDefaults())),
        "WEBHOOK_KEYS": json.dumps({"prefix": "gnomon/test/webhook/", "kms_key": "alias/aws/secretsmanager"}),
        "CIRCUIT_RULES": json.dumps(dataclasses.asdict(CircuitRules())),
        "RETENTION_DAYS": "30",
        "RUN_QUEUES": json.dumps(queues),
        "SCHEDULE_GROUP": aws.schedule_group,
        "SCHEDULER_ROLE_ARN": aws.scheduler_role_arn,
        "STATE_MACHINE": aws.machine,
        "TARGET_RULES": json.dumps(dataclasses.asdict(TargetRules(unguarded_origins=("http://127.0.0.1:*",)))),
        "RECURRING_JOBS": "1000",
        "SHORTEST_INTERVAL_SECONDS": "1",
        "MACHINE_TEAMS": "[]",
        "CALLER_LIMITS": json.dumps(
            {"writes_per_minute": 100, "reads_per_minute": 500, "work_per_minute": 6000, "creations_per_day": 1000}
        ),
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    boto3.DEFAULT_SESSION = None
    bootstrap.api.cache_clear()
    bootstrap._client.cache_clear()
    yield
    bootstrap.api.cache_clear()
    bootstrap._client.cache_clear()


@pytest.fixture
def calls(_environment: None) -> list[str]:
    """Every call to AWS of the function's own clients, from here on."""
    made: list[str] = []
    for service in ("dynamodb", "sqs", "scheduler"):
        bootstrap._client(service).meta.events.register(
            f"before-call.{service}.*", lambda model, **_: made.append(model.name)
        )
    return made


def send(name: str, **changes: Any) -> dict[str, Any]:
    """The answer to a sample event; a keyword replaces a part of it."""
    return handler(sample_event(name) | changes, CONTEXT)


def local_body(**changes: Any) -> str:
    return json.dumps(make_body(target={"type": "http", "url": "http://127.0.0.1:9/hook"}, **changes))


def headers(name: str, **changes: str) -> dict[str, str]:
    """The headers of a sample event without its idempotency key."""
    kept: dict[str, str] = sample_event(name)["headers"]
    return {key: value for key, value in kept.items() if key != "x-idempotency-key"} | changes


def test_a_job_is_created_read_changed_and_deleted(aws: Aws) -> None:
    created = send("api-create-job", body=local_body(payload={"n": 1.0}))
    assert created["statusCode"] == 201, created["body"]
    path = created["headers"]["Location"]
    assert '"payload":{"n":1.0}' in created["body"]

    assert json.loads(send("api-list-jobs", rawQueryString="limit=10")["body"])["data"][0]["id"] in path
    read = send("api-get-job", rawPath=path, headers={})
    assert json.loads(read["body"]) == json.loads(created["body"])
    assert send("api-get-job", rawPath=path)["statusCode"] == 304
    assert json.loads(send("api-patch-job", rawPath=path)["body"])["tags"] == ["nightly"]
    assert send("api-patch-job", rawPath=path)["statusCode"] == 412
    executed = json.loads(send("api-execute-job", rawPath=f"{path}/execute")["body"])
    entry = json.loads(send("api-get-job", rawPath=f"{path}/history", headers={})["body"])["data"][0]
    assert entry["runId"] == executed["activeRuns"][0]["runId"]
    assert json.loads(send("api-execute-job", rawPath=f"{path}/cancel")["body"])["status"] == "CANCELLED"
    event = sample_event("api-get-job")
    event |= {"rawPath": path, "headers": {}}
    event["requestContext"]["http"] |= {"method": "DELETE"}
    assert handler(event, CONTEXT)["statusCode"] == 204
    assert send("api-get-job", rawPath=path, headers={})["statusCode"] == 404
    url = aws.queues[Priority.NORMAL][0]
    assert aws.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]


def test_a_large_definition_and_payload_are_kept() -> None:
    payload = {"text": "é" * 60_000}
    body = local_body(description="d" * 1000)[:-1] + f', "payload": {json.dumps(payload, ensure_ascii=False)}}}'
    created = send("api-create-job", body=body)
    assert created["statusCode"] == 201, created["body"]
    read = send("api-get-job", rawPath=created["headers"]["Location"], headers={})
    assert json.loads(read["body"])["payload"] == payload


@pytest.mark.case(24)
def test_the_same_key_finds_the_same_job() -> None:
    body = local_body()
    first, second = send("api-create-job", body=body), send("api-create-job", body=body)
    assert first["headers"]["Location"] == second["headers"]["Location"]
    assert second["headers"]["Idempotency-Replayed"] == "true"
    assert send("api-create-job", body=local_body(payload=1))["statusCode"] == 422


@pytest.mark.case(26)
def test_jobs_of_one_instant_are_listed_once_each() -> None:
    ids = {
        json.loads(send("api-create-job", body=local_body(), headers=headers("api-create-job"))["body"])["id"]
        for _ in range(30)
    }
    listed: list[str] = []
    query = "limit=7"
    while True:
        page = json.loads(send("api-list-jobs", rawQueryString=query)["body"])
        listed += [job["id"] for job in page["data"]]
        cursor = page["pagination"].get("cursor")
        if cursor is None:
            break
        query = f"limit=7&cursor={cursor}"
    assert len(listed) == 30
    assert set(listed) == ids
    tampered = send("api-list-jobs", rawQueryString=f"limit=7&cursor={cursor or 'AAAA'}x")
    assert tampered["statusCode"] == 400


def test_calls_a_request_takes(calls: list[str]) -> None:
    plain = headers("api-create-job")
    send("api-create-job", body=local_body(), headers=plain)
    calls.clear()

    path = send("api-create-job", body=local_body(), headers=plain)["headers"]["Location"]
    assert len(calls) <= 3, calls
    calls.clear()
    send("api-create-job", body=local_body())
    assert len(calls) <= 4, calls
    calls.clear()
    send("api-get-job", rawPath=path, headers={})
    assert len(calls) <= 2, calls
    calls.clear()
    send("api-list-jobs", rawQueryString="owner=team-billing")
    assert len(calls) <= 3, calls
    calls.clear()
    send("api-list-jobs")
    assert len(calls) <= 4, "one more query for each further owner of the caller"


def test_the_service_is_healthy_and_says_what_it_is() -> None:
    answer = send("api-health")
    assert answer["statusCode"] == 200
    assert json.loads(answer["body"])["version"] == "0.1.0"
    assert {component["status"] for component in json.loads(answer["body"])["components"].values()} == {"ok"}


def test_a_table_that_is_gone_is_a_fault_and_shows_in_health(aws: Aws) -> None:
    aws.dynamodb.delete_table(TableName=aws.executions_table)
    answer = send("api-health")
    assert answer["statusCode"] == 503
    assert json.loads(answer["body"])["components"]["history"]["status"] == "down"
    aws.dynamodb.delete_table(TableName=aws.coordination_table)
    assert json.loads(send("api-list-jobs")["body"])["error"]["code"] == "INTERNAL_ERROR"


def test_what_bad_requests_are_told() -> None:
    assert json.loads(send("api-unknown-route")["body"])["error"]["code"] == "NOT_FOUND"
    refused = send("api-create-job", body='{"payload": NaN}')
    assert json.loads(refused["body"])["error"]["code"] == "VALIDATION_ERROR"
    assert send("api-create-job", body="[" * 100_000)["statusCode"] == 400
    assert send("api-create-job", body="9" * 300_000)["statusCode"] == 413
