"""Example: answers what it was given. Good for trying schedules and retries."""

from __future__ import annotations

from typing import Any

from functions.jobs import Run, job


@job("echo")
def echo(payload: Any, run: Run) -> dict[str, Any]:
    """The payload and the run it came with."""
    return {"payload": payload, "runId": run.run_id, "attempt": run.attempt, "scheduledFor": run.scheduled_for}
