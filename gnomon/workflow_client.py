"""The API for workflows: jobs that are created together, looked at and steered as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from gnomon.calling import segment
from gnomon.client import Client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gnomon.paging import Pages
    from gnomon.workflow_shapes import Workflow, WorkflowSummary


class WorkflowClient(Client):
    """A Client that knows workflows."""

    def create_workflow(self, definition: Mapping[str, Any], *, idempotency_key: str | None = None) -> Workflow:
        """Register its jobs, all of them or none. Without a key one is drawn, so that a repeat makes no second one."""
        return cast("Workflow", self._keyed("/v1/workflows", definition, idempotency_key))

    def get_workflow(self, workflow_id: str) -> Workflow:
        return cast("Workflow", self._call("GET", _workflow(workflow_id)))

    def workflow_mermaid(self, workflow_id: str) -> str:
        """The workflow as a Mermaid flowchart."""
        answer = self._answer(
            "GET", _workflow(workflow_id), query={"format": "mermaid"}, headers={"Accept": "text/plain, */*"}
        )
        return "" if answer is None else answer.text

    def list_workflows(
        self, *, owner: str | None = None, page_size: int = 50, cursor: str | None = None
    ) -> Pages[WorkflowSummary]:
        """Your own, newest first, without their jobs. Pages as it goes."""
        return self._pages("/v1/workflows", {"owner": owner}, page_size, cursor=cursor)

    def cancel_workflow(self, workflow_id: str) -> Workflow:
        """Cancel every job that has not ended. A repeat changes nothing, so a lost answer is asked for again."""
        return cast("Workflow", self._call("POST", f"{_workflow(workflow_id)}/cancel", repeatable=True))

    def retry_workflow(self, workflow_id: str, *, idempotency_key: str | None = None) -> Workflow:
        """Retry every job that failed with attempts of its own; those after them run again."""
        return cast("Workflow", self._keyed(f"{_workflow(workflow_id)}/retry", None, idempotency_key))


def _workflow(workflow_id: str) -> str:
    return f"/v1/workflows/{segment(workflow_id, 'workflow id')}"
