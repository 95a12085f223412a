"""What each function is told by its environment: the only reader of `os.environ`.

One frozen object a function. infra/ takes the variables' names from here, and a test compares the two.
"""

from __future__ import annotations

import json
import os
import typing
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

REPAIRED = "Repaired"
"""Metric, watched by an alarm: jobs the sweep woke, recovered or quarantined. Above zero for long, hints get lost."""
FAILED_VISITS = "FailedVisits"
"""Metric, watched by an alarm: jobs the sweep could not look after."""
UNREADABLE_ROWS = "UnreadableRows"
"""Metric, watched by an alarm: jobs whose row cannot be read, each counted once, when the sweep sets it aside."""
TELEMETRY_VARIABLES = ("POWERTOOLS_SERVICE_NAME", "POWERTOOLS_LOG_LEVEL", "POWERTOOLS_METRICS_NAMESPACE")
"""Every function has these beside its settings; Powertools' logger reads them itself."""


class SettingError(Exception):
    """A variable of the environment is missing or cannot be read; the message names it."""


class Queue(NamedTuple):
    url: str
    arn: str


class RunQueues(NamedTuple):
    """A queue for each priority of a job."""

    high: Queue
    normal: Queue
    low: Queue


class RunCapacity(NamedTuple):
    """Messages of each run queue that the executor may have in hand at once."""

    high: int
    normal: int
    low: int


class WebhookKeyPlace(NamedTuple):
    """Where owners' webhook keys are kept in Secrets Manager."""

    prefix: str
    """What their names begin with."""
    kms_key: str
    """ARN of the key that they are encrypted with."""


class OwnerShare(NamedTuple):
    """What one owner may have of the executor, in one priority (docs/http-api.md)."""

    processes: int
    starts_per_minute: int


class OwnerShares(NamedTuple):
    high: OwnerShare
    normal: OwnerShare
    low: OwnerShare


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerLimits:
    """What one caller may do (docs/http-api.md)."""

    writes_per_minute: int
    reads_per_minute: int
    work_per_minute: int
    """What workers and callbacks send."""
    creations_per_day: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDefaults:
    """What holds for retries where neither a job nor its type says anything. Delays are seconds."""

    max_retries: int = 3
    backoff_strategy: str = "exponential"
    initial_delay_seconds: float = 10.0
    max_delay_seconds: float = 300.0
    multiplier: float = 2.0
    jitter: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitRules:
    """When circuits of targets open and close where a job's type says nothing, and which ones all owners share."""

    failure_threshold: int = 5
    """Failures one after another that open a circuit."""
    open_seconds: int = 30
    success_threshold: int = 1
    """Probes that must succeed one after another to close it."""
    shared: tuple[str, ...] = ()
    """Targets, as `http:api.example.com:443`, whose circuit the jobs of all owners share: one team's failing job opens
    it for every team. It follows this stage's thresholds, and only admins reset it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRules:
    """What jobs of this stage may name as targets."""

    unguarded_origins: tuple[str, ...] = ()
    """Exact origins, `http://127.0.0.1:*` with any port, that skip the address guard; empty outside local stages."""
    ports: tuple[int, ...] = (443, 8443)
    """Ports that `http` targets may have, but for unguarded origins."""
    shared_targets: tuple[str, ...] = ()
    """What jobs of every owner may name, beside their owner's own: `lambda:<name>`, `sqs:<name>`, `secret:<name>`."""
    handler_owners: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Who may run a handler, `("billing.*", ("team-billing",))`: its name, or with `*` the beginning of names, and
    owners. The longest entry decides; `*` among its owners is every owner, as where no entry names the handler."""


class _Settings:
    """A function's variables. No dataclass: each of those takes a third of a millisecond of every cold start."""

    @classmethod
    def from_environment(cls, environment: typing.Mapping[str, str] | None = None) -> Self:
        """Read the function's variables; raises SettingError naming the first that is missing or wrong."""
        source = os.environ if environment is None else environment
        settings = cls()
        for name, kind in typing.get_type_hints(cls).items():
            object.__setattr__(settings, name, _read(name, kind, source))
        return settings

    @classmethod
    def variables(cls) -> tuple[str, ...]:
        """Names of the environment variables, in upper case."""
        return tuple(name.upper() for name in typing.get_type_hints(cls))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: settings are read once")


