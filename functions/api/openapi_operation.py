"""What the OpenAPI document says of one operation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from functions.api.openapi_shapes import Schema
from functions.api.paging import DEFAULT_LIMIT, MAX_CURSOR_LENGTH, MAX_LIMIT
from functions.api.request import JSON_TYPE, MAX_KEY_LENGTH


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
    media: dict[str, Schema] = field(default_factory=dict)
    """Of the success besides JSON, where the caller may ask for it: media type to schema."""
    also: dict[int, tuple[str | None, str]] = field(default_factory=dict)
    """Other answers that are no error: status, schema, description."""


def parameter(place: str, name: str, schema: Schema, description: str, *, required: bool = False) -> Schema:
    """A parameter in query, header or path."""
    return {"name": name, "in": place, "required": required, "description": description, "schema": schema}


LIMIT = parameter(
    "query",
    "limit",
    {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    "Entries a page.",
)
CURSOR = parameter(
    "query",
    "cursor",
    {"type": "string", "minLength": 1, "maxLength": MAX_CURSOR_LENGTH},
    "`pagination.cursor` of the page before.",
)
KEY = parameter(
    "header",
    "X-Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH},
    "The same key and body within an hour do the work once. `Idempotency-Key` is the same.",
)
