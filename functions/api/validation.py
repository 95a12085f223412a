"""From pydantic's findings to ours: the field by its path in the caller's JSON, its value, and the limit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from functions.api.strict import MAX_PROBLEMS
from functions.domain.errors import FieldProblem, InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_core import ErrorDetails

_SHOWN = 64
_TAGGED = ("schedule", "target")
"""Fields that are one of several models: pydantic puts the model's tag into the path, where the JSON has none."""
THRESHOLDS = ("failureThreshold", "openSeconds", "successThreshold")
"""Fields of a type's `circuitBreaker` that jobs do not take."""
_HEADER = 'takes visible ASCII text of at most 4096 characters, or {"secretArn": "…"}'

_MESSAGES: dict[str, Callable[[str, dict[str, Any]], str]] = {
    "missing": lambda _value, _ctx: "is required",
    "extra_forbidden": lambda _value, _ctx: "is not a known field",
    "string_type": lambda value, _ctx: f"{value} is not a string",
    "int_type": lambda value, _ctx: f"{value} is not an integer",
    "float_type": lambda value, _ctx: f"{value} is not a number in range",
    "bool_type": lambda value, _ctx: f"{value} is neither true nor false",
    "list_type": lambda value, _ctx: f"{value} is not an array",
    "dict_type": lambda value, _ctx: f"{value} is not an object",
    "model_type": lambda value, _ctx: f"{value} is not an object",
    "model_attributes_type": lambda value, _ctx: f"{value} is not an object",
    "less_than_equal": lambda value, ctx: f"{value} is over the limit of {ctx['le']}",
    "greater_than_equal": lambda value, ctx: f"{value} is below the limit of {ctx['ge']}",
    "string_too_long": lambda value, ctx: f"{value} is over the limit of {ctx['max_length']} characters",
    "string_too_short": lambda value, ctx: f"{value} is below the limit of {ctx['min_length']} characters",
    "too_short": lambda _value, ctx: f"has {ctx['actual_length']} entries, below the limit of {ctx['min_length']}",
    "too_long": lambda _value, ctx: f"has {ctx['actual_length']} entries, over the limit of {ctx['max_length']}",
    "string_pattern_mismatch": lambda value, ctx: f"{value} does not match {ctx['pattern']}",
    "literal_error": lambda value, ctx: f"{value} is not {ctx['expected']}",
    "union_tag_invalid": lambda _value, ctx: f"type {shown(ctx['tag'])} is none of {ctx['expected_tags']}",
    "union_tag_not_found": lambda _value, _ctx: "type is required",
}

Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], body: Any) -> Model:
    """The body as the model reads it; raises InvalidRequestError that names every wrong field, at most 20."""
    if not isinstance(body, dict):
        raise InvalidRequestError((FieldProblem("body", "is not a JSON object"),))
    try:
        return model.model_validate(body)
    except ValidationError as error:
        problems: dict[str, FieldProblem] = {}
        for finding in error.errors(include_url=False):
            for problem in _problems(finding):
                problems.setdefault(problem.field, problem)
        raise InvalidRequestError(tuple(problems.values())[:MAX_PROBLEMS]) from None


def shown(value: Any) -> str:
    """The value's JSON, cut at 64 characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _problems(finding: ErrorDetails) -> list[FieldProblem]:
    if finding["type"] != "too_many_unknown":
        return [_problem(finding, _path(finding["loc"]))]
    path = _path(finding["loc"])
    return [
        FieldProblem(".".join([*path, name[:_SHOWN]]), _MESSAGES["extra_forbidden"]("", {}))
        for name in finding["ctx"]["unknown"]
    ]


def _path(loc: tuple[int | str, ...]) -> list[str]:
    # A field's name is the caller's text, too: it is cut as values are.
    path = [str(part)[:_SHOWN] for part in loc if part != "[key]"]
    if len(path) > 1 and path[0] in _TAGGED:
        del path[1]
    return path


def _problem(finding: ErrorDetails, path: list[str]) -> FieldProblem:
    if finding["type"] == "extra_forbidden" and path[-2:-1] == ["circuitBreaker"] and path[-1] in THRESHOLDS:
        return FieldProblem(".".join(path), "is set by the job's type or the stage; a job takes `enabled` only")
    if path[:2] == ["target", "headers"]:
        return FieldProblem(".".join(path[:3]), _HEADER if len(path) > 2 else "takes an object of at most 30 headers")
    message = _MESSAGES.get(finding["type"])
    # A finding pydantic learns to make after this release still says what is wrong, in its words.
    text = message(shown(finding["input"]), finding.get("ctx", {})) if message else finding["msg"]
    return FieldProblem(".".join(path), text)
