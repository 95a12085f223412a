from __future__ import annotations

import logging
from typing import Any

import pytest

from functions.adapters.answers import completed
from functions.adapters.targets import TargetRouter
from functions.domain.outcome import Invocation, TargetAnswer

INVOCATION = Invocation(
    job_id="job",
    slot_id="1800000000",
    run_id="job-1800000000",
    execution_id="job-1800000000-0001",
    attempt=1,
    scheduled_for=1_800_000_000,
    payload="{}",
    timeout_seconds=10,
)


class Named:
    def __init__(self, name: str) -> None:
        self._name = name

    def call(self, invocation: Invocation, target: dict[str, Any]) -> TargetAnswer:
        return completed(f"{self._name} {invocation.attempt} {target['type']}")

    call_handler = call


class Broken:
    def call(self, invocation: Invocation, target: dict[str, Any]) -> TargetAnswer:
        value = "s3cr" + "et"
        raise ValueError(f"Invalid header value {value}")


@pytest.mark.parametrize(
    ("kind", "name"), [("http", "http"), ("lambda", "lambda"), ("handler", "lambda"), ("sqs", "sqs")]
)
def test_each_type_has_its_adapter(kind: str, name: str) -> None:
    router = TargetRouter(http=Named("http"), lambda_=Named("lambda"), sqs=Named("sqs"))
    assert router.call(INVOCATION, {"type": kind}).result == f"{name} 1 {kind}"


@pytest.mark.parametrize("target", [{}, {"type": "worker"}, {"type": ["http"]}])
def test_an_unknown_type_is_final(target: dict[str, Any]) -> None:
    answer = TargetRouter(http=Broken(), lambda_=Named("lambda"), sqs=Named("sqs")).call(INVOCATION, target)
    assert answer.error is not None
    assert (answer.status, answer.error.code, answer.retryable) == ("FAILED", "TARGET_ERROR", False)


def test_it_never_raises_and_shows_nothing_of_an_unforeseen_error(caplog: pytest.LogCaptureFixture) -> None:
    router = TargetRouter(http=Broken(), lambda_=Named("lambda"), sqs=Named("sqs"))
    with caplog.at_level(logging.ERROR):
        answer = router.call(INVOCATION, {"type": "http"})
    assert answer.error is not None
    assert (answer.error.code, answer.retryable) == ("TARGET_ERROR", True)
    assert "ValueError" in answer.error.message
    assert "s3cret" not in answer.error.message + caplog.text
    assert "job-1800000000-0001" in caplog.text
