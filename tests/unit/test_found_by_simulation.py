"""Faults that tests/simulation found, each as the shortest story that shows it."""

from __future__ import annotations

import dataclasses

from functions.domain.execution import Execution, ExecutionStatus
from functions.domain.ids import slot_id
from functions.domain.job import Job, JobStatus
from functions.domain.run import RunState
from functions.usecases.actions import retry_job
from functions.usecases.cancelling import cancel_execution
from functions.usecases.sweep import visit
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.faults import Crash
from tests.flows import AT, FAILED, MINUTELY, OK, ONCE

IN_TWENTY = {"initialDelaySeconds": 20, "backoffStrategy": "fixed", "jitter": 0}
WINDOW = {**IN_TWENTY, "retryWindowSeconds": 100}
SLOT = slot_id(AT)


def started() -> Driver:
    return Driver(World(clock=FakeClock(NOW)))


def lose_hints(driver: Driver) -> None:
    driver.world.timetable.armed.clear()


def failed_once(driver: Driver, **retry: object) -> Job:
    """A one-time job whose first attempt failed, and whose hint for the second is lost."""
    driver.world.targets.answers = [FAILED]
    job = driver.create(schedule=ONCE, retryConfig={**WINDOW, **retry})
    driver.run_until(NOW + 15)
    lose_hints(driver)
    return job


def test_a_retry_that_is_held_up_beyond_its_window_ends_the_run() -> None:
    driver = started()
    job = failed_once(driver, retryWindowSeconds=40)
    driver.run_until(NOW + 300)
    end = driver.services.history.get(job.id, SLOT, 2)
    assert end is not None
    assert (end.status, end.final, end.reason, end.started_at) == (
        ExecutionStatus.FAILED,
        True,
        "RETRY_WINDOW_OVER",
        None,
    )
    assert end.error is not None
    assert end.error.code == "RETRY_WINDOW_OVER"
    assert len(driver.world.targets.calls) == 1
    assert driver.row(job.id).status is JobStatus.FAILED


def test_a_retry_after_a_lost_worker_keeps_to_the_window() -> None:
    driver = started()

    def die(_: object) -> None:
        raise Crash

    driver.world.targets.answers = [die, OK]
    job = driver.create(schedule=ONCE, retryConfig={**WINDOW, "retryWindowSeconds": 30})
    driver.run_until(NOW + 300)
    assert len(driver.world.targets.calls) == 1
    assert driver.row(job.id).status is JobStatus.FAILED


def test_a_retry_by_force_needs_no_window() -> None:
    driver = started()
    job = failed_once(driver)
    driver.run_until(NOW + 300)
    driver.world.targets.answers = [OK]
    retry_job(driver.services, SCHEDULER, job.id)
    driver.run_until(NOW + 310)
    assert driver.row(job.id).status is JobStatus.COMPLETED


def test_the_sweep_that_recovers_a_run_sends_its_retry_once() -> None:
    driver = started()

    def die(_: object) -> None:
        raise Crash

    driver.world.targets.answers = [die, OK]
    job = driver.create(schedule=ONCE)
    driver.run_until(AT + 1)
    lose_hints(driver)
    driver.world.clock.time = AT + 60 + 15 + 6
    assert visit(driver.executor, job.id) == "RECOVERED"
    assert [(hint.slot_id, hint.attempt) for hint in driver.world.timetable.hints(job.id)] == [(SLOT, 2)]
    assert driver.row(job.id).wakes == 0, "nobody was woken in vain"


def test_a_worker_that_is_lost_holds_up_no_other_run() -> None:
    """One visit recovers the one and wakes the other: else who loses a worker each minute starves its retries."""
    driver = started()

    def die(_: object) -> None:
        raise Crash

    driver.world.targets.answers = [FAILED, die, OK]
    job = driver.create(schedule=MINUTELY, overlapPolicy="allow", retryConfig={**IN_TWENTY, "initialDelaySeconds": 100})
    driver.sweeps = False
    driver.run_until(NOW + 121)
    lose_hints(driver)
    driver.world.clock.time = NOW + 120 + 60 + 15 + 6
    visit(driver.executor, job.id)
    hints = [(int(hint.slot_id) - NOW, hint.attempt) for hint in driver.world.timetable.hints(job.id)]
    assert sorted(hints) == [(60, 2), (120, 2), (180, 1)]


def test_wakes_back_off_while_missed_slots_wait_for_the_run_before() -> None:
    """Else the row is quarantined after ten minutes of a lost hint instead of an hour and a half."""
    driver = started()
    driver.sweeps = False
    driver.world.targets.answers = [FAILED]
    job = driver.create(schedule=MINUTELY, misfirePolicy="run_all", retryConfig=IN_TWENTY)
    hints = list(driver.world.timetable.armed)
    driver.world.clock.time = NOW + 400
    for delivery in hints:
        driver.deliver(delivery)
    assert driver.row(job.id).next_waits
    lose_hints(driver)
    for wakes, backoff in enumerate((60, 120, 240), start=1):
        driver.world.clock.time = max(driver.row(job.id).attention_at or 0, NOW + 460)
        assert visit(driver.executor, job.id) == "WOKEN"
        row = driver.row(job.id)
        assert (row.wakes, row.attention_at) == (wakes, driver.clock.now() + backoff)


def test_a_row_that_an_index_shows_too_early_is_not_woken_again() -> None:
    driver = started()
    job = failed_once(driver)
    driver.world.clock.time = NOW + 90
    assert visit(driver.executor, job.id) == "WOKEN"
    driver.world.clock.time = NOW + 100
    assert visit(driver.executor, job.id) == "WATCHED"
    assert (driver.row(job.id).wakes, len(driver.world.timetable.hints(job.id))) == (1, 1)


def test_a_retry_by_force_of_a_run_that_history_has_ended_is_not_thrown_away() -> None:
    """Who ended it died before the row followed; the retry would have run under a number that has its outcome."""
    driver = started()
    job = failed_once(driver)
    stored = driver.services.history.get(job.id, SLOT, 1)
    assert stored is not None
    end = dataclasses.replace(
        stored, attempt=2, final=True, next_retry_at=None, started_at=None, reason="RETRY_WINDOW_OVER", write_id="end"
    )
    driver.services.history.record(end)
    driver.world.targets.answers = [OK]
    retry_job(driver.services, SCHEDULER, job.id)
    run = driver.row(job.id).runs[SLOT]
    assert (run.state, run.attempt) == (RunState.WAITING, 2)
    driver.run(5)
    third = driver.services.history.get(job.id, SLOT, 3)
    assert isinstance(third, Execution)
    assert third.status is ExecutionStatus.COMPLETED
    assert driver.row(job.id).status is JobStatus.COMPLETED


def test_cancelling_what_waits_after_its_window_is_no_conflict() -> None:
    driver = started()
    job = failed_once(driver)
    driver.sweeps = False
    driver.run_until(NOW + 300)
    ended = cancel_execution(driver.services, SCHEDULER, f"{job.id}-{SLOT}-0002")
    assert ended.status is ExecutionStatus.CANCELLED
