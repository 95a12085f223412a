"""Calls that are made at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 16
"""Below the connections that a client keeps open (functions/bootstrap.py)."""


def for_all(call: Callable[[T], R], arguments: Iterable[T], *, at_once: int = AT_ONCE) -> list[R]:
    """What it returns for each, in their order; raises what the first one that failed raised, after all were made.

    One after the other, up to the first failure, where there is but one at a time.
    """
    them = list(arguments)
    threads = min(at_once, len(them))
    if threads <= 1:
        return [call(argument) for argument in them]
    with ThreadPoolExecutor(threads) as pool:
        made = [pool.submit(call, argument) for argument in them]
    return [one.result() for one in made]
