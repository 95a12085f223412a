"""The API's own description. Both documents are made when they are first asked for, not at import."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from functions.api.body import compact
from functions.api.request import Answer, Request
from functions.api.route import Access, Route

if TYPE_CHECKING:
    from collections.abc import Callable

_CACHED = {"Cache-Control": "public, max-age=300"}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@dataclass(slots=True)
class DocumentRoutes:
    described: Callable[[], tuple[Route, ...]]
    """All routes of the API, these two among them."""
    address: str
    """Where the gateway serves the API, as Request.address reads it."""
    _made: dict[str, str] = field(default_factory=dict, init=False)

    def routes(self) -> tuple[Route, ...]:
        return (
            Route("openapi", "GET", "/openapi.json", Access.PUBLIC, self.openapi),
            Route("docs", "GET", "/docs", Access.PUBLIC, self.docs, any_accept=True),
        )

    def openapi(self, request: Request) -> Answer:
        request.query()
        if "openapi" not in self._made:
            self._made["openapi"] = compact(import_module("functions.api.openapi").document(self.described()))
        servers = compact([{"url": request.address(self.address)}])
        return Answer(200, f'{self._made["openapi"][:-1]},"servers":{servers}}}', dict(_CACHED))

    def docs(self, request: Request) -> Answer:
        request.query()
        if "docs" not in self._made:
            document = import_module("functions.api.openapi").document(self.described())
            self._made["docs"] = import_module("functions.api.docs_page").page(document)
        headers = _CACHED | {"Content-Security-Policy": _POLICY}
        return Answer(200, self._made["docs"], headers, content_type="text/html; charset=utf-8")
