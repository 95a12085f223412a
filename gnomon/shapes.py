"""What the API answers, as typed dictionaries: the JSON of the contract, untouched. Instants are RFC 3339, UTC."""

from __future__ import annotations

from typing import Any, TypedDict


class LastRun(TypedDict, total=False):
    """The run that ended last."""

    runId: str
    scheduledFor: str
    outcome: str
    attempt: int
    errorCode: str | None
    reason: str | None
    endedAt: str


class ActiveRun(TypedDict, total=False):
    """A run that goes on, or waits: `status` is RUNNING, WAITING or QUEUED."""

    runId: str
    scheduledFor: str
    status: str
    attempt: int
    nextAttemptAt: str | None


class Gate(TypedDict):
    """A run that waits for approval."""

    runId: str
    scheduledFor: str
    waitingSince: str
    decideBy: str
    role: str | None


class ApprovalDecision(TypedDict):
    """What was decided at the gate of a run: `decision` is approved or rejected."""

    decision: str
    by: str
    at: str
    comment: str | None


class Upstream(TypedDict):
    """How a job with `dependsOn` stands to those it depends on."""

    waitingFor: str | None
    since: str | None
    nextLookAt: str | None


class Job(TypedDict, total=False):
    """A job's definition and its state."""

    id: str
    name: str
    description: str
    type: str
    schedule: dict[str, Any]
    dependsOn: list[dict[str, str]]
    join: str
    onUpstreamFailure: str
    upstreamTimeoutSeconds: int
    target: dict[str, Any]
    payload: Any
    retryConfig: dict[str, Any]
    overlapPolicy: str
    misfirePolicy: str
    misfireGraceSeconds: int
    priority: str
    timeoutSeconds: int
    maxRuns: int
    alertAfterSeconds: int
    tags: list[str]
    enabled: bool
    status: str
    owner: str
    createdBy: str
    createdAt: str
    nextRunAt: str | None
    silentSince: str | None
    revision: int
    approval: dict[str, Any]
    activeRuns: list[ActiveRun]
    gates: list[Gate]
    lastRun: LastRun | None
    upstream: Upstream
    deletedAt: str


class ErrorInfo(TypedDict, total=False):
    code: str
    message: str


class Progress(TypedDict):
    percent: float
    message: str


Execution = TypedDict(
    "Execution",
    {
        "id": str,
        "jobId": str,
        "runId": str,
        "scheduledFor": str,
        "attempt": int,
        "status": str,
        "final": bool,
        "reason": str | None,
        "error": ErrorInfo | None,
        "startedAt": str | None,
        "completedAt": str | None,
        "nextRetryAt": str | None,
        "fence": int,
        "deferrals": int,
        "deferredFor": str | None,
        "workerId": str | None,
        "approval": ApprovalDecision | None,
        "progress": Progress | None,
        "result": Any,
        # A line of skipped slots has these instead of an attempt.
        "from": str,
        "to": str,
        "count": int,
    },
    total=False,
)
"""One attempt of a run, or one line of skipped slots (`status` SKIPPED with `from`, `to`, `count`)."""


class Circuit(TypedDict):
    """A target that jobs with a circuit breaker call: CLOSED, OPEN (left alone), HALF_OPEN (one attempt tries it)."""

    key: str
    state: str
    failures: int
    since: str | None
    openUntil: str | None
    probe: str | None


class ClaimedExecution(TypedDict, total=False):
    """An attempt that a worker holds, with its payload."""

    id: str
    jobId: str
    runId: str
    scheduledFor: str
    attempt: int
    fence: int
    workerId: str
    queue: str
    payload: Any
    leaseExpiresAt: str
    deadlineAt: str


class Worker(TypedDict, total=False):
    """`status` is ACTIVE, DRAINING or OFFLINE."""

    id: str
    name: str
    status: str
    queues: list[str]
    maxItems: int
    draining: bool
    owner: str
    createdBy: str
    registeredAt: str
    lastSeenAt: str


class RetryConfig(TypedDict, total=False):
    """What is configured for a type of jobs; what is absent follows the stage."""

    jobType: str
    maxRetries: int
    backoffStrategy: str
    initialDelaySeconds: float
    maxDelaySeconds: float
    multiplier: float
    jitter: float
    retryableErrors: list[str]
    nonRetryableErrors: list[str]
    retryWindowSeconds: int
    poisonDetection: bool
    circuitBreaker: dict[str, int]
    maxConcurrency: int
    updatedAt: str
    updatedBy: str


class Preview(TypedDict):
    """The next slots of a cron expression, in UTC and with the zone's own offset."""

    slots: list[str]
    local: list[str]


class Blocker(TypedDict):
    """A job that another one waits for; `name` is None for one outside the workflow."""

    name: str | None
    jobId: str
    status: str


class WorkflowMember(TypedDict, total=False):
    """A job of a workflow. `waitsFor` is jobs, approval, time or resume; None for one that runs or has ended."""

    name: str
    jobId: str
    status: str
    waitsFor: str | None
    blockedBy: list[Blocker]
    nextRunAt: str | None
    readyAt: str | None
    startedAt: str | None
    endedAt: str | None
    lastRun: LastRun | None


WorkflowEdge = TypedDict("WorkflowEdge", {"from": str | None, "fromId": str, "to": str, "on": str, "when": str | None})


class Span(TypedDict):
    """What a job has added to the time of its workflow."""

    name: str
    jobId: str
    seconds: int


class Workflow(TypedDict, total=False):
    """Jobs that were created together. Lists have `jobCount` instead of what follows it here."""

    id: str
    name: str
    owner: str
    createdBy: str
    createdAt: str
    jobCount: int
    status: str
    jobs: list[WorkflowMember]
    edges: list[WorkflowEdge]
    criticalPath: list[Span]
