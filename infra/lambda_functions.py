"""The functions, made by one factory, and what calls those that consume queues and streams."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from functions.settings import (
    TELEMETRY_VARIABLES,
    ApiSettings,
    DeadLettersSettings,
    ExecutorSettings,
    JobsSettings,
    LifecycleSettings,
    PollSettings,
    StepsSettings,
    SweepSettings,
)
from infra.grants import Grant, statements
from infra.nag import acknowledge_wildcards
from infra.queues import CONSUMER_TIMEOUT, RUN_BATCH
from infra.stage import Stage


class Settings(Protocol):
    def variables(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSpec:
    module: str
    """Of functions/handlers."""
    description: str
    settings: Settings
    timeout: Duration
    memory_mb: int
    chained: bool = False
    """It is a link of function → queue → function chains: Lambda must not cut them after about 16 links."""
    asynchronous: bool = False
    """Whoever calls it asynchronously calls again by itself: Lambda repeats nothing."""


_API = FunctionSpec(
    module="api", description="HTTP API", settings=ApiSettings, timeout=Duration.seconds(25), memory_mb=1024
)
_POLL = FunctionSpec(
    module="poll",
    description="workers' polls, which may wait",
    settings=PollSettings,
    # Beyond the longest wait of 20 s, within the 30 s after which API Gateway gives up.
    timeout=Duration.seconds(28),
    memory_mb=256,
)
_EXECUTOR = FunctionSpec(
    module="executor",
    description="starts and ends runs",
    settings=ExecutorSettings,
    timeout=CONSUMER_TIMEOUT,
    memory_mb=512,
    chained=True,
)
_LONGEST = Duration.seconds(900)
"""Lambda's longest."""
_STEPS = FunctionSpec(
    module="steps",
    description="does the work of the state machine's states",
    settings=StepsSettings,
    timeout=_LONGEST,
    memory_mb=512,
    chained=True,
)
_SWEEP = FunctionSpec(
    module="sweep",
    description="looks after jobs whose hint was lost",
    settings=SweepSettings,
    timeout=Duration.seconds(60),
    memory_mb=512,
    chained=True,
    asynchronous=True,
)
_JOBS = FunctionSpec(
    module="jobs",
    description="runs the registered Python handlers",
    settings=JobsSettings,
    timeout=_LONGEST,
    memory_mb=512,
    chained=True,
    asynchronous=True,
)
_DEAD_LETTERS = FunctionSpec(
    module="dead_letters",
    description="announces runs that failed for good",
    settings=DeadLettersSettings,
    timeout=Duration.seconds(60),
    memory_mb=256,
)
_LIFECYCLE = FunctionSpec(
    module="lifecycle",
    description="puts lifecycle events on the bus",
    settings=LifecycleSettings,
    timeout=Duration.seconds(60),
    memory_mb=512,
)
_STREAM_RETRIES = 10
"""Of a batch of a stream, before its place goes to the queue of what cannot be read."""
_STREAM_AGE = 82_800
"""Seconds after which a record that was not taken goes there, too: the stream itself forgets after a day."""


