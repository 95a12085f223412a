"""What a job's body may say: fields, kinds, ranges, schedules, targets."""

from __future__ import annotations

from typing import Any

import pytest

from functions.adapters.address_guard import AddressGuard
from functions.domain.errors import InvalidFieldError
from tests.api_client import Api, make_body
from tests.factories import NOW, make_rules

WORKER = {"type": "worker", "queue": "reports"}
HANDLER = {"type": "handler", "name": "echo"}


def refused(field: str, **changes: Any) -> str:
    """The message for the field that makes this body invalid."""
    reply = Api().post("/v1/jobs", make_body(**changes))
    assert (reply.status, reply.code) == (400, "VALIDATION_ERROR"), reply.text
    assert list(reply.fields) == [field]
    return reply.message


@pytest.mark.parametrize(
    "name",
    ["id", "status", "Name", "retries", "depends_on", "approvals", ""],
)
def test_unknown_fields_are_named(name: str) -> None:
    assert refused(name, **{name: "x"}).endswith("is not a known field")


def test_unknown_fields_inside_are_named() -> None:
    refused("schedule.cron", schedule={"type": "interval", "everySeconds": 60, "cron": "* * * * *"})
    refused("target.body", target={"type": "http", "url": "https://example.com", "body": "x"})
    refused("retryConfig.retries", retryConfig={"retries": 1})


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"timeoutSeconds": 841}, "timeoutSeconds", ["841", "840"]),
        ({"timeoutSeconds": 841, "completion": "callback", "target": HANDLER}, "timeoutSeconds", ["841", "840"]),
        ({"completion": "callback", "target": WORKER}, "completion", ["worker"]),
        ({"completion": "callback", "orchestrated": True}, "orchestrated", ["callback"]),
        ({"orchestrated": True, "target": WORKER}, "orchestrated", ["worker"]),
        ({"circuitBreaker": {}, "target": WORKER}, "circuitBreaker", ["worker"]),
        ({"concurrencyKey": "db"}, "maxConcurrency", ["required", "concurrencyKey"]),
        ({"maxConcurrency": 3}, "concurrencyKey", ["required", "maxConcurrency"]),
    ],
)
def test_what_fields_of_execution_say_of_each_other(changes: dict[str, Any], field: str, words: list[str]) -> None:
    message = refused(field, **changes)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    "changes",
    [
        {"timeoutSeconds": 840},
        {"timeoutSeconds": 86_400, "target": WORKER},
        {"timeoutSeconds": 86_400, "completion": "callback"},
        {"completion": "callback", "target": HANDLER},
        {"orchestrated": True, "circuitBreaker": {}},
        {"concurrencyKey": "db", "maxConcurrency": 3},
    ],
)
def test_fields_of_execution_that_go_together(changes: dict[str, Any]) -> None:
    reply = Api().post("/v1/jobs", make_body(**changes))
    assert reply.status == 201, reply.text
    assert {name: reply.json[name] for name in changes} == changes


def test_every_wrong_field_is_named_at_once() -> None:
    reply = Api().post("/v1/jobs", {"name": 3, "schedule": {"type": "cron"}, "timeoutSeconds": 86_401, "x": 1})
    assert reply.fields == {
        "name": "3 is not a string",
        "schedule.expression": "is required",
        "target": "is required",
        "timeoutSeconds": "86401 is over the limit of 86400",
        "x": "is not a known field",
    }
    assert reply.message.startswith("name: 3 is not a string; ")


RANGES: list[tuple[str, str, float, float]] = [
    ("retryConfig", "maxRetries", 0, 100),
    ("retryConfig", "initialDelaySeconds", 0, 86_400),
    ("retryConfig", "maxDelaySeconds", 1, 86_400),
    ("retryConfig", "multiplier", 1, 10),
    ("retryConfig", "jitter", 0, 1),
    ("retryConfig", "retryWindowSeconds", 1, 31_536_000),
    ("", "timeoutSeconds", 1, 840),
    ("", "misfireGraceSeconds", 1, 86_400),
    ("", "maxRuns", 1, 1_000_000_000),
    ("", "alertAfterSeconds", 60, 31_536_000),
]


@pytest.mark.parametrize(("parent", "name", "least", "most"), RANGES, ids=[name for _, name, _, _ in RANGES])
def test_numbers_are_numbers_in_range(parent: str, name: str, least: float, most: float) -> None:
    def with_value(value: object) -> dict[str, Any]:
        return {parent: {name: value}} if parent else {name: value}

    field = f"{parent}.{name}" if parent else name
    api = Api()
    for value in (least, most):
        assert api.post("/v1/jobs", make_body(**with_value(value))).status == 201
    assert f"{least - 1} is below the limit of {least}" in refused(field, **with_value(least - 1))
    assert f"{most + 1} is over the limit of {most}" in refused(field, **with_value(most + 1))
    for value in (True, str(least), [], 10**400):
        refused(field, **with_value(value))


