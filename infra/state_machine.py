"""The state machine around attempts that need it or ask for it, deployed: its role, its log, its document."""

from __future__ import annotations

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.nag import acknowledge, acknowledge_wildcards
from infra.stage import Stage
from infra.states import definition


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
