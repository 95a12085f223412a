"""Whether the service lives, has started, and reaches what it needs. No token, no secrets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from functions.api.request import Answer, Request
from functions.api.route import Access, Route

if TYPE_CHECKING:
    from functions.ports import Clock

Probe = Callable[[], object]
"""Asks one component for next to nothing; raises when it does not answer."""

KEEP_SECONDS = 5
"""How long a finding is repeated, so that anybody's polling costs little."""


@dataclass(slots=True)
class HealthRoutes:
    stage: str
    version: str
    clock: Clock
    probes: Mapping[str, Probe]
    _found: tuple[float, dict[str, Any]] | None = field(default=None, init=False)

    def routes(self) -> tuple[Route, ...]:
        return (
            Route("health", "GET", "/health", Access.PUBLIC, self.health),
            Route("ready", "GET", "/ready", Access.PUBLIC, self.ready),
            Route("live", "GET", "/live", Access.PUBLIC, self.alive),
            Route("startup", "GET", "/startup", Access.PUBLIC, self.alive),
        )

    def health(self, request: Request) -> Answer:
        """Every component with its status and latency."""
        request.query()
        components = self._components()
        status = _overall(components)
        body = {"status": status, "stage": self.stage, "version": self.version, "components": components}
        return _answer(status, body)

    def ready(self, request: Request) -> Answer:
        request.query()
        status = _overall(self._components())
        return _answer(status, {"status": status})

    def alive(self, request: Request) -> Answer:
        """Having come this far is the answer."""
        request.query()
        return _answer("ok", {"status": "ok"})

    def _components(self) -> dict[str, Any]:
        now = self.clock.now()
        if self._found is None or not 0 <= now - self._found[0] < KEEP_SECONDS:
            self._found = (now, {name: self._probe(probe) for name, probe in self.probes.items()})
        return self._found[1]

    def _probe(self, probe: Probe) -> dict[str, Any]:
        begun = self.clock.now()
        try:
            probe()
        except Exception:  # noqa: BLE001 - whatever it is, the component does not answer, and that is the finding
            status = "down"
        else:
            status = "ok"
        return {"status": status, "latencyMs": round(max(0.0, self.clock.now() - begun) * 1000, 1)}


def _overall(components: Mapping[str, Any]) -> str:
    return "ok" if all(component["status"] == "ok" for component in components.values()) else "down"


def _answer(status: str, body: Mapping[str, Any]) -> Answer:
    headers = {"Cache-Control": "no-store"} if status == "ok" else {"Cache-Control": "no-store", "Retry-After": "5"}
    return Answer(200 if status == "ok" else 503, json.dumps(body, separators=(",", ":")), headers)
