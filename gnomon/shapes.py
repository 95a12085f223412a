"""What the API answers, as typed dictionaries: the JSON of the contract, untouched. Instants are RFC 3339, UTC.

tests/architecture/test_shapes.py compares them with the OpenAPI document, field by field.
"""

from typing import Any, Literal, NotRequired, TypedDict

JobStatus = Literal[
    "SCHEDULED", "BLOCKED", "RUNNING", "RETRYING", "PAUSED", "COMPLETED", "FAILED", "CANCELLED", "SKIPPED"
]
RunOutcome = Literal["COMPLETED", "PERMANENTLY_FAILED", "CANCELLED", "SKIPPED"]
WaitKind = Literal[
    "worker",
    "concurrency",
    "job_type",
    "circuit",
    "state_machine",
    "start_rate",
    "owner_limit",
    "approval",
    "previous_run",
    "dependencies",
]
ExecutionStatus = Literal["QUEUED", "RUNNING", "COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED"]


class CronSchedule(TypedDict):
    type: Literal["cron"]
    expression: str
    timezone: NotRequired[str]


class IntervalSchedule(TypedDict):
    type: Literal["interval"]
    everySeconds: int
    timezone: NotRequired[str]


class OnceSchedule(TypedDict):
    type: Literal["once"]
    at: str
    timezone: NotRequired[str]


Schedule = CronSchedule | IntervalSchedule | OnceSchedule


class SecretHeader(TypedDict):
    """The value of a header that the sender reads from Secrets Manager."""

    secretArn: str


class HandlerTarget(TypedDict):
    type: Literal["handler"]
    name: str


class HttpTarget(TypedDict):
    type: Literal["http"]
    url: str
    method: NotRequired[Literal["POST", "GET", "PUT", "PATCH", "DELETE"]]
    headers: NotRequired[dict[str, str | SecretHeader]]


class LambdaTarget(TypedDict):
    type: Literal["lambda"]
    functionName: str


class SqsTarget(TypedDict):
    type: Literal["sqs"]
    queueUrl: str


class WorkerTarget(TypedDict):
    type: Literal["worker"]
    queue: str


Target = HandlerTarget | HttpTarget | LambdaTarget | SqsTarget | WorkerTarget


class RetryConfig(TypedDict, total=False):
    """What is absent follows the job's type, then the stage."""

    maxRetries: int
    backoffStrategy: Literal["exponential", "linear", "fixed"]
    initialDelaySeconds: float
    maxDelaySeconds: float
    multiplier: float
    jitter: float
    retryableErrors: list[str]
    nonRetryableErrors: list[str]
    retryWindowSeconds: int
    poisonDetection: bool


class JobCircuitBreaker(TypedDict, total=False):
    """Thresholds are set by the job's type or the stage."""

    enabled: bool


class CircuitBreaker(TypedDict, total=False):
    failureThreshold: int
    openSeconds: int
    successThreshold: int


class Approval(TypedDict):
    """The gate that each run passes before its first attempt."""

    role: str
    approvers: NotRequired[list[str]]
    timeoutSeconds: int
    onTimeout: NotRequired[Literal["reject", "approve"]]
    fourEyes: NotRequired[bool]
    protected: NotRequired[bool]


class DependencyBody(TypedDict):
    """A job that another one depends on."""

    jobId: str
    on: NotRequired[Literal["success", "failure", "completion"]]
    when: NotRequired[str]


class LastRun(TypedDict):
    """The run that ended last."""

    runId: str
    scheduledFor: str
    outcome: RunOutcome
    attempt: int
    errorCode: str | None
    reason: str | None
    endedAt: str


class WaitingFor(TypedDict):
    """What a run that is due waits for: `name` says which one."""

    kind: WaitKind
    name: str | None
    since: str | None


class ActiveRun(TypedDict):
    """A run that goes on, or waits."""

    runId: str
    scheduledFor: str
    status: Literal["RUNNING", "WAITING", "QUEUED"]
    attempt: int
    nextAttemptAt: str | None
    waitingFor: WaitingFor | None


class Gate(TypedDict):
    """A run that waits for approval."""

    runId: str
    scheduledFor: str
    waitingSince: str
    decideBy: str
    role: str | None


class ApprovalDecision(TypedDict):
    """What was decided at the gate of a run."""

    decision: Literal["approved", "rejected"]
    by: str
    at: str
    comment: str | None


class Upstream(TypedDict):
    """How a job with `dependsOn` stands to those it depends on."""

    waitingFor: str | None
    since: str | None
    nextLookAt: str | None


