"""Registry of owners in the table Coordination."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from functions.adapters.dynamodb_conditions import refusing_item, unless_refused
from functions.adapters.dynamodb_keys import number, owner_key, text
from functions.ports import RecurringCount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient


BLOCKS = 100
"""Recurring jobs are counted by a hundredth of their limit: most creations cost no call. What a process has counted and
does not make, the next recount corrects."""


class DynamoDbOwners:
    """Owners over one table."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table
        self._known: set[str] = set()
        self._lock = threading.Lock()
        self._spare: dict[str, int] = {}
        """Recurring jobs that are counted for owners and not made yet."""

    def register(self, owner: str) -> None:
        if owner in self._known:
            return
        with unless_refused():
            self._client.put_item(
                TableName=self._table,
                Item=owner_key(owner),
                ConditionExpression="attribute_not_exists(#kind)",
                ExpressionAttributeNames={"#kind": "kind"},
            )
        self._known.add(owner)

    def add_recurring(self, owner: str, more: int, *, most: int) -> RecurringCount | None:
        with self._lock:
            spare = self._spare.get(owner, 0)
            if spare >= more:
                self._spare[owner] = spare - more
                return None
        block = max(more, most // BLOCKS)
        refused = self._add(owner, block, most=most)
        if refused is None:
            with self._lock:
                self._spare[owner] = self._spare.get(owner, 0) + block - more
            return None
        return refused if block == more else self._add(owner, more, most=most)

    def _add(self, owner: str, more: int, *, most: int) -> RecurringCount | None:
        # More than the limit has no room in a row without a count either.
        condition = "rj <= :room" if more > most else "attribute_not_exists(rj) OR rj <= :room"
        try:
            self._client.update_item(
                TableName=self._table,
                Key=owner_key(owner),
                UpdateExpression="ADD rj :more",
                ConditionExpression=condition,
                ExpressionAttributeValues={":more": number(more), ":room": number(most - more)},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            item = refusing_item(error) or {}
            made, counted = item.get("rj"), item.get("rc")
            return RecurringCount(0 if made is None else int(made["N"]), None if counted is None else int(counted["N"]))
        self._known.add(owner)
        return None

    def correct_recurring(self, owner: str, count: int, *, instead_of: RecurringCount, now: int) -> bool:
        with self._lock:
            self._spare.pop(owner, None)
        values = {":count": number(count), ":now": number(now), ":made": number(instead_of.made)}
        if instead_of.recounted_at is not None:
            values[":then"] = number(instead_of.recounted_at)
        try:
            self._client.update_item(
                TableName=self._table,
                Key=owner_key(owner),
                UpdateExpression="SET rj = :count, rc = :now",
                ConditionExpression="rj = :made AND "
                + ("attribute_not_exists(rc)" if instead_of.recounted_at is None else "rc = :then"),
                ExpressionAttributeValues=values,
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            refusing_item(error)
            return False
        return True

    def all(self) -> Iterator[str]:
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression="#kind = :kind",
            ExpressionAttributeNames={"#kind": "kind"},
            ExpressionAttributeValues={":kind": text("owner")},
            ConsistentRead=True,
        )
        for page in pages:
            for item in page["Items"]:
                yield str(item["name"]["S"])
