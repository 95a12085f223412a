"""What is kept of a target's answer: JSON text of at most 32 KB."""

from __future__ import annotations

import enum
import json
import math
from typing import Any, NoReturn

RESULT_BYTES = 32_768
"""Longest result, in bytes of UTF-8."""
RESULT_LEVELS = 100
"""Deepest nesting of a result."""
TOO_LARGE = "RESULT_TOO_LARGE"
"""Error code of an execution whose result was too large to be kept, whether the attempt failed for it or not."""
UNREADABLE = "RESULT_UNREADABLE"
"""Error code of an execution whose result could not be read, whether the attempt failed for it or not."""
NOT_KEPT = frozenset({TOO_LARGE, UNREADABLE})
"""Error codes of executions whose result was not kept. Nobody takes null for such a result."""


class Extent(enum.Enum):
    """How much of an answer's body there is."""

    WHOLE = enum.auto()
    LONGER = enum.auto()
    """Its beginning: the rest was not read."""
    CUT = enum.auto()
    """Its beginning: the rest did not come."""


class ResultError(ValueError):
    """A result cannot be kept."""

    code: str


class ResultTooLargeError(ResultError):
    """A result is larger than is kept."""

    code = TOO_LARGE

    def __init__(self, size: int, *, at_least: bool = False) -> None:
        super().__init__(f"{'over ' * at_least}{size} bytes of JSON; at most {RESULT_BYTES} are kept")
        self.size = size


class ResultUnreadableError(ResultError):
    """A result cannot be read; the message says why."""

    code = UNREADABLE


def kept_result(text: str, *, declared: bool = False, extent: Extent = Extent.WHOLE) -> str | None:
    """An answer's text as JSON text: JSON up to 32 KB is kept (in compact form), None for nothing or `null`.

    Args:
        declared: The answer says that it is JSON. What cannot be kept as JSON is refused then.
        extent: How much of the answer `text` is.

    Without `declared`, whatever cannot be kept as JSON becomes a JSON string of its text, cut to 32 KB: a string, never
    a part of the JSON that it was.

    Raises:
        ResultTooLargeError: Declared JSON is larger than 32 KB.
        ResultUnreadableError: Declared JSON is not JSON or cannot be kept as JSON, or nothing came of a body.
    """
    text = text.strip()
    if declared and extent is Extent.LONGER:
        raise ResultTooLargeError(len(text.encode(errors="replace")), at_least=True)
    if extent is Extent.CUT and (declared or not text):
        raise ResultUnreadableError("its end did not come")
    if not text or text == "null":
        return None
    if extent is not Extent.WHOLE:
        return _cut(text)
    try:
        return _read(text)
    except ResultError:
        if declared:
            raise
        return _cut(text)


def whole_result(body: bytes) -> str | None:
    """What a function returned, as JSON text; None for nothing or `null`. Text that is not JSON becomes a JSON string.

    Raises:
        ResultTooLargeError: It is larger than 32 KB.
        ResultUnreadableError: It is not UTF-8, or JSON that cannot be kept as JSON, such as NaN.
    """
    try:
        text = body.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise ResultUnreadableError("it is not UTF-8") from error
    if not text or text == "null":
        return None
    try:
        return _read(text)
    except NotJsonError:
        shown = json.dumps(text, ensure_ascii=False)
    if (size := len(shown.encode())) > RESULT_BYTES:
        raise ResultTooLargeError(size)
    return shown


class NotJsonError(ResultUnreadableError):
    """A text is not JSON at all."""


def _read(text: str) -> str:
    """Compact JSON of a JSON text; raises ResultError."""
    try:
        return json_text(json.loads(text, parse_constant=_refuse, parse_float=_finite))
    except ResultError:
        raise
    except json.JSONDecodeError as error:
        raise NotJsonError(f"it is not JSON: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise ResultUnreadableError(f"it is nested deeper than {RESULT_LEVELS} levels") from error
    except ValueError as error:  # an integer of thousands of digits, a lone surrogate
        raise ResultUnreadableError("it has a number or a character that JSON cannot carry") from error


def json_text(value: Any) -> str:
    """Compact JSON of a value; raises ValueError, TypeError or RecursionError for what is not kept as JSON."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if (size := len(text.encode())) > RESULT_BYTES:
        raise ResultTooLargeError(size)
    if _levels(value) > RESULT_LEVELS:
        raise ResultUnreadableError(f"it is nested deeper than {RESULT_LEVELS} levels")
    return text


def _levels(value: Any) -> int:
    depth, level = 0, [value]
    while level and depth <= RESULT_LEVELS:
        inner = [item for item in level if isinstance(item, (dict, list, tuple))]
        level = [child for item in inner for child in (item.values() if isinstance(item, dict) else item)]
        depth += bool(inner)
    return depth


def _cut(text: str) -> str:
    while len((shown := json.dumps(text, ensure_ascii=False)).encode()) > RESULT_BYTES:
        text = text[: min(len(text) - 1, len(text) * RESULT_BYTES // len(shown.encode()))]
    return shown


def _refuse(constant: str) -> NoReturn:
    raise ResultUnreadableError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ResultUnreadableError(f"{text[:32]} is too large for a number")
    return number
