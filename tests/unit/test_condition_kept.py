"""`If-Match`, ownership and deletion hold for the row that is written, not only for the one that was loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from functions.domain.errors import NotFoundError, PreconditionFailedError
from functions.domain.idempotency import IdempotencyKey
from functions.usecases.actions import execute_job, pause_job, resume_job, retry_job
from functions.usecases.cancelling import cancel_job, delete_job
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import SCHEDULER, Driver
from tests.factories import make_document
from tests.flows import FAILED, NO_JITTER, ONCE

KEY = IdempotencyKey("alice POST action", "k", "hash")
ACTIONS: dict[str, Callable[..., Any]] = {
    "pause": pause_job,
    "resume": resume_job,
    "execute": execute_job,
    "retry": retry_job,
    "cancel": cancel_job,
    "delete": delete_job,
}


def failed_job(*, enabled: bool = True) -> tuple[Driver, str]:
    """A job that every action is allowed on: it runs each minute, and its last run failed."""
    driver = Driver()
    driver.world.targets.answers = [FAILED]
    job = driver.create(retryConfig={**NO_JITTER, "maxRetries": 0})
    driver.run(70)
    if not enabled:
        pause_job(driver.services, SCHEDULER, job.id)
    return driver, job.id


def meanwhile(driver: Driver, action: Callable[[], Any]) -> None:
    """Do it right before the next write of a row."""

    def step(when: str, name: str) -> None:
        if (when, name) == ("before", "jobs.save"):
            driver.world.faults.on_step = None
            action()

    driver.world.faults.on_step = step


@pytest.mark.parametrize("name", ACTIONS)
def test_a_change_that_comes_first_fails_the_condition(name: str) -> None:
    driver, job_id = failed_job(enabled=name != "resume")
    read = driver.row(job_id).revision
    draft = JobDraft(document=make_document(name="changed"), payload="{}")
    meanwhile(driver, lambda: change_job(driver.services, SCHEDULER, job_id, change=lambda _: draft))

    with pytest.raises(PreconditionFailedError):
        ACTIONS[name](driver.services, SCHEDULER, job_id, if_match=read)

    row = driver.row(job_id)
    assert (row.defined.name, row.revision, row.deleted_at, row.cancelled) == ("changed", read + 1, None, False)
    assert not row.runs


@pytest.mark.parametrize("name", ACTIONS)
def test_without_a_condition_the_action_follows_the_change(name: str) -> None:
    driver, job_id = failed_job(enabled=name != "resume")
    draft = JobDraft(document=make_document(name="changed"), payload="{}")
    meanwhile(driver, lambda: change_job(driver.services, SCHEDULER, job_id, change=lambda _: draft))
    before = driver.row(job_id)

    ACTIONS[name](driver.services, SCHEDULER, job_id)

    row = driver.row(job_id)
    assert (row.defined.name, row.seq) > ("changed", before.seq + 1)


@pytest.mark.parametrize("name", ["execute", "retry"])
def test_a_deleted_job_runs_no_more(name: str) -> None:
    driver = Driver()
    driver.world.targets.answers = [FAILED]
    job_id = driver.create(schedule=ONCE, retryConfig={**NO_JITTER, "maxRetries": 0}).id
    driver.run(70)
    meanwhile(driver, lambda: delete_job(driver.services, SCHEDULER, job_id))

    with pytest.raises(NotFoundError):
        ACTIONS[name](driver.services, SCHEDULER, job_id, key=KEY)

    assert not driver.row(job_id).runs
    assert not driver.world.idempotency.rows
