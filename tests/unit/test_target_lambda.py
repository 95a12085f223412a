"""Functions are invoked over a real HTTP connection, by the SDK, from a server that stands for AWS Lambda."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from functions.adapters.lambda_target import LambdaTarget, invoke_config
from functions.domain.execution import ExecutionStatus
from functions.domain.outcome import Invocation, TargetAnswer
from tests.receiver import Exchange, Receiver, receiving

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

pytestmark = pytest.mark.usefixtures("loopback")

JOB = "3f1c2a4e-0b5d-4c7e-9a8f-1234567890ab"
PAYLOAD = '{"r":1.0,"n":170141183460469231731687303715884105728,"z":-0.0,"t":"é"}'


class SystemClock:
    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


def invocation(timeout_seconds: int = 10, callback_token: str | None = None) -> Invocation:
    return Invocation(
        job_id=JOB,
        owner="team-a",
        slot_id="1800000000",
        run_id=f"{JOB}-1800000000",
        execution_id=f"{JOB}-1800000000-0002",
        attempt=2,
        scheduled_for=1_800_000_000,
        payload=PAYLOAD,
        timeout_seconds=timeout_seconds,
        callback_token=callback_token,
    )


def target_for(receiver: Receiver) -> LambdaTarget:
    client = boto3.client(
        "lambda",
        region_name="eu-central-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        endpoint_url=f"http://127.0.0.1:{receiver.port}",
        config=invoke_config(60),
    )
    return LambdaTarget(client, jobs_function="stage-jobs", clock=SystemClock())


def call(
    respond: Callable[[Exchange], None],
    target: Mapping[str, Any],
    timeout_seconds: int = 10,
    *,
    callback_token: str | None = None,
) -> tuple[TargetAnswer, list[Any]]:
    with receiving(respond) as receiver:
        adapter = target_for(receiver)
        run = adapter.call_handler if target["type"] == "handler" else adapter.call
        try:
            return run(invocation(timeout_seconds, callback_token), target), receiver.requests
        finally:
            adapter._client.close()


def says(body: Any, *, error: bool = False, status: int = 200, **headers: str) -> Callable[[Exchange], None]:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    if error:
        headers["X-Amz-Function-Error"] = "Unhandled"
    return lambda exchange: exchange.answer(status, text, **headers)


LAMBDA = {"type": "lambda", "functionName": "gnomon-test-team-a--report:live"}
HANDLER = {"type": "handler", "name": "echo"}


def seen(answer: TargetAnswer) -> tuple[str, str | None, bool]:
    return answer.status.value, answer.error.code if answer.error else None, answer.retryable


def text(answer: TargetAnswer) -> str:
    assert answer.error is not None
    return answer.error.message


def test_a_function_receives_payload_and_ids_and_nothing_else() -> None:
    answer, (request,) = call(says(b'{"sum": 1.0}'), LAMBDA)
    assert (answer.status, answer.result) == (ExecutionStatus.COMPLETED, '{"sum":1.0}')
    assert request.path == "/2015-03-31/functions/gnomon-test-team-a--report%3Alive/invocations"
    assert request.headers["x-amz-invocation-type"] == "RequestResponse"
    event = json.loads(request.body)
    assert event == {
        "payload": json.loads(PAYLOAD),
        "jobId": JOB,
        "runId": f"{JOB}-1800000000",
        "attempt": 2,
        "scheduledFor": "2027-01-15T08:00:00Z",
    }
    assert PAYLOAD.encode() in request.body


def test_the_jobs_function_is_told_the_handler_and_its_time() -> None:
    answer, (request,) = call(says({"result": '{"a":1.0}'}), HANDLER)
    assert (answer.status, answer.result) == (ExecutionStatus.COMPLETED, '{"a":1.0}')
    assert request.path == "/2015-03-31/functions/stage-jobs/invocations"
    event = json.loads(request.body)
    assert (event["handler"], event["timeoutSeconds"], event["attempt"]) == ("echo", 10, 2)
    assert PAYLOAD.encode() in request.body


@pytest.mark.parametrize(("letters", "said"), [(40_000, "40002"), (300_000, "over 262144")])
def test_a_result_that_is_too_large_fails_for_good_and_says_how_large(letters: int, said: str) -> None:
    answer, _ = call(says(json.dumps("x" * letters).encode()), LAMBDA)
    assert seen(answer) == ("FAILED", "RESULT_TOO_LARGE", False)
    assert f"{said} bytes of JSON; at most 32768 are kept" in text(answer)


@pytest.mark.parametrize("body", [b'{"rows": NaN}', b"[" * 5_000, b'"\\ud800"', b'"\xff"', b"1e999"])
def test_a_result_that_json_cannot_carry_fails_for_good(body: bytes) -> None:
    answer, _ = call(says(body), LAMBDA)
    assert seen(answer) == ("FAILED", "RESULT_UNREADABLE", False)
    assert answer.result is None


def cut(body: bytes, *headers: bytes) -> Callable[[Exchange], None]:
    """Answers with more promised than sent."""
    head = b"\r\n".join([b"HTTP/1.1 200 OK", b"Content-Length: 999", *headers, b"", b""])
    return lambda exchange: exchange.wfile.write(head + body) and None


@pytest.mark.parametrize("body", [b"", b'{"rows": 1', b'{"rows": 1}'])
def test_a_function_that_has_ended_is_not_called_again_for_an_answer_that_was_cut(body: bytes) -> None:
    answer, requests = call(cut(body), LAMBDA)
    assert seen(answer) == ("FAILED", "RESULT_UNREADABLE", False)
    assert len(requests) == 1
    answer, _ = call(cut(body), LAMBDA, callback_token="t0ken")
    assert seen(answer) == ("COMPLETED", None, True)
    answer, _ = call(cut(body, b"X-Amz-Function-Error: Unhandled"), LAMBDA)
    assert seen(answer) == ("FAILED", "TARGET_ERROR", True)


@pytest.mark.parametrize("body", [b'{"rows": NaN}', json.dumps("x" * 300_000).encode(), b"OK"])
def test_what_a_function_returns_that_has_accepted_means_nothing(body: bytes) -> None:
    answer, _ = call(says(body), LAMBDA, callback_token="t0ken")
    assert (seen(answer), answer.result) == (("COMPLETED", None, True), None)


FUNCTION_ERROR = {"errorType": "KeyError", "errorMessage": "'customer'", "stackTrace": []}


def test_an_error_of_a_function_is_a_target_error() -> None:
    answer, _ = call(says(FUNCTION_ERROR, error=True), LAMBDA)
    assert seen(answer) == ("FAILED", "TARGET_ERROR", True)
    assert text(answer) == "KeyError: 'customer'"


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b"null"])
def test_an_error_without_its_form_is_one_too(body: bytes) -> None:
    answer, _ = call(says(body, error=True), LAMBDA)
    assert seen(answer) == ("FAILED", "TARGET_ERROR", True)


@pytest.mark.parametrize(("kind", "retryable"), [("KeyError", True), ("NonRetryable", False)])
def test_an_error_of_a_handler_is_named_by_its_class(kind: str, retryable: bool) -> None:
    outcome = {"error": {"type": kind, "message": "no customer", "retryable": retryable}}
    answer, _ = call(says(outcome), HANDLER)
    assert seen(answer) == ("FAILED", f"HANDLER_ERROR:{kind}", retryable)
    assert text(answer) == "no customer"


def test_a_handler_whose_process_dies_failed_and_at_its_deadline_timed_out() -> None:
    died = {"errorType": "Runtime.ExitError", "errorMessage": "Runtime exited with error: exit status 1"}
    answer, _ = call(says(died, error=True), HANDLER)
    assert seen(answer) == ("FAILED", "HANDLER_ERROR:Runtime.ExitError", True)

    def die_late(exchange: Exchange) -> None:
        exchange.receiver.stopped.wait(1)
        says(died, error=True)(exchange)

    answer, _ = call(die_late, HANDLER, timeout_seconds=1)
    assert seen(answer) == ("TIMED_OUT", "TIMEOUT", True)


def test_the_jobs_functions_own_timeout_counts_as_the_handlers() -> None:
    answer, _ = call(says({"errorType": "Sandbox.Timedout", "errorMessage": "Task timed out"}, error=True), HANDLER)
    assert seen(answer) == ("TIMED_OUT", "TIMEOUT", True)


@pytest.mark.parametrize(
    "body", [b"null", b"{}", b'"x"', b'{"result": 1}', json.dumps({"result": "x" * 40_000}).encode()]
)
def test_an_answer_of_the_jobs_function_in_another_form_is_not_taken(body: bytes) -> None:
    answer, _ = call(says(body), HANDLER)
    assert seen(answer) == ("FAILED", "TARGET_ERROR", True)


@pytest.mark.parametrize(("target", "least"), [(LAMBDA, 0.9), (HANDLER, 1.4)])
def test_a_function_that_hangs_times_out(target: dict[str, str], least: float) -> None:
    started = time.monotonic()
    answer, requests = call(lambda exchange: exchange.receiver.stopped.wait(10) and None, target, timeout_seconds=1)
    assert seen(answer) == ("TIMED_OUT", "TIMEOUT", True)
    assert least <= time.monotonic() - started < 2
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("TooManyRequestsException", 429, ("FAILED", "TARGET_ERROR", True)),
        ("ServiceException", 500, ("FAILED", "TARGET_ERROR", True)),
        ("ResourceConflictException", 409, ("FAILED", "TARGET_ERROR", True)),
        ("ThrottlingException", 400, ("FAILED", "TARGET_ERROR", True)),
        ("ResourceNotFoundException", 404, ("FAILED", "TARGET_ERROR", False)),
        ("AccessDeniedException", 403, ("FAILED", "TARGET_ERROR", False)),
        ("InvalidRequestContentException", 400, ("FAILED", "TARGET_ERROR", False)),
    ],
)
def test_what_lambda_refuses_is_sent_once(code: str, status: int, expected: tuple[str, str, bool]) -> None:
    refusal = says({"Message": "see there"}, status=status, X_Amzn_ErrorType=code, Retry_After="7")
    answer, requests = call(refusal, LAMBDA)
    assert seen(answer) == expected
    assert text(answer) == f"{code}: see there"
    assert answer.retry_after == 7
    assert len(requests) == 1


def test_a_connection_that_breaks_is_a_network_error() -> None:
    answer, requests = call(lambda exchange: exchange.connection.close(), LAMBDA)
    assert seen(answer) == ("FAILED", "NETWORK_ERROR", True)
    assert len(requests) == 1


@pytest.mark.parametrize("target", [LAMBDA, HANDLER])
def test_the_error_of_a_function_is_always_one_that_can_be_stored(target: dict[str, Any]) -> None:
    """Python makes lone surrogates of file names that are no UTF-8; DynamoDB's client refuses them."""
    long = "E" * 300_000
    for body in (
        {"errorType": "E\udcff", "errorMessage": "no file '\udcff'"},
        {"errorType": long[:9_000], "errorMessage": long[:9_000]},
        {"error": {"type": "E\ud800", "message": "\ud800" * 2_000, "retryable": True}},
    ):
        answer, _ = call(says(body, error="errorType" in body), target)
        if answer.error is not None:
            json.dumps([answer.error.code, answer.error.message], ensure_ascii=False).encode()
            assert len(answer.error.code) <= 128
            assert len(answer.error.message) <= 1_000

    answer, _ = call(says(b"[" * 100_000, error=True), target)
    assert answer.status is ExecutionStatus.FAILED
