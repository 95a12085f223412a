"""What differs between the local, the development and the production stage. Nothing else asks which one it is.

Plain values only, so that `infra.bundle` reads them without starting the CDK; names in capitals are the CDK's own
enumeration members.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from functions.settings import CallerLimits, CircuitRules, OwnerShare, OwnerShares, RetryDefaults, TargetRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Where the code of the functions runs, and so which wheels are packaged with it."""

    directory: str
    """Name of its folder in `.build/`."""
    wheels: str | None
    """uv's name of the target platform; None takes the wheels of the machine that builds."""
    python: str | None
    """Version of Python the wheels are for; None takes the version of the interpreter that builds."""


LAMBDA_ARM64 = Platform(directory="lambda-arm64", wheels="aarch64-manylinux2014", python="3.14")
THIS_MACHINE = Platform(directory="this-machine", wheels=None, python=None)
"""The emulator runs functions with the interpreter it runs on itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConcurrency:
    """How many batches of each priority run at the same time at most (2 to 1 000)."""

    high: int
    normal: int
    low: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerLimits:
    """What one owner, a team or a caller without one, may use of what all share. Beyond it, its own jobs wait."""

    shares: OwnerShares
    """Of the executor, by priority. Fewer processes than `run_concurrency` has batches, so that some are left."""
    waiting_polls: int
    """Workers' polls that wait at the same time; fewer than `poll_concurrency`."""
    recurring_jobs: int
    """Jobs with a cron or interval schedule that are not over."""
    shortest_interval_seconds: int = 1
    """Of a job with an interval schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineClient:
    """A program that calls the API with credentials of its own: one Cognito client, priced by the month."""

    name: str
    """Lower-case letters, digits and `-`; unique in the stage. Part of the client's name and of an output's."""
    role: Literal["reader", "scheduler", "admin", "reporter"]
    """`reporter` may do nothing but report by callback token on the attempts it was handed."""
    team: str | None = None
    """Owner of what it creates, with `team-` before it, as for people; None: the client itself is the owner."""


_STAGE_NAME = re.compile(r"[a-z][a-z0-9]{0,15}")
_SHARED_TARGET = re.compile(r"(?:lambda|sqs|secret):(?P<name>[A-Za-z0-9/_+=.@-]+)")
_HANDLER_ENTRY = re.compile(r"[A-Za-z0-9_.-]{1,64}|[A-Za-z0-9_.-]{0,64}\*")
_KMS_KEY = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Raises ValueError for values that would widen what jobs may reach, or that AWS refuses."""

    name: str
    """Lower-case letters and digits, 16 at most. Names of what jobs may use begin with `gnomon-<name>-`: a hyphen in it
    would make names of one stage begin like those of another."""
    removal_policy: Literal["DESTROY", "RETAIN"]
    """What becomes of tables, keys, users and logs when the stack is deleted."""
    deletion_protection: bool
    log_retention: Literal["ONE_WEEK", "ONE_MONTH", "ONE_YEAR"]
    log_level: Literal["DEBUG", "INFO", "WARNING"]
    history_retention_days: int = 30
    """How long executions of a job are kept."""
    point_in_time_recovery: bool = True
    enforce_ssl: bool
    """Queues and topics refuse requests without TLS."""
    cli_credentials: bool
    """Deploy with the credentials of the caller instead of the roles that `cdk bootstrap` made."""
    multi_factor: Literal["OPTIONAL", "REQUIRED"]
    person_token_minutes: int = 15
    """How long access tokens of people are valid; they are renewed by a refresh token of a day."""
    machine_clients: tuple[MachineClient, ...] = ()
    """Each has its own secret, limits and audit name, and can be revoked alone: name one for each program."""
    alarm_topic: bool
    """Alarms notify an SNS topic of the stack."""
    gateway_rate: int
    """Requests a second that the gateway lets through; more get 429."""
    gateway_burst: int
    api_address: str = "https://{domain}"
    """Where the gateway serves the API: `{domain}` the name it is called by, a custom domain too, `{host}` the header,
    `{api}` and `{stage}` its ids. The emulator serves all APIs below paths of its one host."""
    caller_limits: CallerLimits
    target_rules: TargetRules = field(default_factory=TargetRules)
    customer_keys: tuple[str, ...] = ()
    """ARNs of your own KMS keys that encrypt secrets and queues which jobs name. Their key policies must let the
    executor's and the steps' role use them."""
    retry_defaults: RetryDefaults = field(default_factory=RetryDefaults)
    """For jobs that say nothing of retries, and whose type says nothing either."""
    circuit_rules: CircuitRules = field(default_factory=CircuitRules)
    """When circuits of targets open and close where a job's type says nothing, and which ones all owners share."""
    run_concurrency: RunConcurrency
    owner_limits: OwnerLimits
    sweep_concurrency: int = 1
    poll_concurrency: int
    """How many polls are answered at the same time, those that wait included; reserved, so they take no others'."""
    api_concurrency: int | None = None
    """How many other requests are answered at the same time: reserved, so that no run takes it; None reserves none."""
    jobs_concurrency: int | None = None
    """How many calls of registered handlers run at the same time at most; None sets no bound."""
    steps_concurrency: int | None = None
    """How many calls of long attempts run at the same time at most; None sets no bound."""
    reserves_concurrency: bool = True
    """Whether these are reserved. A new AWS account has a quota of 10 executions at once, of which it lets none be
    reserved: its stages say False until the quota is raised."""
    own_schedule_group: bool = True
    """Hints have an EventBridge Scheduler group of their own. Not on the emulator: whatever group a schedule is in, its
    permissions are looked up as if it was in the default one."""
    action_aliases: tuple[tuple[str, str], ...] = ()
    """Actions that this stage's AWS checks by another name besides: the emulator's IAM wants `sqs:SendMessageBatch` for
    a batch, where AWS has no such action and checks `sqs:SendMessage`."""
    platform: Platform
    runtime: Literal["PYTHON_3_14"] = "PYTHON_3_14"
    architecture: Literal["ARM_64", "X86_64"] = "ARM_64"
    tracing: Literal["ACTIVE", "PASS_THROUGH"] = "ACTIVE"
    tags: tuple[tuple[str, str], ...] = field(default=(("application", "gnomon"),))

    def __post_init__(self) -> None:
        rules = self.target_rules
        _check("name", self.name, bool(_STAGE_NAME.fullmatch(self.name)), "1 to 16 lower-case letters and digits")
        for entry in rules.shared_targets:
            match = _SHARED_TARGET.fullmatch(entry)
            is_of_stage = match is not None and match["name"].startswith(self.name_prefix)
            form = f"lambda:, sqs: or secret: before a name that begins with {self.name_prefix}"
            _check("target_rules.shared_targets", entry, is_of_stage, form)
        for handler, owners in rules.handler_owners:
            form = "a handler's name, or the beginning of names and *"
            _check("target_rules.handler_owners", handler, bool(_HANDLER_ENTRY.fullmatch(handler)), form)
            _check("target_rules.handler_owners", owners, not isinstance(owners, str), "a tuple of owners")
        for port in rules.ports:
            _check("target_rules.ports", port, 1 <= port <= 65_535, "a number from 1 to 65535")
        for key in self.customer_keys:
            _check("customer_keys", key, bool(_KMS_KEY.fullmatch(key)), "the ARN of a key, not of an alias")

    @property
    def name_prefix(self) -> str:
        """How names of functions, queues and secrets begin that jobs of this stage may use."""
        return f"gnomon-{self.name}-"

    @property
    def metrics_namespace(self) -> str:
        """Where CloudWatch keeps this stage's own metrics."""
        return f"Gnomon/{self.name}"


