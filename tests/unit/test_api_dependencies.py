"""`dependsOn` over HTTP: what is refused, what a job shows, and what a change does to it."""

from __future__ import annotations

from typing import Any

import pytest

from functions.domain.hint import LOOK_SLOT
from tests.api_client import Api, make_body, user
from tests.factories import new_id

OTHERS = user("otto", "scheduler")


@pytest.fixture
def api() -> Api:
    return Api()


def root(api: Api, **changes: Any) -> str:
    """The id of a job with a schedule of its own."""
    return api.create(**changes).removeprefix("/v1/jobs/")


def child(api: Api, *parents: str, **changes: Any) -> str:
    depends_on = [{"jobId": one} for one in parents]
    return root(api, **{"schedule": None, "dependsOn": depends_on} | changes)


def depending(*parents: str, **changes: Any) -> dict[str, Any]:
    return make_body(schedule=None, dependsOn=[{"jobId": one} for one in parents], **changes)


def looks_sent(api: Api, job_id: str) -> int:
    hints = [one.hint for one in api.world.timetable.armed]
    return sum(hint.job_id == job_id and hint.slot_id == LOOK_SLOT for hint in hints)


def test_a_job_that_depends_on_another_waits_for_it(api: Api) -> None:
    parent = root(api)
    reply = api.post("/v1/jobs", depending(parent, join="all", onUpstreamFailure="fail"))
    assert reply.status == 201
    job = reply.json
    assert (job["status"], job["nextRunAt"]) == ("BLOCKED", None)
    assert job["dependsOn"] == [{"jobId": parent}]
    now = job["createdAt"]
    assert job["upstream"] == {"waitingFor": None, "since": now, "nextLookAt": now}
    assert "upstream" not in api.get(f"/v1/jobs/{parent}").json
    assert looks_sent(api, job["id"]) == 1
    assert [one["status"] for one in api.get("/v1/jobs", query="status=BLOCKED").json["data"]] == ["BLOCKED"]


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"schedule": None, "dependsOn": None}, "schedule", "only a job with dependsOn may leave it out"),
        ({"schedule": {"type": "interval", "everySeconds": 60}}, "schedule", "type interval: a job with dependsOn"),
        ({"schedule": {"type": "cron", "expression": "@daily"}}, "schedule", "type cron: a job with dependsOn runs"),
        ({"startAt": "2027-02-01T00:00:00Z"}, "startAt", "a schedule of its own"),
        ({"endAt": "2027-02-01T00:00:00Z"}, "endAt", "a schedule of its own"),
        ({"maxRuns": 3}, "maxRuns", "a schedule of its own"),
        ({"spreadSeconds": 3}, "spreadSeconds", "a schedule of its own"),
        ({"misfirePolicy": "skip"}, "misfirePolicy", "a schedule of its own"),
        ({"dependsOn": []}, "dependsOn", "has 0 entries, below the limit of 1"),
        ({"dependsOn": None, "schedule": {"type": "interval", "everySeconds": 9}, "join": "any"}, "join", "dependsOn"),
        ({"join": "some"}, "join", "is not 'all' or 'any'"),
        ({"onUpstreamFailure": "ignore"}, "onUpstreamFailure", "is not 'skip', 'fail' or 'run'"),
        ({"upstreamTimeoutSeconds": 59}, "upstreamTimeoutSeconds", "below the limit of 60"),
        ({"upstreamTimeoutSeconds": 31_536_001}, "upstreamTimeoutSeconds", "over the limit of 31536000"),
    ],
)
def test_what_the_fields_say_of_each_other_is_checked(api: Api, changes: Any, field: str, says: str) -> None:
    body = make_body(**{"schedule": None, "dependsOn": [{"jobId": root(api)}]} | changes)
    reply = api.post("/v1/jobs", body)
    assert (reply.status, reply.code) == (400, "VALIDATION_ERROR")
    assert says in reply.fields[field]
    assert not api.world.dependents.edges


