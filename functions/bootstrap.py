"""Composition root: settings → clients → adapters → what a handler needs. Made once a process, at the first event.

Adapters are imported where they are used, so that each function imports no more than its own. Nothing that a cold
start makes is garbage, and looking for some takes a sixth of it (docs/benchmarks.md): the collector waits until the
end of it, and then leaves alone what is there.
"""
# ruff: noqa: E402, PLC0415 - the collector stops before boto3 is loaded

from __future__ import annotations

import gc

gc.disable()

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypedDict

import boto3
from botocore.config import Config

from functions import telemetry
from functions.adapters.dynamodb_circuits import DynamoDbCircuits
from functions.adapters.dynamodb_history import DynamoDbHistory
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.adapters.dynamodb_retry_configs import DynamoDbRetryConfigs
from functions.adapters.dynamodb_slots import DynamoDbSlots
from functions.adapters.remembered_job_types import RememberedJobTypes
from functions.adapters.system_clock import SystemClock
from functions.adapters.timetable import RunQueue, SqsTimetable
from functions.defaults import stage_defaults
from functions.domain.definition import Priority
from functions.usecases.services import Attempts, Engine, Executor

if TYPE_CHECKING:
    from functions.api.serving import Handler
    from functions.domain.execution import Execution
    from functions.key_ports import WebhookKeyStore
    from functions.limit_ports import Circuits, RateLimits, Slots
    from functions.ports import (
        Clock,
        DeadLetters,
        JobStore,
        JobTypes,
        Machine,
        ProgressBoard,
        RunHistory,
        TakenMessages,
        Targets,
        Timetable,
    )
    from functions.settings import (
        ApiSettings,
        DeadLettersSettings,
        ExecutorSettings,
        PollSettings,
        RunCapacity,
        StepsSettings,
        SweepSettings,
    )
    from functions.usecases.lifecycle import Announcer

CALLS = Config(
    connect_timeout=2, read_timeout=5, retries={"mode": "standard", "max_attempts": 3}, max_pool_connections=20
)
"""Clients of the engine: a call to DynamoDB or SQS that takes longer is better repeated."""


class _EnginePorts(TypedDict):
    jobs: JobStore
    history: RunHistory
    timetable: Timetable
    slots: Slots
    circuits: Circuits
    clock: Clock
    types: JobTypes
    ended: Callable[[Execution], None]


class _AttemptPorts(_EnginePorts):
    targets: Targets
    is_transient: Callable[[Exception], bool]


gc.freeze()
gc.enable()


@contextmanager
def _uncollected() -> Iterator[None]:
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


@cache
def _client(service: str) -> Any:
    return boto3.client(service, config=CALLS)  # type: ignore[call-overload]  # the stubs know literals only


def _ports(
    settings: ApiSettings | PollSettings | StepsSettings | SweepSettings,
    *,
    retention_days: int,
    run_capacity: RunCapacity | None = None,
) -> _EnginePorts:
    """`run_capacity` is for whoever measures the queues."""
    clock = SystemClock()
    queues, high, normal, low = settings.run_queues, *(run_capacity or (0, 0, 0))
    return {
        "jobs": DynamoDbJobs(_client("dynamodb"), settings.jobs_table, graphs=settings.coordination_table),
        "history": DynamoDbHistory(_client("dynamodb"), settings.executions_table, retention_days=retention_days),
        "timetable": SqsTimetable(
            _client("sqs"),
            _client("scheduler"),
            queues={
                Priority.HIGH: RunQueue(*queues.high, high),
                Priority.NORMAL: RunQueue(*queues.normal, normal),
                Priority.LOW: RunQueue(*queues.low, low),
            },
            group=settings.schedule_group,
            role_arn=settings.scheduler_role_arn,
            clock=clock,
        ),
        "slots": DynamoDbSlots(_client("dynamodb"), settings.coordination_table),
        "circuits": DynamoDbCircuits(_client("dynamodb"), settings.coordination_table),
        "clock": clock,
        "types": RememberedJobTypes(
            DynamoDbRetryConfigs(_client("dynamodb"), settings.coordination_table),
            clock=clock,
            defaults=stage_defaults(settings.retry_defaults, settings.circuit_rules),
        ),
        "ended": telemetry.attempt_ended,
    }


