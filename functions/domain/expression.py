"""JMESPath (jmespath.org) within bounds: what callers may write, and how much work its evaluation may make.

Expressions are short and results small; yet `[@,@][]` doubles a list, and a hundred in a row would fill any memory.
So every step of an evaluation is counted, and what it makes or compares is counted by its size, before it is made.
What each function costs is in expression_costs.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError, LexerError, ParseError
from jmespath.functions import Functions
from jmespath.lexer import Lexer
from jmespath.visitor import TreeInterpreter

from functions.domain.errors import InvalidFieldError
from functions.domain.expression_costs import (
    PRICES,
    STEPS,
    Effort,
    ExpressionError,
    TooMuchWorkError,
    pay_for_key,
    pay_in_full,
)
from functions.domain.expression_hints import Token, hint_at, hint_for_function, misreading
from functions.domain.target_url import shown_value

__all__ = ["CHARACTERS", "LEVELS", "STEPS", "Effort", "ExpressionError", "TooMuchWorkError", "check", "value_of"]

CHARACTERS = 1_024
"""Longest expression."""
LEVELS = 50
"""Deepest nesting of an expression: brackets, and what its operators make of it."""


def check(expression: str, field: str, *, is_stored: bool = False) -> None:
    """Raise InvalidFieldError for what is no JMESPath, or too long, too deep, calls a function there is not, or does
    not mean what it says. `is_stored`: the job has it already, and keeps its meaning.
    """
    if len(expression) > CHARACTERS:
        raise InvalidFieldError(field, f"has {len(expression)} characters; at most {CHARACTERS} are allowed.")
    shown = shown_value(expression)
    try:
        tokens = _checked_tokens(expression)
        levels = _check_nodes(jmespath.compile(expression).parsed)
    except ParseError as error:
        position = len(expression) if error.lex_position is None else error.lex_position
        what = "the expression ends too early" if position >= len(expression) else f"{shown_value(error.token_value)}"
        hint = hint_at(expression, position)
        advice = "" if hint is None else f" In JMESPath, {hint}."
        message = f"{shown} is no JMESPath: at character {position + 1}, {what}.{advice}"
        raise InvalidFieldError(field, message) from None
    except (JMESPathError, ExpressionError) as error:
        raise InvalidFieldError(field, f"{shown} is no JMESPath that is allowed: {error}") from None
    except RecursionError:
        levels, tokens = LEVELS + 1, []
    if levels > LEVELS:
        raise InvalidFieldError(field, f"{shown} is nested deeper than the {LEVELS} levels that are allowed.")
    if not is_stored and (why := misreading(tokens)) is not None:
        raise InvalidFieldError(field, f"{shown}: {why}.")


def value_of(expression: str, value: Any, effort: Effort | None = None) -> Any:
    """What the expression finds in a value of JSON, None for nothing; raises ExpressionError.

    It may be large where the same part stands in many places, but not larger than the effort.
    """
    effort = effort or Effort()
    try:
        found = _Interpreter(effort).visit(jmespath.compile(expression).parsed, value)
        pay_in_full(found, effort)
    except ExpressionError:
        raise
    # The library itself lets TypeError ('a' < 1), OverflowError (ceil of infinity) and others pass.
    except Exception as error:
        raise ExpressionError(f"it has no value here: {type(error).__name__}") from error
    return found


class _StrictLexer(Lexer):  # type: ignore[misc]  # the library has no types
    """Refuses literals that are no JSON, which the library reads as strings and warns of, or reads as NaN."""

    def _consume_literal(self) -> dict[str, Any]:
        start = self._position
        lexeme = self._consume_until("`").replace("\\`", "`")
        try:
            value = json.loads(lexeme, parse_constant=_refuse)
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except ValueError:
            raise LexerError(start, f"`{lexeme}`", "no JSON") from None
        return {"type": "literal", "value": value, "start": start, "end": self._position}


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


_OPEN, _CLOSE = {"lparen", "lbracket", "lbrace", "filter"}, {"rparen", "rbracket", "rbrace"}


def _checked_tokens(expression: str) -> list[Token]:
    """Raises LexerError, and RecursionError before the parser would recurse too deep."""
    depth, tokens = 0, []
    for token in _StrictLexer().tokenize(expression):
        kind = token["type"]
        depth += (kind in _OPEN) - (kind in _CLOSE)
        if depth > LEVELS:
            raise RecursionError
        tokens.append(token)
    return tokens


def _check_nodes(root: dict[str, Any]) -> int:
    """How deep the parsed expression is; raises ExpressionError for unknown functions and `&` outside of a call."""
    depth, level = 0, [(root, False)]
    while level:
        depth += 1
        level = [
            (child, node["type"] == "function_expression") for node, called in level for child in _inner(node, called)
        ]
    return depth


def _inner(node: dict[str, Any], called: bool) -> Iterator[dict[str, Any]]:
    if node["type"] == "expref" and not called:
        raise ExpressionError("`&` stands before an argument of a function only")
    if node["type"] in ("subexpression", "value_projection") and node["children"][0]["type"] == "not_expression":
        # A field of true or false: always null, and never what was meant.
        raise ExpressionError("`!a.b` is read as `(!a).b`: write `!(a.b)`")
    if node["type"] == "function_expression" and node["value"] not in PRICES:
        hint = hint_for_function(node["value"])
        raise ExpressionError(f"there is no function {shown_value(node['value'])}{'' if hint is None else f': {hint}'}")
    return (child for child in node["children"] if isinstance(child, dict))


class _Functions(Functions):  # type: ignore[misc]  # the library has no types
    def __init__(self, effort: Effort) -> None:
        self._effort = effort

    def call_function(self, name: str, arguments: list[Any]) -> Any:
        """The function's value; its arguments, and what it makes of them, are paid for before."""
        PRICES[name](arguments, self._effort)
        return super().call_function(name, arguments)

    def _create_key_func(self, expression: Any, types: list[str], name: str) -> Callable[[Any], Any]:
        find = super()._create_key_func(expression, types, name)

        def key(element: Any) -> Any:
            found = find(element)
            pay_for_key(name, found, self._effort)
            return found

        return key


class _Interpreter(TreeInterpreter):  # type: ignore[misc]  # the library has no types
    def __init__(self, effort: Effort) -> None:
        super().__init__()
        self._functions = _Functions(effort)
        self._effort = effort

    def visit(self, node: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        self._effort.spend(1)
        return super().visit(node, *args, **kwargs)

    def visit_flatten(self, node: dict[str, Any], value: Any) -> Any:
        found = self.visit(node["children"][0], value)
        if not isinstance(found, list):
            return None
        self._effort.spend(sum(len(item) if isinstance(item, list) else 1 for item in found))
        return [inner for item in found for inner in (item if isinstance(item, list) else (item,))]

    def visit_slice(self, node: dict[str, Any], value: Any) -> Any:
        self._effort.spend(len(value) if isinstance(value, list) else 0)
        return super().visit_slice(node, value)

    def visit_comparator(self, node: dict[str, Any], value: Any) -> Any:
        """As the library's; null, and no error, where a number is ordered against a string."""
        left, right = (self.visit(child, value) for child in node["children"])
        name = node["value"]
        if name not in self._EQUALITY_OPS and not any(
            _is_a(kind, left) and _is_a(kind, right) for kind in ((int, float), (str,))
        ):
            return None
        pay_in_full(left, self._effort)
        pay_in_full(right, self._effort)
        return self.COMPARATOR_FUNC[name](left, right)


def _is_a(kinds: tuple[type, ...], value: Any) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
