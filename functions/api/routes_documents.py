"""The API's own description. Both documents are made when they are first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from functions.api.request import Answer, Request
from functions.api.route import Access, Route

_HEADERS = {"Cache-Control": "public, max-age=300"}


@dataclass(frozen=True, slots=True)
class DocumentRoutes:
    version: str

    def routes(self) -> tuple[Route, ...]:
        return (
            Route("openapi", "GET", "/openapi.json", Access.PUBLIC, self.openapi),
            Route("docs", "GET", "/docs", Access.PUBLIC, self.docs, any_accept=True),
        )

    def openapi(self, request: Request) -> Answer:
        request.query()
        text: str = import_module("functions.api.openapi").document_text(self.version)
        return Answer(200, text, dict(_HEADERS))

    def docs(self, request: Request) -> Answer:
        request.query()
        text: str = import_module("functions.api.docs_page").page(self.version)
        policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
        headers = _HEADERS | {"Content-Security-Policy": policy}
        return Answer(200, text, headers, content_type="text/html; charset=utf-8")
