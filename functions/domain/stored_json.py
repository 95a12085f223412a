"""JSON text as it is stored: it is judged when it is read, before it goes into an answer, an event or a call.

What this release writes is always readable here. Other text was written by hand, by another release, or is damaged.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

LEVELS = 200
"""Deepest nesting that is read; nothing is stored that is nested as deep."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_stored(text: str) -> Any:
    """The value of a stored JSON text. Raises ValueError for what is not JSON, or what JSON cannot carry everywhere:
    NaN, numbers that overflow, lone surrogates, thousands of digits or levels."""
    try:
        value = _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError(f"nested deeper than {LEVELS} levels") from error
    if text.count("[") + text.count("{") > LEVELS and _is_deep(value):
        raise ValueError(f"nested deeper than {LEVELS} levels")
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()  # UnicodeEncodeError is a ValueError
    return value


def is_readable(text: str) -> bool:
    """Whether `read_stored` reads it."""
    try:
        read_stored(text)
    except ValueError:
        return False
    return True


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(LEVELS):
        level = [
            child
            for node in level
            if isinstance(node, (dict, list))
            for child in (node.values() if isinstance(node, dict) else node)
        ]
    return any(isinstance(node, (dict, list)) for node in level)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:32]} is too large for a number")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
