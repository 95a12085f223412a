"""Schemas of answers in the OpenAPI document, as views.py writes them."""

from __future__ import annotations

from functions.api.drafts import APART
from functions.api.openapi_bodies import body_schemas
from functions.api.openapi_gates import GATES, WAITING, WAITS
from functions.api.openapi_settings_schemas import circuits, type_configs, webhook_keys
from functions.api.openapi_shapes import (
    ANY_JSON,
    EXECUTION_ID,
    INSTANT,
    JOB_ID,
    RUN_ID,
    WORKER_ID,
    Schema,
    enum_of,
    list_of,
    maybe,
    record,
    ref,
)
from functions.api.openapi_workflow_schemas import workflow_schemas
from functions.domain.execution import ExecutionStatus
from functions.domain.job import JobStatus, SkipReason
from functions.domain.run import Outcome
from functions.domain.worker import WorkerStatus


def schemas() -> dict[str, Schema]:
    """Every named schema.

    Client generators make a class of each. They fail on one that is named like a field of its own (`Status.status`),
    and call objects without a name after the place where they found them first: so each object has a name.
    """
    named = body_schemas()
    return (
        named
        | _answers(named["JobBody"])
        | type_configs(named["TypeConfigBody"])
        | circuits()
        | webhook_keys()
        | workflow_schemas()
    )


def _answers(body: Schema) -> dict[str, Schema]:
    registered = {name: schema for name, schema in body["properties"].items() if name not in APART}
    state = {
        "status": ref("JobStatus"),
        "enabled": {"type": "boolean"},
        "owner": {"type": "string"},
        "createdBy": {"type": "string"},
        "updatedBy": {"type": "string", "description": "Who changed, paused, resumed or cancelled it last."},
        "createdAt": INSTANT,
        "nextRunAt": maybe(INSTANT),
        "waitingFor": WAITING | {"description": "What the job waits for besides its time; null for nothing."},
        "silentSince": maybe(INSTANT | {"description": "Since when the job has had no success, once it is silent."}),
        "revision": {"type": "integer", "minimum": 1, "description": "Changes by callers; first part of the ETag."},
        "etag": {"type": "string", "description": "The header `ETag`: send it as `If-Match`.", "examples": ['"3.17"']},
        "activeRuns": {"type": "array", "items": ref("ActiveRun")},
        "gates": {"type": "array", "items": ref("Gate"), "description": "Runs that wait for approval."},
        "lastRun": maybe(ref("LastRun")),
        "upstream": ref("Upstream"),
        "deletedAt": INSTANT
        | {"description": "Only where a repeated creation finds a job that was deleted since: when it was."},
    }
    at_times = ("upstream", "deletedAt")
    summary = {"id": JOB_ID, **registered, **state}
    needed = {"name", "target"}
    return {
        "JobStatus": enum_of(JobStatus),
        "Job": record(
            summary | {"payload": ANY_JSON},
            optional=(*at_times, *(name for name in registered if name not in needed)),
            description="What was registered (fields that were left out stay out), and how it stands.",
        ),
        "JobSummary": record(summary, optional=(*at_times, *registered), description="A job without its payload."),
        "JobList": list_of("JobSummary"),
        "BulkResults": record({"data": {"type": "array", "items": ref("BulkResult")}}),
        "BulkResult": record(
            {
                "index": {"type": "integer", "minimum": 0, "description": "Place of the item in the request."},
                "status": {"type": "integer", "description": "What `POST /v1/jobs` would answer for it alone."},
                "job": ref("JobSummary"),
                "error": ref("Problem"),
            },
            optional=("job", "error"),
            description="The job that was made, or why it was refused.",
        ),
        "ActiveRun": record(
            {
                "runId": RUN_ID,
                "scheduledFor": INSTANT,
                "status": enum_of(("RUNNING", "WAITING", "QUEUED")),
                "attempt": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "The last attempt begun; 0 before the first.",
                },
                "nextAttemptAt": maybe(INSTANT),
                "waitingFor": WAITING,
            }
        ),
        "RunOutcome": enum_of(Outcome),
        "LastRun": record(
            {
                "runId": RUN_ID,
                "scheduledFor": INSTANT,
                "outcome": ref("RunOutcome"),
                "attempt": {"type": "integer"},
                "errorCode": maybe({"type": "string"}),
                "reason": maybe({"type": "string", "description": "Why it ended without an attempt."}),
                "endedAt": INSTANT,
            }
        ),
        **GATES,
        **WAITS,
        "ExecutionStatus": enum_of(status for status in ExecutionStatus if status is not ExecutionStatus.SKIPPED),
        "ExecutionError": record(
            {"code": {"type": "string", "examples": ["HTTP_503"]}, "message": {"type": "string"}},
            description="Why it failed; of one that is COMPLETED: why it has no result.",
        ),
        "Execution": _execution(),
        "SkippedSlots": _skipped(),
        "History": list_of("HistoryEntry"),
        "HistoryEntry": {"oneOf": [ref("Execution"), ref("SkippedSlots")]},
        **_work(),
        "Preview": record(
            {"slots": {"type": "array", "items": INSTANT}, "local": {"type": "array", "items": {"type": "string"}}},
            description="The same instants in UTC and on the zone's clocks.",
        ),
        "Availability": enum_of(("ok", "down")),
        "ServiceStatus": record({"status": ref("Availability")}),
        "ComponentHealth": record({"status": ref("Availability"), "latencyMs": {"type": "number", "minimum": 0}}),
        "Health": record(
            {
                "status": ref("Availability"),
                "stage": {"type": "string"},
                "version": {"type": "string"},
                "components": {"type": "object", "additionalProperties": ref("ComponentHealth")},
            }
        ),
        "ApiDescription": record(
            {"openapi": {"type": "string"}, "info": {"type": "object", "additionalProperties": True}},
            description="An OpenAPI 3.1 document.",
        ),
        "Pagination": record(
            {"cursor": {"type": "string", "description": "Where the next page begins; absent on the last page."}},
            optional=("cursor",),
        ),
        "ProblemDetail": record({"field": {"type": "string"}, "message": {"type": "string"}}),
        "Problem": _problem(),
        "ErrorAnswer": record({"error": ref("Problem")}),
        "Revocation": record(
            {
                "subject": {"type": "string", "description": "A user's `sub` or a machine's client id."},
                "revokedAt": INSTANT,
            }
        ),
        "GatewayError": record(
            {"message": {"type": "string"}},
            description="What API Gateway answers by itself: a token it refuses, throttling, a body over 10 MB.",
        ),
    }


