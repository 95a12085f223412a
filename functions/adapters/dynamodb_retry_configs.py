"""Configurations of job types in the table Coordination: the caller's document as JSON text, a row a type."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from functions.adapters.dynamodb_keys import RETRY_CONFIGS, Item, number, retry_config_key, text
from functions.domain.cursor import read_cursor, write_cursor
from functions.domain.errors import CorruptDefinitionError
from functions.domain.job_type import StoredTypeConfig, TypeConfig
from functions.domain.stored_json import read_stored
from functions.ports import Page

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

logger = logging.getLogger(__name__)

_SCOPE = "retry configurations"


class DynamoDbRetryConfigs:
    """RetryConfigs over one table."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def get(self, job_type: str) -> StoredTypeConfig | None:
        key = retry_config_key(job_type)
        item = self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True).get("Item")
        return None if item is None else _read(item)

    def put(self, config: StoredTypeConfig) -> None:
        document = json.dumps(config.document, separators=(",", ":"), ensure_ascii=False)
        item = retry_config_key(config.job_type) | {
            "d": text(document),
            "ut": number(config.updated_at),
            "ub": text(config.updated_by),
        }
        self._client.put_item(TableName=self._table, Item=item)

    def delete(self, job_type: str) -> bool:
        answer = self._client.delete_item(TableName=self._table, Key=retry_config_key(job_type), ReturnValues="ALL_OLD")
        return bool(answer.get("Attributes"))

    def list(self, *, limit: int, cursor: str | None) -> Page[StoredTypeConfig]:
        start: dict[str, Any] = {}
        if cursor is not None:
            start = {"ExclusiveStartKey": retry_config_key(read_cursor(cursor, scope=_SCOPE))}
        # One more than asked for tells whether there is another page; long lists of errors may fill the 1 MB of one.
        answer = self._client.query(
            TableName=self._table,
            KeyConditionExpression="#kind = :kind",
            ExpressionAttributeNames={"#kind": "kind"},
            ExpressionAttributeValues={":kind": text(RETRY_CONFIGS)},
            ConsistentRead=True,
            Limit=limit + 1,
            **start,
        )
        items = answer["Items"][:limit]
        more = len(answer["Items"]) > limit or "LastEvaluatedKey" in answer
        return Page(
            items=[config for item in items for config in _readable(item)],
            cursor=write_cursor(str(items[-1]["name"]["S"]), scope=_SCOPE) if more else None,
        )


def _read(item: Item) -> StoredTypeConfig:
    job_type = str(item["name"]["S"])
    try:
        config = StoredTypeConfig(
            job_type=job_type,
            document=read_stored(item["d"]["S"]),
            updated_at=int(item["ut"]["N"]),
            updated_by=str(item["ub"]["S"]),
        )
        TypeConfig.read(config.document)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptDefinitionError(f"The stored configuration of the job type {job_type} cannot be read.") from error
    return config


def _readable(item: Item) -> list[StoredTypeConfig]:
    try:
        return [_read(item)]
    except CorruptDefinitionError:
        logger.exception("a row was left out of a list")
        return []
