"""What a tick of the sweep sends to wake jobs: what the backlog leaves room for, the longest due first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.definition import Priority
from functions.domain.ids import slot_id
from functions.domain.run import RunState
from functions.ports import ArmedHint
from functions.usecases import sweep as sweep_module
from functions.usecases.executor import handle_hint
from functions.usecases.liveness import in_turn
from functions.usecases.sweep import MAX_BACKLOG, Swept, sweep
from tests.driver import Driver
from tests.factories import NOW, make_hint, make_job, make_run, new_id
from tests.fakes import SHARDS, World, shard_of
from tests.outages import Outage, OutageDriver

pytestmark = pytest.mark.slow


def overdue(world: World, count: int) -> list[str]:
    """Ids of jobs whose hint was lost, each a second after the one before."""
    ids = [new_id() for _ in range(count)]
    for number, job_id in enumerate(ids):
        world.jobs.put(make_job(id=job_id, created_at=NOW - 9_000, next_slot=NOW - 8_000 + number))
    return ids


def tick(driver: Driver, **options: Any) -> Swept:
    return sweep(driver.executor, **{"deadline": driver.clock.now() + 50, **options})


def woken(world: World) -> list[str]:
    return [delivery.hint.job_id for delivery in world.timetable.sent]


@pytest.mark.parametrize("parallel", [1, 8])
@pytest.mark.parametrize(("waiting", "fed"), [(0, 1_000), (1, 999), (995, 5), (999, 1), (1_000, 0), (5_000, 0)])
def test_a_tick_sends_no_more_than_the_backlog_leaves_room_for(waiting: int, fed: int, parallel: int) -> None:
    driver = Driver()
    overdue(driver.world, 1_200)
    driver.world.timetable.strangers = waiting
    found = tick(driver, parallel=parallel)
    assert len(woken(driver.world)) == fed
    assert (found.reasons.get("WOKEN", 0), found.reasons.get("BACKLOG", 0), found.complete) == (fed, 1_200 - fed, True)


def test_what_failed_and_comes_again_waits_too() -> None:
    driver = OutageDriver()
    for _ in range(30):
        driver.create(schedule={"type": "once", "at": "2027-01-15T08:00:10Z"})
    driver.world.timetable.strangers = MAX_BACKLOG - 30
    driver.outage(400, Outage.FAILING)
    assert [one.receives for one in driver.world.timetable.armed] == [2] * 30
    assert driver.world.timetable.deliverable() == []
    overdue(driver.world, 3)
    driver.world.timetable.sent.clear()
    tick(driver)
    assert woken(driver.world) == []


def test_a_row_with_many_hints_takes_the_room_of_all() -> None:
    driver = Driver()
    for _ in range(200):
        runs = {
            f"{NOW - 500:010d}m{number:08d}".replace("0", "a"): make_run(state=RunState.WAITING, due_at=NOW - 400)
            for number in range(9)
        }
        driver.world.jobs.put(make_job(id=new_id(), created_at=NOW - 9_000, next_slot=NOW - 300, runs=runs))
    tick(driver, parallel=1)
    assert MAX_BACKLOG <= len(woken(driver.world)) < MAX_BACKLOG + 10


def test_the_longest_due_of_all_shards_come_first() -> None:
    driver = Driver()
    ids = overdue(driver.world, 3_000)
    tick(driver)
    first = set(woken(driver.world))
    assert len(first) == MAX_BACKLOG
    for shard in range(SHARDS):
        of_shard = [job_id for job_id in ids if shard_of(job_id) == shard]
        fed = [job_id in first for job_id in of_shard]
        assert fed == sorted(fed, reverse=True), "each shard's longest due"
        assert MAX_BACKLOG // SHARDS <= sum(fed) <= MAX_BACKLOG // SHARDS + 1, "as many of each"


def test_jobs_that_were_not_woken_come_before_those_that_were() -> None:
    driver = Driver()
    ids = overdue(driver.world, 2_500)
    seen: list[str] = []
    for _ in range(3):
        tick(driver)
        driver.world.timetable.armed.clear()  # consumers keep up, but all these hints are lost
        driver.clock.sleep(1)
    seen = woken(driver.world)
    assert len(seen) == len(set(seen)) == 2_500
    assert set(seen) == set(ids)


@pytest.mark.parametrize("room", [0, 10])
def test_a_lease_that_is_over_does_not_wait_behind_what_is_to_be_woken(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_module, "MAX_ACTS", 40)
    driver = Driver()
    overdue(driver.world, 500)
    lost = [
        driver.world.jobs.put(
            make_job(id=new_id(), next_slot=None, runs={slot_id(NOW): make_run(lease_expires_at=NOW - 60 + number)})
        )
        for number in range(20)
    ]
    driver.world.timetable.strangers = MAX_BACKLOG - room
    found = tick(driver)
    assert found.reasons == {"BACKLOG": 500 - room, "RECOVERED": 20} | ({"WOKEN": room} if room else {})
    assert all(driver.row(job.id).runs[slot_id(NOW)].state is RunState.WAITING for job in lost)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(), max_size=6), max_size=6))
def test_walks_are_taken_in_turn(walks: list[list[int]]) -> None:
    marked = [[(place, turn) for turn, _ in enumerate(walk)] for place, walk in enumerate(walks)]
    taken = list(in_turn([iter(walk) for walk in marked]))
    assert sorted(taken) == sorted(item for walk in marked for item in walk)
    assert taken == sorted(taken, key=lambda item: (item[1], item[0]))


def test_hints_that_were_armed_for_later_do_not_wait() -> None:
    driver = Driver()
    hints = [ArmedHint(make_hint(attempt=number), NOW + 600, Priority.NORMAL, "team-a") for number in range(1, 21)]
    driver.world.timetable.arm_all(hints)
    assert driver.world.timetable.backlog() == 0
    driver.clock.sleep(601 + NOW - driver.clock.now())
    assert driver.world.timetable.backlog() == 20
    for delivery in driver.world.timetable.take_due():
        handle_hint(driver.executor, delivery.hint)
    assert driver.world.timetable.backlog() == 0
