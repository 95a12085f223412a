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
    seed: int = 0
    """The story to begin with: one that caught it, where it takes many to find one."""


def m(name: str, what: str, *edits: tuple[str, str, str], by: str = SIMULATION, seed: int = 0) -> Mutant:
    return Mutant(name, what, edits, by, seed)
