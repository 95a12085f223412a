"""Schemas of the OpenAPI document: bodies from the models that check them, answers as views.py writes them."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from functions.api.schemas import (
    LABEL_PATTERN,
    MAX_LABEL_LENGTH,
    BulkBody,
    JobBody,
    NoFields,
    RetryBody,
    TypeConfigBody,
)
from functions.api.schemas_work import CompleteBody, FailBody, HeartbeatBody, PollBody, ProgressBody, WorkerBody
from functions.domain.circuit import CircuitState
from functions.domain.execution import ExecutionStatus
from functions.domain.job import JobStatus, SkipReason
from functions.domain.run import Outcome
from functions.domain.worker import WorkerStatus

Schema = dict[str, Any]

INSTANT: Schema = {"type": "string", "format": "date-time", "examples": ["2027-01-31T14:59:42Z"]}
JOB_ID: Schema = {
    "type": "string",
    "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    "examples": ["7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f"],
}
CIRCUIT_KEY: Schema = {"type": "string", "minLength": 1, "examples": ["http:api.example.com:443"]}
JOB_TYPE: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_LABEL_LENGTH,
    "pattern": LABEL_PATTERN,
    "examples": ["billing"],
}
RUN_ID: Schema = {
    "type": "string",
    "pattern": JOB_ID["pattern"].removesuffix("$") + "-[0-9]{10}(m[a-z2-7]{8})?$",
    "examples": ["7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f-1801407582"],
}
EXECUTION_ID: Schema = {
    "type": "string",
    "pattern": RUN_ID["pattern"].removesuffix("$") + "-[0-9]{4}$",
    "examples": ["7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f-1801407582-0001"],
}


WORKFLOW_ID: Schema = JOB_ID | {"examples": ["0b0a4f0e-6d0c-4a63-9f1e-5c2b7d8e9f10"]}
WORKER_ID: Schema = {"type": "string", "pattern": "^[a-z2-7]{16}$", "examples": ["b4vtq3dyq5n7xk2a"]}

_BODIES = (
    JobBody,
    BulkBody,
    RetryBody,
    NoFields,
    TypeConfigBody,
    WorkerBody,
    PollBody,
    HeartbeatBody,
    ProgressBody,
    CompleteBody,
    FailBody,
)


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


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
    return named | _answers(named["JobBody"]) | _type_configs(named["TypeConfigBody"]) | _circuits()


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


def _object(properties: dict[str, Schema], *, optional: tuple[str, ...] = (), description: str = "") -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }
    return schema | ({"description": description} if description else {})


def _maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _enum(values: Any, description: str = "") -> Schema:
    return {"type": "string", "enum": [str(value) for value in values], "description": description}


def _list_of(name: str) -> Schema:
    cursor = {"type": "string", "description": "Where the next page begins; absent on the last page."}
    pagination = _object({"cursor": cursor}, optional=("cursor",))
    return _object({"data": {"type": "array", "items": ref(name)}, "pagination": pagination})


def _answers(body: Schema) -> dict[str, Schema]:
    registered = {name: schema for name, schema in body["properties"].items() if name not in ("payload", "enabled")}
    state = {
        "status": _enum(JobStatus),
        "enabled": {"type": "boolean"},
        "owner": {"type": "string"},
        "createdBy": {"type": "string"},
        "createdAt": INSTANT,
        "nextRunAt": _maybe(INSTANT),
        "silentSince": _maybe(INSTANT | {"description": "Since when the job has had no success, once it is silent."}),
        "revision": {"type": "integer", "minimum": 1, "description": "Changes by callers; first part of the ETag."},
        "activeRuns": {"type": "array", "items": ref("ActiveRun")},
        "lastRun": _maybe(ref("LastRun")),
    }
    summary = {"id": JOB_ID, **registered, **state}
    needed = {"name", "schedule", "target"}
    return {
        "Job": _object(
            summary | {"payload": {"description": "As it was sent; numbers keep value and kind."}},
            optional=tuple(name for name in registered if name not in needed),
            description="What was registered (fields that were left out stay out), and how it stands.",
        ),
        "JobSummary": _object(summary, optional=tuple(registered), description="A job without its payload."),
        "JobList": _list_of("JobSummary"),
        "BulkResults": _object({"data": {"type": "array", "items": ref("BulkResult")}}),
        "BulkResult": _object(
            {
                "index": {"type": "integer", "minimum": 0, "description": "Place of the item in the request."},
                "status": {"type": "integer", "description": "What `POST /v1/jobs` would answer for it alone."},
                "job": ref("JobSummary"),
                "error": ref("Problem"),
            },
            optional=("job", "error"),
            description="The job that was made, or why it was refused.",
        ),
        "ActiveRun": _object(
            {
                "runId": RUN_ID,
                "scheduledFor": INSTANT,
                "status": _enum(("RUNNING", "WAITING", "QUEUED")),
                "attempt": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "The last attempt begun; 0 before the first.",
                },
                "nextAttemptAt": _maybe(INSTANT),
            }
        ),
        "LastRun": _object(
            {
                "runId": RUN_ID,
                "scheduledFor": INSTANT,
                "outcome": _enum(Outcome),
                "attempt": {"type": "integer"},
                "errorCode": _maybe({"type": "string"}),
                "endedAt": INSTANT,
            }
        ),
        "Execution": _execution(),
        "SkippedSlots": _skipped(),
        "History": _list_of("HistoryEntry"),
        "HistoryEntry": {"oneOf": [ref("Execution"), ref("SkippedSlots")]},
        **_work(),
        "Preview": _object(
            {"slots": {"type": "array", "items": INSTANT}, "local": {"type": "array", "items": {"type": "string"}}},
            description="The same instants in UTC and on the zone's clocks.",
        ),
        "Status": _object({"status": _enum(("ok", "down"))}),
        "Health": _object(
            {
                "status": _enum(("ok", "down")),
                "stage": {"type": "string"},
                "version": {"type": "string"},
                "components": {
                    "type": "object",
                    "additionalProperties": _object(
                        {"status": _enum(("ok", "down")), "latencyMs": {"type": "number", "minimum": 0}}
                    ),
                },
            }
        ),
        "Problem": _problem(),
        "Error": _object({"error": ref("Problem")}),
        "GatewayError": _object(
            {"message": {"type": "string"}},
            description="What API Gateway answers by itself: a token it refuses, throttling, a body over 10 MB.",
        ),
    }


def _type_configs(body: Schema) -> dict[str, Schema]:
    stored = {"jobType": JOB_TYPE, "updatedAt": INSTANT, "updatedBy": {"type": "string", "description": "Caller's id."}}
    return {
        "TypeConfig": _object(
            stored | body["properties"],
            optional=tuple(body["properties"]),
            description="What was configured; what was left out follows the stage.",
        ),
        "TypeConfigList": _list_of("TypeConfig"),
    }


def _circuits() -> dict[str, Schema]:
    return {
        "Circuit": _object(
            {
                "key": CIRCUIT_KEY,
                "state": _enum(CircuitState),
                "failures": {"type": "integer", "minimum": 0, "description": "One after another, the last ones."},
                "since": _maybe(INSTANT | {"description": "When it opened, or closed, last."}),
                "openUntil": _maybe(INSTANT | {"description": "When one attempt may try the target again."}),
                "probe": _maybe({"type": "string", "description": "The attempt that tries it now."}),
            },
            description="What is known of a target that jobs with a circuit breaker call.",
        ),
        "CircuitList": _list_of("Circuit"),
    }


def _attempt() -> dict[str, Schema]:
    return {"id": EXECUTION_ID, "jobId": JOB_ID, "runId": RUN_ID, "scheduledFor": INSTANT}


def _execution() -> Schema:
    return _object(_execution_fields(), description="One attempt of a run.")


def _progress() -> Schema:
    return _object({"percent": {"type": "number", "minimum": 0, "maximum": 100}, "message": {"type": "string"}})


def _work() -> dict[str, Schema]:
    worker: dict[str, Schema] = {
        "id": WORKER_ID,
        "name": {"type": "string"},
        "status": _enum(WorkerStatus, "OFFLINE after 90 s without heartbeat or poll."),
        "queues": {"type": "array", "items": {"type": "string"}},
        "maxItems": {"type": "integer", "minimum": 1},
        "draining": {"type": "boolean"},
        "owner": {"type": "string"},
        "createdBy": {"type": "string"},
        "registeredAt": INSTANT,
        "lastSeenAt": INSTANT,
    }
    held = _object({"id": EXECUTION_ID, "leaseExpiresAt": INSTANT})
    claimed = _execution_fields() | {
        "leaseExpiresAt": INSTANT,
        "deadlineAt": INSTANT,
        "queue": {"type": "string"},
        "payload": {"description": "As it was sent; numbers keep value and kind."},
    }
    return {
        "Worker": _object(worker),
        "WorkerList": _list_of("Worker"),
        "Heartbeat": _object(worker | {"executions": {"type": "array", "items": held}}),
        "ClaimedExecution": _object(claimed, description="An attempt that the worker now holds."),
        "Claimed": _object({"data": {"type": "array", "items": ref("ClaimedExecution")}}),
        "ProgressKept": _object(
            {
                "id": EXECUTION_ID,
                "recorded": {"type": "boolean", "description": "false: the last one is less than a second old."},
                "progress": _progress(),
            }
        ),
    }


def _execution_fields() -> dict[str, Schema]:
    statuses = [status for status in ExecutionStatus if status is not ExecutionStatus.SKIPPED]
    error = _object({"code": {"type": "string", "examples": ["HTTP_503"]}, "message": {"type": "string"}})
    return _attempt() | {
        "attempt": {"type": "integer", "minimum": 1},
        "status": _enum(statuses),
        "final": {"type": "boolean", "description": "Whether no other attempt follows."},
        "reason": _maybe({"type": "string"}),
        "error": _maybe(error),
        "startedAt": _maybe(INSTANT),
        "completedAt": _maybe(INSTANT),
        "nextRetryAt": _maybe(INSTANT),
        "fence": {"type": "integer", "minimum": 0},
        "deferrals": {"type": "integer", "minimum": 0, "description": "Times it was put off before it started."},
        "deferredFor": _maybe({"type": "string", "description": "Why it was put off last."}),
        "workerId": _maybe({"type": "string", "description": "The worker that holds it, or held it."}),
        "progress": _maybe(_progress()),
        "result": {"description": "The target's answer, at most 32 KB of JSON; null for none."},
    }


def _skipped() -> Schema:
    return _object(
        _attempt()
        | {
            "attempt": {"type": "integer", "const": 0},
            "status": {"type": "string", "const": "SKIPPED"},
            "final": {"type": "boolean", "const": True},
            "reason": _enum(SkipReason),
            "from": INSTANT,
            "to": INSTANT,
            "count": {"type": "integer", "minimum": 1},
            "completedAt": INSTANT,
        },
        description="Slots in a row that were passed over, and why: one entry for all of them.",
    )


def _problem() -> Schema:
    detail = _object({"field": {"type": "string"}, "message": {"type": "string"}})
    return _object(
        {
            "code": {"type": "string"},
            "message": {"type": "string"},
            "details": {"type": "array", "items": detail},
            "requestId": {"type": "string"},
        }
    )
