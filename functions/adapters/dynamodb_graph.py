"""Edges between jobs, and the versions of owners' graphs, in the table Coordination."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functions.adapters.dynamodb_keys import dependents_kind, edge_row, graph_row, name_of, number, text
from functions.parallel import for_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_dynamodb import DynamoDBClient


class DynamoDbDependents:
    """Dependents over one table."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def add(self, child: str, parents: Sequence[str]) -> None:
        for_all(
            lambda parent: self._client.put_item(TableName=self._table, Item=edge_row(parent, child)),
            parents,
        )

    def remove(self, child: str, parents: Sequence[str]) -> None:
        for_all(
            lambda parent: self._client.delete_item(TableName=self._table, Key=edge_row(parent, child)),
            parents,
        )

    def of(self, parent: str, *, after: str | None, limit: int) -> Sequence[str]:
        start: dict[str, Any] = {} if after is None else {"ExclusiveStartKey": edge_row(parent, after)}
        answer = self._client.query(
            TableName=self._table,
            KeyConditionExpression="#kind = :kind",
            ExpressionAttributeNames={"#kind": "kind"},
            ExpressionAttributeValues={":kind": text(dependents_kind(parent))},
            ConsistentRead=True,
            Limit=limit,
            **start,
        )
        return [name_of(item) for item in answer["Items"]]


class DynamoDbGraphs:
    """Graphs over one table: attribute `v` of the owner's row."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def version(self, owner: str) -> int:
        item = self._client.get_item(TableName=self._table, Key=graph_row(owner), ConsistentRead=True).get("Item")
        return 0 if item is None else int(item["v"]["N"])


def next_version(table: str, owner: str, read: int) -> dict[str, Any]:
    """The write, as a part of a transaction, of the version that follows the one that was read."""
    return {
        "Update": {
            "TableName": table,
            "Key": graph_row(owner),
            "UpdateExpression": "SET #v = :next",
            "ConditionExpression": "#v = :read" if read else "attribute_not_exists(#v)",
            "ExpressionAttributeNames": {"#v": "v"},
            "ExpressionAttributeValues": {":next": number(read + 1)} | ({":read": number(read)} if read else {}),
        }
    }
