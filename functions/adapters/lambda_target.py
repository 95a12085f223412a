"""Calls Lambda functions: those that `lambda` targets name, and the `jobs` function with the registered handlers.

Both receive `{payload, jobId, runId, attempt, scheduledFor}`; the payload's text is passed on as it is, so that the
value and kind of each number survive.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from functions.adapters.answers import completed, failed, is_retryable_status, retry_after, timed_out
from functions.adapters.deadline import Deadline, DeadlineError, within
from functions.domain.result import (
    RESULT_BYTES,
    ResultError,
    ResultTooLargeError,
    ResultUnreadableError,
    whole_result,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from botocore.response import StreamingBody
    from mypy_boto3_lambda import LambdaClient

    from functions.domain.outcome import Invocation, TargetAnswer
    from functions.ports import Clock


WATCHDOG_LEAD = 0.5
"""Seconds by which the watchdog of the jobs function comes before the caller gives up."""

_ANSWER_BYTES = 256 * 1024
"""How much of an answer is read."""
_RETRYABLE_CODES = frozenset({"ResourceConflictException", "ThrottlingException", "Throttling"})


def invoke_config(longest_call: int) -> Config:
    """How the client that is passed in is configured, for calls of at most so many seconds.

    One for all jobs, since a client is dear to make: it never repeats a call, and its own time limit lies beyond the
    longest job's. The job's limit is kept by a deadline around each call.
    """
    return Config(
        connect_timeout=5,
        read_timeout=longest_call + 5,
        retries={"total_max_attempts": 1},
        max_pool_connections=32,
        tcp_keepalive=True,
    )


class LambdaTarget:
    def __init__(self, client: LambdaClient, *, jobs_function: str, clock: Clock) -> None:
        """`client` is made with invoke_config; `jobs_function` is the name or ARN of the function with the handlers."""
        self._client = client
        self._jobs_function = jobs_function
        self._clock = clock

    def call(self, invocation: Invocation, target: Mapping[str, object]) -> TargetAnswer:
        """Invoke the function of a `lambda` target; any answer but a FunctionError is success."""
        return self._call(invocation, str(target["functionName"]), {}, invocation.timeout_seconds)

    def call_handler(self, invocation: Invocation, target: Mapping[str, object]) -> TargetAnswer:
        """Run the handler of a `handler` target in the jobs function."""
        more = {
            "handler": target["name"],
            "executionId": invocation.execution_id,
            "timeoutSeconds": invocation.timeout_seconds,
        }
        return self._call(invocation, self._jobs_function, more, invocation.timeout_seconds + WATCHDOG_LEAD)

    def _call(self, invocation: Invocation, function: str, more: dict[str, object], seconds: float) -> TargetAnswer:
        body = _event(invocation, more)
        started = time.monotonic()

        def invoke(_: Deadline) -> tuple[str | None, bytes | None]:
            answer = self._client.invoke(FunctionName=function, InvocationType="RequestResponse", Payload=body)
            try:
                return answer.get("FunctionError"), _read(answer["Payload"])
            except (IncompleteReadError, ResponseStreamingError):
                # The function has ended all the same, and whether it failed is known.
                return answer.get("FunctionError"), None

        try:
            function_error, answer = within(seconds, invoke)
        except (DeadlineError, ReadTimeoutError):
            return timed_out(invocation.timeout_seconds)
        except ClientError as error:
            return self._refused(error)
        except BotoCoreError as error:
            return failed("NETWORK_ERROR", f"{function} could not be invoked: {type(error).__name__}")
        if more:
            elapsed = time.monotonic() - started
            died = function_error is not None
            return _died(answer, invocation.timeout_seconds, elapsed=elapsed) if died else _handled(answer)
        if function_error:
            return _target_error(answer)
        return _returned(answer, is_wanted=not invocation.callback_token)

    def _refused(self, error: ClientError) -> TargetAnswer:
        problem = error.response.get("Error", {})
        meta: Mapping[str, Any] = error.response.get("ResponseMetadata", {})
        code = str(problem.get("Code", "unknown"))
        return failed(
            "TARGET_ERROR",
            f"{code}: {problem.get('Message', '')}",
            # An unknown function or a missing grant is not repaired by another attempt.
            retryable=code in _RETRYABLE_CODES or is_retryable_status(int(meta.get("HTTPStatusCode", 500))),
            retry_after=retry_after(meta.get("HTTPHeaders", {}).get("retry-after"), now=self._clock.now()),
        )


def _event(invocation: Invocation, more: dict[str, object]) -> bytes:
    scheduled_for = datetime.fromtimestamp(invocation.scheduled_for, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    token = {} if invocation.callback_token is None else {"callbackToken": invocation.callback_token}
    envelope = {
        **more,
        **token,
        "jobId": invocation.job_id,
        "runId": invocation.run_id,
        "attempt": invocation.attempt,
        "scheduledFor": scheduled_for,
    }
    return f'{json.dumps(envelope)[:-1]}, "payload": {invocation.payload}}}'.encode()


def _read(stream: StreamingBody) -> bytes:
    """As much of an answer as is read; raises IncompleteReadError or ResponseStreamingError where it is cut."""
    answer = b""
    # Only a read that gives nothing tells the SDK to compare what came with what was promised.
    while len(answer) <= _ANSWER_BYTES and (part := stream.read(_ANSWER_BYTES + 1 - len(answer))):
        answer += part
    return answer


def _target_error(answer: bytes | None) -> TargetAnswer:
    kind, message = _function_error(answer)
    return failed("TARGET_ERROR", f"{kind}: {message}")


def _returned(answer: bytes | None, *, is_wanted: bool) -> TargetAnswer:
    """The function has done its work: one whose result cannot be kept would do it twice in another attempt.

    Args:
        answer: None where it did not come as a whole.
        is_wanted: False where the outcome is reported later, and what the function returned means nothing.
    """
    if not is_wanted:
        return completed(None)
    try:
        if answer is None:
            raise ResultUnreadableError("its end did not come")
        if len(answer) > _ANSWER_BYTES:
            raise ResultTooLargeError(_ANSWER_BYTES, at_least=True)
        return completed(whole_result(answer))
    except ResultError as error:
        return failed(error.code, f"the function's result cannot be kept: {error}", retryable=False)


def _died(answer: bytes | None, timeout_seconds: int, *, elapsed: float) -> TargetAnswer:
    """The jobs function catches what handlers raise: an error of the function itself means that its process ended."""
    kind, message = _function_error(answer)
    if kind == "Sandbox.Timedout" or elapsed >= timeout_seconds - 0.2:
        return timed_out(timeout_seconds)
    return failed(f"HANDLER_ERROR:{kind}", message)


def _function_error(answer: bytes | None) -> tuple[str, str]:
    """Class and message of an unhandled error (AWS Lambda, "Function errors")."""
    error = _object(answer)
    return str(error.get("errorType") or "Unhandled"), str(error.get("errorMessage") or "no message")


def _handled(answer: bytes | None) -> TargetAnswer:
    outcome = _object(answer)
    result, error = outcome.get("result"), outcome.get("error")
    if isinstance(result, str) and len(result.encode()) <= RESULT_BYTES:
        return completed(None if result == "null" else result)
    if isinstance(error, dict):
        retryable = error.get("retryable") is not False
        return failed(f"HANDLER_ERROR:{error.get('type')}", str(error.get("message")), retryable=retryable)
    return failed("TARGET_ERROR", "the jobs function gave an answer in no known form")


def _object(answer: bytes | None) -> dict[str, Any]:
    try:
        value = json.loads(answer or b"")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
