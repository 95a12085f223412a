"""The routes of job types' configurations."""

from __future__ import annotations

from typing import Any

import pytest

from functions.domain.instants import rfc3339
from tests.api_client import Api, machine, user

ADMIN = user("root", "admin")
PATH = "/v1/retry-configs/billing"
BODY = {
    "maxRetries": 8,
    "jitter": 0,
    "poisonDetection": True,
    "circuitBreaker": {"failureThreshold": 3},
    "maxConcurrency": 20,
}


@pytest.fixture
def api() -> Api:
    return Api(claims=ADMIN)


def test_a_configuration_is_put_read_replaced_and_taken_away(api: Api) -> None:
    shown = {"jobType": "billing", **BODY, "updatedAt": rfc3339(int(api.clock.now())), "updatedBy": "root"}
    assert api.get(PATH).status == 404
    put = api.put(PATH, BODY)
    assert (put.status, put.json) == (200, shown)
    assert api.get(PATH).json == shown
    assert api.put(PATH, {}).json == {key: shown[key] for key in ("jobType", "updatedAt", "updatedBy")}
    assert api.delete(PATH).status == 204
    gone = api.delete(PATH)
    assert (gone.status, gone.message) == (404, "There is no retry configuration of the job type billing.")


def test_they_are_listed_by_name_a_page_at_a_time(api: Api) -> None:
    for name in ("b", "a", "c"):
        api.put(f"/v1/retry-configs/{name}", {"maxRetries": 1})
    first = api.get("/v1/retry-configs", query="limit=2").json
    second = api.get("/v1/retry-configs", query=f"limit=2&cursor={first['pagination']['cursor']}").json
    assert [each["jobType"] for each in first["data"] + second["data"]] == ["a", "b", "c"]
    assert second["pagination"] == {}
    assert api.get("/v1/retry-configs", query="cursor=AAAA").status == 400


@pytest.mark.parametrize(
    "claims",
    [user("alice", "scheduler"), user("victor", "viewer"), user("nobody"), machine("m", "gnomon/read", "gnomon/write")],
    ids=["scheduler", "viewer", "no group", "machine"],
)
def test_everybody_reads_and_only_admins_change(api: Api, claims: dict[str, Any]) -> None:
    api.put(PATH, BODY)
    assert api.get(PATH, claims=claims).status == 200
    assert len(api.get("/v1/retry-configs", claims=claims).json["data"]) == 1
    for refused in (
        api.put(PATH, {}, claims=claims),
        api.put(PATH, {"maxRetries": -1}, claims=claims),
        api.delete(PATH, claims=claims),
        api.delete("/v1/retry-configs/unknown", claims=claims),
    ):
        assert (refused.status, refused.code) == (403, "FORBIDDEN")
    assert api.get(PATH).json["maxRetries"] == 8


def test_a_machine_with_the_admin_scope_changes_them(api: Api) -> None:
    assert api.put(PATH, BODY, claims=machine("m", "gnomon/admin")).json["updatedBy"] == "m"


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"maxRetries": 101}, "maxRetries", "101 is over the limit of 100"),
        ({"maxRetries": True}, "maxRetries", "true is not an integer"),
        ({"maxRetries": None}, "maxRetries", "null is not an integer"),
        ({"jitter": 1.5}, "jitter", "1.5 is over the limit of 1.0"),
        ({"backoffStrategy": "random"}, "backoffStrategy", "\"random\" is not 'exponential', 'linear' or 'fixed'"),
        ({"poisonDetection": 1}, "poisonDetection", "1 is neither true nor false"),
        ({"maxConcurrency": 0}, "maxConcurrency", "0 is below the limit of 1"),
        ({"maxConcurrency": 1001}, "maxConcurrency", "1001 is over the limit of 1000"),
        ({"circuitBreaker": {"failureThreshold": 0}}, "circuitBreaker.failureThreshold", "0 is below the limit of 1"),
        ({"circuitBreaker": {"openSecs": 1}}, "circuitBreaker.openSecs", "is not a known field"),
        ({"circuitBreaker": None}, "circuitBreaker", "null is not an object"),
        ({"timeoutSeconds": 5}, "timeoutSeconds", "is not a known field"),
        ({"jobType": "billing"}, "jobType", "is not a known field"),
        ([], "body", "is not a JSON object"),
    ],
)
def test_a_refusal_names_field_value_and_limit(api: Api, body: Any, field: str, message: str) -> None:
    refused = api.put(PATH, body)
    assert (refused.status, refused.fields) == (400, {field: message})
    assert api.get(PATH).status == 404


@pytest.mark.parametrize("name", ["billing/eu", "a:b=c", "x" * 64, "0", "a/b/c/d"])
@pytest.mark.parametrize("encoded", [False, True])
def test_a_type_is_any_that_a_job_can_have(api: Api, name: str, encoded: bool) -> None:
    path = "/v1/retry-configs/" + (name.replace("/", "%2F").replace(":", "%3A") if encoded else name)
    api.create(type=name)
    assert api.put(path, {"maxRetries": 1}).json["jobType"] == name
    assert api.get(path).json["jobType"] == name
    assert api.delete(path).status == 204


@pytest.mark.parametrize(
    ("name", "message"),
    [("-a", '"-a" does not match'), ("x" * 65, "is over the limit of 64 characters"), ("a%0A", "does not match")],
)
def test_what_can_be_no_type_is_named(api: Api, name: str, message: str) -> None:
    for refused in (api.get(f"/v1/retry-configs/{name}"), api.put(f"/v1/retry-configs/{name}", {})):
        assert refused.status == 400
        assert message in refused.fields["jobType"]


def test_other_methods_and_parameters(api: Api) -> None:
    assert api.post(PATH, {}).headers["Allow"] == "DELETE, GET, PUT"
    assert api.get(PATH, query="x=1").status == 400
    assert api.put(PATH, "{}", headers={"content-type": "text/plain"}).status == 415


def test_a_job_shows_what_it_says_itself(api: Api) -> None:
    api.put(PATH, BODY)
    job = api.get(api.create(type="billing", retryConfig={"maxRetries": 2})).json
    assert job["retryConfig"] == {"maxRetries": 2}
