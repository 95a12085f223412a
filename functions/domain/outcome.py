"""What a target's answer means for the attempt."""

from __future__ import annotations

from dataclasses import dataclass, field

from functions.domain.circuit import Health
from functions.domain.execution import ExecutionError, ExecutionStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What a target is given, and nothing else."""

    job_id: str
    owner: str
    """Of the job: what it may use is its owner's."""
    slot_id: str
    run_id: str
    execution_id: str
    attempt: int
    scheduled_for: int
    """The slot, epoch seconds."""
    payload: str
    """JSON text."""
    timeout_seconds: int
    callback_token: str | None = field(default=None, repr=False)
    """With it the outcome may be reported later, once; None where the answer is the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAnswer:
    """What came of calling the target."""

    status: ExecutionStatus
    """COMPLETED, FAILED or TIMED_OUT."""
    error: ExecutionError | None = None
    """Of one that is COMPLETED: why it has no result."""
    result: str | None = None
    """JSON text, at most 32 KB."""
    retry_after: int | None = None
    """Seconds the target asked us to wait (HTTP `Retry-After`)."""
    retryable: bool = True
    """False for what is not retryable by nature: 4xx except 408, 425, 429; payload errors; a handler's NonRetryable."""
    was_sent: bool = True
    """False where the call was not made, by the rules of the stage or for want of a secret: that says nothing of the
    target."""


def health_of(answer: TargetAnswer) -> Health:
    """What an answer says of the target (docs/decisions/0034-what-counts-as-a-failure-of-a-target.md).

    An answer that blames the call shows that the target answered. A call that was refused here, or whose payload could
    not be sent, shows nothing.
    """
    if not answer.was_sent:
        return Health.UNKNOWN
    if answer.status is ExecutionStatus.COMPLETED:
        return Health.UP
    if answer.error is not None and answer.error.code == "PAYLOAD_ERROR":
        return Health.UNKNOWN
    return Health.DOWN if answer.retryable else Health.UP
