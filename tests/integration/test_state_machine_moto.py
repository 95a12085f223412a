"""The deployed state machine on an interpreter of its language, with the real handler behind its states.

What the emulator does not model: `TimeoutSecondsPath`, the second layer of a timeout.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws
from moto.awslambda_simple.models import LambdaSimpleBackend

from functions import bootstrap
from functions.adapters.dynamodb_history import DynamoDbHistory
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.adapters.state_machine import StateMachine
from functions.adapters.system_clock import SystemClock
from functions.domain.execution import Execution
from functions.domain.hint import Hint
from functions.domain.ids import slot_id
from functions.domain.instants import rfc3339
from functions.domain.job import Job, JobStatus
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.run import RunState
from functions.domain.step import MACHINE_GRACE
from functions.handlers import steps
from functions.usecases.cancelling import cancel_job
from functions.usecases.executor import handle_hint
from functions.usecases.services import Executor, Services
from infra.states import definition
from tests.conftest import REGION
from tests.driver import SCHEDULER, Driver
from tests.factories import make_job
from tests.fakes import FakeTargets, World
from tests.flows import FAILED, OK
from tests.tables import create_tables

CONTEXT: Any = SimpleNamespace(aws_request_id="5f1d2c3b-4a59-4687-9a0b-1c2d3e4f5061")
PATIENCE = 15.0


class DiedError(Exception):
    """The function's process ended."""


@dataclass
class Deployed:
    states: Any
    machine: str
    executor: Executor
    services: Services
    targets: FakeTargets
    failures: list[str] = field(default_factory=list)
    """Steps whose function dies, once each."""

    def function(self, event: dict[str, Any]) -> dict[str, Any]:
        """What Lambda would run."""
        if event["step"] in self.failures:
            self.failures.remove(event["step"])
            raise DiedError
        return steps.handler(event, CONTEXT)

    def start(self, **document: Any) -> Job:
        """A one-time job whose attempt the executor has handed over."""
        slot = int(time.time())
        document = {"schedule": {"type": "once", "at": rfc3339(slot)}, "orchestrated": True} | document
        job = self.executor.jobs.create(make_job(document=document, created_at=slot - 10, next_slot=slot))
        handled = handle_hint(self.executor, Hint(job.id, slot_id(slot), 1))
        assert handled.reason == "ASKED_FOR"
        return job

    def arn_of(self, job: Job) -> str:
        execution = f"{job.id}-{slot_id(job.next_slot or 0)}-0001-f1"
        return f"{self.machine.replace(':stateMachine:', ':execution:')}:{execution}"

    def ended(self, job: Job) -> tuple[str, list[str]]:
        """How the execution ended, and through which states it went."""
        until = time.monotonic() + PATIENCE
        while (status := self.states.describe_execution(executionArn=self.arn_of(job))["status"]) == "RUNNING":
            assert time.monotonic() < until, "the execution does not end"
            time.sleep(0.02)
        events = self.states.get_execution_history(executionArn=self.arn_of(job), maxResults=1000)["events"]
        return status, [
            each["stateEnteredEventDetails"]["name"] for each in events if "stateEnteredEventDetails" in each
        ]

    def row(self, job: Job) -> Job:
        row = self.executor.jobs.get(job.id)
        assert row is not None
        return row

    def attempt(self, job: Job) -> Execution:
        execution = self.executor.history.get(job.id, slot_id(job.next_slot or 0), 1)
        assert execution is not None
        return execution


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    with mock_aws(config={"stepfunctions": {"execute_state_machine": True}, "lambda": {"use_docker": False}}):
        session = boto3.Session("test", "test", region_name=REGION)
        dynamodb = session.client("dynamodb", config=Config(retries={"total_max_attempts": 1}))
        states = session.client("stepfunctions")
        tables, function = create_tables(dynamodb), _make_function(session)
        machine = states.create_state_machine(
            name="attempts",
            definition=json.dumps(definition(partition="aws", function_arn=function)),
            roleArn="arn:aws:iam::123456789012:role/attempts",
        )["stateMachineArn"]
        clock = SystemClock()
        driver = Driver(
            World(clock=clock),  # type: ignore[arg-type]  # real time: the machine's timeouts are
            jobs=DynamoDbJobs(dynamodb, tables["jobs_table"]),
            history=DynamoDbHistory(dynamodb, tables["executions_table"], retention_days=30),
        )
        port = StateMachine(lambda: states, arn=machine, clock=clock)
        executor = replace(driver.executor, machine=port)
        services = replace(driver.services, machine=port)
        made = Deployed(states, machine, executor, services, driver.world.targets)
        monkeypatch.setattr(bootstrap, "steps", lambda: executor)
        monkeypatch.setattr(LambdaSimpleBackend, "invoke", _invoking(made))
        yield made


