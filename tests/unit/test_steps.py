"""The state machine's steps: once, twice, late, and for a run that was taken back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.domain.errors import NotStartedError, UnavailableError
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.job import JobStatus
from functions.domain.lease import LEASE_GRACE, LEASE_MARGIN
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.run import RunState
from functions.domain.step import Step
from functions.usecases import steps
from functions.usecases.cancelling import cancel_execution, cancel_job
from functions.usecases.services import Attempts
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW
from tests.fakes import NAME_REFUSED, FakeClock, World
from tests.faults import Crash
from tests.flows import FAILED, OK
from tests.machine import walk

AT = NOW + 10
ONCE = {"type": "once", "at": "2027-01-15T08:00:10Z"}
RETRY = {"initialDelaySeconds": 10, "backoffStrategy": "fixed", "jitter": 0, "maxRetries": 2}
TIMED_OUT = TargetAnswer(
    status=ExecutionStatus.TIMED_OUT, error=ExecutionError(code="TIMEOUT", message="no answer within 600 s")
)
LATER = (steps.check_circuit, steps.invoke, steps.record_outcome, steps.record_failure, steps.record_timeout)


def opens(attempts: Attempts, step: Step) -> Execution | None:
    return steps.end_as_circuit_open(attempts, step, until=AT + 30)


@pytest.fixture
def driver() -> Driver:
    return Driver(World(clock=FakeClock(NOW)))


def started(driver: Driver, **document: Any) -> tuple[str, Step]:
    """A job whose first attempt was handed to the machine, and the attempt's step."""
    made = driver.create(schedule=ONCE, **({"timeoutSeconds": 600, "retryConfig": RETRY} | document))
    driver.world.clock.time = AT
    for delivery in driver.world.timetable.take_due():
        driver.deliver(delivery)
    [step] = driver.world.machine.take()
    return made.id, step


def attempts_of(driver: Driver, job_id: str) -> list[Execution]:
    return driver.world.history.of(job_id)


def test_the_executor_hands_over_and_goes_on(driver: Driver) -> None:
    job_id, step = started(driver)

    assert driver.world.targets.calls == []
    assert driver.handled[-1].reason == "LONG_TIMEOUT"
    assert driver.handled[-1].lateness == 0
    run = driver.row(job_id).runs[step.slot_id]
    assert (run.state, run.fence, run.lease_expires_at) == (RunState.RUNNING, step.fence, AT + 600 + LEASE_MARGIN)


@pytest.mark.parametrize(("answer", "status"), [(OK, "COMPLETED"), (FAILED, "FAILED"), (TIMED_OUT, "TIMED_OUT")])
def test_what_the_target_answers_is_recorded_and_followed(driver: Driver, answer: TargetAnswer, status: str) -> None:
    driver.world.targets.answers = [answer]
    job_id, step = started(driver)

    assert walk(driver.executor, step) == ["CheckCircuit", "CircuitOpen?", "Invoke", "RecordOutcome"]

    [execution] = attempts_of(driver, job_id)
    assert execution.status.value == status
    assert execution.final == (status == "COMPLETED")
    assert driver.row(job_id).status is (JobStatus.COMPLETED if execution.final else JobStatus.RETRYING)
    assert driver.world.targets.calls[0].timeout_seconds == 600


def test_a_retry_has_an_execution_of_its_own(driver: Driver) -> None:
    driver.world.targets.answers = [FAILED, TIMED_OUT, OK]
    made = driver.create(schedule=ONCE, orchestrated=True, retryConfig=RETRY)
    driver.run_until(AT + 60)

    assert [each.status.value for each in attempts_of(driver, made.id)] == ["FAILED", "TIMED_OUT", "COMPLETED"]
    assert [(step.attempt, step.fence) for step in driver.world.machine.started] == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("action", [*LATER, opens])
def test_a_step_that_comes_again_changes_nothing(driver: Driver, action: Callable[[Attempts, Step], Any]) -> None:
    driver.world.targets.answers = [FAILED]
    job_id, step = started(driver)
    walk(driver.executor, step)
    row, history, calls = driver.row(job_id), attempts_of(driver, job_id), len(driver.world.targets.calls)

    action(driver.executor, step)

    assert driver.row(job_id) == row
    assert attempts_of(driver, job_id) == history
    assert len(driver.world.targets.calls) == calls


