"""Whether and when a failed attempt is repeated (docs/job-lifecycle.md)."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Uniform = Callable[[float, float], float]
"""`random.uniform`, or a test's own."""

_LARGEST_GROWTH = 700
"""Natural logarithm of the largest factor that a float holds, nearly: even the smallest delay has reached its cap."""


POISON_AT = 3
"""Attempts in a row with the same error after which a run with `poisonDetection` is given up."""


class BackoffStrategy(enum.StrEnum):
    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    FIXED = "fixed"


class Failure(NamedTuple):
    """What went wrong with an attempt, as far as retrying asks."""

    error_code: str
    retryable: bool = True
    """False for what is not retryable by nature."""
    retry_after: int | None = None
    """Seconds the target asked us to wait."""


class RetryDecision(NamedTuple):
    next_retry_at: int | None
    """When the next attempt starts, epoch seconds; None when the failure is final."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Field names are the contract's, in snake case. Delays are seconds."""

    max_retries: int = 3
    backoff_strategy: BackoffStrategy = BackoffStrategy.EXPONENTIAL
    initial_delay_seconds: float = 10
    max_delay_seconds: float = 300
    multiplier: float = 2.0
    jitter: float = 0.2
    retryable_errors: frozenset[str] = frozenset()
    """Error codes worth a retry; empty means all that are retryable by nature."""
    non_retryable_errors: frozenset[str] = frozenset()
    retry_window_seconds: int | None = None
    """No retry starts later than the slot plus this."""
    poison_detection: bool = False
    """The same error POISON_AT times in a row is final."""

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> RetryPolicy:
        """Read the fields of a `retryConfig`; what they leave out is the default of docs/http-api.md."""
        window = config.get("retryWindowSeconds")
        return cls(
            max_retries=int(config.get("maxRetries", 3)),
            backoff_strategy=BackoffStrategy(config.get("backoffStrategy", "exponential")),
            initial_delay_seconds=float(config.get("initialDelaySeconds", 10)),
            max_delay_seconds=float(config.get("maxDelaySeconds", 300)),
            multiplier=float(config.get("multiplier", 2.0)),
            jitter=float(config.get("jitter", 0.2)),
            retryable_errors=frozenset(config.get("retryableErrors", ())),
            non_retryable_errors=frozenset(config.get("nonRetryableErrors", ())),
            retry_window_seconds=None if window is None else int(window),
            poison_detection=bool(config.get("poisonDetection", False)),
        )

    def delay(self, retry: int, *, uniform: Uniform, retry_after: int | None = None) -> int:
        """Seconds before retry `retry` (1, 2, …), rounded up.

        Capped before the power can overflow, then jittered, then clamped to [1, max]. A target's `Retry-After`
        raises it, up to the maximum.
        """
        jittered = self._base(retry) * uniform(1 - self.jitter, 1 + self.jitter)
        asked = max(jittered, retry_after or 0)
        # The floor of one second wins over a maximum below it.
        return math.ceil(max(1.0, min(asked, self.max_delay_seconds)))

    def _base(self, retry: int) -> float:
        initial, cap = self.initial_delay_seconds, self.max_delay_seconds
        if initial <= 0:
            return 0.0
        if self.backoff_strategy is BackoffStrategy.FIXED:
            return min(initial, cap)
        if self.backoff_strategy is BackoffStrategy.LINEAR:
            return min(initial * retry, cap)
        # In logarithms, of each by itself: neither the power nor the quotient can overflow.
        growth = (retry - 1) * math.log(self.multiplier)
        if growth > min(math.log(max(cap, initial)) - math.log(initial), _LARGEST_GROWTH):
            return cap
        return min(initial * self.multiplier ** (retry - 1), cap)

    def allows(self, error_code: str) -> bool:
        """Whether the caller's lists let this error be retried. `HANDLER_ERROR` also names all its classes."""
        codes = {error_code, error_code.split(":", 1)[0]}
        if codes & self.non_retryable_errors:
            return False
        return not self.retryable_errors or bool(codes & self.retryable_errors)

    def is_over(self, slot: int, *, now: float) -> bool:
        """Whether it is too late to start a retry of the run for `slot`."""
        return self.retry_window_seconds is not None and int(now) > slot + self.retry_window_seconds

    def decide(
        self, failure: Failure, *, attempt: int, attempt_limit: int, slot: int, now: float, uniform: Uniform
    ) -> RetryDecision:
        """Whether attempt `attempt` of the run for `slot`, which failed `now`, is followed by another, and when."""
        if not failure.retryable or not self.allows(failure.error_code):
            return RetryDecision(None, "NOT_RETRYABLE")
        if attempt >= attempt_limit:
            return RetryDecision(None, "RETRIES_EXHAUSTED")
        at = math.ceil(now) + self.delay(attempt, uniform=uniform, retry_after=failure.retry_after)
        if self.retry_window_seconds is not None and at > slot + self.retry_window_seconds:
            return RetryDecision(None, "RETRY_WINDOW_OVER")
        return RetryDecision(at, "RETRY_SCHEDULED")
