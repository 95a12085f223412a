"""What to write instead of what people write in JMESPath out of habit: numbers, text, `and`, `=`, `true`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

_INDEX = re.compile(r"\d+")
_NUMBER = re.compile(r"(?<![\w.])-?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"([A-Za-z_]\w*)")
_LAST_WORD = re.compile(r"([A-Za-z_]\w*)\s*$")
_AND, _OR, _NOT = "write && for and", "write || for or", "write !(…) for not"
_EQUAL, _NOT_EQUAL = "write == for equal", "write != for not equal"
_CONTAINS = "write contains(list, value)"
_ARITHMETIC = "there is no arithmetic: compare values that the result has"
_STRAIGHT = "write text in straight single quotes: 'ok'"
_QUOTES = {"'": "single quote", '"': "double quote", "`": "backquote"}
_SYMBOLS = {
    "&": _AND,
    "$": "begin with the name of a field: there is no $",
    "?": "combine conditions by && and ||: there is no ?",
    **dict.fromkeys("+-/%*", _ARITHMETIC),
    **dict.fromkeys("\u2018\u2019\u201c\u201d\u201e", _STRAIGHT),
}
_WORDS = {
    "and": _AND,
    "or": _OR,
    "not": _NOT,
    "is": _EQUAL,
    "eq": _EQUAL,
    "equals": _EQUAL,
    "ne": _NOT_EQUAL,
    "in": _CONTAINS,
    "contains": _CONTAINS,
    "gt": "write > for greater",
    "lt": "write < for less",
}
_FUNCTIONS = {"not": _NOT, "and": _AND, "or": _OR} | dict.fromkeys(("len", "count", "size"), "write length(…)")
_CONSTANTS = ("true", "false", "null")
_LIKE_CONSTANTS = {"none": "null", "nil": "null"} | {name: name for name in _CONSTANTS}
"""Words of other languages, in any case: meant as constants where they are compared."""
_COMPARATORS = frozenset({"eq", "ne", "lt", "lte", "gt", "gte"})
_GOES_ON = frozenset({"dot", "lbracket", "filter", "flatten", "lparen"})
"""Tokens after which a name is only the beginning of an operand."""
_TEXT_ARGUMENTS = {"contains": 1, "starts_with": 1, "ends_with": 1, "join": 0}
"""Functions, and which of their arguments is text as a rule."""

Token = dict[str, Any]


def hint_at(expression: str, position: int) -> str | None:
    """What to write instead of what the parser refused at `position`; None where nobody knows."""
    before, rest = expression[:position], expression[position:]
    if before.endswith(".") and (index := _INDEX.match(rest)):
        return f"write [{index[0]}] for an element of a list"
    for number in _NUMBER.finditer(expression):  # `1e+3` is refused at its `+`
        if number.start() <= position < number.end():
            return f"write numbers in backquotes: `{_as_json(number[0])}`"
    return _hint_at_symbol(before, rest) or _hint_at_word(before, rest)


def _hint_at_symbol(before: str, rest: str) -> str | None:
    here = rest[:1]
    if here == "=":
        return f"write {rest[1]}=" if rest[1:2] in ("<", ">") else _EQUAL
    if here == ">" and before.endswith("<"):
        return _NOT_EQUAL
    if here in _QUOTES:
        is_closed = rest.count(here) > 1
        if here == "`" and is_closed:
            return "write JSON in backquotes, and text in single quotes: 'ok'"
        return None if is_closed else f"close the {_QUOTES[here]}"
    if here == "-" and (word := _LAST_WORD.search(before)) and before.endswith(word[1]):
        rest_of_name = "".join(itertools.takewhile(lambda letter: letter.isalnum() or letter in "-_", rest))
        return f'write a name that has a hyphen in double quotes: "{word[1]}{rest_of_name}"'
    return _SYMBOLS.get(here)


def _hint_at_word(before: str, rest: str) -> str | None:
    """At the word itself, or behind it: `not a` is refused at `a`."""
    for word in (_WORD.match(rest), _LAST_WORD.search(before)):
        if word is not None and (found := _WORDS.get(word[1].lower())) is not None:
            return found
    return None


def hint_for_function(name: str) -> str | None:
    """What to call instead of a function that is not there."""
    return _FUNCTIONS.get(name.lower())


def misreading(tokens: Sequence[Token]) -> str | None:
    """Why a valid expression does not mean what it says: it compares with a field where a value was meant.

    `"ok"` in double quotes and a bare `true` are names of fields, which a result does not have: the comparison would
    never be true. The name of a field stays possible as `@."ok"`.
    """
    for index, token in enumerate(tokens):
        if token["type"] not in ("unquoted_identifier", "quoted_identifier") or not _is_operand(tokens, index):
            continue
        name = str(token["value"])
        constant = _LIKE_CONSTANTS.get(name.lower()) if token["type"] == "unquoted_identifier" else None
        if constant is not None and (name in _CONSTANTS or _is_compared(tokens, index)):
            return f'{name} is the name of a field here. Write `{constant}` for the value, or @."{name}" for the field'
        if token["type"] == "quoted_identifier" and (_is_compared(tokens, index) or _is_text(tokens, index)):
            text = name.replace("\\", "\\\\").replace("'", "\\'")
            return f'"{name}" is the name of a field here. Write \'{text}\' for text, or @."{name}" for the field'
    return None


def _is_operand(tokens: Sequence[Token], index: int) -> bool:
    """Whether the name stands alone: it is neither a part of a longer path nor the key of an object."""
    before: str | None = tokens[index - 1]["type"] if index else None
    after: str = tokens[index + 1]["type"]
    return before != "dot" and after not in _GOES_ON and after != "colon"


def _is_compared(tokens: Sequence[Token], index: int) -> bool:
    """Whether it is compared, and not with a literal: beside one it can only be a field."""
    if tokens[index + 1]["type"] in _COMPARATORS:
        return bool(tokens[index + 2]["type"] != "literal")
    if index and tokens[index - 1]["type"] in _COMPARATORS:
        return index < 2 or tokens[index - 2]["type"] != "literal"
    return False


def _is_text(tokens: Sequence[Token], index: int) -> bool:
    """Whether it is the argument of a function that takes text there."""
    depth, place = 0, 0
    for at in range(index - 1, 0, -1):
        kind = tokens[at]["type"]
        if kind in ("rparen", "rbracket", "rbrace"):
            depth += 1
        elif kind in ("lbracket", "filter", "lbrace"):
            depth -= 1
        elif kind == "comma" and depth == 0:
            place += 1
        elif kind == "lparen" and depth > 0:
            depth -= 1
        elif kind == "lparen":
            around = {tokens[index - 1]["type"], tokens[index + 1]["type"]}
            is_alone = depth == 0 and around <= {"lparen", "comma", "rparen"}
            return is_alone and _TEXT_ARGUMENTS.get(tokens[at - 1]["value"]) == place
    return False


def _as_json(number: str) -> str:
    sign, digits = ("-", number[1:]) if number.startswith("-") else ("", number)
    digits = digits.lstrip("0") or "0" if digits.isdigit() else digits
    return f"{sign}{'0' if digits.startswith('.') else ''}{digits}"
