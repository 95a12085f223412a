"""The emulator's process, run by the Python of its own environment.

Left alone, the emulator looks for messages whose delay is over once a second; SQS takes some tens of milliseconds. A
start would be a second late for nothing, so its poller is woken five times a second.
"""

import threading
import time

from ministack.app import main
from ministack.core.concurrency import esm_wake

WAKE_SECONDS = 0.2


def wake() -> None:
    while True:
        time.sleep(WAKE_SECONDS)
        esm_wake.set()


if __name__ == "__main__":
    threading.Thread(target=wake, name="wake", daemon=True).start()
    main()
