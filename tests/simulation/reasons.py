"""Nothing happens without a word why: what is put off, fails or is cancelled names its reason."""

from __future__ import annotations

from functions.domain.execution import Execution, ExecutionStatus
from functions.domain.job import Job
from tests.simulation.life import Violation

RULE = "what did not go well says why"


def row_says_why(row: Job) -> None:
    """A run that was put off, or that waits for more than time, says for what."""
    for slot, run in row.runs.items():
        silent = (run.deferrals > 0 or run.waits_for is not None) and not run.deferred_for
        if silent:
            raise Violation(RULE, f"{row.id}-{slot}: {run}")


def execution_says_why(execution: Execution) -> None:
    good = execution.status is ExecutionStatus.COMPLETED
    failed = execution.status in (ExecutionStatus.FAILED, ExecutionStatus.TIMED_OUT)
    missing = (not good and not execution.reason) or (failed and execution.error is None)
    if missing or (execution.deferrals and not execution.deferred_for):
        raise Violation(RULE, str(execution))
