"""Attacks on jobs that depend on others, and on gates: each found by somebody who tried to break them."""

from __future__ import annotations

from functions.domain.job import JobStatus
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import SCHEDULER, Driver
from tests.unit.test_approvals import approve, waiting


def test_the_state_machine_calls_no_target_but_the_approved_one() -> None:
    """The payload is changed after the approved attempt was handed to the machine, and before that calls."""
    driver = Driver()
    job = waiting(driver, orchestrated=True)
    approve(driver, job)
    for delivery in driver.world.timetable.take_due():
        driver.deliver(delivery)
    assert driver.row(job.id).status is JobStatus.RUNNING
    draft = JobDraft(document=driver.row(job.id).defined.document, payload='{"changed":true}')
    change_job(driver.services, SCHEDULER, job.id, change=lambda _: draft)
    driver.run_machine()
    driver.run(60)
    assert [call.payload for call in driver.world.targets.calls] == []
    assert driver.row(job.id).status is JobStatus.BLOCKED
    approve(driver, job)
    driver.run(60)
    assert [call.payload for call in driver.world.targets.calls] == ['{"changed":true}']
    assert driver.row(job.id).status is JobStatus.COMPLETED
