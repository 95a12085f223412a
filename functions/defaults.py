"""What holds where neither a job nor its type says anything: the stage's settings, in the domain's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.domain.circuit import CircuitPolicy
from functions.domain.job_type import TypeConfig

if TYPE_CHECKING:
    from functions.settings import CircuitRules, RetryDefaults


def stage_defaults(retry: RetryDefaults, circuits: CircuitRules) -> TypeConfig:
    """What the stage says of retries, in the words of the contract, and of circuits."""
    return TypeConfig(
        retry={
            "maxRetries": retry.max_retries,
            "backoffStrategy": retry.backoff_strategy,
            "initialDelaySeconds": retry.initial_delay_seconds,
            "maxDelaySeconds": retry.max_delay_seconds,
            "multiplier": retry.multiplier,
            "jitter": retry.jitter,
        },
        stage_circuit=CircuitPolicy(
            failure_threshold=circuits.failure_threshold,
            open_seconds=circuits.open_seconds,
            success_threshold=circuits.success_threshold,
        ),
        shared_circuits=frozenset(circuits.shared),
    )
