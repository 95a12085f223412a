"""Workflows in the table Coordination: a row each, and one in the list of its owner."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from functions.adapters.dynamodb_batches import read_batch
from functions.adapters.dynamodb_conditions import refusing_item
from functions.adapters.dynamodb_keys import (
    Item,
    listed_workflow,
    name_of,
    number,
    text,
    workflow_at,
    workflow_place,
    workflow_row,
    workflows_kind,
)
from functions.domain.cursor import newest, owners_scope, read_cursor, write_cursor
from functions.domain.errors import CorruptDefinitionError
from functions.domain.stored_json import read_stored
from functions.graph_ports import Workflow
from functions.parallel import for_all
from functions.ports import Page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

logger = logging.getLogger(__name__)


class DynamoDbWorkflows:
    """WorkflowStore over one table.

    The row of the list is put first, so a workflow that exists is listed. What is listed and has no row, or one that
    was made at another second, is what a creation that stopped half-way or was repeated left behind: it is not shown.

    | attribute | field |
    |---|---|
    | `n` `o` `cb` `ca` | name, owner, created_by, created_at |
    | `j` | jobs, as JSON text of pairs |
    """

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def put(self, workflow: Workflow) -> Workflow:
        place = workflow_place(workflow.created_at, workflow.id)
        self._client.put_item(TableName=self._table, Item=listed_workflow(workflow.owner, place))
        try:
            self._client.put_item(
                TableName=self._table,
                Item=_item(workflow),
                ConditionExpression="attribute_not_exists(kind)",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            stored = refusing_item(error)
            if stored is None:
                raise
            return _read(stored)
        return workflow

    def get(self, workflow_id: str) -> Workflow | None:
        """Raises CorruptDefinitionError where what is stored cannot be read."""
        key = workflow_row(workflow_id)
        item = self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True).get("Item")
        return None if item is None else _read(item)

    def list_by_owners(self, owners: Sequence[str], *, limit: int, cursor: str | None) -> Page[Workflow]:
        scope = owners_scope("workflows", owners)
        before = None if cursor is None else read_cursor(cursor, scope=scope)
        pages = for_all(lambda owner: self._places(owner, limit + 1, before), sorted(owners))
        places, more = newest((place for page in pages for place in page), limit)
        keys = {workflow_at(place): workflow_row(workflow_at(place)) for place in places}
        rows = {name_of(item): item for item in read_batch(self._client, self._table, list(keys.values()))}
        return Page(
            items=[one for place in places for one in _shown(owners, place, rows.get(workflow_at(place)))],
            cursor=write_cursor(places[-1], scope=scope) if more else None,
        )

    def _places(self, owner: str, limit: int, before: str | None) -> list[str]:
        """Where the owner's newest workflows stand that are older than `before`."""
        start: dict[str, Any] = {} if before is None else {"ExclusiveStartKey": listed_workflow(owner, before)}
        # Keys only: 100 are far below the 1 MB of a page.
        answer = self._client.query(
            TableName=self._table,
            KeyConditionExpression="#kind = :kind",
            ExpressionAttributeNames={"#kind": "kind"},
            ExpressionAttributeValues={":kind": text(workflows_kind(owner))},
            ScanIndexForward=False,
            ConsistentRead=True,
            Limit=limit,
            **start,
        )
        return [name_of(item) for item in answer["Items"]]


def _item(workflow: Workflow) -> dict[str, Any]:
    return workflow_row(workflow.id) | {
        "n": text(workflow.name),
        "o": text(workflow.owner),
        "cb": text(workflow.created_by),
        "ca": number(workflow.created_at),
        "j": text(json.dumps(workflow.jobs, separators=(",", ":"), ensure_ascii=False)),
    }


def _read(item: Item) -> Workflow:
    workflow_id = name_of(item)
    try:
        return Workflow(
            id=workflow_id,
            name=str(item["n"]["S"]),
            owner=str(item["o"]["S"]),
            created_by=str(item["cb"]["S"]),
            created_at=int(item["ca"]["N"]),
            jobs=tuple(_pair(*pair) for pair in read_stored(item["j"]["S"])),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptDefinitionError(f"The stored workflow {workflow_id} cannot be read.") from error


def _pair(name: object, job_id: object) -> tuple[str, str]:
    if not isinstance(name, str) or not isinstance(job_id, str):
        raise TypeError(f"({name!r:.64}, {job_id!r:.64}) is not a name and an id")
    return name, job_id


def _shown(owners: Sequence[str], place: str, item: Item | None) -> Iterator[Workflow]:
    if item is None:
        return
    try:
        workflow = _read(item)
    except CorruptDefinitionError:
        logger.exception("a workflow was left out of a list")
        return
    if workflow.owner in owners and workflow_place(workflow.created_at, workflow.id) == place:
        yield workflow
