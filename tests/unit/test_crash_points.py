"""Each flow stopped before and after each single write or send; then the sweep works (docs/architecture.md)."""

from __future__ import annotations

import itertools

import pytest

from functions.domain.ids import is_manual, slot_instant
from tests.driver import Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.faults import Faults
from tests.flows import FLOWS, PROMISE, SKIPPED, Flow, check_settled, final_statuses, scheduled_lateness

SETTLE = 900


def driver_with(faults: Faults) -> Driver:
    return Driver(World(clock=FakeClock(NOW), faults=faults))


def by_kind(driver: Driver, job_id: str) -> tuple[dict[int, list[str]], list[str]]:
    scheduled, manual = {}, []
    for slot, statuses in final_statuses(driver, job_id).items():
        if is_manual(slot):
            manual += statuses
        else:
            scheduled[slot_instant(slot) - NOW] = statuses
    return scheduled, manual


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_the_flow_ends_as_promised(flow: Flow) -> None:
    driver = driver_with(Faults())
    job_id = flow.run(driver)
    driver.run(SETTLE)
    scheduled, manual = by_kind(driver, job_id)
    assert {slot: statuses[-1] for slot, statuses in scheduled.items()} == flow.outcomes
    assert tuple(manual) == flow.manual
    assert driver.row(job_id).status is flow.status
    check_settled(driver, job_id)


@pytest.mark.case(32)
@pytest.mark.parametrize("when", ["crash_before", "crash_after"])
@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_a_death_after_any_step_is_repaired(flow: Flow, when: str) -> None:
    """No slot is lost or run twice, and nothing is later than lease + 2 minutes."""
    for step in itertools.count(1):
        faults = Faults(**{when: step})
        driver = driver_with(faults)
        job_id = flow.run(driver)
        crashed = faults.crashed
        faults.disarm()
        driver.run(SETTLE)
        where = f"{flow.name}, {when} {step}: {faults.steps[:step][-3:]}"
        check_settled(driver, job_id)
        scheduled, manual = by_kind(driver, job_id)
        assert all(statuses.count("COMPLETED") <= 1 for statuses in scheduled.values()), where
        assert all(slot in scheduled for slot in flow.outcomes), f"{where}: a slot is without outcome"
        for slot, outcome in flow.outcomes.items():
            # While a dead owner holds its lease, its run is active: the overlap policy may skip what comes due in it.
            allowed = {outcome, flow.after_a_death} | ({SKIPPED} if flow.recurring else set())
            assert scheduled[slot][-1] in allowed, f"{where}: {slot}"
        assert len(manual) == len(flow.manual), where
        for slot, late in scheduled_lateness(driver, job_id).items():
            assert 0 <= late <= PROMISE + 200, f"{where}: slot {slot} started {late} s late"
        if not crashed:
            assert step > 5, "the flow has steps"
            break
