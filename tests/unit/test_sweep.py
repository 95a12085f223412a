"""The sweep's tick: bounded, in random order, and no row hides another."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from functions.domain.errors import GnomonError
from functions.domain.ids import slot_id
from functions.domain.job import Job
from functions.domain.run import RunState
from functions.usecases import sweep as sweep_module
from functions.usecases.services import Engine
from functions.usecases.sweep import Swept, sweep
from tests.driver import Driver
from tests.factories import NOW, make_job, make_run, new_id
from tests.fakes import SHARDS, FakeClock, World, shard_of


def id_in(shard: int) -> str:
    while shard_of(job_id := new_id()) != shard:
        pass
    return job_id


def overdue(world: World, count: int) -> list[str]:
    """Ids of jobs whose hint was lost, as many in each shard."""
    ids = [id_in(number % SHARDS) for number in range(count)]
    for job_id in ids:
        world.jobs.put(make_job(id=job_id, created_at=NOW - 120, next_slot=NOW - 60))
    return ids


def tick(engine: Engine, **options: Any) -> Swept:
    return sweep(engine, **{"deadline": engine.clock.now() + 50, **options})


def woken(world: World) -> set[str]:
    return {delivery.hint.job_id for delivery in world.timetable.sent}


def test_all_shards_are_visited_in_an_order_that_changes() -> None:
    orders = []
    for seed in range(5):
        driver = Driver()
        ids = overdue(driver.world, 60)
        assert {shard_of(job_id) for job_id in ids} == set(range(SHARDS))
        seen: list[int] = []
        due = driver.world.jobs.due_for_attention

        def watched(shard: int, *, until: int, seen: Any = seen, due: Any = due) -> Any:
            seen.append(shard)
            return due(shard, until=until)

        driver.world.jobs.due_for_attention = watched  # type: ignore[method-assign]  # looks on
        found = tick(driver.executor, shuffle=random.Random(seed).shuffle)
        assert (found.looked_at, found.reasons, found.complete) == (60, {"WOKEN": 60}, True)
        assert woken(driver.world) == set(ids)
        assert sorted(seen) == list(range(SHARDS))
        orders.append(tuple(seen))
    assert len(set(orders)) > 1


@pytest.mark.parametrize("error", [GnomonError, RuntimeError, KeyError])
def test_one_bad_row_hides_no_other(error: type[Exception]) -> None:
    driver = Driver()
    ids = overdue(driver.world, 30)
    get = driver.world.jobs.get

    def broken(job_id: str, *, with_definition: bool = True) -> Job | None:
        if job_id == ids[3]:
            raise error("broken")
        return get(job_id, with_definition=with_definition)

    driver.world.jobs.get = broken  # type: ignore[method-assign]  # one row cannot be read
    found = tick(driver.executor)
    assert found.reasons == {"WOKEN": 29, "FAILED": 1}
    [(job_id, why)] = found.failed
    assert job_id == ids[3]
    assert error.__name__ in why
    assert woken(driver.world) == set(ids) - {ids[3]}


def test_at_its_deadline_it_stops_and_the_next_tick_goes_on() -> None:
    driver = Driver()
    ids = overdue(driver.world, 40)
    clock = driver.world.clock
    get = driver.world.jobs.get

    def slow(job_id: str, *, with_definition: bool = True) -> Job | None:
        clock.advance(1)
        return get(job_id, with_definition=with_definition)

    driver.world.jobs.get = slow  # type: ignore[method-assign]  # every visit takes a second
    first = tick(driver.executor, deadline=clock.now() + 10, parallel=1)
    assert not first.complete
    assert 9 <= first.looked_at <= 11
    second = tick(driver.executor, deadline=clock.now() + 100, parallel=1)
    assert second.complete
    assert second.looked_at == 40 - first.looked_at, "what was woken is not looked at again"
    assert woken(driver.world) == set(ids)
    assert len(driver.world.timetable.sent) == 40


def test_a_tick_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "MAX_ACTS", 16)
    driver = Driver()
    overdue(driver.world, 40)
    assert (found := tick(driver.executor)).looked_at == 16
    assert not found.complete


def test_a_lease_that_is_over_is_seen_behind_any_number_of_waiting_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "MAX_ACTS", 16)
    driver = Driver()
    overdue(driver.world, 40)
    lost = driver.world.jobs.put(
        make_job(
            id=new_id(), next_slot=None, runs={slot_id(NOW): make_run(lease_expires_at=int(driver.clock.now()) - 60)}
        )
    )
    driver.world.timetable.strangers = 2_000
    found = tick(driver.executor)
    assert found.reasons == {"BACKLOG": 40, "RECOVERED": 1}
    assert driver.row(lost.id).runs[slot_id(NOW)].state is RunState.WAITING


def test_jobs_that_need_nobody_are_not_read() -> None:
    driver = Driver(World(clock=FakeClock(NOW)))
    for _ in range(50):
        driver.create()
    driver.create(enabled=False)
    driver.world.jobs.calls.clear()
    assert tick(driver.executor).looked_at == 0
    assert driver.world.jobs.calls == ["due_for_attention"] * SHARDS


def test_an_index_that_lags_does_no_harm() -> None:
    """The row is read strongly before anything is done."""
    driver = Driver()
    ids = overdue(driver.world, 3)
    driver.world.jobs.lagging = True
    for job_id in ids:
        row = driver.row(job_id)
        driver.world.jobs.put(replace(row, paused=True, attention_at=None))
    found = tick(driver.executor)
    assert found.reasons == {"WATCHED": 3}
    assert driver.world.timetable.sent == []
    gone = replace(driver.row(ids[0]))
    del driver.world.jobs.rows[gone.id]
    assert tick(driver.executor).reasons == {"WATCHED": 2, "NO_SUCH_JOB": 1}


def test_the_row_is_written_before_the_hint_is_sent() -> None:
    """A17: a death between the two costs one back-off, the other order duplicates."""
    driver = Driver()
    overdue(driver.world, 1)
    driver.world.faults.inject()
    tick(driver.executor)
    assert driver.world.faults.steps == ["jobs.save", "timetable.arm"]


def test_woken_again_and_again_it_sends_less_and_less() -> None:
    driver = Driver()
    [job_id] = overdue(driver.world, 1)
    sent = []
    for _ in range(60):
        driver.clock.sleep(60)
        tick(driver.executor)
        sent.append(len(driver.world.timetable.sent))
    assert sent[-1] == 7, "0, 60, 180, 420, 900 and then every 900 seconds"
    assert driver.row(job_id).wakes == 5, "nothing else was started: the others are not counted"


@pytest.mark.parametrize(("payload", "reads"), [("{}", 1), ('"' + "x" * 5_000 + '"', 2)], ids=["inline", "apart"])
def test_a_row_that_waits_for_others_is_read_once_where_its_definition_is_in_it(payload: str, reads: int) -> None:
    driver = Driver(World(clock=FakeClock(NOW)), sweeps=False)
    at, worker = {"type": "once", "at": "2027-01-15T08:00:00Z"}, {"type": "worker", "queue": "reports"}
    job = driver.create(schedule=at, target=worker, payload=payload)
    driver.run(61)
    assert driver.row(job.id).waiting is not None
    driver.world.jobs.calls.clear()

    found = tick(driver.executor)

    assert found.reasons == {"WATCHED": 1}
    assert driver.world.jobs.calls.count("get") == reads
