"""How the benchmark counts capacity units, by the rules of DynamoDB's developer guide."""

from __future__ import annotations

from typing import Any

import pytest

from bench.capacity import index_write_units, item_size, query_units, read_units, write_units

INDEX: dict[str, Any] = {"index_keys": ("as", "at"), "keys": ("id",)}


def row(size: int, **attributes: str) -> dict[str, dict[str, Any]]:
    """An item of so many bytes."""
    item: dict[str, dict[str, Any]] = {name: {"S": value} for name, value in attributes.items()}
    return item | {"x": {"S": "x" * (size - item_size(item) - 1)}}


def place(shard: str | None, at: str = "1") -> dict[str, dict[str, Any]]:
    return {"id": {"S": "1"}} | ({} if shard is None else {"as": {"S": shard}, "at": {"N": at}})


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"S": "é"}, 2),
        ({"N": "1800000000"}, 2),
        ({"N": "-12.5"}, 4),
        ({"N": "0"}, 1),
        ({"BOOL": True}, 1),
        ({"M": {"a": {"S": "b"}}}, 6),
        ({"L": [{"S": "b"}, {"S": "c"}]}, 7),
    ],
)
def test_sizes_of_values(value: dict[str, Any], size: int) -> None:
    assert item_size({"name": value}) == 4 + size


def test_a_kind_without_a_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="SS"):
        item_size({"a": {"SS": ["x"]}})


def test_a_write_pays_for_the_larger_of_before_and_after() -> None:
    assert write_units(None, row(1024)) == 1
    assert write_units(None, row(1025)) == 2
    assert write_units(row(3000), row(10)) == 3
    assert write_units(row(3000), None) == 3
    assert write_units(None, None) == 1


def test_an_index_pays_only_for_entries_that_change() -> None:
    assert index_write_units(None, place("a"), **INDEX) == 1
    assert index_write_units(place("a"), None, **INDEX) == 1
    assert index_write_units(place("a"), place(None), **INDEX) == 1
    assert index_write_units(place("a"), place("a", "2"), **INDEX) == 2
    assert index_write_units(place("a"), place("a") | {"other": {"S": "x"}}, **INDEX) == 0
    assert index_write_units(place(None), place(None), **INDEX) == 0


def test_reads_round_each_item_and_queries_their_sum() -> None:
    assert read_units([row(10), row(4097)], consistent=True) == 3
    assert read_units([row(10), row(4097)], consistent=False) == 1.5
    assert read_units([], consistent=True) == 1
    assert query_units([row(100)] * 40, consistent=True) == 1
    assert query_units([row(100)] * 41, consistent=False) == 1
    assert query_units([], consistent=False) == 0.5
