"""What the evaluation of an expression costs: steps for all that it reads in full, and for all that it makes.

A step is about a microsecond, or 32 letters. Each function of JMESPath has its price here. One without a price is not
allowed, so that no release of the library brings in a function that is free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

STEPS = 100_000
"""Steps of one evaluation; a tenth of a second, about, and 3 MB of text."""
LOOK_STEPS = 500_000
"""Steps that all conditions of one dependency check may take together, half a second: calls of other owners' jobs share
the processor."""
_LETTERS_A_STEP = 32
_BITS_A_STEP = 106
"""Of an integer: they are written as 32 digits."""
_LETTERS_OF_ESCAPE = 12
"""The most in which JSON writes one letter: the two halves of what is outside of Unicode's first plane."""
_ROUNDS_OF_SORT = STEPS.bit_length()
"""How often a key is compared when a list is sorted, at most."""


class ExpressionError(ValueError):
    """The expression has no value here: it does not fit what it is applied to, or takes too much work."""


class TooMuchWorkError(ExpressionError):
    """The expression takes more steps than are left for it."""


class Effort:
    """The steps that are left for one evaluation, or for several together; `within` those that others leave."""

    def __init__(self, steps: int = STEPS, within: Effort | None = None) -> None:
        self._left, self._within = steps, within

    def spend(self, steps: int) -> None:
        """Raises TooMuchWorkError where no more are left."""
        self._left -= steps
        if self._left < 0:
            raise TooMuchWorkError("it takes too much work")
        if self._within is not None:
            self._within.spend(steps)


def pay_in_full(value: Any, effort: Effort, *, letters: int = 1) -> None:
    """Pay for every value within, those that stand in several places each time: so they are compared and written.

    `letters`: how many are written for one.
    """
    left = [value]
    while left:
        one = left.pop()
        effort.spend(_weight(one) * letters)
        if isinstance(one, (list, dict)):
            effort.spend(len(one))
        if isinstance(one, list):
            left.extend(one)
        elif isinstance(one, dict):
            effort.spend(sum(map(_weight, one)) * letters)
            left.extend(one.values())


def pay_for_key(function: str, key: Any, effort: Effort) -> None:
    """Pay for the key by which `sort_by`, `min_by` or `max_by` orders one element."""
    effort.spend(_weight(key) * (_ROUNDS_OF_SORT if function == "sort_by" else 1))


def _weight(value: Any) -> int:
    """Steps to read or to copy a text or a number; what is within a list or an object does not count."""
    if isinstance(value, str):
        return len(value) // _LETTERS_A_STEP
    return value.bit_length() // _BITS_A_STEP if isinstance(value, int) else 0


def _free(arguments: Sequence[Any], effort: Effort) -> None:
    """It reads only how much there is, or evaluates an expression for each element, each of which is a step."""


def _entries(arguments: Sequence[Any], effort: Effort) -> None:
    """It copies, or passes over, the entries of lists and objects, and texts and numbers themselves."""
    for argument in arguments:
        effort.spend(len(argument) if isinstance(argument, (list, dict)) else _weight(argument))


def _ordered(arguments: Sequence[Any], effort: Effort) -> None:
    """It compares the elements of a list."""
    _entries(arguments, effort)
    effort.spend(sum(_weight(element) for argument in arguments if isinstance(argument, list) for element in argument))


def _sorted(arguments: Sequence[Any], effort: Effort) -> None:
    _entries(arguments, effort)
    for argument in arguments:
        if isinstance(argument, list):
            effort.spend(sum(map(_weight, argument)) * len(argument).bit_length())


def _in_full(arguments: Sequence[Any], effort: Effort) -> None:
    """It compares or copies all that is within."""
    for argument in arguments:
        pay_in_full(argument, effort)


def _joined(arguments: Sequence[Any], effort: Effort) -> None:
    _in_full(arguments, effort)
    if len(arguments) == 2 and isinstance(arguments[0], str) and isinstance(arguments[1], list):
        effort.spend(len(arguments[0]) * len(arguments[1]) // _LETTERS_A_STEP)


def _written(arguments: Sequence[Any], effort: Effort) -> None:
    """It writes all that is within as JSON in ASCII."""
    for argument in arguments:
        pay_in_full(argument, effort, letters=1 if isinstance(argument, str) else _LETTERS_OF_ESCAPE)


PRICES: Mapping[str, Callable[[Sequence[Any], Effort], None]] = {
    "abs": _entries,
    "avg": _entries,
    "ceil": _entries,
    "contains": _in_full,
    "ends_with": _entries,
    "floor": _entries,
    "join": _joined,
    "keys": _entries,
    "length": _free,
    "map": _free,
    "max": _ordered,
    "max_by": _free,
    "merge": _entries,
    "min": _ordered,
    "min_by": _free,
    "not_null": _free,
    "reverse": _entries,
    "sort": _sorted,
    "sort_by": _free,
    "starts_with": _entries,
    "sum": _entries,
    "to_array": _free,
    "to_number": _entries,
    "to_string": _written,
    "type": _free,
    "values": _entries,
}
"""What is paid for a call before it is made, by the function's name."""
