"""Many rows of a table in few calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functions.domain.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from functions.adapters.dynamodb_keys import Item

READ_AT_ONCE = 100
"""Rows of a batch read (DynamoDB API)."""
ROUNDS = 10
"""How often what a batch read left unprocessed is asked for again."""


def read_batch(client: DynamoDBClient, table: str, keys: Sequence[dict[str, Any]]) -> list[Item]:
    """The rows that exist, in any order, strongly consistent; the keys differ. Raises UnavailableError where some could
    not be read."""
    found: list[Item] = []
    for start in range(0, len(keys), READ_AT_ONCE):
        found += _read(client, table, keys[start : start + READ_AT_ONCE])
    return found


def _read(client: DynamoDBClient, table: str, keys: Sequence[dict[str, Any]]) -> list[Item]:
    found: list[Item] = []
    left: Any = keys
    for _ in range(ROUNDS):
        answer = client.batch_get_item(RequestItems={table: {"Keys": left, "ConsistentRead": True}})
        found += answer["Responses"].get(table, [])
        unread: dict[str, Any] = dict(answer.get("UnprocessedKeys", {}))
        left = unread.get(table, {}).get("Keys")
        if not left:
            return found
    raise UnavailableError
