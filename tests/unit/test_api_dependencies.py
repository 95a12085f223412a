"""`dependsOn` over HTTP: what is refused, what a job shows, and what a change does to it."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from functions.domain.hint import LOOK_SLOT
from functions.domain.ids import slot_id
from functions.domain.job import Upstream
from functions.usecases import rewiring
from tests.api_client import Api, make_body, user
from tests.factories import NOW, make_run, new_id

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


# --- changes ---


def patched(api: Api, job_id: str, *parents: str, **changes: Any) -> Any:
    depends_on = [{"jobId": one} for one in parents] or None
    return api.patch(f"/v1/jobs/{job_id}", {"dependsOn": depends_on} | changes)


def test_a_scheduled_job_becomes_a_dependent_and_back(api: Api) -> None:
    parent, job_id = root(api), root(api)
    assert api.get(f"/v1/jobs/{job_id}").json["nextRunAt"] is not None
    job = patched(api, job_id, parent, schedule=None).json
    assert (job["status"], job["nextRunAt"], "schedule" in job) == ("BLOCKED", None, False)
    assert looks_sent(api, job_id) == 1
    assert api.world.dependents.edges[parent] == {job_id}
    assert patched(api, job_id).status == 400, "it would have no schedule"
    every = {"type": "interval", "everySeconds": 60}
    job = patched(api, job_id, schedule=every).json
    assert (job["status"], "upstream" in job) == ("SCHEDULED", False)
    assert job["nextRunAt"] is not None
    assert not api.world.dependents.edges[parent]


def test_a_schedule_beside_dependencies_must_go(api: Api) -> None:
    parent, job_id = root(api), root(api)
    reply = patched(api, job_id, parent)
    assert (reply.status, list(reply.fields)) == (400, ["schedule"])
    once = {"type": "once", "at": "2027-02-01T00:00:00Z"}
    path = f"/v1/jobs/{root(api, schedule=once)}"
    job = api.patch(path, {"dependsOn": [{"jobId": parent}]}).json
    assert (job["status"], job["nextRunAt"], job["schedule"]) == ("BLOCKED", None, once)
    job = api.patch(path, {"dependsOn": None}).json
    assert (job["status"], job["nextRunAt"]) == ("SCHEDULED", once["at"])


def test_what_was_taken_of_a_parent_that_stays_is_kept(api: Api) -> None:
    first, second, third = root(api), root(api), root(api)
    job_id = child(api, first, second)
    row = api.world.jobs.rows[job_id]
    run = make_run(took=(4, 7))
    up = Upstream(marks=(4, 7), look_at=NOW + 900, since=NOW - 5, blocked_by=1)
    api.world.jobs.rows[job_id] = replace(row, upstream=up, runs=MappingProxyType({slot_id(NOW): run}))
    assert patched(api, job_id, third, second).status == 200
    row = api.world.jobs.rows[job_id]
    assert row.upstream == Upstream(marks=(0, 7), look_at=NOW, since=NOW, blocked_by=1)
    assert row.runs[slot_id(NOW)].took == (0, 7)
    assert {parent for parent, children in api.world.dependents.edges.items() if children} == {second, third}
    assert patched(api, job_id, schedule={"type": "interval", "everySeconds": 60}).status == 200
    row = api.world.jobs.rows[job_id]
    assert (row.upstream, row.runs[slot_id(NOW)].took) == (None, ())


def test_a_change_of_other_fields_leaves_the_wait_alone(api: Api) -> None:
    job_id = child(api, root(api))
    before, looks = api.world.jobs.rows[job_id], looks_sent(api, job_id)
    api.clock.time += 100
    assert api.patch(f"/v1/jobs/{job_id}", {"name": "renamed"}).status == 200
    after = api.world.jobs.rows[job_id]
    assert (after.upstream, after.attention_at, looks_sent(api, job_id)) == (
        before.upstream,
        before.attention_at,
        looks,
    )
    assert api.patch(f"/v1/jobs/{job_id}", {"join": "any"}).status == 200
    assert api.world.jobs.rows[job_id].upstream == replace(before.upstream, look_at=NOW + 100)


def test_a_parent_that_was_deleted_may_stay_while_others_come(api: Api) -> None:
    gone, other = root(api), root(api)
    job_id = child(api, gone)
    assert api.delete(f"/v1/jobs/{gone}").status == 204
    assert patched(api, job_id, gone, other).status == 200
    assert patched(api, job_id, other).status == 200
    assert patched(api, job_id, gone, other).fields == {"dependsOn[0].jobId": f"There is no job {gone}."}


def test_a_cancelled_job_gets_no_parents(api: Api) -> None:
    parent, job_id = root(api), root(api)
    assert api.post(f"/v1/jobs/{job_id}/cancel").status == 200
    before = api.world.jobs.rows[parent]
    assert patched(api, job_id, parent, schedule=None).status == 409
    assert api.world.jobs.rows[parent] == before


def test_a_cycle_is_refused_with_its_path_and_changes_nothing(api: Api) -> None:
    a = root(api, name="a")
    b = child(api, a, name="b")
    c = child(api, b, name="c")
    assert patched(api, root(api), c, schedule=None).status == 200
    assert api.world.graphs.versions == {"alice": 1}, "edges between jobs that exist are counted"
    before = dict(api.world.jobs.rows), {key: set(value) for key, value in api.world.dependents.edges.items()}
    reply = patched(api, a, c, schedule=None)
    assert (reply.status, reply.code) == (400, "VALIDATION_ERROR")
    assert reply.fields == {"dependsOn": f"The jobs would wait for each other: a ({a}) → c ({c}) → b ({b}) → a ({a})."}
    assert (api.world.jobs.rows, api.world.dependents.edges) == before
    assert api.world.graphs.versions == {"alice": 1}
    reply = patched(api, b, b)
    assert reply.fields == {"dependsOn[0].jobId": f"{b}: a job cannot depend on itself."}


def test_parents_that_share_ancestors_are_no_cycle(api: Api) -> None:
    top = root(api)
    left, right = child(api, top), child(api, top)
    bottom = child(api, left)
    assert patched(api, bottom, left, right).status == 200
    assert patched(api, right, top, left).status == 200
    assert patched(api, left, top, bottom).status == 400


def test_a_job_with_too_many_ancestors_is_refused(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewiring, "MAX_ANCESTORS", 3)
    jobs = [root(api)]
    for _ in range(3):
        jobs.append(child(api, jobs[-1]))
    assert patched(api, root(api), jobs[2], schedule=None).status == 200
    reply = patched(api, root(api), jobs[3], schedule=None)
    assert "more than 3 jobs" in reply.fields["dependsOn"]


@pytest.mark.parametrize("action", ["pause", "execute", "cancel"])
def test_actions_on_a_job_that_waits_for_others(api: Api, action: str) -> None:
    job_id = child(api, root(api))
    job = api.post(f"/v1/jobs/{job_id}/{action}").json
    assert job["status"] == {"pause": "PAUSED", "execute": "SCHEDULED", "cancel": "CANCELLED"}[action]
    if action == "pause":
        looks = looks_sent(api, job_id)
        job = api.post(f"/v1/jobs/{job_id}/resume").json
        assert (job["status"], looks_sent(api, job_id)) == ("BLOCKED", looks + 1)
    assert api.post(f"/v1/jobs/{job_id}/retry").status == 409
    assert api.delete(f"/v1/jobs/{job_id}").status == 204


def test_whether_a_parent_is_one_time_follows_its_schedule(api: Api) -> None:
    once = {"type": "once", "at": "2027-02-01T00:00:00Z"}
    top, other = root(api, schedule=once), root(api)
    middle = child(api, top)
    child(api, middle)
    assert [api.world.jobs.rows[one].followed.once for one in (top, middle)] == [True, True]
    assert patched(api, middle, top, other).status == 200
    assert api.world.jobs.rows[middle].followed.once is False
    assert api.patch(f"/v1/jobs/{top}", {"schedule": {"type": "interval", "everySeconds": 9, "at": None}}).status == 200
    assert api.world.jobs.rows[top].followed.once is False
