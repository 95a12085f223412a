"""Conditions over the result of a parent's run: JMESPath, with its own idea of what is true."""

from __future__ import annotations

import json

from functions.domain.expression import Effort, ExpressionError, TooMuchWorkError, value_of


def holds(expression: str, result: str | None, look: Effort | None = None) -> bool:
    """Whether the expression is true of the result, JSON text or None; one that has no value there is not.

    False, null, and what is empty ("", [], {}) are false; all else, 0 too, is true (JMESPath, "Or Expressions").
    `look`: the steps that are left for it and the conditions after it. Raises TooMuchWorkError where it takes more.
    """
    try:
        value = value_of(expression, None if result is None else json.loads(result), Effort(within=look))
    except TooMuchWorkError:
        raise
    except (ExpressionError, ValueError, RecursionError):
        return False
    return value is not None and value is not False and not (isinstance(value, (str, list, dict)) and not value)