@pytest.mark.case(12)
@pytest.mark.parametrize("literal", ["-5", "NaN", "1e400", "true", '"5"', "null"])
def test_a_delay_is_a_number(literal: str) -> None:
    body = '{"name":"a","schedule":{"type":"interval","everySeconds":60},'
    body += (
        '"target":{"type":"http","url":"https://example.com"},"retryConfig":{"initialDelaySeconds":' + literal + "}}"
    )
    assert Api().post("/v1/jobs", body).status == 400


@pytest.mark.case(12)
def test_a_delay_over_fifteen_minutes_is_not_cut() -> None:
    api = Api()
    job = api.create(retryConfig={"initialDelaySeconds": 901})
    assert api.get(job).json["retryConfig"] == {"initialDelaySeconds": 901}


@pytest.mark.parametrize("value", ["soon", "HIGH", 1, None])
def test_policies_are_from_their_lists(value: object) -> None:
    api = Api()
    for name in ("overlapPolicy", "misfirePolicy", "priority"):
        assert list(api.post("/v1/jobs", make_body() | {name: value}).fields) == [name]


@pytest.mark.parametrize(
    ("schedule", "field"),
    [
        (None, "schedule"),
        ("* * * * *", "schedule"),
        ({}, "schedule"),
        ({"type": "rate"}, "schedule"),
        ({"type": "cron", "expression": "0 0 30 2 *"}, "schedule.expression"),
        ({"type": "cron", "expression": "* * * * * *"}, "schedule.expression"),
        ({"type": "cron", "expression": "* " * 200}, "schedule.expression"),
        ({"type": "cron", "expression": "* * * * *", "timezone": "../etc/passwd"}, "schedule.timezone"),
        ({"type": "cron", "expression": "* * * * *", "timezone": 1}, "schedule.timezone"),
        ({"type": "interval", "everySeconds": 0}, "schedule.everySeconds"),
        ({"type": "interval", "everySeconds": 31_536_001}, "schedule.everySeconds"),
        ({"type": "interval", "everySeconds": 60.0}, "schedule.everySeconds"),
        ({"type": "once", "at": "2027-01-15T07:00:00Z"}, "schedule.at"),
        ({"type": "once", "at": "2037-02-15T07:00:00Z"}, "schedule.at"),
        ({"type": "once", "at": 1_800_000_000}, "schedule.at"),
        ({"type": "once", "at": "tomorrow"}, "schedule.at"),
    ],
)
def test_schedules_are_checked(schedule: object, field: str) -> None:
    reply = Api().post("/v1/jobs", make_body() | {"schedule": schedule})
    assert (reply.status, list(reply.fields)) == (400, [field])
    assert len(reply.message) < 300


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"startAt": "2027-02-01T00:00:00Z", "endAt": "2027-01-31T00:00:00Z"}, "endAt"),
        ({"endAt": "2026-01-31T00:00:00Z"}, "endAt"),
        ({"startAt": "later"}, "startAt"),
        ({"spreadSeconds": 61}, "spreadSeconds"),
        ({"spreadSeconds": -1}, "spreadSeconds"),
        ({"startAt": None}, "startAt"),
    ],
)
def test_limits_of_a_schedule_are_checked(limits: dict[str, Any], field: str) -> None:
    reply = Api().post("/v1/jobs", make_body() | limits)
    assert (reply.status, list(reply.fields)) == (400, [field])


@pytest.mark.parametrize(
    ("target", "field"),
    [
        ({"type": "worker", "queue": "a b"}, "target.queue"),
        ({"type": "fax", "number": "1"}, "target"),
        ({"type": "http", "url": "http://example.com/"}, "target.url"),
        ({"type": "http", "url": "https://10.0.0.1/"}, "target.url"),
        ({"type": "http", "url": "https://user:pw@example.com/"}, "target.url"),
        ({"type": "http", "url": 1}, "target.url"),
        ({"type": "http", "url": "https://example.com", "method": "TRACE"}, "target.method"),
        ({"type": "lambda", "functionName": "payroll"}, "target.functionName"),
        ({"type": "sqs", "queueUrl": "https://sqs.eu-central-1.amazonaws.com/123456789012/other"}, "target.queueUrl"),
        ({"type": "handler", "name": "a b"}, "target.name"),
        ({"type": "handler"}, "target.name"),
    ],
)
def test_targets_are_checked(target: dict[str, Any], field: str) -> None:
    refused(field, target=target)


