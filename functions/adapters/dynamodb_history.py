"""Executions and skipped slots in the table Executions."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from functions.adapters.dynamodb_conditions import refusing_item, unless_refused
from functions.adapters.dynamodb_history_items import end_item, execution_item, gap_item, read_end, read_history
from functions.adapters.dynamodb_keys import (
    Item,
    end_key,
    execution_key,
    history_place,
    history_start_key,
    number,
    text,
)
from functions.domain.cursor import read_cursor, write_cursor
from functions.domain.errors import CorruptDefinitionError
from functions.domain.execution import Execution, SkippedSlots
from functions.ports import Page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from functions.domain.job import Gap
    from functions.domain.run import LastRun


logger = logging.getLogger(__name__)


class DynamoDbHistory:
    """RunHistory over one table. Each row expires `retention_days` after it was recorded."""

    def __init__(self, client: DynamoDBClient, table: str, *, retention_days: int) -> None:
        self._client = client
        self._table = table
        self._retention_days = retention_days

    def record(self, execution: Execution) -> Execution:
        try:
            self._client.put_item(
                TableName=self._table,
                Item=execution_item(execution, retention_days=self._retention_days),
                ConditionExpression="attribute_not_exists(jobId)",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            stored = refusing_item(error)
            if stored is None:
                raise
            # The row of an own write that the SDK repeated is as good as any other: it is what is stored.
            return _execution(stored)
        return execution

    def record_gap(self, job_id: str, gap: Gap, *, now: float) -> None:
        row = SkippedSlots(
            job_id=job_id, first=gap.first, last=gap.last, count=gap.count, reason=gap.reason, recorded_at=now
        )
        with unless_refused():
            self._client.put_item(
                TableName=self._table,
                Item=gap_item(row, retention_days=self._retention_days),
                ConditionExpression="attribute_not_exists(jobId) OR #to < :last",
                ExpressionAttributeNames={"#to": "to"},
                ExpressionAttributeValues={":last": number(gap.last)},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )

    def get(self, job_id: str, slot_id: str, attempt: int) -> Execution | None:
        key = execution_key(job_id, slot_id, attempt)
        item = self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True).get("Item")
        return None if item is None else _execution(item)

    def record_end(self, job_id: str, number: int, last: LastRun) -> None:
        with unless_refused():
            self._client.put_item(
                TableName=self._table,
                Item=end_item(job_id, number, last, retention_days=self._retention_days),
                ConditionExpression="attribute_not_exists(jobId)",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )

    def end(self, job_id: str, number: int) -> LastRun | None:
        key = end_key(job_id, number)
        item = self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True).get("Item")
        return None if item is None else read_end(item)

    def list(
        self, job_id: str, *, limit: int, cursor: str | None, beside: Sequence[Execution | SkippedSlots] = ()
    ) -> Page[Execution | SkippedSlots]:
        scope = f"history {job_id}"
        start = None if cursor is None else history_start_key(job_id, read_cursor(cursor, scope=scope))
        others = [self._item(one) for one in beside]
        if start is not None:
            others = [one for one in others if history_place(one) < history_place(start)]
        rows = _with(self._newest_first(job_id, start, page_size=limit + 1), others)
        items: list[Item] = []
        for item in rows:
            if len(items) == limit:
                place = history_place(items[-1])
                return Page(items=_readable(items), cursor=write_cursor(place, scope=scope))
            items.append(item)
        return Page(items=_readable(items))

    def _item(self, row: Execution | SkippedSlots) -> Item:
        if isinstance(row, Execution):
            return execution_item(row, retention_days=self._retention_days)
        return gap_item(row, retention_days=self._retention_days)

    def _newest_first(self, job_id: str, start: Mapping[str, Any] | None, *, page_size: int) -> Iterator[Item]:
        """Pages by itself: 100 results of 32 KB are more than the 1 MB of one answer."""
        following: dict[str, Any] = {} if start is None else {"ExclusiveStartKey": start}
        while True:
            answer = self._client.query(
                TableName=self._table,
                KeyConditionExpression="jobId = :job",
                ExpressionAttributeValues={":job": text(job_id)},
                ScanIndexForward=False,
                ConsistentRead=True,
                Limit=page_size,
                **following,
            )
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            following = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}


def _with(rows: Iterator[Item], beside: Iterable[Item]) -> Iterator[Item]:
    """The rows, newest first, with the others in their places, or instead of those that are there."""
    others = sorted(beside, key=history_place)
    for row in rows:
        while others and history_place(others[-1]) > history_place(row):
            yield others.pop()
        if others and history_place(others[-1]) == history_place(row):
            yield _whole(row, others.pop())
        else:
            yield row
    yield from reversed(others)


def _whole(stored: Item, beside: Item) -> Item:
    """Of two rows in one place: of a gap, which grows, the one that ends later."""
    grown = "to" in stored and int(stored["to"]["N"]) > int(beside["to"]["N"])
    return stored if grown else beside


def _execution(item: Item) -> Execution:
    row = read_history(item)
    if not isinstance(row, Execution):
        raise CorruptDefinitionError(f"The stored row {history_place(item)} is no execution.")
    return row


def _readable(items: list[Item]) -> list[Execution | SkippedSlots]:
    rows = []
    for item in items:
        try:
            rows.append(read_history(item))
        except CorruptDefinitionError:
            logger.exception("a row was left out of a list")
    return rows
