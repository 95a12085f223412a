"""Schemas of the OpenAPI document: bodies from the models that check them, answers as views.py writes them."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from functions.api.schemas import BulkBody, JobBody, NoFields, RetryBody
from functions.domain.execution import ExecutionStatus
from functions.domain.job import JobStatus, Outcome, SkipReason

Schema = dict[str, Any]

INSTANT: Schema = {"type": "string", "format": "date-time", "examples": ["2027-01-31T14:59:42Z"]}
JOB_ID: Schema = {
    "type": "string",
    "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    "examples": ["7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f"],
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


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def schemas() -> dict[str, Schema]:
    """Every named schema."""
    _, bodies = models_json_schema(
        [(JobBody, "validation"), (BulkBody, "validation"), (RetryBody, "validation"), (NoFields, "validation")],
        by_alias=True,
        ref_template="#/components/schemas/{model}",
    )
    named: dict[str, Schema] = {name: _untitled(schema) for name, schema in bodies["$defs"].items()}
    named["JobPatch"] = _patch(named["JobBody"])
    named["BulkBody"]["properties"]["items"]["items"] = ref("JobBody")
    return named | _answers(named["JobBody"])


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


def _attempt() -> dict[str, Schema]:
    return {"id": EXECUTION_ID, "jobId": JOB_ID, "runId": RUN_ID, "scheduledFor": INSTANT}


def _execution() -> Schema:
    statuses = [status for status in ExecutionStatus if status is not ExecutionStatus.SKIPPED]
    error = _object({"code": {"type": "string", "examples": ["HTTP_503"]}, "message": {"type": "string"}})
    return _object(
        _attempt()
        | {
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
            "result": {"description": "The target's answer, at most 32 KB of JSON; null for none."},
        },
        description="One attempt of a run.",
    )


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
