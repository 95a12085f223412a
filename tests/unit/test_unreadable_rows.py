"""A state row that cannot be read: told once, in nobody's way, and as it was when it can be read again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.domain.errors import UnreadableRowError
from functions.domain.job import JobStatus
from functions.domain.run import RunState
from functions.usecases.jobs import read_job
from functions.usecases.sweep import UNREADABLE_SECONDS
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.unit.test_concurrency_in_use import create, driver, held

ONCE = {"type": "once", "at": "2027-01-15T08:00:10Z"}


def test_the_sweep_tells_it_once_and_goes_on() -> None:
    made = Driver(World(clock=FakeClock(NOW)), sweeps=False)
    bad, good = made.create(schedule=ONCE).id, made.create(schedule=ONCE).id
    made.world.jobs.spoil(bad)
    made.world.timetable.take_due()
    made.world.clock.advance(60)
    first = made.sweep_now()
    assert first is not None
    assert (first.unreadable, first.failed, first.reasons) == ([bad], [], {"UNREADABLE": 1, "WOKEN": 1})
    told = []
    for _ in range(2 * UNREADABLE_SECONDS // 60):
        made.world.clock.advance(60)
        swept = made.sweep_now()
        assert swept is not None
        assert swept.failed == []
        told += [(one, swept.reasons.get("UNREADABLE")) for one in swept.unreadable]
    assert told == []
    made.world.jobs.spoil(bad, mended=True)
    made.run(2 * UNREADABLE_SECONDS)
    assert {made.row(one).status for one in (bad, good)} == {JobStatus.COMPLETED}


def test_a_caller_is_told_what_it_is() -> None:
    made = Driver(World(clock=FakeClock(NOW)))
    job = made.create(schedule=ONCE).id
    made.world.jobs.spoil(job)
    with pytest.raises(UnreadableRowError, match="whoever operates the stage repairs it"):
        read_job(made.services, SCHEDULER, job)


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.WAITING])
def test_one_that_waits_for_a_key_or_holds_its_slot_keeps_no_other_from_what_is_left(state: RunState) -> None:
    made, busy = driver()
    jobs = [create(made, 2) for _ in range(6)]
    made.run_until(NOW + 15)
    spoilt = next(job for job in jobs if any(run.state is state for run in made.row(job).runs.values()))
    made.world.jobs.spoil(spoilt)
    made.world.jobs.rows[spoilt] = replace(row := made.world.jobs.rows[spoilt], seq=row.seq + 1)
    made.run_until(NOW + 3600)
    others = [made.row(job).status for job in jobs if job != spoilt]
    assert others == [JobStatus.COMPLETED] * 5
    assert busy.most == 2
    assert len(held(made)) == (state is RunState.RUNNING)


def test_a_parent_that_cannot_be_read_does_not_lose_the_end_of_another() -> None:
    made = Driver(World(clock=FakeClock(NOW)))
    good, bad = made.create(schedule=ONCE).id, made.create(schedule=ONCE).id
    child = made.create(dependsOn=[{"jobId": good}, {"jobId": bad}], join="any", schedule=None).id
    made.world.jobs.spoil(bad)
    made.run_until(NOW + 3600)
    assert made.row(child).status is JobStatus.BLOCKED
    made.world.jobs.spoil(bad, mended=True)
    made.run_until(NOW + 4 * 3600)
    assert made.row(child).status is JobStatus.COMPLETED
