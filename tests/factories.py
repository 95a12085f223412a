"""Domain objects for tests: each fills only what the test leaves out."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from functions.domain.definition import Definition
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.ids import new_write_id, slot_id
from functions.domain.job import Job
from functions.domain.job_type import TypeConfig
from functions.domain.run import ActiveRun, RunState
from functions.domain.target_access import TargetPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

JOB_ID = "7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f"
NOW = 1_800_000_000
"""2027-01-15T08:00:00Z."""


def new_id() -> str:
    return str(uuid.uuid4())


def make_rules(**changes: Any) -> TargetPolicy:
    """What a stage `test` in account 123456789012, eu-central-1, lets jobs call."""
    rules: dict[str, Any] = {
        "stage": "test",
        "account": "123456789012",
        "region": "eu-central-1",
        "unguarded_origins": (),
        "ports": (443, 8443),
        "shared_targets": (),
        "handler_owners": (),
    }
    return TargetPolicy(**rules | changes)


def make_document(**changes: Any) -> dict[str, Any]:
    """A job's JSON document; a keyword replaces a field, None leaves it out."""
    document: dict[str, Any] = {
        "name": "nightly report",
        "schedule": {"type": "interval", "everySeconds": 60},
        "target": {"type": "http", "url": "https://example.com/hook"},
    }
    document |= changes
    return {name: value for name, value in document.items() if value is not None}


def make_definition(*, payload: str = "{}", job_id: str = JOB_ID, created_at: int = NOW, **changes: Any) -> Definition:
    """A definition as it counts at run time; nothing is configured for its type."""
    read = Definition.read(make_document(**changes), payload, job_id=job_id, created_at=created_at)
    return read.under(TypeConfig())


def make_job(**changes: Any) -> Job:
    """A scheduled interval job, next due in a minute. `document` (a mapping) and `payload` change its definition."""
    job_id = changes.setdefault("id", JOB_ID)
    created_at = changes.setdefault("created_at", NOW)
    document: Mapping[str, Any] = changes.pop("document", {})
    payload = changes.pop("payload", "{}")
    if "definition" not in changes:
        changes["definition"] = make_definition(payload=payload, job_id=job_id, created_at=created_at, **document)
    write_id = changes.setdefault("write_id", new_write_id())
    changes.setdefault("revised_by", write_id)
    changes.setdefault("next_slot", created_at + 60)
    if "attention_at" not in changes:
        bound = Job(**{"owner": "", "created_by": "", **changes}).bound(created_at)
        changes["attention_at"] = bound
    return Job(**{"owner": "team-a", "created_by": "alice", **changes})


def make_run(**changes: Any) -> ActiveRun:
    """A first attempt that runs."""
    defaults = {"state": RunState.RUNNING, "attempt": 1, "attempt_limit": 4, "fence": 1, "lease_expires_at": NOW + 75}
    if changes.get("state", RunState.RUNNING) is not RunState.RUNNING:
        defaults |= {"attempt": 0, "lease_expires_at": None, "due_at": NOW}
    return ActiveRun(**{**defaults, **changes})


def make_execution(**changes: Any) -> Execution:
    """A completed first attempt; with another status, a failed one with its error."""
    status = changes.setdefault("status", ExecutionStatus.COMPLETED)
    if status in (ExecutionStatus.FAILED, ExecutionStatus.TIMED_OUT):
        changes.setdefault("error", ExecutionError(code="HTTP_503", message="503 Service Unavailable"))
    defaults = {
        "job_id": JOB_ID,
        "slot_id": slot_id(NOW),
        "attempt": 1,
        "final": True,
        "fence": 1,
        "write_id": new_write_id(),
        "started_at": NOW + 0.25,
        "completed_at": NOW + 0.5,
    }
    return Execution(**{**defaults, **changes})


def make_hint(**changes: Any) -> Hint:
    return Hint(**{"job_id": JOB_ID, "slot_id": slot_id(NOW), "attempt": 1, **changes})
