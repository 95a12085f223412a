"""What a person sees of a long step, and how one fails: with what to do. Standard library only."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class LocalError(Exception):
    """The local run cannot go on; the message says what is wrong, `advice` what to do about it."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


@contextlib.contextmanager
def step(title: str) -> Iterator[None]:
    """Show a step: on a terminal with its running time, elsewhere as one line when it ends."""
    started = time.monotonic()
    ended = threading.Event()
    ticker = threading.Thread(target=_tick, args=(title, started, ended), daemon=True)
    if sys.stderr.isatty():
        ticker.start()
    mark = "failed"
    try:
        yield
        mark = "ok"
    finally:
        ended.set()
        if ticker.is_alive():
            ticker.join()
        start_of_line = "\r" if sys.stderr.isatty() else ""
        print(
            f"{start_of_line}  {title:<58} {mark:>6} {time.monotonic() - started:7.1f} s", file=sys.stderr, flush=True
        )


def exit_code(work: Callable[[], None]) -> int:
    """Run a command's work; 0, or 1 after the error was shown."""
    try:
        work()
    except LocalError as error:
        print(f"\nerror: {error}", file=sys.stderr)
        if error.advice:
            print(f"{error.advice}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    return 0


def _tick(title: str, started: float, ended: threading.Event) -> None:
    while not ended.wait(0.5):
        sys.stderr.write(f"\r  {title:<58} {'…':>6} {time.monotonic() - started:7.1f} s")
        sys.stderr.flush()
