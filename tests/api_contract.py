"""Whether an answer is one that the OpenAPI document promises: its status, its type, its body."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import jsonschema_rs

from functions.api.app import routes_without_services
from functions.api.openapi import document

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_PARAMETERS = {
    "{jobType}": ".+",
    "{circuitKey}": "[^/]+",
    "{owner}": "[^/]+",
    "{subject}": "[^/]+",
    "{jobId}": UUID,
    "{workflowId}": UUID,
    "{executionId}": UUID + r"-[0-9a-z]+-\d{4}",
    "{workerId}": r"[a-z2-7]{16}",
}


def must_be_documented(method: str, path: str, status: int, content_type: str | None, body: str | None) -> None:
    """Asserts it; an operation that does not exist must be answered 404 or 405."""
    answers = _answers(method, path)
    if answers is None:
        assert status in (404, 405), f"{method} {path} is no operation and answered {status}"
        return
    assert str(status) in answers, f"{method} {path} answered {status}: {body}"
    content = answers[str(status)].get("content", {})
    if not content:
        assert not body
        return
    assert content_type is not None
    media = content_type.split(";", maxsplit=1)[0]
    assert media in content, f"{method} {path} answered {media}"
    if media == "application/json":
        assert body is not None
        _validator(json.dumps(content[media]["schema"])).validate(json.loads(body))


@functools.cache
def api_document() -> dict[str, Any]:
    return document(routes_without_services())


@functools.cache
def _answers(method: str, path: str) -> dict[str, Any] | None:
    for template, methods in api_document()["paths"].items():
        pattern = re.sub(r"\{\w+\}", lambda match: _PARAMETERS[match[0]], template)
        if re.fullmatch(pattern, path) and method.lower() in methods:
            answers: dict[str, Any] = methods[method.lower()]["responses"]
            return answers
    return None


@functools.cache
def _validator(schema: str) -> Any:
    return jsonschema_rs.Draft202012Validator(
        {**json.loads(schema), "components": api_document()["components"]}, validate_formats=True
    )