class ApiSettings(_Settings):
    stage: str
    version: str
    api_address: str
    """Where the gateway serves the API, with `{domain}`, `{host}`, `{api}`, `{stage}` of the request."""
    jobs_table: str
    executions_table: str
    idempotency_table: str
    coordination_table: str
    retry_defaults: RetryDefaults
    circuit_rules: CircuitRules
    retention_days: int
    run_queues: RunQueues
    schedule_group: str
    scheduler_role_arn: str
    state_machine: str
    target_rules: TargetRules
    caller_limits: CallerLimits
    webhook_keys: WebhookKeyPlace
    recurring_jobs: int
    """Of one owner that are not over."""
    shortest_interval_seconds: int
    """Of a job with an interval schedule."""
    machine_teams: tuple[tuple[str, str], ...]
    """Client ids of machines, each with the team it acts for."""


class PollSettings(_Settings):
    stage: str
    jobs_table: str
    executions_table: str
    coordination_table: str
    retention_days: int
    run_queues: RunQueues
    schedule_group: str
    scheduler_role_arn: str
    retry_defaults: RetryDefaults
    circuit_rules: CircuitRules
    caller_limits: CallerLimits
    waiting_polls: int
    """Polls of one owner that may wait at the same time; beyond it `waitSeconds` counts as 0."""
    machine_teams: tuple[tuple[str, str], ...]
    """Client ids of machines, each with the team it acts for."""


class StepsSettings(_Settings):
    stage: str
    jobs_table: str
    executions_table: str
    coordination_table: str
    retry_defaults: RetryDefaults
    circuit_rules: CircuitRules
    retention_days: int
    run_queues: RunQueues
    schedule_group: str
    scheduler_role_arn: str
    jobs_function: str
    webhook_keys: WebhookKeyPlace
    target_rules: TargetRules


class ExecutorSettings(StepsSettings):
    state_machine: str
    """ARN of the state machine that runs long attempts."""
    owner_shares: OwnerShares


class SweepSettings(_Settings):
    stage: str
    jobs_table: str
    executions_table: str
    coordination_table: str
    retry_defaults: RetryDefaults
    circuit_rules: CircuitRules
    retention_days: int
    run_queues: RunQueues
    run_capacity: RunCapacity
    schedule_group: str
    scheduler_role_arn: str


class DeadLettersSettings(_Settings):
    stage: str
    jobs_table: str
    dead_letter_queue_url: str
    unreadable_queue_url: str


class LifecycleSettings(_Settings):
    stage: str
    jobs_table: str
    executions_table: str
    event_bus: str
    unreadable_queue_url: str


class JobsSettings(_Settings):
    stage: str
    coordination_table: str


def _read(name: str, kind: Any, source: typing.Mapping[str, str]) -> Any:
    variable = name.upper()
    text = source.get(variable)
    if text is None:
        raise SettingError(f"environment variable {variable} is missing")
    try:
        if kind is str:
            return text
        return _build(kind, json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        raise SettingError(f"environment variable {variable} cannot be read as {kind.__name__}: {error}") from error


def _build(kind: Any, value: Any) -> Any:
    types = typing.get_type_hints(kind) if isinstance(kind, type) else {}
    if types:
        return kind(**{name: _build(types[name], value[name]) for name in types})
    if typing.get_origin(kind) is tuple:
        return tuple(value)
    if kind is float and type(value) is int:  # The CDK writes 10.0 as 10.
        return float(value)
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
