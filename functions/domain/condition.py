"""Conditions over the result of a parent's run: JMESPath, with its own idea of what is true."""

from __future__ import annotations

import json

import jmespath
from jmespath.exceptions import JMESPathError

_FALSE: tuple[object, ...] = (None, False, "", [], {})


def holds(expression: str, result: str | None) -> bool:
    """Whether the expression is true of the result, JSON text or None; one that fails on it is not."""
    try:
        value = jmespath.search(expression, None if result is None else json.loads(result))
    except (JMESPathError, ValueError, RecursionError):
        return False
    return not any(value is false or (value == false and type(value) is type(false)) for false in _FALSE)
