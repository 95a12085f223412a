"""The lifecycle events as they stand on the bus, version 1.0: the contract with whoever subscribes (docs/events.md).

Fields are added within a version and none is taken away or given another meaning: that would be version 2.0, beside
this one for a while. No payload, result, header or message of a target is ever in an event.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from functions.domain.event import EventType
from functions.domain.instants import rfc3339

VERSION = "1.0"


def _instant(value: object) -> object:
    return rfc3339(value) if isinstance(value, int | float) else value


Instant = Annotated[
    str,
    BeforeValidator(_instant),
    Field(json_schema_extra={"format": "date-time"}, description="RFC 3339, UTC, at most milliseconds."),
]


_CONFIG = ConfigDict(
    extra="forbid",
    frozen=True,
    alias_generator=to_camel,
    validate_by_name=True,
    serialize_by_alias=True,
    defer_build=True,
)


class Actor(BaseModel):
    """Who did it."""

    model_config = _CONFIG
    id: str = Field(description="A user's `sub`, a machine's client id; `timeout` where a gate's time was over.")
    kind: Literal["person", "machine", "system"]
    client_id: str | None = Field(None, description="The app client that the caller's token was given to.")


class Event(BaseModel):
    """What every event says."""

    model_config = _CONFIG
    type: ClassVar[EventType]

    version: Literal["1.0"] = "1.0"
    event_type: str
    id: str = Field(
        description="The same for each copy of an event, `<what it is about>:<seq>:<index>`: drop one you have seen."
    )
    time: Instant = Field(description="When it happened.")
    seq: int = Field(
        ge=1, description="Grows with each change of what it is about: its events in order are by seq, then index."
    )
    index: int = Field(ge=0)
    by: Actor | None = Field(None, description="Who did it; only where a caller did, or a gate's time decided.")


class JobEvent(Event):
    """What every event of a job says."""

    job_id: str
    owner: str
    job_name: str | None = Field(None, description="Left out where it could not be read.")


class JobScheduled(JobEvent):
    """The job was created, or a change gave it another next run."""

    type = EventType.SCHEDULED
    event_type: Literal["job.scheduled"]
    next_run_at: Instant | None = None
    paused: bool


class JobChanged(JobEvent):
    """A caller changed the job's definition."""

    type = EventType.CHANGED
    event_type: Literal["job.changed"]
    revision: int


class JobTransferred(JobEvent):
    """An administrator gave the job to another owner."""

    type = EventType.TRANSFERRED
    event_type: Literal["job.transferred"]
    previous_owner: str


class JobGateChanged(JobEvent):
    """A caller added, changed or removed the job's approval gate."""

    type = EventType.GATE_CHANGED
    event_type: Literal["job.gate_changed"]
    gate: Literal["added", "changed", "removed"]


class JobPaused(JobEvent):
    """A caller paused the job."""

    type = EventType.PAUSED
    event_type: Literal["job.paused"]


class JobResumed(JobEvent):
    """A caller resumed the job."""

    type = EventType.RESUMED
    event_type: Literal["job.resumed"]
    next_run_at: Instant | None = None


class JobCancelled(JobEvent):
    """A caller cancelled the job: nothing of it runs any more."""

    type = EventType.CANCELLED
    event_type: Literal["job.cancelled"]


class JobDeleted(JobEvent):
    """A caller deleted the job."""

    type = EventType.DELETED
    event_type: Literal["job.deleted"]


class JobSkipped(JobEvent):
    """Slots passed without a run, or a run ended so because of the jobs that this one depends on."""

    type = EventType.SKIPPED
    event_type: Literal["job.skipped"]
    first: Instant = Field(alias="from")
    last: Instant = Field(alias="to")
    count: int = Field(ge=1)
    reason: str
    run_id: str | None = Field(None, description="Of a run that was made for other jobs' runs; left out for slots.")
    execution_id: str | None = Field(None, description="Where history has it; left out for slots.")


class JobBlocked(JobEvent):
    """The job waits for jobs that it depends on: told once a wait."""

    type = EventType.BLOCKED
    event_type: Literal["job.blocked"]
    blocked_by: str | None = Field(None, description="The first of them that it waits for, by its id.")
    since: Instant | None = Field(None, description="When the wait began; left out until one of several has ended.")


class _Run(JobEvent):
    run_id: str
    scheduled_for: Instant


class JobRunRequested(_Run):
    """A caller asked for a run beside the schedule."""

    type = EventType.RUN_REQUESTED
    event_type: Literal["job.run_requested"]


class JobUnblocked(_Run):
    """A run was made for runs of the jobs that this one depends on."""

    type = EventType.UNBLOCKED
    event_type: Literal["job.unblocked"]
    parents: list[str] | None = Field(None, description="Ids of the jobs whose runs it was made for.")


class JobApprovalNeeded(_Run):
    """A run waits at its gate until somebody approves or rejects it."""

    type = EventType.APPROVAL_NEEDED
    event_type: Literal["job.approval_needed"]
    decide_by: Instant = Field(description="Then onTimeout decides.")
    role: str | None = Field(None, description="Who may decide.")


