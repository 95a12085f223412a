"""Workers in the table Coordination: a row each, kind `worker`."""

from __future__ import annotations

import dataclasses
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from functions.adapters.dynamodb_conditions import refusing_item
from functions.adapters.dynamodb_keys import Item, name_of, number, text, worker_key, worker_position
from functions.domain.actor import Actor
from functions.domain.cursor import owners_scope, read_cursor, write_cursor
from functions.domain.ids import new_write_id
from functions.domain.worker import Worker, owner_prefix
from functions.parallel import for_all
from functions.ports import Page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

logger = logging.getLogger(__name__)

KEEP_SECONDS = 86_400
"""After its last heartbeat."""


class DynamoDbWorkers:
    """Workers over one table.

    | attribute | field | | attribute | field |
    |---|---|---|---|---|
    | `o` `cb` `nm` | owner, created_by, name | | `dr` `db` | draining, drained_by |
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
        more = {} if new.poll_id is None else {"pi": text(new.poll_id)}
        if new.drained_by is not None:
            more["db"] = text(new.drained_by.as_text())
        try:
            self._client.update_item(
                TableName=self._table,
                Key=worker_key(read.id),
                UpdateExpression="SET dr = :dr, #in = :in, v = :v, wid = :wid"
                + "".join(f", {name} = :{name}" for name in more),
                ConditionExpression="v = :read",
                ExpressionAttributeNames={"#in": "in"},
                ExpressionAttributeValues={
                    ":dr": {"BOOL": new.draining},
                    ":in": {"L": [text(one) for one in new.intended]},
                    ":v": number(version),
                    ":wid": text(mark),
                    ":read": number(read.version),
                    **{f":{name}": value for name, value in more.items()},
                },
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            item = refusing_item(error)
            if item is None or item.get("wid") != text(mark):
                return None
        return dataclasses.replace(new, version=version)

    def list(self, owners: Sequence[str] | None, *, limit: int, cursor: str | None) -> Page[Worker]:
        scope = "workers" if owners is None else owners_scope("workers", owners)
        after = None if cursor is None else worker_position(read_cursor(cursor, scope=scope))
        parts: Sequence[str | None] = (None,) if owners is None else tuple(sorted(owners))
        found = for_all(lambda one: self._some(one, limit + 1, after), parts)
        items = sorted((item for items in found for item in items), key=name_of)
        more, items = len(items) > limit, items[:limit]
        return Page(
            items=[worker for item in items for worker in _readable(item)],
            cursor=write_cursor(name_of(items[-1]), scope=scope) if more else None,
        )

    def _some(self, owner: str | None, limit: int, after: str | None) -> Sequence[Item]:
        """The first workers after this id, of one owner or of all. Ids of an owner's workers begin alike."""
        prefix = "" if owner is None else owner_prefix(owner)
        # Ids are of one length: behind an id comes whatever is greater than the id with something behind it.
        first, last = max(prefix, "" if after is None else f"{after}0") or "0", f"{prefix}{{"
        if first > last:
            return []
        items = deque[Item]()
        start: dict[str, Any] = {}
        while len(items) < limit:
            # 101 rows of 2 KB are far below the 1 MB of a page.
            answer = self._client.query(
                TableName=self._table,
                KeyConditionExpression="#kind = :kind AND #name BETWEEN :first AND :last",
                ExpressionAttributeNames={"#kind": "kind", "#name": "name"},
                ExpressionAttributeValues={
                    ":kind": worker_key("")["kind"],
                    ":first": text(first),
                    ":last": text(last),
                },
                ConsistentRead=True,
                Limit=limit - len(items),
                **start,
            )
            items += [item for item in answer["Items"] if owner is None or item.get("o") == text(owner)]
            if "LastEvaluatedKey" not in answer:
                break
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
        return tuple(items)


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
        drained_by=Actor.read(str(item["db"]["S"])) if "db" in item else None,
        poll_id=str(item["pi"]["S"]) if "pi" in item else None,
        intended=tuple(str(one["S"]) for one in item.get("in", {}).get("L", [])),
        version=int(item["v"]["N"]),
    )
