"""The state machine as it is deployed."""

import json

from infra.states import LONGEST_SECONDS, definition
from tests.infra.synthesized import Template

STEPS = "Functions/Steps/Function.Arn"


def machine(template: Template) -> dict:
    [only] = template.of_type("AWS::StepFunctions::StateMachine").values()
    return only


def states(template: Template) -> dict:
    return json.loads(machine(template)["DefinitionString"])["States"]


def test_it_is_a_standard_machine_with_a_role_of_its_own(template: Template) -> None:
    properties = machine(template)

    assert properties["StateMachineType"] == "STANDARD", "Express machines are not idempotent and live five minutes"
    assert properties["RoleArn"] == "StateMachine/Role.Arn"
    assert properties["TracingConfiguration"] == {"Enabled": template.stage.tracing == "ACTIVE"}
    assert properties["LoggingConfiguration"]["Level"] == "ERROR"
    assert properties["LoggingConfiguration"]["IncludeExecutionData"] is False


def test_its_role_calls_the_one_function_and_no_other(template: Template) -> None:
    allowed = template.permissions("StateMachine/Role")

    assert allowed.pop("lambda:InvokeFunction") == {STEPS}
    assert {action.partition(":")[0] for action in allowed} == {"logs", "xray"}


def test_only_step_functions_takes_its_role(template: Template) -> None:
    [statement] = template.properties("StateMachine/Role")["AssumeRolePolicyDocument"]["Statement"]

    assert statement["Principal"] == {"Service": "states.amazonaws.com"}


def test_the_deployed_document_is_the_one_that_tests_walk(template: Template) -> None:
    assert json.loads(machine(template)["DefinitionString"]) == definition(partition="<Partition>", function_arn=STEPS)


def test_ids_and_numbers_go_through_it_and_no_payload(template: Template) -> None:
    for name, state in states(template).items():
        if state["Type"] == "Task":
            given = set(state["Parameters"]["Payload"]) - {"step", "until.$"}
            assert given == {"v.$", "jobId.$", "slot.$", "attempt.$", "fence.$", "timeoutSeconds.$"}, name
            assert "ResultSelector" in state or state["End"], f"{name} passes on all that its function answers"


def test_the_call_alone_takes_the_jobs_timeout_and_is_not_repeated(template: Template) -> None:
    timed = {name: state.get("TimeoutSecondsPath") for name, state in states(template).items()}
    repeated = {name: state.get("Retry", [{}])[0].get("ErrorEquals") for name, state in states(template).items()}

    assert {name for name, path in timed.items() if path} == {"Invoke"}
    assert repeated["Invoke"] == ["Lambda.TooManyRequestsException"], "whatever else fails may have called the target"


def test_nothing_outlives_what_it_waits_for(template: Template) -> None:
    function = template.properties("Functions/Steps/Function")["Timeout"]

    assert 840 + 5 < function < LONGEST_SECONDS
