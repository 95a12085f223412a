"""Routes of workers: they register, poll, send heartbeats, drain (docs/workers.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from functions.api.paging import paging_of
from functions.api.request import Answer, Request
from functions.api.route import Access, Route
from functions.api.schemas import NoFields
from functions.api.schemas_work import HeartbeatBody, PollBody, WorkerBody
from functions.api.validation import shown, validated
from functions.api.views_work import claimed_text, heartbeat_text, worker_text, workers_text
from functions.domain.errors import InvalidFieldError, NotFoundError
from functions.domain.ids import new_write_id
from functions.domain.worker import is_worker_id
from functions.usecases import claiming, workers

if TYPE_CHECKING:
    from functions.usecases.services import Polls, Services

_ONE = "/v1/workers/{workerId}"


@dataclass(frozen=True, slots=True)
class WorkerRoutes:
    services: Services

    def routes(self) -> tuple[Route, ...]:
        return (
            Route("registerWorker", "POST", "/v1/workers", Access.WRITE, self.register),
            Route("listWorkers", "GET", "/v1/workers", Access.READ, self.list),
            Route("getWorker", "GET", _ONE, Access.READ, self.get),
            Route("heartbeat", "POST", f"{_ONE}/heartbeat", Access.WORK, self.heartbeat),
            Route("drainWorker", "POST", f"{_ONE}/drain", Access.WORK, self.drain),
        )

    def register(self, request: Request) -> Answer:
        request.caller.must_write()
        request.query()
        body = validated(WorkerBody, request.json())
        worker = workers.register_worker(
            self.services,
            request.caller,
            name=body.name,
            queues=tuple(dict.fromkeys(body.queues)),
            max_items=body.max_items,
        )
        answer = Answer(201, worker_text(worker, self.services.clock.now()))
        answer.headers["Location"] = f"/v1/workers/{worker.id}"
        return answer

    def list(self, request: Request) -> Answer:
        query = request.query("owner", "limit", "cursor")
        paging = paging_of(query)
        page = workers.list_workers(
            self.services, request.caller, owner=query.get("owner"), limit=paging.limit, cursor=paging.cursor
        )
        return Answer(200, workers_text(page, self.services.clock.now()))

    def get(self, request: Request) -> Answer:
        request.query()
        worker = workers.read_worker(self.services, request.caller, _id(request))
        return Answer(200, worker_text(worker, self.services.clock.now()))

    def heartbeat(self, request: Request) -> Answer:
        request.caller.must_write()
        request.query()
        body = validated(HeartbeatBody, request.json())
        held = tuple((each.id, each.fence) for each in body.executions)
        worker, kept = workers.heartbeat(self.services, request.caller, _id(request), held)
        return Answer(200, heartbeat_text(worker, kept, self.services.clock.now()))

    def drain(self, request: Request) -> Answer:
        request.query()
        validated(NoFields, request.json())
        worker = workers.drain_worker(self.services, request.caller, _id(request))
        return Answer(200, worker_text(worker, self.services.clock.now()))


@dataclass(frozen=True, slots=True)
class PollRoutes:
    """The one route that a function of its own answers: it may wait."""

    polls: Polls

    def routes(self) -> tuple[Route, ...]:
        return (Route("pollWorker", "POST", f"{_ONE}/poll", Access.WORK, self.poll),)

    def poll(self, request: Request) -> Answer:
        request.caller.must_write()
        request.query()
        body = validated(PollBody, request.json())
        worker_id = _id(request)
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


def _id(request: Request) -> str:
    text = request.params["workerId"]
    if not is_worker_id(text):
        raise NotFoundError
    return text
