"""How many recurring jobs an owner has, and how often they run."""

from __future__ import annotations

from typing import Any

import pytest

from functions.api.caller import caller_of
from functions.domain.errors import UnavailableError
from functions.usecases import quotas
from functions.usecases.actions import pause_job
from functions.usecases.quotas import RECOUNT_SECONDS
from tests.api_client import Api, Reply, make_body, user

HOURLY = {"type": "interval", "everySeconds": 3_600}
ONCE = {"type": "once", "at": "2027-06-01T00:00:00Z"}
OTHER = user("bob", "scheduler", "team-b")
BOTH = user("ann", "scheduler", "team-a", "team-b")
ROOT = user("root", "admin")


def api(most: int = 3, **options: Any) -> Api:
    made = Api(**options)
    object.__setattr__(made.services, "recurring_jobs", most)
    return made


def create(api: Api, schedule: dict[str, Any] = HOURLY, **changes: Any) -> Reply:
    options = {name: changes.pop(name) for name in ("claims", "headers") if name in changes}
    return api.post("/v1/jobs", make_body(schedule=schedule, **changes), **options)


def fill(api: Api, count: int = 3, **changes: Any) -> list[str]:
    replies = [create(api, **changes) for _ in range(count)]
    assert [reply.status for reply in replies] == [201] * count
    return [f"/v1/jobs/{reply.json['id']}" for reply in replies]


def test_an_owner_has_so_many_recurring_jobs() -> None:
    full = api()
    fill(full)

    refused = create(full)

    assert (refused.status, refused.code) == (409, "CONFLICT")
    assert "may have 3 recurring jobs on this stage" in refused.message


def test_jobs_that_run_once_and_those_of_others_do_not_count() -> None:
    full = api()
    fill(full)

    assert create(full, ONCE).status == 201
    assert create(full, claims=OTHER).status == 201


def test_cron_counts_and_so_do_paused_jobs() -> None:
    full = api()
    fill(full, schedule={"type": "cron", "expression": "0 4 * * *"}, enabled=False)

    assert create(full).status == 409


@pytest.mark.parametrize("end", ["delete", "cancel"])
def test_a_job_that_is_over_makes_room(end: str) -> None:
    full = api()
    first, *_ = fill(full)
    assert (full.delete(first) if end == "delete" else full.post(f"{first}/cancel")).status < 300

    assert create(full).status == 201
    assert create(full).status == 409


def test_the_jobs_of_a_full_owner_are_not_counted_again_at_once() -> None:
    full = api()
    first, *_ = fill(full)
    assert create(full).status == 409
    full.delete(first)
    full.world.jobs.calls.clear()

    assert [create(full).status for _ in range(5)] == [409] * 5
    assert "get_many" not in full.world.jobs.calls

    full.clock.advance(RECOUNT_SECONDS)
    assert create(full).status == 201


def test_a_bulk_creates_as_many_as_there_is_room_for() -> None:
    full = api()

    answer = full.post("/v1/jobs/bulk", {"items": [make_body(schedule=HOURLY) for _ in range(5)]})

    assert sorted(item["status"] for item in answer.json["data"]) == [201, 201, 201, 409, 409]


def test_jobs_of_a_bulk_count_for_their_own_owners() -> None:
    full = api(claims=BOTH)
    fill(full, owner="team-a")

    items = [make_body(schedule=HOURLY, owner=owner) for owner in ("team-a", "team-b") for _ in range(4)]
    answer = full.post("/v1/jobs/bulk", {"items": items})

    statuses = [item["status"] for item in answer.json["data"]]
    assert (statuses[:4], sorted(statuses[4:])) == ([409] * 4, [201, 201, 201, 409])


def test_jobs_of_a_workflow_count_for_its_owner() -> None:
    full = api(claims=BOTH)
    fill(full, owner="team-a")
    body = {"name": "w", "jobs": {name: make_body(schedule=HOURLY) for name in "abc"}}

    statuses = [full.post("/v1/workflows", body | {"owner": owner}).status for owner in ("team-a", "team-b", "team-b")]

    assert statuses == [409, 201, 409]


def test_more_recurring_jobs_at_once_than_an_owner_may_have_are_refused_without_a_count() -> None:
    empty = api(1)
    empty.world.jobs.calls.clear()
    body = {"name": "w", "jobs": {name: make_body(schedule=HOURLY) for name in "ab"}}

    assert empty.post("/v1/workflows", body).status == 409
    assert empty.world.jobs.calls == []


def test_a_transferred_job_counts_for_its_new_owner() -> None:
    full = api()
    first, second, third = fill(full)
    for job in fill(full, 2, claims=OTHER):
        assert full.post(f"{job}/transfer", {"owner": "team-b"}, claims=ROOT).status == 200, "its owner's already"
    assert full.post(f"{first}/transfer", {"owner": "team-b"}, claims=ROOT).status == 200

    refused = full.post(f"{second}/transfer", {"owner": "team-b"}, claims=ROOT)

    assert (refused.status, refused.code) == (409, "CONFLICT")
    assert "The owner team-b may have 3 recurring jobs" in refused.message
    assert full.get(second, claims=ROOT).json["owner"] != "team-b"
    assert full.post(f"{third}/cancel").status == 200
    assert full.post(f"{third}/transfer", {"owner": "team-b"}, claims=ROOT).status == 200, "it is over"
    once = f"/v1/jobs/{create(full, ONCE).json['id']}"
    assert full.post(f"{once}/transfer", {"owner": "team-b"}, claims=ROOT).status == 200


