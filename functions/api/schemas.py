"""What a caller may send: shapes and ranges. What depends on time, zones or the stage's lists is checked by the domain.

Strict: `true` is no number, `"5"` is no number, an unknown field is an error. The models only check; what is stored is
the caller's own document.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, FailFast, Field, StringConstraints

from functions.api.strict import Strict, absent, at_most
from functions.domain.dependence import MAX_PARENTS, UPSTREAM_TIMEOUT
from functions.domain.expression import CHARACTERS
from functions.domain.ids import JOB_ID_PATTERN
from functions.domain.retry import POISON_AT
from functions.domain.webhook_key import KEEP_SECONDS
from functions.usecases.bulk import MAX_ITEMS

MAX_TIMEOUT_SECONDS = 86_400
MAX_DELAY_SECONDS = 86_400
MAX_INTERVAL_SECONDS = 31_536_000
YEAR_SECONDS = 31_536_000
MAX_GATE_SECONDS = 2_592_000
"""30 days."""
MAX_HEADERS = 30


Instant = Annotated[
    str,
    Field(max_length=64, description="RFC 3339; without an offset it is read in the schedule's time zone."),
]
Timezone = Annotated[str, Field(max_length=64, description="IANA name of a time zone.", examples=["Europe/Berlin"])]
MAX_NAME_LENGTH = 128
MAX_OWNER_LENGTH = 128
"""As long as the name of a Cognito group."""
Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME_LENGTH)]
LABEL_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:/=-]*$"
MAX_LABEL_LENGTH = 64
Label = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LABEL_LENGTH, pattern=LABEL_PATTERN)]
HeaderName = Annotated[str, StringConstraints(max_length=128, pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")]
HeaderText = Annotated[str, StringConstraints(max_length=4_096, pattern=r"^[\x20-\x7e\t]*$")]
GROUP_PATTERN = r"^[^\s\[\]]+$"
"""Groups come in a token's claim as `[a b]`."""
CallerName = Annotated[str, StringConstraints(min_length=1, max_length=254)]
ErrorCode = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Z][A-Z0-9_]*(:.+)?$")]


class CronSchedule(Strict):
    type: Literal["cron"]
    expression: Annotated[
        str,
        Field(
            min_length=1,
            max_length=256,
            description="Five fields, or @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually.",
            examples=["0 9 * * MON-FRI"],
        ),
    ]
    timezone: Timezone = "UTC"


class IntervalSchedule(Strict):
    type: Literal["interval"]
    every_seconds: Annotated[int, Field(ge=1, le=MAX_INTERVAL_SECONDS)]
    timezone: Timezone = "UTC"


class OnceSchedule(Strict):
    type: Literal["once"]
    at: Instant
    timezone: Timezone = "UTC"


Schedule = Annotated[CronSchedule | IntervalSchedule | OnceSchedule, Field(discriminator="type")]


class SecretHeader(Strict):
    secret_arn: Annotated[str, StringConstraints(min_length=1, max_length=2_048)]


class HandlerTarget(Strict):
    type: Literal["handler"]
    name: Annotated[str, StringConstraints(min_length=1, max_length=128)]


class HttpTarget(Strict):
    type: Literal["http"]
    url: Annotated[str, StringConstraints(min_length=1, max_length=2_048)]
    method: Literal["POST", "GET", "PUT", "PATCH", "DELETE"] = "POST"
    headers: Annotated[
        dict[HeaderName, HeaderText | SecretHeader], Field(max_length=MAX_HEADERS), at_most(MAX_HEADERS)
    ] = Field(default={})


class LambdaTarget(Strict):
    type: Literal["lambda"]
    function_name: Annotated[str, StringConstraints(min_length=1, max_length=170)]


class SqsTarget(Strict):
    type: Literal["sqs"]
    queue_url: Annotated[str, StringConstraints(min_length=1, max_length=2_048)]


class WorkerTarget(Strict):
    type: Literal["worker"]
    queue: Annotated[str, StringConstraints(min_length=1, max_length=64)]


Target = Annotated[HandlerTarget | HttpTarget | LambdaTarget | SqsTarget | WorkerTarget, Field(discriminator="type")]