def _check(field: str, value: object, is_right: bool, form: str) -> None:
    if not is_right:
        raise ValueError(f"{field} of the stage must be {form}, got {value!r}")


_PERSON = CallerLimits(writes_per_minute=100, reads_per_minute=500, work_per_minute=6_000, creations_per_day=1_000)

LOCAL = Stage(
    name="local",
    removal_policy="DESTROY",
    deletion_protection=False,
    log_retention="ONE_WEEK",
    log_level="INFO",
    enforce_ssl=False,
    cli_credentials=True,
    action_aliases=(("sqs:SendMessage", "sqs:SendMessageBatch"),),
    multi_factor="OPTIONAL",
    person_token_minutes=60,
    machine_clients=(
        MachineClient(name="scheduler", role="scheduler"),
        MachineClient(name="reader", role="reader"),
        MachineClient(name="admin", role="admin"),
        MachineClient(name="reporter", role="reporter"),
        MachineClient(name="billing", role="scheduler", team="billing"),
        MachineClient(name="reports", role="scheduler", team="reports"),
    ),
    alarm_topic=False,
    gateway_rate=10_000,
    gateway_burst=5_000,
    api_address="http://{host}/_aws/execute-api/{api}/{stage}",
    caller_limits=CallerLimits(
        writes_per_minute=100_000,
        reads_per_minute=100_000,
        work_per_minute=100_000,
        creations_per_day=10_000_000,
    ),
    target_rules=TargetRules(unguarded_origins=("http://127.0.0.1:*",)),
    run_concurrency=RunConcurrency(high=10, normal=10, low=5),
    owner_limits=OwnerLimits(
        shares=OwnerShares(
            high=OwnerShare(processes=5, starts_per_minute=100_000),
            normal=OwnerShare(processes=5, starts_per_minute=100_000),
            low=OwnerShare(processes=2, starts_per_minute=100_000),
        ),
        waiting_polls=10,
        recurring_jobs=10_000,
    ),
    poll_concurrency=20,
    own_schedule_group=False,
    platform=THIS_MACHINE,
)