@pytest.mark.parametrize("action", [*LATER, opens])
@pytest.mark.parametrize("gone", ["cancelled", "lost", "started again", "deleted"])
def test_a_step_of_a_run_that_was_taken_back_changes_nothing(
    driver: Driver, action: Callable[[Attempts, Step], Any], gone: str
) -> None:
    job_id, step = started(driver)
    if gone == "cancelled":
        cancel_job(driver.services, SCHEDULER, job_id)
    elif gone in ("lost", "started again"):
        driver.world.clock.time += 600 + LEASE_MARGIN + LEASE_GRACE
        driver.sweep_now()
        for delivery in driver.world.timetable.take_due() if gone == "started again" else ():
            driver.deliver(delivery)
    else:
        del driver.world.jobs.rows[job_id]
    row, history = driver.world.jobs.rows.get(job_id), attempts_of(driver, job_id)

    action(driver.executor, step)

    assert driver.world.jobs.rows.get(job_id) == row
    assert attempts_of(driver, job_id) == history
    assert driver.world.targets.calls == []


def test_a_call_that_was_made_is_not_made_again(driver: Driver) -> None:
    _, step = started(driver)

    first, second = steps.invoke(driver.executor, step), steps.invoke(driver.executor, step)

    assert first == second
    assert len(driver.world.targets.calls) == 1


def test_an_old_fence_stops_the_machine_before_the_call(driver: Driver) -> None:
    job_id, step = started(driver)
    cancel_job(driver.services, SCHEDULER, job_id)

    assert walk(driver.executor, step) == ["CheckCircuit", "CircuitOpen?", "NothingToDo"]


def dies(*states: str) -> Callable[[str], None]:
    def enter(state: str) -> None:
        if state in states:
            raise Crash(state)

    return enter


def test_a_function_that_dies_in_the_call_is_recorded_at_once(driver: Driver) -> None:
    job_id, step = started(driver)

    assert walk(driver.executor, step, enter=dies("Invoke"))[-1] == "RecordFailure"

    [execution] = attempts_of(driver, job_id)
    assert (execution.error and execution.error.code, execution.next_retry_at) == ("WORKER_LOST", AT)
    assert driver.row(job_id).runs[step.slot_id].state is RunState.WAITING


def test_a_circuit_that_cannot_be_checked_is_taken_for_closed(driver: Driver) -> None:
    job_id, step = started(driver)

    assert walk(driver.executor, step, enter=dies("CheckCircuit")) == ["CheckCircuit", "Invoke", "RecordOutcome"]
    assert driver.row(job_id).status is JobStatus.COMPLETED


@pytest.mark.parametrize("death", ["RecordOutcome", "RecordFailure"])
def test_what_the_machine_does_not_get_recorded_the_sweep_does(driver: Driver, death: str) -> None:
    job_id, step = started(driver)
    walk(driver.executor, step, enter=dies(death, *(["Invoke"] if death == "RecordFailure" else [])))
    driver.world.machine.ended(step)

    driver.run_until(AT + 600 + LEASE_MARGIN + LEASE_GRACE + 60 + 1)

    assert [each.status.value for each in attempts_of(driver, job_id)] == (
        ["COMPLETED"] if death == "RecordOutcome" else ["FAILED", "COMPLETED"]
    )
    assert driver.row(job_id).status is JobStatus.COMPLETED


def test_silence_is_recorded_as_timed_out_and_retried_by_the_rules(driver: Driver) -> None:
    job_id, step = started(driver)
    driver.world.clock.time = AT + step.timeout_seconds

    execution = steps.record_timeout(driver.executor, step)

    assert execution is not None
    assert (execution.status, execution.error and execution.error.code) == (ExecutionStatus.TIMED_OUT, "TIMEOUT")
    assert execution.next_retry_at == AT + step.timeout_seconds + 10
    assert driver.row(job_id).runs[step.slot_id].due_at == execution.next_retry_at


def test_an_answer_that_comes_after_the_machines_timeout_changes_nothing(driver: Driver) -> None:
    def late(_: Invocation) -> TargetAnswer:
        driver.world.clock.time += 606
        steps.record_timeout(driver.executor, step)
        return OK

    driver.world.targets.answers = [late, OK]
    job_id, step = started(driver)

    execution = steps.invoke(driver.executor, step)

    assert execution is not None
    assert execution.status is ExecutionStatus.TIMED_OUT, "what is stored, not what came of the call"
    assert driver.row(job_id).runs[step.slot_id].state is RunState.WAITING


@pytest.mark.parametrize(("late", "seconds"), [(0, 600), (10, 600), (11, 599), (600, 10)])
def test_a_call_that_begins_late_ends_before_its_lease(driver: Driver, late: int, seconds: int) -> None:
    _, step = started(driver)
    driver.world.clock.time += late

    steps.invoke(driver.executor, step)

    assert driver.world.targets.calls[0].timeout_seconds == seconds


def test_no_call_begins_when_its_lease_is_as_good_as_over(driver: Driver) -> None:
    job_id, step = started(driver)
    driver.world.clock.time += 610

    assert walk(driver.executor, step)[-1] == "RecordOutcome"

    assert driver.world.targets.calls == []
    [execution] = attempts_of(driver, job_id)
    assert execution.error
    assert execution.error.code == "WORKER_LOST"


