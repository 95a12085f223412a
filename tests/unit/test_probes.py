"""However an attempt that probes a circuit ends, its circuit hears of it: success, failure, or no news."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.circuit import Circuit, CircuitState
from functions.domain.decision import Deferral, Write
from functions.domain.dispatch import decide_hint
from functions.domain.errors import NotStartedError
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.ids import execution_id
from functions.domain.instants import rfc3339
from functions.domain.job import Job
from functions.domain.job_type import StoredTypeConfig
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.run import Decision, RunState
from functions.usecases import steps
from functions.usecases.approvals import GateDecision, decide_run
from functions.usecases.cancelling import cancel_execution, cancel_job, delete_job
from functions.usecases.jobs import JobDraft, change_job
from tests.consumers import BusyDriver
from tests.driver import ADMIN, SCHEDULER, Driver
from tests.factories import NOW, make_hint, make_job, make_run
from tests.fakes import FakeClock, World
from tests.faults import Crash

KEY = "http:example.com:443@team-a"
ELSEWHERE = {"type": "http", "url": "https://other.example.com/hook"}
BREAKER = {"failureThreshold": 5, "openSeconds": 30}
ONCE = {"type": "once", "at": "2027-01-15T08:00:10Z"}
OK = TargetAnswer(status=ExecutionStatus.COMPLETED, result="true")
DOWN = TargetAnswer(status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_503", message="503"))
REFUSED = TargetAnswer(
    status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_404", message="404"), retryable=False
)


def half_open(driver: Driver, **fields: Any) -> None:
    circuit = Circuit(key=KEY, seq=1, failures=5, since=NOW - 60, open_until=NOW - 30)
    driver.world.circuits.rows[KEY] = replace(circuit, **fields)


def create(driver: Driver, **document: Any) -> str:
    wanted = {"schedule": ONCE, "breaker": BREAKER, "orchestrated": True, "timeoutSeconds": 600} | document
    return driver.create(**wanted).id


def probing(**document: Any) -> tuple[Driver, str]:
    """A job's attempt is the probe, and the state machine is about to call its target."""
    driver = Driver(World(clock=FakeClock(NOW)), sweeps=False)
    half_open(driver)
    job_id = create(driver, **document)
    driver.world.clock.time = NOW + 10.0
    [delivery] = driver.world.timetable.take_due()
    driver.deliver(delivery)
    assert probe_of(driver) == attempt_of(driver, job_id)
    return driver, job_id


def attempt_of(driver: Driver, job_id: str) -> str:
    [(slot, run)] = driver.row(job_id).runs.items()
    assert run.state is RunState.RUNNING
    return execution_id(job_id, slot, run.attempt)


def probe_of(driver: Driver) -> str | None:
    probe = driver.world.circuits.get(KEY).probe
    return None if probe is None else probe.execution_id


def soon(driver: Driver) -> dict[str, Any]:
    return {"type": "once", "at": rfc3339(int(driver.clock.now()))}


def lease_ends(driver: Driver, _: str) -> None:
    driver.world.clock.advance(621)
    driver.sweep_now()


def machine_dies(driver: Driver, _: str) -> None:
    [step] = driver.world.machine.take()
    steps.record_failure(driver.executor, step)


def change(driver: Driver, job_id: str, **document: Any) -> None:
    def changed(row: Job) -> JobDraft:
        wanted = {**row.defined.document, **document}
        return JobDraft(document={name: word for name, word in wanted.items() if word is not None}, payload="{}")

    change_job(driver.services, SCHEDULER, job_id, change=changed)


