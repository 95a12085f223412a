"""Dependents: an edge beside the parent for each child."""

from __future__ import annotations

from typing import Any

import pytest
from moto.backends import get_backend
from moto.core import DEFAULT_ACCOUNT_ID

from tests.conftest import REGION
from tests.contract.conftest import at_once
from tests.factories import new_id
from tests.faults import Crash


def children(dependents: Any, parent: str, *, limit: int = 100) -> list[str]:
    """All of them, page by page."""
    found: list[str] = []
    after = None
    while page := dependents.of(parent, after=after, limit=limit):
        assert len(page) <= limit
        found += page
        after = page[-1]
    return found


def test_the_children_of_a_parent_are_its_own(dependents):
    parent, other, child, both = (new_id() for _ in range(4))
    dependents.add(child, [parent])
    dependents.add(both, [parent, other])

    assert children(dependents, parent) == sorted([child, both])
    assert children(dependents, other) == [both]
    assert children(dependents, child) == []


def test_an_edge_that_is_there_is_no_error_and_is_there_once(dependents):
    parent, second, child = new_id(), new_id(), new_id()

    dependents.add(child, [parent])
    dependents.add(child, [parent, second])

    assert children(dependents, parent) == [child]
    assert children(dependents, second) == [child]


def test_an_edge_that_is_gone_is_no_error(dependents):
    parent, second, child, other = (new_id() for _ in range(4))
    dependents.add(child, [parent, second])
    dependents.add(other, [parent])

    dependents.remove(child, [parent])
    dependents.remove(child, [parent, second])

    assert children(dependents, parent) == [other]
    assert children(dependents, second) == []


@pytest.mark.parametrize("number", [1, 2, 3])
def test_edges_whose_answer_was_lost_are_there_once(dependents, faults, number):
    parents, child = [new_id() for _ in range(3)], new_id()
    faults.inject(lose_answer=number)

    dependents.add(child, parents)

    assert [children(dependents, parent) for parent in parents] == [[child]] * 3


@pytest.mark.parametrize("number", [1, 2, 3])
def test_edges_that_a_crash_left_are_completed_by_repeating(dependents, faults, number):
    parents, child = [new_id() for _ in range(3)], new_id()
    faults.inject(crash_after=number)

    with pytest.raises(Crash):
        dependents.add(child, parents)
    faults.disarm()
    dependents.add(child, parents)

    assert [children(dependents, parent) for parent in parents] == [[child]] * 3


def test_many_parents_of_one_child(dependents):
    parents, child = [new_id() for _ in range(60)], new_id()

    dependents.add(child, parents)
    assert all(dependents.of(parent, after=None, limit=2) == [child] for parent in parents)

    dependents.remove(child, parents)
    assert not any(dependents.of(parent, after=None, limit=2) for parent in parents)


@pytest.mark.parametrize("limit", [1, 3, 7, 20])
def test_pages_in_their_order_each_child_once(dependents, limit):
    parent = new_id()
    ids = [new_id() for _ in range(7)]
    for child in ids:
        dependents.add(child, [parent])

    assert children(dependents, parent, limit=limit) == sorted(ids)


def test_a_page_goes_on_after_a_child_that_is_gone(dependents):
    parent = new_id()
    ids = sorted(new_id() for _ in range(4))
    for child in ids:
        dependents.add(child, [parent])

    dependents.remove(ids[1], [parent])

    assert dependents.of(parent, after=ids[1], limit=9) == ids[2:]
    assert dependents.of(parent, after=ids[3], limit=9) == []


@pytest.mark.slow
def test_ten_thousand_children_of_one_parent(dependents, platform):
    """Put past the API: what counts is that the pages find them."""
    parent = new_id()
    ids = sorted(new_id() for _ in range(10_000))
    if platform is None:
        dependents.edges[parent] = set(ids)
    else:
        backend = get_backend("dynamodb")[DEFAULT_ACCOUNT_ID][REGION]
        for child in ids:
            backend.put_item(platform.coordination_table, {"kind": {"S": f"dependents#{parent}"}, "name": {"S": child}})

    assert children(dependents, parent, limit=3_000) == ids
    assert len(dependents.of(parent, after=None, limit=10_000)) == 10_000


def test_two_writers_of_one_edge_agree(dependents):
    parent, child = new_id(), new_id()

    answers = at_once(8, lambda _: dependents.add(child, [parent]))

    assert answers == [None] * 8
    assert children(dependents, parent) == [child]
