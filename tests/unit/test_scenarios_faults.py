"""Scenarios of tests/cases/scenarios.md: faults of the platform, in virtual time over the ports in memory."""

from __future__ import annotations

import itertools

import pytest

from functions.domain.errors import ConflictError
from functions.domain.execution import Execution, SkippedSlots
from functions.domain.hint import Hint
from functions.domain.ids import is_manual, slot_instant
from functions.domain.job import Job, JobStatus
from functions.domain.outcome import Invocation
from functions.domain.run import RunState
from functions.usecases.actions import execute_job, pause_job, resume_job, retry_job
from functions.usecases.jobs import JobDraft, change_job
from functions.usecases.sweep import MAX_BACKLOG
from tests.consumers import BusyDriver
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.faults import Crash, Faults
from tests.flows import FAILED, FLOWS, LONG, MINUTELY, OK, ONCE, Flow, check_settled, final_statuses, rows_of

AT = NOW + 10
SLOT = str(AT)
HOLDING = {"backoffStrategy": "fixed", "initialDelaySeconds": 60, "jitter": 0}


def ends(driver: Driver, job_id: str) -> tuple[dict[int, str], list[str], list[int]]:
    """Final status by scheduled slot, those of manual runs, and the attempts of each execution."""
    scheduled, manual = {}, []
    for slot, statuses in final_statuses(driver, job_id).items():
        if is_manual(slot):
            manual += statuses
        else:
            scheduled[slot_instant(slot) - NOW] = statuses[-1]
    attempts = [row.attempt for row in rows_of(driver, job_id) if isinstance(row, Execution)]
    return scheduled, manual, attempts


class TestLostAnswers:
    @pytest.mark.slow
    @pytest.mark.case(31)
    @pytest.mark.parametrize("meanwhile", ["nothing", "sweep"])
    @pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
    def test_who_wrote_knows_it_though_the_answer_was_lost(self, flow: Flow, meanwhile: str) -> None:
        """Each write of each flow: applied, answer lost, repeated by the SDK, refused. Nothing may be different."""
        undisturbed = Driver(World(clock=FakeClock(NOW)))
        job_id = flow.run(undisturbed)
        undisturbed.run(900)
        expected = ends(undisturbed, job_id)
        for step in itertools.count(1):
            faults = Faults(lose_answer=step)
            driver = Driver(World(clock=FakeClock(NOW), faults=faults))
            if meanwhile == "sweep":  # moves rows on, so that the repeated write meets another's
                faults.meanwhile = driver.sweep_now
            job_id = flow.run(driver)
            done = faults.count < step
            faults.disarm()
            driver.run(900)
            where = f"{flow.name}, {step}"
            check_settled(driver, job_id)
            assert ends(driver, job_id) == expected, where
            calls = [(call.slot_id, call.attempt) for call in driver.world.targets.calls]
            assert len(calls) == len(set(calls)), where
            if done:
                break

    @pytest.mark.case(31)
    def test_a_start_that_others_overwrote_is_still_known_by_its_mark(self) -> None:
        """V5: with no retries, who walks away from its own start loses the run without one call."""
        driver = Driver(sweeps=False)
        job = driver.create(schedule=ONCE, retryConfig={"maxRetries": 0})
        driver.world.clock.time = AT
        driver.world.faults.inject(
            lose_answer=1, meanwhile=lambda: pause_job(driver.services, SCHEDULER, job.id) and None
        )
        driver.deliver_hint(Hint(job.id, SLOT, 1))
        driver.world.faults.disarm()
        assert len(driver.world.targets.calls) == 1
        assert driver.row(job.id).status is JobStatus.COMPLETED


