"""What the OpenAPI document says of each operation, by its id. Which routes there are is the routes' own word."""

from __future__ import annotations

from typing import Any

from functions.api.openapi_operation import CURSOR, KEY, LIMIT, Operation, parameter
from functions.api.openapi_shapes import INSTANT, JOB_ID, Schema, ref
from functions.api.openapi_work import WORK
from functions.api.openapi_workflows import WORKFLOWS
from functions.api.request import JSON_TYPE, MERGE_PATCH_TYPE
from functions.api.routes_schedule import DEFAULT_COUNT, MAX_COUNT

JOB_EXAMPLE: dict[str, Any] = {
    "name": "nightly report",
    "schedule": {"type": "cron", "expression": "0 2 * * *", "timezone": "Europe/Berlin"},
    "target": {"type": "http", "url": "https://reports.example.com/build", "headers": {"X-Team": "billing"}},
    "payload": {"report": "revenue", "currency": "EUR"},
    "retryConfig": {"maxRetries": 5, "initialDelaySeconds": 30},
    "tags": ["billing"],
}


TYPE_EXAMPLE: dict[str, Any] = {
    "maxRetries": 8,
    "maxDelaySeconds": 3600,
    "poisonDetection": True,
    "maxConcurrency": 20,
}


_IF_MATCH = parameter(
    "header",
    "If-Match",
    {"type": "string", "examples": ['"3.17"']},
    "Change the job only if no caller changed it since its ETag was this one.",
)
_IF_NONE_MATCH = parameter(
    "header", "If-None-Match", {"type": "string"}, "Answer 304 if the job's ETag is still this one."
)


def _action(summary: str, *parameters: Schema, body: str = "NoFields") -> Operation:
    return Operation(
        tag="jobs",
        summary=summary,
        success=(200, "Job", "The job as it now is."),
        parameters=(*parameters, _IF_MATCH),
        body=body,
        errors=(404, 409, 412, 413, 415, *((422,) if parameters else ())),
    )