class RetryConfig(Strict):
    """What is left out follows the job's type, then the stage. Defaults are those of a stage that sets no others."""

    max_retries: Annotated[int, Field(ge=0, le=100)] = 3
    backoff_strategy: Literal["exponential", "linear", "fixed"] = "exponential"
    initial_delay_seconds: Annotated[float, Field(ge=0, le=MAX_DELAY_SECONDS)] = 10
    max_delay_seconds: Annotated[float, Field(ge=1, le=MAX_DELAY_SECONDS)] = 300
    multiplier: Annotated[float, Field(ge=1, le=10)] = 2.0
    jitter: Annotated[float, Field(ge=0, le=1)] = 0.2
    retryable_errors: Annotated[list[ErrorCode], Field(max_length=50)] = Field(default=[])
    non_retryable_errors: Annotated[list[ErrorCode], Field(max_length=50)] = Field(default=[])
    retry_window_seconds: int = absent(
        ge=1,
        le=YEAR_SECONDS,
        description="No retry starts later than the slot plus this.",
    )
    poison_detection: Annotated[
        bool, Field(description=f"The same error {POISON_AT} times in a row ends the run at once.")
    ] = False


class JobCircuitBreaker(Strict):
    """Whether the job asks for a circuit. When it opens and closes is set by the job's type or the stage."""

    enabled: Annotated[bool, Field(description="`false`: none, whatever the type says.")] = True


class CircuitBreaker(Strict):
    """What is left out follows the stage. Defaults are those of a stage that sets no others."""

    failure_threshold: Annotated[int, Field(ge=1, le=1_000, description="Failures in a row that open it.")] = 5
    open_seconds: Annotated[int, Field(ge=1, le=3_600, description="How long it stays open.")] = 30
    success_threshold: Annotated[int, Field(ge=1, le=100, description="Successes in a row that close it.")] = 1


class Approval(Strict):
    """The gate that each run passes before its first attempt: somebody has to approve it."""

    role: Annotated[
        str,
        StringConstraints(min_length=1, max_length=128, pattern=GROUP_PATTERN),
        Field(description="`admin`, `scheduler`, or a group of the user pool; an admin has every role."),
    ]
    approvers: list[CallerName] = absent(
        min_length=1, max_length=50, description="One of these callers, by id, username or verified e-mail address."
    )
    timeout_seconds: Annotated[int, Field(ge=1, le=MAX_GATE_SECONDS, description="How long a run waits.")]
    on_timeout: Annotated[
        Literal["reject", "approve"], Field(description="What happens to a run about which nobody decided in time.")
    ] = "reject"
    four_eyes: Annotated[
        bool,
        Field(description="Who created the job, changed last what it calls, or asked for the run does not decide."),
    ] = True
    protected: Annotated[
        bool,
        Field(
            description="The gate is removed or changed only by a second person who may decide: not by who created the "
            "job or changed last what it calls."
        ),
    ] = False


class TypeConfigBody(RetryConfig):
    """What holds for the jobs of a type where they say nothing themselves: the fields of `retryConfig`, and more."""

    circuit_breaker: CircuitBreaker = absent(description="Asks for a circuit breaker before each job's target.")
    max_concurrency: int = absent(
        ge=1, le=1_000, description="Attempts of all the type's jobs that may run at the same time."
    )


class DependencyBody(Strict):
    """A job that this one depends on."""

    job_id: Annotated[str, StringConstraints(pattern=JOB_ID_PATTERN)]
    on: Annotated[
        Literal["success", "failure", "completion"], Field(description="How its run must end; completion: either way.")
    ] = "success"
    when: str = absent(
        min_length=1,
        max_length=CHARACTERS,
        description="JMESPath over the result of its run (`null` for none): met only where that is true.",
        examples=["rows > `0`"],
    )


Owner = Annotated[str, StringConstraints(min_length=1, max_length=MAX_OWNER_LENGTH)]


class TransferBody(Strict):
    """What `POST /v1/jobs/{jobId}/transfer` takes."""

    owner: Annotated[
        str,
        StringConstraints(min_length=1, max_length=MAX_OWNER_LENGTH, pattern=r"^[A-Za-z0-9_.@+-]+$"),
        Field(description="A team's group `team-<name>`, a user's `sub` or a machine's client id."),
    ]