@pytest.mark.parametrize(
    ("one", "field", "says"),
    [
        ({"jobId": "x"}, "dependsOn.1.jobId", "does not match"),
        ({}, "dependsOn.1.jobId", "is required"),
        ({"on": "always"}, "dependsOn.1.on", "is not 'success', 'failure' or 'completion'"),
        ({"when": "rows >"}, "dependsOn[1].when", "character 7"),
        ({"when": "nosuch(@)"}, "dependsOn[1].when", "nosuch"),
        ({"when": "x" * 1_025}, "dependsOn.1.when", "over the limit of 1024 characters"),
        ({"when": ""}, "dependsOn.1.when", "below the limit of 1 characters"),
        ({"on": "success", "extra": 1}, "dependsOn.1.extra", "is not a known field"),
    ],
)
def test_each_dependency_is_checked_by_its_place(api: Api, one: dict[str, Any], field: str, says: str) -> None:
    first, second = root(api), root(api)
    given = one if "jobId" in one or not one else {"jobId": second, **one}
    reply = api.post("/v1/jobs", make_body(schedule=None, dependsOn=[{"jobId": first}, given]))
    assert reply.status == 400
    assert says in reply.fields[field]


def test_a_job_is_named_once(api: Api) -> None:
    parent = root(api)
    reply = api.post("/v1/jobs", depending(parent, parent))
    assert reply.fields == {"dependsOn[1].jobId": f"{parent} is in dependsOn[0] already: name each job once."}


def test_a_foreign_job_reads_like_an_unknown_one(api: Api) -> None:
    foreign = api.post("/v1/jobs", make_body(), claims=OTHERS).json["id"]
    before, unknown = api.world.jobs.rows[foreign], new_id()
    for parent in (foreign, unknown):
        reply = api.post("/v1/jobs", depending(root(api), parent))
        assert (reply.status, reply.fields) == (400, {"dependsOn[1].jobId": f"There is no job {parent}."})
        path = api.create()
        reply = api.patch(path, {"schedule": None, "dependsOn": [{"jobId": parent}]})
        assert (reply.status, reply.fields) == (400, {"dependsOn[0].jobId": f"There is no job {parent}."})
    assert api.world.jobs.rows[foreign] == before
    assert not api.world.dependents.edges


def test_the_same_request_again_finds_the_job_also_when_its_parent_is_gone(api: Api) -> None:
    parent = root(api)
    body, key = depending(parent), {"idempotency-key": "k"}
    made = api.post("/v1/jobs", body, headers=key).json["id"]
    assert api.delete(f"/v1/jobs/{parent}").status == 204
    again = api.post("/v1/jobs", body, headers=key)
    assert (again.status, again.json["id"]) == (201, made)
    assert api.post("/v1/jobs", body).status == 400


def test_a_key_whose_request_was_refused_is_free_again(api: Api) -> None:
    key = {"idempotency-key": "k"}
    assert api.post("/v1/jobs", depending(new_id()), headers=key).status == 400
    assert api.post("/v1/jobs", depending(root(api)), headers=key).status == 201


def test_items_of_a_bulk_request_have_parents_each_by_itself(api: Api) -> None:
    parent, unknown = root(api), new_id()
    reply = api.post("/v1/jobs/bulk", {"items": [depending(parent), depending(unknown), depending(parent)]})
    assert [one["status"] for one in reply.json["data"]] == [201, 400, 201]
    assert reply.json["data"][1]["error"]["details"][0]["field"] == "dependsOn[0].jobId"
    made = [one["job"]["id"] for one in reply.json["data"] if one["status"] == 201]
    assert api.world.dependents.edges == {parent: set(made)}
    assert [looks_sent(api, one) for one in made] == [1, 1]


def test_the_earliest_start_is_a_schedule_of_type_once(api: Api) -> None:
    job_id = child(api, root(api), schedule={"type": "once", "at": "2027-02-01T00:00:00Z"})
    assert api.get(f"/v1/jobs/{job_id}").json["nextRunAt"] is None
