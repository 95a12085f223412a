"""Logs and metrics: the names of both, and the one place that makes their instruments.

Function segments of X-Ray come from Lambda itself (active tracing): the X-Ray SDK would add more to each cold start
than subsegments of two calls tell.
"""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

from aws_lambda_powertools import Logger

from functions.domain.execution import ExecutionStatus
from functions.settings import FAILED_VISITS, REPAIRED, UNREADABLE_ROWS

if TYPE_CHECKING:
    from aws_lambda_powertools import Metrics
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from functions.domain.execution import Execution
    from functions.domain.hint import Hint
    from functions.usecases.executor import Handled
    from functions.usecases.lifecycle import Told
    from functions.usecases.sweep import Swept

START_LATENESS = "StartLateness"
"""Milliseconds from a slot, or a retry's instant, to the start of its attempt."""
ATTEMPTS = "Attempts"
FAILED_ATTEMPTS = "FailedAttempts"
SWEPT = "Swept"
"""Jobs a tick of the sweep looked at."""
DEAD_LETTERS = "DeadLetters"
LIFECYCLE_EVENTS = "LifecycleEvents"
_counting = Lock()
"""Attempts end in threads; what counts them is made for one."""


@cache
def logger() -> Logger:
    """The function's logger; service and level come from Powertools' own variables, set by infra/."""
    return Logger()


@cache
def metrics() -> Metrics:
    """The function's metrics, in CloudWatch's embedded format; `flush_metrics` writes one line a batch.

    Their namespace is the stage's own, so that two stages of one account never count together.
    """
    from aws_lambda_powertools import Metrics  # noqa: PLC0415 - most requests count nothing, and need not import it

    return Metrics()


def _count(name: str, number: float, *, unit: str = "Count") -> None:
    with _counting:
        metrics().add_metric(name, unit, number)


def begin(context: LambdaContext) -> None:
    """Once an invocation: later log lines carry its request id."""
    logger().append_keys(requestId=context.aws_request_id)


def hint_handled(hint: Hint, handled: Handled) -> None:
    """Count a start; an attempt that has ended is told apart."""
    if handled.lateness is not None:
        _count(START_LATENESS, round(handled.lateness * 1000), unit="Milliseconds")
    if handled.execution is None:
        logger().debug("hint", extra={"jobId": hint.job_id, "slot": hint.slot_id, "reason": handled.reason})


def hint_handed_back(body: str, error: Exception, *, receives: int, seconds: int | None) -> None:
    """`seconds` after which it comes again; None for the queue's visibility timeout."""
    logger().warning(
        "hint handed back",
        extra={"hint": body[:200], "error": f"{type(error).__name__}: {error}", "receives": receives, "again": seconds},
    )


def attempt_ended(execution: Execution) -> None:
    """Count an attempt, by whomever it ended, but for what was cancelled or skipped; log what was not a plain success,
    since a line a job costs more than the job."""
    if execution.error is None and execution.status is not ExecutionStatus.COMPLETED:
        return
    _count(ATTEMPTS, 1)
    if execution.error is None or execution.status is ExecutionStatus.COMPLETED:
        # A success may say why it has no result: that is for who reads it, not for who is called at night.
        logger().debug("attempt completed", extra={"executionId": execution.id})
        return
    _count(FAILED_ATTEMPTS, 1)
    logger().warning(
        "attempt failed",
        extra={
            "executionId": execution.id,
            # Not its message, which quotes the target's answer: that is for whoever may read the job's history.
            "error": execution.error.code,
            "final": execution.final,
            "reason": execution.reason,
            "nextRetryAt": execution.next_retry_at,
        },
    )


def swept(result: Swept) -> None:
    _count(SWEPT, result.looked_at)
    repaired = sum(result.reasons.get(reason, 0) for reason in ("WOKEN", "HELD", "RECOVERED", "QUARANTINED"))
    _count(REPAIRED, repaired)
    _count(FAILED_VISITS, len(result.failed))
    _count(UNREADABLE_ROWS, len(result.unreadable))
    for job_id in result.unreadable:
        logger().error("row cannot be read", extra={"jobId": job_id, "do": "runbook, Rows that cannot be read"})
    for job_id, failure in result.failed:
        logger().error("visit failed", extra={"jobId": job_id, "failure": failure})
    if result.looked_at:
        logger().info("swept", extra={"lookedAt": result.looked_at, "reasons": result.reasons})


def announced(letters: int) -> None:
    _count(DEAD_LETTERS, letters)


def told(result: Told) -> None:
    _count(LIFECYCLE_EVENTS, result.events)
    if result.unsent:
        logger().error("events wait", extra={"records": len(result.unsent)})


def flush() -> None:
    """Write what was counted, one line."""
    if metrics.cache_info().currsize and metrics().metric_set:
        metrics().flush_metrics()
