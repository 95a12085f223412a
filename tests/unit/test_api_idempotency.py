from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from functions.domain.instants import rfc3339
from tests.api_client import Api, Reply, make_body, user
from tests.fakes import IDEMPOTENCY_TTL, World
from tests.faults import Crash

KEY = {"x-idempotency-key": "order-17"}


def jobs_of(api: Api) -> list[str]:
    return [job["id"] for job in api.get("/v1/jobs").json["data"]]


@pytest.mark.case(24)
def test_the_same_request_again_finds_the_same_job() -> None:
    api = Api()
    body = make_body(payload={"a": 1, "b": 2})
    first = api.post("/v1/jobs", body, headers=KEY)
    api.patch(f"/v1/jobs/{first.json['id']}", {"tags": ["x"]})
    reordered = json.dumps(dict(reversed(body.items())) | {"payload": {"b": 2, "a": 1}})
    again = api.post("/v1/jobs", reordered, headers=KEY)
    assert (again.status, again.json["id"], again.json["tags"]) == (201, first.json["id"], ["x"])
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    assert jobs_of(api) == [first.json["id"]]


@pytest.mark.case(24)
def test_another_body_is_refused_and_writes_nothing() -> None:
    api = Api()
    first = api.post("/v1/jobs", make_body(payload=1), headers=KEY)
    refused = api.post("/v1/jobs", make_body(payload=1.0), headers=KEY)
    assert (refused.status, refused.code) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert jobs_of(api) == [first.json["id"]]


@pytest.mark.case(24)
def test_another_caller_or_path_is_another_key() -> None:
    api = Api()
    first = api.post("/v1/jobs", make_body(), headers=KEY)
    bob = api.post("/v1/jobs", make_body(), headers=KEY, claims=user("bob", "scheduler"))
    assert bob.json["id"] != first.json["id"]
    assert api.post(f"/v1/jobs/{first.json['id']}/execute", headers=KEY).status == 200


@pytest.mark.case(24)
@pytest.mark.parametrize("key", ["", " ", "x" * 256, "a\tb", "é", "\x7f"])
def test_a_key_is_1_to_255_printable_characters(key: str) -> None:
    reply = Api().post("/v1/jobs", make_body(), headers={"idempotency-key": key})
    assert list(reply.fields) == ["idempotency-key"]
    assert Api().post("/v1/jobs", make_body(), headers={"idempotency-key": "x" * 255}).status == 201


def test_both_headers_are_one_key() -> None:
    api = Api()
    first = api.post("/v1/jobs", make_body(), headers={"x-idempotency-key": "k"})
    second = api.post("/v1/jobs", make_body(), headers={"idempotency-key": "k"})
    assert first.json["id"] == second.json["id"]
    both = {"idempotency-key": "k", "x-idempotency-key": "k"}
    assert api.post("/v1/jobs", make_body(), headers=both).json["id"] == first.json["id"]
    assert api.post("/v1/jobs", make_body(), headers=both | {"idempotency-key": "l"}).status == 400


def test_a_refused_request_keeps_nothing() -> None:
    api = Api()
    past = make_body(schedule={"type": "once", "at": "2027-01-15T07:00:00Z"})
    for body in (make_body(name=1), past):
        assert api.post("/v1/jobs", body, headers=KEY).status == 400
        assert api.world.idempotency.rows == {}
    assert api.post("/v1/jobs", make_body(), headers=KEY).status == 201


def test_a_repeat_is_answered_after_its_instant_is_past() -> None:
    api = Api()
    body = make_body(schedule={"type": "once", "at": "2027-01-15T08:00:05Z"})
    first: Reply = api.post("/v1/jobs", body, headers=KEY)
    api.clock.advance(600)
    again = api.post("/v1/jobs", body, headers=KEY)
    assert (again.status, again.json["id"]) == (201, first.json["id"])
    assert api.post("/v1/jobs", body).status == 400


@pytest.mark.case(24)
def test_an_expired_key_counts_as_gone() -> None:
    api = Api()
    first = api.post("/v1/jobs", make_body(), headers=KEY)
    api.clock.advance(IDEMPOTENCY_TTL + 1)
    assert api.world.idempotency.rows
    assert api.post("/v1/jobs", make_body(), headers=KEY).json["id"] != first.json["id"]


