"""History as a caller reads it shows each slot once, also between any two writes of those who act on the job."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from functions.domain.execution import Execution, ExecutionStatus, SkippedSlots
from functions.domain.hint import Hint
from functions.domain.ids import slot_id, slot_instant
from functions.domain.job import Job
from functions.usecases.actions import execute_job, pause_job, resume_job
from functions.usecases.cancelling import cancel_job
from functions.usecases.history import ActiveExecution, job_history
from functions.usecases.jobs import JobDraft, change_job
from functions.usecases.sweep import visit
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.faults import Faults
from tests.flows import OK

EVERY = 10
Act = Callable[["Busy"], Any]


def shown(driver: Driver, job_id: str, limit: int) -> list[Execution | SkippedSlots | ActiveExecution]:
    found: list[Execution | SkippedSlots | ActiveExecution] = []
    cursor: str | None = None
    while True:
        page = job_history(driver.services, SCHEDULER, job_id, limit=limit, cursor=cursor)
        found += page.items
        cursor = page.cursor
        if cursor is None:
            return found


def check(driver: Driver, job_id: str) -> int:
    """Returns how many slots are shown as skipped."""
    slots: set[int] | None = None
    for limit in (1, 3, 50):
        gaps = [one for one in shown(driver, job_id, limit) if isinstance(one, SkippedSlots)]
        attempts = [one for one in shown(driver, job_id, limit) if not isinstance(one, SkippedSlots)]
        names = [(one.slot_id, one.attempt) for one in attempts]
        assert len(names) == len(set(names)), names
        skipped = [slot for gap in gaps for slot in range(gap.first, gap.last + 1, EVERY)]
        assert len(skipped) == len(set(skipped)), gaps
        assert [gap.count for gap in gaps] == [(gap.last - gap.first) // EVERY + 1 for gap in gaps]
        assert not {slot_instant(one.slot_id) for one in attempts if "m" not in one.slot_id} & set(skipped)
        places = [gap.first for gap in gaps]
        assert places == sorted(places, reverse=True)
        assert slots in (None, set(skipped)), "each page size shows the same"
        slots = set(skipped)
    return len(slots or ())


class Busy:
    """A job of every ten seconds with a run by hand that is under way, and three slots skipped for it."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.driver = Driver(World(clock=FakeClock(NOW), faults=self.faults), sweeps=False)
        self.job = self.driver.create(schedule={"type": "interval", "everySeconds": EVERY})
        self.met = 0

    def during(self, act: Act) -> None:
        """Do something while the run is under way, then let it end."""

        def call(_: object) -> Any:
            for _slot in range(3):
                self.skip()
            act(self)
            self.read()
            return OK

        self.driver.world.targets.answers = [call, OK]
        execute_job(self.driver.services, SCHEDULER, self.job.id)
        (slot,) = self.row.runs
        self.driver.deliver_hint(Hint(self.job.id, slot, 1))
        self.read()

    @property
    def row(self) -> Job:
        return self.driver.row(self.job.id)

    def skip(self) -> None:
        """The next slot comes due."""
        following = self.row.next_slot
        if following is not None:
            self.driver.world.clock.time = max(self.driver.world.clock.time, following + 0.5)
            self.driver.deliver_hint(Hint(self.job.id, slot_id(following), 1))

    def read(self) -> int:
        self.met += 1
        return check(self.driver, self.job.id)


def another_schedule(busy: Busy) -> None:
    following = busy.row.next_slot or 0
    busy.driver.world.clock.time = following + 0.5
    document = {**busy.row.defined.document, "schedule": {"type": "interval", "everySeconds": 3 * EVERY}}
    change_job(busy.driver.services, SCHEDULER, busy.job.id, change=lambda _: JobDraft(document=document, payload="{}"))


def pause_for_a_slot(busy: Busy) -> None:
    pause_job(busy.driver.services, SCHEDULER, busy.job.id)
    busy.driver.world.clock.time += EVERY
    resume_job(busy.driver.services, SCHEDULER, busy.job.id)


def cancel(busy: Busy) -> None:
    cancel_job(busy.driver.services, SCHEDULER, busy.job.id)


def swept(busy: Busy) -> None:
    busy.driver.world.clock.time += 100
    visit(busy.driver.executor, busy.job.id)


ACTS: list[Act] = [another_schedule, pause_for_a_slot, cancel, swept, lambda _: None]


@pytest.mark.parametrize("act", ACTS, ids=["schedule", "pause", "cancel", "sweep", "end"])
def test_a_reader_between_any_two_writes_sees_each_slot_once(act: Act) -> None:
    busy = Busy()

    def read(_when: str, _name: str) -> None:
        busy.read()

    busy.faults.inject(on_step=read)
    busy.during(act)
    assert busy.met > 10


@pytest.mark.parametrize("act", ACTS, ids=["schedule", "pause", "cancel", "sweep", "end"])
def test_a_write_that_loses_its_race_shows_nothing_twice(act: Act) -> None:
    """Another slot is skipped before the n-th write of whoever acts: what it put into history is not all any more."""
    lost = 0
    for number in itertools.count(1):
        busy, raced = Busy(), []

        def race(when: str, name: str, busy: Busy = busy, raced: list[str] = raced, number: int = number) -> None:
            if when == "before" and busy.faults.count >= number and name == "jobs.save":
                busy.faults.disarm()
                raced.append(name)
                busy.skip()
                busy.read()

        def acting(busy: Busy, race: Any = race) -> None:
            busy.faults.inject(on_step=race)
            act(busy)

        busy.during(acting)
        busy.read()
        lost += bool(raced)
        if not raced:
            break
    assert lost


def test_what_was_skipped_is_in_its_place_before_history_has_it() -> None:
    busy = Busy()
    busy.during(lambda busy: None)
    busy.driver.run(5 * EVERY)
    rows = shown(busy.driver, busy.job.id, 2)
    assert busy.row.gap is None
    assert [isinstance(one, SkippedSlots) for one in rows].count(True) == 1


def test_an_attempt_that_has_ended_is_not_shown_as_running_too() -> None:
    """Its end is on another page: others of later slots came since."""
    busy = Busy()
    services = busy.driver.services
    seen: list[int] = []

    def look(_: object) -> Any:
        (slot,) = busy.row.runs
        run = busy.row.runs[slot]
        one = Execution(
            job_id=busy.job.id,
            slot_id=slot,
            attempt=1,
            status=ExecutionStatus.COMPLETED,
            final=True,
            fence=run.fence,
            write_id="w",
            completed_at=NOW + 1.0,
        )
        services.history.record(one)
        for later in range(1, 4):
            services.history.record(_later(one, later))
        found = [entry for entry in shown(busy.driver, busy.job.id, 2) if entry.slot_id == slot]  # type: ignore[union-attr]  # no gap is there
        seen.append(len(found))
        return OK

    busy.driver.world.targets.answers = [look]
    execute_job(services, SCHEDULER, busy.job.id)
    (slot,) = busy.row.runs
    busy.driver.deliver_hint(Hint(busy.job.id, slot, 1))
    assert seen == [1]


def _later(one: Execution, minutes: int) -> Execution:

    return dataclasses.replace(one, slot_id=f"{int(one.slot_id[:10]) + EVERY * minutes:010d}")
