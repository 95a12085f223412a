"""Conditions over the result of a parent's run: JMESPath, with its own idea of what is true."""

from __future__ import annotations

import json

import jmespath
from jmespath.exceptions import ArityError, JMESPathError, ParseError, UnknownFunctionError

from functions.domain.errors import InvalidFieldError
from functions.domain.zones import shown

_FALSE: tuple[object, ...] = (None, False, "", [], {})


def holds(expression: str, result: str | None) -> bool:
    """Whether the expression is true of the result, JSON text or None; one that fails on it is not."""
    try:
        value = jmespath.search(expression, None if result is None else json.loads(result))
    except (JMESPathError, ValueError, RecursionError):
        return False
    return not any(value is false or (value == false and type(value) is type(false)) for false in _FALSE)


def check_expression(expression: str, field: str) -> None:
    """Raise InvalidFieldError, saying where it is wrong, for what is no JMESPath expression."""
    problem = _problem(expression)
    if problem is not None:
        raise InvalidFieldError(field, f"{shown(expression)} is no JMESPath expression: {problem}.")


def _problem(expression: str) -> str | None:
    try:
        compiled = jmespath.compile(expression)
    except ParseError as error:
        return f"it cannot be read from character {error.lex_position + 1} on"
    except JMESPathError:
        return "it is empty"
    except RecursionError:
        return "it is nested too deeply"
    try:
        compiled.search(None)
    except (UnknownFunctionError, ArityError) as error:
        return str(error)
    except (JMESPathError, RecursionError):
        pass  # of the value, which is another when it counts
    return None
