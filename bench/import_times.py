"""Row 3: what importing costs each handler, by package (`python -X importtime`)."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench.handlers import INIT, in_a_fresh_interpreter, is_standard, start, top_level
from bench.measuring import pinned

ROUNDS = 3
STANDARD = "(standard library)"
OURS = "functions"

_BEGIN = "--- begin ---"
_LINE = re.compile(r"import time:\s*(\d+) \|\s*\d+ \|\s*(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTime:
    """Milliseconds; a package's time is that of its own modules, not of what they import."""

    handler: str
    packages: Mapping[str, float]
    """Third-party packages, slowest first."""
    standard: float
    ours: float

    @property
    def third_party(self) -> float:
        return sum(self.packages.values())


def measure_imports(*, rounds: int = ROUNDS) -> list[ImportTime]:
    with pinned():
        return [_measured(handler, rounds) for handler in INIT]


def by_package(report: Iterable[str]) -> dict[str, float]:
    """Milliseconds by package, from the lines that Python wrote after the start."""
    spent: defaultdict[str, float] = defaultdict(float)
    begun = False
    for line in report:
        begun = begun or line == _BEGIN
        found = _LINE.match(line)
        if begun and found:
            name = found[2]
            spent[STANDARD if is_standard(name) else top_level(name)] += int(found[1]) / 1000
    return dict(spent)


def _measured(handler: str, rounds: int) -> ImportTime:
    code = f"import sys\nprint({_BEGIN!r}, file=sys.stderr)\n{start(handler)}"
    reports = [by_package(in_a_fresh_interpreter(code, "-X", "importtime").stderr.splitlines()) for _ in range(rounds)]
    spent = {name: statistics.median(report[name] for report in reports) for name in reports[0]}
    standard, ours = spent.pop(STANDARD, 0.0), spent.pop(OURS, 0.0)
    return ImportTime(
        handler=handler,
        packages=dict(sorted(spent.items(), key=lambda one: -one[1])),
        standard=standard,
        ours=ours,
    )