@cache
@_uncollected()
def api() -> Handler:
    from functions.adapters.address_guard import AddressGuard
    from functions.adapters.aws_errors import is_transient
    from functions.adapters.bundled_handlers import bundled_handlers
    from functions.adapters.dynamodb_graph import DynamoDbDependents, DynamoDbGraphs
    from functions.adapters.dynamodb_idempotency import DynamoDbIdempotencyKeys
    from functions.adapters.dynamodb_owners import DynamoDbOwners
    from functions.adapters.dynamodb_progress import DynamoDbProgress
    from functions.adapters.dynamodb_workers import DynamoDbWorkers
    from functions.adapters.dynamodb_workflows import DynamoDbWorkflows
    from functions.api.app import create_app
    from functions.domain.target_access import TargetPolicy
    from functions.settings import ApiSettings
    from functions.usecases.services import Services

    settings = ApiSettings.from_environment()
    dynamodb = _client("dynamodb")
    ports = _ports(settings, retention_days=settings.retention_days)
    services = Services(
        **ports,
        machine=_machine(settings, ports["clock"]),
        idempotency=DynamoDbIdempotencyKeys(dynamodb, settings.idempotency_table),
        owners=DynamoDbOwners(dynamodb, settings.coordination_table),
        workers=DynamoDbWorkers(dynamodb, settings.coordination_table),
        progress=DynamoDbProgress(dynamodb, settings.coordination_table),
        retry_configs=DynamoDbRetryConfigs(dynamodb, settings.coordination_table),
        dependents=DynamoDbDependents(dynamodb, settings.coordination_table),
        graphs=DynamoDbGraphs(dynamodb, settings.coordination_table),
        workflows=DynamoDbWorkflows(dynamodb, settings.coordination_table),
        webhook_keys=_webhook_keys(settings),
        recurring_jobs=settings.recurring_jobs,
    )
    rules = TargetPolicy.of_stage(settings.stage, settings.target_rules, home=settings.run_queues.high.arn)
    return create_app(
        services,
        limits=_limits(settings),
        rules=rules,
        check_address=AddressGuard(rules).check,
        handlers=bundled_handlers,
        shortest_interval_seconds=settings.shortest_interval_seconds,
        is_transient=is_transient,
        machine_teams=dict(settings.machine_teams),
        stage=settings.stage,
        version=settings.version,
        address=settings.api_address,
    )


def _webhook_keys(settings: ApiSettings | StepsSettings) -> WebhookKeyStore:
    from functions.adapters.webhook_keys import SecretsManagerWebhookKeys

    place = settings.webhook_keys
    return SecretsManagerWebhookKeys(lambda: _client("secretsmanager"), prefix=place.prefix, kms_key=place.kms_key)


def _limits(settings: ApiSettings | PollSettings) -> RateLimits:
    from functions.adapters.dynamodb_limits import DynamoDbRateLimits

    limits = settings.caller_limits
    return DynamoDbRateLimits(
        _client("dynamodb"),
        settings.coordination_table,
        reads_per_minute=limits.reads_per_minute,
        writes_per_minute=limits.writes_per_minute,
        work_per_minute=limits.work_per_minute,
        creations_per_day=limits.creations_per_day,
    )


@cache
@_uncollected()
def poll() -> Handler:
    from functions.adapters.aws_errors import is_transient
    from functions.adapters.dynamodb_workers import DynamoDbWorkers
    from functions.api.poll_app import create_poll_app
    from functions.settings import PollSettings
    from functions.usecases.services import Polls

    settings = PollSettings.from_environment()
    polls = Polls(
        **_ports(settings, retention_days=settings.retention_days),
        workers=DynamoDbWorkers(_client("dynamodb"), settings.coordination_table),
        waiting_polls=settings.waiting_polls,
    )
    return create_poll_app(
        polls, limits=_limits(settings), is_transient=is_transient, machine_teams=dict(settings.machine_teams)
    )


def _attempts(settings: StepsSettings, *, longest_call: int) -> _AttemptPorts:
    """What calls targets; `longest_call` in seconds."""
    from functions.adapters.aws_errors import is_transient
    from functions.adapters.lambda_target import invoke_config
    from functions.target_calls import make_targets

    ports = _ports(settings, retention_days=settings.retention_days)
    targets = make_targets(
        settings,
        ports["clock"],
        functions=boto3.client("lambda", config=invoke_config(longest_call)),
        secrets=_client("secretsmanager"),
        webhook_keys=_webhook_keys(settings),
        sqs=_client("sqs"),
    )
    return {**ports, "targets": targets, "is_transient": is_transient}


