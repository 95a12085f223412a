"""Schemas of workflows in the OpenAPI document."""

from __future__ import annotations

from functions.api.openapi_gates import WAITING
from functions.api.openapi_shapes import (
    INSTANT,
    JOB_ID,
    WORKFLOW_ID,
    Schema,
    enum_of,
    list_of,
    maybe,
    record,
    ref,
)
from functions.domain.dependence import On
from functions.domain.job import JobStatus
from functions.domain.workflow import DELETED, LOCAL_NAME, MAX_JOBS, WaitsFor
from functions.domain.workflow_status import WorkflowStatus

_NAME: Schema = {"type": "string", "pattern": LOCAL_NAME}
_OUTSIDE: Schema = maybe(_NAME) | {"description": "Local name; null for a job outside the workflow."}
_MEMBER_STATUS = ref("WorkflowMemberStatus")


def workflow_dependencies(dependency: Schema) -> dict[str, Schema]:
    """An edge of a workflow: to a job of it by its local name, or to another one by id."""
    by_name = dependency["properties"] | {"job": _NAME | {"description": "Local name of a job of this workflow."}}
    del by_name["jobId"]
    return {
        "MemberDependency": dependency | {"properties": by_name, "required": ["job"]},
        "WorkflowDependency": {"oneOf": [ref("MemberDependency"), ref("DependencyBody")]},
    }


def workflow_job(job: Schema) -> Schema:
    """What a workflow takes for each of its jobs."""
    depends_on = job["properties"]["dependsOn"] | {"items": ref("WorkflowDependency")}
    return {
        "type": "object",
        "description": "A job as `POST /v1/jobs` takes it. Without `name` it is `<workflow>/<local name>`; without "
        "`schedule` and `dependsOn` it runs at once.",
        "properties": job["properties"] | {"dependsOn": depends_on},
        "required": ["target"],
        "additionalProperties": False,
    }


def workflow_schemas() -> dict[str, Schema]:
    head: dict[str, Schema] = {
        "id": WORKFLOW_ID,
        "name": {"type": "string"},
        "owner": {"type": "string"},
        "createdBy": {"type": "string"},
        "createdAt": INSTANT,
    }
    return {
        "WorkflowStatus": enum_of(WorkflowStatus, "By the states of its jobs."),
        "WorkflowMemberStatus": enum_of((*JobStatus, DELETED)),
        "Workflow": record(
            head
            | {
                "status": ref("WorkflowStatus"),
                "jobs": {"type": "array", "items": ref("WorkflowMember")},
                "edges": {"type": "array", "items": ref("WorkflowEdge")},
                "criticalPath": {
                    "type": "array",
                    "items": ref("WorkflowSpan"),
                    "description": "The chain of jobs that has determined the time so far, the first one first: the "
                    "seconds from the end of the one before to its own.",
                },
            },
            description="Jobs that were created together, as they stand.",
        ),
        "WorkflowMember": record(
            {
                "name": _NAME,
                "jobId": JOB_ID,
                "status": _MEMBER_STATUS,
                "waitsFor": maybe(enum_of(WaitsFor, "What it waits for where it does not run and has not ended.")),
                "waitingFor": WAITING,
                "blockedBy": {
                    "type": "array",
                    "items": ref("WorkflowBlocker"),
                    "description": "The jobs it waits for, at most 20.",
                },
                "nextRunAt": maybe(INSTANT),
                "readyAt": maybe(
                    INSTANT | {"description": "When its run was due: all that it depends on had ended, or its slot."}
                ),
                "startedAt": maybe(INSTANT | {"description": "When the attempt that runs did start."}),
                "endedAt": maybe(INSTANT | {"description": "When its last run ended; null while one is active."}),
                "lastRun": maybe(ref("LastRun")),
            }
        ),
        "WorkflowSpan": record({"name": _NAME, "jobId": JOB_ID, "seconds": {"type": "integer", "minimum": 0}}),
        "WorkflowBlocker": record({"name": _OUTSIDE, "jobId": JOB_ID, "status": _MEMBER_STATUS}),
        "WorkflowEdge": record(
            {
                "from": _OUTSIDE,
                "fromId": JOB_ID,
                "to": _NAME,
                "on": enum_of(On),
                "when": maybe({"type": "string"}),
            }
        ),
        "WorkflowSummary": record(head | {"jobCount": {"type": "integer", "minimum": 1, "maximum": MAX_JOBS}}),
        "WorkflowList": list_of("WorkflowSummary"),
    }
