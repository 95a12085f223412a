"""One attempt of a run, as history keeps it. The stored row is the decision about the attempt, for everybody."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from functions.domain.actor import Actor
from functions.domain.ids import execution_id, run_id
from functions.domain.job import SkipReason
from functions.domain.run import Approval


class ExecutionStatus(enum.StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionError:
    """`code`: TIMEOUT, NETWORK_ERROR, HTTP_<status>, TARGET_ERROR, HANDLER_ERROR:<class>, PAYLOAD_ERROR, WORKER_LOST,
    RESULT_TOO_LARGE, RESULT_UNREADABLE, RETRY_WINDOW_OVER, QUARANTINED."""

    code: str
    message: str


LOST_RESULT = ExecutionError(code="RESULT_UNREADABLE", message="The stored result cannot be read.")
"""Of an execution that is COMPLETED: its result was kept, and is not JSON any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """History row `<slot>-<attempt>`: put if absent, never changed. Instants are epoch seconds, UTC."""

    job_id: str
    slot_id: str
    attempt: int
    status: ExecutionStatus
    final: bool
    """False when another attempt follows."""
    fence: int
    write_id: str
    completed_at: float
    started_at: float | None = None
    next_retry_at: int | None = None
    """When the next attempt starts; drawn once, here."""
    reason: str | None = None
    error: ExecutionError | None = None
    """Of one that is COMPLETED: why its result was not kept."""
    result: str | None = None
    """The target's answer as JSON text, at most 32 KB."""
    deferrals: int = 0
    """Times it was put off before it started."""
    deferred_for: str | None = None
    """Why it was put off last."""
    worker_id: str | None = None
    """The worker that held it."""
    approval: Approval | None = None
    """What was decided at the run's gate."""
    cancelled_by: Actor | None = None
    """The caller who cancelled it, or its job."""

    @property
    def id(self) -> str:
        return execution_id(self.job_id, self.slot_id, self.attempt)

    @property
    def run_id(self) -> str:
        return run_id(self.job_id, self.slot_id)

    @property
    def is_dead_letter(self) -> bool:
        return self.final and self.status in (ExecutionStatus.FAILED, ExecutionStatus.TIMED_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedSlots:
    """History row of a gap, `<first>-0000`: slots that were passed over, and why."""

    job_id: str
    first: int
    last: int
    count: int
    reason: SkipReason
    recorded_at: float