def _machine(settings: ApiSettings | ExecutorSettings, clock: Clock) -> Machine:
    from functions.adapters.state_machine import START_CONFIG, StateMachine

    return StateMachine(
        lambda: boto3.client("stepfunctions", config=START_CONFIG), arn=settings.state_machine, clock=clock
    )


@cache
@_uncollected()
def executor() -> Executor:
    from functions.adapters.dynamodb_graph import DynamoDbDependents
    from functions.adapters.dynamodb_shares import DynamoDbShareRows
    from functions.adapters.process_shares import ProcessShares
    from functions.domain.path import DIRECT_SECONDS
    from functions.domain.shares import Share
    from functions.settings import ExecutorSettings

    settings = ExecutorSettings.from_environment()
    ports = _attempts(settings, longest_call=DIRECT_SECONDS)
    high, normal, low = (Share(*share) for share in settings.owner_shares)
    return Executor(
        **ports,
        shares=ProcessShares(
            DynamoDbShareRows(_client("dynamodb"), settings.coordination_table),
            {Priority.HIGH: high, Priority.NORMAL: normal, Priority.LOW: low},
            clock=ports["clock"],
        ),
        machine=_machine(settings, ports["clock"]),
        dependents=DynamoDbDependents(_client("dynamodb"), settings.coordination_table),
    )


@cache
def taken_hints() -> TakenMessages:
    """Made when a hint has to be handed back for the first time: most processes never have to."""
    import random

    from functions.adapters.sqs_hand_back import SqsHandBack
    from functions.settings import ExecutorSettings

    queues = ExecutorSettings.from_environment().run_queues
    return SqsHandBack(_client("sqs"), {queue.arn: queue.url for queue in queues}, uniform=random.uniform)


@cache
@_uncollected()
def steps() -> Attempts:
    from functions.domain.definition import LONGEST_CALL
    from functions.settings import StepsSettings

    return Attempts(**_attempts(StepsSettings.from_environment(), longest_call=LONGEST_CALL))


@cache
def progress() -> ProgressBoard:
    """For handlers that report how far they are."""
    from functions.adapters.dynamodb_progress import DynamoDbProgress
    from functions.settings import JobsSettings

    return DynamoDbProgress(_client("dynamodb"), JobsSettings.from_environment().coordination_table)


@cache
@_uncollected()
def sweeper() -> Engine:
    from functions.settings import SweepSettings

    settings = SweepSettings.from_environment()
    return Engine(**_ports(settings, retention_days=settings.retention_days, run_capacity=settings.run_capacity))


@cache
@_uncollected()
def dead_letters() -> tuple[JobStore, DeadLetters, DeadLetters]:
    """Jobs, the queue of dead letters, and the queue of records that cannot be read."""
    from functions.adapters.sqs_dead_letters import SqsDeadLetters
    from functions.settings import DeadLettersSettings

    settings: DeadLettersSettings = DeadLettersSettings.from_environment()
    return (
        DynamoDbJobs(_client("dynamodb"), settings.jobs_table),
        SqsDeadLetters(_client("sqs"), settings.dead_letter_queue_url),
        SqsDeadLetters(_client("sqs"), settings.unreadable_queue_url),
    )


@cache
@_uncollected()
def lifecycle() -> tuple[Announcer, DeadLetters]:
    """What tells of changes of jobs, and the queue of records that cannot be read."""
    from functions.adapters.eventbridge import EventBridgeBus
    from functions.adapters.sqs_dead_letters import SqsDeadLetters
    from functions.events.envelope import encode
    from functions.settings import LifecycleSettings
    from functions.usecases.lifecycle import Announcer

    settings: LifecycleSettings = LifecycleSettings.from_environment()
    announcer = Announcer(
        jobs=DynamoDbJobs(_client("dynamodb"), settings.jobs_table),
        history=DynamoDbHistory(_client("dynamodb"), settings.executions_table, retention_days=0),
        bus=EventBridgeBus(_client("events"), settings.event_bus),
        clock=SystemClock(),
        encode=encode,
    )
    return announcer, SqsDeadLetters(_client("sqs"), settings.unreadable_queue_url)
