"""No retry starts later than its slot plus `retryWindowSeconds`, whatever held it back."""

from __future__ import annotations

from functions.domain.execution import ExecutionStatus
from functions.domain.job import JobStatus
from functions.domain.run import Outcome
from functions.usecases.actions import pause_job, resume_job, retry_job
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW
from tests.flows import AT, FAILED, NO_JITTER, OK, ONCE, rows_of

WINDOW = 100


def failed_once(*, delay: int = 60) -> tuple[Driver, str]:
    """A one-time job whose first attempt failed, and that waits for its retry within the window."""
    driver = Driver()
    driver.world.targets.answers = [FAILED, OK]
    retry = {**NO_JITTER, "initialDelaySeconds": delay, "retryWindowSeconds": WINDOW}
    job_id = driver.create(schedule=ONCE, retryConfig=retry).id
    driver.run_until(NOW + 20)
    return driver, job_id


def held_until(driver: Driver, job_id: str, instant: float) -> None:
    pause_job(driver.services, SCHEDULER, job_id)
    driver.run_until(instant)
    resume_job(driver.services, SCHEDULER, job_id)
    driver.run(30)


def test_a_retry_at_the_end_of_the_window_starts() -> None:
    driver, job_id = failed_once(delay=WINDOW)
    driver.run_until(AT + WINDOW + 30)
    assert driver.row(job_id).status is JobStatus.COMPLETED


def test_a_retry_held_by_a_pause_within_the_window_starts() -> None:
    driver, job_id = failed_once()
    held_until(driver, job_id, AT + WINDOW - 1)
    assert driver.row(job_id).status is JobStatus.COMPLETED


def test_a_retry_held_beyond_the_window_ends_the_run_without_a_call() -> None:
    driver, job_id = failed_once()
    held_until(driver, job_id, AT + WINDOW + 5)

    row = driver.row(job_id)
    assert (row.status, row.runs, row.attention_at) == (JobStatus.FAILED, {}, None)
    assert row.last_run is not None
    assert (row.last_run.outcome, row.last_run.attempt, row.last_run.error_code) == (
        Outcome.PERMANENTLY_FAILED,
        2,
        "RETRY_WINDOW_OVER",
    )
    last = rows_of(driver, job_id)[0]
    assert (last.status, last.final, last.reason, last.started_at, last.is_dead_letter) == (
        ExecutionStatus.FAILED,
        True,
        "RETRY_WINDOW_OVER",
        None,
        True,
    )
    assert len(driver.world.targets.calls) == 1


def test_a_retry_that_a_caller_asks_for_has_no_window() -> None:
    driver, job_id = failed_once()
    pause_job(driver.services, SCHEDULER, job_id)
    driver.run_until(AT + WINDOW + 5)
    retry_job(driver.services, SCHEDULER, job_id)
    driver.run(5)
    assert [call.attempt for call in driver.world.targets.calls] == [1, 2]


def test_stopped_after_any_step_it_ends_the_same() -> None:
    for step in range(1, 20):
        driver, job_id = failed_once()
        pause_job(driver.services, SCHEDULER, job_id)
        driver.run_until(AT + WINDOW + 5)
        resume_job(driver.services, SCHEDULER, job_id)
        driver.world.faults.inject(crash_after=step)
        driver.run(5)
        crashed = driver.world.faults.crashed
        driver.world.faults.disarm()
        driver.run(200)
        assert driver.row(job_id).status is JobStatus.FAILED
        assert len(driver.world.targets.calls) == 1
        if not crashed:
            break
    assert step > 2
