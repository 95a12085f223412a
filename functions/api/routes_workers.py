"""Routes of workers: they register, send heartbeats, drain (docs/workers.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.api.paging import paging_of
from functions.api.request import Answer, Request
from functions.api.route import WORKER, Access, Route
from functions.api.schemas import NoFields
from functions.api.schemas_work import HeartbeatBody, WorkerBody
from functions.api.validation import validated
from functions.api.views_work import heartbeat_text, worker_text, workers_text
from functions.domain.caller import Caller
from functions.usecases import workers

if TYPE_CHECKING:
    from functions.usecases.services import Services


class WorkerRoutes:
    def __init__(self, services: Services) -> None:
        self.services = services

    def routes(self) -> tuple[Route, ...]:
        return (
            Route("registerWorker", "POST", "/v1/workers", Access.WRITE, self.register, role=Caller.must_write),
            Route("listWorkers", "GET", "/v1/workers", Access.READ, self.list),
            Route("getWorker", "GET", WORKER, Access.READ, self.get),
            Route("heartbeat", "POST", f"{WORKER}/heartbeat", Access.WORK, self.heartbeat, role=Caller.must_write),
            Route("drainWorker", "POST", f"{WORKER}/drain", Access.WORK, self.drain),
        )

    def register(self, request: Request) -> Answer:
        request.query()
        body = validated(WorkerBody, request.json())
        worker = workers.register_worker(
            self.services,
            request.caller,
            name=body.name,
            queues=tuple(dict.fromkeys(body.queues)),
            max_items=body.max_items,
            owner=body.model_dump(exclude_unset=True).get("owner"),
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
        worker = workers.read_worker(self.services, request.caller, request.worker_id)
        return Answer(200, worker_text(worker, self.services.clock.now()))

    def heartbeat(self, request: Request) -> Answer:
        request.query()
        body = validated(HeartbeatBody, request.json())
        held = tuple((each.id, each.fence) for each in body.executions)
        worker, kept = workers.heartbeat(self.services, request.caller, request.worker_id, held)
        return Answer(200, heartbeat_text(worker, kept, self.services.clock.now()))

    def drain(self, request: Request) -> Answer:
        request.query()
        validated(NoFields, request.json())
        worker = workers.drain_worker(self.services, request.caller, request.worker_id)
        return Answer(200, worker_text(worker, self.services.clock.now()))
