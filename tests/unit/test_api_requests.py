"""What holds for every request: paths and methods, content types, query parameters, limits, faults."""

from __future__ import annotations

import pytest

from functions.domain.errors import UnavailableError
from tests.api_client import SCHEDULER, Api, make_body, sample_event, user
from tests.factories import JOB_ID
from tests.fakes import InMemoryRateLimits, World


def test_unknown_paths_are_not_found() -> None:
    api = Api()
    for path in ("/", "/v1", "/v1/jobs/", "/v1/job", "/v2/jobs", "/v1/jobs/retry", "/v1/jobs/bulk", "/v1/jobs/../jobs"):
        assert (api.get(path).status, path) == (404, path)
    assert api.answer(sample_event("api-unknown-route")).code == "NOT_FOUND"


@pytest.mark.parametrize("identifier", ["1", "retry", "%00", JOB_ID.upper(), JOB_ID + "0", "{jobId}", "../health"])
def test_a_job_id_is_a_uuid(identifier: str) -> None:
    api = Api()
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        assert api.call(method, f"/v1/jobs/{identifier}").status == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/jobs", "GET, POST"),
        ("POST", f"/v1/jobs/{JOB_ID}", "DELETE, GET, PATCH, PUT"),
        ("GET", f"/v1/jobs/{JOB_ID}/pause", "POST"),
        ("POST", "/health", "GET"),
        ("PUT", f"/v1/executions/{JOB_ID}-1800000000-0001", "GET"),
    ],
)
def test_other_methods_are_not_allowed(method: str, path: str, allowed: str) -> None:
    reply = Api().call(method, path)
    assert (reply.status, reply.code, reply.headers["Allow"]) == (405, "METHOD_NOT_ALLOWED", allowed)


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "application/vnd.gnomon.v1+json",
        "*/*",
        "text/html, application/json;q=0.5",
        "application/*",
        "APPLICATION/JSON; charset=utf-8",
    ],
)
def test_json_of_version_one_is_answered(accept: str) -> None:
    assert Api().get("/v1/jobs", headers={"accept": accept}).status == 200


@pytest.mark.parametrize(
    "accept", ["application/vnd.gnomon.v2+json", "text/html", "application/json;q=0", "application/json; q=0.0", "x"]
)
def test_nothing_else_is_answered(accept: str) -> None:
    reply = Api().get("/v1/jobs", headers={"accept": accept})
    assert (reply.status, reply.code) == (406, "NOT_ACCEPTABLE")


def test_the_page_is_html_whatever_is_accepted() -> None:
    assert Api().get("/docs", headers={"accept": "text/html"}).status == 200


@pytest.mark.parametrize(
    ("content_type", "post", "patch"),
    [
        ("application/json", 201, 200),
        ("application/json; charset=UTF-8", 201, 200),
        ("Application/JSON", 201, 200),
        ("application/merge-patch+json", 415, 200),
        ("application/json; charset=latin-1", 415, 415),
        ("text/plain", 415, 415),
        ("application/x-www-form-urlencoded", 415, 415),
        ("application/json-patch+json", 415, 415),
        ("", 415, 415),
    ],
)
def test_which_bodies_are_read(content_type: str, post: int, patch: int) -> None:
    api = Api()
    job = api.create()
    headers = {"content-type": content_type}
    assert api.post("/v1/jobs", make_body(), headers=headers).status == post
    reply = api.patch(job, {"tags": ["x"]}, headers=headers)
    assert reply.status == patch
    assert patch == 200 or "merge-patch" in reply.message


def test_header_names_are_read_in_any_case() -> None:
    api = Api()
    job = api.create()
    assert api.patch(job, "{}", headers={"content-type": "", "Content-Type": "application/json"}).status == 200
    assert api.get(job, headers={"If-None-Match": "*"}).status == 304


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("/v1/jobs", "Limit=5", "Limit"),
        ("/v1/jobs", "limit=5&offset=1", "offset"),
        ("/v1/jobs", "limit=0", "limit"),
        ("/v1/jobs", "limit=101", "limit"),
        ("/v1/jobs", "limit=ten", "limit"),
        ("/v1/jobs", "limit=1.0", "limit"),
        ("/v1/jobs", "limit=%D9%A1", "limit"),
        ("/v1/jobs", "limit=" + "9" * 5000, "limit"),
        ("/v1/jobs", "limit=", "limit"),
        ("/v1/jobs", "limit=1&limit=2", "query"),
        ("/v1/jobs", "status=RUNING", "status"),
        ("/v1/jobs", "cursor=x", "cursor"),
        ("/v1/jobs", "cursor=", "cursor"),
        ("/v1/jobs", "cursor=" + "x" * 3000, "cursor"),
        ("/v1/jobs", "type=%ff", "query"),
        ("/v1/jobs", "&".join(f"a{number}=1" for number in range(60)), "query"),
        ("/v1/schedule/preview", "timezone=UTC", "expression"),
        ("/v1/schedule/preview", "expression=0+0+30+2+*", "expression"),
        ("/v1/schedule/preview", "expression=*+*+*+*+*&timezone=../etc/passwd", "timezone"),
        ("/v1/schedule/preview", "expression=*+*+*+*+*&count=101", "count"),
        ("/v1/schedule/preview", "expression=*+*+*+*+*&after=now", "after"),
        ("/v1/schedule/preview", "expression=*+*+*+*+*&jobId=1", "jobId"),
        ("/health", "verbose=1", "verbose"),
        ("/docs", "x=1", "x"),
    ],
)
def test_query_parameters_are_known_and_in_range(path: str, query: str, field: str) -> None:
    reply = Api().get(path, query=query)
    assert (reply.status, list(reply.fields)) == (400, [field])
    assert len(reply.message) < 300


