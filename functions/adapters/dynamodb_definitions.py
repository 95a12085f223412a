"""Definitions in the table Jobs: inline in the state row, or in a row of their own beside it."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from functions.adapters.dynamodb_items import definition_attributes, document_text, item_size, state_attributes
from functions.adapters.dynamodb_keys import Item, definition_key, definition_row, state_key, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_dynamodb import DynamoDBClient

    from functions.domain.definition import Definition
    from functions.domain.job import Job

logger = logging.getLogger(__name__)

WRITE_UNIT = 1024
"""Bytes of a row that one write unit pays for."""
GROWTH = 260
"""Bytes a state row grows by while a run is active: its entry, the last run, a gap."""


class DefinitionRows:
    """The rows of definitions that have one of their own."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def put(self, job: Job) -> None:
        """Put the row that the job names, if it names one."""
        if job.definition_row is None or job.definition is None:
            return
        item = definition_key(job.id, job.definition_row) | definition_attributes(job.definition)
        self._client.put_item(TableName=self._table, Item=item)

    def forget(self, job: Job, *, unless: Item) -> None:
        """Delete the job's definition row unless this state row points to it; best effort."""
        row = job.definition_row
        if row is not None and unless.get("dr") != text(row):
            key = definition_key(job.id, row)
            _best_effort(lambda: self._client.delete_item(TableName=self._table, Key=key), row)

    def expire(self, job: Job, ttl: Any) -> None:
        """Have the row deleted with the state row; best effort."""
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


def row_name(job: Job) -> str | None:
    """Name of the row the definition needs; None when it fits into the state row and that stays at one write unit."""
    if job.definition is None:
        return None
    state = state_attributes(dataclasses.replace(job, definition_row=None))
    inline = state_key(job.id) | state | definition_attributes(job.definition)
    if item_size(inline) + GROWTH <= WRITE_UNIT:
        return None
    return definition_row(job.revision, job.write_id)


def inline_attributes(job: Job) -> dict[str, Any]:
    """What the state row has of the definition: nothing where that has a row of its own."""
    if job.definition is None or job.definition_row is not None:
        return {}
    return definition_attributes(job.definition)


def is_same(one: Definition, other: Definition | None) -> bool:
    """Whether the two are stored alike."""
    if one is other:
        return True
    return other is not None and one.payload == other.payload and document_text(one) == document_text(other)
