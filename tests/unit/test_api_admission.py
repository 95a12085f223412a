"""Before a request's body is read its caller is known, has a role that is enough, and has used a token of its limit."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.api.app import routes_without_services
from functions.api.body import MAX_BODY_BYTES, MAX_BULK_BODY_BYTES, parse
from functions.api.request import Request
from functions.api.route import Access, Route
from functions.domain.errors import InvalidRequestError
from tests.api_client import Api, machine, make_body, sample_event, user
from tests.fakes import InMemoryRateLimits

KEY = {"X-Idempotency-Key": "once"}
TOKEN_ROUTES = [route for route in routes_without_services() if route.access is not Access.PUBLIC]
IDS = {
    "{jobId}": "878322b7-3813-4ce0-93ba-74fed6f791a0",
    "{workflowId}": "878322b7-3813-4ce0-93ba-74fed6f791a0",
    "{workerId}": "a" * 16,
    "{jobType}": "billing",
    "{circuitKey}": "http%3Aexample.com%3A443",
    "{executionId}": "878322b7-3813-4ce0-93ba-74fed6f791a0-1800000000-0001",
}


class CountingLimits(InMemoryRateLimits):
    """Remembers what was counted: requests by kind, and jobs."""

    def __init__(self, **limits: int) -> None:
        super().__init__(**limits)
        self.requests: Counter[str] = Counter()
        self.jobs = 0

    def take(self, caller: str, kind: str, *, now: float, creations: int = 0) -> Any:
        allowance = super().take(caller, kind, now=now, creations=creations)
        self.requests[kind] += 1
        self.jobs += creations
        return allowance

    def create(self, caller: str, creations: int, *, now: float) -> None:
        super().create(caller, creations, now=now)
        self.jobs += creations

    def give_back(self, caller: str, *, creations: int) -> None:
        super().give_back(caller, creations=creations)
        self.jobs -= creations


def path_of(route: Route) -> str:
    path = route.path
    for parameter, value in IDS.items():
        path = path.replace(parameter, value)
    return path


@pytest.mark.parametrize("route", TOKEN_ROUTES, ids=lambda route: route.operation)
@pytest.mark.parametrize(
    ("what", "options"),
    {
        "a body that is no JSON": {"body": "{"},
        "a body of the wrong shape": {"body": {"items": [], "nonsense": 1}},
        "an unknown query parameter": {"query": "nonsense=1"},
        "an Accept header that nothing meets": {"headers": {"accept": "image/png"}},
    }.items(),
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
@pytest.mark.parametrize("groups", [("scheduler",), ("admin",), ()], ids=["scheduler", "admin", "viewer"])
def test_every_refused_request_counts(
    route: Route, what: str, options: dict[str, Any], groups: tuple[str, ...]
) -> None:
    limits = CountingLimits()
    reply = Api(limits=limits).call(route.method, path_of(route), claims=user("carol", *groups), **options)
    assert limits.requests == {route.access.value: 1}, what
    assert "RateLimit-Remaining" in reply.headers
    assert limits.jobs == 0 or reply.status < 300


@pytest.mark.parametrize("route", [route for route in TOKEN_ROUTES if route.role], ids=lambda route: route.operation)
def test_body_is_not_read_for_a_role_that_is_not_enough(route: Route) -> None:
    reply = Api().call(route.method, path_of(route), body="{", claims=user("vera", "viewer"))
    assert (reply.status, reply.code) == (403, "FORBIDDEN")


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_body_of_a_change_is_not_read_for_a_viewer(method: str) -> None:
    api = Api()
    own, foreign = api.create(), api.create()
    api.world.jobs.rows[own.rpartition("/")[2]] = _given_to(api, own, "vera")
    vera = user("vera", "viewer")
    assert api.call(method, own, body="{", claims=vera).status == 403
    assert api.call(method, foreign, body="{", claims=vera).status == 404
    assert api.call(method, own, body="{").status == 400


def _given_to(api: Api, path: str, owner: str) -> Any:
    return replace(api.world.jobs.rows[path.rpartition("/")[2]], owner=owner)


def test_body_is_parsed_once() -> None:
    request = Request(
        {**sample_event("api-get-job"), "body": '{"a": [1]}', "headers": {"content-type": "application/json"}}
    )
    assert request.json() is request.json()


def test_caller_over_its_limit_has_no_body_read() -> None:
    api = Api(limits=InMemoryRateLimits(writes_per_minute=1))
    api.create()
    assert api.post("/v1/jobs/bulk", "{").status == 429
    assert api.post("/v1/workflows", "{").status == 429


def workflow(size: int) -> dict[str, Any]:
    jobs = {f"step{number}": {"target": {"type": "handler", "name": "echo"}} for number in range(size)}
    return {"name": "many", "jobs": jobs}


@pytest.mark.parametrize(
    ("path", "body", "jobs"),
    [
        ("/v1/jobs", make_body(), 1),
        ("/v1/jobs/bulk", {"items": [make_body() for _ in range(5)]}, 5),
        ("/v1/jobs/bulk", {"items": [make_body(), {}, make_body(timeoutSeconds=-1)]}, 1),
        ("/v1/workflows", workflow(4), 4),
    ],
    ids=["one job", "bulk", "bulk with items that are refused", "workflow"],
)
def test_replay_is_no_creation(path: str, body: Any, jobs: int) -> None:
    limits = CountingLimits()
    api = Api(limits=limits)
    for _ in range(6):
        reply = api.post(path, body, headers=KEY)
        assert reply.status < 300
        assert limits.jobs == jobs
    assert reply.headers["Idempotency-Replayed"] == "true"


def test_replay_counts_the_jobs_that_it_makes() -> None:
    """The first request died after it had kept its ids, and gave nothing back."""
    limits = CountingLimits()
    api = Api(limits=limits)
    body = {"items": [make_body() for _ in range(3)]}
    api.post("/v1/jobs/bulk", body, headers=KEY)
    api.world.jobs.rows.clear()
    api.post("/v1/jobs/bulk", body, headers=KEY)
    assert limits.jobs == 6


def test_bulk_beyond_the_daily_limit_is_refused_whole() -> None:
    limits = CountingLimits(creations_per_day=4)
    api = Api(limits=limits)
    assert api.post("/v1/jobs/bulk", {"items": [make_body() for _ in range(5)]}).status == 429
    assert limits.jobs == 0
    assert api.post("/v1/workflows", workflow(5)).status == 429
    assert api.post("/v1/jobs/bulk", {"items": [make_body() for _ in range(4)]}).status == 200


# --- How long reading takes. CPU time of this thread, the least of some tries: a busy machine makes nothing longer. ---

SHAPES: dict[str, Callable[[int], str]] = {
    "digits": lambda size: "[" + ",".join(["1" * 4_300] * (size // 4_301)) + "]",
    "one run of digits in a string": lambda size: '["' + "1" * size + '"]',
    "letters": lambda size: '["' + "a" * size + '"]',
    "braces": lambda size: "[" + ",".join(["{}"] * (size // 3)) + "]",
    "escapes": lambda size: '["' + "\\u00e9" * (size // 6) + '"]',
    "halves of surrogate pairs": lambda size: '["' + "\\ud83d\\ude00" * (size // 12) + '"]',
    "exponents": lambda size: "[" + ",".join(["1.5e300"] * (size // 8)) + "]",
    "one long fraction": lambda size: "[0." + "3" * size + "]",
    "keys": lambda size: "{" + ",".join(f'"k{number:07}":1' for number in range(size // 13)) + "}",
    "white space": lambda size: "[" + " " * size + "]",
    "a body that is cut off": lambda size: '["' + "a" * size,
    "levels": lambda size: "[" * size,
}


def seconds(call: Callable[[], object], tries: int = 5) -> float:
    best = float("inf")
    for _ in range(tries):
        began = time.thread_time()
        call()
        best = min(best, time.thread_time() - began)
    return best


def read(text: str) -> None:
    with contextlib.suppress(InvalidRequestError):
        parse(text)


def _load(text: str) -> None:
    with contextlib.suppress(ValueError, RecursionError):
        json.loads(text)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_reading_takes_time_linear_in_the_size(shape: str) -> None:
    half, whole = SHAPES[shape](MAX_BODY_BYTES // 2), SHAPES[shape](MAX_BODY_BYTES)
    assert seconds(lambda: read(whole), 9) <= 2.5 * seconds(lambda: read(half), 9) + 0.002


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_largest_body_is_read_in_half_a_second(shape: str) -> None:
    """Half a second on a machine that does nothing else; on a slower one, a few times what json.loads takes."""
    for size, limit in ((MAX_BODY_BYTES, 0.1), (MAX_BULK_BODY_BYTES, 0.5)):
        text = SHAPES[shape](size)
        assert seconds(lambda: read(text), 2) < max(limit, 12 * seconds(lambda: _load(text), 2))  # noqa: B023


def many(number: int) -> dict[str, int]:
    return {f"x{index}": 1 for index in range(number)}


WRONG_JOBS: dict[str, Callable[[int], Any]] = {
    "unknown fields": many,
    "unknown fields beside good ones": lambda size: {**make_body(), **many(size)},
    "unknown fields of the schedule": lambda size: make_body(
        schedule={"type": "cron", "expression": "* * * * *", **many(size)}
    ),
    "unknown fields of the target": lambda size: make_body(target={"type": "handler", "name": "echo", **many(size)}),
    "unknown fields of retryConfig": lambda size: make_body(retryConfig=many(size)),
    "unknown fields of the gate": lambda size: make_body(approval=many(size)),
    "headers with bad names": lambda size: make_body(
        target={"type": "http", "url": "https://example.com", "headers": {f"b@d {index}": 1 for index in range(size)}}
    ),
    "bad dependencies": lambda size: make_body(dependsOn=[many(20)] * (size // 20), schedule=None),
    "bad tags": lambda size: make_body(tags=[1] * size),
    "bad error codes": lambda size: make_body(retryConfig={"retryableErrors": [1] * size}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRONG_JOBS)
def test_validation_stops_soon(kind: str) -> None:
    items = [WRONG_JOBS[kind](2_500) for _ in range(100)]
    api = Api(limits=InMemoryRateLimits(creations_per_day=100_000, writes_per_minute=100_000))
    body = json.dumps({"items": items})
    assert len(body) <= MAX_BULK_BODY_BYTES
    reading = seconds(lambda: parse(body), 2)
    answering = seconds(lambda: api.post("/v1/jobs/bulk", body), 2)
    assert answering - reading < 0.5
    reply = api.post("/v1/jobs/bulk", body)
    for one in reply.json["data"]:
        assert one["status"] == 400
        assert 1 <= len(one["error"]["details"]) <= 20


def test_unknown_fields_are_named_however_many_they_are() -> None:
    reply = Api().post("/v1/jobs", make_body(retryConfig=many(4_000)))
    assert reply.fields["retryConfig.x0"] == "is not a known field"
    assert len(reply.fields) == 20


def test_too_many_headers_are_counted_before_they_are_judged() -> None:
    headers = {f"bad name {number}": 1 for number in range(40)}
    target = {"type": "http", "url": "https://example.com", "headers": headers}
    assert Api().post("/v1/jobs", make_body(target=target)).fields == {
        "target.headers": "takes an object of at most 30 headers"
    }


REPORTS = {"reportProgress", "completeExecution", "failExecution"}


@pytest.mark.parametrize("route", TOKEN_ROUTES, ids=lambda route: route.operation)
def test_reporter_is_let_through_to_reports_only(route: Route) -> None:
    reply = Api().call(route.method, path_of(route), body="{", claims=machine("receiver", "gnomon/report"))
    assert reply.status == (400 if route.operation in REPORTS else 403)


def test_reporter_needs_the_token_of_the_attempt() -> None:
    api = Api()
    path = api.create(target={"type": "http", "url": "https://example.com"}, completion="callback")
    job_id = path.rpartition("/")[2]
    execution = f"{job_id}-{api.world.clock.now():.0f}-0001"
    for body in ({"workerId": "a" * 16, "fence": 1}, {"token": "guessed"}):
        reply = api.post(f"/v1/executions/{execution}/complete", body, claims=machine("receiver", "gnomon/report"))
        assert reply.status == (409 if "token" in body else 403)
