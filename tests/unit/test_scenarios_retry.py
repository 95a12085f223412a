"""Scenarios of tests/cases/scenarios.md: retries, in virtual time over the ports in memory."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from functions.domain.execution import Execution, ExecutionError, ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.job import JobStatus
from functions.domain.outcome import TargetAnswer
from functions.domain.run import Outcome
from functions.domain.timing import one_time_schedule
from functions.usecases.cancelling import cancel_job
from functions.usecases.dead_letters import announce_dead_letters
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW
from tests.flows import FAILED, OK, ONCE

AT = NOW + 10
SLOT = str(AT)


def failing(code: str = "HTTP_503", *, retry_after: int | None = None) -> TargetAnswer:
    error = ExecutionError(code=code, message="no")
    return TargetAnswer(status=ExecutionStatus.FAILED, error=error, retry_after=retry_after)


def story(retry: dict[str, Any], *answers: TargetAnswer, seconds: int = 7_200) -> tuple[Driver, list[Execution]]:
    """A one-time job with this `retryConfig` whose target answers so; its executions."""
    driver = Driver()
    driver.world.targets.answers = list(answers)
    job = driver.create(schedule=ONCE, retryConfig=retry)
    driver.run(seconds)
    return driver, driver.world.history.of(job.id)


def delays(executions: list[Execution]) -> list[float]:
    """Seconds from the end of an attempt to the start of the next."""
    return [
        after.started_at - before.completed_at
        for before, after in itertools.pairwise(executions)
        if after.started_at is not None
    ]


@pytest.mark.case(8)
def test_three_retries_are_four_calls_and_one_dead_letter() -> None:
    driver, executions = story({"maxRetries": 3, "jitter": 0}, failing())
    assert len(driver.world.targets.calls) == 4
    assert delays(executions) == [10, 20, 40]
    assert [execution.final for execution in executions] == [False, False, False, True]
    row = driver.row(executions[0].job_id)
    assert row.last_run is not None
    assert row.last_run.outcome is Outcome.PERMANENTLY_FAILED
    assert row.status is JobStatus.FAILED
    # The stream of history brings every row, and brings it again after a failure: the messages have one id.
    letters = driver.world.dead_letters
    for _ in range(2):
        announce_dead_letters(driver.world.jobs, letters, executions)
    assert {message["id"] for message in letters.announced} == {executions[-1].id}
    assert len(letters.announced) == 2
    assert letters.announced[0] == letters.announced[1]
    assert driver.world.history.dead_letters == [executions[-1]]


@pytest.mark.case(8)
def test_no_retries_are_one_call() -> None:
    driver, executions = story({"maxRetries": 0}, failing())
    assert len(driver.world.targets.calls) == 1
    assert [(execution.final, execution.reason) for execution in executions] == [(True, "RETRIES_EXHAUSTED")]


@pytest.mark.case(9)
@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        ({"backoffStrategy": "fixed", "initialDelaySeconds": 10}, [10, 10, 10]),
        ({"backoffStrategy": "linear", "initialDelaySeconds": 10}, [10, 20, 30]),
        ({"initialDelaySeconds": 1, "multiplier": 2}, [1, 2, 4, 8]),
    ],
    ids=["fixed", "linear", "exponential"],
)
def test_delays_without_jitter(retry: dict[str, Any], expected: list[int]) -> None:
    _, executions = story({**retry, "jitter": 0, "maxRetries": len(expected)}, failing())
    assert delays(executions) == expected


@pytest.mark.case(12)
def test_a_delay_over_fifteen_minutes_is_kept_to_the_second() -> None:
    retry = {"backoffStrategy": "fixed", "initialDelaySeconds": 901, "maxDelaySeconds": 3_600, "jitter": 0}
    driver, executions = story(retry, failing(), OK)
    assert delays(executions) == [901]
    assert [sent.schedule is not None for sent in driver.world.timetable.sent if sent.hint.attempt == 2][:1] == [True]


@pytest.mark.case(13)
@pytest.mark.parametrize(("asked", "waited"), [(120, 120), (99_999, 300), (5, 10), (None, 10)])
def test_a_target_may_ask_for_more_time_up_to_the_maximum(asked: int | None, waited: int) -> None:
    _, executions = story({"jitter": 0}, failing("HTTP_429", retry_after=asked), OK)
    assert delays(executions) == [waited]


@pytest.mark.case(14)
def test_cancel_takes_the_schedule_of_a_waiting_retry_away_and_a_late_hint_does_nothing() -> None:
    driver = Driver()
    driver.world.targets.answers = [FAILED]
    retry = {"backoffStrategy": "fixed", "initialDelaySeconds": 3_600, "maxDelaySeconds": 3_600, "jitter": 0}
    job = driver.create(schedule=ONCE, retryConfig=retry)
    driver.run(60)
    hint = Hint(job.id, SLOT, 2)
    assert driver.world.timetable.schedules == [one_time_schedule(hint, due_at=AT + 3_600).name]
    cancel_job(driver.services, SCHEDULER, job.id)
    assert driver.world.timetable.schedules == []
    row, sent = driver.row(job.id), len(driver.world.timetable.sent)
    driver.clock.sleep(3_600)
    handled = driver.deliver_hint(hint)
    assert handled is not None
    assert (handled.reason, handled.execution) == ("JOB_CANCELLED", None)
    assert driver.row(job.id) == row
    assert len(driver.world.timetable.sent) == sent
    assert len(driver.world.targets.calls) == 1
