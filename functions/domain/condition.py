"""Conditions over the result of a parent's run: JMESPath, with its own idea of what is true."""

from __future__ import annotations

import json

from functions.domain.expression import ExpressionError, value_of


def holds(expression: str, result: str | None) -> bool:
    """Whether the expression is true of the result, JSON text or None; one that has no value there is not.

    False, null, and what is empty ("", [], {}) are false; all else, 0 too, is true (JMESPath, "Or Expressions").
    """
    try:
        value = value_of(expression, None if result is None else json.loads(result))
    except (ExpressionError, ValueError, RecursionError):
        return False
    return value is not None and value is not False and not (isinstance(value, (str, list, dict)) and not value)
