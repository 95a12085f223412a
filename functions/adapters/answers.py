"""Answers of targets in the words of the domain: each kind of failure with its code and whether it may be retried."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime

from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.outcome import TargetAnswer

MESSAGE_CHARACTERS = 1_000
"""Longest message of an error."""
CODE_CHARACTERS = 128
"""Longest error code: it stands in the job's row too."""

_RETRYABLE_4XX = frozenset({408, 425, 429})
_LONGEST_WAIT = 10**9


def completed(result: str | None) -> TargetAnswer:
    return TargetAnswer(status=ExecutionStatus.COMPLETED, result=result)


def completed_without_result(code: str, message: str) -> TargetAnswer:
    """The work is done, and its result was not kept."""
    return TargetAnswer(status=ExecutionStatus.COMPLETED, error=_error(code, message))


def failed(
    code: str, message: str, *, retryable: bool = True, retry_after: int | None = None, was_sent: bool = True
) -> TargetAnswer:
    return TargetAnswer(
        status=ExecutionStatus.FAILED,
        error=_error(code, message),
        retryable=retryable,
        retry_after=retry_after,
        was_sent=was_sent,
    )


def refused(message: str) -> TargetAnswer:
    """The rules of the stage do not allow the call: nothing was sent, and another attempt would not be either."""
    return TargetAnswer(
        status=ExecutionStatus.FAILED, error=_error("TARGET_ERROR", message), retryable=False, was_sent=False
    )


def timed_out(seconds: int) -> TargetAnswer:
    error = ExecutionError(code="TIMEOUT", message=f"no answer within {seconds} s")
    return TargetAnswer(status=ExecutionStatus.TIMED_OUT, error=error)


def is_retryable_status(status: int) -> bool:
    """Whether another attempt may be answered otherwise: after 5xx, 408, 425 and 429 (docs/job-lifecycle.md).

    Redirects stay what they are until the target is changed, and so do refusals, 410 (Gone) above all.
    """
    return status >= 500 or status in _RETRYABLE_4XX


def retry_after(value: str | None, *, now: float) -> int | None:
    """Seconds a `Retry-After` header asks for (RFC 9110, section 10.2.3); None when it has no known form."""
    text = (value or "").strip()
    if re.fullmatch(r"[0-9]+", text):
        digits = text.lstrip("0")
        return min(int(digits or "0"), _LONGEST_WAIT) if len(digits) <= 10 else _LONGEST_WAIT
    try:
        at = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0, min(round(at - now), _LONGEST_WAIT))


def _error(code: str, message: str) -> ExecutionError:
    return ExecutionError(code=_cut(code, CODE_CHARACTERS), message=_cut(message, MESSAGE_CHARACTERS))


def _cut(text: str, characters: int) -> str:
    """At most so many characters, all of which can be stored: lone surrogates, as Python makes of file names that are
    no UTF-8, become `?`."""
    shown = text if len(text) <= characters else f"{text[: characters - 1]}…"
    return shown.encode("utf-8", "replace").decode()
