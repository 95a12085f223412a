from __future__ import annotations

from typing import Any

import pytest

from functions.domain.errors import InvalidFieldError
from functions.domain.target import check_target
from tests.factories import make_rules

RULES = make_rules()
LOCAL = make_rules(account="000000000000", unguarded_origins=("http://127.0.0.1:*", "!http://127.0.0.1:4566"))
OWN = '"gnomon-test-team-a--"'
ARN = "arn:aws:lambda:eu-central-1:123456789012:function:"
SECRET = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:"
QUEUE = "https://sqs.eu-central-1.amazonaws.com/123456789012/"


def http(**headers: Any) -> dict[str, Any]:
    return {
        "type": "http",
        "url": "https://example.com/",
        "headers": {k.replace("_", "-"): v for k, v in headers.items()},
    }


def refusal(target: dict[str, Any], rules: Any = RULES) -> tuple[str, str]:
    with pytest.raises(InvalidFieldError) as caught:
        check_target(target, rules, "team-a")
    return caught.value.field, caught.value.message


@pytest.mark.parametrize(
    "target",
    [
        {"type": "http", "url": "https://example.com/"},
        {"type": "http", "url": "https://example.com/", "method": "PATCH", "headers": None},
        http(Authorization="Bearer abc", X_Trace="", User_Agent="me"),
        http(Authorization={"secretArn": SECRET + "gnomon-test-team-a--hooks-a1b2c3"}),
        http(X_Api_Key={"secretArn": "gnomon-test-team-a--hooks/key"}),
        {"type": "lambda", "functionName": "gnomon-test-team-a--report"},
        {"type": "lambda", "functionName": ARN + "gnomon-test-team-a--report:live"},
        {"type": "sqs", "queueUrl": QUEUE + "gnomon-test-team-a--work"},
        {"type": "sqs", "queueUrl": QUEUE + "gnomon-test-team-a--work.fifo"},
        {"type": "handler", "name": "invoices.close"},
    ],
)
def test_targets_that_are_allowed(target: dict[str, Any]) -> None:
    check_target(target, RULES, "team-a")


@pytest.mark.parametrize(
    ("target", "field", "words"),
    [
        ({"type": "lambda", "functionName": "billing"}, "target.functionName", ['"billing"', OWN]),
        ({"type": "lambda", "functionName": ARN + "billing"}, "target.functionName", [OWN]),
        (
            {"type": "lambda", "functionName": "123456789012:function:gnomon-test-team-a--x"},
            "target.functionName",
            ["name or ARN"],
        ),
        ({"type": "lambda"}, "target.functionName", ["null"]),
        ({"type": "sqs", "queueUrl": QUEUE + "billing"}, "target.queueUrl", [OWN]),
        (
            {"type": "sqs", "queueUrl": "https://evil.example/123456789012/gnomon-test-team-a--work"},
            "target.queueUrl",
            ["sqs.<region>"],
        ),
        (
            {"type": "sqs", "queueUrl": "http://127.0.0.1:4566/000000000000/gnomon-test-team-a--work"},
            "target.queueUrl",
            ["sqs.<region>"],
        ),
        ({"type": "sqs", "queueUrl": QUEUE + "gnomon-test-team-a--work?x=1"}, "target.queueUrl", ["sqs.<region>"]),
        ({"type": "handler", "name": ""}, "target.name", ['""']),
        ({"type": "fax"}, "target.type", ['"fax"', '"http"']),
        ({"type": "worker"}, "target.queue", ["null", "64"]),
        ({"type": "worker", "queue": "a/b"}, "target.queue", ['"a/b"']),
        ({}, "target.type", ["null"]),
        ({"type": "http", "url": "https://example.com/", "method": "TRACE"}, "target.method", ['"TRACE"', '"DELETE"']),
        ({"type": "http", "url": "http://example.com/"}, "target.url", ["https"]),
        (http(A={"secretArn": SECRET + "other-key"}), "target.headers.A.secretArn", [OWN]),
        (http(A={"secretArn": "gnomon-test-team-a--x", "more": 1}), "target.headers.A", ["secretArn"]),
        (http(A=1), "target.headers.A", ["string"]),
        (http(A="x" * 4_097), "target.headers.A", ["4096"]),
        (http(A="x", a="y"), "target.headers.a", ["twice"]),
        ({**http(), "headers": {"X-Note": "x", "x_note": "y"}}, "target.headers.x_note", ["twice"]),
        ({**http(), "headers": {"a b": "c"}}, "target.headers", ['"a b"']),
        ({**http(), "headers": {"": "c"}}, "target.headers", ['""']),
        ({**http(), "headers": {f"x-{n}": "" for n in range(31)}}, "target.headers", ["31", "30"]),
    ],
)
def test_refusals_name_field_value_and_rule(target: dict[str, Any], field: str, words: list[str]) -> None:
    at, message = refusal(target)
    assert at == field
    assert all(word in message for word in [field, *words]), message


@pytest.mark.parametrize(
    "name",
    ["Host", "content-length", "Content-Type", "Transfer-Encoding", "Connection", "TE", "Upgrade",
     "Proxy-Authorization", "webhook-signature", "Webhook-Id", "gnomon-job-id", "Gnomon-Anything", "accept-encoding",
     "Webhook_Id", "gnomon_job-id", "Content_Length", "TRANSFER_ENCODING"],
)  # fmt: skip
def test_headers_of_the_sender_and_of_the_hop_cannot_be_set(name: str) -> None:
    field, message = refusal({**http(), "headers": {name: "x"}})
    assert field == f"target.headers.{name}"
    assert "sender" in message


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\x00b", "ä", "\x7f"])
def test_header_values_carry_no_line_breaks_and_are_not_shown(value: str) -> None:
    _, message = refusal(http(X_Note=value))
    assert "line breaks" in message
    assert value not in message


def test_queues_of_an_emulator_are_allowed_where_the_stage_has_one() -> None:
    check_target(
        {"type": "sqs", "queueUrl": "http://127.0.0.1:4566/000000000000/gnomon-test-team-a--work"}, LOCAL, "team-a"
    )
    refusal({"type": "sqs", "queueUrl": "http://127.0.0.1:4566/000000000000/work"}, LOCAL)
    refusal({"type": "sqs", "queueUrl": "http://10.0.0.1:4566/000000000000/gnomon-test-team-a--work"}, LOCAL)
