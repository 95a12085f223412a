"""Where a job says nothing of retries its type's configuration counts, wherever the policy is used."""

from __future__ import annotations

from typing import Any

import pytest

from functions.domain.errors import CorruptDefinitionError
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus
from functions.domain.job import Job, JobStatus
from functions.domain.lease import LEASE_GRACE
from functions.domain.outcome import Invocation, TargetAnswer
from functions.usecases.actions import execute_job, pause_job, resume_job, retry_job
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW, make_document
from tests.faults import Crash
from tests.flows import FAILED, OK, ONCE

AT = NOW + 10
LIMIT = 2
"""Attempts that the type below allows."""


def story(*answers: Any, **changes: Any) -> tuple[Driver, Job]:
    """A one-time job of the type `billing` that says nothing of retries, before it runs."""
    driver = Driver()
    driver.world.types.put("billing", maxRetries=LIMIT - 1, backoffStrategy="fixed", initialDelaySeconds=7, jitter=0)
    driver.world.targets.answers = list(answers) or [FAILED]
    return driver, driver.create(**{"type": "billing", "schedule": ONCE, **changes})


def reasons(driver: Driver, job: Job) -> list[str | None]:
    return [execution.reason for execution in driver.world.history.of(job.id)]


def tagged(driver: Driver, job: Job, **changes: Any) -> None:
    """A caller changes the job in between."""
    draft = JobDraft(
        document=make_document(type="billing", schedule=ONCE, tags=["changed"], **changes), payload="{}", enabled=None
    )
    change_job(driver.services, SCHEDULER, job.id, change=lambda _: draft)


def meanwhile(driver: Driver, change: Any) -> None:
    """Somebody else writes the row between the next read and its write."""
    left = [change]

    def step(when: str, name: str) -> None:
        if when == "before" and name == "jobs.save" and left:
            left.pop()()

    driver.world.faults.inject(on_step=step)


@pytest.mark.parametrize("description", ["", "x" * 900], ids=["inline", "in a row of its own"])
def test_a_run_s_limit_and_delays_are_those_of_its_type(description: str) -> None:
    driver, job = story(description=description or None)
    driver.run(60)
    first, second = driver.world.history.of(job.id)
    assert (first.next_retry_at, reasons(driver, job)) == (AT + 7, ["RETRY_SCHEDULED", "RETRIES_EXHAUSTED"])
    assert second.final


@pytest.mark.parametrize("description", ["", "x" * 900], ids=["inline", "in a row of its own"])
def test_the_loser_of_a_race_still_follows_the_type(description: str) -> None:
    driver, job = story(description=description or None)
    driver.run_until(AT)
    meanwhile(driver, lambda: tagged(driver, job, description=description or None))
    driver.run(60)
    assert driver.row(job.id).defined.document["tags"] == ["changed"]
    assert reasons(driver, job) == ["RETRY_SCHEDULED", "RETRIES_EXHAUSTED"]


def test_the_loser_of_a_race_for_a_forced_retry_and_a_manual_run_too() -> None:
    for request in (retry_job, execute_job):
        driver, job = story()
        driver.run(60)
        meanwhile(driver, lambda driver=driver, job=job: pause_job(driver.services, SCHEDULER, job.id))
        row = request(driver.services, SCHEDULER, job.id)
        assert row.paused
        (run,) = row.runs.values()
        assert run.attempt_limit == run.attempt + LIMIT


def test_what_a_job_says_wins_field_by_field() -> None:
    driver, job = story(retryConfig={"maxRetries": 0})
    driver.run(60)
    assert reasons(driver, job) == ["RETRIES_EXHAUSTED"]
    driver, job = story(retryConfig={"initialDelaySeconds": 3})
    driver.run(60)
    assert driver.world.history.of(job.id)[0].next_retry_at == AT + 3
    assert len(reasons(driver, job)) == LIMIT


def test_a_run_keeps_the_limit_it_started_with_and_the_rest_follows_the_type() -> None:
    driver, job = story()
    driver.run_until(AT + 2)
    driver.world.types.put("billing", maxRetries=0, nonRetryableErrors=["HTTP_503"])
    driver.run(60)
    assert reasons(driver, job) == ["RETRY_SCHEDULED", "NOT_RETRYABLE"]
    driver, job = story()
    driver.run_until(AT + 2)
    driver.world.types.put("billing", maxRetries=50)
    driver.run(60)
    assert reasons(driver, job) == ["RETRY_SCHEDULED", "RETRIES_EXHAUSTED"]


def test_a_change_of_the_job_s_type_counts_from_the_next_attempt_on() -> None:
    driver, job = story()
    driver.world.types.put("ledger", nonRetryableErrors=["HTTP_503"])
    driver.run_until(AT + 2)
    draft = JobDraft(document=make_document(type="ledger", schedule=ONCE), payload="{}", enabled=None)
    change_job(driver.services, SCHEDULER, job.id, change=lambda _: draft)
    driver.run(60)
    assert reasons(driver, job) == ["RETRY_SCHEDULED", "NOT_RETRYABLE"]


def test_a_type_s_retry_window_ends_a_retry_that_was_held() -> None:
    driver, job = story()
    driver.world.types.put("billing", retryWindowSeconds=60, initialDelaySeconds=5, jitter=0)
    driver.run_until(AT + 1)
    pause_job(driver.services, SCHEDULER, job.id)
    driver.run(120)
    resume_job(driver.services, SCHEDULER, job.id)
    driver.run(120)
    assert reasons(driver, job) == ["RETRY_SCHEDULED", "RETRY_WINDOW_OVER"]


