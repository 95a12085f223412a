from __future__ import annotations

from typing import Any

import pytest

from functions.domain.errors import InvalidFieldError
from functions.domain.target import check_target, masked_target, unmasked
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
     "Proxy-Authorization", "webhook-signature", "Webhook-Id", "gnomon-job-id", "Gnomon-Anything", "accept-encoding"],
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


SENSITIVE = ["Authorization", "COOKIE", "Proxy-Authorization", "X-Api-Key", "x-auth-token", "Client-Secret", "token"]


@pytest.mark.parametrize("name", SENSITIVE)
def test_plain_values_of_sensitive_headers_are_masked(name: str) -> None:
    target = {"type": "http", "url": "https://example.com/", "headers": {name: "s3cret", "X-Trace": "on"}}
    assert masked_target(target)["headers"] == {name: "***", "X-Trace": "on"}
    assert target["headers"][name] == "s3cret"


def test_masking_keeps_names_of_secrets_and_targets_without_headers() -> None:
    reference = {"secretArn": SECRET + "gnomon-test-team-a--a"}
    assert masked_target(http(Authorization=reference))["headers"] == {"Authorization": reference}
    assert masked_target({"type": "handler", "name": "echo"}) == {"type": "handler", "name": "echo"}


def test_a_mask_that_comes_back_keeps_the_stored_value() -> None:
    old = http(Authorization="Bearer abc", X_Trace="1", X_Key={"secretArn": SECRET + "gnomon-test-team-a--a"})
    shown = masked_target(old)
    assert unmasked(shown, old) == old
    assert unmasked(http(authorization="***", X_Trace="***"), old)["headers"] == {
        "authorization": "Bearer abc",
        "X-Trace": "***",
    }
    assert unmasked(http(Authorization="new"), old) == http(Authorization="new")
    assert unmasked({"type": "handler", "name": "echo"}, old) == {"type": "handler", "name": "echo"}


@pytest.mark.parametrize("old", [None, {"type": "handler", "name": "echo"}, http(X_Trace="1")])
def test_a_mask_without_a_stored_value_is_refused(old: dict[str, Any] | None) -> None:
    with pytest.raises(InvalidFieldError, match=r"no stored value") as caught:
        unmasked(http(Authorization="***"), old)
    assert caught.value.field == "target.headers.Authorization"


@pytest.mark.parametrize(
    "url", ["https://evil.example/", "http://example.com/", "https://example.com:8443/", "https://example.com.evil.io/"]
)
def test_a_mask_is_not_sent_to_another_origin(url: str) -> None:
    old = http(Authorization="Bearer abc", X_Trace="1")
    with pytest.raises(InvalidFieldError, match="leads elsewhere") as caught:
        unmasked(http(Authorization="***") | {"url": url}, old)
    assert caught.value.field == "target.headers.Authorization"
    assert "abc" not in caught.value.message
    moved = http(Authorization="new", X_Trace="1") | {"url": url}
    assert unmasked(moved, old) == moved
    there = old | {"url": f"{old['url'].rstrip('/')}/other?a=1"}
    assert unmasked(masked_target(there), old) == there
