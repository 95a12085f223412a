"""The smallest part of a story that still breaks the same promise."""

from __future__ import annotations

import shlex
import time

from tests.simulation.story import Told, tell


def shrunk(told: Told, *, seconds: float) -> str:
    """Leave out actions, weather and faults while the story still fails; what is left, and how to replay it.

    First halves, then smaller and smaller parts (delta debugging), for at most so many seconds.
    """
    assert told.violation is not None
    until, rule = time.monotonic() + seconds, told.violation.rule
    kept, size = list(dict.fromkeys(told.met)), max(1, len(told.met) // 2)
    while kept and time.monotonic() < until:
        for start in range(0, len(kept), size):
            fewer = kept[:start] + kept[start + size :]
            again = tell(told.seed, only=frozenset(fewer))
            if again.violation is not None and again.violation.rule == rule:
                told, kept = again, list(dict.fromkeys(again.met))
                break
        else:
            if size == 1:
                break
            size = max(1, size // 2)
        size = min(size, max(1, len(kept)))
    only = ",".join(kept)
    lines = [f"seed {told.seed} breaks: {told.violation}", f"with {len(kept)} things taking part:", *map(str, kept)]
    return "\n".join([*lines, "replay:", f"  python -m tests.simulation --seed {told.seed} --only {shlex.quote(only)}"])