class TestDeaths:
    @pytest.mark.case(32)
    def test_after_the_history_row_the_sweep_finishes_the_job_and_no_attempt_is_wasted(self) -> None:
        driver = Driver()
        driver.world.targets.answers = [LONG]
        job = driver.create(schedule=ONCE)

        def die(when: str, name: str) -> None:
            if (when, name) == ("after", "history.record"):
                driver.world.faults.disarm()
                raise Crash

        driver.world.faults.on_step = die
        driver.run(15)
        assert driver.row(job.id).status is JobStatus.RUNNING
        driver.run(75 + 120)
        [execution] = driver.world.history.of(job.id)
        assert execution.status == "COMPLETED"
        assert driver.row(job.id).status is JobStatus.COMPLETED
        assert len(driver.world.targets.calls) == 1

    @pytest.mark.case(32)
    def test_after_the_job_row_and_before_the_message_the_retry_still_comes(self) -> None:
        driver = Driver()
        driver.world.targets.answers = [FAILED, OK]
        job = driver.create(schedule=ONCE, retryConfig=HOLDING)

        def die(when: str, name: str) -> None:
            if (when, name) == ("before", "timetable.arm"):
                driver.world.faults.disarm()
                raise Crash

        driver.world.clock.time = NOW + 1
        driver.world.faults.on_step = die
        driver.run(60)
        assert driver.row(job.id).status is JobStatus.RETRYING
        assert [one.hint.attempt for one in driver.world.timetable.armed] == [1], "only what comes back"
        driver.run(60 + 120)
        assert [row.status.value for row in driver.world.history.of(job.id)] == ["FAILED", "COMPLETED"]

    @pytest.mark.case(32)
    def test_after_the_creation_and_before_its_hint_the_job_still_starts(self) -> None:
        driver = Driver(World(faults=Faults(crash_after=2)))
        driver.call(lambda: driver.create(schedule=ONCE))
        assert driver.world.faults.steps[-1] == "jobs.create"
        driver.world.faults.disarm()
        assert driver.world.timetable.armed == []
        driver.run(10 + 120)
        [execution] = driver.executions(next(iter(driver.world.jobs.rows)))
        assert execution.status == "COMPLETED"
        assert execution.started_at is not None
        assert execution.started_at <= AT + 30 + 60


def test_an_owner_that_comes_back_after_its_lease_ends_nothing_of_the_retry_that_was_forced() -> None:
    """V6: the fence is the job's, so the attempt that was given up has another than the one that runs."""
    driver = BusyDriver(lambda invocation: 300 if invocation.attempt == 1 else 40)
    job = driver.create(schedule=ONCE, retryConfig={"maxRetries": 0})
    driver.run_until(AT + 280)
    assert driver.row(job.id).status is JobStatus.FAILED
    retry_job(driver.services, SCHEDULER, job.id)
    driver.run_until(AT + 305)
    lost = driver.world.history.get(job.id, SLOT, 1)
    assert lost is not None
    assert lost.error is not None
    assert lost.error.code == "WORKER_LOST"
    [late] = driver.handled
    assert late.execution == lost, "the late owner learns it"
    [run] = driver.row(job.id).runs.values()
    assert (run.state, run.attempt, run.fence) == (RunState.RUNNING, 2, 2)
    driver.run(600)
    assert [(row.attempt, row.status.value) for row in driver.world.history.of(job.id)] == [
        (1, "FAILED"),
        (2, "COMPLETED"),
    ]
    assert driver.row(job.id).status is JobStatus.COMPLETED


@pytest.mark.case(33)
@pytest.mark.parametrize("how", ["at once", "late", "each of the first ten"])
def test_a_duplicate_breeds_no_second_chain(how: str) -> None:
    driver = Driver()
    job = driver.create(schedule=MINUTELY)
    timetable = driver.world.timetable
    if how == "each of the first ten":
        for minute in range(10):
            timetable.duplicate(timetable.armed[0], later=minute % 3)
            driver.run(60)
    else:
        timetable.duplicate(timetable.armed[0], later=90 if how == "late" else 0)
    driver.run_until(NOW + 3_601)
    assert timetable.hints(job.id) == [Hint(job.id, str(NOW + 3_660), 1)]
    assert [call.scheduled_for for call in driver.world.targets.calls] == [NOW + 60 * k for k in range(1, 61)]
    assert len(timetable.sent) == 61


class TestBacklog:
    @pytest.mark.case(35)
    def test_the_sweep_adds_nothing_to_a_full_queue_and_counts_no_wakes(self) -> None:
        driver = Driver()
        jobs = [driver.create(schedule=ONCE) for _ in range(5)]
        driver.world.timetable.armed.clear()
        driver.world.timetable.strangers = 100_000
        rows = [driver.row(job.id) for job in jobs]
        sent = len(driver.world.timetable.sent)
        driver.run(6 * 3_600)
        assert len(driver.world.timetable.sent) == sent
        assert [driver.row(job.id) for job in jobs] == rows
        assert driver.world.history.executions == {}
        driver.world.timetable.strangers = 0
        driver.run(61)
        assert {driver.row(job.id).status for job in jobs} == {JobStatus.COMPLETED}

    @pytest.mark.case(35)
    def test_a_full_queue_keeps_the_sweep_from_no_repair(self) -> None:
        def dies(_: Invocation) -> float:
            raise Crash

        driver = BusyDriver(dies)
        job = driver.create(schedule=ONCE, retryConfig={"maxRetries": 0})
        driver.world.timetable.strangers = MAX_BACKLOG
        driver.run(200)
        assert driver.row(job.id).status is JobStatus.FAILED

    def test_up_to_the_limit_it_feeds(self) -> None:
        driver = Driver()
        job = driver.create(schedule=ONCE)
        driver.world.timetable.armed.clear()
        driver.world.timetable.strangers = MAX_BACKLOG - 1
        driver.run(61)
        assert driver.row(job.id).status is JobStatus.COMPLETED


