"""The API for clients of tests: over ports in memory, behind what stands for API Gateway."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import httpx

from functions.api.app import create_app
from tests.factories import make_rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.driver import Driver

RULES = make_rules(unguarded_origins=("http://127.0.0.1:*",))
CLAIMS = {"token_use": "access", "sub": "alice", "username": "alice", "cognito:groups": "[scheduler]"}


class Gateway:
    """What API Gateway does: an HTTP request becomes the function's event, its answer the response."""

    def __init__(self, driver: Driver, claims: Mapping[str, Any] = CLAIMS) -> None:
        self.claims = claims
        self.app = create_app(
            driver.services,
            limits=driver.world.limits,
            rules=RULES,
            check_address=lambda _url: None,
            stage="test",
            version="0",
        )

    def __call__(self, request: httpx.Request) -> httpx.Response:
        method, path = request.method, request.url.path
        try:
            body, encoded = request.content.decode() or None, False
        except UnicodeDecodeError:
            body, encoded = base64.b64encode(request.content).decode(), True
        answer = self.app(
            {
                "version": "2.0",
                "routeKey": f"{method} {path}",
                "rawPath": path,
                "rawQueryString": request.url.query.decode(),
                "headers": dict(request.headers),
                "body": body,
                "isBase64Encoded": encoded,
                "requestContext": {
                    "authorizer": {"jwt": {"claims": dict(self.claims), "scopes": None}},
                    "http": {"method": method, "path": path},
                    "requestId": "request-1",
                    "stage": "$default",
                },
            },
            None,
        )
        return httpx.Response(answer["statusCode"], text=answer.get("body") or "", headers=answer.get("headers"))
