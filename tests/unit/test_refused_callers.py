"""A caller that is over its limit costs no write for a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from functions.adapters.dynamodb_limits import DynamoDbRateLimits
from functions.domain.errors import RateLimitedError
from tests.factories import NOW

if TYPE_CHECKING:
    from tests.conftest import Aws


@pytest.fixture
def limits(aws: Aws) -> DynamoDbRateLimits:
    return DynamoDbRateLimits(
        aws.dynamodb,
        aws.coordination_table,
        reads_per_minute=600,
        writes_per_minute=6,
        work_per_minute=600,
        creations_per_day=100,
    )


@pytest.fixture
def writes(aws: Aws) -> list[str]:
    writes: list[str] = []
    aws.dynamodb.meta.events.register("before-call.dynamodb.UpdateItem", lambda **_: writes.append("write"))
    return writes


def use_up(limits: DynamoDbRateLimits) -> None:
    for _ in range(6):
        limits.take("alice", "write", now=NOW)
    with pytest.raises(RateLimitedError):
        limits.take("alice", "write", now=NOW)


def test_a_caller_over_its_limit_is_refused_from_memory(limits: DynamoDbRateLimits, writes: list[str]) -> None:
    use_up(limits)
    writes.clear()

    for _ in range(50):
        with pytest.raises(RateLimitedError) as refused:
            limits.take("alice", "write", now=NOW + 0.9)
        assert refused.value.retry_after == 10

    assert writes == []


def test_after_a_second_the_row_is_asked_again(limits: DynamoDbRateLimits, writes: list[str]) -> None:
    use_up(limits)
    writes.clear()

    with pytest.raises(RateLimitedError):
        limits.take("alice", "write", now=NOW + 1)

    assert writes == ["write"]


def test_another_limit_of_the_caller_and_other_callers_are_not_refused(limits: DynamoDbRateLimits) -> None:
    use_up(limits)

    limits.take("alice", "read", now=NOW)
    limits.take("bob", "write", now=NOW)


def test_what_has_refilled_within_the_second_is_taken(limits: DynamoDbRateLimits) -> None:
    limits.take("alice", "read", now=NOW)
    for _ in range(599):
        limits.take("alice", "read", now=NOW)
    with pytest.raises(RateLimitedError):
        limits.take("alice", "read", now=NOW)

    limits.take("alice", "read", now=NOW + 0.2)
