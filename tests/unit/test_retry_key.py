"""A forced retry with an idempotency key is made once, also when the first request died after it took the key."""

from __future__ import annotations

import pytest

from functions.domain.errors import ConflictError
from functions.domain.idempotency import IdempotencyKey
from functions.domain.job import Job
from functions.usecases.actions import retry_job
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.faults import Faults
from tests.flows import FAILED, ONCE, made, rows_of

KEY = IdempotencyKey("alice POST retry", "k", "hash")


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def driver(faults: Faults) -> Driver:
    driver = Driver(World(clock=FakeClock(NOW), faults=faults))
    driver.world.targets.answers = [FAILED]
    return driver


def failed_job(driver: Driver) -> str:
    job_id = made(driver, schedule=ONCE, retryConfig={"maxRetries": 0})
    driver.run_until(NOW + 30)
    return job_id


def retry(driver: Driver, job_id: str) -> Job:
    return retry_job(driver.services, SCHEDULER, job_id, key=KEY)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_repeat_after_a_death_at_any_step_retries_once(driver: Driver, faults: Faults, step: int) -> None:
    job_id = failed_job(driver)
    faults.inject(crash_after=step)
    driver.call(lambda: retry(driver, job_id))
    assert faults.crashed
    faults.disarm()
    retry(driver, job_id)
    driver.run(300)
    assert len(rows_of(driver, job_id)) == 2
    retry(driver, job_id)
    driver.run(300)
    assert len(rows_of(driver, job_id)) == 2, "the key is used up while it is kept"


def test_a_repeat_while_the_retry_waits_changes_nothing(driver: Driver) -> None:
    job_id = failed_job(driver)
    first = retry(driver, job_id)
    assert retry(driver, job_id).seq == first.seq


def test_a_refused_retry_leaves_its_key_free(driver: Driver) -> None:
    job_id = made(driver, schedule=ONCE, retryConfig={"maxRetries": 0})
    with pytest.raises(ConflictError):
        retry(driver, job_id)
    driver.run_until(NOW + 30)
    assert retry(driver, job_id).runs
