"""RateLimits: token buckets per caller, in one conditional write a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from functions.adapters.dynamodb_limits import DynamoDbRateLimits
from functions.domain.errors import RateLimitedError, RevokedError
from functions.limit_ports import Allowance
from tests.contract.conftest import at_once
from tests.factories import NOW
from tests.fakes import InMemoryRateLimits

if TYPE_CHECKING:
    from tests.conftest import Aws


@pytest.fixture
def make_limits(platform, faults) -> Any:
    """A new process with the limits of the test."""

    def make(**limits: int) -> Any:
        limits = {
            "reads_per_minute": 6,
            "writes_per_minute": 3,
            "work_per_minute": 60,
            "creations_per_day": 10,
            **limits,
        }
        if platform is None:
            return InMemoryRateLimits(**limits, faults=faults)
        return DynamoDbRateLimits(platform.dynamodb, platform.coordination_table, **limits)

    return make


def take_all(limits: Any, kind: str = "write", now: float = NOW) -> int:
    """How many requests are let through at one instant."""
    taken = 0
    while True:
        try:
            limits.take("alice", kind, now=now)
        except RateLimitedError:
            return taken
        taken += 1


def test_a_full_bucket_gives_its_limit_and_says_what_is_left(make_limits):
    limits = make_limits()

    allowances = [limits.take("alice", "write", now=NOW) for _ in range(3)]

    assert allowances == [
        Allowance(limit=3, remaining=2, reset_seconds=20),
        Allowance(limit=3, remaining=1, reset_seconds=40),
        Allowance(limit=3, remaining=0, reset_seconds=60),
    ]
    with pytest.raises(RateLimitedError) as refused:
        limits.take("alice", "write", now=NOW + 0.5)
    assert (refused.value.retry_after, refused.value.limit) == (20, 3)


def test_a_bucket_refills_evenly_and_holds_no_more_than_its_limit(make_limits):
    limits = make_limits()
    take_all(limits)

    assert take_all(limits, now=NOW + 19.9) == 0
    assert take_all(limits, now=NOW + 20) == 1
    assert take_all(limits, now=NOW + 75) == 2
    assert take_all(limits, now=NOW + 10_000) == 3


def test_after_the_wait_that_was_named_a_request_passes(make_limits):
    limits = make_limits(writes_per_minute=7)
    take_all(limits)

    with pytest.raises(RateLimitedError) as refused:
        limits.take("alice", "write", now=NOW + 3.3)

    limits.take("alice", "write", now=NOW + 3.3 + refused.value.retry_after)


def test_callers_and_kinds_are_counted_apart(make_limits):
    limits = make_limits()
    take_all(limits, "write")

    assert take_all(limits, "read") == 6
    assert limits.take("bob", "write", now=NOW).remaining == 2


def test_creations_have_a_bucket_of_their_own_and_the_allowance_is_that_of_the_kind(make_limits):
    limits = make_limits(writes_per_minute=100)

    assert limits.take("alice", "write", now=NOW, creations=10).remaining == 99
    with pytest.raises(RateLimitedError) as refused:
        limits.take("alice", "write", now=NOW, creations=2)

    assert refused.value.limit == 10
    assert refused.value.retry_after == 2 * 8_640


def test_a_refused_request_takes_nothing_from_either_bucket(make_limits):
    limits = make_limits(writes_per_minute=4)
    limits.take("alice", "write", now=NOW, creations=9)

    for _ in range(5):
        with pytest.raises(RateLimitedError):
            limits.take("alice", "write", now=NOW, creations=2)

    assert limits.take("alice", "write", now=NOW, creations=1).remaining == 2


def test_creations_that_are_given_back_can_be_taken_again(make_limits, faults):
    limits = make_limits(writes_per_minute=100)
    limits.give_back("alice", creations=4)
    limits.take("alice", "write", now=NOW, creations=10)
    faults.inject(lose_answer=1)
    limits.give_back("alice", creations=4)

    with pytest.raises(RateLimitedError):
        limits.take("alice", "write", now=NOW, creations=5)
    assert limits.take("alice", "write", now=NOW, creations=4).remaining == 98


def test_more_creations_than_a_day_allows_are_refused_at_once(make_limits):
    with pytest.raises(RateLimitedError) as refused:
        make_limits().take("alice", "write", now=NOW, creations=11)

    assert refused.value.limit == 10


def test_a_take_whose_answer_was_lost_counts_once(make_limits, faults):
    limits = make_limits()
    limits.take("alice", "write", now=NOW)
    faults.inject(lose_answer=1)

    assert limits.take("alice", "write", now=NOW).remaining == 1


def test_a_clock_that_is_behind_gets_no_more(make_limits):
    limits = make_limits()
    take_all(limits, now=NOW + 2)

    assert take_all(limits, now=NOW) == 0


def test_parallel_takes_never_admit_more_than_is_left(make_limits):
    limits = make_limits(writes_per_minute=60)
    for _ in range(50):
        limits.take("alice", "write", now=NOW)

    answers = at_once(50, lambda _: limits.take("alice", "write", now=NOW))

    admitted = [answer for answer in answers if isinstance(answer, Allowance)]
    assert len(admitted) == 10
    assert sorted(answer.remaining for answer in admitted) == list(range(10))
    assert {type(answer) for answer in answers} == {Allowance, RateLimitedError}


def test_parallel_first_takes_are_all_counted(make_limits):
    limits = make_limits(writes_per_minute=8)

    answers = at_once(16, lambda _: limits.take("alice", "write", now=NOW, creations=0))

    assert sum(isinstance(answer, Allowance) for answer in answers) == 8


def test_the_normal_case_is_one_call(aws):
    limits = adapter(aws)
    limits.take("alice", "write", now=NOW)
    limits.take("alice", "read", now=NOW)
    calls: list[str] = []
    aws.dynamodb.meta.events.register("before-call", lambda model, **_: calls.append(model.name))

    for step in range(1, 8):
        limits.take("alice", "write", now=NOW + 0.1 * step)
        limits.take("alice", "read", now=NOW + 0.1 * step, creations=1 if step > 1 else 0)

    assert calls == ["UpdateItem"] * 14


def test_a_process_that_knows_nothing_needs_two_calls(aws):
    adapter(aws).take("alice", "write", now=NOW)
    calls: list[str] = []
    aws.dynamodb.meta.events.register("before-call", lambda model, **_: calls.append(model.name))

    assert adapter(aws).take("alice", "write", now=NOW).remaining == 98

    assert calls == ["UpdateItem"] * 2


def test_another_process_finds_what_was_taken(aws):
    limits = adapter(aws, writes_per_minute=3)

    assert take_all(limits) == 3
    assert take_all(adapter(aws, writes_per_minute=3)) == 0
    assert take_all(adapter(aws, writes_per_minute=3), now=NOW + 20) == 1


def test_a_row_nobody_uses_expires_after_every_period_of_its_buckets(aws):
    adapter(aws).take("alice", "write", now=NOW + 0.5, creations=1000)

    [row] = aws.dynamodb.scan(TableName=aws.coordination_table)["Items"]
    assert int(row["ttl"]["N"]) > NOW + 86_400


def adapter(aws: Aws, *, writes_per_minute: int = 100) -> DynamoDbRateLimits:
    """A new process."""
    return DynamoDbRateLimits(
        aws.dynamodb,
        aws.coordination_table,
        reads_per_minute=500,
        writes_per_minute=writes_per_minute,
        work_per_minute=6000,
        creations_per_day=1000,
    )


def test_creations_counted_apart_come_from_the_same_bucket_and_count_as_no_request(make_limits, faults):
    limits = make_limits()
    limits.take("alice", "write", now=NOW, creations=3)
    faults.inject(lose_answer=1)
    limits.create("alice", 6, now=NOW)

    with pytest.raises(RateLimitedError) as refused:
        limits.create("alice", 2, now=NOW)

    assert (refused.value.limit, refused.value.retry_after) == (10, 8_640)
    limits.create("alice", 1, now=NOW)
    assert limits.take("alice", "write", now=NOW).remaining == 1


@pytest.mark.parametrize("used", [0, 1, 3])
def test_a_revoked_caller_takes_nothing_in_any_process_until_it_is_restored(make_limits, used):
    limits, other = make_limits(), make_limits()
    if isinstance(limits, InMemoryRateLimits):
        other = limits
    for _ in range(used):
        limits.take("alice", "write", now=NOW)

    assert other.revoke("alice", now=NOW + 1.5) == NOW + 1.5
    assert other.revoke("alice", now=NOW + 9) == NOW + 1.5
    for kind in ("read", "write", "work"):
        with pytest.raises(RevokedError):
            limits.take("alice", kind, now=NOW + 100)
    with pytest.raises(RevokedError):
        limits.create("alice", 1, now=NOW + 100)
    assert limits.take("bob", "write", now=NOW + 100).remaining == 2

    for _ in range(2):
        other.restore("alice", now=NOW + 200)
    assert limits.take("alice", "write", now=NOW + 200).remaining == 2


def test_a_revocation_outlives_the_limit_of_its_row(platform, make_limits):
    if platform is None:
        pytest.skip("rows in memory do not expire")
    limits = make_limits()
    limits.take("alice", "read", now=NOW)
    limits.revoke("alice", now=NOW)

    def row():
        key = {"kind": {"S": "bucket"}, "name": {"S": "alice"}}
        return platform.dynamodb.get_item(TableName=platform.coordination_table, Key=key)["Item"]

    assert "ttl" not in row()
    limits.restore("alice", now=NOW)
    assert "ttl" in row()


def test_a_revocation_whose_answer_was_lost_is_one(make_limits, faults):
    limits = make_limits()
    faults.inject(lose_answer=1)

    limits.revoke("alice", now=NOW)

    with pytest.raises(RevokedError):
        limits.take("alice", "read", now=NOW)
