"""The events of each write of the row tell exactly the story that history tells, also where something died."""

from __future__ import annotations

import itertools

import pytest

from functions.domain.execution import Execution, SkippedSlots
from functions.domain.job import Job
from tests.driver import Driver
from tests.factories import NOW
from tests.fakes import FakeClock, InMemoryJobs, World
from tests.faults import Faults
from tests.flows import FLOWS, SETTLE, Flow, rows_of
from tests.telling import Heard, image


class ToldJobs(InMemoryJobs):
    """The table with a reader on its stream, who looks only once all is over: history is the same then."""

    def __init__(self, clock: FakeClock, faults: Faults) -> None:
        super().__init__(faults=faults)
        self._clock = clock
        self.writes: list[tuple[Job | None, Job, float]] = []

    def _store(self, job: Job) -> None:
        before = self.rows.get(job.id)
        super()._store(job)
        self.writes.append((None if before is None else image(before), image(self.rows[job.id]), self._clock.now()))


def heard(flow: Flow, faults: Faults) -> tuple[Heard, Faults]:
    """The story as it was told, compared with history."""
    clock = FakeClock(NOW)
    world = World(clock=clock, faults=faults)
    jobs = ToldJobs(clock, faults)
    driver = Driver(world, jobs=jobs)
    job_id = flow.run(driver)
    crashed = faults.crashed
    faults.disarm()
    driver.run(SETTLE)
    story = Heard()
    for before, after, at in jobs.writes:
        if after.id == job_id:
            story.hear(before, after, at, lambda slot, attempt: world.history.get(job_id, slot, attempt))
    rows = rows_of(driver, job_id)
    story.check(
        driver.row(job_id),
        [row for row in rows if isinstance(row, Execution)],
        [row for row in rows if isinstance(row, SkippedSlots)],
    )
    faults.crashed = crashed
    return story, faults


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_each_flow_is_told_as_history_tells_it(flow: Flow) -> None:
    heard(flow, Faults())


@pytest.mark.slow
@pytest.mark.parametrize("when", ["crash_before", "crash_after"])
@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_a_death_after_any_step_is_told_as_it_was_repaired(flow: Flow, when: str) -> None:
    for step in itertools.count(1):
        _, faults = heard(flow, Faults(**{when: step}))
        if not faults.crashed:
            assert step > 5, "the flow has steps"
            break