ENDS: dict[str, Callable[[Driver, str], object]] = {
    "job cancelled": lambda driver, job: cancel_job(driver.services, SCHEDULER, job),
    "execution cancelled": lambda driver, job: cancel_execution(driver.services, SCHEDULER, attempt_of(driver, job)),
    "job deleted": lambda driver, job: delete_job(driver.services, SCHEDULER, job),
    "lease over": lease_ends,
    "machine's function dies": machine_dies,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_an_attempt_that_others_end_lets_the_next_one_probe_at_once(end: Callable[[Driver, str], object]) -> None:
    driver, job_id = probing()
    end(driver, job_id)
    assert probe_of(driver) is None
    assert driver.world.circuits.get(KEY).state(driver.clock.now()) is CircuitState.HALF_OPEN
    neighbor = driver.create(schedule=soon(driver), breaker=BREAKER).id
    driver.run(1)
    assert driver.row(neighbor).last_run is not None, "it probed"
    assert driver.world.circuits.get(KEY).state(driver.clock.now()) is CircuitState.CLOSED


def test_one_whose_call_is_no_longer_what_was_approved_does_too() -> None:
    driver = Driver(World(clock=FakeClock(NOW)), sweeps=False)
    half_open(driver)
    gate = {"role": "admin", "fourEyes": False, "timeoutSeconds": 60}
    job_id = create(driver, approval=gate)
    driver.world.clock.time = NOW + 10.0
    driver.deliver(driver.world.timetable.take_due()[0])
    decide_run(driver.services, ADMIN, job_id, GateDecision(decision=Decision.APPROVED))
    driver.deliver(driver.world.timetable.take_due()[0])
    assert probe_of(driver) == attempt_of(driver, job_id)
    change(driver, job_id, target=ELSEWHERE)
    driver.run_machine()
    assert driver.world.targets.calls == []
    assert probe_of(driver) is None


@pytest.mark.parametrize("busy", [True, False])
def test_one_that_the_state_machine_refuses_does_too(busy: bool) -> None:
    driver = Driver(World(clock=FakeClock(NOW)), sweeps=False)
    half_open(driver)
    driver.world.machine.refusal = NotStartedError("no", busy=busy)
    create(driver)
    driver.run_until(NOW + 11)
    assert probe_of(driver) is None


@pytest.mark.parametrize(
    ("answer", "state"),
    [(OK, CircuitState.CLOSED), (REFUSED, CircuitState.CLOSED), (DOWN, CircuitState.OPEN)],
    ids=["success", "refusal", "failure"],
)
@pytest.mark.parametrize("orchestrated", [True, None], ids=["machine", "executor"])
def test_what_the_target_answers_moves_the_circuit(
    answer: TargetAnswer, state: CircuitState, orchestrated: bool | None
) -> None:
    driver = Driver(World(clock=FakeClock(NOW)), sweeps=False)
    half_open(driver)
    driver.world.targets.answers = [answer]
    create(driver, orchestrated=orchestrated, timeoutSeconds=60)
    driver.run_until(NOW + 10.5)
    circuit = driver.world.circuits.get(KEY)
    assert (circuit.state(NOW + 10.5), circuit.probe) == (state, None)


@pytest.mark.parametrize(
    "changes",
    [{"circuitBreaker": None}, {"target": ELSEWHERE}, {"target": {"type": "worker", "queue": "q"}}],
    ids=["no circuit", "other target", "worker"],
)
@pytest.mark.parametrize("answer", [OK, DOWN], ids=["success", "failure"])
def test_a_job_that_is_changed_in_its_probe_still_gives_the_place_back(
    changes: dict[str, Any], answer: TargetAnswer
) -> None:
    driver, job_id = probing(retryConfig={"maxRetries": 0})
    driver.world.targets.answers = [answer]
    breaker = {} if "worker" not in str(changes) else {"circuitBreaker": None, "orchestrated": None}
    change(driver, job_id, **changes, **breaker)
    driver.run_machine()
    assert probe_of(driver) is None


def test_a_type_that_loses_its_circuit_meanwhile_frees_the_place() -> None:
    driver = Driver(World(clock=FakeClock(NOW)), sweeps=False)
    half_open(driver)
    stored = StoredTypeConfig(job_type="t", document={"circuitBreaker": BREAKER}, updated_at=NOW, updated_by="root")
    driver.world.retry_configs.put(stored)

    def loses_it(_: Invocation) -> TargetAnswer:
        driver.world.retry_configs.put(replace(stored, document={}))
        return OK

    driver.world.targets.answers = [loses_it]
    driver.create(schedule=ONCE, type="t")
    driver.run_until(NOW + 11)
    assert len(driver.world.targets.calls) == 1
    assert probe_of(driver) is None


def test_a_callback_that_was_accepted_is_news_and_its_later_end_none() -> None:
    driver = Driver(World(clock=FakeClock(NOW)), sweeps=False)
    half_open(driver)
    job_id = driver.create(schedule=ONCE, breaker=BREAKER, completion="callback", timeoutSeconds=7_200).id
    driver.run_until(NOW + 11)
    before = driver.world.circuits.get(KEY)
    assert before.state(NOW + 11) is CircuitState.CLOSED
    cancel_job(driver.services, SCHEDULER, job_id)
    assert driver.world.circuits.get(KEY) == before


def test_an_answer_counts_though_others_have_ended_the_attempt() -> None:
    driver = Driver(World(clock=FakeClock(NOW)), sweeps=False)
    job_id = driver.create(schedule=ONCE, breaker={**BREAKER, "failureThreshold": 1}).id

    def cancelled_meanwhile(_: Invocation) -> TargetAnswer:
        cancel_job(driver.services, SCHEDULER, job_id)
        return DOWN

    driver.world.targets.answers = [cancelled_meanwhile]
    driver.run_until(NOW + 11)
    assert driver.world.circuits.get(KEY).state(NOW + 11) is CircuitState.OPEN


def test_a_probe_that_ends_late_does_not_take_anothers_place() -> None:
    driver, job_id = probing()
    other = f"{job_id[:-1]}0-1800000000-0001"
    circuit = driver.world.circuits.get(KEY)
    assert circuit.probe is not None
    taken = replace(circuit, seq=circuit.seq + 1, probe=replace(circuit.probe, execution_id=other))
    driver.world.circuits.rows[KEY] = taken
    cancel_job(driver.services, SCHEDULER, job_id)
    assert driver.world.circuits.get(KEY) == taken


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["jobs.save", "circuits.save", "history.record", "machine.stop"])
def test_a_report_that_dies_is_bounded_by_the_probes_time(when: str, step: str) -> None:
    driver, job_id = probing(timeoutSeconds=600)

    def die(moment: str, name: str) -> None:
        if (moment, name) == (when, step):
            driver.world.faults.disarm()
            raise Crash

    driver.world.faults.inject(on_step=die)
    with pytest.raises(Crash):
        cancel_job(driver.services, SCHEDULER, job_id)
    neighbor = driver.create(schedule={"type": "once", "at": "2027-01-15T08:10:40Z"}, breaker=BREAKER).id
    driver.sweeps = True
    driver._next_sweep = driver.clock.now() + 1
    driver.run_until(NOW + 10 + 600 + 20 + 60)
    assert driver.row(neighbor).last_run is not None


