"""What DynamoDB asks of every request and moto does not: checked of all that the tests send to moto.

Reserved words and unused values in expressions, sizes of keys and items, empty sets, numbers of items of a transaction
or batch (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords

from functions.adapters.dynamodb_items import item_size

HASH_KEYS = ("jobId", "pk", "kind", "as", "ow", "wp", "dl")
RANGE_KEYS = ("S", "sk", "name", "at", "oc", "ws", "ca")
"""Of tables and indexes (infra/storage.py); each name is a key wherever an item has it."""
ATTRIBUTES_OF_KEYS = {
    "jobs": ("jobId", "S", "as", "at", "ow", "oc", "wp", "ws"),
    "executions": ("jobId", "sk", "dl", "ca"),
    "idempotency": ("pk",),
    "coordination": ("kind", "name"),
}
HASH_BYTES, RANGE_BYTES, ITEM_BYTES, EXPRESSION_BYTES, DIGITS = 2_048, 1_024, 400 * 1_024, 4_096, 38
TRANSACTION, BATCH_WRITE, BATCH_GET = 100, 25, 100
_EXPRESSIONS = (
    "ConditionExpression",
    "UpdateExpression",
    "KeyConditionExpression",
    "FilterExpression",
    "ProjectionExpression",
)
_WORDS = {"AND", "OR", "NOT", "BETWEEN", "IN", "SET", "REMOVE", "ADD", "DELETE"}
_NAME = re.compile(r"(?<![\w:#])[A-Za-z_]\w*(?!\w)(?!\s*\()")
_RESERVED = frozenset(word.upper() for word in ReservedKeywords.get_reserved_keywords())


def problems(operation: str, request: dict[str, Any]) -> Iterator[str]:
    """Why DynamoDB would refuse the request."""
    if operation == "TransactWriteItems":
        actions = [action for item in request["TransactItems"] for action in item.values()]
        yield from _count("a transaction", actions, TRANSACTION, [_place(action) for action in actions])
        if len(request.get("ClientRequestToken", "x")) not in range(1, 37):
            yield "a token has 1 to 36 characters"
        for action in actions:
            yield from _action(action)
    elif operation == "BatchWriteItem":
        writes = [
            {"TableName": table, **next(iter(write.values()))}
            for table, writes in request["RequestItems"].items()
            for write in writes
        ]
        yield from _count("a batch", writes, BATCH_WRITE, [_place(write) for write in writes])
        for write in writes:
            yield from _action(write)
    elif operation == "BatchGetItem":
        for table, gets in request["RequestItems"].items():
            keys = [{"TableName": table, "Key": key} for key in gets["Keys"]]
            yield from _count("a batch", keys, BATCH_GET, [_place(key) for key in keys])
            yield from _action({"TableName": table, **gets})
            for key in keys:
                yield from _action(key)
    else:
        yield from _action(request)


def _count(what: str, items: list[dict[str, Any]], most: int, places: list[str]) -> Iterator[str]:
    if not 1 <= len(items) <= most:
        yield f"{what} has 1 to {most} items, not {len(items)}"
    if len(set(places)) != len(places):
        yield f"{what} names an item twice: {places}"


def _place(action: dict[str, Any]) -> str:
    item, table = action.get("Key") or action["Item"], action["TableName"]
    names = ATTRIBUTES_OF_KEYS.get(table, ())[:2]
    return json.dumps([table, *(item.get(name) for name in names)])


def _action(action: dict[str, Any]) -> Iterator[str]:
    yield from _expressions(action)
    if "Item" in action and item_size(action["Item"]) > ITEM_BYTES:
        yield f"an item has at most {ITEM_BYTES} bytes"
    for item in (action.get("Item"), action.get("Key"), action.get("ExclusiveStartKey")):
        yield from _keys(action.get("TableName", ""), item or {})
        for name, value in (item or {}).items():
            yield from _value(name, value)
    for name, value in action.get("ExpressionAttributeValues", {}).items():
        yield from _value(name, value)


def _expressions(action: dict[str, Any]) -> Iterator[str]:
    expressions = [action[name] for name in _EXPRESSIONS if name in action]
    for expression in expressions:
        if not expression or len(expression.encode()) > EXPRESSION_BYTES:
            yield f"an expression has 1 to {EXPRESSION_BYTES} bytes: {expression}"
        for word in _NAME.findall(expression):
            if word.upper() in _RESERVED and word not in _WORDS:
                yield f"{word} is a reserved word: {expression}"
    everything = " ".join(expressions)
    for given, mark in (("ExpressionAttributeNames", "#"), ("ExpressionAttributeValues", ":")):
        used = set(re.findall(rf"{mark}\w+", everything))
        if set(action.get(given, ())) != used or action.get(given) == {}:
            yield f"{given} has {sorted(action.get(given, ()))}, used are {sorted(used)}: {everything}"


def _keys(table: str, item: dict[str, Any]) -> Iterator[str]:
    for name in ATTRIBUTES_OF_KEYS.get(table, ()):
        value, most = item.get(name), HASH_BYTES if name in HASH_KEYS else RANGE_BYTES
        if value is None:
            continue
        if set(value) == {"S"} and not 1 <= len(value["S"].encode()) <= most:
            yield f"the key {name} of {table} has 1 to {most} bytes, not {len(value['S'].encode())}"
        elif set(value) not in ({"S"}, {"N"}):
            yield f"the key {name} of {table} is text or a number, not {value}"


def _value(name: str, value: dict[str, Any]) -> Iterator[str]:
    ((kind, content),) = value.items()
    if kind in ("SS", "NS", "BS") and (not content or len(set(content)) != len(content)):
        yield f"a set has members, each once: {name} is {content}"
    elif kind == "N":
        number = Decimal(content)
        if not number.is_finite() or len("".join(map(str, number.as_tuple().digits)).strip("0")) > DIGITS:
            yield f"a number has at most {DIGITS} digits: {name} is {content}"
    elif kind == "M":
        for inner, one in content.items():
            yield from _value(f"{name}.{inner}", one)
    elif kind == "L":
        for one in content:
            yield from _value(name, one)
