"""A lifecycle event: its types, and what is known of one before it is written for the bus (docs/events.md)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from functions.domain.ids import execution_id, is_manual, run_id, slot_instant
from functions.domain.job import Job


class EventType(enum.StrEnum):
    SCHEDULED = "job.scheduled"
    """Created, or given another next run by a change."""
    CHANGED = "job.changed"
    TRANSFERRED = "job.transferred"
    """An administrator gave it to another owner."""
    GATE_CHANGED = "job.gate_changed"
    """A caller added, changed or removed its approval gate."""
    RUN_REQUESTED = "job.run_requested"
    """A caller asked for a run beside the schedule."""
    PAUSED = "job.paused"
    RESUMED = "job.resumed"
    CANCELLED = "job.cancelled"
    DELETED = "job.deleted"
    STARTED = "job.started"
    COMPLETED = "job.completed"
    FAILED = "job.failed"
    """An attempt failed, and another follows."""
    RETRY_SCHEDULED = "job.retry_scheduled"
    PERMANENTLY_FAILED = "job.permanently_failed"
    RUN_CANCELLED = "job.run_cancelled"
    SKIPPED = "job.skipped"
    BLOCKED = "job.blocked"
    """Somebody looked at the jobs that it depends on, and has to wait for them."""
    UNBLOCKED = "job.unblocked"
    """A run was made for runs of the jobs that it depends on."""
    APPROVAL_NEEDED = "job.approval_needed"
    APPROVED = "job.approved"
    REJECTED = "job.rejected"
    WORKER_LOST = "job.worker_lost"
    """The owner of an attempt died; what becomes of the run is the event after it."""
    SILENT = "job.silent"
    """No success for `alertAfterSeconds`; once a silence."""
    RECOVERED = "job.recovered"
    """A success ended a silence that was told."""
    CIRCUIT_OPENED = "circuit.opened"
    CIRCUIT_CLOSED = "circuit.closed"
    WORKER_REGISTERED = "worker.registered"
    WORKER_DRAINING = "worker.draining"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One write of a job's row, as the table's stream tells it."""

    before: Job | None
    after: Job
    at: float
    """When it was written, epoch seconds."""


class Attempt(NamedTuple):
    slot_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleEvent:
    type: EventType
    source: str
    """What it tells of: a job's id, `circuit:<target key>`, `worker:<id>`. Its events are in order."""
    seq: int
    """Of the write that it tells of."""
    index: int
    """Its place among the events of that write, from 0."""
    time: float
    """When it happened, epoch seconds."""
    facts: Mapping[str, Any]
    """What this type says besides, in the words of functions/events/models.py; instants in epoch seconds."""

    @property
    def id(self) -> str:
        return f"{self.source}:{self.seq}:{self.index}"


class Told(NamedTuple):
    """An event, before it has its place among those of its write."""

    type: EventType
    time: float
    facts: dict[str, Any]


def attempt_facts(job: Job, slot: str, attempt: int, *, worker_id: str | None = None) -> dict[str, Any]:
    """What names an attempt."""
    return {
        "run_id": run_id(job.id, slot),
        "scheduled_for": slot_instant(slot),
        "manual": is_manual(slot),
        "execution_id": execution_id(job.id, slot, attempt),
        "attempt": attempt,
        "worker_id": worker_id,
    }


def run_facts(job: Job, slot: str) -> dict[str, Any]:
    """What names a run."""
    return {"run_id": run_id(job.id, slot), "scheduled_for": slot_instant(slot)}
