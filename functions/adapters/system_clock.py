"""The clock of the machine."""

from __future__ import annotations

import time


class SystemClock:
    """Clock."""

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))
