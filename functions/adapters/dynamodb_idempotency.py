"""Idempotency keys in a table of their own: the ids of what a request makes, stored before it makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from functions.adapters.dynamodb_conditions import refusing_item, unless_refused
from functions.adapters.dynamodb_keys import idempotency_key, number, text
from functions.domain.errors import IdempotencyKeyReusedError, UnavailableError
from functions.domain.ids import new_write_id
from functions.ports import Claim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_dynamodb import DynamoDBClient


KEEP_SECONDS = 3600


class DynamoDbIdempotencyKeys:
    """IdempotencyKeys over one table."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def claim(self, scope: str, key: str, *, body_hash: str, ids: Sequence[str], now: float) -> Claim:
        mark = new_write_id()
        names: dict[str, Any] = {"L": [text(one) for one in ids]}
        item = idempotency_key(scope, key) | {
            "h": text(body_hash),
            "ids": names,
            "wid": text(mark),
            "ttl": number(int(now) + KEEP_SECONDS),
        }
        try:
            self._client.put_item(
                TableName=self._table,
                Item=item,
                ConditionExpression="attribute_not_exists(pk) OR #ttl < :now",
                ExpressionAttributeNames={"#ttl": "ttl"},
                ExpressionAttributeValues={":now": number(int(now))},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            stored = refusing_item(error)
            if stored is None:
                raise UnavailableError from error
            if stored["h"] != text(body_hash):
                raise IdempotencyKeyReusedError from error
            return Claim(ids=tuple(one["S"] for one in stored["ids"]["L"]), replayed=stored["wid"] != text(mark))
        return Claim(ids=tuple(ids), replayed=False)

    def release(self, scope: str, key: str, claim: Claim) -> None:
        if claim.replayed:
            return
        with unless_refused():
            self._client.delete_item(
                TableName=self._table,
                Key=idempotency_key(scope, key),
                ConditionExpression="ids = :ids",
                ExpressionAttributeValues={":ids": {"L": [text(one) for one in claim.ids]}},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
