"""One way in which the code is broken on purpose."""

from __future__ import annotations

from dataclasses import dataclass

SIMULATION = "simulation"
GRAPHS = "graphs"
"""Stories of graphs."""


@dataclass(frozen=True)
class Mutant:
    name: str
    what: str
    edits: tuple[tuple[str, str, str], ...]
    """(module path below functions/, text, replacement)."""
    by: str = SIMULATION
    """What must notice: stories of the simulation, or a file of tests, or one test of it (`file.py::test_name`)."""
    seed: int = 0
    """The story to begin with: one that caught it, where it takes many to find one."""
    rule: str = ""
    """The rule of docs/protocol.md that it breaks, such as "V4" or "1.3 step back": CI plays one mutant for each of the
    most important rules, and it takes 3 seconds at most. `make nightly` plays the others."""


def m(
    name: str, what: str, *edits: tuple[str, str, str], by: str = SIMULATION, seed: int = 0, rule: str = ""
) -> Mutant:
    return Mutant(name, what, edits, by, seed, rule)
