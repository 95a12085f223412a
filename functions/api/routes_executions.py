"""Routes of executions: one attempt of a run each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.api.request import Answer, Request
from functions.api.route import Access, Route
from functions.api.schemas import NoFields
from functions.api.validation import validated
from functions.api.views import execution_text
from functions.domain.errors import NotFoundError
from functions.domain.ids import parse_execution_id
from functions.usecases import cancelling, history

if TYPE_CHECKING:
    from functions.usecases.services import Services


class ExecutionRoutes:
    def __init__(self, services: Services) -> None:
        self.services = services

    def routes(self) -> tuple[Route, ...]:
        one = "/v1/executions/{executionId}"
        return (
            Route("getExecution", "GET", one, Access.READ, self.get),
            Route("cancelExecution", "POST", f"{one}/cancel", Access.WRITE, self.cancel),
        )

    def get(self, request: Request) -> Answer:
        request.query()
        execution = history.read_execution(self.services, request.caller, execution_id_of(request))
        return Answer(200, execution_text(execution))

    def cancel(self, request: Request) -> Answer:
        request.query()
        validated(NoFields, request.json())
        execution = cancelling.cancel_execution(self.services, request.caller, execution_id_of(request))
        return Answer(200, execution_text(execution))


def execution_id_of(request: Request) -> str:
    """The path's execution id; raises NotFoundError for what is none."""
    text = request.params["executionId"]
    key = parse_execution_id(text)
    if key is None or key.attempt == 0:  # 0 is the entry of skipped slots: no attempt of a run
        raise NotFoundError
    return text
