"""Workflows in the table Coordination: a row each, and one in the list of its owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from functions.graph_ports import Workflow
    from functions.ports import Page


class DynamoDbWorkflows:
    """WorkflowStore over one table."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def put(self, workflow: Workflow) -> Workflow:
        raise NotImplementedError

    def get(self, workflow_id: str) -> Workflow | None:
        raise NotImplementedError

    def list_by_owner(self, owner: str, *, limit: int, cursor: str | None) -> Page[Workflow]:
        raise NotImplementedError
