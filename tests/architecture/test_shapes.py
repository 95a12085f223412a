"""The client's shapes of answers are those of the OpenAPI document: each field, its type, and whether it is there."""

from __future__ import annotations

import json
import types
import typing
from pathlib import Path
from typing import Any, Literal, NotRequired, Required, Union

import pytest

from gnomon import shapes, workflow_shapes

SCHEMAS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text("utf-8"))[
    "components"
]["schemas"]
REF = "#/components/schemas/"
SHAPES = {
    name: shape
    for name, shape in {**vars(shapes), **vars(workflow_shapes)}.items()
    if typing.is_typeddict(shape) and not name.startswith("_") and name != "TypedDict"
}
NO_SHAPE = {
    "ApiDescription",
    "ComponentHealth",
    "ErrorAnswer",
    "GatewayError",
    "Health",
    "Problem",
    "ProblemDetail",
} | {
    "BulkResult",
    "BulkResults",
    "ServiceStatus",
}
"""Answers that no method of the client returns: errors it raises, health and bulk it has no method for."""


def is_answer(name: str) -> bool:
    """Whether it is an object that an answer has, other than a page of a list."""
    schema = SCHEMAS[name]
    is_body = schema.get("additionalProperties") is False
    return (
        schema.get("type") == "object"
        and not is_body
        and not {"data", "pagination", "cursor"} & set(schema["properties"])
    )


def test_every_answer_has_a_shape() -> None:
    assert {name for name in SCHEMAS if is_answer(name)} - NO_SHAPE == {name for name in SHAPES if is_answer(name)}


@pytest.mark.parametrize("name", SHAPES)
def test_the_shape_has_the_fields_of_the_schema(name: str) -> None:
    schema = SCHEMAS[name]
    shape = SHAPES[name]
    assert shape.__annotations__.keys() == schema["properties"].keys()
    required = set(schema.get("required", ()))
    assert set(shape.__required_keys__) == required
    assert set(shape.__optional_keys__) == set(schema["properties"]) - required


@pytest.mark.parametrize(("name", "field"), [(name, field) for name in SHAPES for field in SCHEMAS[name]["properties"]])
def test_each_field_has_the_type_of_the_schema(name: str, field: str) -> None:
    hint = typing.get_type_hints(SHAPES[name], include_extras=True)[field]
    assert of_hint(hint) == of_schema(SCHEMAS[name]["properties"][field])


def of_hint(hint: Any) -> frozenset[Any]:
    """A type as a set of what it may be."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (NotRequired, Required):
        return of_hint(arguments[0])
    if origin in (Union, types.UnionType):
        return frozenset().union(*(of_hint(one) for one in arguments))
    if origin is Literal:
        return frozenset(arguments)
    if origin is list:
        return frozenset({("array", of_hint(arguments[0]))})
    if origin is dict:
        return frozenset({("object", of_hint(arguments[1]))})
    if typing.is_typeddict(hint):
        return frozenset({("ref", hint.__name__)})
    return frozenset(
        {{str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", Any: "any"}[hint]}
    )


def of_schema(schema: dict[str, Any]) -> frozenset[Any]:
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REF)
        named = SCHEMAS[name]
        is_object = named.get("type") == "object"
        return frozenset({("ref", name)}) if is_object else of_schema(named)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return frozenset().union(*(of_schema(one) for one in schema[union]))
    if "enum" in schema:
        return frozenset(schema["enum"])
    if "const" in schema:
        return frozenset({schema["const"]})
    match schema.get("type"):
        case "array":
            return frozenset({("array", of_schema(schema["items"]))})
        case "object":
            return frozenset({("object", of_schema(schema["additionalProperties"]))})
        case None:
            return frozenset({"any"})
        case kind:
            return frozenset({kind})


@pytest.mark.parametrize(
    ("shape", "schema"),
    [(str, {"type": "integer"}), (str | None, {"type": "string"}), (Literal["a"], {"enum": ["a", "b"]})],
)
def test_the_comparison_sees_a_difference(shape: Any, schema: dict[str, Any]) -> None:
    assert of_hint(shape) != of_schema(schema)


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(shapes.__file__).with_name("py.typed")).is_file()
