"""Machine: each name starts once, and may be stopped; what is not clear is said to be so."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any, NamedTuple

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from functions.adapters import state_machine
from functions.adapters.state_machine import TRIES, StateMachine
from functions.domain.errors import NotStartedError, UnavailableError
from functions.domain.step import Step, write_step
from tests.factories import JOB_ID
from tests.fakes import FakeClock

STEP = Step(JOB_ID, "1800000000", 1, 1, 65)
AGAIN = STEP._replace(attempt=2, fence=2)


@pytest.fixture
def executions(platform, machine) -> Any:
    """Names of all executions, and whether each still runs, read back from where the platform keeps them."""
    if platform is None:
        return lambda: {step.execution_name: step.execution_name in machine.running for step in machine.started}

    def of_moto() -> dict[str, bool]:
        found = platform.states.list_executions(stateMachineArn=platform.machine)["executions"]
        return {each["name"]: each["status"] == "RUNNING" for each in found}

    return of_moto


def test_an_attempt_starts_under_its_name(machine, executions):
    machine.start(STEP)

    assert executions() == {f"{JOB_ID}-1800000000-0001-f1": True}


def test_started_already_is_no_error(machine, executions):
    for _ in range(3):
        machine.start(STEP)

    assert len(executions()) == 1


@pytest.mark.case(37)
def test_a_name_does_not_start_again_after_its_end(machine, executions):
    machine.start(STEP)
    machine.stop(STEP)

    machine.start(STEP)

    assert executions() == {STEP.execution_name: False}


@pytest.mark.case(37)
def test_another_fence_is_another_execution(machine, executions):
    machine.start(STEP)
    machine.stop(STEP)
    machine.start(STEP._replace(fence=2))

    assert executions() == {STEP.execution_name: False, f"{JOB_ID}-1800000000-0001-f2": True}


def test_one_is_stopped_and_the_others_run(machine, executions):
    machine.start(STEP)
    machine.start(AGAIN)

    machine.stop(STEP)

    assert executions() == {STEP.execution_name: False, AGAIN.execution_name: True}


def test_stopping_what_is_over_or_never_was_is_nothing(machine, executions):
    machine.stop(STEP)
    machine.start(STEP)
    machine.stop(STEP)
    machine.stop(STEP)

    assert executions() == {STEP.execution_name: False}


def test_a_lost_answer_is_no_second_execution(machine, executions, faults):
    faults.inject(lose_answer=1)

    machine.start(STEP)

    assert len(executions()) == 1


def test_its_input_is_the_step_and_nothing_else(aws):
    StateMachine(lambda: aws.states, arn=aws.machine, clock=FakeClock()).start(STEP)

    arn = f"{aws.machine.replace(':stateMachine:', ':execution:')}:{STEP.execution_name}"
    assert aws.states.describe_execution(executionArn=arn)["input"] == write_step(STEP)


# --- answers that only AWS gives ---


class Raw(NamedTuple):
    body: BytesIO

    def stream(self, **_: Any) -> Any:
        yield self.body.read()


@dataclass
class Answers:
    """Each try is answered by the next: `None` lets it through, a pair is an error's code and status."""

    given: list[Any]
    tries: int = 0

    def __call__(self, request: Any, **_: Any) -> AWSResponse | None:
        answer = self.given[min(self.tries, len(self.given) - 1)]
        self.tries += 1
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            return None
        code, status = answer
        body = Raw(BytesIO(f'{{"__type":"{code}","message":"not now"}}'.encode()))
        return AWSResponse(request.url, status, {"x-amzn-errortype": code}, body)


BUSY = ("ThrottlingException", 400)
FULL = ("ExecutionLimitExceeded", 400)
DENIED = ("AccessDeniedException", 400)
GONE = ("StateMachineDoesNotExist", 400)
BROKEN = ("InternalServerError", 500)
CUT = ReadTimeoutError(endpoint_url="https://states")
AWAY = EndpointConnectionError(endpoint_url="https://states")


def starting(aws: Any, *answers: Any) -> tuple[StateMachine, Answers, FakeClock]:
    given, clock = Answers(list(answers)), FakeClock()
    aws.states.meta.events.register_first("before-send.sfn.StartExecution", given)
    return StateMachine(lambda: aws.states, arn=aws.machine, clock=clock), given, clock


@pytest.mark.parametrize("answers", [(BUSY, None), (BUSY, FULL, None), (BROKEN, None), (CUT, AWAY, None)])
def test_what_may_go_by_is_tried_again(aws, answers):
    machine, given, clock = starting(aws, *answers)

    machine.start(STEP)

    assert given.tries == len(answers)
    assert clock.slept == [state_machine.PAUSE_SECONDS * 2**n for n in range(len(answers) - 1)]


@pytest.mark.parametrize(
    ("answers", "busy", "tries"), [((BUSY,), True, TRIES), ((DENIED,), False, 1), ((GONE,), False, 1)]
)
def test_a_clear_refusal_is_told_apart(aws, answers, busy, tries):
    machine, given, _ = starting(aws, *answers)

    with pytest.raises(NotStartedError, match=answers[0][0]) as refusal:
        machine.start(STEP)

    assert refusal.value.busy is busy
    assert given.tries == tries


@pytest.mark.parametrize("answers", [(BROKEN,), (CUT,), (BUSY, CUT, BUSY), (BROKEN, DENIED), (AWAY,)])
def test_one_answer_that_is_not_clear_makes_all_unclear(aws, answers):
    machine, _, _ = starting(aws, *answers)

    with pytest.raises(UnavailableError):
        machine.start(STEP)


@pytest.mark.parametrize("answer", [BROKEN, DENIED, CUT])
def test_what_cannot_be_stopped_is_left(aws, answer):
    machine = StateMachine(lambda: aws.states, arn=aws.machine, clock=FakeClock())
    machine.start(STEP)
    aws.states.meta.events.register_first("before-send.sfn.StopExecution", Answers([answer]))

    machine.stop(STEP)


def test_the_client_is_made_once_and_only_when_it_is_needed(aws):
    made = []

    def make() -> Any:
        made.append(1)
        return aws.states

    machine = StateMachine(make, arn=aws.machine, clock=FakeClock())
    assert made == []
    machine.start(STEP)
    machine.stop(STEP)
    assert made == [1]
