"""A row that many write at once: who loses a race pauses, for a while that differs, before it decides again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.domain.errors import UnavailableError
from functions.usecases.actions import pause_job
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World


def crowded(seconds: float) -> tuple[Driver, str]:
    """A job that others write before each write of ours, for so many seconds."""
    driver = Driver(World(clock=FakeClock(NOW)), sweeps=False)
    job = driver.create().id
    jobs, save = driver.world.jobs, driver.world.jobs.save

    def crowd(read: Any, new: Any, **options: Any) -> Any:
        if driver.clock.now() < NOW + seconds:
            row = jobs.rows[read.id]
            jobs.rows[read.id] = replace(row, seq=row.seq + 1, write_id="another")
        return save(read, new, **options)

    jobs.save = crowd  # type: ignore[method-assign]  # comes first
    return driver, job


def test_a_crowd_that_is_over_within_the_pauses_costs_nobody_an_answer() -> None:
    driver, job = crowded(0.2)
    assert pause_job(driver.services, SCHEDULER, job).paused
    assert driver.world.clock.slept == [0.02, 0.04, 0.08, 0.16]


def test_one_that_lasts_is_an_error_after_five_tries() -> None:
    driver, job = crowded(60)
    with pytest.raises(UnavailableError, match="changed 5 times"):
        pause_job(driver.services, SCHEDULER, job)
    assert driver.clock.now() < NOW + 1
