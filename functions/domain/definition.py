"""A job's definition: what the caller registered, in the words of the HTTP contract.

The stored form *is* the contract's JSON document (camelCase, defaults left out), so a GET answers what was put and
an upgrade reads it as a client would. The payload is kept apart, as JSON text, so that the value and kind of each
number survive.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from functions.domain.errors import CorruptDefinitionError, InvalidFieldError
from functions.domain.job_type import TypeConfig
from functions.domain.retry import RetryPolicy
from functions.domain.schedule import Schedule


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    document: Mapping[str, Any]
    """The contract's JSON document without `payload` and `enabled`."""
    payload: str
    """JSON text."""
    schedule: Schedule
    policy: RetryPolicy | None = None
    """None until `under` is told what holds where the job says nothing."""
    overlap: OverlapPolicy
    misfire: MisfirePolicy
    misfire_grace: int
    priority: Priority
    timeout_seconds: int
    max_runs: int | None

    @classmethod
    def read(cls, document: Mapping[str, Any], payload: str, *, job_id: str, created_at: int) -> Definition:
        """Read a document that was checked before it was stored; raises CorruptDefinitionError."""
        try:
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
            )
        except (KeyError, TypeError, ValueError, AttributeError, InvalidFieldError) as error:
            raise CorruptDefinitionError from error

    def under(self, config: TypeConfig) -> Definition:
        """The definition as it counts at run time: field by field the job's word, else that of its type or stage."""
        return replace(self, policy=RetryPolicy.read({**config.retry, **self.document.get("retryConfig", {})}))

    @property
    def retry(self) -> RetryPolicy:
        """Raises RuntimeError before `under`: a policy without the type's word would be another one."""
        if self.policy is None:
            raise RuntimeError("the definition is not under the configuration of its job type: usecases.writing.ruled")
        return self.policy

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
        """`{"type": "http" | "handler" | "lambda" | "sqs", …}`."""
        target: Mapping[str, Any] = self.document["target"]
        return target
