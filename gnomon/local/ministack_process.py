"""The emulator's process, run by the Python of its own environment.

Left alone, the emulator looks for messages whose delay is over once a second; SQS takes some tens of milliseconds. A
start would be a second late for nothing, so its poller is woken five times a second.

It also holds the answer of a function that logged nothing for 50 ms, in case a line still comes. Lines come before
answers: it waits as long as it does after a line, and a request to the API takes a quarter of the time.
"""

import functools
import threading
import time

from ministack.app import main
from ministack.core.concurrency import esm_wake
from ministack.core.lambda_runtime import Worker

WAKE_SECONDS = 0.2
LOG_SECONDS = 0.005


def wake() -> None:
    while True:
        time.sleep(WAKE_SECONDS)
        esm_wake.set()


def answer_at_once() -> None:
    Worker._drain_stderr_bounded = functools.partialmethod(Worker._drain_stderr_bounded, first_line_wait=LOG_SECONDS)


if __name__ == "__main__":
    answer_at_once()
    threading.Thread(target=wake, name="wake", daemon=True).start()
    main()
