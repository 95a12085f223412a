"""What DynamoDB counts for a call, by its rules: items' sizes, units, and what indexes add.

Rules: DynamoDB developer guide, "DynamoDB item sizes and formats", "Capacity unit consumption" and "Provisioned
throughput considerations for global secondary indexes". AWS in memory (moto) answers a constant, so units are counted
here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Item = Mapping[str, Mapping[str, Any]]

WRITE_UNIT = 1024
READ_UNIT = 4096


def item_size(item: Item) -> int:
    """Bytes of an item: names and values in UTF-8, numbers about a byte for two digits and one more."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def write_units(old: Item | None, new: Item | None) -> int:
    """Units of the table for one put, update or delete: the larger of before and after, at least one."""
    size = max(item_size(old or {}), item_size(new or {}))
    return max(1, math.ceil(size / WRITE_UNIT))


def index_write_units(old: Item | None, new: Item | None, *, index_keys: Sequence[str], keys: Sequence[str]) -> int:
    """Units of one index with keys only: an entry made or deleted is one write, one whose key changed is two."""
    before, after = (_entry(item, index_keys, keys) for item in (old, new))
    if before == after:
        return 0
    return sum(math.ceil(item_size(entry) / WRITE_UNIT) for entry in (before, after) if entry is not None)


def read_units(items: Iterable[Item], *, consistent: bool) -> float:
    """Units of reading items one by one, each at least one unit; nothing found costs one too."""
    units = sum(max(1, math.ceil(item_size(item) / READ_UNIT)) for item in items) or 1
    return units if consistent else units / 2


def query_units(items: Iterable[Item], *, consistent: bool) -> float:
    """Units of a query: all that it reads is added up before it is rounded."""
    units = max(1, math.ceil(sum(map(item_size, items)) / READ_UNIT))
    return units if consistent else units / 2


def _entry(item: Item | None, index_keys: Sequence[str], keys: Sequence[str]) -> Item | None:
    if item is None or not all(name in item for name in index_keys):
        return None
    return {name: item[name] for name in (*index_keys, *keys)}


def _value_size(value: Mapping[str, Any]) -> int:
    [(kind, content)] = value.items()
    match kind:
        case "S":
            return len(content.encode())
        case "B":
            return len(content)
        case "N":
            return math.ceil(len(content.lstrip("-").replace(".", "").strip("0")) / 2) + 1 + content.startswith("-")
        case "BOOL" | "NULL":
            return 1
        case "L":
            return 3 + sum(1 + _value_size(one) for one in content)
        case "M":
            return 3 + len(content) + item_size(content)
    raise ValueError(f"the rule for {kind} is not written down here")