class _Decided(_Run):
    comment: str | None = None


class JobApproved(_Decided):
    """A run passed its gate."""

    type = EventType.APPROVED
    event_type: Literal["job.approved"]


class JobRejected(_Decided):
    """A run was stopped at its gate, and ends."""

    type = EventType.REJECTED
    event_type: Literal["job.rejected"]


class _Attempt(JobEvent):
    run_id: str
    scheduled_for: Instant
    manual: bool = Field(description="A caller asked for this run; it belongs to no slot.")
    execution_id: str
    attempt: int = Field(ge=1)
    worker_id: str | None = Field(None, description="Left out where no worker held it.")


class JobStarted(_Attempt):
    """An attempt started."""

    type = EventType.STARTED
    event_type: Literal["job.started"]


class _Ended(_Attempt):
    started_at: Instant | None = Field(None, description="Left out where the attempt never started.")


class JobCompleted(_Ended):
    """An attempt succeeded, and with it the run."""

    type = EventType.COMPLETED
    event_type: Literal["job.completed"]
    error_code: str | None = Field(None, description="Why its result was not kept; left out where it was.")


class _Failed(_Ended):
    status: Literal["FAILED", "TIMED_OUT"]
    error_code: str | None = None
    reason: str | None = None


class JobFailed(_Failed):
    """An attempt failed; job.retry_scheduled says when the next one starts."""

    type = EventType.FAILED
    event_type: Literal["job.failed"]


class JobPermanentlyFailed(_Failed):
    """An attempt failed, and no other follows: the run is a dead letter."""

    type = EventType.PERMANENTLY_FAILED
    event_type: Literal["job.permanently_failed"]


class JobRetryScheduled(_Attempt):
    """The run's next attempt, named here, waits for its instant."""

    type = EventType.RETRY_SCHEDULED
    event_type: Literal["job.retry_scheduled"]
    next_retry_at: Instant
    forced: bool = Field(description="A caller asked for it.")


class JobRunCancelled(_Ended):
    """A run was cancelled, by itself or with its job."""

    type = EventType.RUN_CANCELLED
    event_type: Literal["job.run_cancelled"]
    reason: str | None = None


class JobWorkerLost(_Ended):
    """Whoever ran the attempt died, or was cut off; the event after it says what becomes of the run."""

    type = EventType.WORKER_LOST
    event_type: Literal["job.worker_lost"]


class JobSilent(JobEvent):
    """The job has had no success for alertAfterSeconds, for whatever reason: told once a silence."""

    type = EventType.SILENT
    event_type: Literal["job.silent"]
    silent_since: Instant = Field(description="The last success; before the first, when the alarm was set.")
    alert_after_seconds: int
    last_success_at: Instant | None = None


class JobRecovered(JobEvent):
    """A success ended a silence that was told."""

    type = EventType.RECOVERED
    event_type: Literal["job.recovered"]
    silent_since: Instant
    alert_after_seconds: int


class CircuitOpened(Event):
    """A target failed too often: nobody calls it until `openUntil`, then one probe at a time."""

    type = EventType.CIRCUIT_OPENED
    event_type: Literal["circuit.opened"]
    circuit: str = Field(description="Key of the circuit: `http:<host>:<port>@<owner>`, …")
    owner: str | None = Field(description="Whose jobs it holds back; `null` where all owners share it.")
    target: str = Field(description="`http:<host>:<port>`, `lambda:<function>`, `sqs:<queue>`, `handler:<name>`")
    failures: int
    open_until: Instant


class CircuitClosed(Event):
    """The target answers again, or the circuit was reset."""

    type = EventType.CIRCUIT_CLOSED
    event_type: Literal["circuit.closed"]
    circuit: str
    owner: str | None
    target: str


class WorkerRegistered(Event):
    """A worker asks for executions; `job.worker_lost` tells of those it took down with it."""

    type = EventType.WORKER_REGISTERED
    event_type: Literal["worker.registered"]
    worker_id: str
    owner: str
    name: str
    queues: list[str]


class WorkerDraining(Event):
    """A caller drains a worker: it finishes what it holds, and is given nothing more."""

    type = EventType.WORKER_DRAINING
    event_type: Literal["worker.draining"]
    worker_id: str
    owner: str
    name: str


MODELS: tuple[type[Event], ...] = (
    JobScheduled,
    JobChanged,
    JobTransferred,
    JobGateChanged,
    JobRunRequested,
    JobPaused,
    JobResumed,
    JobCancelled,
    JobDeleted,
    JobSkipped,
    JobBlocked,
    JobUnblocked,
    JobApprovalNeeded,
    JobApproved,
    JobRejected,
    JobStarted,
    JobCompleted,
    JobFailed,
    JobRetryScheduled,
    JobPermanentlyFailed,
    JobRunCancelled,
    JobWorkerLost,
    JobSilent,
    JobRecovered,
    CircuitOpened,
    CircuitClosed,
    WorkerRegistered,
    WorkerDraining,
)