class GnomonFunction(Construct):
    """One function of functions/handlers with a role and a log group of its own."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        code: lambda_.Code,
        spec: FunctionSpec,
        concurrency: int | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.spec = spec
        log_group = logs.LogGroup(
            self,
            "Logs",
            retention=logs.RetentionDays[stage.log_retention],
            removal_policy=RemovalPolicy[stage.removal_policy],
        )
        self.role = iam.Role(
            self,
            "Role",
            description=f"Gnomon {stage.name}: the function {spec.module}",
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
            description=f"Gnomon {stage.name}: {spec.description}",
            handler=f"functions.handlers.{spec.module}.handler",
            code=code,
            runtime=getattr(lambda_.Runtime, stage.runtime),
            architecture=getattr(lambda_.Architecture, stage.architecture),
            memory_size=spec.memory_mb,
            timeout=spec.timeout,
            role=self.role,
            log_group=log_group,
            tracing=lambda_.Tracing[stage.tracing],
            recursive_loop=lambda_.RecursiveLoop.ALLOW if spec.chained else None,
            reserved_concurrent_executions=concurrency,
            retry_attempts=0 if spec.asynchronous else None,
            max_event_age=Duration.minutes(1) if spec.asynchronous else None,
        )
        acknowledge_wildcards(
            self.role,
            "*",
            reason="Only for xray:PutTraceSegments, xray:PutTelemetryRecords and, where a stream is read, "
            "dynamodb:ListStreams: IAM knows no resources for them.",
        )

    def configure(self, values: Mapping[str, object]) -> None:
        """Set the variables that the function's settings name, out of the values of all; structured ones as JSON.

        Raises KeyError for a setting that has no value.
        """
        stack = Stack.of(self)
        for variable in self.spec.settings.variables():
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
        self.api = self._function("Api", _API, concurrency=stage.api_concurrency)
        self.poll = self._function("Poll", _POLL, concurrency=stage.poll_concurrency)
        self.executor = self._function("Executor", _EXECUTOR)
        self.sweep = self._function("Sweep", _SWEEP, concurrency=stage.sweep_concurrency)
        self.steps = self._function("Steps", _STEPS, concurrency=stage.steps_concurrency)
        self.jobs = self._function("Jobs", _JOBS, concurrency=stage.jobs_concurrency)
        self.dead_letters = self._function("DeadLetters", _DEAD_LETTERS)
        self.lifecycle = self._function("Lifecycle", _LIFECYCLE)

    @property
    def all(self) -> dict[str, GnomonFunction]:
        """By module, in the words of infra.grants."""
        made = (
            self.api,
            self.poll,
            self.executor,
            self.steps,
            self.sweep,
            self.jobs,
            self.dead_letters,
            self.lifecycle,
        )
        return {each.spec.module: each for each in made}

    def configure(self, values: Mapping[str, object]) -> None:
        """Give every function its variables, out of the values of all settings by name."""
        for module, each in self.all.items():
            each.configure(values)
            for variable, value in zip(
                TELEMETRY_VARIABLES, (module, self._stage.log_level, self._stage.metrics_namespace), strict=True
            ):
                each.function.add_environment(variable, value)

    def consume_runs(self, queue_arns: Mapping[str, str]) -> None:
        """Have the executor take hints from each run queue, as many at a time as the stage says for its priority."""
        for priority, arn in queue_arns.items():
            lambda_.CfnEventSourceMapping(
                self,
                f"Take{priority.capitalize()}",
                function_name=self.executor.function.function_name,
                event_source_arn=arn,
                batch_size=RUN_BATCH,
                maximum_batching_window_in_seconds=0,
                function_response_types=["ReportBatchItemFailures"],
                scaling_config=lambda_.CfnEventSourceMapping.ScalingConfigProperty(
                    maximum_concurrency=getattr(self._stage.run_concurrency, priority)
                ),
            ).node.add_dependency(self.executor.role)

    def consume_dead_runs(self, *, stream_arn: str, unreadable_arn: str) -> None:
        """Have the history rows of runs that failed for good announced: those that are in the index `dead`."""
        pattern = {"eventName": ["INSERT", "MODIFY"], "dynamodb": {"NewImage": {"dl": {"S": [{"exists": True}]}}}}
        self._consume_stream("TakeDeadRuns", self.dead_letters, stream_arn, unreadable_arn, pattern, batch_size=10)

    def consume_changes(self, *, jobs_arn: str, coordination_arn: str, unreadable_arn: str) -> None:
        """Have what becomes of jobs, circuits and workers told: every change of a state row or a circuit, every new
        worker. What a definition's row holds, what expires, heartbeats and limits are no events.

        One batch a shard at a time; with a parallelization factor Lambda would still keep the order of each job.
        """
        written = ["INSERT", "MODIFY"]
        states = {"eventName": written, "dynamodb": {"Keys": {"S": {"S": ["S"]}}}}
        circuits = {"eventName": written, "dynamodb": {"Keys": {"kind": {"S": [{"prefix": "circuit#"}]}}}}
        workers = {"eventName": ["INSERT"], "dynamodb": {"Keys": {"kind": {"S": ["worker"]}}}}
        for construct_id, arn, patterns in (
            ("TakeChanges", jobs_arn, (states,)),
            ("TakeCoordination", coordination_arn, (circuits, workers)),
        ):
            self._consume_stream(construct_id, self.lifecycle, arn, unreadable_arn, *patterns, batch_size=100)

    def _consume_stream(
        self,
        construct_id: str,
        consumer: GnomonFunction,
        stream_arn: str,
        unreadable_arn: str,
        *patterns: Mapping[str, object],
        batch_size: int,
    ) -> None:
        lambda_.CfnEventSourceMapping(
            self,
            construct_id,
            function_name=consumer.function.function_name,
            event_source_arn=stream_arn,
            starting_position="TRIM_HORIZON",
            batch_size=batch_size,
            bisect_batch_on_function_error=True,
            maximum_retry_attempts=_STREAM_RETRIES,
            maximum_record_age_in_seconds=_STREAM_AGE,
            function_response_types=["ReportBatchItemFailures"],
            filter_criteria=lambda_.CfnEventSourceMapping.FilterCriteriaProperty(
                filters=[
                    lambda_.CfnEventSourceMapping.FilterProperty(pattern=json.dumps(pattern)) for pattern in patterns
                ]
            ),
            destination_config=lambda_.CfnEventSourceMapping.DestinationConfigProperty(
                on_failure=lambda_.CfnEventSourceMapping.OnFailureProperty(destination=unreadable_arn)
            ),
        ).node.add_dependency(consumer.role)

    def _function(self, construct_id: str, spec: FunctionSpec, *, concurrency: int | None = None) -> GnomonFunction:
        reserved = concurrency if self._stage.reserves_concurrency else None
        return GnomonFunction(self, construct_id, stage=self._stage, code=self._code, spec=spec, concurrency=reserved)
