"""The OpenAPI document, from the routes themselves. `python -m functions.api > docs/openapi.json` writes it."""

from __future__ import annotations

import re
from typing import Any

from functions.api.openapi_operation import Operation
from functions.api.openapi_operations import OPERATIONS
from functions.api.openapi_schemas import schemas
from functions.api.openapi_shapes import (
    CIRCUIT_KEY,
    EXECUTION_ID,
    JOB_ID,
    JOB_TYPE,
    OWNER,
    WORKER_ID,
    WORKFLOW_ID,
    Schema,
    ref,
)
from functions.api.problems import FAULT, PROBLEMS
from functions.api.request import JSON_TYPE
from functions.api.route import Access, Route
from functions.api.routes_revocations import SUBJECT

API_VERSION = "1.0.0"
"""Version of the contract, not of a deployment."""

_PATH_PARAMETERS = {
    "jobId": JOB_ID,
    "executionId": EXECUTION_ID,
    "jobType": JOB_TYPE,
    "workerId": WORKER_ID,
    "owner": OWNER,
    "circuitKey": CIRCUIT_KEY,
    "subject": {"type": "string", "pattern": f"^({SUBJECT})$"},
    "workflowId": WORKFLOW_ID,
}
_SOURCES = {
    "createJob": ("jobId", "$response.body#/id"),
    "createWorkflow": ("workflowId", "$response.body#/id"),
    "registerWorker": ("workerId", "$response.body#/id"),
    "listJobHistory": ("executionId", "$response.body#/data/0/id"),
}
"""Whose answer has the id that other operations take, and where."""
_ALWAYS = (400, 401, 403, 405, 406, 429, 500, 503)
_ALWAYS_PUBLIC = (400, 405, 406, 500)
_BY_GATEWAY = (401, 413, 429, 500, 503)
_DESCRIPTIONS = {
    400: "The request is not valid; `details` names every field.",
    401: "No access token, or one that is not valid.",
    403: "Your role does not allow it, or it is another owner's.",
    404: "Nothing here, or nothing you may see.",
    405: "This path does not take this method.",
    406: "Only JSON of version 1 is answered.",
    409: "The state of the job, or of the workflow, does not allow it.",
    412: "The job's revision is not the one that `If-Match` names.",
    413: "The body is over 256 KB (4 MB of many jobs), the payload over 131 072 or a result over 32 768 bytes.",
    415: "The body's Content-Type is not read here.",
    422: "The idempotency key was used with another body.",
    429: "Over the limit of this caller, or of the stage.",
    500: "A fault of ours.",
    503: "Not just now: try again.",
}


def document(routes: tuple[Route, ...]) -> dict[str, Any]:
    """The document of these routes, without `servers`: who gives it away knows where the API is."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, OPERATIONS[route.operation])
        if route.operation in _SOURCES:
            success = str(OPERATIONS[route.operation].success[0])
            paths[route.path][route.method.lower()]["responses"][success]["links"] = _links(
                routes, *_SOURCES[route.operation]
            )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Gnomon",
            "version": API_VERSION,
            "description": "Register jobs; each runs on time, is retried, and keeps its history.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "Access token."}
            },
        },
    }


def _operation(route: Route, operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": route.operation,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": [*_path_parameters(route.path), *operation.parameters],
        "responses": _responses(route, operation),
    }
    if route.access is Access.PUBLIC:
        described["security"] = []
    if operation.body is not None:
        content: dict[str, Any] = {"schema": ref(operation.body)}
        if operation.examples:
            content["examples"] = operation.examples
        described["requestBody"] = {
            "required": operation.body_required,
            "content": dict.fromkeys(operation.body_types, content),
        }
    return described


def _links(routes: tuple[Route, ...], parameter: str, source: str) -> dict[str, Any]:
    """What can be called with the id that an answer has."""
    return {
        route.operation: {"operationId": route.operation, "parameters": {f"path.{parameter}": source}}
        for route in routes
        if f"{{{parameter}}}" in route.path
    }


def _path_parameters(path: str) -> list[Schema]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _PATH_PARAMETERS[name]}
        for name in re.findall(r"\{(\w+)\}", path)
    ]


def _responses(route: Route, operation: Operation) -> dict[str, Any]:
    status, schema, description = operation.success
    responses = {status: _answer(route, schema, description)}
    for media, plain in operation.media.items():
        responses[status]["content"][media] = {"schema": plain}
    for other, (other_schema, other_description) in operation.also.items():
        responses[other] = _answer(route, other_schema, other_description)
    for error in {*(_ALWAYS_PUBLIC if route.access is Access.PUBLIC else _ALWAYS), *operation.errors}:
        responses.setdefault(error, _error(error))
    return {str(status): responses[status] for status in sorted(responses)}


def _answer(route: Route, schema: str | None, description: str) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": description}
    if schema is not None:
        media = "text/html" if route.any_accept else JSON_TYPE
        plain = {"type": "string"} if route.any_accept else {"type": "object"}
        answer["content"] = {media: {"schema": ref(schema) if schema else plain}}
    if schema == "Job":
        answer["headers"] = {"ETag": {"schema": {"type": "string"}, "description": '`"<revision>.<seq>"`'}}
    return answer


def _error(status: int) -> dict[str, Any]:
    codes = sorted({problem.code for problem in (*PROBLEMS.values(), FAULT) if problem.status == status})
    schema: Schema = ref("ErrorAnswer")
    if status in _BY_GATEWAY:
        schema = {"anyOf": [ref("ErrorAnswer"), ref("GatewayError")]}
    description = f"{_DESCRIPTIONS[status]} Code: {', '.join(codes)}."
    return {"description": description, "content": {JSON_TYPE: {"schema": schema}}}