def test_the_stage_s_defaults_count_below_the_type() -> None:
    driver, job = story()
    driver.world.types.defaults = driver.world.types.defaults.read({"maxRetries": 0, "initialDelaySeconds": 1})
    driver.run(60)
    assert driver.world.history.of(job.id)[0].next_retry_at == AT + 7
    untyped = driver.create(schedule={"type": "interval", "everySeconds": 60})
    driver.run(61)
    assert reasons(driver, untyped) == ["RETRIES_EXHAUSTED"]


def test_only_jobs_with_a_type_ask_for_one() -> None:
    driver, job = story(OK)
    driver.create(type=None, schedule=ONCE)
    driver.run_until(AT)
    driver.world.types.asked.clear()
    driver.run(60)
    assert set(driver.world.types.asked) == {"billing"}
    assert driver.row(job.id).status is JobStatus.COMPLETED


POISON = {"poisonDetection": True, "maxRetries": 9, "initialDelaySeconds": 1, "backoffStrategy": "fixed"}


class TestPoison:
    """`poisonDetection`: the same error three times in a row ends the run, whatever attempts are left."""

    def error(self, message: str = "no such customer") -> TargetAnswer:
        return TargetAnswer(
            status=ExecutionStatus.FAILED, error=ExecutionError(code="HANDLER_ERROR:KeyError", message=message)
        )

    def test_the_same_error_three_times_is_a_dead_letter(self) -> None:
        driver, job = story(self.error("another"), self.error(), retryConfig=POISON)
        driver.run(120)
        assert reasons(driver, job) == [*["RETRY_SCHEDULED"] * 3, "POISON"]
        row = driver.row(job.id)
        assert row.status is JobStatus.FAILED
        assert driver.world.history.dead_letters == [driver.world.history.of(job.id)[-1]]

    def test_errors_in_turns_are_not(self) -> None:
        answers = [self.error(str(number % 2)) for number in range(9)]
        driver, job = story(*answers, OK, retryConfig=POISON)
        driver.run(120)
        assert driver.row(job.id).status is JobStatus.COMPLETED

    def test_a_type_may_ask_for_it_and_a_job_may_not_want_it(self) -> None:
        driver, job = story(self.error())
        driver.world.types.put("billing", **POISON)
        other = driver.create(type="billing", schedule=ONCE, retryConfig={"poisonDetection": False})
        driver.run(120)
        assert len(reasons(driver, job)) == 3
        assert len(reasons(driver, other)) == 10

    @pytest.mark.parametrize("waiting", [False, True], ids=["of the ended run", "of a waiting retry"])
    def test_after_a_forced_retry_it_is_counted_anew(self, waiting: bool) -> None:
        driver, job = story(self.error(), retryConfig={**POISON, "initialDelaySeconds": 20, "jitter": 0})
        driver.run_until(AT + (21 if waiting else 90))
        before = len(driver.world.history.of(job.id))
        assert before == (2 if waiting else 3)
        retry_job(driver.services, SCHEDULER, job.id)
        driver.run(300)
        assert len(driver.world.history.of(job.id)) == before + 3
        assert reasons(driver, job)[-1] == "POISON"

    def test_a_run_whose_process_dies_three_times_is_one(self) -> None:
        def dies(_: Invocation) -> TargetAnswer:
            raise Crash

        for description in (None, "x" * 900):
            driver, job = story(dies, description=description, timeoutSeconds=1, retryConfig=POISON)
            driver.run(900 + 4 * LEASE_GRACE)
            assert [execution.error and execution.error.code for execution in driver.world.history.of(job.id)] == [
                "WORKER_LOST"
            ] * 3
            assert reasons(driver, job) == ["RETRY_SCHEDULED", "RETRY_SCHEDULED", "POISON"]

    @pytest.mark.parametrize("dies", [False, True], ids=["an error", "a death"])
    def test_a_row_of_history_that_cannot_be_read_ends_no_run_and_keeps_none_from_ending(self, dies: bool) -> None:
        def answer(invocation: Invocation) -> TargetAnswer:
            if dies and invocation.attempt == 3:
                raise Crash
            return self.error()

        driver, job = story(answer, timeoutSeconds=1, retryConfig=POISON)
        read = driver.world.history.get

        def spoiled(job_id: str, slot_id: str, attempt: int) -> Execution | None:
            if attempt == 1:
                raise CorruptDefinitionError
            return read(job_id, slot_id, attempt)

        driver.world.history.get = spoiled  # type: ignore[method-assign]
        driver.run(900)
        assert reasons(driver, job)[:3] == ["RETRY_SCHEDULED"] * 3
        assert driver.row(job.id).status is JobStatus.FAILED

    def test_an_error_that_is_final_anyway_reads_no_history(self) -> None:
        final = TargetAnswer(status=ExecutionStatus.FAILED, error=self.error().error, retryable=False)
        driver, job = story(self.error(), self.error(), final, retryConfig=POISON)
        asked: list[int] = []
        read = driver.world.history.get

        def noted(job_id: str, slot_id: str, attempt: int) -> Execution | None:
            asked.append(attempt)
            return read(job_id, slot_id, attempt)

        driver.world.history.get = noted  # type: ignore[method-assign]
        driver.run(120)
        assert (reasons(driver, job)[-1], asked) == ("NOT_RETRYABLE", [])
