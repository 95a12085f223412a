"""Operations of workflows."""

from __future__ import annotations

from typing import Any

from functions.api.openapi_operation import CURSOR, KEY, LIMIT, Operation, parameter
from functions.api.openapi_shapes import Schema

WORKFLOW_EXAMPLE: dict[str, Any] = {
    "name": "nightly etl",
    "jobs": {
        "extract": {"target": {"type": "http", "url": "https://etl.example.com/extract"}},
        "load": {
            "target": {"type": "http", "url": "https://etl.example.com/load"},
            "dependsOn": [{"job": "extract", "when": "rows > `0`"}],
        },
    },
}


def _action(summary: str, *parameters: Schema) -> Operation:
    return Operation(
        tag="workflows",
        summary=summary,
        success=(200, "Workflow", "The workflow as it now is."),
        parameters=parameters,
        body="NoFields",
        errors=(404, 409, 413, 415, *((422,) if parameters else ())),
    )


WORKFLOWS: dict[str, Operation] = {
    "createWorkflow": Operation(
        tag="workflows",
        summary="Register up to 100 jobs that depend on each other, all of them or none",
        success=(201, "Workflow", "The workflow; `Location` names it."),
        parameters=(KEY,),
        body="WorkflowBody",
        body_required=True,
        examples={"etl": {"summary": "Two jobs, one after the other", "value": WORKFLOW_EXAMPLE}},
        errors=(404, 409, 413, 415, 422),
    ),
    "listWorkflows": Operation(
        tag="workflows",
        summary="List workflows, newest first",
        success=(200, "WorkflowList", "A page; it may be empty and still have a cursor."),
        parameters=(
            parameter("query", "owner", {"type": "string"}, "Whose: of all owners that you act for by default."),
            LIMIT,
            CURSOR,
        ),
    ),
    "getWorkflow": Operation(
        tag="workflows",
        summary="Read a workflow: states, edges, what blocks whom, and what has taken the time",
        success=(200, "Workflow", "The workflow as it stands."),
        parameters=(
            parameter(
                "query",
                "format",
                {"type": "string", "enum": ["json", "mermaid"], "default": "json"},
                "mermaid: a flowchart as text.",
            ),
        ),
        media={"text/plain": {"type": "string", "description": "With `format=mermaid`."}},
        errors=(404,),
    ),
    "cancelWorkflow": _action("Cancel every job of a workflow that has not ended"),
    "retryWorkflow": _action("Retry every job of a workflow that failed; those after them run again", KEY),
}
