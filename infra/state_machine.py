"""The state machine around attempts that need it or ask for it: which state follows which, and what each may take.

`definition` is the Amazon States Language document itself: docs/architecture.md shows its picture, tests walk it.
"""

from __future__ import annotations

from typing import Any

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.nag import acknowledge, acknowledge_wildcards
from infra.stage import Stage

LONGEST_SECONDS = 1_200
"""An execution that still runs after so long has lost its attempt to the lease."""
_STEP_SECONDS = 30
"""For a state that reads and writes rows only."""
_IDS = ("v", "jobId", "slot", "attempt", "fence", "timeoutSeconds")
_NOT_RUN = ["Lambda.TooManyRequestsException"]
"""Says for certain that the function was not run."""
_REPEAT = {
    "ErrorEquals": ["States.ALL"],
    "IntervalSeconds": 1,
    "BackoffRate": 2,
    "MaxAttempts": 4,
    "JitterStrategy": "FULL",
}
"""For steps that may be repeated: each puts what is absent and follows what is there."""


def definition(*, partition: str, function_arn: str) -> dict[str, Any]:
    """The machine, in Amazon States Language. Only ids and the timeout go through it."""

    def task(step: str, **more: Any) -> dict[str, Any]:
        payload = {"step": step} | {f"{name}.$": f"$.{name}" for name in _IDS} | more.pop("payload", {})
        timeout = {} if "TimeoutSecondsPath" in more else {"TimeoutSeconds": _STEP_SECONDS}
        return {
            "Type": "Task",
            "Resource": f"arn:{partition}:states:::lambda:invoke",
            "Parameters": {"FunctionName": function_arn, "Payload": payload},
            **timeout,
            **more,
        }

    return {
        "Comment": "One attempt of a run: is the circuit closed, then the call, then what came of it",
        "StartAt": "CheckCircuit",
        "TimeoutSeconds": LONGEST_SECONDS,
        "States": {
            "CheckCircuit": task(
                "checkCircuit",
                ResultSelector={"state.$": "$.Payload.state", "until.$": "$.Payload.until"},
                ResultPath="$.circuit",
                Retry=[_REPEAT | {"MaxAttempts": 1}],
                # What cannot be checked is called: the check spares calls, it does not guard anything.
                Catch=[{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Invoke"}],
                Next="CircuitOpen?",
            ),
            "CircuitOpen?": {
                "Type": "Choice",
                "Choices": [
                    {"Variable": "$.circuit.state", "StringEquals": "open", "Next": "EndAsCircuitOpen"},
                    {"Variable": "$.circuit.state", "StringEquals": "stopped", "Next": "NothingToDo"},
                ],
                "Default": "Invoke",
            },
            "EndAsCircuitOpen": task(
                "endAsCircuitOpen", payload={"until.$": "$.circuit.until"}, Retry=[_REPEAT], End=True
            ),
            "NothingToDo": {"Type": "Succeed", "Comment": "The run is no longer this execution's"},
            "Invoke": task(
                "invoke",
                TimeoutSecondsPath="$.timeoutSeconds",
                ResultSelector={"status.$": "$.Payload.status"},
                ResultPath="$.outcome",
                Retry=[_REPEAT | {"ErrorEquals": _NOT_RUN}],
                Catch=[
                    {"ErrorEquals": ["States.Timeout"], "ResultPath": "$.error", "Next": "RecordTimeout"},
                    {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "RecordFailure"},
                ],
                Next="RecordOutcome",
            ),
            "RecordOutcome": task("recordOutcome", Retry=[_REPEAT], End=True),
            "RecordFailure": task("recordFailure", Retry=[_REPEAT], End=True),
            "RecordTimeout": task("recordTimeout", Retry=[_REPEAT], End=True),
        },
    }


class StateMachine(Construct):
    """The Standard state machine, with a role that may invoke the one function behind its states."""

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage, function: lambda_.IFunction) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        log_group = logs.LogGroup(
            self,
            "Logs",
            retention=logs.RetentionDays[stage.log_retention],
            removal_policy=RemovalPolicy[stage.removal_policy],
        )
        role = iam.Role(
            self,
            "Role",
            description=f"Gnomon {stage.name}: the state machine of attempts",
            assumed_by=iam.ServicePrincipal("states.amazonaws.com"),
        )
        role.add_to_policy(
            iam.PolicyStatement(sid="InvokeSteps", actions=["lambda:InvokeFunction"], resources=[function.function_arn])
        )
        self.machine = sfn.StateMachine(
            self,
            "Attempts",
            state_machine_type=sfn.StateMachineType.STANDARD,
            comment=f"Gnomon {stage.name}: attempts that take long or were asked to be seen",
            definition_body=sfn.DefinitionBody.from_string(
                stack.to_json_string(definition(partition=stack.partition, function_arn=function.function_arn))
            ),
            role=role,
            tracing_enabled=stage.tracing == "ACTIVE",
            logs=sfn.LogOptions(destination=log_group, level=sfn.LogLevel.ERROR, include_execution_data=False),
        )
        acknowledge(
            self.machine,
            SF1="Logs errors only: every other event is in the execution's own history, and a line a state would cost "
            "more than the state.",
        )
        acknowledge_wildcards(
            role,
            "*",
            reason="Only for the delivery of the machine's log, and for X-Ray: IAM knows no resources for them.",
        )

    @property
    def executions_arn(self) -> str:
        """ARN of all executions of the machine."""
        return Stack.of(self).format_arn(
            service="states",
            resource="execution",
            resource_name=f"{self.machine.state_machine_name}:*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
