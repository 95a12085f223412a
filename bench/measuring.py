"""Times that can be compared on a machine that does other things too.

CPU time and not wall time, one processor, no garbage collection inside a measurement, what is compared interleaved
in ever another order, ratios taken round by round, and of all rounds the median with its quartiles.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of what was measured, in its own unit."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Raises StatisticsError for fewer than two values."""
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high)


@contextmanager
def pinned() -> Iterator[None]:
    """On one processor, where the system can do that (Linux): no caches are lost on the way to another."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_seconds(work: Callable[[], object], *, times: int) -> float:
    """CPU seconds of one call, over so many."""
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        for _ in range(times):
            work()
        return (time.process_time() - began) / times
    finally:
        gc.enable()


def interleaved(measures: Mapping[str, Callable[[], float]], *, rounds: int) -> dict[str, list[float]]:
    """Each measure once a round, begun by another one each time; the values by name, in the order of rounds."""
    names = list(measures)
    values: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            values[name].append(measures[name]())
    return values


def ratios(above: Sequence[float], below: Sequence[float]) -> Spread:
    """What one is of the other, round by round."""
    return Spread.of([one / other for one, other in zip(above, below, strict=True)])
