"""Attempts in the state machine: what its executions show, what the job shows, and that nothing of a cancelled one
follows. The machine's own timeout is tests/integration/test_state_machine_moto.py's: the emulator ignores it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from functions.domain.lease import LEASE_GRACE, LEASE_MARGIN
from gnomon.client import Client
from tests.e2e.processes import kill, processes_of
from tests.e2e.stack import Api, Aws, Stack, instant, job_body, once, own_name, problem, until
from tests.e2e.target import Endpoint
from tests.e2e.user_function import make_function, remove_function

pytestmark = pytest.mark.e2e

QUICK = {"maxRetries": 3, "initialDelaySeconds": 1, "backoffStrategy": "fixed", "jitter": 0}
Create = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Machine:
    aws: Aws
    arn: str

    def arn_of(self, execution: dict[str, Any]) -> str:
        name = f"{execution['id']}-f{execution['fence']}"
        return f"{self.arn.replace(':stateMachine:', ':execution:')}:{name}"

    def status(self, execution: dict[str, Any]) -> str:
        return str(self.aws.states.describe_execution(executionArn=self.arn_of(execution))["status"])

    def states(self, execution: dict[str, Any]) -> list[str]:
        """Names of the states that the attempt's execution entered, once it is over."""
        arn = self.arn_of(execution)
        until(lambda: self.status(execution) != "RUNNING", seconds=20, hint=f"{arn} ends")
        events = self.aws.states.get_execution_history(executionArn=arn)["events"]
        return [each["stateEnteredEventDetails"]["name"] for each in events if "stateEnteredEventDetails" in each]


@pytest.fixture(scope="module")
def machine(stack: Stack, aws: Aws) -> Machine:
    return Machine(aws, stack.outputs["StateMachineArn"])


def history(client: Client, job_id: str, *, status: str = "COMPLETED", seconds: float = 40) -> list[dict[str, Any]]:
    """The attempts, oldest first, once the job has this status."""
    until(lambda: client.get_job(job_id)["status"] == status, seconds=seconds, hint=f"{job_id} is {status}")
    return [dict(each) for each in reversed(list(client.history(job_id)))]


def test_attempt_that_was_asked_to_be_seen_is_seen(
    scheduler: Client, machine: Machine, create: Create, endpoint: Endpoint
) -> None:
    payload = {"secret": "of nobody's business"}
    made = create(schedule=once(0), target=endpoint.target(), orchestrated=True, payload=payload)
    [execution] = history(scheduler, made["id"])
    assert (execution["status"], execution["final"], execution["result"]) == ("COMPLETED", True, {"answered": True})
    assert machine.states(execution) == ["CheckCircuit", "CircuitOpen?", "Invoke", "RecordOutcome"]
    assert machine.status(execution) == "SUCCEEDED"
    [call] = endpoint.calls(made["id"])
    assert json.loads(call.body) == payload
    shown = machine.aws.states.get_execution_history(executionArn=machine.arn_of(execution))
    assert "nobody's business" not in json.dumps(shown, default=str)
    assert "answered" not in json.dumps(shown, default=str)


@pytest.mark.parametrize("target", ["handler", "http"])
def test_timeout_over_a_minute_goes_through_the_machine(
    scheduler: Client, machine: Machine, create: Create, endpoint: Endpoint, target: str
) -> None:
    targets = {"handler": {"type": "handler", "name": "echo"}, "http": endpoint.target("sleep")}
    made = create(schedule=once(0), target=targets[target], timeoutSeconds=840)
    [execution] = history(scheduler, made["id"])
    assert execution["status"] == "COMPLETED"
    assert machine.states(execution)[-1] == "RecordOutcome"


def test_failed_attempts_are_retried_each_in_an_execution_of_its_own(
    scheduler: Client, machine: Machine, create: Create, endpoint: Endpoint
) -> None:
    made = create(schedule=once(0), target=endpoint.target("503-503-200"), orchestrated=True, retryConfig=QUICK)
    attempts = history(scheduler, made["id"])
    assert [each["status"] for each in attempts] == ["FAILED", "FAILED", "COMPLETED"]
    assert len({machine.arn_of(each) for each in attempts}) == 3
    for each in attempts:
        assert machine.states(each)[-1] == "RecordOutcome"
    assert len(endpoint.calls(made["id"])) == 3


@pytest.mark.on_time
def test_attempt_is_cut_off_at_its_timeout_and_retried(
    scheduler: Client, machine: Machine, create: Create, endpoint: Endpoint
) -> None:
    made = create(
        schedule=once(0),
        target=endpoint.target("hang-200"),
        orchestrated=True,
        timeoutSeconds=3,
        retryConfig=QUICK,
    )
    first, second = history(scheduler, made["id"])
    called = endpoint.calls(made["id"])[0].at
    assert (first["status"], first["error"]["code"], first["final"]) == ("TIMED_OUT", "TIMEOUT", False)
    assert instant(first["completedAt"]) - called == pytest.approx(3, abs=1)
    assert second["status"] == "COMPLETED"
    assert machine.states(first)[-1] == "RecordOutcome", "the function kept the deadline, not the machine"


