"""Schemas of what is set beside jobs: types, circuits, webhook keys."""

from __future__ import annotations

from functions.api.openapi_shapes import (
    CIRCUIT_KEY,
    INSTANT,
    JOB_TYPE,
    Schema,
    enum_of,
    list_of,
    maybe,
    record,
    ref,
)
from functions.domain.circuit import CircuitState


def type_configs(body: Schema) -> dict[str, Schema]:
    stored = {"jobType": JOB_TYPE, "updatedAt": INSTANT, "updatedBy": {"type": "string", "description": "Caller's id."}}
    return {
        "TypeConfig": record(
            stored | body["properties"],
            optional=tuple(body["properties"]),
            description="What was configured; what was left out follows the stage.",
        ),
        "TypeConfigList": list_of("TypeConfig"),
    }


def circuits() -> dict[str, Schema]:
    return {
        "CircuitState": enum_of(CircuitState),
        "Circuit": record(
            {
                "key": CIRCUIT_KEY,
                "owner": maybe({"type": "string", "description": "Whose jobs it is for; `null`: all owners share it."}),
                "jobType": maybe(JOB_TYPE | {"description": "The type of these jobs; `null` for those without one."}),
                "target": {
                    "type": "string",
                    "description": "`http:<host>:<port>`, `lambda:<function>`, `sqs:<queue>`, `handler:<name>`",
                    "examples": ["http:api.example.com:443"],
                },
                "state": ref("CircuitState"),
                "failures": {"type": "integer", "minimum": 0, "description": "One after another, the last ones."},
                "since": maybe(INSTANT | {"description": "When it opened, or closed, last."}),
                "openUntil": maybe(INSTANT | {"description": "When one attempt may try the target again."}),
                "probe": maybe({"type": "string", "description": "The attempt that tries it now."}),
            },
            description="What is known of a target that an owner's jobs of one type call.",
        ),
        "CircuitList": list_of("Circuit"),
    }


def webhook_keys() -> dict[str, Schema]:
    return {
        "PreviousWebhookKey": record({"validUntil": INSTANT}),
        "WebhookKey": record(
            {
                "owner": {"type": "string"},
                "secret": {
                    "type": "string",
                    "description": "For the libraries of Standard Webhooks. Who has it can sign calls as this owner.",
                    "examples": ["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"],
                },
                "createdAt": INSTANT,
                "signsFrom": INSTANT | {"description": "From then on every call is signed by this key."},
                "previous": {
                    "type": "array",
                    "items": ref("PreviousWebhookKey"),
                    "description": "Keys before that sign beside it until then, the latest first.",
                },
            },
            description="The key by which the http calls of an owner's jobs are signed.",
        ),
    }
