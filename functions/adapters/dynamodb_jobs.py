"""State rows and definitions in the table Jobs."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from functions.adapters.dynamodb_conditions import refusing_item
from functions.adapters.dynamodb_items import (
    DEFINITION_ATTRIBUTES,
    definition_attributes,
    document_text,
    item_size,
    read_definition,
    read_job,
    state_attributes,
)
from functions.adapters.dynamodb_keys import (
    ATTENTION_INDEX,
    OWNER_INDEX,
    SHARDS,
    WAITING_INDEX,
    WAITING_SHARDS,
    Item,
    attention_partition,
    definition_key,
    definition_row,
    job_id_of,
    number,
    owner_start_key,
    row_of,
    state_key,
    text,
    waiting_partition,
)
from functions.domain.cursor import read_cursor, write_cursor
from functions.domain.errors import CorruptDefinitionError, JobExistsError, LostRaceError, UnavailableError
from functions.ports import Page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from functions.domain.definition import Definition
    from functions.domain.job import Job


logger = logging.getLogger(__name__)

WRITE_UNIT = 1024
"""Bytes of a row that one write unit pays for."""
GROWTH = 260
"""Bytes a state row grows by while a run is active: its entry, the last run, a gap."""
ATTENTION_PAGE = 100
READ_AT_ONCE = 100
"""Rows of a batch read (DynamoDB API)."""
BATCH_ROUNDS = 10
"""How often what a batch read left unprocessed is asked for again."""


class DynamoDbJobs:
    """JobStore over one table."""

    shards = SHARDS
    waiting_shards = WAITING_SHARDS

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def create(self, job: Job) -> Job:
        stored = dataclasses.replace(job, definition_row=_definition_row(job))
        self._put_definition(stored)
        item = state_key(job.id) | state_attributes(stored) | _inline(stored)
        try:
            self._client.put_item(
                TableName=self._table,
                Item=item,
                ConditionExpression="attribute_not_exists(jobId)",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            taken = refusing_item(error) or {}
            if text(job.write_id) not in (taken.get("wid"), taken.get("rw")):
                self._forget_definition(stored, unless=taken)
                raise JobExistsError from error
        return stored

    def get(self, job_id: str, *, with_definition: bool = True) -> Job | None:
        item = self._get(state_key(job_id))
        if item is None:
            return None
        job = read_job(item)
        return self._with_definition(job) if with_definition else job

    def get_many(self, job_ids: Sequence[str]) -> list[Job]:
        rows = {job_id_of(item): item for item in self._get_batch([state_key(one) for one in dict.fromkeys(job_ids)])}
        jobs = [job for job_id in job_ids if job_id in rows for job in _readable(rows[job_id])]
        keys = {job.id: definition_key(job.id, job.definition_row) for job in jobs if job.definition_row is not None}
        definitions = {(job_id_of(item), row_of(item)): item for item in self._get_batch(list(keys.values()))}
        read = (self._defined(job, definitions.get((job.id, job.definition_row or ""))) for job in jobs)
        return [job for job in read if job is not None]

    def create_all(self, jobs: Sequence[Job]) -> Sequence[Job]:
        raise NotImplementedError

    def get_rows(self, job_ids: Sequence[str]) -> dict[str, Job]:
        rows: dict[str, Job] = {}
        ids = list(dict.fromkeys(job_ids))
        for start in range(0, len(ids), READ_AT_ONCE):
            keys = [state_key(one) for one in ids[start : start + READ_AT_ONCE]]
            rows |= {job_id_of(item): read_job(item) for item in self._get_batch(keys)}
        return rows

    def save(self, read: Job, new: Job, *, graph: int | None = None) -> Job:
        if graph is not None:
            raise NotImplementedError
        changed = new.definition is not None and not _same(new.definition, read.definition)
        saved = dataclasses.replace(
            new,
            seq=read.seq + 1,
            definition=new.definition or read.definition,
            definition_row=_definition_row(new) if changed else read.definition_row,
        )
        old_attributes, new_attributes = state_attributes(read), state_attributes(saved)
        if changed:
            self._put_definition(saved)
            # What the row has inline is not known here, so all of it is replaced or removed.
            old_attributes |= {name: {"NULL": True} for name in DEFINITION_ATTRIBUTES}
            new_attributes |= _inline(saved)
        try:
            self._update(state_key(read.id), read.seq, old_attributes, new_attributes)
        except ClientError as error:
            item = refusing_item(error)
            if item is None or item.get("wid") != text(new.write_id):
                if changed:
                    self._forget_definition(saved, unless=item or {})
                raise LostRaceError(None if item is None else self._current(item, read)) from error
        if changed and read.definition_row not in (None, saved.definition_row):
            self._forget_definition(read, unless={})
        if saved.deleted_at is not None and read.deleted_at is None:
            self._expire_definition(saved, new_attributes["ttl"])
        return saved

    def due_for_attention(self, shard: int, *, until: int) -> Iterator[str]:
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            IndexName=ATTENTION_INDEX,
            KeyConditionExpression="#as = :shard AND #at <= :until",
            ExpressionAttributeNames={"#as": "as", "#at": "at"},
            ExpressionAttributeValues={":shard": text(attention_partition(shard)), ":until": number(until)},
            PaginationConfig={"PageSize": ATTENTION_PAGE},
        )
        for page in pages:
            for item in page["Items"]:
                yield job_id_of(item)

    def waiting_for(self, what: str, shard: int, *, limit: int) -> list[tuple[str, str]]:
        answer = self._client.query(
            TableName=self._table,
            IndexName=WAITING_INDEX,
            KeyConditionExpression="wp = :what",
            ExpressionAttributeValues={":what": text(waiting_partition(what, shard))},
            Limit=limit,
        )
        return [(str(item["ws"]["S"]), job_id_of(item)) for item in answer["Items"]]

    def list_by_owner(self, owner: str, *, limit: int, cursor: str | None) -> Page[str]:
        scope = f"owner {owner}"
        start: dict[str, Any] = {}
        if cursor is not None:
            start = {"ExclusiveStartKey": owner_start_key(owner, read_cursor(cursor, scope=scope))}
        # One more than asked for tells whether there is another page. Keys only: 100 are far below the 1 MB of a page.
        answer = self._client.query(
            TableName=self._table,
            IndexName=OWNER_INDEX,
            KeyConditionExpression="ow = :owner",
            ExpressionAttributeValues={":owner": text(owner)},
            ScanIndexForward=False,
            Limit=limit + 1,
            **start,
        )
        items = answer["Items"][:limit]
        more = len(answer["Items"]) > limit
        return Page(
            items=[job_id_of(item) for item in items],
            cursor=write_cursor(str(items[-1]["oc"]["S"]), scope=scope) if more else None,
        )

    def _get(self, key: Mapping[str, Any]) -> Item | None:
        return self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True).get("Item")

    def _get_batch(self, keys: list[dict[str, Any]]) -> list[Item]:
        found: list[Item] = []
        for _ in range(BATCH_ROUNDS):
            if not keys:
                return found
            answer = self._client.batch_get_item(RequestItems={self._table: {"Keys": keys, "ConsistentRead": True}})
            found += answer["Responses"].get(self._table, [])
            left: Any = answer.get("UnprocessedKeys", {}).get(self._table, {})
            keys = left.get("Keys", [])
        raise UnavailableError

    def _with_definition(self, job: Job) -> Job | None:
        if job.definition_row is None:
            return job
        return self._defined(job, self._get(definition_key(job.id, job.definition_row)))

    def _defined(self, job: Job, row: Item | None) -> Job | None:
        """The job with the definition of its row. A row that is missing may have been superseded since the state row
        was read: then this is the newer job."""
        if job.definition_row is None:
            return job
        if row is not None:
            definition = read_definition(row, job_id=job.id, created_at=job.created_at)
            return dataclasses.replace(job, definition=definition)
        item = self._get(state_key(job.id))
        newer = None if item is None else read_job(item)
        if newer is None or newer.definition_row == job.definition_row:
            return newer
        return self._with_definition(newer)

    def _current(self, item: Item, read: Job) -> Job:
        current = read_job(item)
        if current.definition_row is not None and current.definition_row == read.definition_row:
            return dataclasses.replace(current, definition=read.definition)
        return self._with_definition(current) or current

    def _put_definition(self, job: Job) -> None:
        if job.definition_row is None or job.definition is None:
            return
        item = definition_key(job.id, job.definition_row) | definition_attributes(job.definition)
        self._client.put_item(TableName=self._table, Item=item)

    def _update(self, key: Mapping[str, Any], seq: int, old: Item, new: Item) -> None:
        """Write what differs; every write names the `seq` it read."""
        changed = [name for name, value in new.items() if old.get(name) != value]
        removed = [name for name in old if name not in new]
        names = {f"#{index}": name for index, name in enumerate([*changed, *removed])}
        alias = {name: short for short, name in names.items()}
        expression = "SET " + ", ".join(f"{alias[name]} = :{alias[name][1:]}" for name in changed)
        if removed:
            expression += " REMOVE " + ", ".join(alias[name] for name in removed)
        values = {f":{alias[name][1:]}": new[name] for name in changed}
        self._client.update_item(
            TableName=self._table,
            Key=key,
            UpdateExpression=expression,
            ConditionExpression=f"{alias['seq']} = :read",
            ExpressionAttributeNames=names,
            ExpressionAttributeValues={**values, ":read": number(seq)},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )

    def _forget_definition(self, job: Job, *, unless: Item) -> None:
        """Delete the job's definition row unless this state row points to it."""
        row = job.definition_row
        if row is not None and unless.get("dr") != text(row):
            key = definition_key(job.id, row)
            _best_effort(lambda: self._client.delete_item(TableName=self._table, Key=key), row)

    def _expire_definition(self, job: Job, ttl: Any) -> None:
        row = job.definition_row
        if row is not None:
            key = definition_key(job.id, row)
            _best_effort(
                lambda: self._client.update_item(
                    TableName=self._table,
                    Key=key,
                    UpdateExpression="SET #ttl = :ttl",
                    ConditionExpression="attribute_exists(jobId)",
                    ExpressionAttributeNames={"#ttl": "ttl"},
                    ExpressionAttributeValues={":ttl": ttl},
                ),
                row,
            )


def _best_effort(call: Callable[[], object], row: str) -> None:
    """A definition row that stays costs its storage and nothing else."""
    try:
        call()
    except (ClientError, BotoCoreError):
        logger.warning("definition row %s was left behind", row, exc_info=True)


def _definition_row(job: Job) -> str | None:
    """Name of the row the definition needs; None when it fits into the state row and that stays at one write unit."""
    if job.definition is None:
        return None
    state = state_attributes(dataclasses.replace(job, definition_row=None))
    inline = state_key(job.id) | state | definition_attributes(job.definition)
    if item_size(inline) + GROWTH <= WRITE_UNIT:
        return None
    return definition_row(job.revision, job.write_id)


def _inline(job: Job) -> dict[str, Any]:
    if job.definition is None or job.definition_row is not None:
        return {}
    return definition_attributes(job.definition)


def _readable(item: Item) -> list[Job]:
    try:
        return [read_job(item)]
    except CorruptDefinitionError:
        logger.exception("a row was left out of a list")
        return []


def _same(one: Definition, other: Definition | None) -> bool:
    if one is other:
        return True
    return other is not None and one.payload == other.payload and document_text(one) == document_text(other)
