"""A call that goes on after its attempt was cancelled keeps its permits until it ends: a limit is never exceeded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.claims import Holder
from functions.domain.concurrency import is_unused
from functions.domain.errors import ConflictError, NotYoursError
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.ids import execution_id
from functions.domain.job import JobStatus
from functions.domain.lease import LEASE_MARGIN, WORKER_LEASE
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.overlap import MAX_ACTIVE
from functions.domain.permits import with_calls
from functions.domain.progress import Progress
from functions.domain.visit import LEASE_GRACE
from functions.usecases.actions import execute_job, resume_job
from functions.usecases.cancelling import cancel_execution, cancel_job, delete_job
from functions.usecases.claiming import Poll, poll
from functions.usecases.executor import handle_hint
from functions.usecases.reports import end_execution, report_progress
from functions.usecases.workers import heartbeat, register_worker
from tests.consumers import BusyDriver
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW, make_job, make_run
from tests.fakes import FakeClock, World
from tests.faults import Crash

KEY = "key:team-a|database"
ONCE = {"type": "once", "at": "2027-01-15T08:00:10Z"}
LATER = {"type": "once", "at": "2027-01-15T08:00:11Z"}
LIMIT = {"concurrencyKey": "database", "maxConcurrency": 1}
OK = TargetAnswer(status=ExecutionStatus.COMPLETED, result="true")
DOWN = TargetAnswer(status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_503", message="503"))
WORKER = {"type": "worker", "queue": "reports"}


def attempt_of(driver: Driver, job: str) -> str:
    [(slot, run)] = driver.row(job).runs.items()
    return execution_id(job, slot, run.current_attempt)


CANCELS: dict[str, Callable[[Driver, str], object]] = {
    "job": lambda driver, job: cancel_job(driver.services, SCHEDULER, job),
    "execution": lambda driver, job: cancel_execution(driver.services, SCHEDULER, attempt_of(driver, job)),
    "deletion": lambda driver, job: delete_job(driver.services, SCHEDULER, job),
}
cancelled_by = pytest.mark.parametrize("cancel", CANCELS.values(), ids=CANCELS)


def busy(seconds: float, **options: Any) -> tuple[BusyDriver, list[str]]:
    order: list[str] = []

    def lasts(invocation: Invocation) -> float:
        order.append(invocation.job_id)
        return seconds

    return BusyDriver(lasts, world=World(clock=FakeClock(NOW)), **options), order


@cancelled_by
@pytest.mark.parametrize("path", [{}, {"orchestrated": True, "timeoutSeconds": 400}], ids=["executor", "machine"])
@pytest.mark.parametrize("answer", [OK, DOWN], ids=["success", "failure"])
def test_the_next_one_starts_when_the_cancelled_call_has_ended(
    cancel: Callable[[Driver, str], object], path: dict[str, Any], answer: TargetAnswer
) -> None:
    driver, order = busy(50, answer=lambda _: answer)
    first = driver.create(schedule=ONCE, **LIMIT, **path).id
    second = driver.create(schedule=LATER, retryConfig={"maxRetries": 0}, **LIMIT).id
    driver.run_until(NOW + 20)
    cancel(driver, first)
    driver.run_until(NOW + 59.5)
    assert order == [first]
    driver.run_until(NOW + 61)
    assert order == [first, second]
    driver.run_until(NOW + 300)
    assert driver.most_calling == 1
    assert driver.world.slots.held(KEY) == []
    assert driver.services.jobs.get(first).cancelled_calls == {}  # type: ignore[union-attr]


@cancelled_by
@pytest.mark.parametrize("timeout", [30, 60])
def test_a_permit_whose_owner_dies_is_free_once_the_lease_is_over(
    cancel: Callable[[Driver, str], object], timeout: int
) -> None:
    def dies(_: Invocation) -> TargetAnswer:
        raise Crash

    driver, order = busy(25, answer=dies)
    first = driver.create(schedule=ONCE, timeoutSeconds=timeout, **LIMIT).id
    second = driver.create(schedule=LATER, **LIMIT).id
    driver.run_until(NOW + 20)
    cancel(driver, first)
    lease = NOW + 10 + timeout + LEASE_MARGIN
    driver.run_until(lease)
    assert order == [first]
    driver.run_until(lease + LEASE_GRACE + 60 + 2)
    assert order[:2] == [first, second]


def test_a_row_with_a_cancelled_call_is_looked_after_until_its_lease_is_over() -> None:
    driver, _ = busy(50)
    first = driver.create(schedule=ONCE, **LIMIT).id
    driver.run_until(NOW + 20)
    cancel_job(driver.services, SCHEDULER, first)
    row = driver.row(first)
    assert row.status is JobStatus.CANCELLED
    assert row.attention_at == NOW + 10 + 60 + LEASE_MARGIN
    driver.run_until(NOW + 61)
    assert driver.row(first).attention_at is None


def test_attempts_without_permits_leave_nothing_behind() -> None:
    driver, _ = busy(50)
    first = driver.create(schedule=ONCE).id
    driver.run_until(NOW + 20)
    cancel_job(driver.services, SCHEDULER, first)
    row = driver.row(first)
    assert (row.cancelled_calls, row.attention_at) == ({}, None)
    saved = driver.world.faults.steps.count("jobs.save")
    driver.run_until(NOW + 61)
    assert driver.world.faults.steps.count("jobs.save") == saved


def test_the_overlap_policy_counts_a_cancelled_run_no_more() -> None:
    """Without a key the next run of the job may call beside the cancelled call; with one it waits for its end."""
    for limit, starts in (({}, [10, 25]), (LIMIT, [10, 60])):
        driver, _ = busy(50)
        called: list[float] = []
        driver.answer = lambda _, called=called, driver=driver: called.append(driver.clock.now() - NOW - 50) or OK  # type: ignore[misc]
        job = driver.create(schedule=ONCE, **limit).id
        driver.run_until(NOW + 20)
        cancel_execution(driver.services, SCHEDULER, attempt_of(driver, job))
        driver.run_until(NOW + 25)
        execute_job(driver.services, SCHEDULER, job)
        driver.run_until(NOW + 200)
        assert [round(at) for at in called] == starts


@settings(max_examples=30, deadline=None)
@given(
    most=st.integers(1, 2),
    seconds=st.integers(1, 59),
    acts=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40), st.sampled_from(sorted(CANCELS))), max_size=12),
    machine=st.booleans(),
)
def test_never_more_call_than_the_limit_whoever_cancels(
    most: int, seconds: int, acts: list[tuple[int, int, str]], machine: bool
) -> None:
    driver, _ = busy(seconds)
    orchestrated = {"orchestrated": True} if machine else {}
    limit = {"concurrencyKey": "database", "maxConcurrency": most}
    jobs = [driver.create(schedule=ONCE if n % 2 else LATER, **limit, **orchestrated).id for n in range(10)]
    driver.run_until(NOW + 11)
    for which, later, how in acts:
        driver.run(later)
        row = driver.services.jobs.get(jobs[which])
        if row is not None and row.runs and row.deleted_at is None:
            CANCELS[how](driver, jobs[which])
    driver.run(1_500)
    assert driver.most_calling <= most
    assert driver.world.slots.held(KEY) == []
    assert all(not driver.row(job).runs for job in jobs)


@pytest.mark.parametrize("how", sorted(CANCELS))
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["history.record", "jobs.save", "machine.stop", "slots.free", "timetable.arm"])
@pytest.mark.parametrize("dies_in", ["cancel", "end"])
def test_whoever_dies_on_the_way_the_limit_holds_and_the_permit_comes_free(
    how: str, when: str, step: str, dies_in: str
) -> None:
    driver, order = busy(50)
    first = driver.create(schedule=ONCE, **LIMIT).id
    second = driver.create(schedule=LATER, **LIMIT).id
    driver.run_until(NOW + 20)

    def die(moment: str, name: str) -> None:
        if (moment, name) == (when, step):
            driver.world.faults.disarm()
            raise Crash

    if dies_in == "cancel":
        driver.world.faults.inject(on_step=die)
    driver.call(lambda: CANCELS[how](driver, first))
    driver.world.faults.disarm()
    driver.run_until(NOW + 59.5)
    assert order == [first]
    if dies_in == "end":
        driver.world.faults.inject(on_step=die)
    driver.run_until(NOW + 1_200)
    assert second in order
    assert driver.most_calling == 1


def test_a_late_copy_of_its_hint_does_not_free_the_permit() -> None:
    """It renewed the permit before the start, and finds the run gone: the call goes on."""
    driver, order = busy(50)
    first = driver.create(schedule=ONCE, **LIMIT).id
    second = driver.create(schedule=LATER, **LIMIT).id
    driver.run_until(NOW + 9)
    slot = str(NOW + 10)

    def others_act(moment: str, name: str) -> None:
        if (moment, name) != ("before", "jobs.save"):
            return
        driver.world.faults.disarm()
        driver.run_until(NOW + 15)  # the first message starts the attempt on the permit as this copy renewed it
        cancel_job(driver.services, SCHEDULER, first)

    driver.world.clock.time = NOW + 10.0
    driver.world.faults.inject(on_step=others_act)
    handle_hint(driver.executor, Hint(first, slot, 1))
    driver.run_until(NOW + 58)
    assert order == [first]
    driver.run_until(NOW + 200)
    assert order == [first, second]
    assert driver.most_calling == 1


class TestWorkers:
    def claimed(self, **document: Any) -> tuple[Driver, str, str, Holder]:
        driver = Driver(World(clock=FakeClock(NOW)))
        wanted = {"schedule": ONCE, "target": WORKER, "timeoutSeconds": 600} | LIMIT | document
        for _ in range(2):
            driver.create(**wanted)
        driver.run_until(NOW + 11)
        worker = register_worker(driver.services, SCHEDULER, name="", queues=("reports",), max_items=1).id
        [claim] = self.poll(driver, worker)
        return driver, worker, claim.job.id, Holder(worker_id=worker, fence=claim.run.fence)

    def poll(self, driver: Driver, worker: str) -> list[Any]:
        wanted = Poll(worker_id=worker, poll_id=f"p{driver.clock.now()}")
        return poll(driver.services, SCHEDULER, wanted, shuffle=lambda _: None)

    @cancelled_by
    def test_its_report_frees_the_permit_though_it_is_refused(self, cancel: Callable[[Driver, str], object]) -> None:
        driver, worker, job, holder = self.claimed()
        execution = attempt_of(driver, job)
        cancel(driver, job)
        with pytest.raises(NotYoursError):
            heartbeat(driver.services, SCHEDULER, worker, ((execution, holder.fence or 0),))
        with pytest.raises(ConflictError):
            report_progress(driver.services, SCHEDULER, execution, holder, Progress(percent=5))
        assert self.poll(driver, worker) == [], "it may still be at work"
        with pytest.raises(ConflictError):
            end_execution(driver.services, SCHEDULER, execution, holder, OK)
        driver.run(1)
        assert len(self.poll(driver, worker)) == 1

    def test_another_workers_report_does_not(self) -> None:
        driver, worker, job, holder = self.claimed()
        execution = attempt_of(driver, job)
        cancel_job(driver.services, SCHEDULER, job)
        for other in (Holder(worker_id="other", fence=holder.fence), Holder(worker_id=worker, fence=99)):
            with pytest.raises(ConflictError):
                end_execution(driver.services, SCHEDULER, execution, other, OK)
        assert self.poll(driver, worker) == []

    def test_one_that_is_silent_loses_it_with_its_lease(self) -> None:
        driver, worker, job, holder = self.claimed()
        execution = attempt_of(driver, job)
        for _ in range(6):
            driver.run(30)
            heartbeat(driver.services, SCHEDULER, worker, ((execution, holder.fence or 0),))
        cancel_job(driver.services, SCHEDULER, job)
        lease = driver.clock.now() + WORKER_LEASE
        while driver.clock.now() < lease - 5:
            driver.run(4)
            assert self.poll(driver, worker) == []
        driver.run_until(lease + LEASE_GRACE + 61)
        assert len(self.poll(driver, worker)) == 1


class TestCallbacks:
    def waiting(self, timeout: int = 7_200) -> tuple[Driver, list[Invocation], str, str]:
        driver = Driver(World(clock=FakeClock(NOW)))
        calls = driver.world.targets.calls
        document = {"completion": "callback", "timeoutSeconds": timeout, **LIMIT}
        first = driver.create(schedule=ONCE, **document).id
        second = driver.create(schedule=LATER, **document).id
        driver.run_until(NOW + 60)
        assert [call.job_id for call in calls] == [first]
        return driver, calls, first, second

    @cancelled_by
    def test_the_report_with_its_token_frees_the_permit(self, cancel: Callable[[Driver, str], object]) -> None:
        driver, calls, first, second = self.waiting()
        execution = attempt_of(driver, first)
        cancel(driver, first)
        driver.run(1_000)
        for token in ("wrong", None):
            with pytest.raises(ConflictError):
                end_execution(driver.services, SCHEDULER, execution, Holder(token=token), OK)
        driver.run(1)
        assert len(calls) == 1
        with pytest.raises(ConflictError):
            end_execution(driver.services, SCHEDULER, execution, Holder(token=calls[0].callback_token), OK)
        driver.run(1)
        assert [call.job_id for call in calls] == [first, second]

    def test_without_a_report_it_is_kept_until_the_deadline(self) -> None:
        driver, calls, first, _ = self.waiting(timeout=1_000)
        cancel_job(driver.services, SCHEDULER, first)
        driver.run_until(NOW + 10 + 1_000)
        assert len(calls) == 1
        driver.run_until(NOW + 10 + 1_000 + LEASE_MARGIN + LEASE_GRACE + 62)
        assert len(calls) == 2

    def test_one_that_is_accepted_after_the_cancel_is_at_work(self) -> None:
        driver = Driver(World(clock=FakeClock(NOW)))
        document = {"completion": "callback", "timeoutSeconds": 1_000, **LIMIT}
        first = driver.create(schedule=ONCE, **document).id
        driver.create(schedule=LATER, **document)

        def cancelled_meanwhile(call: Invocation) -> TargetAnswer:
            if call.job_id == first:
                cancel_job(driver.services, SCHEDULER, first)
            return OK

        driver.world.targets.answers = [cancelled_meanwhile]
        driver.run_until(NOW + 900)
        assert [call.job_id for call in driver.world.targets.calls] == [first]

    def test_one_that_is_refused_after_the_cancel_is_not(self) -> None:
        driver = Driver(World(clock=FakeClock(NOW)))
        document = {"completion": "callback", "timeoutSeconds": 1_000, **LIMIT}
        first = driver.create(schedule=ONCE, **document).id
        second = driver.create(schedule=LATER, **document).id

        def cancelled_meanwhile(call: Invocation) -> TargetAnswer:
            if call.job_id != first:
                return OK
            cancel_job(driver.services, SCHEDULER, first)
            return DOWN

        driver.world.targets.answers = [cancelled_meanwhile]
        driver.run_until(NOW + 15)
        assert [call.job_id for call in driver.world.targets.calls] == [first, second]


def test_a_permit_of_a_cancelled_call_is_in_use_for_a_late_copy_of_its_hint() -> None:
    job = with_calls(make_job(last_slot=NOW, next_slot=NOW + 60), {str(NOW): make_run(holds=(f"{KEY}#0",))})
    execution = execution_id(job.id, str(NOW), 1)
    assert not is_unused(job, execution, f"{KEY}#0")
    assert is_unused(job, execution, f"{KEY}#1")


def test_a_row_remembers_ten_cancelled_calls_those_that_end_last() -> None:
    job = make_job()
    for number in range(15):
        run = make_run(holds=(f"{KEY}#{number}",), lease_expires_at=NOW + number)
        job = with_calls(job, {f"{NOW + number}": run})
    assert sorted(job.cancelled_calls) == [f"{NOW + number}" for number in range(15 - MAX_ACTIVE, 15)]


def test_a_cancelled_recurring_job_leaves_its_permit_to_its_own_next_run_when_the_call_has_ended() -> None:
    driver, order = busy(50)
    job = driver.create(schedule={"type": "interval", "everySeconds": 20}, **LIMIT).id
    driver.run_until(NOW + 25)
    cancel_execution(driver.services, SCHEDULER, attempt_of(driver, job))
    driver.run_until(NOW + 69)
    assert len(order) == 1
    driver.run_until(NOW + 72)
    assert len(order) == 2
    assert driver.most_calling == 1
    resume_job(driver.services, SCHEDULER, job)
