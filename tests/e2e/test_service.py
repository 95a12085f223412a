"""What the service says of itself, to everybody."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from functions.api.app import routes_without_services
from functions.api.openapi import document
from tests.e2e.stack import problem

if TYPE_CHECKING:
    from tests.e2e.stack import Api, Stack

pytestmark = pytest.mark.e2e


def test_health_needs_no_token_and_tells_no_secret(api: Api, stack: Stack) -> None:
    answer = api.get("/health", token="")
    assert answer.status_code == 200
    health = answer.json()
    assert health["status"] == "ok"
    assert health["components"]
    assert all(each["status"] == "ok" and each["latencyMs"] >= 0 for each in health["components"].values())
    for secret in (stack.webhook_secret, stack.outputs["JobsTable"], "000000000000"):
        assert secret not in answer.text
    for path in ("/ready", "/live", "/startup"):
        assert api.get(path, token="").status_code == 200


def test_documents_need_no_token(api: Api, stack: Stack) -> None:
    served = api.get("/openapi.json", token="")
    assert served.status_code == 200
    described = document(routes_without_services()) | {"servers": [{"url": stack.api_url}]}
    assert served.json() == json.loads(json.dumps(described))
    page = api.get("/docs", token="")
    assert page.status_code == 200
    assert page.headers["Content-Type"].startswith("text/html")
    assert "/v1/jobs" in page.text


@pytest.mark.parametrize("path", ["/", "/nothing", "/v2/jobs", "/v1"])
def test_unknown_path(api: Api, path: str) -> None:
    assert problem(api.get(path, token=""), 404, "NOT_FOUND") == {}


def test_unknown_method(api: Api) -> None:
    answer = api.call("PUT", "/v1/jobs", {})
    problem(answer, 405, "METHOD_NOT_ALLOWED")
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "POST"}