class JobBody(Strict):
    """A job as a caller registers it."""

    model_config = ConfigDict(
        # Not `anyOf`: client generators make an unknown type of it.
        json_schema_extra={"if": {"required": ["dependsOn"]}, "else": {"required": ["schedule"]}}
    )

    name: Name
    description: Annotated[str, StringConstraints(max_length=1_000)] = ""
    type: Label = absent(
        description="What kind of job this is; lists can be filtered by it, and it may have a retry configuration.",
    )
    schedule: Schedule = absent(
        description="When it runs. A job with dependsOn has none, or one of type once as the earliest start."
    )
    depends_on: Annotated[list[DependencyBody], FailFast()] = absent(
        min_length=1,
        max_length=MAX_PARENTS,
        description="The job runs when those have: for each run of one, or for the latest runs of several.",
    )
    join: Annotated[
        Literal["all", "any"], Field(description="Whether all of them have to end as they should, or any one.")
    ] = "all"
    on_upstream_failure: Annotated[
        Literal["skip", "fail", "run"], Field(description="What becomes of a run whose dependencies cannot be met.")
    ] = "skip"
    upstream_timeout_seconds: Annotated[
        int, Field(ge=60, le=YEAR_SECONDS, description="How long it waits for them; then they count as not met.")
    ] = UPSTREAM_TIMEOUT
    owner: Owner = absent(
        description="Who owns a new job: the caller or one of its teams. By default its team where it has exactly one, "
        "else the caller. Later changes by `transfer` only.",
    )
    target: Target
    payload: Any = Field(default=None, description="Any JSON, at most 131 072 bytes.")
    retry_config: RetryConfig = absent()
    overlap_policy: Literal["skip", "allow", "queue"] = "skip"
    misfire_policy: Literal["run_once", "skip", "run_all"] = "run_once"
    misfire_grace_seconds: Annotated[int, Field(ge=1, le=86_400)] = 60
    priority: Literal["normal", "high", "low"] = "normal"
    timeout_seconds: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_TIMEOUT_SECONDS,
            description="Over 840 only for `worker` targets, and `http` and `lambda` targets with completion callback.",
        ),
    ] = 60
    completion: Literal["response", "callback"] = "response"
    orchestrated: bool = False
    circuit_breaker: JobCircuitBreaker = absent()
    concurrency_key: Label = absent(description="Executions of all jobs of an owner with this key share the limit.")
    max_concurrency: int = absent(ge=1, le=1_000)
    approval: Approval = absent()
    start_at: Instant = absent()
    end_at: Instant = absent()
    max_runs: int = absent(
        ge=1,
        le=1_000_000_000,
    )
    alert_after_seconds: int = absent(
        ge=60,
        le=MAX_INTERVAL_SECONDS,
        description="Raise the event job.silent when the job has had no success for so long, for whatever reason.",
    )
    spread_seconds: Annotated[int, Field(ge=0, le=MAX_INTERVAL_SECONDS)] = 0
    tags: Annotated[list[Label], Field(max_length=20)] = Field(default=[])
    enabled: bool = True


class BulkBody(Strict):
    """What `POST /v1/jobs/bulk` takes: jobs, each checked by itself."""

    items: Annotated[list[Any], Field(min_length=1, max_length=MAX_ITEMS)]


class RetryBody(Strict):
    """What `POST /v1/jobs/{jobId}/retry` takes."""

    delay_seconds: Annotated[int, Field(ge=0, le=MAX_DELAY_SECONDS)] = 0


class RotationBody(Strict):
    """What `POST /v1/webhook-keys/{owner}/rotate` takes."""

    keep_previous_seconds: Annotated[
        int, Field(ge=0, le=KEEP_SECONDS, description="How long the keys before still sign; 0 after a leak.")
    ] = KEEP_SECONDS


class DecisionBody(Strict):
    """What `POST /v1/jobs/{jobId}/approve` and `/reject` take."""

    run_id: Annotated[str, StringConstraints(min_length=1, max_length=128)] = absent(
        description="The run; required for recurring jobs, each of whose runs has a gate of its own."
    )
    comment: Annotated[str, StringConstraints(min_length=1, max_length=500)] = absent(
        description="Kept with the decision, for whoever reads the history."
    )


class NoFields(Strict):
    """What an action without options takes: nothing, or `{}`."""