class _Registered(TypedDict, total=False):
    """What was registered: fields that were left out stay out."""

    description: str
    type: str
    schedule: Schedule
    dependsOn: list[DependencyBody]
    join: Literal["all", "any"]
    onUpstreamFailure: Literal["skip", "fail", "run"]
    upstreamTimeoutSeconds: int
    retryConfig: RetryConfig
    overlapPolicy: Literal["skip", "allow", "queue"]
    misfirePolicy: Literal["run_once", "skip", "run_all"]
    misfireGraceSeconds: int
    priority: Literal["normal", "high", "low"]
    timeoutSeconds: int
    completion: Literal["response", "callback"]
    orchestrated: bool
    circuitBreaker: JobCircuitBreaker
    concurrencyKey: str
    maxConcurrency: int
    approval: Approval
    startAt: str
    endAt: str
    maxRuns: int
    alertAfterSeconds: int
    spreadSeconds: int
    tags: list[str]


class _State(TypedDict):
    """How a job stands. `etag` goes back as the condition of a change."""

    id: str
    status: JobStatus
    enabled: bool
    owner: str
    createdBy: str
    updatedBy: str
    createdAt: str
    nextRunAt: str | None
    waitingFor: WaitingFor | None
    silentSince: str | None
    revision: int
    etag: str
    activeRuns: list[ActiveRun]
    gates: list[Gate]
    lastRun: LastRun | None
    upstream: NotRequired[Upstream]
    deletedAt: NotRequired[str]


class JobSummary(_Registered, _State):
    """A job without its payload, as lists have it."""

    name: NotRequired[str]
    """Absent, as all that was registered, where the definition cannot be read."""
    target: NotRequired[Target]


class Job(_Registered, _State):
    """A job's definition and its state."""

    name: str
    target: Target
    payload: Any


class ExecutionError(TypedDict):
    """Why an attempt failed; of one that is COMPLETED: why it has no result."""

    code: str
    message: str


class Progress(TypedDict):
    percent: float
    message: str


class Execution(TypedDict):
    """One attempt of a run."""

    id: str
    jobId: str
    runId: str
    scheduledFor: str
    attempt: int
    status: ExecutionStatus
    final: bool
    reason: str | None
    error: ExecutionError | None
    startedAt: str | None
    completedAt: str | None
    nextRetryAt: str | None
    fence: int
    deferrals: int
    deferredFor: str | None
    workerId: str | None
    waitingFor: WaitingFor | None
    approval: ApprovalDecision | None
    progress: Progress | None
    result: Any


SkippedSlots = TypedDict(
    "SkippedSlots",
    {
        "id": str,
        "jobId": str,
        "runId": str,
        "scheduledFor": str,
        "attempt": Literal[0],
        "status": Literal["SKIPPED"],
        "final": Literal[True],
        "reason": Literal["OVERLAP", "MISFIRE", "PAUSED", "SCHEDULE_CHANGED", "JOB_CANCELLED"],
        "from": str,
        "to": str,
        "count": int,
        "completedAt": str,
    },
)
"""Slots in a row that were passed over: one line for all of them."""

HistoryEntry = Execution | SkippedSlots
"""`status` tells which: SKIPPED, or that of an attempt."""


class ClaimedExecution(Execution):
    """An attempt that a worker holds, with its payload."""

    leaseExpiresAt: str
    deadlineAt: str
    queue: str
    payload: Any


class ProgressKept(TypedDict):
    """`recorded` is false where the last report is less than a second old."""

    id: str
    recorded: bool
    progress: Progress


class Worker(TypedDict):
    id: str
    name: str
    status: Literal["ACTIVE", "DRAINING", "OFFLINE"]
    queues: list[str]
    maxItems: int
    draining: bool
    owner: str
    createdBy: str
    registeredAt: str
    lastSeenAt: str


class KeptExecution(TypedDict):
    id: str
    leaseExpiresAt: str


class Heartbeat(Worker):
    """The worker, and the leases of what it named."""

    executions: list[KeptExecution]


class Circuit(TypedDict):
    """What is known of a target that an owner's jobs call: CLOSED, OPEN (left alone), HALF_OPEN (one attempt tries it).

    Without an owner it is one that the jobs of all owners share.
    """

    key: str
    owner: str | None
    jobType: str | None
    target: str
    state: Literal["CLOSED", "OPEN", "HALF_OPEN"]
    failures: int
    since: str | None
    openUntil: str | None
    probe: str | None


class PreviousWebhookKey(TypedDict):
    validUntil: str


class Revocation(TypedDict):
    """A caller whose requests are refused, and since when."""

    subject: str
    revokedAt: str


class WebhookKey(TypedDict):
    """The key by which the http calls of an owner's jobs are signed. Keep `secret` to yourself and your receivers."""

    owner: str
    secret: str
    createdAt: str
    signsFrom: str
    previous: list[PreviousWebhookKey]


class TypeConfig(RetryConfig):
    """What is configured for a type of jobs; what is absent follows the stage."""

    jobType: str
    circuitBreaker: NotRequired[CircuitBreaker]
    maxConcurrency: NotRequired[int]
    updatedAt: str
    updatedBy: str


class Preview(TypedDict):
    """The next slots of a cron expression, in UTC and with the zone's own offset."""

    slots: list[str]
    local: list[str]
