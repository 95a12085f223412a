"""Lambda function `jobs`: runs the Python handlers of functions/jobs/, invoked by the engine and by nobody else."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from functions.domain.progress import MIN_INTERVAL, checked
from functions.domain.result import json_text
from functions.jobs.running import run

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """`{"handler", "payload", "jobId", "runId", "attempt", "scheduledFor", "timeoutSeconds"}` → its outcome.

    `{"result": <JSON text>}` or `{"error": {"type", "message", "retryable"}}`. The process ends when the time is over.
    """
    return run(event, encode=json_text, report=Reports())


class Reports:
    """Keeps a handler's progress, at most once a second; what cannot be kept fails no handler."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` says the time: epoch seconds, UTC."""
        self._clock = clock
        self._last = -MIN_INTERVAL

    def __call__(self, execution: str, percent: float, message: str) -> None:
        progress, now = checked(percent, message), self._clock()
        if not execution or 0 <= now - self._last < MIN_INTERVAL:
            return
        self._last = now
        try:
            from functions import bootstrap  # noqa: PLC0415 - most handlers report nothing: boto3 would cost them

            bootstrap.progress().report(execution, progress, now=now)
        except Exception as error:  # noqa: BLE001 - whatever keeps a report from being stored, the work goes on
            _log.warning("progress of %s was not kept: %s", execution, type(error).__name__)
