"""When a target that keeps failing is left alone (docs/job-lifecycle.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitPolicy:
    """Field names are the contract's, in snake case."""

    failure_threshold: int = 5
    """Failures one after another that open the circuit."""
    open_seconds: int = 30
    """How long it stays open before one probe is let through."""
    success_threshold: int = 1
    """Probes that must succeed one after another to close it."""

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> CircuitPolicy:
        """Read a stored `circuitBreaker`; what it leaves out is the default."""
        return cls(
            failure_threshold=int(config.get("failureThreshold", 5)),
            open_seconds=int(config.get("openSeconds", 30)),
            success_threshold=int(config.get("successThreshold", 1)),
        )
