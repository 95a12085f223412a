"""Edges between jobs, and the versions of owners' graphs, in the table Coordination."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from functions.adapters.dynamodb_keys import dependents_kind, edge_row, graph_row, name_of, text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

_PARALLEL = 16
"""Edges that are written at the same time: a put each, so that one that is there already is left alone."""


class DynamoDbDependents:
    """Dependents over one table."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def add(self, child: str, parents: Sequence[str]) -> None:
        _all(parents, lambda parent: self._client.put_item(TableName=self._table, Item=edge_row(parent, child)))

    def remove(self, child: str, parents: Sequence[str]) -> None:
        _all(parents, lambda parent: self._client.delete_item(TableName=self._table, Key=edge_row(parent, child)))

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


def _all(parents: Sequence[str], write: Callable[[str], object]) -> None:
    if len(parents) == 1:
        write(parents[0])
        return
    with ThreadPoolExecutor(max_workers=_PARALLEL) as pool:
        for _ in pool.map(write, parents):
            pass


class DynamoDbGraphs:
    """Graphs over one table: attribute `v` of the owner's row."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def version(self, owner: str) -> int:
        item = self._client.get_item(TableName=self._table, Key=graph_row(owner), ConsistentRead=True).get("Item")
        return 0 if item is None else int(item["v"]["N"])