def test_a_query_parameter_of_a_write_is_named_too() -> None:
    api = Api()
    job = api.create()
    for method, path in (("POST", "/v1/jobs"), ("PUT", job), ("PATCH", job), ("DELETE", job), ("POST", f"{job}/pause")):
        assert list(api.call(method, path, query="dryRun=1").fields) == ["dryRun"]


def test_what_is_left_of_the_callers_limit_is_said() -> None:
    api = Api(limits=InMemoryRateLimits(writes_per_minute=3, reads_per_minute=2))
    assert api.get("/v1/jobs").headers["RateLimit-Remaining"] == "1"
    invalid = api.get("/v1/jobs", query="x=1")
    assert (invalid.status, invalid.headers["RateLimit-Remaining"]) == (400, "0")
    refused = api.get("/v1/jobs")
    assert (refused.status, refused.code) == (429, "RATE_LIMITED")
    assert refused.headers["RateLimit-Limit"] == "2"
    assert refused.headers["RateLimit-Remaining"] == "0"
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert api.post("/v1/jobs", make_body()).headers["RateLimit-Limit"] == "3"
    assert api.get("/v1/jobs", claims=user("bob")).status == 200
    assert api.get("/health").status == 200
    api.clock.advance(60)
    assert api.get("/v1/jobs").status == 200


def test_only_creations_count_for_the_daily_limit() -> None:
    api = Api(limits=InMemoryRateLimits(creations_per_day=1))
    job = api.create()
    assert api.post("/v1/jobs", make_body()).status == 429
    assert api.post(f"{job}/pause").status == 200


def test_what_is_refused_is_no_creation() -> None:
    api = Api(limits=InMemoryRateLimits(creations_per_day=2))
    for _ in range(5):
        assert api.post("/v1/jobs", make_body(timeoutSeconds=-1)).status == 400
        assert api.post("/v1/jobs", make_body(schedule={"type": "cron", "expression": "0 0 30 2 *"})).status == 400
        assert api.post("/v1/jobs", make_body(dependsOn=[{"jobId": JOB_ID}], schedule=None)).status == 400
        answer = api.post("/v1/jobs/bulk", {"items": [{}, {}]})
        assert [one["status"] for one in answer.json["data"]] == [400, 400]
    api.create()
    assert api.post("/v1/jobs/bulk", {"items": [{}, make_body()]}).status == 429
    api.create()
    assert api.post("/v1/jobs", make_body()).status == 429


def test_a_fault_is_500_and_says_nothing_of_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(World):
        def __post_init__(self) -> None:
            super().__post_init__()
            self.jobs.get = self.fail  # type: ignore[method-assign,assignment]  # the one broken port

        def fail(self, *_: object, **__: object) -> None:
            raise RuntimeError("secret-table-name")

    reply = Api(Broken()).get(f"/v1/jobs/{JOB_ID}")
    assert (reply.status, reply.code) == (500, "INTERNAL_ERROR")
    assert "secret" not in (reply.text or "")
    assert "JKJaXmPLvHcESHA=" in caplog.text
    assert "secret-table-name" in caplog.text


def test_unavailable_is_503_with_retry_after() -> None:
    class Busy(InMemoryRateLimits):
        def take(self, *_: object, **__: object) -> None:  # type: ignore[override]  # never returns
            raise UnavailableError

    reply = Api(limits=Busy()).get("/v1/jobs")
    assert (reply.status, reply.code, reply.headers["Retry-After"]) == (503, "UNAVAILABLE", "1")


def test_answers_do_not_leak_from_one_request_to_the_next() -> None:
    api = Api()
    assert "RateLimit-Limit" in api.get("/v1/jobs").headers
    assert "RateLimit-Limit" not in api.get("/live").headers
    assert api.get("/v1/jobs", claims=SCHEDULER | {"token_use": "id"}).status == 401


def test_a_field_s_name_is_cut_like_a_value() -> None:
    reply = Api().post("/v1/jobs", make_body(**{"x" * 100_000: 1}))
    assert reply.status == 400
    assert reply.fields == {"x" * 64: "is not a known field"}
    assert len(reply.text or "") < 1_000