DEV = Stage(
    name="dev",
    removal_policy="DESTROY",
    deletion_protection=False,
    log_retention="ONE_MONTH",
    log_level="DEBUG",
    enforce_ssl=True,
    cli_credentials=False,
    multi_factor="OPTIONAL",
    alarm_topic=False,
    gateway_rate=100,
    gateway_burst=50,
    caller_limits=_PERSON,
    run_concurrency=RunConcurrency(high=20, normal=20, low=5),
    owner_limits=OwnerLimits(
        shares=OwnerShares(
            high=OwnerShare(processes=8, starts_per_minute=300),
            normal=OwnerShare(processes=8, starts_per_minute=1_000),
            low=OwnerShare(processes=2, starts_per_minute=1_000),
        ),
        waiting_polls=4,
        recurring_jobs=100,
        shortest_interval_seconds=1,
    ),
    poll_concurrency=10,
    reserves_concurrency=False,
    platform=LAMBDA_ARM64,
)

PROD = Stage(
    name="prod",
    removal_policy="RETAIN",
    deletion_protection=True,
    log_retention="ONE_YEAR",
    log_level="INFO",
    enforce_ssl=True,
    cli_credentials=False,
    multi_factor="REQUIRED",
    alarm_topic=True,
    gateway_rate=1_000,
    gateway_burst=500,
    caller_limits=_PERSON,
    run_concurrency=RunConcurrency(high=200, normal=200, low=50),
    owner_limits=OwnerLimits(
        shares=OwnerShares(
            high=OwnerShare(processes=50, starts_per_minute=600),
            normal=OwnerShare(processes=50, starts_per_minute=3_000),
            low=OwnerShare(processes=12, starts_per_minute=3_000),
        ),
        waiting_polls=40,
        recurring_jobs=1_000,
        shortest_interval_seconds=10,
    ),
    poll_concurrency=100,
    api_concurrency=100,
    jobs_concurrency=250,
    steps_concurrency=50,
    platform=LAMBDA_ARM64,
)

STAGES = {stage.name: stage for stage in (LOCAL, DEV, PROD)}


def with_local_origins(stage: Stage, origins: str | None) -> Stage:
    """The stage with these origins, comma-separated, free of the address guard instead of its own; `!` takes one back.

    Raises ValueError for a stage that guards every address.
    """
    if origins is None:
        return stage
    if not stage.target_rules.unguarded_origins:
        raise ValueError(f"the stage {stage.name} guards every address: it takes no localOrigins")
    listed = tuple(entry.strip() for entry in origins.split(",") if entry.strip())
    return replace(stage, target_rules=replace(stage.target_rules, unguarded_origins=listed))