OPERATIONS: dict[str, Operation] = {
    "createJob": Operation(
        tag="jobs",
        summary="Register a job",
        success=(201, "Job", "The job; `Location` and `ETag` name it."),
        parameters=(KEY,),
        body="JobBody",
        body_required=True,
        examples={"nightly": {"summary": "A report every night", "value": JOB_EXAMPLE}},
        errors=(404, 409, 413, 415, 422),
    ),
    "createJobs": Operation(
        tag="jobs",
        summary="Register up to 100 jobs",
        success=(200, "BulkResults", "A result for each item, in their order; one that is refused hinders no other."),
        parameters=(KEY,),
        body="BulkBody",
        body_required=True,
        examples={"two": {"summary": "Two jobs", "value": {"items": [JOB_EXAMPLE, {**JOB_EXAMPLE, "name": "again"}]}}},
        errors=(413, 415, 422),
    ),
    "listJobs": Operation(
        tag="jobs",
        summary="List jobs, newest first",
        success=(200, "JobList", "A page; filters may leave it empty and still have a cursor."),
        parameters=(
            parameter(
                "query",
                "owner",
                {"type": "string"},
                "Whose jobs: by default those of all owners that you act for, `*` for everybody's.",
            ),
            parameter("query", "status", ref("JobStatus"), "Only this status."),
            parameter("query", "type", {"type": "string"}, "Only this type."),
            parameter("query", "tag", {"type": "string"}, "Only jobs that have this tag."),
            parameter("query", "silent", {"type": "string", "enum": ["true", "false"]}, "Silent ones, or others."),
            LIMIT,
            CURSOR,
        ),
    ),
    "getJob": Operation(
        tag="jobs",
        summary="Read a job",
        success=(200, "Job", "The job."),
        parameters=(_IF_NONE_MATCH,),
        errors=(404,),
        also={304: (None, "The job is still what `If-None-Match` names.")},
    ),
    "replaceJob": Operation(
        tag="jobs",
        summary="Replace a job's definition",
        success=(200, "Job", "The job as it now is."),
        parameters=(_IF_MATCH,),
        body="JobBody",
        body_required=True,
        examples={"nightly": {"summary": "A report every night", "value": JOB_EXAMPLE}},
        errors=(404, 409, 412, 413, 415),
    ),
    "patchJob": Operation(
        tag="jobs",
        summary="Change parts of a job's definition",
        success=(200, "Job", "The job as it now is."),
        parameters=(_IF_MATCH,),
        body="JobPatch",
        body_types=(MERGE_PATCH_TYPE, JSON_TYPE),
        body_required=True,
        examples={"tags": {"summary": "Other tags, default priority", "value": {"tags": ["ops"], "priority": None}}},
        errors=(404, 409, 412, 413, 415),
    ),
    "deleteJob": Operation(
        tag="jobs",
        summary="Cancel and delete a job",
        success=(204, None, "The job is gone."),
        parameters=(_IF_MATCH,),
        errors=(404, 409, 412),
    ),
    "pauseJob": _action("Switch a job off; what runs goes on"),
    "resumeJob": _action("Switch a job on again"),
    "transferJob": Operation(
        tag="jobs",
        summary="Give a job to another owner",
        success=(200, "Job", "The job, with its new owner."),
        parameters=(_IF_MATCH,),
        body="TransferBody",
        body_required=True,
        errors=(404, 409, 412, 413, 415),
    ),
    "executeJob": _action("Run a job now, beside its schedule", KEY),
    "retryJob": _action("Retry the run that failed last, or waits for its retry", KEY, body="RetryBody"),
    "approveRun": _action("Let a run pass that waits for approval", KEY, body="DecisionBody"),
    "rejectRun": _action("End a run that waits for approval", KEY, body="DecisionBody"),
    "cancelJob": _action("Cancel a job for good, its running attempts too"),
    "listJobHistory": Operation(
        tag="executions",
        summary="A job's attempts, newest first, the active ones included",
        success=(200, "History", "A page."),
        parameters=(LIMIT, CURSOR),
        errors=(404,),
    ),
    "getExecution": Operation(
        tag="executions",
        summary="Read one attempt",
        success=(200, "Execution", "The attempt."),
        errors=(404,),
    ),
    "cancelExecution": Operation(
        tag="executions",
        summary="Cancel one attempt, running or waiting; the job goes on",
        success=(200, "Execution", "The attempt, cancelled."),
        body="NoFields",
        errors=(404, 409, 413, 415),
    ),
    **WORK,
    **WORKFLOWS,
    "listRetryConfigs": Operation(
        tag="job types",
        summary="List the configurations of job types, by name",
        success=(200, "TypeConfigList", "A page."),
        parameters=(LIMIT, CURSOR),
    ),
    "getRetryConfig": Operation(
        tag="job types",
        summary="Read the configuration of a job type",
        success=(200, "TypeConfig", "What holds for its jobs where they say nothing."),
        errors=(404,),
    ),
    "putRetryConfig": Operation(
        tag="job types",
        summary="Configure a job type, in the place of what was configured before",
        success=(200, "TypeConfig", "The configuration. Functions follow it within 15 seconds."),
        body="TypeConfigBody",
        body_required=True,
        examples={"patient": {"summary": "Patient retries, 20 at a time", "value": TYPE_EXAMPLE}},
        errors=(404, 413, 415),
    ),
    "deleteRetryConfig": Operation(
        tag="job types",
        summary="Take the configuration of a job type away: its jobs follow the stage",
        success=(204, None, "It is gone."),
        errors=(404,),
    ),
    "listCircuits": Operation(
        tag="circuits",
        summary="List an owner's circuits, by key",
        success=(200, "CircuitList", "A page."),
        parameters=(
            parameter(
                "query",
                "owner",
                {"type": "string"},
                "Whose circuits: your own by default, `*` for everybody's and those that all owners share.",
            ),
            LIMIT,
            CURSOR,
        ),
    ),
    "getCircuit": Operation(
        tag="circuits", summary="Read a circuit", success=(200, "Circuit", "The circuit."), errors=(404,)
    ),
    "resetCircuit": Operation(
        tag="circuits",
        summary="Close a circuit: its target is called again",
        success=(200, "Circuit", "The circuit, closed."),
        body="NoFields",
        errors=(404, 413, 415),
    ),
    "getWebhookKey": Operation(
        tag="webhook keys",
        summary="Read the key by which the calls of an owner's jobs are signed; made where there is none",
        success=(200, "WebhookKey", "The key, with its secret."),
        errors=(404,),
    ),
    "rotateWebhookKey": Operation(
        tag="webhook keys",
        summary="Give an owner a new webhook key; the one before signs beside it for 24 hours",
        success=(200, "WebhookKey", "The new key, with its secret."),
        body="RotationBody",
        errors=(404, 409, 413, 415),
    ),
    "revokeSubject": Operation(
        tag="revocations",
        summary="Refuse every request of a caller from now on",
        success=(200, "Revocation", "Since when it is refused."),
        body="NoFields",
        errors=(404, 409, 413, 415),
    ),
    "restoreSubject": Operation(
        tag="revocations",
        summary="Let a caller in again",
        success=(204, None, "It may call; also where it was not revoked."),
        errors=(404,),
    ),
    "previewSchedule": Operation(
        tag="schedule",
        summary="The next slots of a cron expression",
        success=(200, "Preview", "The next slots strictly after `after`."),
        parameters=(
            parameter(
                "query",
                "expression",
                {"type": "string", "minLength": 1, "maxLength": 256, "examples": ["0 9 * * MON-FRI"]},
                "Five cron fields or a name as @daily.",
                required=True,
            ),
            parameter("query", "timezone", {"type": "string", "default": "UTC"}, "IANA time zone."),
            parameter("query", "after", {"type": "string"} | {"examples": INSTANT["examples"]}, "Now by default."),
            parameter(
                "query",
                "count",
                {"type": "integer", "minimum": 1, "maximum": MAX_COUNT, "default": DEFAULT_COUNT},
                "How many.",
            ),
            parameter("query", "jobId", JOB_ID, "The job that `H` is hashed by."),
        ),
    ),
    "health": Operation(
        tag="service",
        summary="Every component with its status and latency",
        success=(200, "Health", "All answer."),
        also={503: ("Health", "A component does not answer.")},
    ),
    "ready": Operation(
        tag="service",
        summary="Whether requests can be served",
        success=(200, "ServiceStatus", "Ready."),
        also={503: ("ServiceStatus", "Not ready.")},
    ),
    "live": Operation(tag="service", summary="Whether the function runs", success=(200, "ServiceStatus", "It does.")),
    "startup": Operation(
        tag="service", summary="Whether the function has started", success=(200, "ServiceStatus", "It has.")
    ),
    "openapi": Operation(tag="service", summary="This document", success=(200, "ApiDescription", "OpenAPI 3.1.")),
    "docs": Operation(tag="service", summary="This document as a page", success=(200, "", "HTML.")),
}
