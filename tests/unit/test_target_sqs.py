from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from functions.adapters.sqs_target import SqsTarget
from functions.domain.outcome import Invocation, TargetAnswer

JOB = "3f1c2a4e-0b5d-4c7e-9a8f-1234567890ab"


def invocation(attempt: int = 1, payload: str = '{"r":1.0,"t":"\uffff"}') -> Invocation:
    return Invocation(
        job_id=JOB,
        owner="team-a",
        slot_id="1800000000",
        run_id=f"{JOB}-1800000000",
        execution_id=f"{JOB}-1800000000-{attempt:04d}",
        attempt=attempt,
        scheduled_for=1_800_000_000,
        payload=payload,
        timeout_seconds=10,
    )


@pytest.fixture
def sqs() -> Any:
    with mock_aws():
        client = boto3.client("sqs", "eu-central-1", aws_access_key_id="test", aws_secret_access_key="test")
        yield client
        client.close()


def received(client: Any, url: str) -> list[dict[str, Any]]:
    answer = client.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"], VisibilityTimeout=0
    )
    return answer.get("Messages", [])


def test_a_queue_receives_the_payload_and_the_ids_as_attributes(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="gnomon-test-team-a--work")["QueueUrl"]
    answer = SqsTarget(sqs).call(invocation(), {"type": "sqs", "queueUrl": url})
    (message,) = received(sqs, url)
    assert answer.status == "COMPLETED"
    assert json.loads(answer.result or "") == {"messageId": message["MessageId"]}
    assert message["Body"] == '{"r":1.0,"t":"\\uffff"}'
    attributes = {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}
    assert attributes == {
        "jobId": JOB,
        "runId": f"{JOB}-1800000000",
        "executionId": f"{JOB}-1800000000-0001",
        "attempt": "1",
        "scheduledFor": "2027-01-15T08:00:00Z",
    }


def test_a_fifo_queue_takes_a_run_once_whatever_its_attempts(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="gnomon-test-team-a--work.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    for attempt in (1, 2):
        assert SqsTarget(sqs).call(invocation(attempt), {"queueUrl": url}).status == "COMPLETED"
    (message,) = received(sqs, url)
    assert message["Attributes"]["MessageGroupId"] == JOB


def test_an_unknown_queue_is_final(sqs: Any) -> None:
    url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gnomon-test-team-a--none"
    answer = SqsTarget(sqs).call(invocation(), {"queueUrl": url})
    assert (seen(answer), answer.retryable) == ("TARGET_ERROR", False)


class Refusing:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def send_message(self, **_: Any) -> None:
        raise self._error


def refusal(code: str, status: int) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": "see there"}, "ResponseMetadata": {"HTTPStatusCode": status}}, "SendMessage"
    )


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (refusal("RequestThrottled", 403), "TARGET_ERROR", True),
        (refusal("AccessDenied", 403), "TARGET_ERROR", False),
        (refusal("InternalFailure", 500), "TARGET_ERROR", True),
        (refusal("InvalidMessageContents", 400), "PAYLOAD_ERROR", False),
        (EndpointConnectionError(endpoint_url="https://sqs"), "NETWORK_ERROR", True),
    ],
)
def test_what_sqs_refuses(error: Exception, code: str, retryable: bool) -> None:
    answer = SqsTarget(Refusing(error)).call(invocation(), {"queueUrl": "https://x/1/gnomon-test-team-a--work"})
    assert (seen(answer), answer.retryable) == (code, retryable)


def seen(answer: TargetAnswer) -> str:
    assert answer.error is not None
    return answer.error.code
