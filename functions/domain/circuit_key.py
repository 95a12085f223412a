"""Which jobs share a circuit: those of one owner, one job type and one target (docs/job-lifecycle.md, "Circuits").

A key reads `<target>@<owner>`, `<target>~<job type>@<owner>` for jobs with a type, and `<target>` alone for a circuit
that all owners share because the stage lists its target. Targets contain neither `@` nor `~`.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote

from functions.domain.caller import MAX_OWNER_BYTES

MAX_NAME_BYTES = 1_024
"""Longest sort key in DynamoDB: target and type. A host has at most 253 characters, a type 64."""
_SAFE = "!$&'()*+,:;=@|"
"""Characters besides letters, digits and `_.-~` that are not escaped in a type's or an owner's part of a key."""


class CircuitKey(NamedTuple):
    target: str
    """As `circuit.target_key` names it."""
    job_type: str | None = None
    owner: str | None = None
    """None for a circuit that all owners share."""

    def __str__(self) -> str:
        return self.name if self.owner is None else f"{self.name}@{quote(self.owner, safe=_SAFE)}"

    @property
    def name(self) -> str:
        """The key within its owner's circuits."""
        return self.target if self.job_type is None else f"{self.target}~{quote(self.job_type, safe=_SAFE)}"

    @classmethod
    def parse(cls, key: str) -> CircuitKey:
        """Read a key; raises ValueError for a text that is not the key of a circuit."""
        name, at, owner = key.partition("@")
        read = cls.within(unquote(owner) if at else None, name)
        fits = len(name.encode()) <= MAX_NAME_BYTES and len(unquote(owner).encode()) <= MAX_OWNER_BYTES
        if not fits or not read.target or str(read) != key or read.owner == "":
            raise ValueError(f"{key!r:.80} is not the key of a circuit")
        return read

    @classmethod
    def within(cls, owner: str | None, name: str) -> CircuitKey:
        """The key of this name among the owner's circuits; None for those that all owners share."""
        target, tilde, job_type = name.partition("~")
        return cls(target, unquote(job_type) if tilde else None, owner)
