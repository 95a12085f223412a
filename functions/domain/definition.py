"""A job's definition: what the caller registered, in the words of the HTTP contract.

The stored form *is* the contract's JSON document (camelCase, defaults left out), so a GET answers what was put and
an upgrade reads it as a client would. The payload is kept apart, as JSON text, so that the value and kind of each
number survive.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from functions.domain.approval_policy import ApprovalPolicy
from functions.domain.circuit import CircuitPolicy, target_key
from functions.domain.dependence import UPSTREAM_TIMEOUT, Dependency, Join, UpstreamFailure
from functions.domain.errors import CorruptDefinitionError, InvalidFieldError, UnreadablePayloadError
from functions.domain.job_type import TypeConfig
from functions.domain.retry import RetryPolicy
from functions.domain.schedule import Schedule
from functions.domain.stored_json import is_readable

LONGEST_CALL = 840
"""Longest `timeoutSeconds` of a call that a function waits for: a Lambda function lives 900 s."""


class OverlapPolicy(enum.StrEnum):
    SKIP = "skip"
    ALLOW = "allow"
    QUEUE = "queue"


class MisfirePolicy(enum.StrEnum):
    RUN_ONCE = "run_once"
    SKIP = "skip"
    RUN_ALL = "run_all"


class Priority(enum.StrEnum):
    NORMAL = "normal"
    HIGH = "high"
    LOW = "low"


class Completion(enum.StrEnum):
    """What ends an attempt well: the target's answer, or a later call of `/v1/executions/{id}/complete`."""

    RESPONSE = "response"
    CALLBACK = "callback"


class ConcurrencyLimit(NamedTuple):
    """At most `most` executions of all jobs of an owner with this key run at the same time."""

    key: str
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    document: Mapping[str, Any]
    """The contract's JSON document without `payload` and `enabled`."""
    payload: str
    """JSON text, as it is stored: `checked_payload` is what may be shown or sent."""
    schedule: Schedule
    policy: RetryPolicy | None = field(default=None, compare=False)
    """None until `under` is told what holds where the job says nothing."""
    overlap: OverlapPolicy
    misfire: MisfirePolicy
    misfire_grace: int
    priority: Priority
    timeout_seconds: int
    max_runs: int | None
    alert_after: int | None
    """Seconds without a success after which the job is silent."""
    completion: Completion
    orchestrated: bool
    """Timeout and circuit as states of a state machine that can be seen."""
    circuit: CircuitPolicy | None = field(default=None, compare=False)
    """None for a target without a breaker, or before `under`; nothing is called for a worker."""
    concurrency: ConcurrencyLimit | None
    depends_on: tuple[Dependency, ...]
    """The jobs whose runs this one's wait for; () for a job that runs by its own schedule alone."""
    join: Join
    on_upstream_failure: UpstreamFailure
    upstream_timeout: int
    """Seconds that it waits for its parents."""
    approval: ApprovalPolicy | None
    """The gate that its runs pass before their first attempt."""
    bulkhead: int | None = field(default=None, compare=False)
    """Attempts of all jobs of this type that may run at the same time; known once it is under its type."""

    @classmethod
    def read(cls, document: Mapping[str, Any], payload: str, *, job_id: str, created_at: int) -> Definition:
        """Read a document that was checked before it was stored; raises CorruptDefinitionError."""
        try:
            document = _without_thresholds(document)
            shapes = (("name", str), ("target", Mapping), ("tags", list))
            if not all(isinstance(document.get(field, []), shape) for field, shape in shapes):
                raise CorruptDefinitionError
            RetryPolicy.read(document.get("retryConfig", {}))
            return cls(
                document=document,
                payload=payload,
                schedule=Schedule.read(document, job_id=job_id, created_at=created_at),
                overlap=OverlapPolicy(document.get("overlapPolicy", "skip")),
                misfire=MisfirePolicy(document.get("misfirePolicy", "run_once")),
                misfire_grace=int(document.get("misfireGraceSeconds", 60)),
                priority=Priority(document.get("priority", "normal")),
                timeout_seconds=int(document.get("timeoutSeconds", 60)),
                max_runs=document.get("maxRuns"),
                alert_after=document.get("alertAfterSeconds"),
                completion=Completion(document.get("completion", "response")),
                orchestrated=bool(document.get("orchestrated", False)),
                concurrency=_concurrency(document),
                depends_on=tuple(Dependency.read(one) for one in document.get("dependsOn", ())),
                join=Join(document.get("join", "all")),
                on_upstream_failure=UpstreamFailure(document.get("onUpstreamFailure", "skip")),
                upstream_timeout=int(document.get("upstreamTimeoutSeconds", UPSTREAM_TIMEOUT)),
                approval=ApprovalPolicy.read(document["approval"]) if "approval" in document else None,
            )
        except (KeyError, TypeError, ValueError, AttributeError, InvalidFieldError) as error:
            raise CorruptDefinitionError from error

    def under(self, config: TypeConfig) -> Definition:
        """The definition as it counts at run time: field by field the job's word, else that of its type or stage."""
        own: Mapping[str, Any] | None = self.document.get("circuitBreaker")
        wanted = config.circuit_breaker is not None if own is None else own.get("enabled", True)
        circuit = config.circuit_for(target_key(self.target)) if wanted and self.worker_queue is None else None
        return replace(
            self,
            policy=RetryPolicy.read({**config.retry, **self.document.get("retryConfig", {})}),
            circuit=circuit,
            bulkhead=config.max_concurrency,
        )

    @property
    def retry(self) -> RetryPolicy:
        """Raises RuntimeError before `under`: a policy without the type's word would be another one."""
        if self.policy is None:
            raise RuntimeError("the definition is not under the configuration of its job type: usecases.writing.ruled")
        return self.policy

    @property
    def checked_payload(self) -> str:
        """The payload's JSON text; raises UnreadablePayloadError for stored text that is not JSON."""
        if not is_readable(self.payload):
            raise UnreadablePayloadError
        return self.payload

    @property
    def type(self) -> str | None:
        """The job's type; None for none."""
        kind: str | None = self.document.get("type")
        return kind

    @property
    def name(self) -> str:
        return str(self.document["name"])

    @property
    def target(self) -> Mapping[str, Any]:
        """`{"type": "http" | "handler" | "lambda" | "sqs" | "worker", …}`."""
        target: Mapping[str, Any] = self.document["target"]
        return target

    @property
    def worker_queue(self) -> str | None:
        """The queue of a `worker` target; None for a target that is called."""
        return str(self.target["queue"]) if self.target.get("type") == "worker" else None


