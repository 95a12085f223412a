"""Slots of concurrency keys in the table Coordination: one item a slot that is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from functions.adapters.dynamodb_conditions import refusing_item, unless_refused
from functions.adapters.dynamodb_keys import name_of, number, slot_kind, slot_row, text
from functions.domain.concurrency import Slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

KEEP_SECONDS = 2 * 86_400
"""Beyond the instant at which a slot may be looked into: no attempt runs longer, so its holder is long gone."""


class DynamoDbSlots:
    """Slots over one table."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def held(self, key: str) -> Sequence[Slot]:
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression="#kind = :kind",
            ExpressionAttributeNames={"#kind": "kind"},
            ExpressionAttributeValues={":kind": text(slot_kind(key))},
            ConsistentRead=True,
        )
        return [
            Slot(
                index=int(name_of(item)),
                holder=item["ho"]["S"],
                mark=item["wid"]["S"],
                at=int(item["at"]["N"]),
                until=int(item["un"]["N"]),
            )
            for page in pages
            for item in page["Items"]
        ]

    def take(self, key: str, slot: Slot, *, instead_of: Slot | None) -> bool:
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(ho)"}
        if instead_of is not None:
            condition = {
                "ConditionExpression": "ho = :holder AND wid = :mark",
                "ExpressionAttributeValues": {":holder": text(instead_of.holder), ":mark": text(instead_of.mark)},
            }
        try:
            self._client.put_item(
                TableName=self._table,
                Item=slot_row(key, slot.index)
                | {
                    "ho": text(slot.holder),
                    "wid": text(slot.mark),
                    "at": number(slot.at),
                    "un": number(slot.until),
                    "ttl": number(slot.until + KEEP_SECONDS),
                },
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **condition,
            )
        except ClientError as error:
            return (refusing_item(error) or {}).get("wid") == text(slot.mark)
        return True

    def free(self, key: str, index: int, *, holder: str, mark: str | None = None) -> None:
        by_mark = "" if mark is None else " AND wid = :mark"
        with unless_refused():
            self._client.delete_item(
                TableName=self._table,
                Key=slot_row(key, index),
                ConditionExpression=f"ho = :holder{by_mark}",
                ExpressionAttributeValues={":holder": text(holder)} | ({} if mark is None else {":mark": text(mark)}),
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
