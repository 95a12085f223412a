"""Registry of owners in the table Coordination."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from functions.adapters.dynamodb_conditions import refusing_item
from functions.adapters.dynamodb_keys import owner_key, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient


class DynamoDbOwners:
    """Owners over one table."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table
        self._known: set[str] = set()

    def register(self, owner: str) -> None:
        if owner in self._known:
            return
        try:
            self._client.put_item(
                TableName=self._table,
                Item=owner_key(owner),
                ConditionExpression="attribute_not_exists(#kind)",
                ExpressionAttributeNames={"#kind": "kind"},
            )
        except ClientError as error:
            refusing_item(error)
        self._known.add(owner)

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
