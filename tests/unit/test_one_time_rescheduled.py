"""A one-time job may be given another time until its own slot has started, whatever slots came before."""

from __future__ import annotations

from typing import Any

import pytest

from functions.domain.errors import ConflictError
from functions.domain.execution import SkippedSlots
from functions.domain.ids import slot_id
from functions.domain.instants import rfc3339
from functions.domain.job import Job, JobStatus
from functions.usecases.actions import resume_job
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import SCHEDULER, Driver
from tests.factories import make_document


def once(instant: float) -> dict[str, str]:
    return {"type": "once", "at": rfc3339(instant)}


def reschedule(driver: Driver, job: Job, schedule: dict[str, Any]) -> Job:
    draft = JobDraft(document=make_document(schedule=schedule), payload="{}")
    return change_job(driver.services, SCHEDULER, job.id, change=lambda _: draft)


def test_a_paused_one_time_job_whose_time_went_by_can_be_given_another_time_again_and_again() -> None:
    driver = Driver()
    job = driver.create(schedule=once(driver.clock.now() + 10), enabled=False)
    driver.run(100)
    reschedule(driver, job, once(driver.clock.now() + 1_000))

    changed = reschedule(driver, job, once(driver.clock.now() + 500))

    assert changed.next_slot == int(driver.clock.now()) + 500
    resume_job(driver.services, SCHEDULER, job.id)
    driver.run(600)
    assert driver.row(job.id).status is JobStatus.COMPLETED
    assert len(driver.world.targets.calls) == 1


def test_slots_of_an_earlier_schedule_do_not_fix_the_time_of_a_job_that_became_a_one_time_job() -> None:
    driver = Driver()
    job = driver.create()
    driver.run(130)
    reschedule(driver, job, once(driver.clock.now() + 100))

    changed = reschedule(driver, job, once(driver.clock.now() + 200))

    assert changed.next_slot == int(driver.clock.now()) + 200


def test_a_one_time_job_that_has_run_keeps_its_time() -> None:
    driver = Driver()
    job = driver.create(schedule=once(driver.clock.now() + 10))
    driver.run(100)

    with pytest.raises(ConflictError, match="has started"):
        reschedule(driver, job, once(driver.clock.now() + 100))


def test_an_overdue_slot_of_a_definition_that_cannot_be_read_is_skipped_not_lost_when_a_new_one_is_put() -> None:
    driver = Driver(sweeps=False)
    job = driver.create()
    driver.world.jobs.lose_definition(job.id)
    driver.clock.sleep(90)

    changed = reschedule(driver, job, {"type": "interval", "everySeconds": 7})
    driver.run(30)

    assert changed.gap is not None
    assert (changed.gap.first, changed.gap.last, changed.gap.count) == (job.next_slot, job.next_slot, 1)
    skipped = [
        entry
        for entry in driver.services.history.list(job.id, limit=100, cursor=None).items
        if isinstance(entry, SkippedSlots)
    ]
    assert [slot_id(entry.first) for entry in skipped] == [slot_id(job.next_slot or 0)]
