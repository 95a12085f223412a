"""Requests that mean harm, or nothing: 400 or 413 with the field, the value and the limit, never 500."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.stack import job_body, problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.stack import Api

pytestmark = pytest.mark.e2e


def with_payload(raw: str | bytes) -> bytes:
    """A job's body whose payload is this text."""
    raw = raw.encode() if isinstance(raw, str) else raw
    return json.dumps(job_body()).encode()[:-1] + b', "payload": ' + raw + b"}"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("NaN", "NaN"),
        ("[Infinity]", "Infinity"),
        ("1e400", "1.797"),
        (r'"\ud800"', "surrogate"),
        (r'{"\udfff": 1}', "surrogate"),
        ("9" * 5_000, "4300"),
        ("-" + "9" * 5_000, "4300"),
        ("[" * 100_000 + "]" * 100_000, "100 levels"),
        ('{"a":' * 20_000 + "1" + "}" * 20_000, "100 levels"),
        ('{"a": 1, "a": 2}', '"a" twice'),
        ("[1,]", "JSON"),
        ("'single'", "JSON"),
        ('"\x01"', "JSON"),
        ("", "JSON"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else None,
)
def test_bad_json(api: Api, raw: str, said: str) -> None:
    problems = problem(api.post("/v1/jobs", with_payload(raw)), 400, "VALIDATION_ERROR")
    assert list(problems) == ["body"]
    assert said in problems["body"]


@pytest.mark.case(23)
def test_sizes(api: Api, create: Callable[..., dict[str, Any]]) -> None:
    problem(api.post("/v1/jobs", with_payload(json.dumps("x" * 300_000))), 413, "PAYLOAD_TOO_LARGE")
    answer = api.post("/v1/jobs", with_payload('"' + "é" * 140_000 + '"'))
    problem(answer, 413, "PAYLOAD_TOO_LARGE")
    assert "262144" in answer.json()["error"]["message"]
    answer = api.post("/v1/jobs", with_payload('"' + "x" * 131_072 + '"'))
    problem(answer, 413, "PAYLOAD_TOO_LARGE")
    assert "131072" in answer.json()["error"]["message"]
    kept: Any = {"zero": "a\u0000b", "smile": "😀", "deep": [[[[[[[[[["ten"]]]]]]]]]]}
    job = create(payload=kept)
    assert api.get(f"/v1/jobs/{job['id']}").json()["payload"] == kept


def test_bytes_that_are_no_text(api: Api) -> None:
    # The emulator's gateway puts U+FFFD for what is no UTF-8, so that the request may pass: never a 500.
    answer = api.post("/v1/jobs", with_payload(b'"\xff\xfe\xc3("'))
    assert answer.status_code in (201, 400)
    answer = api.post("/v1/jobs", b"\xff\xfe\x00")
    problem(answer, 400, "VALIDATION_ERROR")


@pytest.mark.parametrize("body", ["[]", '"text"', "7", "null", "true"])
def test_body_that_is_no_object(api: Api, body: str) -> None:
    assert list(problem(api.post("/v1/jobs", body), 400, "VALIDATION_ERROR")) == ["body"]


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"timeoutSeconds": 841}, "timeoutSeconds", ("841", "840")),
        ({"timeoutSeconds": 0}, "timeoutSeconds", ("0", "1")),
        ({"timeoutSeconds": True}, "timeoutSeconds", ("true",)),
        ({"timeoutSeconds": "5"}, "timeoutSeconds", ('"5"',)),
        ({"name": "x" * 129}, "name", ("128",)),
        ({"name": ""}, "name", ("1",)),
        ({"tags": ["x"] * 21}, "tags", ("20",)),
        ({"priority": "urgent"}, "priority", ("urgent", "high")),
        ({"schedule": {"type": "cron", "expression": "0 0 30 2 *"}}, "schedule.expression", ("0 0 30 2 *",)),
        ({"schedule": {"type": "cron", "expression": "* * * * * *"}}, "schedule.expression", ("* * * * * *",)),
        (
            {"schedule": {"type": "cron", "expression": "0 9 * * *", "timezone": "../etc/passwd"}},
            "schedule.timezone",
            ("../etc/passwd",),
        ),
        ({"schedule": {"type": "interval", "everySeconds": 0}}, "schedule.everySeconds", ("0", "1")),
        ({"schedule": {"type": "interval", "everySeconds": 31_536_001}}, "schedule.everySeconds", ("31536001",)),
        ({"schedule": {"type": "weekly"}}, "schedule", ("weekly", "cron")),
        ({"retryConfig": {"maxRetries": 101}}, "retryConfig.maxRetries", ("101", "100")),
        ({"retryConfig": {"initialDelaySeconds": -5}}, "retryConfig.initialDelaySeconds", ("-5", "0")),
        ({"retryConfig": {"initialDelaySeconds": True}}, "retryConfig.initialDelaySeconds", ("true",)),
    ],
)
@pytest.mark.case(12)
def test_field_value_and_limit(api: Api, changes: dict[str, Any], field: str, said: tuple[str, ...]) -> None:
    problems = problem(api.post("/v1/jobs", job_body(**changes)), 400, "VALIDATION_ERROR")
    assert list(problems) == [field]
    for part in said:
        assert part in problems[field]


def test_unknown_fields_are_named(api: Api, create: Callable[..., dict[str, Any]]) -> None:
    body = job_body(nonsense=1, retryConfig={"retries": 3})
    assert set(problem(api.post("/v1/jobs", body), 400, "VALIDATION_ERROR")) == {"nonsense", "retryConfig.retries"}
    assert "frobnicate" in problem(api.get("/v1/jobs?frobnicate=1"), 400, "VALIDATION_ERROR")
    assert "verbose" in problem(api.get(f"/v1/jobs/{create()['id']}?verbose=1"), 400, "VALIDATION_ERROR")
    assert "limit" in problem(api.get("/v1/jobs?limit=101"), 400, "VALIDATION_ERROR")
    assert "status" in problem(api.get("/v1/jobs?status=ASLEEP"), 400, "VALIDATION_ERROR")


def test_media_types(api: Api) -> None:
    for media in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"):
        problem(api.post("/v1/jobs", job_body(), headers={"Content-Type": media}), 415, "UNSUPPORTED_MEDIA_TYPE")
    problem(api.get("/v1/jobs", headers={"Accept": "application/vnd.gnomon.v2+json"}), 406, "NOT_ACCEPTABLE")
    assert api.get("/v1/jobs", headers={"Accept": "application/vnd.gnomon.v1+json"}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs/not-a-uuid",
        "/v1/jobs/00000000-0000-4000-8000-000000000000",
        "/v1/jobs/00000000-0000-4000-8000-00000000000G",
        "/v1/executions/nonsense",
        "/v1/executions/00000000-0000-4000-8000-000000000000-1795981387-0001",
        "/v1/nothing",
        "/v1/jobs/%2e%2e%2f%2e%2e/health",
        "/v1/jobs/%00",
    ],
)
def test_paths_that_lead_nowhere(api: Api, path: str) -> None:
    assert problem(api.get(path), 404, "NOT_FOUND") == {}
