"""Cancelling one execution is final at once: one side wins, and nothing of its run follows."""

from __future__ import annotations

import pytest

from functions.domain.errors import ConflictError, NotFoundError
from functions.domain.execution import Execution, ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.job import Job, JobStatus
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.run import RunState
from functions.usecases.cancelling import cancel_execution
from functions.usecases.history import read_execution
from tests.consumers import BusyDriver
from tests.driver import SCHEDULER, VIEWER, Driver
from tests.factories import NOW
from tests.flows import FAILED, OK, ONCE

AT = NOW + 10
SLOT = str(AT)
RETRY = {"maxRetries": 3, "initialDelaySeconds": 100, "backoffStrategy": "fixed", "jitter": 0}


def cancel(driver: Driver, job: Job, attempt: int, slot: str = SLOT) -> Execution:
    return cancel_execution(driver.services, SCHEDULER, f"{job.id}-{slot}-{attempt:04d}")


def statuses(driver: Driver, job: Job) -> list[ExecutionStatus]:
    return [execution.status for execution in driver.world.history.of(job.id)]


@pytest.mark.case(18)
def test_a_waiting_retry_is_cancelled_and_its_late_hint_does_nothing() -> None:
    driver = Driver()
    driver.world.targets.answers = [FAILED]
    job = driver.create(schedule=ONCE, retryConfig=RETRY)
    driver.run(30)
    assert cancel(driver, job, 2).status is ExecutionStatus.CANCELLED
    row = driver.row(job.id)
    assert (row.runs, row.attention_at, row.status) == ({}, None, JobStatus.CANCELLED)
    driver.run(3_600)
    driver.deliver_hint(Hint(job.id, SLOT, 2))
    assert driver.row(job.id) == row
    assert len(driver.world.targets.calls) == 1
    assert statuses(driver, job) == [ExecutionStatus.FAILED, ExecutionStatus.CANCELLED]


@pytest.mark.case(18)
def test_a_queued_run_is_cancelled_and_the_one_before_it_goes_on() -> None:
    driver = Driver()
    schedule = {"type": "cron", "expression": "* * * * *"}
    driver.world.targets.answers = [FAILED]
    job = driver.create(schedule=schedule, overlapPolicy="queue", maxRuns=2, retryConfig=RETRY)
    driver.run_until(NOW + 130)
    first, queued = str(NOW + 60), str(NOW + 120)
    assert driver.row(job.id).runs[queued].state is RunState.QUEUED
    assert cancel(driver, job, 1, queued).status is ExecutionStatus.CANCELLED
    assert list(driver.row(job.id).runs) == [first]
    driver.world.targets.answers = [OK]
    driver.run(900)
    assert [call.slot_id for call in driver.world.targets.calls] == [first, first]


@pytest.mark.case(18)
@pytest.mark.parametrize("answer", [OK, FAILED], ids=["succeeds", "fails"])
def test_a_running_attempt_is_cancelled_whatever_it_answers(answer: TargetAnswer) -> None:
    driver = Driver()

    def cancelled_meanwhile(_: Invocation) -> TargetAnswer:
        assert cancel(driver, job, 1).status is ExecutionStatus.CANCELLED
        assert driver.row(job.id).runs == {}, "at once"
        return answer

    driver.world.targets.answers = [cancelled_meanwhile, OK]
    job = driver.create(schedule=ONCE, retryConfig=RETRY)
    driver.run(3_600)
    assert statuses(driver, job) == [ExecutionStatus.CANCELLED]
    assert len(driver.world.targets.calls) == 1
    assert driver.row(job.id).status is JobStatus.CANCELLED
    assert cancel(driver, job, 1).status is ExecutionStatus.CANCELLED, "the same request again"


@pytest.mark.case(18)
@pytest.mark.parametrize("answer", [OK, FAILED], ids=["succeeds", "fails"])
def test_a_retry_that_starts_between_the_read_and_the_history_row_is_cancelled_at_once(answer: TargetAnswer) -> None:
    driver = BusyDriver(lambda _: 20, answer=lambda invocation: FAILED if invocation.attempt == 1 else answer)
    job = driver.create(schedule=ONCE, retryConfig=RETRY)
    driver.run(60)
    retry = driver.row(job.id).runs[SLOT].due_at
    assert retry is not None
    driver.world.clock.time = retry
    started: list[RunState] = []

    def start(when: str, name: str) -> None:
        if (when, name) == ("before", "history.record") and not started:
            started.append(RunState.WAITING)
            driver.deliver(driver.world.timetable.take_due()[0])
            started.append(driver.row(job.id).runs[SLOT].state)

    driver.world.faults.on_step = start
    assert cancel(driver, job, 2).status is ExecutionStatus.CANCELLED
    driver.world.faults.disarm()
    assert started == [RunState.WAITING, RunState.RUNNING]
    assert driver.row(job.id).runs == {}, "at once"
    driver.run(3_600)
    assert statuses(driver, job) == [ExecutionStatus.FAILED, ExecutionStatus.CANCELLED]
    assert len(driver.world.targets.calls) == 2
    assert driver.row(job.id).status is JobStatus.CANCELLED


def test_what_ended_otherwise_is_a_conflict_and_what_is_not_there_is_not_found() -> None:
    driver = Driver()
    job = driver.create(schedule=ONCE)
    driver.run(30)
    with pytest.raises(ConflictError, match="COMPLETED"):
        cancel(driver, job, 1)
    for attempt, slot in ((2, SLOT), (1, str(AT + 60))):
        with pytest.raises(NotFoundError):
            cancel(driver, job, attempt, slot)
    with pytest.raises(NotFoundError):
        cancel_execution(driver.services, VIEWER, f"{job.id}-{SLOT}-0001")
    assert read_execution(driver.services, SCHEDULER, f"{job.id}-{SLOT}-0001").status is ExecutionStatus.COMPLETED
