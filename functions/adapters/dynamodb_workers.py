"""Workers in the table Coordination: a row each, kind `worker`."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from functions.adapters.dynamodb_conditions import refusing_item
from functions.adapters.dynamodb_keys import Item, number, text, worker_key
from functions.domain.cursor import read_cursor, write_cursor
from functions.domain.ids import new_write_id
from functions.domain.worker import Worker
from functions.ports import Page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

logger = logging.getLogger(__name__)

_SCOPE = "workers"

KEEP_SECONDS = 86_400
"""After its last heartbeat."""


class DynamoDbWorkers:
    """Workers over one table.

    | attribute | field | | attribute | field |
    |---|---|---|---|---|
    | `o` `cb` `nm` | owner, created_by, name | | `dr` | draining |
    | `q` `mi` | queues, max_items | | `pi` `in` | poll_id, intended |
    | `ra` `sa` | registered_at, seen_at | | `v` `wid` | version, mark of its write |
    """

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def register(self, worker: Worker) -> None:
        self._client.put_item(
            TableName=self._table,
            Item={
                **worker_key(worker.id),
                "o": text(worker.owner),
                "cb": text(worker.created_by),
                "nm": text(worker.name),
                "q": {"L": [text(queue) for queue in worker.queues]},
                "mi": number(worker.max_items),
                "ra": number(worker.registered_at),
                "sa": number(worker.seen_at),
                "v": number(worker.version),
                "ttl": number(worker.seen_at + KEEP_SECONDS),
            },
        )

    def get(self, worker_id: str) -> Worker | None:
        item = self._client.get_item(TableName=self._table, Key=worker_key(worker_id), ConsistentRead=True).get("Item")
        return None if item is None else read_worker(item)

    def seen(self, worker_id: str, *, now: float) -> Worker | None:
        try:
            answer = self._client.update_item(
                TableName=self._table,
                Key=worker_key(worker_id),
                UpdateExpression="SET sa = :now, #ttl = :ttl",
                ConditionExpression="attribute_exists(kind) AND sa <= :now",
                ExpressionAttributeNames={"#ttl": "ttl"},
                ExpressionAttributeValues={":now": number(int(now)), ":ttl": number(int(now) + KEEP_SECONDS)},
                ReturnValues="ALL_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            item = refusing_item(error)
            return None if item is None else read_worker(item)
        return read_worker(answer["Attributes"])

    def save(self, read: Worker, new: Worker) -> Worker | None:
        mark, version = new_write_id(), read.version + 1
        poll = {":pi": text(new.poll_id)} if new.poll_id is not None else {}
        try:
            self._client.update_item(
                TableName=self._table,
                Key=worker_key(read.id),
                UpdateExpression=f"SET dr = :dr, #in = :in, v = :v, wid = :wid{', pi = :pi' if poll else ''}",
                ConditionExpression="v = :read",
                ExpressionAttributeNames={"#in": "in"},
                ExpressionAttributeValues={
                    ":dr": {"BOOL": new.draining},
                    ":in": {"L": [text(one) for one in new.intended]},
                    ":v": number(version),
                    ":wid": text(mark),
                    ":read": number(read.version),
                    **poll,
                },
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            item = refusing_item(error)
            if item is None or item.get("wid") != text(mark):
                return None
        return dataclasses.replace(new, version=version)

    def list(self, *, limit: int, cursor: str | None) -> Page[Worker]:
        start: dict[str, Any] = {}
        if cursor is not None:
            start = {"ExclusiveStartKey": worker_key(read_cursor(cursor, scope=_SCOPE))}
        # One more than asked for tells whether there is another page; 101 rows of 2 KB are far below its 1 MB.
        answer = self._client.query(
            TableName=self._table,
            KeyConditionExpression="#kind = :kind",
            ExpressionAttributeNames={"#kind": "kind"},
            ExpressionAttributeValues={":kind": worker_key("")["kind"]},
            ConsistentRead=True,
            Limit=limit + 1,
            **start,
        )
        items = answer["Items"][:limit]
        more = len(answer["Items"]) > limit
        last = str(items[-1]["name"]["S"]) if more else None
        return Page(
            items=[worker for item in items for worker in _readable(item)],
            cursor=None if last is None else write_cursor(last, scope=_SCOPE),
        )


def _readable(item: Item) -> Iterator[Worker]:
    try:
        yield read_worker(item)
    except (KeyError, ValueError):
        logger.exception("a worker was left out of a list")


def read_worker(item: Item) -> Worker:
    """Raises KeyError or ValueError for a row that cannot be read."""
    return Worker(
        id=str(item["name"]["S"]),
        owner=str(item["o"]["S"]),
        created_by=str(item["cb"]["S"]),
        name=str(item["nm"]["S"]),
        queues=tuple(str(queue["S"]) for queue in item["q"]["L"]),
        max_items=int(item["mi"]["N"]),
        registered_at=int(item["ra"]["N"]),
        seen_at=int(item["sa"]["N"]),
        draining=bool(item.get("dr", {}).get("BOOL", False)),
        poll_id=str(item["pi"]["S"]) if "pi" in item else None,
        intended=tuple(str(one["S"]) for one in item.get("in", {}).get("L", [])),
        version=int(item["v"]["N"]),
    )
