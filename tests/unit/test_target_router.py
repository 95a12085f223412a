from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from functions.adapters.answers import completed, failed
from functions.adapters.targets import TargetRouter
from functions.domain.circuit import Health
from functions.domain.outcome import Invocation, TargetAnswer, health_of
from tests.factories import make_rules

RULES = make_rules(handler_owners=(("billing.*", ("team-billing",)),))
TARGETS = {
    "http": {"type": "http", "url": "https://example.com/"},
    "lambda": {"type": "lambda", "functionName": "gnomon-test-team-a--report"},
    "handler": {"type": "handler", "name": "echo"},
    "sqs": {"type": "sqs", "queueUrl": "https://sqs.eu-central-1.amazonaws.com/123456789012/gnomon-test-team-a--work"},
}
INVOCATION = Invocation(
    job_id="job",
    owner="team-a",
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

    call_handler = call


@pytest.mark.parametrize(
    ("kind", "name"), [("http", "http"), ("lambda", "lambda"), ("handler", "lambda"), ("sqs", "sqs")]
)
def test_each_type_has_its_adapter(kind: str, name: str) -> None:
    router = TargetRouter(http=Named("http"), lambda_=Named("lambda"), sqs=Named("sqs"), rules=RULES)
    assert router.call(INVOCATION, TARGETS[kind]).result == f"{name} 1 {kind}"


@pytest.mark.parametrize(
    "target",
    [
        {"type": "http", "url": "https://example.com/", "headers": {"A": {"secretArn": "gnomon-test-team-b--key"}}},
        {"type": "lambda", "functionName": "gnomon-test-team-b--report"},
        {"type": "lambda"},
        {"type": "sqs", "queueUrl": TARGETS["sqs"]["queueUrl"].replace("team-a", "team-b")},
        {"type": "handler", "name": "billing.close"},
    ],
    ids=["secret", "function", "no name", "queue", "handler"],
)
def test_target_of_another_owner_is_not_called(target: dict[str, Any]) -> None:
    router = TargetRouter(http=Broken(), lambda_=Broken(), sqs=Broken(), rules=RULES)

    answer = router.call(INVOCATION, target)

    assert answer.error is not None
    assert (answer.status, answer.error.code, answer.retryable) == ("FAILED", "TARGET_ERROR", False)
    assert answer.was_sent is False
    assert "target." in answer.error.message


@pytest.mark.parametrize("kind", sorted(TARGETS))
def test_a_job_that_changed_hands_no_longer_reaches_what_its_first_owner_has(kind: str) -> None:
    router = TargetRouter(http=Named("http"), lambda_=Named("lambda"), sqs=Named("sqs"), rules=RULES)

    answer = router.call(replace(INVOCATION, owner="team-b"), TARGETS[kind])

    is_bound = kind in ("lambda", "sqs")
    assert (answer.status, answer.was_sent) == (("FAILED", False) if is_bound else ("COMPLETED", True))


def test_a_refused_call_says_nothing_of_its_target() -> None:
    router = TargetRouter(http=Broken(), lambda_=Broken(), sqs=Broken(), rules=RULES)

    refused = router.call(replace(INVOCATION, owner="team-b"), TARGETS["lambda"])

    assert health_of(refused) is Health.UNKNOWN
    assert health_of(failed("TARGET_ERROR", "unknown function", retryable=False)) is Health.UP


@pytest.mark.parametrize("target", [{}, {"type": "worker"}, {"type": ["http"]}])
def test_an_unknown_type_is_final(target: dict[str, Any]) -> None:
    answer = TargetRouter(http=Broken(), lambda_=Named("lambda"), sqs=Named("sqs"), rules=RULES).call(
        INVOCATION, target
    )
    assert answer.error is not None
    assert (answer.status, answer.error.code, answer.retryable) == ("FAILED", "TARGET_ERROR", False)


def test_it_never_raises_and_shows_nothing_of_an_unforeseen_error(caplog: pytest.LogCaptureFixture) -> None:
    router = TargetRouter(http=Broken(), lambda_=Named("lambda"), sqs=Named("sqs"), rules=RULES)
    with caplog.at_level(logging.ERROR):
        answer = router.call(INVOCATION, {"type": "http"})
    assert answer.error is not None
    assert (answer.error.code, answer.retryable) == ("TARGET_ERROR", True)
    assert "ValueError" in answer.error.message
    assert "s3cret" not in answer.error.message + caplog.text
    assert "job-1800000000-0001" in caplog.text
