"""How late repairs are, in whatever second of the sweep's minute things are lost (docs/architecture.md)."""

from __future__ import annotations

from typing import Any

import pytest

from functions.domain import concurrency, job, lease, path
from functions.domain.instants import rfc3339
from functions.usecases.cancelling import cancel_job
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.faults import Crash
from tests.flows import OK, rows_of
from tests.permits import WAITED, Queue

TICK = 60
TIMEOUT = 60
HINT_LOST = job.HINT_SLACK + TICK
CALLBACK_TIMEOUT = 7_200
CALL_LOST = path.DIRECT_SECONDS + lease.LEASE_MARGIN + lease.LEASE_GRACE + TICK
OWNER_LOST = TIMEOUT + lease.LEASE_MARGIN + lease.LEASE_GRACE + TICK


PASSED_ON = HINT_LOST + TICK
"""A permit is with the next run by then where the hint that the sweep has sent again is lost, too."""


def die(_: Any) -> Any:
    raise Crash("the owner dies in the call")


def starts(second: int, *answers: Any, lose_hint: bool = False, **document: Any) -> list[float]:
    """Seconds after its slot at which each attempt of a one-time job started."""
    driver = Driver(World(clock=FakeClock(NOW)))
    driver.world.targets.answers = [*answers, OK]
    at = {"type": "once", "at": f"2027-01-15T08:02:{second:02d}Z"}
    made = driver.create(**{"schedule": at, "timeoutSeconds": TIMEOUT, **document})
    if lose_hint:
        driver.world.timetable.armed.clear()
    driver.run_until(NOW + 900)
    found = [entry.started_at or 0.0 for entry in rows_of(driver, made.id)]  # type: ignore[union-attr]  # no gaps here
    found += [run.started_at for run in driver.row(made.id).runs.values() if run.started_at is not None]
    return sorted(start - NOW - 120 - second for start in found)


@pytest.mark.parametrize("second", range(0, 60, 7))
def test_a_lost_hint_is_replaced(second: int) -> None:
    [late] = starts(second, lose_hint=True)
    assert job.HINT_SLACK <= late <= HINT_LOST


@pytest.mark.parametrize("second", range(0, 60, 7))
def test_a_lost_owner_is_replaced(second: int) -> None:
    first, late = starts(second, die)
    assert first == 0
    assert OWNER_LOST - TICK <= late <= OWNER_LOST


@pytest.mark.parametrize("second", range(0, 60, 7))
def test_a_callback_whose_call_was_lost_is_replaced(second: int) -> None:
    first, late = starts(second, die, completion="callback", timeoutSeconds=CALLBACK_TIMEOUT)
    assert first == 0
    assert CALL_LOST - TICK <= late <= CALL_LOST


@pytest.mark.parametrize("second", range(0, 60, 7))
def test_the_lost_hint_of_a_run_whose_turn_it_is_is_replaced_however_long_it_has_waited(second: int) -> None:
    queue = Queue(since=NOW + WAITED + second)
    queue.driver.run(HINT_LOST + 2)
    late = queue.started(queue.first)
    assert late is not None
    assert job.HINT_SLACK <= late <= HINT_LOST


@pytest.mark.parametrize("second", range(0, 60, 7))
def test_a_permit_is_passed_on_where_that_hint_is_lost_too(second: int) -> None:
    queue = Queue(since=NOW + WAITED + second)
    queue.lose_all_hints(queue.first)
    queue.driver.run(PASSED_ON + 2)
    late = queue.started(queue.second)
    assert late is not None
    assert concurrency.GRANT_SECONDS <= late <= PASSED_ON


@pytest.mark.parametrize("second", range(0, 60, 7))
def test_the_permit_of_a_cancelled_call_whose_owner_died_is_passed_on(second: int) -> None:
    driver = Driver(World(clock=FakeClock(NOW)))
    driver.world.targets.answers = [die, OK]
    limit = {"concurrencyKey": "database", "maxConcurrency": 1, "timeoutSeconds": TIMEOUT}
    at = {"type": "once", "at": f"2027-01-15T08:02:{second:02d}Z"}
    cancelled = driver.create(schedule=at, **limit)
    driver.run_until(NOW + 120 + second + 1)
    waits = driver.create(schedule={"type": "once", "at": rfc3339(NOW + 120 + second + 1)}, **limit)
    driver.run(1)
    cancel_job(driver.services, SCHEDULER, cancelled.id)
    driver.run_until(NOW + 900)
    [end] = driver.executions(waits.id)
    late = (end.started_at or 0.0) - NOW - 120 - second
    assert OWNER_LOST - TICK <= late <= OWNER_LOST


def test_what_cannot_be_started_is_quarantined() -> None:
    driver = Driver(World(clock=FakeClock(NOW)))
    made = driver.create(schedule={"type": "once", "at": "2027-01-15T08:00:10Z"})
    driver.world.jobs.lose_definition(made.id)
    driver.run(3 * 3600)
    [end] = rows_of(driver, made.id)
    waited = end.completed_at - NOW - 10  # type: ignore[union-attr]  # no gaps here
    assert 60 + 120 + 240 + 480 + 6 * 900 <= waited <= 105 * 60 + 12 * TICK
