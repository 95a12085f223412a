"""Everything that is stored in the four tables, by kind, and when DynamoDB may remove each: docs/architecture.md.

An item of a kind that is not here fails whoever looks at it: whether it stays for ever is to be decided, not forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.factories import NOW

DAY = 86_400
RETENTION_DAYS = 30
Item = Mapping[str, Any]


@dataclass(frozen=True)
class Kept:
    """How long an item of a kind is kept; `since` is the instant that counts, in the item where it is there."""

    seconds: int | None
    """None: until something deletes it."""
    since: str | None = None
    """An attribute of the item; None: the last write."""
    until_deleted: bool = False
    """The seconds count once the job is deleted, and nothing removes it before."""


KINDS: Mapping[str, Kept] = {
    "job": Kept(30 * DAY, until_deleted=True),
    "definition": Kept(30 * DAY, until_deleted=True),
    "attempt": Kept(RETENTION_DAYS * DAY, since="ca"),
    "gap": Kept(RETENTION_DAYS * DAY, since="ca"),
    "end": Kept(RETENTION_DAYS * DAY, since="t"),
    "idempotency": Kept(3_600),
    "bucket": Kept(2 * DAY),
    "revocation": Kept(None),
    "owner": Kept(None),
    "retry-config": Kept(None),
    "circuit": Kept(30 * DAY),
    "worker": Kept(DAY, since="sa"),
    "progress": Kept(2 * DAY),
    "slot": Kept(2 * DAY, since="un"),
    "share": Kept(DAY),
    "dependents": Kept(None),
    "graph": Kept(None),
    "workflow": Kept(None),
    "workflows": Kept(None),
}


def kind_of(table: str, item: Item) -> str:
    """Raises AssertionError for what is not known."""
    if table == "jobs":
        row = item["S"]["S"]
        kind = "job" if row == "S" else "definition" if row.startswith("D#") else row
    elif table == "executions":
        kind = "attempt"
        if item["jobId"]["S"].endswith("#ends"):
            kind = "end"
        elif item["sk"]["S"].endswith("-0000"):
            kind = "gap"
    elif table == "idempotency":
        kind = "idempotency"
    else:
        kind = item["kind"]["S"].split("#", 1)[0]
        if kind == "bucket" and "rv" in item:
            kind = "revocation"
    assert kind in KINDS, f"nobody has said how long {table} keeps {kind!r}: {item}"
    return kind


def expiry_of(item: Item) -> int | None:
    """Its `ttl`, epoch seconds; DynamoDB ignores what is no whole number."""
    if "ttl" not in item:
        return None
    assert re.fullmatch(r"\d{10}", item["ttl"].get("N", "")), item["ttl"]
    return int(item["ttl"]["N"])


def check_item(table: str, item: Item, *, now: float | None = None, deleted: bool | None = None) -> str:
    """Assert that the item expires as its kind does; returns the kind.

    `now`: when it was written last; without it only that it expires, and about when. `deleted`: whether its job is.
    """
    kind = kind_of(table, item)
    kept, expiry = KINDS[kind], expiry_of(item)
    if kept.seconds is None or deleted is False:
        assert expiry is None, f"{kind} expires: {item}"
        return kind
    if kept.until_deleted and deleted is None:
        return kind
    assert expiry is not None, f"{kind} never expires: {item}"
    since = now
    if kept.since is not None:
        since = float(item[kept.since]["N"])
    if since is None:
        assert NOW - 400 * DAY < expiry - kept.seconds < NOW + 400 * DAY, f"{kind} expires at {expiry}"
    else:
        assert -1 <= expiry - since - kept.seconds <= 1, f"{kind} is kept {expiry - since} s, and not {kept.seconds}"
    return kind


def all_items(client: Any, tables: Mapping[str, str]) -> Iterator[tuple[str, Item]]:
    """Each item with the plain name of its table; `tables` from plain names to real ones."""
    for table, name in tables.items():
        for page in client.get_paginator("scan").paginate(TableName=name):
            for item in page["Items"]:
                yield table, item


def writes_of(operation: str, params: Mapping[str, Any]) -> list[tuple[str, Item]]:
    """Table and key, or item, of what a call writes; what it deletes is nothing to keep."""
    if operation == "PutItem":
        return [(params["TableName"], params["Item"])]
    if operation == "UpdateItem":
        return [(params["TableName"], params["Key"])]
    if operation == "TransactWriteItems":
        parts = [next(iter(part.items())) for part in params["TransactItems"]]
        return [
            (part["TableName"], part["Item"] if verb == "Put" else part["Key"])
            for verb, part in parts
            if verb in ("Put", "Update")
        ]
    return []


Seen = Callable[[str, Item], None]
"""Is called with table and item after each write that was made."""


def watch_writes(client: Any, keys: Mapping[str, tuple[str, ...]], seen: Seen) -> None:
    """`keys`: by table, the attributes of its key."""
    look = client.meta.events

    def before(*, params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["tests.kept_items"] = dict(params)

    def after(*, http_response: Any, parsed: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
        if http_response.status_code >= 300:
            return
        for table, found in writes_of(model.name, context["tests.kept_items"]):
            key = {name: found[name] for name in keys[table]}
            item = client.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
            if item is not None:
                seen(table, item)

    look.register_last("before-parameter-build.dynamodb", before)
    look.register_last("after-call.dynamodb", after)
