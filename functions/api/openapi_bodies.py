"""Schemas of request bodies in the OpenAPI document, from the models that check them.

Client generators lose what they cannot express: pydantic's keyword `patternProperties`, `required` without properties,
and defaults, which they read as fields that are always there. The schemas here say the same in words they keep.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import models_json_schema

from functions.api.openapi_shapes import REF, Schema, maybe, ref
from functions.api.openapi_workflow_schemas import workflow_dependencies, workflow_job
from functions.api.schemas import (
    BulkBody,
    DecisionBody,
    JobBody,
    NoFields,
    RetryBody,
    RotationBody,
    TransferBody,
    TypeConfigBody,
)
from functions.api.schemas_poll import PollBody
from functions.api.schemas_work import CompleteBody, FailBody, HeartbeatBody, ProgressBody, WorkerBody
from functions.api.workflow_body import WorkflowBody

_BODIES = (
    JobBody,
    BulkBody,
    RetryBody,
    TransferBody,
    DecisionBody,
    RotationBody,
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
_UNIONS = {"schedule": "Schedule", "target": "Target"}
"""Fields of a job with one of several kinds of object, and the names of these unions."""


def body_schemas() -> dict[str, Schema]:
    """Every schema that a request body needs, by name."""
    _, models = models_json_schema(
        [(model, "validation") for model in _BODIES],
        by_alias=True,
        ref_template=REF + "{model}",
    )
    named: dict[str, Schema] = {name: _plain(schema) for name, schema in models["$defs"].items()}
    job = named["JobBody"]["properties"]
    for field, name in _UNIONS.items():
        named[name] = job[field]
        job[field] = ref(name)
    named["BulkBody"]["properties"]["items"]["items"] = ref("JobBody")
    named |= workflow_dependencies(named["DependencyBody"])
    named["WorkflowJob"] = workflow_job(named["JobBody"])
    named["WorkflowBody"]["properties"]["jobs"]["additionalProperties"] = ref("WorkflowJob")
    _add_patch("JobBody", named, name="JobPatch")
    named["JobPatch"]["description"] = (
        "JSON Merge Patch (RFC 7386): fields that are named change, null takes a field away."
    )
    return named


def _plain(schema: Any) -> Any:
    """The schema without titles that pydantic makes up, and in the keywords that client generators keep."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        keyword: {name: _plain(each) for name, each in value.items()}
        if keyword in ("properties", "patternProperties")
        else _plain(value)
        for keyword, value in schema.items()
        if not (keyword == "title" and isinstance(value, str))
    }
    _name_the_default(plain)
    if "patternProperties" in plain:
        ((pattern, values),) = plain.pop("patternProperties").items()
        plain["propertyNames"] = {**plain.get("propertyNames", {}), "pattern": pattern}
        plain["additionalProperties"] = values
    return plain


def _name_the_default(schema: Schema) -> None:
    """Say the default in the description: as a keyword it makes generated clients demand the field, or send it."""
    default = schema.pop("default", None)
    if default is None or default in ({}, [], ""):
        return
    said = schema.get("description", "")
    schema["description"] = f"{said} Default: {json.dumps(default)}.".strip()


def _add_patch(of: str, named: dict[str, Schema], *, name: str) -> None:
    """Add what a merge patch may have in the place of the schema `of`: any of its fields, and null for each."""
    schema = named[of]
    variants = [named[each["$ref"].removeprefix(REF)] for each in schema.get("oneOf", ())] or [schema]
    fields: dict[str, list[Schema]] = {}
    for variant in variants:
        for field, value in variant["properties"].items():
            known = fields.setdefault(field, [])
            if value not in known:
                known.append(value)
    named[name] = {
        "type": "object",
        "description": f"Merge patch of {of}.",
        "properties": {field: _patched(_one(values), named) for field, values in fields.items()},
        "additionalProperties": False,
    }


def _one(values: list[Schema]) -> Schema:
    """What one of several kinds of object has in the same field."""
    if len(values) == 1:
        return values[0]
    return {"type": "string", "enum": [value["const"] for value in values]}


def _patched(value: Schema, named: dict[str, Schema]) -> Schema:
    """What a merge patch may have for a value: objects are patched field by field, all else is replaced."""
    if not {"$ref", "type", "anyOf"} & value.keys():
        return value  # any JSON, null too
    if "$ref" in value:
        of = value["$ref"].removeprefix(REF)
        patch = f"{of}Patch"
        if patch not in named:
            _add_patch(of, named, name=patch)
        return maybe(ref(patch))
    if value.get("type") == "object":
        values = value["additionalProperties"]
        value = value | {"additionalProperties": {"anyOf": [*values["anyOf"], {"type": "null"}]}}
    return maybe(value)
