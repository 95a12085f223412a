"""Circuits: a partition of rows for each owner, every write on condition of the one that was read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from functions.adapters.dynamodb_circuits import KEEP_SECONDS, DynamoDbCircuits
from functions.domain.circuit import Circuit, Probe
from functions.domain.circuit_key import CircuitKey
from functions.domain.errors import InvalidFieldError
from functions.domain.ids import new_write_id
from tests.contract.conftest import at_once
from tests.factories import NOW

if TYPE_CHECKING:
    from tests.conftest import Aws
    from tests.faults import Faults

KEY = "http:example.com:443@team-a"
OPEN = Circuit(
    key=KEY,
    failures=5,
    since=NOW + 0.125,
    open_until=NOW + 30,
    successes=1,
    probe=Probe(execution_id="job-1800000000-0001", until=NOW + 120),
)


def save(circuits: Any, read: Circuit, **changes: Any) -> Circuit:
    return circuits.save(read, replace(read, write_id=new_write_id(), **changes), now=NOW)


def test_a_target_that_nobody_wrote_of_has_a_closed_circuit(circuits):
    assert circuits.get(KEY) == Circuit(key=KEY)


def test_everything_is_kept(circuits):
    stored = circuits.save(Circuit(key=KEY), replace(OPEN, write_id="w1"), now=NOW)

    assert stored == replace(OPEN, write_id="w1", seq=1)
    assert circuits.get(KEY) == stored
    closed = circuits.save(stored, Circuit(key=KEY, seq=1, write_id="w2", since=NOW), now=NOW)
    assert circuits.get(KEY) == closed == Circuit(key=KEY, seq=2, write_id="w2", since=NOW)


def test_a_write_from_an_old_row_gives_way_to_the_one_that_came_first(circuits):
    read = circuits.get(KEY)
    first = save(circuits, read, failures=1)

    second = save(circuits, read, failures=7)

    assert second == first == circuits.get(KEY)


def test_a_write_whose_answer_was_lost_is_a_success(circuits, faults: Faults):
    faults.inject(lose_answer=1)
    mine = replace(Circuit(key=KEY), failures=1, write_id="mine")

    assert circuits.save(Circuit(key=KEY), mine, now=NOW).write_id == "mine"
    assert circuits.get(KEY).failures == 1


def test_a_lost_answer_behind_anothers_write_shows_that_write(circuits, faults: Faults):
    def meanwhile() -> None:
        faults.disarm()
        save(circuits, circuits.get(KEY), failures=2)

    faults.inject(lose_answer=1, meanwhile=meanwhile)

    stored = save(circuits, circuits.get(KEY), failures=1)

    assert stored == circuits.get(KEY)
    assert (stored.failures, stored.seq) == (2, 2)


def test_of_many_writers_one_is_first(circuits):
    read = circuits.get(KEY)
    marks = [f"w{index}" for index in range(12)]

    stored = at_once(
        12, lambda index: circuits.save(read, replace(read, failures=index + 1, write_id=marks[index]), now=NOW)
    )

    [won] = {one.write_id for one in stored}
    assert circuits.get(KEY).write_id == won
    assert circuits.get(KEY).seq == 1


def test_many_failures_at_once_are_all_counted(circuits):
    def count(_: int) -> None:
        circuit = circuits.get(KEY)
        for _ in range(20):
            mark = new_write_id()
            wanted = replace(circuit, failures=circuit.failures + 1, write_id=mark)
            circuit = circuits.save(circuit, wanted, now=NOW)
            if circuit.write_id == mark:
                return

    at_once(8, count)

    assert circuits.get(KEY).failures == 8


def listed(circuits: Any, owner: str | None) -> list[str]:
    seen, cursor = [], None
    while True:
        page = circuits.list(owner, limit=3, cursor=cursor)
        assert len(page.items) <= 3
        seen += [circuit.key for circuit in page.items]
        if (cursor := page.cursor) is None:
            return seen


@pytest.mark.parametrize("owner", ["team-a", "team-a|b@c/d~é%", None])
def test_pages_hold_each_circuit_of_an_owner_once(circuits, owner):
    keys = [str(CircuitKey(f"handler:job-{index:02d}", kind, owner)) for index in range(4) for kind in (None, "a/b")]
    for key in keys:
        save(circuits, Circuit(key=key), failures=1)
    for other in ("team", "team-", "team-ab", "team-a|b", "zoo"):
        save(circuits, Circuit(key=str(CircuitKey("handler:job-02", owner=other))), failures=1)

    assert listed(circuits, owner) == keys
    assert listed(circuits, "nobody") == []


def test_owners_of_one_target_have_rows_of_their_own(circuits):
    for owner in ("team-a", "team-b", None):
        for kind in (None, "billing") if owner else (None,):
            key = str(CircuitKey("http:example.com:443", kind, owner))
            assert save(circuits, circuits.get(key), failures=1).seq == 1


def test_a_cursor_of_elsewhere_is_refused(circuits):
    for index in range(4):
        for owner in ("team-a", "team-b"):
            save(circuits, Circuit(key=f"handler:job-{index}@{owner}"), failures=1)
    foreign = circuits.list("team-b", limit=3, cursor=None).cursor
    assert foreign is not None
    for cursor in ("nonsense", foreign):
        with pytest.raises(InvalidFieldError):
            circuits.list("team-a", limit=3, cursor=cursor)


def test_a_circuit_is_forgotten_a_month_after_its_last_write(aws: Aws):
    save(DynamoDbCircuits(aws.dynamodb, aws.coordination_table), Circuit(key=KEY), failures=1)

    [row] = aws.dynamodb.scan(TableName=aws.coordination_table)["Items"]
    assert int(row["ttl"]["N"]) == NOW + KEEP_SECONDS
