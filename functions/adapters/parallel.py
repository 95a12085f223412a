"""Calls of one client that are made at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

AT_ONCE = 16
"""Below the connections that a client keeps open (functions/bootstrap.py)."""


def for_all(call: Callable[[T], object], arguments: Sequence[T]) -> None:
    """Call it with each; raises what the first one that failed raised, after all of them were made."""
    if len(arguments) <= 1:
        for argument in arguments:
            call(argument)
        return
    with ThreadPoolExecutor(min(AT_ONCE, len(arguments))) as pool:
        made = [pool.submit(call, argument) for argument in arguments]
    for one in made:
        one.result()
