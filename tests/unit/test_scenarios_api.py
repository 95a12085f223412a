"""Scenarios of tests/cases/scenarios.md: the API as callers meet it, over the ports in memory."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from functions.domain.idempotency import IdempotencyKey
from functions.usecases.jobs import JobDraft, create_job
from tests.api_client import Api, make_body, user
from tests.contract.conftest import at_once
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW, make_document
from tests.fakes import World
from tests.faults import Faults

KEY = {"x-idempotency-key": "order-17"}


def create_with_key(driver: Driver) -> str:
    draft = JobDraft(document=make_document(description="d" * 900), payload="1")
    key = IdempotencyKey("alice POST /v1/jobs", "order-17", "hash")
    return create_job(driver.services, SCHEDULER, draft, key=key).job.id


@pytest.mark.case(24)
@pytest.mark.parametrize("when", ["crash_before", "crash_after"])
def test_a_first_request_that_died_anywhere_is_finished_by_the_second(when: str) -> None:
    for step in itertools.count(1):
        faults = Faults(**{when: step})
        driver = Driver(World(faults=faults))
        driver.call(lambda: create_with_key(driver))  # noqa: B023 - called at once
        crashed = faults.crashed
        faults.disarm()
        kept = {claimed.ids[0] for claimed in driver.world.idempotency.rows.values()}
        second, third = create_with_key(driver), create_with_key(driver)
        assert second == third
        assert set(driver.world.jobs.rows) == {second}
        assert kept <= {second}, "the id that the first request drew"
        driver.run(179)  # where no hint was sent, the sweep brings the first slot
        assert [call.scheduled_for - NOW for call in driver.world.targets.calls] in ([60, 120], [60])
        if not crashed:
            assert step >= 4
            break


@pytest.mark.case(24)
@pytest.mark.parametrize("step", ["idempotency.claim", "jobs.put_definition", "jobs.create", "timetable.arm"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_second_request_while_the_first_still_runs_has_the_same_job(when: str, step: str) -> None:
    driver = Driver()
    answers: list[str] = []

    def second(moment: str, name: str) -> None:
        if (moment, name) == (when, step) and not answers:
            answers.append("asked")
            answers.append(create_with_key(driver))

    driver.world.faults.on_step = second
    first = create_with_key(driver)
    driver.world.faults.disarm()
    assert answers == ["asked", first]
    assert set(driver.world.jobs.rows) == {first}
    assert driver.row(first).defined.payload == "1"
    driver.run(61)
    assert len(driver.world.targets.calls) == 1


@pytest.mark.case(25)
def test_fifty_parallel_requests_with_one_key_make_one_job() -> None:
    world = World()
    apis = [Api(world) for _ in range(50)]  # a function of its own for each, as on Lambda
    replies = at_once(50, lambda number: apis[number].post("/v1/jobs", make_body(), headers=KEY))
    assert [reply.status for reply in replies] == [201] * 50
    assert len({reply.json["id"] for reply in replies}) == 1
    assert len(apis[0].get("/v1/jobs").json["data"]) == 1
    assert len(world.jobs.rows) == 1


def pages(api: Api, query: str, **options: Any) -> list[dict[str, Any]]:
    found, cursor = [], ""
    while True:
        reply = api.get("/v1/jobs", query=f"limit=7{query}{cursor}", **options)
        assert reply.status == 200, reply.text
        found.append(reply.json)
        if reply.json["pagination"].get("cursor") is None:
            return found
        cursor = f"&cursor={reply.json['pagination']['cursor']}"


@pytest.mark.case(26)
def test_thirty_jobs_of_one_instant_are_paged_once_each() -> None:
    api = Api()
    ids = {api.create().rsplit("/", 1)[1] for _ in range(30)}
    listed = [[job["id"] for job in page["data"]] for page in pages(api, "")]
    assert [len(page) for page in listed] == [7, 7, 7, 7, 2]
    assert {job for page in listed for job in page} == ids


@pytest.mark.case(26)
def test_a_filter_may_leave_a_page_empty_and_the_list_goes_on() -> None:
    api = Api()
    wanted = api.create(tags=["rare"]).rsplit("/", 1)[1]
    api.clock.advance(1)
    for _ in range(20):
        api.create()
    found = pages(api, "&tag=rare")
    assert [len(page["data"]) for page in found] == [0, 0, 1]
    assert found[2]["data"][0]["id"] == wanted


@pytest.mark.case(26)
def test_cursors_are_for_the_list_and_the_caller_they_were_given_to() -> None:
    api = Api()
    for _ in range(9):
        api.create()
        api.post("/v1/jobs", make_body(), claims=user("bob", "scheduler"))
    cursor = api.get("/v1/jobs", query="limit=3").json["pagination"]["cursor"]
    for tampered in (cursor[:-1], cursor[1:], cursor + "A", "AAAA", cursor[:9] + "~" + cursor[10:]):
        assert api.get("/v1/jobs", query=f"limit=3&cursor={tampered}").status == 400
    reply = api.get("/v1/jobs", query=f"limit=3&cursor={cursor}", claims=user("bob", "scheduler"))
    assert reply.status == 400 or {job["owner"] for job in reply.json["data"]} <= {"bob"}


@pytest.mark.case(28)
@pytest.mark.parametrize("token_use", ["id", "refresh", "", None])
def test_a_token_of_another_use_is_401(token_use: str | None) -> None:
    claims = {**user("alice", "admin"), "token_use": token_use}
    reply = Api().get("/v1/jobs", claims=claims)
    assert (reply.status, reply.code) == (401, "UNAUTHORIZED")
