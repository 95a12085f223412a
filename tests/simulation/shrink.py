"""The smallest part of a story that still breaks the same promise."""

from __future__ import annotations

import shlex
import time
from typing import Protocol

from tests.simulation.story import Told


class Play(Protocol):
    """How the story of a seed is played."""

    def __call__(self, seed: int, *, only: frozenset[str] | None = None, traced: bool = False) -> Told: ...


def shrunk(told: Told, play: Play, *flags: str, seconds: float) -> str:
    """Leave out actions, weather and faults while the story still fails; what is left, and how to replay it.

    First halves, then smaller and smaller parts (delta debugging), for at most so many seconds.
    """
    assert told.violation is not None
    until, rule = time.monotonic() + seconds, told.violation.rule
    kept, size = list(dict.fromkeys(told.met)), max(1, len(told.met) // 2)
    while kept and time.monotonic() < until:
        for start in range(0, len(kept), size):
            fewer = kept[:start] + kept[start + size :]
            again = play(told.seed, only=frozenset(fewer))
            if again.violation is not None and again.violation.rule == rule:
                told, kept = again, list(dict.fromkeys(again.met))
                break
        else:
            if size == 1:
                break
            size = max(1, size // 2)
        size = min(size, max(1, len(kept)))
    only = shlex.quote(",".join(kept))
    replay = " ".join(["python -m tests.simulation", *flags, f"--seed {told.seed} --only {only}"])
    lines = [f"seed {told.seed} breaks: {told.violation}", f"with {len(kept)} things taking part:", *map(str, kept)]
    return "\n".join([*lines, "replay:", f"  {replay}"])
