"""Progress in the table Coordination: a row an execution, kind `progress`.

Also used by the jobs function, whose role may write rows of this kind and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from functions.adapters.dynamodb_conditions import refusing_item
from functions.adapters.dynamodb_keys import number, progress_key, text
from functions.domain.progress import MESSAGE_CHARACTERS, MIN_INTERVAL, Progress

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

KEEP_SECONDS = 2 * 86_400
"""Longer than any attempt may run."""


class DynamoDbProgress:
    """ProgressBoard over one table: `p` percent, `m` message, `t` when, in milliseconds."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def report(self, execution_id: str, progress: Progress, *, now: float) -> bool:
        at = int(now * 1000)
        try:
            self._client.update_item(
                TableName=self._table,
                Key=progress_key(execution_id),
                UpdateExpression="SET p = :p, m = :m, t = :t, #ttl = :ttl",
                ConditionExpression="attribute_not_exists(t) OR t <= :before",
                ExpressionAttributeNames={"#ttl": "ttl"},
                ExpressionAttributeValues={
                    ":p": number(round(progress.percent, 3)),
                    ":m": text(progress.message),
                    ":t": number(at),
                    ":before": number(at - int(MIN_INTERVAL * 1000)),
                    ":ttl": number(int(now) + KEEP_SECONDS),
                },
            )
        except ClientError as error:
            refusing_item(error)
            return False
        return True

    def read(self, execution_id: str) -> Progress | None:
        item = self._client.get_item(TableName=self._table, Key=progress_key(execution_id)).get("Item")
        if item is None:
            return None
        try:
            percent, message = float(item["p"]["N"]), str(item["m"]["S"])
        except (KeyError, ValueError):  # users' handlers may write here: what they wrote besides is nothing to show
            return None
        percent = min(100.0, max(0.0, percent))
        shown = int(percent) if percent.is_integer() else percent
        return Progress(percent=shown, message=message[:MESSAGE_CHARACTERS])
