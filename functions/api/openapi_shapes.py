"""What schemas of the OpenAPI document are made of."""

from __future__ import annotations

from typing import Any

from functions.api.schemas import LABEL_PATTERN, MAX_LABEL_LENGTH
from functions.domain.ids import JOB_ID_PATTERN

Schema = dict[str, Any]

INSTANT: Schema = {"type": "string", "format": "date-time", "examples": ["2027-01-31T14:59:42Z"]}
JOB_ID: Schema = {
    "type": "string",
    "pattern": JOB_ID_PATTERN,
    "examples": ["7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f"],
}
CIRCUIT_KEY: Schema = {
    "type": "string",
    "minLength": 1,
    "description": "`<target>@<owner>`, `<target>~<job type>@<owner>`, or `<target>` for one that all owners share.",
    "examples": ["http:api.example.com:443@team-billing"],
}
OWNER: Schema = {
    "type": "string",
    "minLength": 1,
    "description": "An owner of jobs; `me` is the caller's.",
    "examples": ["me"],
}
JOB_TYPE: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_LABEL_LENGTH,
    "pattern": LABEL_PATTERN,
    "examples": ["billing"],
}
RUN_ID: Schema = {
    "type": "string",
    "pattern": JOB_ID["pattern"].removesuffix("$") + "-[0-9]{10}([dm][a-z2-7]{8})?$",
    "examples": ["7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f-1801407582"],
}
EXECUTION_ID: Schema = {
    "type": "string",
    "pattern": RUN_ID["pattern"].removesuffix("$") + "-[0-9]{4}$",
    "examples": ["7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f-1801407582-0001"],
}


WORKFLOW_ID: Schema = JOB_ID | {"examples": ["0b0a4f0e-6d0c-4a63-9f1e-5c2b7d8e9f10"]}
WORKER_ID: Schema = {"type": "string", "pattern": "^[a-z2-7]{16}$", "examples": ["b4vtq3dyq5n7xk2a"]}


REF = "#/components/schemas/"
"""What references to named schemas begin with."""
ANY_JSON = {"description": "As it was sent; numbers keep value and kind."}
"""A payload: the one kind of value that has no schema, besides results."""


def ref(name: str) -> Schema:
    return {"$ref": REF + name}


def record(properties: dict[str, Schema], *, optional: tuple[str, ...] = (), description: str = "") -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }
    return schema | ({"description": description} if description else {})


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def enum_of(values: Any, description: str = "") -> Schema:
    schema: Schema = {"type": "string", "enum": [str(value) for value in values]}
    return schema | ({"description": description} if description else {})


def list_of(name: str) -> Schema:
    """A page of a list."""
    return record({"data": {"type": "array", "items": ref(name)}, "pagination": ref("Pagination")})
