"""Whether and when a failed attempt is repeated: the pure decision."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.retry import BackoffStrategy, Failure, RetryPolicy
from tests.factories import NOW


def lowest(low: float, high: float) -> float:
    return low


def highest(low: float, high: float) -> float:
    return high


def middle(low: float, high: float) -> float:
    return (low + high) / 2


def policy(**config: Any) -> RetryPolicy:
    return RetryPolicy.read(config)


@pytest.mark.case(9)
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"backoffStrategy": "fixed"}, [10, 10, 10, 10]),
        ({"backoffStrategy": "linear"}, [10, 20, 30, 40]),
        ({"initialDelaySeconds": 1}, [1, 2, 4, 8]),
        ({"initialDelaySeconds": 1, "multiplier": 1}, [1, 1, 1, 1]),
        ({"initialDelaySeconds": 100, "multiplier": 10}, [100, 300, 300, 300]),
        ({"backoffStrategy": "linear", "initialDelaySeconds": 200}, [200, 300, 300, 300]),
        ({"backoffStrategy": "fixed", "initialDelaySeconds": 900}, [300, 300, 300, 300]),
        ({"backoffStrategy": "fixed", "initialDelaySeconds": 0}, [1, 1, 1, 1]),
        ({"backoffStrategy": "fixed", "initialDelaySeconds": 0.5}, [1, 1, 1, 1]),
        ({"backoffStrategy": "fixed", "initialDelaySeconds": 2.5}, [3, 3, 3, 3]),
    ],
)
def test_delays(config: dict[str, Any], expected: list[int]) -> None:
    found = policy(jitter=0, **config)
    assert [found.delay(retry, uniform=middle) for retry in (1, 2, 3, 4)] == expected


@pytest.mark.case(10)
@pytest.mark.parametrize(
    ("config", "retry", "expected"),
    [
        ({"initialDelaySeconds": 1, "multiplier": 2, "maxDelaySeconds": 3_600}, 1_100, 3_600),
        ({"initialDelaySeconds": 5e-324, "multiplier": 2, "maxDelaySeconds": 3_600}, 1_100, 3_600),
        ({"initialDelaySeconds": 1e-300, "multiplier": 10, "maxDelaySeconds": 86_400}, 10_000, 86_400),
        ({"initialDelaySeconds": 10, "multiplier": 100, "maxDelaySeconds": 300}, 200, 300),
        ({"initialDelaySeconds": 1e-9, "multiplier": 1.0001, "maxDelaySeconds": 86_400}, 10**9, 86_400),
        ({"backoffStrategy": "linear", "initialDelaySeconds": 1e300, "maxDelaySeconds": 300}, 10**9, 300),
    ],
)
def test_a_power_that_would_overflow_is_the_maximum(config: dict[str, Any], retry: int, expected: int) -> None:
    assert policy(jitter=0, **config).delay(retry, uniform=middle) == expected


@pytest.mark.case(11)
def test_jitter_stays_within_one_second_and_the_maximum_and_spreads_at_the_cap() -> None:
    found = policy(initialDelaySeconds=100, maxDelaySeconds=500, jitter=0.5)
    assert found.delay(10, uniform=highest) == 500
    assert found.delay(10, uniform=lowest) == 250
    assert policy(initialDelaySeconds=1, maxDelaySeconds=1, jitter=1).delay(1, uniform=lowest) == 1
    choose = random.Random(7)
    drawn = {found.delay(10, uniform=choose.uniform) for _ in range(200)}
    assert len(drawn) > 20
    assert all(1 <= delay <= 500 for delay in drawn)


@given(
    strategy=st.sampled_from(BackoffStrategy),
    initial=st.floats(0, 86_400),
    maximum=st.floats(0, 86_400),
    multiplier=st.floats(1, 10),
    jitter=st.floats(0, 1),
    retry=st.integers(1, 10_000),
    asked=st.none() | st.integers(0, 10**9),
    place=st.floats(0, 1),
)
def test_every_delay_is_a_whole_second_from_one_to_the_maximum(
    strategy: BackoffStrategy,
    initial: float,
    maximum: float,
    multiplier: float,
    jitter: float,
    retry: int,
    asked: int | None,
    place: float,
) -> None:
    found = RetryPolicy(
        backoff_strategy=strategy,
        initial_delay_seconds=initial,
        max_delay_seconds=maximum,
        multiplier=multiplier,
        jitter=jitter,
    )
    delay = found.delay(retry, uniform=lambda low, high: low + (high - low) * place, retry_after=asked)
    assert 1 <= delay <= max(1, maximum + 1)
    if asked is not None and asked <= maximum:
        assert delay >= asked


def decide(found: RetryPolicy, failure: Failure, attempt: int = 1, limit: int = 4, slot: int = NOW) -> Any:
    return found.decide(failure, attempt=attempt, attempt_limit=limit, slot=slot, now=NOW + 0.5, uniform=middle)


@pytest.mark.parametrize(
    ("config", "failure", "attempt", "expected"),
    [
        ({}, Failure("HTTP_503"), 1, (NOW + 11, "RETRY_SCHEDULED")),
        ({}, Failure("HTTP_503"), 3, (NOW + 41, "RETRY_SCHEDULED")),
        ({}, Failure("HTTP_503"), 4, (None, "RETRIES_EXHAUSTED")),
        ({}, Failure("HTTP_404", retryable=False), 1, (None, "NOT_RETRYABLE")),
        ({}, Failure("HTTP_503", retry_after=120), 1, (NOW + 121, "RETRY_SCHEDULED")),
        ({"nonRetryableErrors": ["HTTP_503"]}, Failure("HTTP_503"), 1, (None, "NOT_RETRYABLE")),
        ({"retryableErrors": ["TIMEOUT"]}, Failure("HTTP_503"), 1, (None, "NOT_RETRYABLE")),
        ({"retryableErrors": ["TIMEOUT"]}, Failure("TIMEOUT"), 1, (NOW + 11, "RETRY_SCHEDULED")),
        ({"retryableErrors": ["HTTP_404"]}, Failure("HTTP_404", retryable=False), 1, (None, "NOT_RETRYABLE")),
        ({"nonRetryableErrors": ["HANDLER_ERROR"]}, Failure("HANDLER_ERROR:Gone"), 1, (None, "NOT_RETRYABLE")),
        ({"nonRetryableErrors": ["HANDLER_ERROR:A"]}, Failure("HANDLER_ERROR:B"), 1, (NOW + 11, "RETRY_SCHEDULED")),
        ({"retryableErrors": ["HANDLER_ERROR"]}, Failure("HANDLER_ERROR:Late"), 1, (NOW + 11, "RETRY_SCHEDULED")),
        ({"retryWindowSeconds": 11}, Failure("HTTP_503"), 1, (NOW + 11, "RETRY_SCHEDULED")),
        ({"retryWindowSeconds": 10}, Failure("HTTP_503"), 1, (None, "RETRY_WINDOW_OVER")),
        ({"retryWindowSeconds": 60}, Failure("HTTP_503", retry_after=90), 1, (None, "RETRY_WINDOW_OVER")),
    ],
)  # fmt: skip
def test_decisions_name_their_reason(config: dict[str, Any], failure: Failure, attempt: int, expected: object) -> None:
    assert tuple(decide(policy(jitter=0, **config), failure, attempt)) == expected


def test_what_is_left_out_is_the_default() -> None:
    assert policy() == RetryPolicy()
    assert policy().max_retries == 3