def test_ends_of_attempts_that_probe_nothing_ask_no_circuit() -> None:
    driver = Driver(World(clock=FakeClock(NOW)), sweeps=False)
    job_id = create(driver)
    driver.world.clock.time = NOW + 10.0
    [delivery] = driver.world.timetable.take_due()
    driver.deliver(delivery)
    driver.world.circuits.calls.clear()
    cancel_job(driver.services, SCHEDULER, job_id)
    assert driver.world.circuits.calls == []


@settings(max_examples=25, deadline=None)
@given(
    how=st.sampled_from(["cancel", "cancel execution", "delete"]),
    at=st.integers(0, 200),
    timeout=st.integers(61, 840),
    every=st.sampled_from([30, 60, 90]),
)
def test_a_neighbor_without_retries_loses_no_run_to_a_probe_that_was_cancelled(
    how: str, at: int, timeout: int, every: int
) -> None:
    """The probe hangs; a caller ends it. From then on every run of a healthy neighbor starts."""
    made = BusyDriver(lambda call: timeout if call.job_id == hanging[0] else 0, world=World(clock=FakeClock(NOW)))
    hanging = [""]
    half_open(made)
    hanging[0] = create(made, timeoutSeconds=timeout)
    made.run_until(NOW + 11)
    neighbor = made.create(
        schedule={"type": "interval", "everySeconds": every},
        retryConfig={"maxRetries": 0},
        breaker=BREAKER,
    ).id
    ended = NOW + 11 + min(at, timeout - 5)
    made.run_until(ended)
    if how == "cancel":
        cancel_job(made.services, SCHEDULER, hanging[0])
    elif how == "delete":
        delete_job(made.services, SCHEDULER, hanging[0])
    else:
        cancel_execution(made.services, SCHEDULER, f"{hanging[0]}-{NOW + 10}-0001")
    made.run_until(ended + 600)
    lost = [row for row in made.executions(neighbor) if row.status is not ExecutionStatus.COMPLETED]
    assert all(row.completed_at <= ended for row in lost), "what was lost, the probe itself kept from starting"
    assert len(made.executions(neighbor)) - len(lost) >= 600 // every - 1