def _make_function(session: Any) -> str:
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    role = session.client("iam").create_role(RoleName="steps", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    made = session.client("lambda").create_function(
        FunctionName="steps", Runtime="python3.14", Role=role, Handler="x.handler", Code={"ZipFile": b"x"}
    )
    return str(made["FunctionArn"])


def _invoking(deployed: Deployed) -> Callable[..., bytes]:
    def invoke(
        _self: Any, function_name: str, _qualifier: Any, body: Any, _headers: Any, response_headers: Any
    ) -> bytes:
        assert "steps" in function_name
        try:
            return json.dumps(deployed.function(json.loads(body))).encode()
        except DiedError:
            response_headers["x-amz-function-error"] = "Unhandled"
            return json.dumps({"errorType": "Runtime.ExitError", "errorMessage": "signal: killed"}).encode()

    return invoke


@pytest.mark.parametrize(("answer", "status"), [(OK, JobStatus.COMPLETED), (FAILED, JobStatus.RETRYING)])
def test_an_attempt_goes_through_its_states(deployed: Deployed, answer: TargetAnswer, status: JobStatus) -> None:
    deployed.targets.answers = [answer]
    job = deployed.start()

    assert deployed.ended(job) == ("SUCCEEDED", ["CheckCircuit", "CircuitOpen?", "Invoke", "RecordOutcome"])
    assert deployed.row(job).status is status
    assert deployed.attempt(job).status is answer.status


@pytest.mark.slow
def test_a_function_that_hangs_is_timed_out_by_the_machine_and_its_late_answer_changes_nothing(
    deployed: Deployed,
) -> None:
    released, answered = threading.Event(), threading.Event()

    called: list[float] = []

    def hang(_: Invocation) -> TargetAnswer:
        called.append(time.time())
        released.wait(PATIENCE)
        answered.set()
        return OK

    deployed.targets.answers = [hang]
    job = deployed.start(timeoutSeconds=1)

    status, entered = deployed.ended(job)

    assert (status, entered[-2:]) == ("SUCCEEDED", ["Invoke", "RecordTimeout"])
    attempt, row = deployed.attempt(job), deployed.row(job)
    assert attempt.completed_at - called[0] == pytest.approx(1 + MACHINE_GRACE, abs=1)
    assert (attempt.status.value, attempt.error and attempt.error.code) == ("TIMED_OUT", "TIMEOUT")
    assert attempt.next_retry_at == row.runs[attempt.slot_id].due_at
    assert row.runs[attempt.slot_id].state is RunState.WAITING

    released.set()
    assert answered.wait(PATIENCE)
    time.sleep(0.3)  # until its thread has recorded what it can
    assert deployed.attempt(job) == attempt
    assert deployed.row(job) == row


def test_a_function_that_dies_in_the_call_is_recorded(deployed: Deployed) -> None:
    deployed.failures = ["invoke"]
    job = deployed.start()

    assert deployed.ended(job) == ("SUCCEEDED", ["CheckCircuit", "CircuitOpen?", "Invoke", "RecordFailure"])
    attempt = deployed.attempt(job)
    assert attempt.error
    assert attempt.error.code == "WORKER_LOST"
    assert deployed.targets.calls == [], "the machine does not repeat the call"
    assert deployed.row(job).status is JobStatus.RETRYING


def test_a_check_that_cannot_be_made_holds_up_nothing(deployed: Deployed) -> None:
    deployed.failures = ["checkCircuit", "checkCircuit"]
    job = deployed.start()

    assert deployed.ended(job) == ("SUCCEEDED", ["CheckCircuit", "Invoke", "RecordOutcome"])
    assert deployed.row(job).status is JobStatus.COMPLETED


def test_a_record_that_fails_is_repeated(deployed: Deployed) -> None:
    deployed.failures = ["recordOutcome", "recordOutcome"]
    job = deployed.start()

    assert deployed.ended(job)[0] == "SUCCEEDED"
    assert deployed.row(job).status is JobStatus.COMPLETED
    assert len(deployed.targets.calls) == 1


def test_a_run_that_was_taken_back_before_the_first_state_is_let_be(deployed: Deployed) -> None:
    gate = threading.Event()
    original = deployed.function

    def waiting(event: dict[str, Any]) -> dict[str, Any]:
        gate.wait(PATIENCE)
        return original(event)

    deployed.function = waiting  # type: ignore[method-assign]  # this one instance's
    job = deployed.start()
    row = deployed.row(job)
    deployed.executor.jobs.save(row, _cancelled_elsewhere(row))
    gate.set()

    assert deployed.ended(job) == ("SUCCEEDED", ["CheckCircuit", "CircuitOpen?", "NothingToDo"])
    assert deployed.targets.calls == []


def _cancelled_elsewhere(row: Job) -> Job:
    return replace(row, runs={}, cancelled=True, fence=row.fence + 1, write_id="other")


def test_a_cancel_in_the_middle_stops_the_execution(deployed: Deployed) -> None:
    called, released = threading.Event(), threading.Event()

    def hang(_: Invocation) -> TargetAnswer:
        called.set()
        released.wait(PATIENCE)
        return OK

    deployed.targets.answers = [hang]
    job = deployed.start()
    assert called.wait(PATIENCE)

    cancelled = cancel_job(deployed.services, SCHEDULER, job.id)

    assert cancelled.status is JobStatus.CANCELLED
    released.set()
    assert deployed.ended(job)[0] == "ABORTED"
    time.sleep(0.3)
    assert deployed.attempt(job).status.value == "CANCELLED"
    assert deployed.row(job) == cancelled
