"""Schemas of the OpenAPI document: bodies from the models that check them, answers as views.py writes them."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from functions.api.openapi_gates import GATES
from functions.api.openapi_shapes import (
    CIRCUIT_KEY,
    EXECUTION_ID,
    INSTANT,
    JOB_ID,
    JOB_TYPE,
    RUN_ID,
    WORKER_ID,
    Schema,
    enum_of,
    list_of,
    maybe,
    record,
    ref,
)
from functions.api.openapi_workflow_schemas import workflow_job, workflow_schemas
from functions.api.schemas import (
    BulkBody,
    DecisionBody,
    JobBody,
    NoFields,
    RetryBody,
    TypeConfigBody,
)
from functions.api.schemas_poll import PollBody
from functions.api.schemas_work import CompleteBody, FailBody, HeartbeatBody, ProgressBody, WorkerBody
from functions.api.workflow_body import WorkflowBody
from functions.domain.circuit import CircuitState
from functions.domain.execution import ExecutionStatus
from functions.domain.job import JobStatus, SkipReason
from functions.domain.run import Outcome
from functions.domain.worker import WorkerStatus
from functions.domain.workflow import LOCAL_NAME

_BODIES = (
    JobBody,
    BulkBody,
    RetryBody,
    DecisionBody,
    NoFields,
    TypeConfigBody,
    WorkerBody,
    PollBody,
    HeartbeatBody,
    ProgressBody,
    CompleteBody,
    FailBody,
    WorkflowBody,
)


def schemas() -> dict[str, Schema]:
    """Every named schema."""
    _, bodies = models_json_schema(
        [(model, "validation") for model in _BODIES],
        by_alias=True,
        ref_template="#/components/schemas/{model}",
    )
    named: dict[str, Schema] = {name: _untitled(schema) for name, schema in bodies["$defs"].items()}
    named["JobPatch"] = _patch(named["JobBody"])
    named["BulkBody"]["properties"]["items"]["items"] = ref("JobBody")
    named["WorkflowJob"] = workflow_job(named["JobBody"], named["DependencyBody"])
    of_workflow = named["WorkflowBody"]["properties"]["jobs"]
    of_workflow["patternProperties"] = {LOCAL_NAME: ref("WorkflowJob")}
    return (
        named | _answers(named["JobBody"]) | _type_configs(named["TypeConfigBody"]) | _circuits() | workflow_schemas()
    )


def _untitled(schema: Any) -> Any:
    """Without the titles that pydantic makes up from the names of fields."""
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _untitled(value) for name, value in schema.items() if not (name == "title" and isinstance(value, str))
    }


def _patch(body: Schema) -> Schema:
    return {
        "type": "object",
        "description": "JSON Merge Patch (RFC 7386): fields that are named change, null takes a field away.",
        "properties": {key: {} for key in body["properties"]},
        "additionalProperties": False,
    }


def _answers(body: Schema) -> dict[str, Schema]:
    registered = {name: schema for name, schema in body["properties"].items() if name not in ("payload", "enabled")}
    state = {
        "status": enum_of(JobStatus),
        "enabled": {"type": "boolean"},
        "owner": {"type": "string"},
        "createdBy": {"type": "string"},
        "createdAt": INSTANT,
        "nextRunAt": maybe(INSTANT),
        "silentSince": maybe(INSTANT | {"description": "Since when the job has had no success, once it is silent."}),
        "revision": {"type": "integer", "minimum": 1, "description": "Changes by callers; first part of the ETag."},
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
        "Job": record(
            summary | {"payload": {"description": "As it was sent; numbers keep value and kind."}},
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
            }
        ),
        "LastRun": record(
            {
                "runId": RUN_ID,
                "scheduledFor": INSTANT,
                "outcome": enum_of(Outcome),
                "attempt": {"type": "integer"},
                "errorCode": maybe({"type": "string"}),
                "reason": maybe({"type": "string", "description": "Why it ended without an attempt."}),
                "endedAt": INSTANT,
            }
        ),
        **GATES,
        "Upstream": record(
            {
                "waitingFor": maybe(JOB_ID | {"description": "The first job that is not yet as this one needs it."}),
                "since": maybe(INSTANT | {"description": "Since when it has waited in this round."}),
                "nextLookAt": maybe(INSTANT | {"description": "null: nothing can come of them any more."}),
            },
            description="How a job with dependsOn stands to those it depends on.",
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
        "Status": record({"status": enum_of(("ok", "down"))}),
        "Health": record(
            {
                "status": enum_of(("ok", "down")),
                "stage": {"type": "string"},
                "version": {"type": "string"},
                "components": {
                    "type": "object",
                    "additionalProperties": record(
                        {"status": enum_of(("ok", "down")), "latencyMs": {"type": "number", "minimum": 0}}
                    ),
                },
            }
        ),
        "Problem": _problem(),
        "Error": record({"error": ref("Problem")}),
        "GatewayError": record(
            {"message": {"type": "string"}},
            description="What API Gateway answers by itself: a token it refuses, throttling, a body over 10 MB.",
        ),
    }


def _type_configs(body: Schema) -> dict[str, Schema]:
    stored = {"jobType": JOB_TYPE, "updatedAt": INSTANT, "updatedBy": {"type": "string", "description": "Caller's id."}}
    return {
        "TypeConfig": record(
            stored | body["properties"],
            optional=tuple(body["properties"]),
            description="What was configured; what was left out follows the stage.",
        ),
        "TypeConfigList": list_of("TypeConfig"),
    }


def _circuits() -> dict[str, Schema]:
    return {
        "Circuit": record(
            {
                "key": CIRCUIT_KEY,
                "state": enum_of(CircuitState),
                "failures": {"type": "integer", "minimum": 0, "description": "One after another, the last ones."},
                "since": maybe(INSTANT | {"description": "When it opened, or closed, last."}),
                "openUntil": maybe(INSTANT | {"description": "When one attempt may try the target again."}),
                "probe": maybe({"type": "string", "description": "The attempt that tries it now."}),
            },
            description="What is known of a target that jobs with a circuit breaker call.",
        ),
        "CircuitList": list_of("Circuit"),
    }


def _attempt() -> dict[str, Schema]:
    return {"id": EXECUTION_ID, "jobId": JOB_ID, "runId": RUN_ID, "scheduledFor": INSTANT}


def _execution() -> Schema:
    return record(_execution_fields(), description="One attempt of a run.")


def _progress() -> Schema:
    return record({"percent": {"type": "number", "minimum": 0, "maximum": 100}, "message": {"type": "string"}})


def _work() -> dict[str, Schema]:
    worker: dict[str, Schema] = {
        "id": WORKER_ID,
        "name": {"type": "string"},
        "status": enum_of(WorkerStatus, "OFFLINE after 90 s without heartbeat or poll."),
        "queues": {"type": "array", "items": {"type": "string"}},
        "maxItems": {"type": "integer", "minimum": 1},
        "draining": {"type": "boolean"},
        "owner": {"type": "string"},
        "createdBy": {"type": "string"},
        "registeredAt": INSTANT,
        "lastSeenAt": INSTANT,
    }
    held = record({"id": EXECUTION_ID, "leaseExpiresAt": INSTANT})
    claimed = _execution_fields() | {
        "leaseExpiresAt": INSTANT,
        "deadlineAt": INSTANT,
        "queue": {"type": "string"},
        "payload": {"description": "As it was sent; numbers keep value and kind."},
    }
    return {
        "Worker": record(worker),
        "WorkerList": list_of("Worker"),
        "Heartbeat": record(worker | {"executions": {"type": "array", "items": held}}),
        "ClaimedExecution": record(claimed, description="An attempt that the worker now holds."),
        "Claimed": record({"data": {"type": "array", "items": ref("ClaimedExecution")}}),
        "ProgressKept": record(
            {
                "id": EXECUTION_ID,
                "recorded": {"type": "boolean", "description": "false: the last one is less than a second old."},
                "progress": _progress(),
            }
        ),
    }


def _execution_fields() -> dict[str, Schema]:
    statuses = [status for status in ExecutionStatus if status is not ExecutionStatus.SKIPPED]
    error = record({"code": {"type": "string", "examples": ["HTTP_503"]}, "message": {"type": "string"}})
    error["description"] = "Why it failed; of one that is COMPLETED: why it has no result."
    return _attempt() | {
        "attempt": {"type": "integer", "minimum": 1},
        "status": enum_of(statuses),
        "final": {"type": "boolean", "description": "Whether no other attempt follows."},
        "reason": maybe({"type": "string"}),
        "error": maybe(error),
        "startedAt": maybe(INSTANT),
        "completedAt": maybe(INSTANT),
        "nextRetryAt": maybe(INSTANT),
        "fence": {"type": "integer", "minimum": 0},
        "deferrals": {"type": "integer", "minimum": 0, "description": "Times it was put off before it started."},
        "deferredFor": maybe({"type": "string", "description": "Why it was put off last."}),
        "workerId": maybe({"type": "string", "description": "The worker that holds it, or held it."}),
        "approval": maybe(ref("ApprovalDecision")),
        "progress": maybe(_progress()),
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
    detail = record({"field": {"type": "string"}, "message": {"type": "string"}})
    return record(
        {
            "code": {"type": "string"},
            "message": {"type": "string"},
            "details": {"type": "array", "items": detail},
            "requestId": {"type": "string"},
        }
    )