def test_a_circuit_that_opens_after_the_start_takes_no_attempt(driver: Driver) -> None:
    job_id, step = started(driver, retryConfig=RETRY | {"maxRetries": 0})

    execution = opens(driver.executor, step)

    assert execution is not None
    assert (execution.reason, execution.final, execution.next_retry_at) == ("CIRCUIT_OPEN", False, AT + 30)
    driver.run_until(AT + 40)
    assert [(each.attempt, each.status.value) for each in attempts_of(driver, job_id)] == [
        (1, "FAILED"),
        (2, "COMPLETED"),
    ]


def test_an_attempt_that_was_not_made_leaves_the_run_all_its_retries(driver: Driver) -> None:
    job_id, step = started(driver, retryConfig=RETRY | {"maxRetries": 1})
    driver.world.targets.answers = [FAILED, OK]

    opens(driver.executor, step)

    driver.run_until(AT + 120)
    assert [each.status.value for each in attempts_of(driver, job_id)] == ["FAILED", "FAILED", "COMPLETED"]


# --- StartExecution ---


def test_a_machine_without_room_takes_no_attempt(driver: Driver) -> None:
    driver.world.machine.refusal = NotStartedError("ThrottlingException: Rate exceeded", busy=True)
    made = driver.create(schedule=ONCE, orchestrated=True, retryConfig=RETRY | {"maxRetries": 0})
    driver.run_until(AT + 30)
    driver.world.machine.refusal = None
    driver.run_until(AT + 120)

    first, second = attempts_of(driver, made.id)
    assert (first.reason, first.final, first.error and first.error.code) == ("NOT_STARTED", False, "NOT_STARTED")
    assert first.next_retry_at
    assert AT + 5 <= first.next_retry_at <= AT + 61
    assert (second.attempt, second.status) == (2, ExecutionStatus.COMPLETED)


def test_a_machine_without_room_is_not_waited_for_beyond_the_retry_window(driver: Driver) -> None:
    driver.world.machine.refusal = NotStartedError(busy=True)
    made = driver.create(schedule=ONCE, orchestrated=True, retryConfig=RETRY | {"retryWindowSeconds": 20})
    driver.run_until(AT + 300)

    assert attempts_of(driver, made.id)[-1].final
    assert driver.row(made.id).status is JobStatus.FAILED


def test_a_refusal_that_waiting_does_not_repair_is_a_failed_attempt(driver: Driver) -> None:
    driver.world.machine.refusal = NotStartedError("AccessDeniedException: not allowed", busy=False)
    made = driver.create(schedule=ONCE, orchestrated=True, retryConfig=RETRY)
    driver.run_until(AT + 60)

    found = attempts_of(driver, made.id)
    assert [each.error and each.error.code for each in found] == ["NOT_STARTED"] * 3
    assert [each.reason for each in found] == ["RETRY_SCHEDULED", "RETRY_SCHEDULED", "RETRIES_EXHAUSTED"]
    assert "AccessDenied" in (found[0].error.message if found[0].error else "")


def test_no_clear_answer_is_left_to_the_lease(driver: Driver) -> None:
    driver.world.machine.refusal = UnavailableError()
    made = driver.create(schedule=ONCE, orchestrated=True, retryConfig=RETRY)
    driver.run_until(AT + 1)
    assert driver.row(made.id).status is JobStatus.RUNNING
    driver.world.machine.refusal = None
    driver.run_until(AT + 60 + LEASE_MARGIN + LEASE_GRACE + 61)

    first, second = attempts_of(driver, made.id)
    assert first.error
    assert (first.error.code, second.status.value) == ("WORKER_LOST", "COMPLETED")


@pytest.mark.case(37)
def test_an_execution_that_was_lost_starts_again_under_another_name(driver: Driver) -> None:
    """The name of the first is refused for 90 days, whatever became of it."""
    made = driver.create(schedule=ONCE, orchestrated=True, retryConfig=RETRY)
    driver.run_until(AT)
    for delivery in driver.world.timetable.take_due():
        driver.deliver(delivery)
    [first] = driver.world.machine.take()  # its execution is never run
    driver.world.machine.ended(first)
    driver.world.machine.start(first)
    assert driver.world.machine.take() == [], "the name is refused"

    driver.run_until(AT + 300)

    assert driver.row(made.id).status is JobStatus.COMPLETED
    names = [step.execution_name for step in driver.world.machine.started]
    assert len(names) == len(set(names)) == 2
    driver.world.clock.time += NAME_REFUSED
    driver.world.machine.start(first)
    assert driver.world.machine.take() == [first]