def _without_thresholds(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The release before kept thresholds of circuits in jobs: such a job asks for a circuit, as its type sets it."""
    own = document.get("circuitBreaker", {})
    if not isinstance(own, Mapping):
        raise CorruptDefinitionError
    if own.keys() <= {"enabled"}:
        return document
    return {**document, "circuitBreaker": {"enabled": True}}


def check_execution(document: Mapping[str, Any]) -> None:
    """Check what the fields about execution say of each other; raises InvalidFieldError naming field, value, limit."""
    kind, callback = document["target"]["type"], document.get("completion") == Completion.CALLBACK
    timeout = document.get("timeoutSeconds", 60)
    if timeout > LONGEST_CALL and kind != "worker" and not (callback and kind in ("http", "lambda")):
        raise InvalidFieldError(
            "timeoutSeconds",
            f"timeoutSeconds {timeout} is over the limit of {LONGEST_CALL} for a call that is waited for; only "
            "`worker` targets, and `http` and `lambda` targets with completion callback, may take longer.",
        )
    if callback and kind == "worker":
        raise InvalidFieldError("completion", "completion callback: a worker reports the outcome anyway; leave it out.")
    if callback and document.get("orchestrated"):
        raise InvalidFieldError(
            "orchestrated", "orchestrated true: with completion callback nothing runs while the outcome is awaited."
        )
    if kind == "worker":
        breaker = document.get("circuitBreaker", {"enabled": False})
        for field, asked in (
            ("orchestrated", document.get("orchestrated")),
            ("circuitBreaker", breaker.get("enabled", True)),
        ):
            if asked:
                raise InvalidFieldError(field, f"{field} is not for `worker` targets: nothing is called.")
    given = [field for field in ("concurrencyKey", "maxConcurrency") if field in document]
    if len(given) == 1:
        [missing] = {"concurrencyKey", "maxConcurrency"} - set(given)
        raise InvalidFieldError(missing, f"{missing} is required beside {given[0]}.")


def _concurrency(document: Mapping[str, Any]) -> ConcurrencyLimit | None:
    if "concurrencyKey" not in document:
        return None
    return ConcurrencyLimit(str(document["concurrencyKey"]), int(document["maxConcurrency"]))
