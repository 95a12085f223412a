"""Owners: everybody who owns jobs."""

from __future__ import annotations

from functions.adapters.dynamodb_owners import DynamoDbOwners
from functions.ports import RecurringCount
from tests.contract.conftest import at_once
from tests.factories import NOW


def test_owners_are_remembered_once(owners):
    for owner in ("team-b", "team-a", "team-b", "f3c8-sub"):
        owners.register(owner)

    assert sorted(owners.all()) == ["f3c8-sub", "team-a", "team-b"]


def test_an_owner_costs_a_call_only_once(owners, faults):
    owners.register("team-a")
    owners.register("team-a")

    assert len(faults.steps) == 1


def test_an_owner_whose_answer_was_lost_is_registered(owners, faults):
    faults.inject(lose_answer=1)

    owners.register("team-a")

    assert list(owners.all()) == ["team-a"]


def test_nobody_is_there_at_first(owners):
    assert list(owners.all()) == []


def test_recurring_jobs_are_counted_up_to_the_most(owners):
    assert [owners.add_recurring("team-a", 2, most=5) for _ in range(2)] == [None, None]

    assert owners.add_recurring("team-a", 2, most=5) == RecurringCount(4, None)
    assert owners.add_recurring("team-a", 1, most=5) is None
    assert owners.add_recurring("team-b", 5, most=5) is None


def test_more_recurring_jobs_at_once_than_the_most_are_answered_with_the_count(owners):
    owners.register("team-c")
    assert [owners.add_recurring(owner, 6, most=5) for owner in ("team-b", "team-c")] == [RecurringCount(0, None)] * 2

    owners.add_recurring("team-a", 3, most=5)
    assert owners.add_recurring("team-a", 6, most=5) == RecurringCount(3, None)
    assert owners.correct_recurring("team-a", 2, instead_of=RecurringCount(3, None), now=NOW)
    assert owners.add_recurring("team-a", 6, most=5) == RecurringCount(2, NOW)


def test_a_count_is_corrected_where_nobody_counted_meanwhile(owners):
    owners.add_recurring("team-a", 5, most=5)

    assert not owners.correct_recurring("team-a", 1, instead_of=RecurringCount(4, None), now=NOW)
    assert not owners.correct_recurring("team-b", 0, instead_of=RecurringCount(0, None), now=NOW)
    assert owners.correct_recurring("team-a", 4, instead_of=RecurringCount(5, None), now=NOW)

    assert owners.add_recurring("team-a", 2, most=5) == RecurringCount(4, NOW)
    assert owners.add_recurring("team-a", 1, most=5) is None


def test_of_many_recounts_that_begin_at_once_one_does(owners):
    owners.add_recurring("team-a", 5, most=5)
    for seen in (RecurringCount(5, None), RecurringCount(5, NOW)):
        now = NOW if seen.recounted_at is None else NOW + 30
        begun = at_once(
            8, lambda _, seen=seen, now=now: owners.correct_recurring("team-a", 5, instead_of=seen, now=now)
        )

        assert begun.count(True) == 1


def test_an_owner_whose_jobs_were_counted_is_registered(owners):
    owners.add_recurring("team-a", 1, most=5)

    assert list(owners.all()) == ["team-a"]


def test_of_many_creations_at_once_as_many_are_counted_as_may_be(owners):
    counted = at_once(12, lambda _: owners.add_recurring("team-a", 1, most=5))

    assert counted.count(None) == 5


def test_recurring_jobs_are_counted_by_a_hundredth_of_their_limit(aws):
    owners = DynamoDbOwners(aws.dynamodb, aws.coordination_table)
    writes = []
    aws.dynamodb.meta.events.register("before-call.dynamodb.UpdateItem", lambda **_: writes.append("write"))

    counted = [owners.add_recurring("team-a", 1, most=205) for _ in range(206)]

    assert counted == [None] * 205 + [RecurringCount(205, None)]
    assert len(writes) <= 102 + 4


def test_a_process_that_corrects_a_count_has_counted_none_ahead(aws):
    owners = DynamoDbOwners(aws.dynamodb, aws.coordination_table)
    assert owners.add_recurring("team-a", 1, most=500) is None

    assert owners.correct_recurring("team-a", 500, instead_of=RecurringCount(5, None), now=NOW)

    assert owners.add_recurring("team-a", 1, most=500) == RecurringCount(500, NOW)


def test_processes_count_no_more_than_the_limit_together(aws):
    processes = [DynamoDbOwners(aws.dynamodb, aws.coordination_table) for _ in range(3)]

    counted = [owners.add_recurring("team-a", 1, most=300) for _ in range(110) for owners in processes]

    assert 298 <= counted.count(None) <= 300
