"""The `jobs` function as the engine reaches it: the adapter's request, the handler's answer, the adapter's reading."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from functions.adapters.lambda_target import LambdaTarget, invoke_config
from functions.domain.outcome import Invocation, TargetAnswer
from functions.handlers import jobs
from tests.receiver import Exchange, receiving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.usefixtures("loopback")

JOB = "3f1c2a4e-0b5d-4c7e-9a8f-1234567890ab"


class SystemClock:
    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


def run_job(name: str, payload: str) -> TargetAnswer:
    def invoke(exchange: Exchange) -> None:
        (request,) = exchange.receiver.requests
        exchange.answer(200, json.dumps(jobs.handler(json.loads(request.body), None)).encode())

    return call_handler(invoke, name, payload)


def call_handler(
    invoke: Callable[[Exchange], None], name: str, payload: str, timeout_seconds: int = 10
) -> TargetAnswer:
    invocation = Invocation(
        job_id=JOB,
        owner="team-a",
        slot_id="1800000000",
        run_id=f"{JOB}-1800000000",
        execution_id=f"{JOB}-1800000000-0001",
        attempt=1,
        scheduled_for=1_800_000_000,
        payload=payload,
        timeout_seconds=timeout_seconds,
    )
    with receiving(invoke) as receiver:
        client: Any = boto3.client(
            "lambda",
            region_name="eu-central-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            endpoint_url=f"http://127.0.0.1:{receiver.port}",
            config=invoke_config(60),
        )
        try:
            target = LambdaTarget(client, jobs_function="jobs", clock=SystemClock())
            return target.call_handler(invocation, {"type": "handler", "name": name})
        finally:
            client.close()


def test_a_registered_handler_runs_and_keeps_the_kind_of_numbers() -> None:
    answer = run_job("echo", '{"r":1.0,"n":170141183460469231731687303715884105728,"z":-0.0,"t":"é"}')
    assert answer.status == "COMPLETED"
    assert answer.result == (
        '{"payload":{"r":1.0,"n":170141183460469231731687303715884105728,"z":-0.0,"t":"é"},'
        f'"runId":"{JOB}-1800000000","attempt":1,"scheduledFor":"2027-01-15T08:00:00Z"}}'
    )


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("none", "HANDLER_ERROR:UnknownHandler", "echo, expire-files"),
        ("expire-files", "HANDLER_ERROR:NonRetryable", "directory"),
    ],
)
def test_failures_come_back_with_class_and_message(name: str, code: str, words: str) -> None:
    answer = run_job(name, "{}")
    assert answer.error is not None
    assert (answer.status, answer.error.code, answer.retryable) == ("FAILED", code, False)
    assert words in answer.error.message


def test_the_sample_event_is_what_the_adapter_sends_and_the_handler_understands() -> None:
    sample = json.loads((Path(__file__).parents[2] / "events" / "jobs.json").read_text())
    assert json.loads(jobs.handler(sample, None)["result"])["payload"] == sample["payload"]
    older = json.loads((Path(__file__).parents[2] / "events" / "jobs-v1.json").read_text())
    assert json.loads(jobs.handler(older, None)["result"])["payload"] == older["payload"]
    sent: list[dict[str, Any]] = []

    def invoke(exchange: Exchange) -> None:
        sent.append(json.loads(exchange.receiver.requests[0].body))
        exchange.answer(200, b'{"result": "1"}')

    call_handler(invoke, sample["handler"], json.dumps(sample["payload"]), timeout_seconds=60)
    assert sent == [sample]


SWALLOWS = "while True:\n    try:\n        time.sleep(1)\n    except BaseException:\n        pass"
BLOCKS_IN_C = "re.match('(a+)+$', 'a' * 60 + 'b')"
KILLED = "os.kill(os.getpid(), signal.SIGKILL)"


@contextlib.contextmanager
def process_with(body: str) -> Iterator[Callable[[Exchange], None]]:
    """Answers as Lambda does whose runtime is a process with this handler: what that says, or that it ended."""
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    script = (
        "import json, os, re, signal, sys, time\nfrom functions.handlers import jobs\nfrom functions.jobs import job\n"
        f"@job('stuck')\ndef stuck(payload, run):\n{indented}\n"
        "print('ready', flush=True)\nprint(json.dumps(jobs.handler(json.loads(sys.stdin.readline()), None)))\n"
    )

    def invoke(exchange: Exchange) -> None:
        process.stdin.write(exchange.receiver.requests[0].body + b"\n")
        process.stdin.flush()
        if said := process.stdout.read():
            exchange.answer(200, said)
            return
        error = {"errorType": "Runtime.ExitError", "errorMessage": f"exit status {process.wait()}"}
        exchange.answer(200, json.dumps(error).encode(), X_Amz_Function_Error="Unhandled")

    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process: Any
    with subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parents[2], **pipes) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            yield invoke
        finally:
            process.kill()


@pytest.mark.parametrize("body", [SWALLOWS, BLOCKS_IN_C], ids=["swallows", "in C"])
def test_an_attempt_ends_at_its_timeout_whatever_its_handler_does(body: str) -> None:
    with process_with(body) as respond:
        started = time.monotonic()
        answer = call_handler(respond, "stuck", "{}", timeout_seconds=2)
        took = time.monotonic() - started
    assert (answer.status, answer.error and answer.error.code, answer.retryable) == ("TIMED_OUT", "TIMEOUT", True)
    assert 2 <= took <= 3


def test_a_handlers_process_that_is_killed_is_a_failure_at_once() -> None:
    with process_with(KILLED) as respond:
        answer = call_handler(respond, "stuck", "{}", timeout_seconds=20)
    assert answer.error
    assert (answer.status, answer.error.code, answer.retryable) == ("FAILED", "HANDLER_ERROR:Runtime.ExitError", True)
