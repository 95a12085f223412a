"""Scenarios of tests/cases/scenarios.md: delivery, in virtual time over the ports in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

import pytest

from functions.domain.definition import Definition
from functions.domain.errors import ConflictError
from functions.domain.execution import Execution, ExecutionStatus, SkippedSlots
from functions.domain.hint import Hint
from functions.domain.ids import slot_id, slot_instant
from functions.domain.job import JobStatus
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.run import RunState
from functions.usecases.cancelling import cancel_job
from tests.consumers import BusyDriver
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW
from tests.faults import Crash
from tests.flows import FAILED, LONG, MINUTELY, OK, ONCE, rows_of

AT = NOW + 10
SLOT = str(AT)


def statuses(driver: Driver, job_id: str) -> list[tuple[int, str]]:
    """(seconds from NOW of the slot, status) of history, oldest first; of a gap each of its minutes."""
    found: list[tuple[int, str]] = []
    for row in reversed(rows_of(driver, job_id)):
        if isinstance(row, Execution):
            found.append((slot_instant(row.slot_id) - NOW, row.status.value))
        else:
            found += [(slot - NOW, "SKIPPED") for slot in range(row.first, row.last + 1, 60)]
    return sorted(found)


def once(driver: Driver, **changes: Any) -> str:
    return driver.create(schedule=ONCE, **changes).id


class TestTheSameHintAgain:
    @pytest.mark.case(15)
    def test_twice_at_once_and_once_more_after_completion(self) -> None:
        driver = Driver(sweeps=False)
        job = driver.create(schedule=MINUTELY)
        [delivery] = driver.world.timetable.armed
        hint, reasons = delivery.hint, []

        def other_consumer(when: str, name: str) -> None:
            if (when, name) == ("before", "jobs.save") and not reasons:
                reasons.append("under way")
                handled = driver.deliver_hint(hint)
                assert handled is not None
                reasons.append(handled.reason)

        driver.world.faults.on_step = other_consumer
        driver.run_until(NOW + 61)
        driver.world.faults.disarm()
        assert reasons[1] == "STARTED"
        assert driver.handled[-1].reason == "NOTHING_DUE", "who read before and wrote after has lost"
        assert len(driver.world.targets.calls) == 1
        row = driver.row(job.id)
        for _ in range(3):
            again = driver.deliver_hint(hint)
            assert again is not None
            assert again.execution is None
        assert driver.row(job.id) == row
        assert driver.world.timetable.hints(job.id) == [Hint(job.id, str(NOW + 120), 1)]

    @pytest.mark.case(15)
    def test_also_when_the_history_row_has_expired(self) -> None:
        driver = Driver(sweeps=False)
        recurring = driver.create(schedule=MINUTELY)
        one_time = once(driver)
        hints = [delivery.hint for delivery in driver.world.timetable.armed]
        driver.run_until(NOW + 61)
        rows = [driver.row(recurring.id), driver.row(one_time)]
        sent = len(driver.world.timetable.sent)
        assert len(driver.world.history.executions) == 1, "the one-time job's is in its row"
        driver.world.history.executions.clear()
        for hint in hints * 2:
            driver.deliver_hint(hint)
        assert [driver.row(recurring.id), driver.row(one_time)] == rows
        assert driver.world.history.executions == {}
        assert len(driver.world.timetable.sent) == sent
        assert len(driver.world.targets.calls) == 2


class TestCancelAndClaim:
    @pytest.mark.case(18)
    def test_cancel_first_the_claim_fails(self) -> None:
        driver = Driver()
        job_id = once(driver)
        done: list[str] = []

        def cancel(when: str, name: str) -> None:
            if (when, name) == ("before", "jobs.save") and not done:
                done.append("cancelling")
                cancel_job(driver.services, SCHEDULER, job_id)

        driver.world.faults.on_step = cancel
        driver.run(30)
        assert driver.handled[0].reason == "JOB_CANCELLED"
        assert driver.world.targets.calls == []
        assert driver.row(job_id).status is JobStatus.CANCELLED
        driver.run(600)
        assert driver.world.targets.calls == []

    @pytest.mark.case(18)
    @pytest.mark.parametrize("answer", [OK, FAILED], ids=["succeeds", "fails"])
    def test_claim_first_the_job_ends_cancelled_and_nothing_follows(self, answer: TargetAnswer) -> None:
        """The attempt starts between the cancel's read and its write; its owner ends after it."""
        driver = BusyDriver(lambda _: 20, answer=lambda _: answer)
        job_id = once(driver)
        started: list[bool] = []

        def claim(when: str, name: str) -> None:
            if (when, name) == ("before", "jobs.save") and not started:
                started.append(True)
                driver.deliver(driver.world.timetable.take_due()[0])

        driver.world.clock.time = AT + 1
        driver.world.faults.on_step = claim
        cancelled = cancel_job(driver.services, SCHEDULER, job_id)
        driver.world.faults.disarm()
        assert len(driver.calling) == 1
        assert cancelled.status is JobStatus.CANCELLED
        assert cancelled.runs == {}
        driver.run(900)
        row = driver.row(job_id)
        assert row.status is JobStatus.CANCELLED
        assert [execution.status for execution in driver.world.history.of(job_id)] == [ExecutionStatus.CANCELLED]
        assert len(driver.world.targets.calls) == 1
        assert driver.world.timetable.hints(job_id) == []
        assert driver.handled[-1].execution is not None
        assert driver.handled[-1].execution.status is ExecutionStatus.CANCELLED, "the owner learns it"

    @pytest.mark.case(18)
    def test_cancelled_while_it_runs_is_cancelled_at_once_and_not_retried(self) -> None:
        driver = BusyDriver(lambda _: 40, answer=lambda _: FAILED)
        job_id = once(driver)
        driver.run_until(AT + 20)
        assert driver.row(job_id).status is JobStatus.RUNNING
        assert cancel_job(driver.services, SCHEDULER, job_id).status is JobStatus.CANCELLED
        driver.run(900)
        assert driver.row(job_id).status is JobStatus.CANCELLED
        assert len(driver.world.targets.calls) == 1
        [execution] = driver.world.history.of(job_id)
        assert (execution.status, execution.final, execution.reason) == (
            ExecutionStatus.CANCELLED,
            True,
            "JOB_CANCELLED",
        )

    @pytest.mark.case(18)
    def test_completed_first_cancel_is_a_conflict(self) -> None:
        driver = Driver()
        job_id = once(driver)
        driver.run(30)
        with pytest.raises(ConflictError, match="COMPLETED"):
            cancel_job(driver.services, SCHEDULER, job_id)
        assert driver.row(job_id).status is JobStatus.COMPLETED

    @pytest.mark.case(18)
    def test_completed_in_history_but_not_yet_in_the_row_cancel_is_a_conflict(self) -> None:
        """The history row decides about the attempt, for the cancel too."""
        driver = Driver(sweeps=False)
        driver.world.targets.answers = [LONG]
        job_id = once(driver)

        def die(when: str, name: str) -> None:
            if (when, name) == ("after", "history.record"):
                raise Crash

        driver.world.faults.on_step = die
        driver.run(30)
        driver.world.faults.disarm()
        assert driver.row(job_id).status is JobStatus.RUNNING
        with pytest.raises(ConflictError, match="COMPLETED"):
            cancel_job(driver.services, SCHEDULER, job_id)
        assert driver.row(job_id).status is JobStatus.COMPLETED


