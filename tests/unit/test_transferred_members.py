"""A job that was transferred leaves the workflow and the graph of its old owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from functions.api.caller import caller_of
from functions.domain.job import Job
from functions.usecases.actions import transfer_job
from tests.api_client import Api, make_body, user

HOURLY = {"type": "interval", "everySeconds": 3_600}
ROOT = user("root", "admin")
ANN = user("ann", "scheduler", "team-a")
VIEWER = user("vic", "viewer", "team-a")


def transferred() -> tuple[Api, str, dict[str, str]]:
    """A workflow of two jobs without edges, of which one now belongs to another team."""
    api = Api(claims=ANN)
    made = api.post("/v1/workflows", {"name": "w", "jobs": {name: make_body(schedule=HOURLY) for name in ("a", "b")}})
    ids = {one["name"]: one["jobId"] for one in made.json["jobs"]}
    assert api.post(f"/v1/jobs/{ids['a']}/transfer", {"owner": "team-b"}, claims=ROOT).status == 200
    return api, f"/v1/workflows/{made.json['id']}", ids


def test_the_workflow_is_cancelled_without_it() -> None:
    api, path, ids = transferred()
    assert api.post(f"{path}/cancel").status == 200
    assert [api.get(f"/v1/jobs/{one}", claims=ROOT).json["status"] for one in ids.values()] == [
        "SCHEDULED",
        "CANCELLED",
    ]


def test_the_old_owner_sees_nothing_of_it() -> None:
    api, path, ids = transferred()
    assert api.get(f"/v1/jobs/{ids['a']}", claims=VIEWER).status == 404
    seen = {one["name"]: one for one in api.get(path, claims=VIEWER).json["jobs"]}
    assert seen["b"]["status"] == "SCHEDULED"
    assert seen["a"].get("status") != "SCHEDULED"
    assert not seen["a"].get("nextRunAt")


def test_a_parent_that_is_transferred_while_a_child_is_made_gets_no_child() -> None:
    api = Api(claims=ANN)
    parent = api.post("/v1/jobs", make_body(schedule=HOURLY)).json["id"]
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
