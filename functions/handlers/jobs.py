"""Lambda function `jobs`: runs the Python handlers of functions/jobs/, invoked by the engine and by nobody else."""

from __future__ import annotations

from typing import Any

from functions.domain.result import json_text
from functions.jobs.running import run


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """`{"handler", "payload", "jobId", "runId", "attempt", "scheduledFor", "timeoutSeconds"}` → its outcome.

    `{"result": <JSON text>}` or `{"error": {"type", "message", "retryable"}}`. The process ends when the time is over.
    """
    return run(event, encode=json_text)