class TestWaitingForOthersFirst:
    """Time that a run waited for a permit, or for an approval, is no time that the circuit held it back."""

    def test_a_run_that_waited_for_its_permit_beyond_its_next_slot_is_not_ended_by_a_short_opening(self) -> None:
        made = BusyDriver(lambda call: 100 if call.job_id == holder else 0, world=World(clock=FakeClock(NOW)))
        limit = {"concurrencyKey": "k", "maxConcurrency": 1}
        holder = made.create(schedule={"type": "once", "at": "2027-01-15T08:00:55Z"}, timeoutSeconds=200, **limit).id
        minutely = made.create(retryConfig={"maxRetries": 0}, breaker=BREAKER, **limit).id
        made.run_until(NOW + 150)
        half_open(made, open_until=NOW + 160, since=NOW + 130)
        made.run_until(NOW + 240)
        [first, *_] = made.executions(minutely)
        assert (first.slot_id, first.status) == (str(NOW + 60), ExecutionStatus.COMPLETED)

    def test_the_limit_counts_from_the_first_time_that_the_circuit_held_it_back(self) -> None:
        made = BusyDriver(lambda call: 100 if call.job_id == holder else 0, world=World(clock=FakeClock(NOW)))
        limit = {"concurrencyKey": "k", "maxConcurrency": 1}
        holder = made.create(schedule={"type": "once", "at": "2027-01-15T08:00:55Z"}, timeoutSeconds=200, **limit).id
        minutely = made.create(retryConfig={"maxRetries": 0}, breaker=BREAKER, **limit).id
        made.run_until(NOW + 150)
        half_open(made, open_until=NOW + 10**6, since=NOW + 130)
        made.run_until(NOW + 400)
        first = made.executions(minutely)[0]
        assert (first.slot_id, first.reason) == (str(NOW + 60), "CIRCUIT_OPEN")
        assert NOW + 155 < first.completed_at <= NOW + 180


@pytest.mark.parametrize(
    ("before", "reason", "since"),
    [
        ("CIRCUIT_OPEN", "CIRCUIT_OPEN", NOW - 30),
        ("CONCURRENCY_LIMIT", "CIRCUIT_OPEN", NOW),
        (None, "CIRCUIT_OPEN", NOW),
        ("CIRCUIT_OPEN", "CONCURRENCY_LIMIT", None),
    ],
)
def test_a_run_knows_since_when_its_circuit_holds_it_back(before: str | None, reason: str, since: int | None) -> None:
    run = make_run(state=RunState.WAITING, deferred_for=before, deferred_at=NOW - 60, held_back_at=NOW - 30)
    job, deferral = make_job(runs={str(NOW): run}), Deferral(reason=reason, until=NOW + 5)
    put_off = decide_hint(job, make_hint(), now=NOW, write_id="w", deferral=deferral)
    assert isinstance(put_off, Write)
    assert put_off.job.runs[str(NOW)].held_back_at == since
