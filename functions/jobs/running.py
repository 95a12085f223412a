"""Runs one handler: what the `jobs` function does."""

from __future__ import annotations

import faulthandler
import logging
import traceback
from typing import TYPE_CHECKING, Any

from functions.jobs.registry import ModuleError, NonRetryable, Run, find

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_STDERR = 2
_MESSAGE_CHARACTERS = 1_000

_log = logging.getLogger(__name__)


class InvalidResult(NonRetryable):
    """A handler returned what is no JSON, or too much of it. Its work is done: repeating it would do it twice."""


def run(
    event: Mapping[str, Any],
    *,
    encode: Callable[[Any], str],
    report: Callable[[str, float, str], None] = lambda _execution, _percent, _message: None,
) -> dict[str, Any]:
    """Call the handler the event names: `{"result": <JSON text>}` or `{"error": {"type", "message", "retryable"}}`.

    `encode` makes JSON text of the result and raises ValueError, TypeError or RecursionError for what it refuses.
    `report` keeps how far an execution, named by its id, is.
    After the event's `timeoutSeconds` the process is ended, wherever the handler is: the watchdog is a thread in C,
    which needs neither the handler's co-operation nor the interpreter's lock, and leaves the stack in the log.
    """
    faulthandler.dump_traceback_later(event["timeoutSeconds"], exit=True, file=_STDERR)
    try:
        result = find(event["handler"])(event["payload"], _run_of(event, report))
        # With a callback the result is what is reported, not what is returned.
        return {"result": "null" if event.get("callbackToken") else _encoded(result, encode)}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - users' code: its exception is the attempt's error
        raised = error.cause if isinstance(error, ModuleError) else error
        # Not `exception`: neither Lambda's log nor a test runner's report takes a lone surrogate.
        trace = _sendable(traceback.format_exc())
        _log.error("handler %s failed in run %s\n%s", event["handler"], event["runId"], trace)
        return {
            "error": {
                "type": type(raised).__name__,
                "message": _sendable(str(error)[:_MESSAGE_CHARACTERS]),
                "retryable": not isinstance(raised, NonRetryable),
            }
        }
    finally:
        faulthandler.cancel_dump_traceback_later()


def _run_of(event: Mapping[str, Any], report: Callable[[str, float, str], None]) -> Run:
    execution = str(event.get("executionId", ""))
    return Run(
        job_id=event["jobId"],
        run_id=event["runId"],
        attempt=event["attempt"],
        scheduled_for=event["scheduledFor"],
        execution_id=execution,
        callback_token=event.get("callbackToken"),
        report=lambda percent, message: report(execution, percent, message),
    )


def _sendable(text: str) -> str:
    """Without lone surrogates, of which Lambda sends and logs none: Python makes them of file names not in UTF-8."""
    return text.encode("utf-8", "replace").decode()


def _encoded(result: Any, encode: Callable[[Any], str]) -> str:
    try:
        return encode(result)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidResult(f"the handler's result cannot be kept: {error}") from error
