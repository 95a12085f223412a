"""Routes of webhook keys: how receivers verify the calls of an owner's jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from functions.api.body import compact
from functions.api.request import Answer, Request
from functions.api.route import Access, Route
from functions.api.schemas import RotationBody
from functions.api.validation import validated
from functions.api.views import webhook_key_view
from functions.domain.caller import Caller
from functions.usecases import webhook_keys

if TYPE_CHECKING:
    from functions.domain.webhook_key import WebhookKeys
    from functions.usecases.services import Services


class WebhookKeyRoutes:
    def __init__(self, services: Services) -> None:
        self.services = services

    def routes(self) -> tuple[Route, ...]:
        one, writes = "/v1/webhook-keys/{owner}", Caller.must_write
        return (
            Route("getWebhookKey", "GET", one, Access.READ, self.get, role=writes),
            Route("rotateWebhookKey", "POST", f"{one}/rotate", Access.WRITE, self.rotate, role=writes),
        )

    def get(self, request: Request) -> Answer:
        request.query()
        return self._answer(*webhook_keys.read_key(self.services, request.caller, _owner(request)))

    def rotate(self, request: Request) -> Answer:
        request.query()
        body = validated(RotationBody, request.json())
        keep, owner = body.keep_previous_seconds, _owner(request)
        return self._answer(*webhook_keys.rotate_key(self.services, request.caller, owner, keep_seconds=keep))

    def _answer(self, owner: str, keys: WebhookKeys) -> Answer:
        view = webhook_key_view(owner, keys, self.services.clock.now())
        return Answer(200, compact(view), {"Cache-Control": "no-store"})


def _owner(request: Request) -> str:
    return unquote(request.params["owner"])