def _attempt() -> dict[str, Schema]:
    return {"id": EXECUTION_ID, "jobId": JOB_ID, "runId": RUN_ID, "scheduledFor": INSTANT}


def _execution() -> Schema:
    return record(_execution_fields(), description="One attempt of a run.")


def _work() -> dict[str, Schema]:
    worker: dict[str, Schema] = {
        "id": WORKER_ID,
        "name": {"type": "string"},
        "status": ref("WorkerStatus"),
        "queues": {"type": "array", "items": {"type": "string"}},
        "maxItems": {"type": "integer", "minimum": 1},
        "draining": {"type": "boolean"},
        "owner": {"type": "string"},
        "createdBy": {"type": "string"},
        "registeredAt": INSTANT,
        "lastSeenAt": INSTANT,
    }
    claimed = _execution_fields() | {
        "leaseExpiresAt": INSTANT,
        "deadlineAt": INSTANT,
        "queue": {"type": "string"},
        "payload": ANY_JSON,
    }
    return {
        "WorkerStatus": enum_of(WorkerStatus, "OFFLINE after 90 s without heartbeat or poll."),
        "Worker": record(worker),
        "WorkerList": list_of("Worker"),
        "KeptExecution": record({"id": EXECUTION_ID, "leaseExpiresAt": INSTANT}),
        "Heartbeat": record(worker | {"executions": {"type": "array", "items": ref("KeptExecution")}}),
        "ClaimedExecution": record(claimed, description="An attempt that the worker now holds."),
        "Claimed": record({"data": {"type": "array", "items": ref("ClaimedExecution")}}),
        "Progress": record(
            {"percent": {"type": "number", "minimum": 0, "maximum": 100}, "message": {"type": "string"}}
        ),
        "ProgressKept": record(
            {
                "id": EXECUTION_ID,
                "recorded": {"type": "boolean", "description": "false: the last one is less than a second old."},
                "progress": ref("Progress"),
            }
        ),
    }


def _execution_fields() -> dict[str, Schema]:
    return _attempt() | {
        "attempt": {"type": "integer", "minimum": 1},
        "status": ref("ExecutionStatus"),
        "final": {"type": "boolean", "description": "Whether no other attempt follows."},
        "reason": maybe({"type": "string"}),
        "error": maybe(ref("ExecutionError")),
        "startedAt": maybe(INSTANT),
        "completedAt": maybe(INSTANT),
        "nextRetryAt": maybe(INSTANT),
        "fence": {"type": "integer", "minimum": 0},
        "deferrals": {"type": "integer", "minimum": 0, "description": "Times it was put off before it started."},
        "deferredFor": maybe({"type": "string", "description": "Why it was put off last."}),
        "workerId": maybe({"type": "string", "description": "The worker that holds it, or held it."}),
        "waitingFor": WAITING,
        "approval": maybe(ref("ApprovalDecision")),
        "progress": maybe(ref("Progress")),
        "result": {
            "description": "The target's answer, at most 32 KB of JSON; null for none, and for one that was not kept."
        },
    }


def _skipped() -> Schema:
    return record(
        _attempt()
        | {
            "attempt": {"type": "integer", "const": 0},
            "status": {"type": "string", "const": "SKIPPED"},
            "final": {"type": "boolean", "const": True},
            "reason": enum_of(SkipReason),
            "from": INSTANT,
            "to": INSTANT,
            "count": {"type": "integer", "minimum": 1},
            "completedAt": INSTANT,
        },
        description="Slots in a row that were passed over, and why: one entry for all of them.",
    )


def _problem() -> Schema:
    return record(
        {
            "code": {"type": "string"},
            "message": {"type": "string"},
            "details": {"type": "array", "items": ref("ProblemDetail")},
            "requestId": {"type": "string"},
        }
    )
