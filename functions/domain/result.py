"""What is kept of a target's answer: JSON text of at most 32 KB."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

RESULT_BYTES = 32_768
"""Longest result, in bytes of UTF-8."""
TOO_LARGE = "RESULT_TOO_LARGE"
"""Error code of an execution whose result was too large to be kept, whether the attempt failed for it or not."""
RESULT_LEVELS = 100
"""Deepest nesting of a result."""


class ResultTooLargeError(ValueError):
    """A result is larger than is kept."""

    def __init__(self, size: int, *, at_least: bool = False) -> None:
        super().__init__(f"{'over ' * at_least}{size} bytes of JSON; at most {RESULT_BYTES} are kept")
        self.size = size


def kept_result(body: bytes, *, declared: bool = False, whole: bool = True) -> str | None:
    """An answer as JSON text: JSON up to 32 KB is kept (in compact form), None for nothing or `null`.

    `declared`: the answer says that it is JSON; `whole`: `body` is all of it. Raises ResultTooLargeError for declared
    JSON that is larger, or is not whole: nothing of it is kept. Everything else (no JSON, not declared and larger,
    deeper than 100 levels, numbers or characters JSON cannot carry) becomes a JSON string of its text, cut to 32 KB: a
    string, never a part of the JSON that it was.
    """
    if declared and not whole:
        raise ResultTooLargeError(len(body), at_least=True)
    text = _text(body)
    if text is None:
        return None
    try:
        return _read(text)
    except ResultTooLargeError:
        if declared:
            raise
        return _cut(text)
    except (ValueError, RecursionError):
        return _cut(text)


def whole_result(body: bytes) -> str | None:
    """A result as JSON text, as `kept_result` makes it; raises ResultTooLargeError for what that would cut."""
    text = _text(body)
    if text is None:
        return None
    try:
        return _read(text)
    except ResultTooLargeError:
        raise
    except (ValueError, RecursionError):
        shown = json.dumps(text, ensure_ascii=False)
    if (size := len(shown.encode())) > RESULT_BYTES:
        raise ResultTooLargeError(size)
    return shown


def _text(body: bytes) -> str | None:
    text = body.decode("utf-8-sig", "replace").strip()
    return None if not text or text == "null" else text


def _read(text: str) -> str:
    return json_text(json.loads(text, parse_constant=_refuse, parse_float=_finite))


def json_text(value: Any) -> str:
    """Compact JSON of a value; raises ValueError, TypeError or RecursionError for what is not kept as JSON."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if (size := len(text.encode())) > RESULT_BYTES:
        raise ResultTooLargeError(size)
    if _levels(value) > RESULT_LEVELS:
        raise ValueError(f"JSON nested deeper than {RESULT_LEVELS} levels")
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
    raise ValueError(f"{constant} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:32]} is too large for a number")
    return number
