"""POST /v1/jobs/bulk: a result for each item, the request as a whole idempotent."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tests.api_client import Api, user
from tests.factories import make_document
from tests.faults import Crash

PATH = "/v1/jobs/bulk"


def items(count: int) -> list[dict[str, Any]]:
    return [make_document(name=f"job {number}") for number in range(count)]


def test_each_item_is_a_job() -> None:
    api = Api()
    reply = api.post(PATH, {"items": items(3)})
    assert reply.status == 200
    results = reply.json["data"]
    assert [(one["index"], one["status"], one["job"]["name"]) for one in results] == [
        (0, 201, "job 0"),
        (1, 201, "job 1"),
        (2, 201, "job 2"),
    ]
    assert all("payload" not in one["job"] for one in results)
    for one in results:
        assert api.get(f"/v1/jobs/{one['job']['id']}").status == 200
    assert len(api.world.timetable.armed) == 3


def test_an_item_that_is_refused_hinders_no_other() -> None:
    api = Api()
    good, unknown, never = make_document(), {**make_document(), "colour": "red"}, make_document()
    never["schedule"] = {"type": "cron", "expression": "0 0 30 2 *"}
    results = api.post(PATH, {"items": [unknown, good, never, 7]}).json["data"]
    assert [one["status"] for one in results] == [400, 201, 400, 400]
    assert results[0]["error"]["details"][0]["field"] == "colour"
    assert results[2]["error"]["details"][0]["field"] == "schedule.expression"
    assert len(api.world.jobs.rows) == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "items"), ({"items": []}, "items"), ({"items": items(101)}, "items"), ({"items": 5}, "items"), ([], "body")],
)
def test_the_request_itself_is_checked(body: Any, field: str) -> None:
    api = Api()
    reply = api.post(PATH, body)
    assert reply.status == 400
    assert reply.json["error"]["details"][0]["field"] == field
    assert not api.world.jobs.rows


def test_a_key_covers_the_whole_request() -> None:
    api = Api()
    headers = {"x-idempotency-key": "night"}
    first = api.post(PATH, {"items": items(5)}, headers=headers)
    again = api.post(PATH, {"items": items(5)}, headers=headers)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert [one["job"]["id"] for one in again.json["data"]] == [one["job"]["id"] for one in first.json["data"]]
    assert len(api.world.jobs.rows) == 5
    assert len(api.world.timetable.armed) == 5, "a repeat arms nothing anew"
    assert api.post(PATH, {"items": items(4)}, headers=headers).status == 422


@pytest.mark.parametrize("step", range(2, 9))
def test_a_request_that_died_is_finished_by_its_repeat(step: int) -> None:
    api = Api()
    headers = {"x-idempotency-key": "night"}
    api.world.faults.crash_after = step
    with contextlib.suppress(Crash):
        api.post(PATH, {"items": items(4)}, headers=headers)
    api.world.faults.disarm()
    results = api.post(PATH, {"items": items(4)}, headers=headers).json["data"]
    assert [one["status"] for one in results] == [201] * 4
    assert {one["job"]["id"] for one in results} == set(api.world.jobs.rows)
    assert sorted(row.definition.name for row in api.world.jobs.rows.values() if row.definition) == [
        f"job {number}" for number in range(4)
    ]


def test_every_item_counts_as_a_creation() -> None:
    api = Api()
    for _ in range(10):
        assert api.post(PATH, {"items": items(100)}).status == 200
    assert api.post(PATH, {"items": items(1)}).status == 429


def test_a_viewer_creates_nothing() -> None:
    api = Api()
    reply = api.post(PATH, {"items": items(1)}, claims=user("victor", "viewer"))
    assert reply.status == 403
    assert not api.world.jobs.rows


def test_a_body_of_many_jobs_may_be_four_megabytes() -> None:
    api = Api()
    large = [{**one, "payload": "x" * 100_000} for one in items(40)]
    assert api.post(PATH, {"items": large}).status == 200
    assert api.post(PATH, {"items": [*large, large[0], large[1]]}).status == 413
