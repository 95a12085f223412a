"""Slots: one holder each, known by its mark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from functions.adapters.dynamodb_slots import DynamoDbSlots
from functions.domain.concurrency import Slot
from tests.contract.conftest import at_once
from tests.factories import NOW

if TYPE_CHECKING:
    from tests.conftest import Aws
    from tests.faults import Faults

KEY = "key:team-a|database"


def slot(index: int = 0, holder: str = "a", mark: str = "m1") -> Slot:
    return Slot(index=index, holder=holder, mark=mark, at=NOW, until=NOW + 80)


def test_nothing_is_held_at_first(slots):
    assert slots.held(KEY) == []


def test_what_is_taken_is_held_in_the_order_of_indexes(slots):
    for index in (10, 2, 0):
        assert slots.take(KEY, slot(index, f"h{index}", f"m{index}"), instead_of=None)

    assert slots.held(KEY) == [slot(index, f"h{index}", f"m{index}") for index in (0, 2, 10)]
    assert slots.held("key:team-a|data") == slots.held("key:team-b|database") == []


def test_a_slot_that_is_taken_is_refused(slots):
    assert slots.take(KEY, slot(), instead_of=None)

    assert not slots.take(KEY, slot(holder="b", mark="m2"), instead_of=None)

    assert slots.held(KEY) == [slot()]


def test_a_slot_is_renewed_and_taken_over_by_holder_and_mark(slots):
    slots.take(KEY, slot(), instead_of=None)

    assert not slots.take(KEY, slot(holder="b", mark="m2"), instead_of=slot(mark="m0"))
    assert not slots.take(KEY, slot(holder="b", mark="m2"), instead_of=slot(holder="c"))
    assert slots.take(KEY, slot(mark="m3"), instead_of=slot())
    assert not slots.take(KEY, slot(holder="b", mark="m2"), instead_of=slot())
    assert slots.take(KEY, slot(holder="b", mark="m4"), instead_of=slot(mark="m3"))
    assert slots.held(KEY) == [slot(holder="b", mark="m4")]


def test_a_slot_that_is_free_is_not_taken_over(slots):
    assert not slots.take(KEY, slot(holder="b", mark="m2"), instead_of=slot())


def test_an_answer_that_was_lost_changes_nothing(slots, faults: Faults):
    faults.inject(lose_answer=1)
    assert slots.take(KEY, slot(), instead_of=None)
    faults.inject(lose_answer=1)
    assert slots.take(KEY, slot(mark="m2"), instead_of=slot())
    faults.inject(lose_answer=1)
    slots.free(KEY, 0, holder="a", mark="m2")

    assert slots.held(KEY) == []


def test_a_lost_answer_behind_anothers_take_over_is_no_success(slots, faults: Faults):
    def meanwhile() -> None:
        faults.disarm()
        assert slots.take(KEY, slot(holder="b", mark="m2"), instead_of=slot())

    faults.inject(lose_answer=1, meanwhile=meanwhile)

    assert not slots.take(KEY, slot(), instead_of=None)


def test_only_its_holder_frees_a_slot(slots):
    slots.take(KEY, slot(), instead_of=None)

    slots.free(KEY, 0, holder="b")
    slots.free(KEY, 0, holder="a", mark="m2")
    slots.free(KEY, 1, holder="a")
    assert slots.held(KEY) == [slot()]

    slots.free(KEY, 0, holder="a")
    assert slots.held(KEY) == []
    assert slots.take(KEY, slot(holder="b", mark="m2"), instead_of=None)


def test_of_many_one_gets_the_slot(slots):
    got = at_once(12, lambda index: slots.take(KEY, slot(holder=f"h{index}", mark=f"m{index}"), instead_of=None))

    assert got.count(True) == 1
    assert slots.held(KEY)[0].holder == f"h{got.index(True)}"


def test_of_many_one_takes_over(slots):
    slots.take(KEY, slot(), instead_of=None)

    got = at_once(12, lambda index: slots.take(KEY, slot(holder=f"h{index}", mark=f"n{index}"), instead_of=slot()))

    assert got.count(True) == 1


def test_a_slot_expires_long_after_its_time(aws: Aws):
    taken = replace(slot(), until=NOW + 90_000)
    DynamoDbSlots(aws.dynamodb, aws.coordination_table).take(KEY, taken, instead_of=None)

    [row] = aws.dynamodb.scan(TableName=aws.coordination_table)["Items"]
    assert int(row["ttl"]["N"]) > NOW + 90_000 + 86_400