def test_a_transfer_that_is_repeated_after_a_lost_race_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    full = api()
    (job,) = fill(full, 1)
    save, lost = full.world.jobs.save, []

    def losing(*args: Any, **options: Any) -> Any:
        if not lost:
            lost.append(job)
            pause_job(full.services, caller_of(ROOT), job.rpartition("/")[2])
        return save(*args, **options)

    monkeypatch.setattr(full.world.jobs, "save", losing)
    assert full.post(f"{job}/transfer", {"owner": "team-b"}, claims=ROOT).status == 200

    assert lost == [job]
    assert full.world.owners.recurring["team-b"].made == 1


def test_a_bulk_finds_the_room_that_the_recount_of_one_of_its_jobs_finds() -> None:
    full = api()
    for job in fill(full):
        full.delete(job)

    answer = full.post("/v1/jobs/bulk", {"items": [make_body(schedule=HOURLY) for _ in range(3)]})

    assert [item["status"] for item in answer.json["data"]] == [201] * 3


def test_a_recount_that_is_not_over_in_time_is_not_repeated_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    full = api()
    first, *_ = fill(full)
    full.delete(first)

    def late(_: Any) -> Any:
        raise UnavailableError("late")

    with monkeypatch.context() as patched:
        patched.setattr(full.world.jobs, "get_many", late)
        assert create(full).status == 503
        assert create(full).status == 409

    full.clock.advance(RECOUNT_SECONDS)
    assert create(full).status == 201


def test_a_recount_reads_so_many_jobs_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "OTHER_PAGES", 2)
    full = api(1)
    fill(full, 1)
    for _ in range(3):
        full.clock.advance(1)
        body = {"items": [make_body(schedule=ONCE) for _ in range(100)]}
        assert full.post("/v1/jobs/bulk", body).status == 200
    get_many, pages = full.world.jobs.get_many, []
    monkeypatch.setattr(full.world.jobs, "get_many", lambda ids: pages.append(len(ids)) or get_many(ids))

    assert [create(full).status for _ in range(3)] == [201, 409, 409], "one passes, as nobody can tell"
    assert pages == [100, 100]
    full.clock.advance(RECOUNT_SECONDS)
    assert [create(full).status for _ in range(2)] == [409] * 2, "the newest is seen"


def test_a_workflow_is_made_whole_or_not() -> None:
    full = api()
    fill(full, 2)
    body = {"name": "w", "jobs": {name: make_body(schedule=HOURLY) for name in "ab"}}

    assert full.post("/v1/workflows", body).status == 409
    body["jobs"].pop("b")
    assert full.post("/v1/workflows", body).status == 201


def test_a_change_that_makes_a_job_recurring_needs_room() -> None:
    full = api()
    once = f"/v1/jobs/{create(full, ONCE).json['id']}"
    first, *_ = fill(full)

    hourly = {"schedule": {**HOURLY, "at": None}}
    assert full.patch(once, hourly).status == 409
    daily = {"type": "cron", "expression": "0 4 * * *", "everySeconds": None}
    assert full.patch(first, {"schedule": daily}).status == 200

    full.clock.advance(RECOUNT_SECONDS)
    full.delete(first)
    assert full.patch(once, hourly).status == 200


def test_a_request_sent_again_finds_its_job_though_the_owner_is_full() -> None:
    full = api()
    fill(full, 2)
    headers = {"x-idempotency-key": "k"}
    made = create(full, name="same", headers=headers)
    assert made.status == 201

    again = create(full, name="same", headers=headers)

    assert (again.status, again.json["id"]) == (201, made.json["id"])


def test_a_refused_request_may_use_its_key_again() -> None:
    full = api()
    first, *_ = fill(full)
    headers = {"x-idempotency-key": "k"}
    assert create(full, name="same", headers=headers).status == 409
    full.delete(first)
    full.clock.advance(RECOUNT_SECONDS)

    assert create(full, name="same", headers=headers).status == 201


class TestShortestInterval:
    def test_a_shorter_interval_is_refused(self) -> None:
        refused = create(api(shortest_interval_seconds=10), {"type": "interval", "everySeconds": 9})

        assert refused.status == 400
        assert refused.fields == {"schedule.everySeconds": "must be an integer of at least 10 on this stage, got 9"}

    def test_the_shortest_is_allowed(self) -> None:
        assert create(api(shortest_interval_seconds=10), {"type": "interval", "everySeconds": 10}).status == 201

    def test_a_change_may_not_shorten_it(self) -> None:
        stage = api(shortest_interval_seconds=10)
        (job,) = fill(stage, 1)

        assert stage.patch(job, {"schedule": {"everySeconds": 5}}).status == 400
        assert stage.patch(job, {"schedule": {"everySeconds": 60}}).status == 200

    def test_a_job_from_before_the_limit_can_be_changed_otherwise(self) -> None:
        before = api()
        (job,) = fill(before, 1, schedule={"type": "interval", "everySeconds": 2})
        after = api(world=before.world, shortest_interval_seconds=10)

        assert after.patch(job, {"maxRuns": 5}).status == 200
        assert after.patch(job, {"schedule": {"everySeconds": 3}}).status == 400

    def test_bulks_and_workflows_know_it(self) -> None:
        stage = api(shortest_interval_seconds=10)
        body = make_body(schedule={"type": "interval", "everySeconds": 1})

        assert stage.post("/v1/jobs/bulk", {"items": [body]}).json["data"][0]["status"] == 400
        refused = stage.post("/v1/workflows", {"name": "w", "jobs": {"a": body}})
        assert list(refused.fields) == ["jobs.a.schedule.everySeconds"]
