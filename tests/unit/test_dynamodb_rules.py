"""Each request that DynamoDB would refuse, and moto takes, is noticed; the others are left alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dynamodb_rules import problems

KEY = {"kind": {"S": "k"}, "name": {"S": "n"}}
PUT: dict[str, Any] = {"TableName": "coordination", "Item": KEY | {"ho": {"S": ""}}}
UPDATE = {"TableName": "coordination", "Key": KEY}


def put(**changes: Any) -> dict[str, Any]:
    return PUT | {"Item": PUT["Item"] | changes}


def transaction(*actions: dict[str, Any]) -> dict[str, Any]:
    return {"TransactItems": [{"Put": action} for action in actions]}


REFUSED = [
    ("PutItem", put(name={"S": ""}), "the key name of coordination has 1 to 1024 bytes, not 0"),
    ("PutItem", put(name={"S": "ü" * 513}), "has 1 to 1024 bytes, not 1026"),
    ("PutItem", put(kind={"S": "k" * 2_049}), "has 1 to 2048 bytes, not 2049"),
    ("PutItem", put(kind={"BOOL": True}), "is text or a number"),
    ("PutItem", put(holds={"SS": []}), "a set has members"),
    ("PutItem", put(runs={"M": {"a": {"L": [{"SS": []}]}}}), "a set has members"),
    ("PutItem", put(n={"N": "1" * 39}), "at most 38 digits"),
    ("PutItem", put(d={"S": "x" * 410_000}), "an item has at most 409600 bytes"),
    ("UpdateItem", UPDATE | {"UpdateExpression": "SET ttl = :t"}, "ttl is a reserved word"),
    ("UpdateItem", UPDATE | {"UpdateExpression": "SET t = :t"}, "used are [':t']"),
    (
        "PutItem",
        PUT | {"ConditionExpression": "attribute_not_exists(ho)", "ExpressionAttributeValues": {":x": {"S": "x"}}},
        "has [':x'], used are []",
    ),
    ("PutItem", PUT | {"ExpressionAttributeNames": {}}, "ExpressionAttributeNames has []"),
    ("PutItem", PUT | {"ConditionExpression": ""}, "an expression has 1 to 4096 bytes"),
    ("TransactWriteItems", transaction(PUT, PUT), "a transaction names an item twice"),
    ("TransactWriteItems", transaction(*[PUT] * 101), "a transaction has 1 to 100 items, not 101"),
    ("TransactWriteItems", transaction(PUT) | {"ClientRequestToken": "x" * 37}, "a token has 1 to 36 characters"),
    (
        "BatchWriteItem",
        {"RequestItems": {"coordination": [{"DeleteRequest": {"Key": KEY}}] * 2}},
        "names an item twice",
    ),
    ("BatchGetItem", {"RequestItems": {"coordination": {"Keys": [KEY, KEY]}}}, "names an item twice"),
    ("BatchGetItem", {"RequestItems": {"coordination": {"Keys": []}}}, "a batch has 1 to 100 items, not 0"),
]


@pytest.mark.parametrize(("operation", "request_", "why"), REFUSED, ids=[why for _, _, why in REFUSED])
def test_what_dynamodb_refuses_is_noticed(operation: str, request_: dict[str, Any], why: str) -> None:
    assert any(why in problem for problem in problems(operation, request_))


TAKEN = [
    ("PutItem", PUT),
    ("PutItem", put(name={"S": "ü" * 512})),
    (
        "UpdateItem",
        UPDATE
        | {
            "UpdateExpression": "SET #ttl = :t, n = if_not_exists(n, :t) REMOVE g",
            "ConditionExpression": "attribute_not_exists (n) OR NOT n BETWEEN :t AND :t",
            "ExpressionAttributeNames": {"#ttl": "ttl"},
            "ExpressionAttributeValues": {":t": {"N": "-1.5E-20"}},
        },
    ),
    ("TransactWriteItems", transaction(PUT, put(name={"S": "other"})) | {"ClientRequestToken": "x" * 36}),
    (
        "Query",
        {
            "TableName": "coordination",
            "KeyConditionExpression": "kind = :k",
            "ExpressionAttributeValues": {":k": {"S": ""}},
        },
    ),
]


@pytest.mark.parametrize(("operation", "request_"), TAKEN)
def test_what_it_takes_is_left_alone(operation: str, request_: dict[str, Any]) -> None:
    assert list(problems(operation, request_)) == []