class TestRunsOf150SecondsEachMinute:
    def driver(self, policy: str) -> tuple[BusyDriver, str]:
        driver = BusyDriver(lambda _: 150)
        job = driver.create(schedule=MINUTELY, overlapPolicy=policy, timeoutSeconds=300)
        return driver, job.id

    @pytest.mark.case(19)
    def test_skip(self) -> None:
        driver, job_id = self.driver("skip")
        driver.run(60 * 10 + 59)
        assert statuses(driver, job_id) == [
            (60, "COMPLETED"),
            (120, "SKIPPED"),
            (180, "SKIPPED"),
            (240, "COMPLETED"),
            (300, "SKIPPED"),
            (360, "SKIPPED"),
            (420, "COMPLETED"),
            (480, "SKIPPED"),
            (540, "SKIPPED"),
        ]
        assert [call.invocation.scheduled_for for call in driver.calling] == [NOW + 600]
        assert all(row.reason == "OVERLAP" for row in rows_of(driver, job_id) if isinstance(row, SkippedSlots))

    @pytest.mark.case(19)
    def test_allow(self) -> None:
        driver, job_id = self.driver("allow")
        driver.run(60 * 10 + 59)
        starts = [row.started_at for row in driver.world.history.of(job_id)]
        assert starts == [NOW + 60 * k for k in range(1, 9)]
        assert [call.started for call in driver.calling] == [NOW + 540, NOW + 600]
        assert driver.most_calling == 3

    @pytest.mark.case(19)
    def test_queue(self) -> None:
        driver, job_id = self.driver("queue")
        for _ in range(50):
            driver.run(15)
            states = [run.state for run in driver.row(job_id).runs.values()]
            assert states.count(RunState.QUEUED) <= 1
        executions = driver.world.history.of(job_id)
        assert [(slot_instant(row.slot_id) - NOW, (row.started_at or 0) - NOW) for row in executions[:4]] == [
            (60, 60),
            (120, 210),
            (240, 360),
            (360, 510),
        ]
        assert dict(statuses(driver, job_id))[180] == dict(statuses(driver, job_id))[300] == "SKIPPED"
        assert driver.most_calling == 1

    @pytest.mark.case(19)
    @pytest.mark.parametrize("policy", ["skip", "queue"])
    def test_the_holder_crashes_and_its_lease_frees_the_job(self, policy: str) -> None:
        crashed: list[int] = []

        def dies_once(invocation: Invocation) -> float:
            if not crashed:
                crashed.append(invocation.scheduled_for)
                raise Crash
            return 5

        driver = BusyDriver(dies_once)
        job = driver.create(schedule=MINUTELY, overlapPolicy=policy, retryConfig={"maxRetries": 0})
        driver.run(600)
        found = dict(statuses(driver, job.id))
        assert found[60] == "FAILED"
        error = driver.world.history.of(job.id)[0].error
        assert error is not None
        assert error.code == "WORKER_LOST"
        # Its lease ends at 60 + 60 + 15; the sweep frees the job at the next full minute, a slot of its own.
        assert found[120] == ("SKIPPED" if policy == "skip" else "COMPLETED")
        assert all(found[60 * k] == "COMPLETED" for k in range(4, 10))


