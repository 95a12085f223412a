"""Each kind of limit has its own bucket, of its own size and period, for each caller."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from functions.adapters.dynamodb_limits import DynamoDbRateLimits
from functions.api.route import Access
from functions.domain.errors import RateLimitedError
from tests.factories import NOW
from tests.fakes import InMemoryRateLimits

if TYPE_CHECKING:
    from tests.conftest import Aws
    from tests.faults import Faults

SIZES = {"read": 7, "write": 5, "work": 11, "creation": 13}
"""No two are alike, so that none can stand for another."""
PERIODS = {"read": 60, "write": 60, "work": 60, "creation": 86_400}
ENOUGH = 100


@pytest.fixture
def limits(platform: Aws | None, faults: Faults) -> Any:
    sizes = {
        "reads_per_minute": SIZES["read"],
        "writes_per_minute": SIZES["write"],
        "work_per_minute": SIZES["work"],
        "creations_per_day": SIZES["creation"],
    }
    if platform is None:
        return InMemoryRateLimits(**sizes, faults=faults)
    return DynamoDbRateLimits(platform.dynamodb, platform.coordination_table, **sizes)


def take(limits: Any, kind: str, *, caller: str = "alice", now: float = NOW) -> None:
    """One token of the kind; a creation comes with a request of another."""
    if kind == "creation":
        limits.take(caller, "work", now=now, creations=1)
    else:
        limits.take(caller, kind, now=now)


def left(limits: Any, kind: str, *, caller: str = "alice", now: float = NOW) -> int:
    """Tokens that can be taken at this instant; they are gone then."""
    if kind == "creation":
        for tokens in range(SIZES["creation"], 0, -1):
            try:
                limits.take(caller, "work", now=now, creations=tokens)
            except RateLimitedError as refused:
                if refused.limit == SIZES["work"]:
                    raise
            else:
                return tokens
        return 0
    for taken in range(ENOUGH):
        try:
            limits.take(caller, kind, now=now)
        except RateLimitedError:
            return taken
    raise AssertionError("it never ends")


def exhaust(limits: Any, kind: str, *, caller: str = "alice", now: float = NOW) -> None:
    if kind == "creation":
        limits.take(caller, "read", now=now, creations=SIZES["creation"])
    else:
        for _ in range(SIZES[kind]):
            limits.take(caller, kind, now=now)


def test_each_access_of_a_route_is_a_kind() -> None:
    assert {access.value for access in Access if access is not Access.PUBLIC} | {"creation"} == SIZES.keys()


@pytest.mark.parametrize("kind", [kind for kind in SIZES if kind != "creation"])
def test_a_bucket_has_the_size_of_its_kind(limits: Any, kind: str) -> None:
    assert limits.take("alice", kind, now=NOW).limit == SIZES[kind]
    assert left(limits, kind) == SIZES[kind] - 1


@pytest.mark.parametrize(("one", "other"), list(permutations([kind for kind in SIZES if kind != "creation"], 2)))
def test_an_empty_bucket_leaves_those_of_other_kinds_full(limits: Any, one: str, other: str) -> None:
    exhaust(limits, one)
    assert left(limits, other) == SIZES[other]
    assert left(limits, one) == 0


@pytest.mark.parametrize("kind", ["read", "write", "work"])
def test_creations_are_counted_apart_from_requests(limits: Any, kind: str) -> None:
    exhaust(limits, "creation")  # with one read
    assert left(limits, kind) == SIZES[kind] - (kind == "read")


@pytest.mark.parametrize("kind", ["read", "write"])
def test_requests_leave_creations_alone(limits: Any, kind: str) -> None:
    exhaust(limits, kind)
    assert left(limits, "creation") == SIZES["creation"]


@pytest.mark.parametrize("kind", list(SIZES))
def test_a_bucket_is_its_callers_own(limits: Any, kind: str) -> None:
    exhaust(limits, kind)
    assert left(limits, kind, caller="bob") == SIZES[kind]


@pytest.mark.parametrize("kind", list(SIZES))
def test_a_bucket_fills_over_the_period_of_its_kind(limits: Any, kind: str) -> None:
    exhaust(limits, kind)
    with pytest.raises(RateLimitedError):
        take(limits, kind, now=NOW + PERIODS[kind] / SIZES[kind] * 0.9)
    take(limits, kind, now=NOW + PERIODS[kind] / SIZES[kind] * 1.1)
    assert left(limits, kind, now=NOW + PERIODS[kind] * 3) == SIZES[kind]


@pytest.mark.parametrize("kind", [kind for kind in SIZES if kind != "creation"])
def test_what_is_given_back_is_creations_alone(limits: Any, kind: str) -> None:
    exhaust(limits, "creation")
    left(limits, kind)
    limits.give_back("alice", creations=4)
    assert left(limits, kind) == 0
    assert left(limits, "creation", now=NOW + 60) == 4