def retag(row: Job) -> JobDraft:
    return JobDraft(document={**row.defined.document, "tags": ["new"]}, payload=row.defined.payload)


class TestWhileARetryWaits:
    def waiting(self) -> tuple[Driver, str]:
        driver = Driver()
        driver.world.targets.answers = [FAILED, OK]
        job = driver.create(schedule=ONCE, retryConfig=HOLDING)
        driver.run(20)
        assert driver.row(job.id).status is JobStatus.RETRYING
        return driver, job.id

    @pytest.mark.case(36)
    def test_a_new_tag_leaves_the_retry_at_its_time(self) -> None:
        driver, job_id = self.waiting()
        change_job(driver.services, SCHEDULER, job_id, change=retag)
        driver.run(200)
        assert [row.started_at for row in driver.world.history.of(job_id)] == [AT, AT + 60]
        assert driver.row(job_id).status is JobStatus.COMPLETED

    @pytest.mark.case(36)
    @pytest.mark.parametrize("pause_lasts", [10, 3_600], ids=["resumed before its time", "after it"])
    def test_a_pause_holds_it_and_resume_brings_it(self, pause_lasts: int) -> None:
        driver, job_id = self.waiting()
        pause_job(driver.services, SCHEDULER, job_id)
        driver.run(pause_lasts)
        assert len(driver.world.targets.calls) == 1
        assert driver.row(job_id).attention_at is None, "held, nothing runs: at rest"
        resume_job(driver.services, SCHEDULER, job_id)
        resumed = driver.clock.now()
        driver.run(200)
        assert driver.row(job_id).status is JobStatus.COMPLETED
        assert [row.started_at for row in driver.world.history.of(job_id)] == [AT, max(AT + 60, resumed)]


class TestExecuteTwice:
    @pytest.mark.case(38)
    def test_in_one_second_and_in_the_second_of_a_slot_are_three_runs(self) -> None:
        driver = BusyDriver(lambda _: 5)
        job = driver.create(schedule=MINUTELY, overlapPolicy="allow")
        driver.world.clock.time = NOW + 60.0
        execute_job(driver.services, SCHEDULER, job.id)
        execute_job(driver.services, SCHEDULER, job.id)
        driver.run(1)
        assert len(driver.calling) == 3
        driver.run(10)
        rows = driver.world.history.of(job.id)
        assert len({row.slot_id for row in rows}) == 3
        assert {row.slot_id[:10] for row in rows} == {str(NOW + 60)}
        assert sum(is_manual(row.slot_id) for row in rows) == 2
        assert {row.status.value for row in rows} == {"COMPLETED"}

    @pytest.mark.case(38)
    def test_under_skip_the_second_is_told_why_and_the_slot_is_skipped_with_its_reason(self) -> None:
        driver = BusyDriver(lambda _: 5)
        job = driver.create(schedule=MINUTELY)
        driver.world.clock.time = NOW + 60.0
        execute_job(driver.services, SCHEDULER, job.id)
        with pytest.raises(ConflictError, match="skip"):
            execute_job(driver.services, SCHEDULER, job.id)
        driver.run(30)
        [run] = driver.world.history.of(job.id)
        assert is_manual(run.slot_id)
        [gap] = [row for row in rows_of(driver, job.id) if isinstance(row, SkippedSlots)]
        assert (gap.first, gap.count, gap.reason) == (NOW + 60, 1, "OVERLAP")

    @pytest.mark.case(38)
    def test_under_queue_one_waits_and_the_third_is_told_why(self) -> None:
        driver = BusyDriver(lambda _: 5)
        job = driver.create(schedule=MINUTELY, overlapPolicy="queue")
        driver.world.clock.time = NOW + 50.0
        execute_job(driver.services, SCHEDULER, job.id)
        execute_job(driver.services, SCHEDULER, job.id)
        with pytest.raises(ConflictError, match="queue"):
            execute_job(driver.services, SCHEDULER, job.id)
        driver.run(30)
        assert len(driver.world.history.of(job.id)) == 3
        assert driver.most_calling == 1
