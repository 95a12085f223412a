"""Announce runs that failed for good, from the stream of history: at least once, with a stable id (V14)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from functions.domain.errors import CorruptDefinitionError
from functions.domain.execution import Execution
from functions.domain.ids import slot_instant
from functions.domain.instants import rfc3339
from functions.domain.job import Job
from functions.domain.masking import masked_target
from functions.ports import DeadLetters, JobStore

VERSION = "1.0"


def announce_dead_letters(jobs: JobStore, letters: DeadLetters, executions: Iterable[Execution]) -> int:
    """Send a message for each dead letter, with all it takes to act on it; returns how many.

    Raises what the queue raises: the records come again, and the messages have the same ids.
    """
    messages = [_message(jobs, execution) for execution in executions if execution.is_dead_letter]
    letters.announce(messages)
    return len(messages)


def _job_of(jobs: JobStore, execution: Execution) -> Job | None:
    """None where its row cannot be read, which is no reason to keep silent about the run."""
    try:
        return jobs.get(execution.job_id)
    except CorruptDefinitionError:
        return None


def _message(jobs: JobStore, execution: Execution) -> dict[str, object]:
    job = _job_of(jobs, execution)
    error = execution.error
    message: dict[str, object] = {
        "version": VERSION,
        "id": execution.id,
        "jobId": execution.job_id,
        "runId": execution.run_id,
        "scheduledFor": rfc3339(slot_instant(execution.slot_id)),
        "attempts": execution.attempt,
        "status": execution.status.value,
        "reason": execution.reason,
        "error": None if error is None else {"code": error.code, "message": error.message},
        "startedAt": None if execution.started_at is None else rfc3339(execution.started_at),
        "failedAt": rfc3339(execution.completed_at),
        "history": f"/v1/jobs/{execution.job_id}/history",
        "retry": f"/v1/jobs/{execution.job_id}/retry",
    }
    if job is not None:
        message["owner"] = job.owner
        if job.definition is not None:
            target: Mapping[str, Any] = job.definition.target
            message |= {"jobName": job.definition.name, "target": masked_target(target)}
    return message