@pytest.mark.on_time
@pytest.mark.parametrize("orchestrated", [True, False])
def test_function_of_the_users_is_not_waited_for_longer(
    stack: Stack, aws: Aws, scheduler: Client, create: Create, orchestrated: bool
) -> None:
    function = make_function(aws, own_name(stack))
    try:
        made = create(
            schedule=once(0),
            target={"type": "lambda", "functionName": function},
            payload="sleep",
            orchestrated=orchestrated,
            timeoutSeconds=2,
            retryConfig=QUICK | {"maxRetries": 0},
        )
        [execution] = history(scheduler, made["id"], status="FAILED")
    finally:
        remove_function(aws, function)
    assert (execution["status"], execution["error"]["code"]) == ("TIMED_OUT", "TIMEOUT")
    took = instant(execution["completedAt"]) - instant(execution["startedAt"])
    # Of the machine's way the start is a part: its execution, and a function that may have to be started first.
    assert 2 <= took <= (5 if orchestrated else 3)


def test_cancel_stops_the_execution_and_nothing_follows(
    scheduler: Client, machine: Machine, create: Create, endpoint: Endpoint
) -> None:
    made = create(
        schedule=once(0), target=endpoint.target("sleep"), orchestrated=True, timeoutSeconds=30, retryConfig=QUICK
    )
    until(lambda: endpoint.calls(made["id"]), seconds=20, hint="the target is called")
    cancelled = scheduler.cancel_job(made["id"])
    assert cancelled["status"] == "CANCELLED"
    [execution] = history(scheduler, made["id"], status="CANCELLED", seconds=1)
    assert (execution["status"], execution["final"]) == ("CANCELLED", True)
    assert machine.status(execution) == "ABORTED"
    time.sleep(5)  # the call is over by now
    assert history(scheduler, made["id"], status="CANCELLED") == [execution]
    assert len(endpoint.calls(made["id"])) == 1


def test_cancel_of_the_one_execution_stops_it_too(
    api: Api, scheduler: Client, machine: Machine, create: Create, endpoint: Endpoint
) -> None:
    made = create(
        schedule=once(0), target=endpoint.target("sleep"), orchestrated=True, timeoutSeconds=30, retryConfig=QUICK
    )
    until(lambda: endpoint.calls(made["id"]), seconds=20, hint="the target is called")
    [running] = scheduler.history(made["id"])
    answer = api.post(f"/v1/executions/{running['id']}/cancel")
    assert answer.json()["status"] == "CANCELLED"
    assert machine.status(dict(running)) == "ABORTED"
    assert scheduler.get_job(made["id"])["status"] == "CANCELLED"


def test_killed_function_is_found_by_the_machine(
    stack: Stack, scheduler: Client, machine: Machine, create: Create, endpoint: Endpoint
) -> None:
    made = create(
        schedule=once(0), target=endpoint.target("sleep-200"), orchestrated=True, timeoutSeconds=60, retryConfig=QUICK
    )
    until(lambda: endpoint.calls(made["id"]), seconds=20, every=0.05, hint="the target is called")
    kill(processes_of(stack.outputs["StepsFunction"], of=stack.place))
    first, second = history(scheduler, made["id"])
    assert (first["status"], first["error"]["code"], first["final"]) == ("FAILED", "WORKER_LOST", False)
    assert machine.states(first)[-2:] == ["Invoke", "RecordFailure"]
    assert second["status"] == "COMPLETED"
    assert len(endpoint.calls(made["id"])) == 2


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_execution_that_is_lost_is_repeated_when_its_lease_is_over(
    scheduler: Client, machine: Machine, create: Create, endpoint: Endpoint
) -> None:
    """Somebody stops it by hand, so nothing of it records anything: the last of the three guards."""
    made = create(
        schedule=once(0), target=endpoint.target("sleep-200"), orchestrated=True, timeoutSeconds=5, retryConfig=QUICK
    )
    [running] = until(lambda: list(scheduler.history(made["id"])) if endpoint.calls(made["id"]) else [], seconds=20)
    machine.aws.states.stop_execution(executionArn=machine.arn_of(dict(running)))
    # The function under way has put its history row, if it came so far: then nothing is lost but the time.
    first, *others = history(scheduler, made["id"], seconds=5 + LEASE_MARGIN + LEASE_GRACE + 60 + 30)
    assert instant(first["completedAt"]) >= instant(first["startedAt"])
    assert [each["status"] for each in (first, *others)][-1] == "COMPLETED"
    late = time.time() - instant(running["startedAt"])
    assert late >= 5 + LEASE_MARGIN, "nobody takes it back before"


def test_timeout_beyond_what_any_function_waits_is_refused(api: Api, endpoint: Endpoint) -> None:
    answer = api.post("/v1/jobs", job_body(target=endpoint.target(), timeoutSeconds=841))
    message = problem(answer, 400, "VALIDATION_ERROR")["timeoutSeconds"]
    assert "841" in message
    assert "840" in message
