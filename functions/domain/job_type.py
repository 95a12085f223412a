"""What holds for all jobs of a type where they say nothing themselves (docs/job-lifecycle.md, "Job types")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from functions.domain.circuit import CircuitPolicy
from functions.domain.errors import CorruptDefinitionError
from functions.domain.retry import RetryPolicy

_APART = ("circuitBreaker", "maxConcurrency")
"""Fields of a type's document that are no fields of `retryConfig`."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeConfig:
    """Each part holds, field by field, what was configured; what is absent is left to whoever comes after."""

    retry: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """Fields of a `retryConfig`."""
    circuit_breaker: Mapping[str, Any] | None = None
    """Fields of a type's `circuitBreaker`; None: the type asks for none."""
    stage_circuit: CircuitPolicy = field(default_factory=CircuitPolicy)
    """When circuits open and close where the type says nothing."""
    shared_circuits: frozenset[str] = frozenset()
    """Targets whose circuit the jobs of all owners share. It follows the stage, whatever their types say."""
    max_concurrency: int | None = None
    """Attempts of all the type's jobs that may run at the same time; None: any number."""

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> TypeConfig:
        """Read a document that was checked before it was stored; raises CorruptDefinitionError."""
        try:
            CircuitPolicy().under(document.get("circuitBreaker") or {})
            retry = {name: value for name, value in document.items() if name not in _APART}
            RetryPolicy.read(retry)
            circuit, limit = document.get("circuitBreaker"), document.get("maxConcurrency")
            return cls(
                retry=retry,
                circuit_breaker=None if circuit is None else dict(circuit),
                max_concurrency=None if limit is None else int(limit),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptDefinitionError("The stored configuration of a job type cannot be read.") from error

    def over(self, defaults: TypeConfig) -> TypeConfig:
        """This configuration, and what `defaults` say where it says nothing."""
        return replace(
            defaults,
            retry={**defaults.retry, **self.retry},
            circuit_breaker=defaults.circuit_breaker if self.circuit_breaker is None else self.circuit_breaker,
            max_concurrency=defaults.max_concurrency if self.max_concurrency is None else self.max_concurrency,
        )

    def circuit_for(self, target: str) -> CircuitPolicy:
        """What holds for the circuit of a target that one of the type's jobs calls."""
        if target in self.shared_circuits:
            return replace(self.stage_circuit, shared=True)
        return self.stage_circuit.under(self.circuit_breaker or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTypeConfig:
    """A type's configuration as it is kept, and who put it there."""

    job_type: str
    document: Mapping[str, Any]
    """What the caller wrote: the contract's JSON."""
    updated_at: int
    """Epoch seconds."""
    updated_by: str
    """Id of the caller."""
