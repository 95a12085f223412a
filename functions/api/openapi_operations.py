"""What the OpenAPI document says of each operation, by its id. Which routes there are is the routes' own word."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from functions.api.openapi_schemas import INSTANT, JOB_ID, Schema
from functions.api.paging import DEFAULT_LIMIT, MAX_CURSOR_LENGTH, MAX_LIMIT
from functions.api.request import JSON_TYPE, MAX_KEY_LENGTH, MERGE_PATCH_TYPE
from functions.api.routes_schedule import DEFAULT_COUNT, MAX_COUNT
from functions.domain.job import JobStatus

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


def _parameter(place: str, name: str, schema: Schema, description: str, *, required: bool = False) -> Schema:
    return {"name": name, "in": place, "required": required, "description": description, "schema": schema}


_LIMIT = _parameter(
    "query",
    "limit",
    {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    "Entries a page.",
)
_CURSOR = _parameter(
    "query",
    "cursor",
    {"type": "string", "minLength": 1, "maxLength": MAX_CURSOR_LENGTH},
    "`pagination.cursor` of the page before.",
)
_IF_MATCH = _parameter(
    "header",
    "If-Match",
    {"type": "string", "examples": ['"3.17"']},
    "Change the job only if no caller changed it since its ETag was this one.",
)
_IF_NONE_MATCH = _parameter(
    "header", "If-None-Match", {"type": "string"}, "Answer 304 if the job's ETag is still this one."
)
_KEY = _parameter(
    "header",
    "X-Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH},
    "The same key and body within an hour do the work once. `Idempotency-Key` is the same.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    tag: str
    summary: str
    success: tuple[int, str | None, str]
    """Status, name of the schema, description."""
    parameters: tuple[Schema, ...] = ()
    body: str | None = None
    body_types: tuple[str, ...] = (JSON_TYPE,)
    body_required: bool = False
    examples: dict[str, Any] = field(default_factory=dict)
    errors: tuple[int, ...] = ()
    """Statuses beyond those that every operation with a token may have."""
    also: dict[int, tuple[str | None, str]] = field(default_factory=dict)
    """Other answers that are no error: status, schema, description."""


def _action(summary: str, *parameters: Schema, body: str = "NoFields") -> Operation:
    return Operation(
        tag="jobs",
        summary=summary,
        success=(200, "Job", "The job as it now is."),
        parameters=(*parameters, _IF_MATCH),
        body=body,
        errors=(403, 404, 409, 412, 413, 415, *((422,) if parameters else ())),
    )


def _work(summary: str, success: tuple[int, str | None, str], body: str, *errors: int) -> Operation:
    return Operation(
        tag="workers",
        summary=summary,
        success=success,
        body=body,
        body_required=body in ("ProgressBody", "FailBody", "CompleteBody"),
        errors=(403, 404, 413, 415, *errors),
    )


OPERATIONS: dict[str, Operation] = {
    "createJob": Operation(
        tag="jobs",
        summary="Register a job",
        success=(201, "Job", "The job; `Location` and `ETag` name it."),
        parameters=(_KEY,),
        body="JobBody",
        body_required=True,
        examples={"nightly": {"summary": "A report every night", "value": JOB_EXAMPLE}},
        errors=(403, 404, 409, 413, 415, 422),
    ),
    "createJobs": Operation(
        tag="jobs",
        summary="Register up to 100 jobs",
        success=(200, "BulkResults", "A result for each item, in their order; one that is refused hinders no other."),
        parameters=(_KEY,),
        body="BulkBody",
        body_required=True,
        examples={"two": {"summary": "Two jobs", "value": {"items": [JOB_EXAMPLE, {**JOB_EXAMPLE, "name": "again"}]}}},
        errors=(403, 413, 415, 422),
    ),
    "listJobs": Operation(
        tag="jobs",
        summary="List jobs, newest first",
        success=(200, "JobList", "A page; filters may leave it empty and still have a cursor."),
        parameters=(
            _parameter("query", "owner", {"type": "string"}, "Whose jobs: your own by default, `*` for everybody's."),
            _parameter("query", "status", {"type": "string", "enum": [*JobStatus.__members__]}, "Only this status."),
            _parameter("query", "type", {"type": "string"}, "Only this type."),
            _parameter("query", "tag", {"type": "string"}, "Only jobs that have this tag."),
            _parameter("query", "silent", {"type": "string", "enum": ["true", "false"]}, "Silent ones, or others."),
            _LIMIT,
            _CURSOR,
        ),
        errors=(403,),
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
        errors=(403, 404, 409, 412, 413, 415),
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
        errors=(403, 404, 409, 412, 413, 415),
    ),
    "deleteJob": Operation(
        tag="jobs",
        summary="Cancel and delete a job",
        success=(204, None, "The job is gone."),
        parameters=(_IF_MATCH,),
        errors=(403, 404, 409, 412),
    ),
    "pauseJob": _action("Switch a job off; what runs goes on"),
    "resumeJob": _action("Switch a job on again"),
    "executeJob": _action("Run a job now, beside its schedule", _KEY),
    "retryJob": _action("Retry the run that failed last, or waits for its retry", _KEY, body="RetryBody"),
    "cancelJob": _action("Cancel a job for good, its running attempts too"),
    "listJobHistory": Operation(
        tag="executions",
        summary="A job's attempts, newest first, the active ones included",
        success=(200, "History", "A page."),
        parameters=(_LIMIT, _CURSOR),
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
        errors=(403, 404, 409, 413, 415),
    ),
    "registerWorker": Operation(
        tag="workers",
        summary="Register a worker for some queues of its owner",
        success=(201, "Worker", "The worker; `Location` names it."),
        body="WorkerBody",
        body_required=True,
        examples={"reports": {"summary": "A worker for one queue", "value": {"queues": ["reports"]}}},
        errors=(403, 413, 415),
    ),
    "listWorkers": Operation(
        tag="workers",
        summary="List workers that were heard of within a day",
        success=(200, "WorkerList", "All of them."),
        parameters=(_parameter("query", "owner", {"type": "string"}, "Whose: yours by default, `*` for everybody's."),),
        errors=(403,),
    ),
    "getWorker": Operation(
        tag="workers", summary="Read a worker", success=(200, "Worker", "The worker."), errors=(404,)
    ),
    "heartbeat": _work(
        "Say that the worker lives, and keep what it holds",
        (200, "Heartbeat", "The worker, and the lease of each execution it named."),
        "HeartbeatBody",
        409,
    ),
    "drainWorker": _work("Give the worker nothing more", (200, "Worker", "The worker."), "NoFields"),
    "pollWorker": _work(
        "Claim executions; wait up to 20 s where there are none",
        (200, "Claimed", "What the worker now holds; empty where nothing came."),
        "PollBody",
    ),
    "reportProgress": _work(
        "Say how far a running execution is", (200, "ProgressKept", "Whether it was kept."), "ProgressBody", 409
    ),
    "completeExecution": _work(
        "End a running execution well", (200, "Execution", "The attempt as recorded."), "CompleteBody", 409
    ),
    "failExecution": _work(
        "End a running execution as failed", (200, "Execution", "The attempt as recorded."), "FailBody", 409
    ),
    "listRetryConfigs": Operation(
        tag="job types",
        summary="List the configurations of job types, by name",
        success=(200, "TypeConfigList", "A page."),
        parameters=(_LIMIT, _CURSOR),
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
        errors=(403, 413, 415),
    ),
    "deleteRetryConfig": Operation(
        tag="job types",
        summary="Take the configuration of a job type away: its jobs follow the stage",
        success=(204, None, "It is gone."),
        errors=(403, 404),
    ),
    "listCircuits": Operation(
        tag="circuits",
        summary="List the circuits of targets, by key",
        success=(200, "CircuitList", "A page."),
        parameters=(_LIMIT, _CURSOR),
    ),
    "resetCircuit": Operation(
        tag="circuits",
        summary="Close a circuit: its target is called again",
        success=(200, "Circuit", "The circuit, closed."),
        body="NoFields",
        errors=(403, 404, 413, 415),
    ),
    "previewSchedule": Operation(
        tag="schedule",
        summary="The next slots of a cron expression",
        success=(200, "Preview", "The next slots strictly after `after`."),
        parameters=(
            _parameter(
                "query",
                "expression",
                {"type": "string", "minLength": 1, "maxLength": 256, "examples": ["0 9 * * MON-FRI"]},
                "Five cron fields or a name as @daily.",
                required=True,
            ),
            _parameter("query", "timezone", {"type": "string", "default": "UTC"}, "IANA time zone."),
            _parameter("query", "after", {"type": "string"} | {"examples": INSTANT["examples"]}, "Now by default."),
            _parameter(
                "query",
                "count",
                {"type": "integer", "minimum": 1, "maximum": MAX_COUNT, "default": DEFAULT_COUNT},
                "How many.",
            ),
            _parameter("query", "jobId", JOB_ID, "The job that `H` is hashed by."),
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
        success=(200, "Status", "Ready."),
        also={503: ("Status", "Not ready.")},
    ),
    "live": Operation(tag="service", summary="Whether the function runs", success=(200, "Status", "It does.")),
    "startup": Operation(tag="service", summary="Whether the function has started", success=(200, "Status", "It has.")),
    "openapi": Operation(tag="service", summary="This document", success=(200, "", "OpenAPI 3.1.")),
    "docs": Operation(tag="service", summary="This document as a page", success=(200, "", "HTML.")),
}
