"""What a job may call, and what it may not."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from gnomon.errors import GnomonApiError
from tests.e2e.stack import job_body, once, own_name, owner_of, problem, unique, until
from tests.e2e.user_function import make_function, remove_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gnomon.client import Client
    from tests.e2e.people import People
    from tests.e2e.stack import Api, Aws, Stack
    from tests.e2e.target import Endpoint

pytestmark = pytest.mark.e2e

NUMBERS = '{"lat":33.10318374633789,"n":170141183460469231731687303715884105728,"r":1.0,"z":-0.0,"e":1}'


def ended(client: Client, job_id: str, status: str = "COMPLETED") -> list[Any]:
    until(lambda: client.get_job(job_id)["status"] == status, seconds=40, hint=f"{job_id} is {status}")
    return list(client.history(job_id))


@pytest.fixture(scope="module")
def function(stack: Stack, aws: Aws) -> Iterator[str]:
    """The scheduler's own."""
    name = make_function(aws, own_name(stack))
    yield name
    remove_function(aws, name)


@pytest.fixture
def queue(stack: Stack, aws: Aws) -> Iterator[str]:
    url = aws.sqs.create_queue(QueueName=own_name(stack))["QueueUrl"]
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


def test_secret_header(
    stack: Stack, aws: Aws, scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    secret = aws.secrets.create_secret(Name=own_name(stack), SecretString="s3cr3t-value")
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
        {"type": "lambda", "functionName": "gnomon-local-somebody-elses"},
        {"type": "lambda", "functionName": "gnomon-dev-team-a--somebody"},
        {"type": "sqs", "queueUrl": "https://sqs.us-east-1.amazonaws.com/000000000000/somebody"},
        {"type": "http", "url": "https://example.com/", "headers": {"X": {"secretArn": "somebody-elses"}}},
    ],
    ids=["function", "no owner's", "other stage", "queue", "secret"],
)
def test_name_that_is_not_the_owner_s(stack: Stack, api: Api, target: dict[str, Any]) -> None:
    (message,) = problem(api.post("/v1/jobs", job_body(target=target)), 400, "VALIDATION_ERROR").values()
    assert "somebody" in message
    assert f'"gnomon-local-{owner_of(stack.tokens["scheduler"])}--"' in message


@pytest.mark.parametrize(
    "target",
    [
        {"type": "lambda", "functionName": "arn:aws:lambda:eu-west-1:999999999999:function:gnomon-local-x"},
        {"type": "sqs", "queueUrl": "https://sqs.eu-west-1.amazonaws.com/999999999999/gnomon-local-x"},
    ],
    ids=["function", "queue"],
)
def test_target_of_another_account(api: Api, target: dict[str, Any]) -> None:
    (message,) = problem(api.post("/v1/jobs", job_body(target=target)), 400, "VALIDATION_ERROR").values()
    assert "is in account 999999999999, region eu-west-1" in message
    assert "account 000000000000, region us-east-1" in message


@dataclass(frozen=True)
class Teams:
    """Two teams that share the stage, and what belongs to each."""

    a: str
    """Token of a scheduler."""
    b: str
    secrets: dict[str, str]
    """Names by owner."""
    queues: dict[str, str]
    """URLs by owner."""


@pytest.fixture(scope="module")
def teams(stack: Stack, aws: Aws, people: People) -> Iterator[Teams]:
    """`team-a` and `team-a-b`: one's name is the beginning of the other's."""
    owners = ("team-a", "team-a-b")
    names = {owner: own_name(stack, owner=owner) for owner in owners}
    for owner, name in names.items():
        aws.secrets.create_secret(Name=name, SecretString=f"{owner}-top-secret")
    urls = {owner: aws.sqs.create_queue(QueueName=name)["QueueUrl"] for owner, name in names.items()}
    tokens = [people.token("scheduler", owner) for owner in owners]
    yield Teams(*tokens, names, urls)
    for owner, name in names.items():
        aws.secrets.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)
        aws.sqs.delete_queue(QueueUrl=urls[owner])


def with_secret(endpoint: Endpoint, name: str) -> dict[str, Any]:
    return endpoint.target() | {"headers": {"X-Leak": {"secretArn": name}}}