def corrupt(driver: Driver, job_id: str, definition: Definition | None) -> None:
    driver.world.jobs.put(replace(driver.row(job_id), definition=definition))


class TestCorruptRows:
    @pytest.mark.case(20)
    @pytest.mark.parametrize("payload", ['{"a":', "", "\x00", "[" * 100_000], ids=["cut", "empty", "zero", "deep"])
    def test_a_payload_that_is_no_json_is_an_attempt_and_a_dead_letter_at_once(self, payload: str) -> None:
        driver = Driver()
        job_id, other = once(driver), once(driver)
        corrupt(driver, job_id, replace(driver.row(job_id).defined, payload=payload))
        driver.run(3_600)
        [execution] = driver.world.history.of(job_id)
        assert execution.error is not None
        assert (execution.attempt, execution.error.code, execution.reason) == (1, "PAYLOAD_ERROR", "NOT_RETRYABLE")
        assert execution.is_dead_letter
        assert [call.job_id for call in driver.world.targets.calls] == [other], "it is not sent"
        assert driver.row(job_id).status is JobStatus.FAILED
        assert driver.world.timetable.armed == []

    @pytest.mark.case(20)
    @pytest.mark.parametrize("schedule", [ONCE, MINUTELY], ids=["once", "cron"])
    def test_a_definition_that_cannot_be_read_is_woken_ten_times_then_quarantined(self, schedule: Any) -> None:
        driver = Driver()
        job = driver.create(schedule=schedule)
        other = driver.create(schedule=MINUTELY)
        driver.world.jobs.lose_definition(job.id)
        wakes: list[int] = []
        for _ in range(120):
            driver.run(60)
            row = driver.row(job.id)
            if row.wakes and (not wakes or wakes[-1] != row.wakes):
                wakes.append(row.wakes)
        assert wakes == list(range(1, 11))
        [execution] = driver.world.history.of(job.id)
        assert execution.error is not None
        assert (execution.attempt, execution.error.code, execution.final) == (1, "QUARANTINED", True)
        assert driver.world.history.dead_letters == [execution]
        row = driver.row(job.id)
        assert (row.status, row.attention_at, row.next_slot) == (JobStatus.FAILED, None, None)
        assert len([call for call in driver.world.targets.calls if call.job_id == other.id]) == 119
        # Every message of it was tried five times and went where the queue puts what nobody can handle.
        driver.run(5 * 540)
        assert driver.world.timetable.hints(job.id) == []
        assert {delivery.hint.job_id for delivery in driver.dead_messages} <= {job.id}
        assert len(driver.dead_messages) <= 11

    @pytest.mark.case(20)
    @pytest.mark.parametrize(
        "changes",
        [
            {"target": {"type": "worker", "queue": "reports"}},
            {"concurrencyKey": "db", "maxConcurrency": 1},
        ],
        ids=["worker", "key"],
    )
    def test_what_waits_for_others_does_not_wait_for_ever(self, changes: dict[str, Any]) -> None:
        """Whoever could start it passes it over: the sweep has it woken, and at last quarantined."""

        def dies(_: Invocation) -> NoReturn:
            raise Crash

        driver = Driver()
        if "concurrencyKey" in changes:
            driver.world.targets.answers = [dies]  # and holds the key's only slot until its lease is over
            driver.create(schedule=ONCE, retryConfig={"maxRetries": 0}, **changes)
        job = driver.create(schedule={"type": "once", "at": "2027-01-15T08:00:20Z"}, **changes)
        driver.run_until(NOW + 30)
        assert driver.row(job.id).waiting is not None
        driver.world.jobs.lose_definition(job.id)
        driver.run(3 * 3_600)
        [execution] = driver.world.history.of(job.id)
        assert execution.error is not None
        assert execution.error.code == "QUARANTINED"
        assert driver.row(job.id).attention_at is None


