"""What is written about the API equals the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from functions.api.__main__ import stored_document
from functions.api.app import routes_without_services
from functions.api.openapi import document
from functions.api.openapi_operations import OPERATIONS
from functions.api.problems import FAULT, PROBLEMS
from functions.api.schemas import JobBody
from functions.api.validation import validated
from tests.api_client import Api

if TYPE_CHECKING:
    from functions.api.route import Route

DOCS = Path(__file__).parents[2] / "docs"
ROUTES = {f"{route.method} {route.path}": route for route in routes_without_services()}


def http_api() -> str:
    return (DOCS / "http-api.md").read_text(encoding="utf-8")


def test_the_document_in_docs_is_the_generated_one() -> None:
    stored = json.loads((DOCS / "openapi.json").read_text(encoding="utf-8"))
    generated = json.loads(json.dumps(stored_document()))
    assert stored == generated, "run: python -m functions.api > docs/openapi.json"


def test_the_document_that_is_served_is_the_one_in_docs() -> None:
    served, stored = Api().get("/openapi.json").json, json.loads((DOCS / "openapi.json").read_text(encoding="utf-8"))
    assert served.pop("servers") != stored.pop("servers")
    assert served == stored


def test_every_route_is_an_operation_and_none_is_left() -> None:
    assert sorted(route.operation for route in ROUTES.values()) == sorted(OPERATIONS)


def test_the_routes_in_the_docs_are_the_routes() -> None:
    written = re.findall(r"^\| `(GET|POST|PUT|PATCH|DELETE) (/[^`]*)` \|", http_api(), re.MULTILINE)
    assert sorted(f"{method} {path}" for method, path in written) == sorted(ROUTES)


def test_the_errors_in_the_docs_are_the_errors() -> None:
    rows = re.findall(r"^\| (\d{3}) \| `([A-Z_]+)` \|", http_api(), re.MULTILINE)
    assert {(int(status), code) for status, code in rows} == {*map(tuple, PROBLEMS.values()), tuple(FAULT)}


def test_the_fields_in_the_docs_are_the_fields() -> None:
    section = http_api().split("## A job", 1)[1].split("\n## ", 1)[0]
    written = set(re.findall(r"^\| `([A-Za-z]+)` \|", section, re.MULTILINE))
    assert written == {field.alias for field in JobBody.model_fields.values()}


def test_the_bodies_in_the_docs_are_valid() -> None:
    bodies = re.findall(r"```json\n(\{\s*\"name\".*?)```", http_api(), re.DOTALL)
    assert bodies
    for body in bodies:
        reply = Api().post("/v1/jobs", body)
        assert reply.status == 201, reply.text


def test_every_schema_is_a_schema_and_every_reference_leads_somewhere() -> None:
    whole = document(routes_without_services())
    for schema in whole["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)
    references = re.findall(r'"\$ref": "#/components/schemas/(\w+)"', json.dumps(whole))
    assert references
    assert set(references) <= set(whole["components"]["schemas"])


@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
def test_operations_are_described_in_full(route: Route) -> None:
    described: dict[str, Any] = document((route,))["paths"][route.path][route.method.lower()]
    takes_key = any(parameter["name"] == "X-Idempotency-Key" for parameter in described["parameters"])
    assert described["summary"]
    assert ("422" in described["responses"]) == takes_key
    assert ("403" in described["responses"]) or route.access.value != "write"
    assert ("requestBody" in described) == (route.method in ("POST", "PUT", "PATCH"))
    if route.operation in ("createJob", "replaceJob"):
        for content in described["requestBody"]["content"].values():
            for example in content["examples"].values():
                assert validated(JobBody, example["value"])


def test_the_page_names_every_operation_and_needs_nothing_else() -> None:
    page = Api().get("/docs", headers={"accept": "text/html"})
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    for route in ROUTES.values():
        assert f"<code>{route.path}</code>" in (page.text or "")
    assert not re.findall(r"<script|src=|href=.https?:", page.text or "")