def test_a_refused_name_says_which_are_allowed() -> None:
    message = refused("target.functionName", target={"type": "lambda", "functionName": "payroll"})
    assert '"gnomon-test-alice--"' in message


@pytest.mark.parametrize(
    "value",
    ["line\nbreak", "\u00e9", 5, None, {"secretArn": 1}, {"secret": "gnomon-x"}, {}, "x" * 5000, ["a"]],
)
def test_header_values_are_never_shown(value: object) -> None:
    message = refused(
        "target.headers.X-Api-Key",
        target={"type": "http", "url": "https://example.com", "headers": {"X-Api-Key": value}},
    )
    assert "line" not in message.replace("without line breaks", "")
    assert "xxxx" not in message


def test_header_names_are_names() -> None:
    for name in ("a b", "a:b", "", "Host", "Webhook-Id"):
        reply = Api().post(
            "/v1/jobs", make_body(target={"type": "http", "url": "https://example.com", "headers": {name: "x"}})
        )
        assert reply.status == 400
        assert next(iter(reply.fields)).startswith("target.headers")


def test_a_payload_is_never_shown() -> None:
    reply = Api().post("/v1/jobs", make_body(payload={"password": "hunter2"}, name=5))
    assert "hunter2" not in (reply.text or "")


def test_a_long_value_is_cut_in_the_message() -> None:
    message = refused("name", name="n" * 5000)
    assert "n" * 60 in message
    assert "n" * 64 not in message
    assert "128" in message


def test_the_address_of_a_target_is_looked_up_at_create_and_where_the_target_changes() -> None:
    asked: list[str] = []

    def check(url: str) -> None:
        asked.append(url)
        if "inside" in url:
            raise InvalidFieldError("target.url", f"target.url {url} leads to a private address.")

    api = Api(check_address=check)
    refusal = api.post("/v1/jobs", make_body(target={"type": "http", "url": "https://inside.example.com/"}))
    assert refusal.message == "target.url https://inside.example.com/ leads to a private address."
    job = api.create()
    assert api.patch(job, {"tags": ["x"]}).status == 200
    assert len(asked) == 2
    assert api.patch(job, {"target": {"url": "https://inside.example.com/"}}).status == 400
    assert api.get(job).json["target"]["url"] == "https://example.com/hook"
    assert api.create(target={"type": "handler", "name": "echo"})
    assert len(asked) == 3


def test_a_listed_origin_may_be_plain_http() -> None:
    assert Api().create(target={"type": "http", "url": "http://127.0.0.1:9000/hook"})


@pytest.mark.case(2)
def test_once_a_few_seconds_past_runs_now_and_an_hour_past_is_refused() -> None:
    api = Api()
    job = api.create(schedule={"type": "once", "at": "2027-01-15T07:59:55Z"})
    assert api.get(job).json["nextRunAt"] == "2027-01-15T07:59:55Z"
    assert [hint.slot_id for hint in api.world.timetable.hints(job.rsplit("/", 1)[1])] == [str(NOW - 5)]
    assert "2027-01-15T07:00:00Z" in refused("schedule.at", schedule={"type": "once", "at": "2027-01-15T07:00:00Z"})


@pytest.mark.case(2)
def test_a_local_time_that_clocks_leap_over_is_refused_with_its_neighbours() -> None:
    schedule = {"type": "once", "at": "2027-03-28T02:30:00", "timezone": "Europe/Berlin"}
    message = refused("schedule.at", schedule=schedule)
    assert "2027-03-28T01:30:00+01:00" in message
    assert "2027-03-28T03:30:00+02:00" in message


@pytest.mark.parametrize("tags", ["a", [""], ["a b"], [1], ["x" * 65], ["x"] * 21, {"a": 1}])
def test_tags_are_short_words(tags: object) -> None:
    assert next(iter(Api().post("/v1/jobs", make_body(tags=tags)).fields)).startswith("tags")


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
        "https://mixed.example.com/",
    ],
)
def test_a_target_that_leads_inside_is_refused_at_create_and_at_every_change(url: str) -> None:
    addresses = {"mixed.example.com": ["93.184.215.14", "10.0.0.1"], "example.com": ["93.184.215.14"]}
    guard = AddressGuard(make_rules(), resolve=lambda host, _: addresses[host])
    api = Api(check_address=guard.check)
    target = {"type": "http", "url": url}
    job = api.create()
    for reply in (
        api.post("/v1/jobs", make_body(target=target)),
        api.put(job, make_body(target=target)),
        api.patch(job, {"target": {"url": url}}),
    ):
        assert (reply.status, list(reply.fields)) == (400, ["target.url"])
        assert "pw" not in reply.message
