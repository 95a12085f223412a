"""A client of the API in one process: it makes the events of an HTTP API and reads the answers.

api = Api()                                # all ports in memory
api.post("/v1/jobs", make_body()).json["id"]
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from functions.api.app import create_app
from functions.usecases.services import Services
from tests.api_contract import must_be_documented
from tests.factories import make_document, make_rules
from tests.fakes import World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EVENTS = Path(__file__).parent.parent / "events"
ALICE: Mapping[str, Any] = {"token_use": "access", "sub": "alice", "username": "alice", "client_id": "app"}
SCHEDULER = ALICE | {"cognito:groups": "[scheduler]"}
RULES = make_rules(unguarded_origins=("http://127.0.0.1:*",))


def sample_event(name: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))
    return event


def user(name: str, *groups: str) -> dict[str, Any]:
    """Claims of a user's access token."""
    return {**ALICE, "sub": name, "username": name} | ({"cognito:groups": f"[{' '.join(groups)}]"} if groups else {})


def machine(client: str, *scopes: str) -> dict[str, Any]:
    """Claims of a client-credentials token."""
    return {"token_use": "access", "sub": client, "client_id": client, "scope": " ".join(scopes)}


def make_body(**changes: Any) -> dict[str, Any]:
    """A valid body of a job; a keyword replaces a field, None leaves it out."""
    return make_document(**changes)


@dataclass(frozen=True)
class Reply:
    status: int
    text: str | None
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        assert self.text is not None
        return json.loads(self.text)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])

    @property
    def message(self) -> str:
        return str(self.json["error"]["message"])

    @property
    def fields(self) -> dict[str, str]:
        """The messages of an error by their fields."""
        return {detail["field"]: detail["message"] for detail in self.json["error"]["details"]}


class Api:
    """The API over ports in memory."""

    def __init__(
        self,
        world: World | None = None,
        *,
        check_address: Callable[[str], None] = lambda url: None,
        claims: Mapping[str, Any] | None = SCHEDULER,
        **options: Any,
    ) -> None:
        self.world = world or World()
        self.clock = self.world.clock
        self.claims = claims
        self.services = Services(
            jobs=self.world.jobs,
            history=self.world.history,
            timetable=self.world.timetable,
            slots=self.world.slots,
            circuits=self.world.circuits,
            clock=self.world.clock,
            types=self.world.types,
            idempotency=self.world.idempotency,
            owners=self.world.owners,
            workers=self.world.workers,
            progress=self.world.progress,
            retry_configs=self.world.retry_configs,
            webhook_keys=self.world.webhook_keys,
            machine=self.world.machine,
            dependents=self.world.dependents,
            graphs=self.world.graphs,
            workflows=self.world.workflows,
        )
        self.app = create_app(
            self.services,
            limits=options.pop("limits", self.world.limits),
            rules=RULES,
            check_address=check_address,
            stage="test",
            version="0.1.0",
            **options,
        )

    def answer(self, event: Mapping[str, Any]) -> Reply:
        """The answer to one event; each must be one that the OpenAPI document promises."""
        answer = self.app(event, None)
        reply = Reply(answer["statusCode"], answer["body"], answer["headers"])
        assert answer["isBase64Encoded"] is False
        if reply.status >= 400 and "error" in reply.json:
            assert reply.json["error"]["requestId"] == event["requestContext"]["requestId"]
        must_be_documented(
            event["requestContext"]["http"]["method"],
            event["rawPath"],
            reply.status,
            reply.headers.get("Content-Type"),
            reply.text,
        )
        return reply

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        claims: Mapping[str, Any] | None = None,
        encode: bool = False,
    ) -> Reply:
        """`body`: bytes and text go as they are, anything else as JSON. `claims`: another caller's."""
        event = sample_event("api-get-job")
        event |= {"rawPath": path, "rawQueryString": query, "routeKey": f"{method} {path}"}
        event["requestContext"]["http"] |= {"method": method, "path": path}
        event["headers"] = {"accept": "*/*"}
        event["requestContext"]["authorizer"] = {"jwt": {"claims": dict(claims or self.claims or {}), "scopes": None}}
        if body is not None:
            event["headers"]["content-type"] = "application/json"
            text = body if isinstance(body, (str, bytes)) else json.dumps(body)
            if isinstance(text, bytes) or encode:
                raw = text if isinstance(text, bytes) else text.encode()
                event |= {"body": base64.b64encode(raw).decode(), "isBase64Encoded": True}
            else:
                event["body"] = text
        event["headers"] |= headers or {}
        return self.answer(event)

    def get(self, path: str, **options: Any) -> Reply:
        return self.call("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Reply:
        return self.call("POST", path, body, **options)

    def put(self, path: str, body: Any = None, **options: Any) -> Reply:
        return self.call("PUT", path, body, **options)

    def patch(self, path: str, body: Any = None, **options: Any) -> Reply:
        headers = {"content-type": "application/merge-patch+json"} | options.pop("headers", {})
        return self.call("PATCH", path, body, headers=headers, **options)

    def delete(self, path: str, **options: Any) -> Reply:
        return self.call("DELETE", path, **options)

    def create(self, **changes: Any) -> str:
        """Register a job; returns its path."""
        reply = self.post("/v1/jobs", make_body(**changes))
        assert reply.status == 201, reply.text
        return f"/v1/jobs/{reply.json['id']}"
