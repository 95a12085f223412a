"""An administrator gives a job to another owner: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from functions.api.caller import caller_of
from functions.domain.ids import slot_id
from functions.domain.job import Job
from functions.usecases.actions import transfer_job
from tests.api_client import Api, make_body, user
from tests.driver import Driver
from tests.factories import NOW

ROOT = user("root", "admin")
ANN, BOB = user("ann", "scheduler", "team-a"), user("bob", "scheduler", "team-b")
VIEWER = user("vic", "viewer", "team-a")
MINUTELY = {"type": "interval", "everySeconds": 60}


def ids(api: Api, claims: Any) -> list[str]:
    return [one["id"] for one in api.get("/v1/jobs", claims=claims).json["data"]]


def test_a_transferred_job_is_the_new_owners_in_every_way() -> None:
    driver = Driver()
    api = Api(driver.world, claims=ANN)
    path = api.create(schedule=MINUTELY)
    job_id = path.rpartition("/")[2]
    driver.run_until(NOW + 61)
    reply = api.post(f"{path}/transfer", {"owner": "team-b"}, claims=ROOT)
    assert (reply.status, reply.json["owner"], reply.json["updatedBy"]) == (200, "team-b", "root")
    assert (reply.json["createdBy"], reply.json["revision"]) == ("ann", 2)
    assert (ids(api, ANN), ids(api, BOB)) == ([], [job_id])
    assert api.post(f"{path}/pause", claims=ANN).status == 403
    assert api.post(f"{path}/pause", claims=BOB).status == 200
    assert api.post(f"{path}/resume", claims=BOB).status == 200
    before = len(driver.executions(job_id))
    driver.run_until(NOW + 200)
    assert len(driver.executions(job_id)) > before, "its schedule goes on"
    assert job_id in [one["id"] for one in api.get("/v1/jobs", query="owner=*", claims=ROOT).json["data"]]


def test_the_same_again_changes_nothing_and_if_match_holds() -> None:
    api = Api(claims=ANN)
    path = api.create(schedule=MINUTELY)
    first = api.post(f"{path}/transfer", {"owner": "team-b"}, claims=ROOT, headers={"if-match": '"1"'})
    again = api.post(f"{path}/transfer", {"owner": "team-b"}, claims=ROOT)
    assert (first.status, again.status, again.json) == (200, 200, first.json)
    late = api.post(f"{path}/transfer", {"owner": "team-c"}, claims=ROOT, headers={"if-match": '"1"'})
    assert late.status == 412


def test_a_job_with_an_active_run_keeps_its_owner_until_it_has_ended() -> None:
    driver = Driver()
    api = Api(driver.world, claims=ANN)
    path = api.create(
        schedule={"type": "once", "at": "2027-01-15T08:00:00Z"},
        target={"type": "worker", "queue": "q"},
        concurrencyKey="k",
        maxConcurrency=1,
    )
    driver.run(1)
    row = driver.row(path.rpartition("/")[2])
    assert list(row.runs) == [slot_id(NOW)]
    refused = api.post(f"{path}/transfer", {"owner": "team-b"}, claims=ROOT)
    assert (refused.status, refused.code) == (409, "CONFLICT")
    assert driver.row(row.id) == row
    assert api.post(f"{path}/cancel").status == 200
    assert api.post(f"{path}/transfer", {"owner": "team-b"}, claims=ROOT).status == 200


def test_jobs_of_a_graph_keep_their_owner() -> None:
    api = Api(claims=ANN)
    parent = api.create(schedule=MINUTELY)
    child = api.create(schedule=None, dependsOn=[{"jobId": parent.rpartition("/")[2]}])
    for path in (parent, child):
        assert api.post(f"{path}/transfer", {"owner": "team-b"}, claims=ROOT).status == 409


@pytest.mark.parametrize("owner", ["", "a b", "*", "x" * 129, "\u00e4", 1, None])
def test_what_can_own_nothing_is_refused(owner: Any) -> None:
    api = Api(claims=ANN)
    path = api.create(schedule=MINUTELY)
    reply = api.post(f"{path}/transfer", {"owner": owner}, claims=ROOT)
    assert (reply.status, reply.fields.keys()) == (400, {"owner"})


def transferred() -> tuple[Api, str, dict[str, str]]:
    """A workflow of two jobs without edges, of which one now belongs to another team."""
    api = Api(claims=ANN)
    made = api.post("/v1/workflows", {"name": "w", "jobs": {name: make_body(schedule=MINUTELY) for name in ("a", "b")}})
    jobs = {one["name"]: one["jobId"] for one in made.json["jobs"]}
    assert api.post(f"/v1/jobs/{jobs['a']}/transfer", {"owner": "team-b"}, claims=ROOT).status == 200
    return api, f"/v1/workflows/{made.json['id']}", jobs


def test_the_workflow_is_cancelled_without_it() -> None:
    api, path, jobs = transferred()
    assert api.post(f"{path}/cancel").status == 200
    assert [api.get(f"/v1/jobs/{one}", claims=ROOT).json["status"] for one in jobs.values()] == [
        "SCHEDULED",
        "CANCELLED",
    ]


def test_the_old_owner_sees_nothing_of_it() -> None:
    api, path, jobs = transferred()
    assert api.get(f"/v1/jobs/{jobs['a']}", claims=VIEWER).status == 404
    seen = {one["name"]: one for one in api.get(path, claims=VIEWER).json["jobs"]}
    assert seen["b"]["status"] == "SCHEDULED"
    assert seen["a"].get("status") != "SCHEDULED"
    assert not seen["a"].get("nextRunAt")


def test_a_parent_that_is_transferred_while_a_child_is_made_gets_no_child() -> None:
    api = Api(claims=ANN)
    parent = api.post("/v1/jobs", make_body(schedule=MINUTELY)).json["id"]
    read, given = api.world.jobs.get_rows, list[Job]()

    def get_rows(ids: Sequence[str]) -> Mapping[str, Job]:
        rows = read(ids)
        if not given:
            given.append(transfer_job(api.services, caller_of(ROOT), parent, owner="team-b", check=lambda _: None))
        return rows

    api.world.jobs.get_rows = get_rows  # type: ignore[method-assign]
    refused = api.post("/v1/jobs", make_body(schedule=None, dependsOn=[{"jobId": parent}]))
    assert [job.owner for job in given] == ["team-b"]
    assert (refused.status, f"There is no job {parent}." in refused.text) == (400, True)
    assert api.get(f"/v1/jobs/{parent}", claims=ROOT).json["owner"] == "team-b"
    assert api.world.jobs.rows[parent].followed is None