def test_a_retry_that_no_worker_comes_for_ends_with_its_window() -> None:
    """Nobody's hint is due while it waits for others: the sweep that looks at it sends one."""
    driver = Driver()
    retries = {"maxRetries": 3, "initialDelaySeconds": 1, "retryWindowSeconds": 300}
    job = driver.create(schedule=ONCE, retryConfig=retries, target={"type": "worker", "queue": "reports"})
    driver.run_until(AT + 1)
    run = driver.row(job.id).runs[slot_id(AT)]
    failed = replace(run, attempt=1, attempt_limit=4)
    row = driver.row(job.id)
    driver.world.jobs.put(replace(row, runs={slot_id(AT): failed}))
    driver.run(1_800)
    [execution] = driver.world.history.of(job.id)
    assert (execution.attempt, execution.reason, execution.final) == (2, "RETRY_WINDOW_OVER", True)
    assert execution.completed_at <= AT + 300 + 600


@pytest.mark.case(21)
def test_the_one_stuck_execution_among_a_hundred_long_ones_is_found() -> None:
    """By what needs attention, not by start: in the second look only the stuck one is visited."""

    def lasts(invocation: Invocation) -> float:
        if invocation.scheduled_for == AT + 20:
            raise Crash
        return 3_000

    driver = BusyDriver(lasts, sweeps=False)
    for _ in range(100):
        driver.create(schedule=ONCE, timeoutSeconds=3_600)
    driver.run(20)
    stuck = driver.create(schedule={"type": "once", "at": "2027-01-15T08:00:30Z"}, retryConfig={"maxRetries": 0})
    driver.run_until(NOW + 100)
    assert len(driver.calling) == 100
    first = driver.sweep_now()
    assert first is not None
    assert (first.looked_at, first.reasons) == (101, {"WATCHED": 101})
    driver.run_until(NOW + 30 + 75 + 5.5)
    second = driver.sweep_now()
    assert second is not None
    assert (second.looked_at, second.reasons) == (1, {"RECOVERED": 1})
    assert driver.row(stuck.id).status is JobStatus.FAILED
    assert len(driver.calling) == 100
    driver.run(3_600)
    ended = [execution for job_id in driver.world.jobs.rows for execution in driver.executions(job_id)]
    assert sum(execution.status is ExecutionStatus.COMPLETED for execution in ended) == 100
