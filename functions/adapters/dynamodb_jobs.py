"""State rows and definitions in the table Jobs."""

from __future__ import annotations

import dataclasses
import logging
import time
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from functions.adapters.dynamodb_batches import read_batch
from functions.adapters.dynamodb_conditions import refusing_item
from functions.adapters.dynamodb_definitions import DefinitionRows, inline_attributes, is_same, row_name
from functions.adapters.dynamodb_graph import next_version
from functions.adapters.dynamodb_items import (
    DEFINITION_ATTRIBUTES,
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
    job_at,
    job_id_of,
    number,
    owner_start_key,
    row_of,
    state_key,
    text,
    waiting_partition,
)
from functions.adapters.dynamodb_set_aside import set_aside
from functions.adapters.dynamodb_transactions import Refusal, past_transactions, write_together
from functions.domain.cursor import newest, owners_scope, read_cursor, write_cursor
from functions.domain.errors import (
    CorruptDefinitionError,
    GraphChangedError,
    JobExistsError,
    LostRaceError,
)
from functions.parallel import for_all
from functions.ports import Page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from functions.domain.job import Job


logger = logging.getLogger(__name__)

ATTENTION_PAGE = 100


class DynamoDbJobs:
    """JobStore over one table; `graphs` is the one that has the versions of graphs, which only changes of them need."""

    shards = SHARDS
    waiting_shards = WAITING_SHARDS

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        *,
        graphs: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._table = table
        self._definitions = DefinitionRows(client, table)
        self._graphs = graphs
        self._sleep = sleep

    def create(self, job: Job) -> Job:
        stored = dataclasses.replace(job, definition_row=row_name(job))
        self._definitions.put(stored)
        try:
            self._client.put_item(**self._new(stored))
        except ClientError as error:
            taken = refusing_item(error) or {}
            if not _is_of(job, taken):
                self._definitions.forget(stored, unless=taken)
                raise JobExistsError from error
        return stored

    def create_all(self, jobs: Sequence[Job]) -> Sequence[Job]:
        stored = [dataclasses.replace(job, definition_row=row_name(job)) for job in jobs]
        for_all(self._definitions.put, stored)
        writes = [{"Put": self._new(job)} for job in stored]
        refusals = write_together(self._client, writes, sleep=self._sleep)
        if refusals is not None:
            taken = [{} if refusal is None else refusal.item for refusal in refusals]
            if not all(map(_is_of, stored, taken)):
                pairs = list(zip(stored, taken, strict=True))
                for_all(lambda pair: self._definitions.forget(pair[0], unless=pair[1]), pairs)
                raise JobExistsError
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

    def get_rows(self, job_ids: Sequence[str]) -> dict[str, Job]:
        rows = self._get_batch([state_key(one) for one in dict.fromkeys(job_ids)])
        return {job_id_of(item): read_job(item) for item in rows}

    def save(self, read: Job, new: Job, *, graph: int | None = None) -> Job:
        changed = new.definition is not None and not is_same(new.definition, read.definition)
        saved = dataclasses.replace(
            new,
            seq=read.seq + 1,
            definition=new.definition or read.definition,
            definition_row=row_name(new) if changed else read.definition_row,
        )
        old_attributes, new_attributes = state_attributes(read), state_attributes(saved)
        if changed:
            self._definitions.put(saved)
            # What the row has inline is not known here, so all of it is replaced or removed.
            old_attributes |= {name: {"NULL": True} for name in DEFINITION_ATTRIBUTES}
            new_attributes |= inline_attributes(saved)
        update = self._update(state_key(read.id), read.seq, old_attributes, new_attributes)
        refusals = self._write(update) if graph is None else self._write_with_graph(update, read.owner, graph)
        if refusals is not None:
            row, *_ = refusals
            item = {} if row is None else row.item
            if item.get("wid") != text(new.write_id):
                if changed:
                    self._definitions.forget(saved, unless=item)
                if row is None:
                    raise GraphChangedError
                raise LostRaceError(self._current(item, read) if item else None)
        if changed and read.definition_row not in (None, saved.definition_row):
            self._definitions.forget(read, unless={})
        if saved.deleted_at is not None and read.deleted_at is None:
            self._definitions.expire(saved, new_attributes["ttl"])
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

    def set_aside(self, job_id: str, *, until: int) -> bool | None:
        item = self._get(state_key(job_id))
        return None if item is None else set_aside(self._client, self._table, item, until=until)

    def waiting_for(self, what: str, shard: int, *, limit: int) -> list[tuple[str, str]]:
        answer = self._client.query(
            TableName=self._table,
            IndexName=WAITING_INDEX,
            KeyConditionExpression="wp = :what",
            ExpressionAttributeValues={":what": text(waiting_partition(what, shard))},
            Limit=limit,
        )
        return [(str(item["ws"]["S"]), job_id_of(item)) for item in answer["Items"]]

    def list_by_owners(self, owners: Sequence[str], *, limit: int, cursor: str | None) -> Page[str]:
        scope = owners_scope("owner", owners)
        before = None if cursor is None else read_cursor(cursor, scope=scope)
        pages = for_all(lambda owner: self._places(owner, limit + 1, before), sorted(owners))
        places, more = newest((place for page in pages for place in page), limit)
        return Page(
            items=[job_at(place) for place in places],
            cursor=write_cursor(places[-1], scope=scope) if more else None,
        )

    def _places(self, owner: str, limit: int, before: str | None) -> list[str]:
        """Where the owner's newest jobs stand that are older than `before`."""
        start: dict[str, Any] = {} if before is None else {"ExclusiveStartKey": owner_start_key(owner, before)}
        # Keys only: 100 are far below the 1 MB of a page.
        answer = self._client.query(
            TableName=self._table,
            IndexName=OWNER_INDEX,
            KeyConditionExpression="ow = :owner",
            ExpressionAttributeValues={":owner": text(owner)},
            ScanIndexForward=False,
            Limit=limit,
            **start,
        )
        return [str(item["oc"]["S"]) for item in answer["Items"]]

    def _get(self, key: Mapping[str, Any]) -> Item | None:
        return self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True).get("Item")

    def _get_batch(self, keys: Sequence[dict[str, Any]]) -> list[Item]:
        return read_batch(self._client, self._table, keys)

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

    def _new(self, job: Job) -> dict[str, Any]:
        """The put of a state row that is not there yet."""
        return {
            "TableName": self._table,
            "Item": state_key(job.id) | state_attributes(job) | inline_attributes(job),
            "ConditionExpression": "attribute_not_exists(jobId)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def _update(self, key: Mapping[str, Any], seq: int, old: Item, new: Item) -> dict[str, Any]:
        """The write of what differs; every write names the `seq` it read."""
        changed = [name for name, value in new.items() if old.get(name) != value]
        removed = [name for name in old if name not in new]
        names = {f"#{index}": name for index, name in enumerate([*changed, *removed])}
        alias = {name: short for short, name in names.items()}
        expression = "SET " + ", ".join(f"{alias[name]} = :{alias[name][1:]}" for name in changed)
        if removed:
            expression += " REMOVE " + ", ".join(alias[name] for name in removed)
        values = {f":{alias[name][1:]}": new[name] for name in changed}
        return {
            "TableName": self._table,
            "Key": key,
            "UpdateExpression": expression,
            "ConditionExpression": f"{alias['seq']} = :read",
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": {**values, ":read": number(seq)},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def _write(self, update: dict[str, Any]) -> Sequence[Refusal | None] | None:
        try:
            past_transactions(lambda: self._client.update_item(**update), sleep=self._sleep)
        except ClientError as error:
            return [Refusal(refusing_item(error) or {})]
        return None

    def _write_with_graph(self, update: dict[str, Any], owner: str, version: int) -> Sequence[Refusal | None] | None:
        """Of the row, then of the graph."""
        if self._graphs is None:
            raise TypeError("this store was made without the table of graphs")
        writes = [{"Update": update}, next_version(self._graphs, owner, version)]
        return write_together(self._client, writes, sleep=self._sleep)


def _is_of(job: Job, stored: Item) -> bool:
    """Whether this row was put by the write that puts the job, even where somebody wrote it since."""
    return text(job.write_id) in (stored.get("wid"), stored.get("rw"))


def _readable(item: Item) -> list[Job]:
    try:
        return [read_job(item)]
    except CorruptDefinitionError:
        logger.exception("a row was left out of a list")
        return []
