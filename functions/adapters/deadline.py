"""A total time for a call to a target, which holds whatever the other side does.

Timeouts of sockets count from one byte to the next: a server that sends a byte a second never meets one. So the call
runs in a thread of its own, and when its time is over its socket is shut down and the caller goes on at once.
"""

from __future__ import annotations

import socket
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
    """Ends a call after a number of seconds."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._over = False
        self._socket: socket.socket | None = None

    def remaining(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self._ends - time.monotonic())

    def watch(self, sock: socket.socket) -> None:
        """Shut this socket down when the time is over; raises DeadlineError when it is over already."""
        with self._lock:
            if self._over:
                raise DeadlineError
            self._socket = sock

    def end(self) -> None:
        """The time is over: nothing more can be sent or received."""
        with self._lock:
            self._over = True
            if self._socket is not None:
                _shut_down(self._socket)


def within(seconds: float, work: Callable[[Deadline], T]) -> T:
    """What `work` returns or raises; raises DeadlineError when that takes longer than `seconds`.

    Work that is over its time goes on in its thread until it notices: it must ask the deadline before it sends.
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
    if not done.wait(deadline.remaining()):
        deadline.end()
        raise DeadlineError
    error = outcome.exception()
    if error is not None and not deadline.remaining():
        raise DeadlineError from error  # the socket's own timeout was a moment faster
    return outcome.result()


def _shut_down(sock: socket.socket) -> None:
    try:
        # Not SSLSocket.shutdown, which would drop the TLS state under the thread that reads.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:
        # Not connected yet, or closed by now: there is nothing left to wait for.
        return
