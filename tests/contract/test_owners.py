"""Owners: everybody who owns jobs."""

from __future__ import annotations


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
