"""The route of workers' polls, apart from the others: a function of its own answers it (docs/workers.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.api.request import Answer, Request
from functions.api.route import WORKER, Access, Route
from functions.api.schemas_poll import PollBody
from functions.api.validation import shown, validated
from functions.api.views_work import claimed_text
from functions.domain.caller import Caller
from functions.domain.errors import InvalidFieldError
from functions.domain.ids import new_write_id
from functions.usecases import claiming

if TYPE_CHECKING:
    from functions.usecases.services import Polls


class PollRoutes:
    """It may wait."""

    def __init__(self, polls: Polls) -> None:
        self.polls = polls

    def routes(self) -> tuple[Route, ...]:
        return (Route("pollWorker", "POST", f"{WORKER}/poll", Access.WORK, self.poll, role=Caller.must_write),)

    def poll(self, request: Request) -> Answer:
        request.query()
        body = validated(PollBody, request.json())
        worker_id = request.worker_id
        queues = tuple(dict.fromkeys(body.queues)) if "queues" in body.model_fields_set else None
        if queues is not None:
            served = claiming.own_worker(self.polls, request.caller, worker_id).queues
            other = next((queue for queue in queues if queue not in served), None)
            if other is not None:
                raise InvalidFieldError(
                    "queues", f"{shown(other)} is not one of the worker's queues: {', '.join(served)}"
                )
        wanted = claiming.Poll(
            worker_id=worker_id,
            poll_id=body.poll_id or new_write_id(),
            queues=queues,
            max_items=body.max_items,
            wait_seconds=body.wait_seconds,
        )
        return Answer(200, claimed_text(claiming.poll(self.polls, request.caller, wanted)))