def test_an_action_with_a_key_is_done_once() -> None:
    api = Api()
    job = api.create(overlapPolicy="allow")
    for _ in range(2):
        assert len(api.post(f"{job}/execute", headers=KEY).json["activeRuns"]) == 1
    assert len(api.post(f"{job}/execute").json["activeRuns"]) == 2
    assert api.post(f"{job}/execute", headers={"x-idempotency-key": ""}).status == 400


@pytest.mark.case(25)
def test_fifty_requests_at_once_make_one_job() -> None:
    world = World()

    def post(_: int) -> Reply:
        # An app of its own each, as in functions that run side by side; what is shared is the world.
        return Api(world).post("/v1/jobs", make_body(), headers=KEY)

    with ThreadPoolExecutor(max_workers=50) as pool:
        replies = list(pool.map(post, range(50)))

    assert {reply.status for reply in replies} == {201}
    made = {reply.json["id"] for reply in replies}
    assert len(made) == 1
    assert jobs_of(Api(world)) == [*made]


@pytest.mark.case(24)
def test_a_request_that_crashed_anywhere_is_finished_by_its_repeat() -> None:
    for step in itertools.count(1):
        api = Api()
        api.world.faults.inject(crash_after=step)
        try:
            first = api.post("/v1/jobs", make_body(), headers=KEY)
        except Crash:
            first = None
        api.world.faults.disarm()
        again = api.post("/v1/jobs", make_body(), headers=KEY)
        assert again.status == 201
        assert jobs_of(api) == [again.json["id"]]
        if first is not None:
            assert first.json["id"] == again.json["id"]
            break
    assert step > 3


@pytest.mark.parametrize("gone", ["at once", "after its run", "when its body is refused by now"])
def test_a_repeat_after_the_job_was_deleted_finds_it_as_it_was_deleted(gone: str) -> None:
    api = Api()
    body = make_body(schedule={"type": "once", "at": "2027-01-15T08:00:05Z"})
    made = api.post("/v1/jobs", body, headers=KEY)
    api.clock.advance({"at once": 1, "after its run": 30, "when its body is refused by now": 600}[gone])
    assert api.delete(f"/v1/jobs/{made.json['id']}").status == 204
    deleted_at = int(api.clock.now())
    api.clock.advance(5)
    again = api.post("/v1/jobs", body, headers=KEY)
    assert (again.status, again.json["id"], again.json["status"]) == (201, made.json["id"], "CANCELLED")
    assert again.json["deletedAt"] == rfc3339(deleted_at)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "deletedAt" not in made.json
    assert jobs_of(api) == []
    assert api.get(f"/v1/jobs/{made.json['id']}").status == 404
    assert api.post("/v1/jobs", {**body, "payload": 1}, headers=KEY).status == 422


def test_a_repeat_finds_a_deleted_job_that_depends_on_another() -> None:
    api = Api()
    parent = api.create().rsplit("/", 1)[1]
    body = make_body(schedule=None, dependsOn=[{"jobId": parent}])
    made = api.post("/v1/jobs", body, headers=KEY).json["id"]
    api.delete(f"/v1/jobs/{made}")
    again = api.post("/v1/jobs", body, headers=KEY)
    assert (again.status, again.json["id"]) == (201, made)


def test_a_repeat_of_many_finds_those_that_were_deleted_and_the_others() -> None:
    api = Api()
    items = {"items": [make_body(name="a"), make_body(name="b"), make_body(name="")]}
    first = [one.get("job", {}).get("id") for one in api.post("/v1/jobs/bulk", items, headers=KEY).json["data"]]
    api.delete(f"/v1/jobs/{first[0]}")
    again = api.post("/v1/jobs/bulk", items, headers=KEY).json["data"]
    assert [one["status"] for one in again] == [201, 201, 400]
    assert [one.get("job", {}).get("id") for one in again] == first
    assert ["deletedAt" in one.get("job", {}) for one in again] == [True, False, False]


def test_a_repeat_of_a_workflow_finds_its_deleted_jobs() -> None:
    api = Api()
    body = {"name": "w", "jobs": {"a": {"target": {"type": "handler", "name": "echo"}}}}
    made = api.post("/v1/workflows", body, headers=KEY).json
    api.delete(f"/v1/jobs/{made['jobs'][0]['jobId']}")
    again = api.post("/v1/workflows", body, headers=KEY)
    assert (again.status, again.json["id"], again.json["jobs"][0]["status"]) == (201, made["id"], "DELETED")
