"""An administrator gives a job to another owner: all of it, or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from functions.domain.ids import slot_id
from tests.api_client import Api, user
from tests.driver import Driver
from tests.factories import NOW

ROOT = user("root", "admin")
ANN, BOB = user("ann", "scheduler", "team-a"), user("bob", "scheduler", "team-b")
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
