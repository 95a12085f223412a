"""Each flow stopped before and after each single write or send; then the sweep works (docs/architecture.md)."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from tests.driver import Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.faults import Faults
from tests.flows import FLOWS, SETTLE, Flow, by_kind, check_graph_settled, check_repaired, scheduled_lateness


def driver_with(faults: Faults) -> Driver:
    return Driver(World(clock=FakeClock(NOW), faults=faults))


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_the_flow_ends_as_promised(flow: Flow) -> None:
    driver = driver_with(Faults())
    job_id = flow.run(driver)
    driver.run(SETTLE)
    check_ended_as_without_faults(driver, flow, job_id, where=flow.name)


@pytest.mark.case(32)
@pytest.mark.parametrize("when", ["crash_before", "crash_after"])
@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_a_death_after_any_step_is_repaired(flow: Flow, when: str) -> None:
    """No slot is lost or run twice, and nothing is later by more than lease + 2 minutes."""
    undisturbed = driver_with(Faults())
    starts = scheduled_lateness(undisturbed, flow.run(undisturbed))
    for step in itertools.count(1):
        faults = Faults(**{when: step})
        driver = driver_with(faults)
        job_id = flow.run(driver)
        crashed = faults.crashed
        faults.disarm()
        driver.run(SETTLE)
        where = f"{flow.name}, {when} {step}: {faults.steps[:step][-3:]}"
        check_repaired(driver, flow, job_id, starts=starts, where=where)
        if not crashed:
            assert step > 5, "the flow has steps"
            break


@pytest.mark.case(31)
@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_a_lost_answer_changes_nothing(flow: Flow) -> None:
    """Each write in turn is applied, its answer lost, and the SDK repeats it: its writer still knows that it won."""
    for step in itertools.count(1):
        driver = driver_with(Faults(lose_answer=step))
        job_id = flow.run(driver)
        driver.run(SETTLE)
        if step > len(driver.world.faults.steps):
            break
        check_ended_as_without_faults(driver, flow, job_id, where=f"{flow.name}, answer {step} lost")


@pytest.mark.case(31)
@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_a_lost_answer_and_a_write_by_another_change_nothing(flow: Flow) -> None:
    """As before, and between the write and its repetition somebody else writes the row: a new mark, a new `seq`."""
    for step in itertools.count(1):
        faults = Faults(lose_answer=step)
        driver = driver_with(faults)
        faults.meanwhile = lambda driver=driver: touch_every_row(driver)
        job_id = flow.run(driver)
        driver.run(SETTLE)
        if step > len(faults.steps):
            break
        check_ended_as_without_faults(driver, flow, job_id, where=f"{flow.name}, answer {step} lost, row written")


def touch_every_row(driver: Driver) -> None:
    """What a sweep that moves attention on leaves behind: the row as it was, under another mark."""
    jobs = driver.world.jobs
    for row in list(jobs.rows.values()):
        jobs.rows[row.id] = dataclasses.replace(row, seq=row.seq + 1, write_id=f"other-{row.seq}")


def check_ended_as_without_faults(driver: Driver, flow: Flow, job_id: str, *, where: str) -> None:
    scheduled, manual, dependent = by_kind(driver, job_id)
    assert {slot: statuses[-1] for slot, statuses in scheduled.items()} == flow.outcomes, where
    assert (manual, dependent) == (flow.manual, flow.dependent), where
    assert driver.row(job_id).status is flow.status, where
    check_graph_settled(driver)
    calls = [call.execution_id for call in driver.world.targets.calls]
    assert len(calls) == len(set(calls)), f"{where}: an attempt was called twice"
    lost = [e for e in driver.world.history.executions.values() if e.error and e.error.code == "WORKER_LOST"]
    assert not lost, f"{where}: a winner walked away"
