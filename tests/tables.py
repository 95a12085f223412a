"""The four tables as infra/storage.py makes them, for tests on moto."""

from __future__ import annotations

from typing import Any


def create_tables(dynamodb: Any) -> dict[str, str]:
    """Make the tables; their names by the words of functions.settings."""
    _create(
        dynamodb,
        "jobs",
        {"jobId": "S", "S": "S"},
        {"attention": {"as": "S", "at": "N"}, "owner": {"ow": "S", "oc": "S"}, "waiting": {"wp": "S", "ws": "S"}},
    )
    _create(dynamodb, "executions", {"jobId": "S", "sk": "S"}, {"dead": {"dl": "S", "ca": "N"}})
    _create(dynamodb, "idempotency", {"pk": "S"}, {})
    _create(dynamodb, "coordination", {"kind": "S", "name": "S"}, {})
    return {f"{name}_table": name for name in ("jobs", "executions", "idempotency", "coordination")}


def _create(dynamodb: Any, name: str, key: dict[str, str], indexes: dict[str, dict[str, str]]) -> None:
    types = dict(key)
    for attributes in indexes.values():
        types |= attributes
    secondary: dict[str, Any] = {}
    if indexes:
        secondary["GlobalSecondaryIndexes"] = [
            {"IndexName": index, "KeySchema": _schema(attributes), "Projection": {"ProjectionType": "KEYS_ONLY"}}
            for index, attributes in indexes.items()
        ]
    dynamodb.create_table(
        TableName=name,
        KeySchema=_schema(key),
        AttributeDefinitions=[{"AttributeName": attribute, "AttributeType": kind} for attribute, kind in types.items()],
        BillingMode="PAY_PER_REQUEST",
        **secondary,
    )


def _schema(key: dict[str, str]) -> list[dict[str, str]]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(key, ("HASH", "RANGE"), strict=False)]
