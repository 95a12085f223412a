"""Routes of circuits: which targets are left alone, and a caller's word that one is well again."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from functions.api.body import compact
from functions.api.paging import paging_of
from functions.api.request import Answer, Request
from functions.api.route import Access, Route
from functions.api.schemas import NoFields
from functions.api.validation import validated
from functions.api.views import circuit_view, circuits_text
from functions.usecases import circuits

if TYPE_CHECKING:
    from functions.usecases.services import Services


class CircuitRoutes:
    def __init__(self, services: Services) -> None:
        self.services = services

    def routes(self) -> tuple[Route, ...]:
        return (
            Route("listCircuits", "GET", "/v1/circuits", Access.READ, self.list),
            Route("getCircuit", "GET", "/v1/circuits/{circuitKey}", Access.READ, self.get),
            Route("resetCircuit", "POST", "/v1/circuits/{circuitKey}/reset", Access.WRITE, self.reset),
        )

    def list(self, request: Request) -> Answer:
        query = request.query("owner", "limit", "cursor")
        paging = paging_of(query)
        page = circuits.list_circuits(
            self.services, request.caller, owner=query.get("owner"), limit=paging.limit, cursor=paging.cursor
        )
        return Answer(200, circuits_text(page, self.services.clock.now()))

    def get(self, request: Request) -> Answer:
        request.query()
        circuit = circuits.get_circuit(self.services, request.caller, _key(request))
        return Answer(200, compact(circuit_view(circuit, self.services.clock.now())))

    def reset(self, request: Request) -> Answer:
        request.query()
        validated(NoFields, request.json())
        circuit = circuits.reset_circuit(self.services, request.caller, _key(request))
        return Answer(200, compact(circuit_view(circuit, self.services.clock.now())))


def _key(request: Request) -> str:
    return unquote(request.params["circuitKey"])
