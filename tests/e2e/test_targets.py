"""What a job may call, and what it may not."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from gnomon.errors import GnomonApiError
from tests.e2e.stack import job_body, once, problem, unique, until
from tests.e2e.user_function import make_function, remove_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gnomon.client import Client
    from tests.e2e.stack import Api, Aws, Stack
    from tests.e2e.target import Endpoint

pytestmark = pytest.mark.e2e

NUMBERS = '{"lat":33.10318374633789,"n":170141183460469231731687303715884105728,"r":1.0,"z":-0.0,"e":1}'


def ended(client: Client, job_id: str, status: str = "COMPLETED") -> list[Any]:
    until(lambda: client.get_job(job_id)["status"] == status, seconds=40, hint=f"{job_id} is {status}")
    return list(client.history(job_id))


@pytest.fixture(scope="module")
def function(aws: Aws) -> Iterator[str]:
    """Under a name that the stage allows."""
    name = make_function(aws)
    yield name
    remove_function(aws, name)


@pytest.fixture
def queue(aws: Aws) -> Iterator[str]:
    url = aws.sqs.create_queue(QueueName=unique("gnomon-e2e"))["QueueUrl"]
    yield url
    aws.sqs.delete_queue(QueueUrl=url)


@pytest.mark.case(22)
def test_handler_gets_every_number_as_it_was_written(api: Api, scheduler: Client) -> None:
    body = json.dumps(job_body(schedule=once(0)))[:-1] + f', "payload": {NUMBERS}}}'
    created = api.post("/v1/jobs", body)
    assert created.status_code == 201, created.text
    assert NUMBERS in created.text
    path = f"/v1/jobs/{created.json()['id']}"
    assert NUMBERS in api.get(path).text
    ended(scheduler, created.json()["id"])
    history = api.get(f"{path}/history").text
    assert NUMBERS in history
    assert api.call("DELETE", path).status_code == 204


def test_an_unknown_handler_is_refused_with_those_there_are(api: Api) -> None:
    body = job_body(target={"type": "handler", "name": "nobody"})
    fields = problem(api.post("/v1/jobs", body), 400, "VALIDATION_ERROR")
    assert fields.keys() == {"target.name"}
    assert "echo, expire-files" in fields["target.name"]


def test_a_host_that_cannot_be_resolved_is_no_reason_to_refuse_a_job(api: Api) -> None:
    started = time.monotonic()
    created = api.post("/v1/jobs", job_body(target={"type": "http", "url": "https://next-week.invalid/hook"}))
    assert created.status_code == 201, created.text
    assert time.monotonic() - started < 5
    assert api.call("DELETE", f"/v1/jobs/{created.json()['id']}").status_code == 204
    private = api.post("/v1/jobs", job_body(target={"type": "http", "url": "https://10.0.0.1/hook"}))
    assert problem(private, 400, "VALIDATION_ERROR").keys() == {"target.url"}


def test_lambda_function(scheduler: Client, create: Callable[..., dict[str, Any]], function: str) -> None:
    target = {"type": "lambda", "functionName": function}
    job = create(schedule=once(0), target=target, payload={"order": 1})
    (execution,) = ended(scheduler, job["id"])
    assert execution["result"]["seen"] == {
        "payload": {"order": 1},
        "jobId": job["id"],
        "runId": execution["runId"],
        "attempt": 1,
        "scheduledFor": job["schedule"]["at"],
    }
    failing = create(schedule=once(0), target=target, payload="fail", retryConfig={"maxRetries": 0})
    (execution,) = ended(scheduler, failing["id"], "FAILED")
    assert execution["error"]["code"] == "TARGET_ERROR"
    assert "told to" in execution["error"]["message"]


def test_queue(aws: Aws, scheduler: Client, create: Callable[..., dict[str, Any]], queue: str) -> None:
    job = create(schedule=once(0), target={"type": "sqs", "queueUrl": queue}, payload={"order": 1})
    (execution,) = ended(scheduler, job["id"])
    (message,) = aws.sqs.receive_message(QueueUrl=queue, MessageAttributeNames=["All"], WaitTimeSeconds=2)["Messages"]
    assert json.loads(message["Body"]) == {"order": 1}
    attributes = {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}
    assert attributes == {
        "jobId": job["id"],
        "runId": execution["runId"],
        "executionId": execution["id"],
        "attempt": "1",
        "scheduledFor": job["schedule"]["at"],
    }
    assert execution["result"] == {"messageId": message["MessageId"]}


def test_secret_header(aws: Aws, scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]) -> None:
    secret = aws.secrets.create_secret(Name=unique("gnomon-e2e"), SecretString="s3cr3t-value")
    headers = {"Authorization": {"secretArn": secret["ARN"]}, "X-Api-Key": "plain-key"}
    job = create(schedule=once(0), target=endpoint.target() | {"headers": headers})
    assert job["target"]["headers"] == {"Authorization": {"secretArn": secret["ARN"]}, "X-Api-Key": "***"}
    ended(scheduler, job["id"])
    (call,) = endpoint.calls(job["id"])
    assert (call.headers["authorization"], call.headers["x-api-key"]) == ("s3cr3t-value", "plain-key")
    aws.secrets.delete_secret(SecretId=secret["ARN"], ForceDeleteWithoutRecovery=True)


@pytest.mark.parametrize(
    "target",
    [
        {"type": "lambda", "functionName": "somebody-elses"},
        {"type": "lambda", "functionName": "arn:aws:lambda:us-east-1:000000000000:function:somebody-elses"},
        {"type": "sqs", "queueUrl": "https://sqs.us-east-1.amazonaws.com/000000000000/somebody"},
        {"type": "http", "url": "https://example.com/", "headers": {"X": {"secretArn": "somebody-elses"}}},
    ],
    ids=["function", "function's arn", "queue", "secret"],
)
def test_name_outside_the_allow_list(api: Api, target: dict[str, Any]) -> None:
    (message,) = problem(api.post("/v1/jobs", job_body(target=target)), 400, "VALIDATION_ERROR").values()
    assert "somebody" in message
    assert "gnomon-" in message


@pytest.mark.case(29)
@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/",
        "https://[::ffff:169.254.169.254]/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://127.1/",
        "https://localhost./",
        "https://10.0.0.1/",
        "https://100.64.0.1/",
        "https://user:pw@host/",
        "file:///etc/passwd",
        "http://[::1]:8080/",
    ],
)
def test_private_address_at_create(api: Api, url: str) -> None:
    problems = problem(api.post("/v1/jobs", job_body(target={"type": "http", "url": url})), 400, "VALIDATION_ERROR")
    assert list(problems) == ["target.url"]


def test_emulator_itself_is_no_target(api: Api, stack: Stack) -> None:
    target = {"type": "http", "url": f"{stack.endpoint}/_aws/anything"}
    assert "target.url" in problem(api.post("/v1/jobs", job_body(target=target)), 400, "VALIDATION_ERROR")


def test_private_address_at_send(
    stack: Stack, aws: Aws, scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    """What was allowed when the job was made is judged again when it is called."""
    job = create(schedule=once(6), target=endpoint.target())
    replace_in_row(aws, stack, job["id"], endpoint.url(), "https://10.0.0.1/")
    (execution,) = ended(scheduler, job["id"], "FAILED")
    assert execution["error"]["code"] == "TARGET_ERROR"
    assert "10.0.0.1" in execution["error"]["message"]
    assert execution["reason"] == "NOT_RETRYABLE"
    assert endpoint.calls(job["id"]) == []


def replace_in_row(aws: Aws, stack: Stack, job_id: str, old: str, new: str) -> None:
    """Change a text in the job's stored definition, as nobody but the table's owner can."""
    table = stack.outputs["JobsTable"]
    rows = aws.dynamodb.query(
        TableName=table, KeyConditionExpression="jobId = :id", ExpressionAttributeValues={":id": {"S": job_id}}
    )["Items"]
    changed = 0
    for row in rows:
        for name, value in row.items():
            if old in value.get("S", ""):
                key = {"jobId": row["jobId"], "S": row["S"]}
                aws.dynamodb.update_item(
                    TableName=table,
                    Key=key,
                    UpdateExpression="SET #n = :v",
                    ExpressionAttributeNames={"#n": name},
                    ExpressionAttributeValues={":v": {"S": value["S"].replace(old, new)}},
                )
                changed += 1
    assert changed == 1


def test_refusal_leaves_no_job(api: Api, scheduler: Client) -> None:
    name = unique("refused")
    with pytest.raises(GnomonApiError):
        scheduler.create_job(job_body(name=name, target={"type": "http", "url": "https://10.0.0.1/"}))
    assert name not in [job["name"] for job in scheduler.list_jobs()]
