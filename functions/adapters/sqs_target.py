"""Sends to `sqs` targets: the payload as the body, the ids as message attributes. Sent is done."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from functions.adapters.answers import completed, failed, is_retryable_status, timed_out
from functions.adapters.deadline import DeadlineError, within

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageAttributeValueTypeDef

    from functions.domain.outcome import Invocation, TargetAnswer

_THROTTLED = frozenset({"RequestThrottled", "ThrottlingException", "KmsThrottled", "Throttling", "OverLimit"})


class SqsTarget:
    def __init__(self, client: SQSClient) -> None:
        self._client = client

    def call(self, invocation: Invocation, target: Mapping[str, object]) -> TargetAnswer:
        """Send one message. The result names it: `{"messageId": …}`.

        To a FIFO queue the job is the message group and the run the deduplication id: runs of a job arrive in order,
        and an attempt that follows a send whose answer was lost adds no second message. With a callback each attempt
        has a token of its own, and so a message of its own.
        """
        queue_url = str(target["queueUrl"])
        message = invocation.run_id if invocation.callback_token is None else invocation.execution_id
        fifo: dict[str, Any] = (
            {"MessageGroupId": invocation.job_id, "MessageDeduplicationId": message}
            if queue_url.endswith(".fifo")
            else {}
        )
        try:
            answer = within(
                invocation.timeout_seconds,
                lambda _: self._client.send_message(
                    QueueUrl=queue_url,
                    MessageBody=_body(invocation.payload),
                    MessageAttributes=_attributes(invocation),
                    **fifo,
                ),
            )
        except DeadlineError:
            return timed_out(invocation.timeout_seconds)
        except ClientError as error:
            return _refused(error)
        except BotoCoreError as error:
            return failed("NETWORK_ERROR", f"the message could not be sent: {type(error).__name__}")
        return completed(f'{{"messageId":"{answer["MessageId"]}"}}')


def _body(payload: str) -> str:
    # The two characters of JSON text that SQS refuses (API reference of SendMessage); they stand in strings only.
    return payload.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def _attributes(invocation: Invocation) -> dict[str, MessageAttributeValueTypeDef]:
    scheduled_for = datetime.fromtimestamp(invocation.scheduled_for, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    token: dict[str, MessageAttributeValueTypeDef] = {}
    if invocation.callback_token is not None:
        token["callbackToken"] = {"DataType": "String", "StringValue": invocation.callback_token}
    return {
        **token,
        "jobId": {"DataType": "String", "StringValue": invocation.job_id},
        "runId": {"DataType": "String", "StringValue": invocation.run_id},
        "executionId": {"DataType": "String", "StringValue": invocation.execution_id},
        "attempt": {"DataType": "Number", "StringValue": str(invocation.attempt)},
        "scheduledFor": {"DataType": "String", "StringValue": scheduled_for},
    }


def _refused(error: ClientError) -> TargetAnswer:
    problem = error.response.get("Error", {})
    code = str(problem.get("Code", "unknown"))
    message = f"{code}: {problem.get('Message', '')}"
    if code.endswith("InvalidMessageContents"):
        return failed("PAYLOAD_ERROR", message, retryable=False)
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500))
    retryable = code.rpartition(".")[2] in _THROTTLED or is_retryable_status(status)
    return failed("TARGET_ERROR", message, retryable=retryable)
