"""Shares of owners: who is at work, and what was started in a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from functions.adapters.dynamodb_shares import DynamoDbShareRows
from functions.domain.definition import Priority
from functions.domain.shares import Refusal, Share
from tests.contract.conftest import at_once
from tests.factories import NOW

if TYPE_CHECKING:
    from tests.conftest import Aws

MINUTE = NOW - NOW % 60
TWO = Share(processes=2, starts_per_minute=100)
ALL_BUSY = Refusal(until=None)


@pytest.fixture
def enter(share_rows: Any) -> Any:
    def enter(
        process: str,
        now: float = MINUTE,
        *,
        owner: str = "team-a",
        priority: Priority = Priority.NORMAL,
        share: Share = TWO,
        starts: int = 1,
        lasts: float = 10,
    ) -> Refusal | None:
        return share_rows.enter(owner, priority, share, process, starts=starts, until=now + lasts, now=now)

    return enter


def test_no_more_processes_work_for_an_owner_than_may(enter) -> None:
    assert [enter(name) for name in "abca"] == [None, None, ALL_BUSY, None]


def test_another_owner_and_another_priority_have_shares_of_their_own(enter) -> None:
    assert [enter(name) for name in "abc"] == [None, None, ALL_BUSY]

    assert enter("c", owner="team-b") is None
    assert enter("c", priority=Priority.HIGH) is None


def test_a_process_that_left_makes_room(enter, share_rows) -> None:
    enter("a")
    enter("b")

    share_rows.leave("team-a", Priority.NORMAL, "a", now=MINUTE)

    assert [enter(name) for name in "cd"] == [None, ALL_BUSY]


def test_processes_that_died_make_room_when_their_time_is_over(enter) -> None:
    enter("a")
    enter("b")

    assert enter("c", MINUTE + 9.9) == ALL_BUSY
    assert [enter(name, MINUTE + 10) for name in "cde"] == [None, None, ALL_BUSY]


def test_a_process_stays_as_long_as_it_says(enter, share_rows) -> None:
    enter("a")
    enter("b")

    share_rows.stay("team-a", Priority.NORMAL, "a", until=MINUTE + 40, now=MINUTE + 1)

    assert [enter(name, MINUTE + 39) for name in "cd"] == [None, ALL_BUSY]
    assert enter("e", MINUTE + 49) is None


def test_who_is_not_there_stays_and_leaves_without_an_error(share_rows, enter) -> None:
    share_rows.leave("team-a", Priority.NORMAL, "a", now=MINUTE)
    share_rows.stay("team-a", Priority.NORMAL, "a", until=MINUTE + 5, now=MINUTE)
    enter("b")
    share_rows.leave("team-a", Priority.NORMAL, "a", now=MINUTE)

    assert [enter(name) for name in "cd"] == [None, ALL_BUSY]


def test_a_minute_has_so_many_starts(enter) -> None:
    share = Share(processes=9, starts_per_minute=10)

    assert [enter("a", share=share, starts=4) for _ in range(3)] == [None, None, None]

    assert enter("b", MINUTE + 59, share=share) == Refusal(until=MINUTE + 60)
    assert [enter("b", MINUTE + 60, share=share, starts=4) for _ in range(3)] == [None, None, None]
    assert enter("b", MINUTE + 61, share=share) == Refusal(until=MINUTE + 120)


def test_a_clock_that_is_behind_counts_in_the_minute_that_has_begun(enter) -> None:
    share = Share(processes=9, starts_per_minute=2)
    enter("a", MINUTE + 61, share=share)
    enter("b", MINUTE + 59.5, share=share)

    assert enter("b", MINUTE + 59.9, share=share) == Refusal(until=MINUTE + 120)


def test_of_many_at_once_as_many_enter_as_may(enter) -> None:
    entered = at_once(12, lambda number: enter(f"p{number}"))

    assert (entered.count(None), entered.count(ALL_BUSY)) == (2, 10)


def test_what_another_process_wrote_costs_one_more_try(aws: Aws) -> None:
    """Each process remembers the row as it saw it last."""
    one, other = (DynamoDbShareRows(aws.dynamodb, aws.coordination_table) for _ in range(2))

    def enter(rows: DynamoDbShareRows, process: str, now: float) -> Refusal | None:
        return rows.enter("team-a", Priority.LOW, TWO, process, starts=1, until=now + 5, now=now)

    assert enter(one, "a", MINUTE) is None
    assert enter(other, "b", MINUTE) is None
    assert enter(one, "c", MINUTE + 1) == ALL_BUSY
    assert enter(one, "c", MINUTE + 70) is None
    assert enter(other, "d", MINUTE + 70) is None
    assert enter(other, "e", MINUTE + 71) == ALL_BUSY