@pytest.mark.case(37)
def test_an_execution_that_was_put_off_starts_again_under_another_name(driver: Driver) -> None:
    job_id, step = started(driver)
    opens(driver.executor, step)
    driver.world.machine.ended(step)

    driver.run_until(AT + 60)

    assert driver.row(job_id).status is JobStatus.COMPLETED
    assert [each.fence for each in driver.world.machine.started] == [1, 2]


def test_the_hint_that_comes_twice_starts_one_execution(driver: Driver) -> None:
    job_id, step = started(driver)

    driver.deliver_hint(Hint(job_id, step.slot_id, 1))

    assert driver.world.machine.started == [step]


# --- cancel ---


@pytest.mark.parametrize("what", ["job", "execution"])
def test_a_cancel_stops_the_execution_and_is_final_at_once(driver: Driver, what: str) -> None:
    job_id, step = started(driver)

    if what == "job":
        cancel_job(driver.services, SCHEDULER, job_id)
    else:
        cancel_execution(driver.services, SCHEDULER, f"{job_id}-{step.slot_id}-0001")

    assert driver.world.machine.stopped == [step.execution_name]
    assert driver.row(job_id).status is JobStatus.CANCELLED
    [execution] = attempts_of(driver, job_id)
    assert (execution.status, execution.final) == (ExecutionStatus.CANCELLED, True)
    driver.run(2_000)
    assert attempts_of(driver, job_id) == [execution]
    assert driver.world.targets.calls == []


def test_a_cancel_in_the_middle_of_the_call_wins(driver: Driver) -> None:
    def answer(_: Invocation) -> TargetAnswer:
        cancel_job(driver.services, SCHEDULER, job_id)
        return OK

    driver.world.targets.answers = [answer]
    job_id, step = started(driver)

    walk(driver.executor, step)

    assert [each.status.value for each in attempts_of(driver, job_id)] == ["CANCELLED"]
    assert driver.row(job_id).status is JobStatus.CANCELLED


def test_a_cancel_stops_nothing_that_the_executor_runs_itself(driver: Driver) -> None:
    job_id = ""

    def answer(_: Invocation) -> TargetAnswer:
        cancel_job(driver.services, SCHEDULER, job_id)
        return OK

    driver.world.targets.answers = [answer]
    job_id = driver.create(schedule=ONCE).id
    driver.run_until(AT + 1)

    assert driver.row(job_id).status is JobStatus.CANCELLED
    assert "machine.stop" not in driver.world.faults.steps


# --- circuits ---

KEY = "http:example.com:443@team-a"
BREAKER = {"failureThreshold": 2, "openSeconds": 30, "successThreshold": 1}


def test_a_circuit_that_opened_since_the_start_ends_the_attempt_without_a_call(driver: Driver) -> None:
    job_id, step = started(driver, breaker=BREAKER, retryConfig=RETRY | {"maxRetries": 0})
    read = driver.world.circuits.get(KEY)
    driver.world.circuits.save(read, replace(read, open_until=AT + 30, since=AT, write_id="other"), now=AT)

    assert walk(driver.executor, step) == ["CheckCircuit", "CircuitOpen?", "EndAsCircuitOpen"]

    assert driver.world.targets.calls == []
    [execution] = attempts_of(driver, job_id)
    assert (execution.reason, execution.final, execution.next_retry_at) == ("CIRCUIT_OPEN", False, AT + 30)
    driver.run_until(AT + 120)
    assert [each.status.value for each in attempts_of(driver, job_id)] == ["FAILED", "COMPLETED"]


@pytest.mark.parametrize("how", ["answers", "hangs"])
def test_attempts_in_the_machine_open_the_circuit_and_its_probe_goes_through_it(driver: Driver, how: str) -> None:
    driver.world.targets.answers = [FAILED, FAILED, OK]
    made = driver.create(schedule=ONCE, orchestrated=True, breaker=BREAKER, retryConfig=RETRY)
    if how == "hangs":
        driver.world.targets.answers = [OK]
        for attempt in (0, 10):
            driver.world.clock.time = AT + attempt
            for delivery in driver.world.timetable.take_due():
                driver.deliver(delivery)
            [step] = driver.world.machine.take()
            assert steps.record_timeout(driver.executor, step)
    else:
        driver.run_until(AT + 11)

    circuit = driver.world.circuits.get(KEY)
    assert (circuit.failures, circuit.open_until) == (2, AT + 40)
    driver.run_until(AT + 39)
    assert len(driver.world.machine.started) == 2, "nothing starts while it is open"
    driver.run_until(AT + 300)
    assert driver.row(made.id).status is JobStatus.COMPLETED
    assert driver.states[-4:] == ["CheckCircuit", "CircuitOpen?", "Invoke", "RecordOutcome"]
    assert driver.world.circuits.get(KEY).open_until is None
