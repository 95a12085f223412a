"""A total time for a call to a target, which holds whatever the other side, a resolver or a library does.

The call runs in its own thread: what cannot be interrupted, such as the resolver, is left behind when its time is over.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class DeadlineError(Exception):
    """The time of the call is over."""


class Deadline:
    """The end of a call."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self._ends - time.monotonic())


def within(seconds: float, work: Callable[[Deadline], T], *, grace: float = 0.0) -> T:
    """What `work` returns or raises; raises DeadlineError when that takes longer than `seconds`.

    Work that is over its time goes on in its thread until it notices: it must ask the deadline before it sends. Work
    that keeps the deadline by itself needs a little `grace`, so that what it returns at its end is taken.
    """
    deadline = Deadline(seconds)
    outcome: Future[T] = Future()
    done = threading.Event()

    def run() -> None:
        try:
            outcome.set_result(work(deadline))
        except Exception as error:  # noqa: BLE001 - carried over to the caller's thread, which raises it
            outcome.set_exception(error)
        finally:
            done.set()

    threading.Thread(target=run, name="target", daemon=True).start()
    if not done.wait(deadline.remaining() + grace):
        raise DeadlineError
    error = outcome.exception()
    if error is not None and not deadline.remaining():
        raise DeadlineError from error  # a timeout of its own was a moment faster
    return outcome.result()