def test_another_team_s_secret_and_queue_are_refused(api: Api, teams: Teams, endpoint: Endpoint) -> None:
    for token, own, other in ((teams.a, "team-a", "team-a-b"), (teams.b, "team-a-b", "team-a")):
        targets = {
            "target.headers.X-Leak.secretArn": with_secret(endpoint, teams.secrets[other]),
            "target.queueUrl": {"type": "sqs", "queueUrl": teams.queues[other]},
        }
        for field, target in targets.items():
            found = problem(api.post("/v1/jobs", job_body(target=target), token=token), 400, "VALIDATION_ERROR")
            assert list(found) == [field]
            assert f'jobs of "{own}"' in found[field]
            assert f'"gnomon-local-{own}--"' in found[field]


def test_own_secret_is_sent(api: Api, scheduler: Client, teams: Teams, endpoint: Endpoint) -> None:
    body = job_body(schedule=once(0), target=with_secret(endpoint, teams.secrets["team-a"]))
    job = api.post("/v1/jobs", body, token=teams.a).json()
    ended(scheduler, job["id"])
    (call,) = endpoint.calls(job["id"])
    assert call.headers["x-leak"] == "team-a-top-secret"


@pytest.mark.parametrize("orchestrated", [False, True], ids=["executor", "state machine"])
def test_secret_that_came_into_the_row_is_not_sent(
    stack: Stack, aws: Aws, api: Api, scheduler: Client, teams: Teams, endpoint: Endpoint, *, orchestrated: bool
) -> None:
    """The role may read the secrets of all owners: the check at the call is what keeps this one back."""
    target = with_secret(endpoint, teams.secrets["team-a"])
    body = job_body(schedule=once(8), target=target, orchestrated=orchestrated)
    job = api.post("/v1/jobs", body, token=teams.a).json()
    replace_in_row(aws, stack, job["id"], teams.secrets["team-a"], teams.secrets["team-a-b"])
    must_not_be_sent(scheduler, job["id"], endpoint)


def test_job_that_changed_hands_does_not_take_its_secret_along(
    stack: Stack, aws: Aws, api: Api, scheduler: Client, teams: Teams, endpoint: Endpoint
) -> None:
    body = job_body(schedule=once(8), target=with_secret(endpoint, teams.secrets["team-a"]))
    job = api.post("/v1/jobs", body, token=teams.a).json()
    aws.dynamodb.update_item(
        TableName=stack.outputs["JobsTable"],
        Key={"jobId": {"S": job["id"]}, "S": {"S": "S"}},
        UpdateExpression="SET o = :o",
        ConditionExpression="o = :a",
        ExpressionAttributeValues={":o": {"S": "team-a-b"}, ":a": {"S": "team-a"}},
    )
    must_not_be_sent(scheduler, job["id"], endpoint)

    found = problem(api.post(f"/v1/jobs/{job['id']}/retry", {}, token=teams.b), 400, "VALIDATION_ERROR")
    assert list(found) == ["target.headers.X-Leak.secretArn"]


def must_not_be_sent(scheduler: Client, job_id: str, endpoint: Endpoint) -> None:
    (execution,) = ended(scheduler, job_id, "FAILED")
    assert (execution["error"]["code"], execution["reason"]) == ("TARGET_ERROR", "NOT_RETRYABLE")
    assert "target.headers.X-Leak.secretArn" in execution["error"]["message"]
    assert "is not allowed for jobs of" in execution["error"]["message"]
    assert endpoint.calls(job_id) == []


def test_queue_that_came_into_the_row_gets_nothing(
    stack: Stack, aws: Aws, api: Api, scheduler: Client, teams: Teams
) -> None:
    target = {"type": "sqs", "queueUrl": teams.queues["team-a"]}
    job = api.post("/v1/jobs", job_body(schedule=once(8), target=target), token=teams.a).json()
    replace_in_row(aws, stack, job["id"], teams.queues["team-a"], teams.queues["team-a-b"])
    (execution,) = ended(scheduler, job["id"], "FAILED")
    assert execution["error"]["code"] == "TARGET_ERROR"
    assert 'jobs of "team-a"' in execution["error"]["message"]
    assert "Messages" not in aws.sqs.receive_message(QueueUrl=teams.queues["team-a-b"])


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
    """Change a text in the job's stored definition, as only the table's owner can."""
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
