"""The five functions, made by one factory, and what calls those that consume queues and streams."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from functions.settings import (
    ApiSettings,
    DeadLettersSettings,
    ExecutorSettings,
    JobsSettings,
    SweepSettings,
)
from infra.grants import Grant, statements
from infra.nag import acknowledge_wildcards
from infra.queues import CONSUMER_TIMEOUT
from infra.stage import Stage


class Settings(Protocol):
    def variables(self) -> tuple[str, ...]: ...


class GnomonFunction(Construct):
    """One function of functions/handlers with a role and a log group of its own."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        code: lambda_.Code,
        module: str,
        description: str,
        timeout: Duration,
        memory_mb: int,
        chained: bool = False,
        concurrency: int | None = None,
        asynchronous: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        self.module = module
        log_group = logs.LogGroup(
            self,
            "Logs",
            retention=logs.RetentionDays[stage.log_retention],
            removal_policy=RemovalPolicy[stage.removal_policy],
        )
        self.role = iam.Role(
            self,
            "Role",
            description=f"Gnomon {stage.name}: the function {module}",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        )
        self.role.add_to_policy(
            iam.PolicyStatement(
                sid="WriteLogs",
                actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                resources=[log_group.log_group_arn],
            )
        )
        self.function = lambda_.Function(
            self,
            "Function",
            description=f"Gnomon {stage.name}: {description}",
            handler=f"functions.handlers.{module}.handler",
            code=code,
            runtime=getattr(lambda_.Runtime, stage.runtime),
            architecture=getattr(lambda_.Architecture, stage.architecture),
            memory_size=memory_mb,
            timeout=timeout,
            role=self.role,
            log_group=log_group,
            tracing=lambda_.Tracing[stage.tracing],
            # Function → queue → function chains are how the timing works; Lambda would cut them after about 16 links.
            recursive_loop=lambda_.RecursiveLoop.ALLOW if chained else None,
            reserved_concurrent_executions=concurrency,
            # Whoever calls asynchronously calls again by itself.
            retry_attempts=0 if asynchronous else None,
            max_event_age=Duration.minutes(1) if asynchronous else None,
        )
        acknowledge_wildcards(
            self.role, "*", reason="X-Ray's PutTraceSegments and PutTelemetryRecords know no resources."
        )

    def configure(self, settings: Settings, values: Mapping[str, object]) -> None:
        """Set the variables that the function's settings name, structured ones as JSON.

        Raises KeyError for a setting that has no value.
        """
        stack = Stack.of(self)
        for variable in settings.variables():
            value = values[variable.lower()]
            self.function.add_environment(variable, value if isinstance(value, str) else stack.to_json_string(value))

    def permit(self, grants: Sequence[Grant], resources: Mapping[str, Sequence[str]]) -> None:
        for statement in statements(grants, resources=resources, stack=Stack.of(self)):
            self.role.add_to_policy(statement)


class Functions(Construct):
    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage, code: Path) -> None:
        super().__init__(scope, construct_id)
        self._stage = stage
        self._code = lambda_.Code.from_asset(str(code))
        self.api = self._function("Api", "api", "HTTP API", timeout=Duration.seconds(25), memory_mb=1024)
        self.executor = self._function(
            "Executor", "executor", "starts and ends runs", timeout=CONSUMER_TIMEOUT, memory_mb=512, chained=True
        )
        self.sweep = self._function(
            "Sweep",
            "sweep",
            "looks after jobs whose hint was lost",
            timeout=Duration.seconds(60),
            memory_mb=512,
            chained=True,
            concurrency=stage.sweep_concurrency,
            asynchronous=True,
        )
        self.jobs = self._function(
            "Jobs",
            "jobs",
            "runs the registered Python handlers",
            timeout=CONSUMER_TIMEOUT,
            memory_mb=512,
            chained=True,
            asynchronous=True,
        )
        self.dead_letters = self._function(
            "DeadLetters",
            "dead_letters",
            "announces runs that failed for good",
            timeout=Duration.seconds(60),
            memory_mb=256,
        )

    @property
    def all(self) -> dict[str, GnomonFunction]:
        """By module, in the words of infra.grants."""
        return {each.module: each for each in (self.api, self.executor, self.sweep, self.jobs, self.dead_letters)}

    def configure(self, values: Mapping[str, object]) -> None:
        """Give every function its variables, out of the values of all settings by name."""
        self.api.configure(ApiSettings, values)
        self.executor.configure(ExecutorSettings, values)
        self.sweep.configure(SweepSettings, values)
        self.jobs.configure(JobsSettings, values)
        self.dead_letters.configure(DeadLettersSettings, values)
        for module, each in self.all.items():
            each.function.add_environment("POWERTOOLS_SERVICE_NAME", module)
            each.function.add_environment("POWERTOOLS_LOG_LEVEL", self._stage.log_level)

    def consume_runs(self, queue_arns: Mapping[str, str]) -> None:
        """Have the executor take hints from each run queue, as many at a time as the stage says for its priority."""
        for priority, arn in queue_arns.items():
            lambda_.CfnEventSourceMapping(
                self,
                f"Take{priority.capitalize()}",
                function_name=self.executor.function.function_name,
                event_source_arn=arn,
                batch_size=10,
                maximum_batching_window_in_seconds=0,
                function_response_types=["ReportBatchItemFailures"],
                scaling_config=lambda_.CfnEventSourceMapping.ScalingConfigProperty(
                    maximum_concurrency=getattr(self._stage.run_concurrency, priority)
                ),
            ).node.add_dependency(self.executor.role)

    def consume_dead_runs(self, *, stream_arn: str, unreadable_arn: str) -> None:
        """Have the history rows of runs that failed for good announced: those that are in the index `dead`."""
        pattern = {"eventName": ["INSERT", "MODIFY"], "dynamodb": {"NewImage": {"dl": {"S": [{"exists": True}]}}}}
        lambda_.CfnEventSourceMapping(
            self,
            "TakeDeadRuns",
            function_name=self.dead_letters.function.function_name,
            event_source_arn=stream_arn,
            starting_position="TRIM_HORIZON",
            batch_size=10,
            bisect_batch_on_function_error=True,
            maximum_retry_attempts=10,
            function_response_types=["ReportBatchItemFailures"],
            filter_criteria=lambda_.CfnEventSourceMapping.FilterCriteriaProperty(
                filters=[lambda_.CfnEventSourceMapping.FilterProperty(pattern=json.dumps(pattern))]
            ),
            destination_config=lambda_.CfnEventSourceMapping.DestinationConfigProperty(
                on_failure=lambda_.CfnEventSourceMapping.OnFailureProperty(destination=unreadable_arn)
            ),
        ).node.add_dependency(self.dead_letters.role)

    def _function(
        self,
        construct_id: str,
        module: str,
        description: str,
        *,
        timeout: Duration,
        memory_mb: int,
        chained: bool = False,
        concurrency: int | None = None,
        asynchronous: bool = False,
    ) -> GnomonFunction:
        return GnomonFunction(
            self,
            construct_id,
            stage=self._stage,
            code=self._code,
            module=module,
            description=description,
            timeout=timeout,
            memory_mb=memory_mb,
            chained=chained,
            concurrency=concurrency,
            asynchronous=asynchronous,
        )
