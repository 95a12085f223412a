"""Payloads that take from results, and conditions, as the API takes them: at create, at every change, in bulk."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api_client import Api
from tests.factories import new_id


@pytest.fixture
def api() -> Api:
    return Api()


def body(**changes: Any) -> dict[str, Any]:
    document = {"name": "child", "schedule": None, "target": {"type": "handler", "name": "echo"}, **changes}
    return {name: value for name, value in document.items() if value is not None}


def made(api: Api, **changes: Any) -> str:
    answer = api.post("/v1/jobs", body(**{"schedule": {"type": "interval", "everySeconds": 60}, **changes}))
    assert answer.status == 201, answer.json
    return str(answer.json["id"])


def depending(parent: str, **changes: Any) -> dict[str, Any]:
    return body(**{"dependsOn": [{"jobId": parent}], **changes})


def fields(answer: Any, status: int = 400) -> dict[str, str]:
    assert answer.status == status, answer.json
    return {one["field"]: one["message"] for one in answer.json["error"]["details"]}


def test_a_payload_takes_from_those_it_depends_on_only(api: Api) -> None:
    parent, other = made(api), made(api)
    payload = {"a": [{"$from": parent, "path": "rows[0]"}]}
    answer = api.post("/v1/jobs", depending(parent, payload=payload))
    assert (answer.status, answer.json["payload"]) == (201, payload)
    refused = fields(api.post("/v1/jobs", depending(parent, payload={"a": [{"$from": other}]})))
    assert f'"{other}" is none of the jobs in dependsOn' in refused["payload.a[0].$from"]
    refused = fields(api.post("/v1/jobs", depending(parent, payload={"$from": parent, "path": "a["})))
    assert "at character 3" in refused["payload.path"]


def test_conditions_are_checked_with_their_place(api: Api) -> None:
    parent = made(api)
    refused = fields(api.post("/v1/jobs", body(dependsOn=[{"jobId": parent, "when": "length("}])))
    assert "at character 8" in refused["dependsOn[0].when"]


def test_a_change_of_either_is_checked_against_the_other(api: Api) -> None:
    parent, other = made(api), made(api)
    child = api.post("/v1/jobs", depending(parent, payload={"a": {"$from": parent}})).json["id"]
    patch = {"dependsOn": [{"jobId": other}]}
    assert "payload.a.$from" in fields(api.patch(f"/v1/jobs/{child}", patch))
    assert "payload.b.$from" in fields(api.patch(f"/v1/jobs/{child}", {"payload": {"b": {"$from": other}}}))
    both = {**patch, "payload": {"a": {"$from": other}}}
    assert api.patch(f"/v1/jobs/{child}", both).status == 200


def test_a_job_that_depends_on_nobody_may_have_any_payload(api: Api) -> None:
    made(api, payload={"$from": new_id(), "more": [{"$from": 5}]})


def test_items_of_a_bulk_are_checked_each_by_itself(api: Api) -> None:
    parent = made(api)
    good, bad = depending(parent), depending(parent, payload={"$from": "x"})
    answer = api.post("/v1/jobs/bulk", {"items": [good, bad]})
    statuses = [one["status"] for one in answer.json["data"]]
    assert statuses == [201, 400]
