"""The API for workers, and for targets that report their outcome later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from gnomon.calling import segment
from gnomon.client import Client

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gnomon.paging import Pages
    from gnomon.shapes import ClaimedExecution, Execution, Heartbeat, Worker


class WorkClient(Client):
    """A Client that polls and reports. All of it may be repeated: the same again changes nothing."""

    def register_worker(self, queues: Iterable[str], *, name: str = "", max_items: int = 1) -> Worker:
        """A repeat after a lost answer registers a second worker, which nobody hears of and which is soon forgotten."""
        body = {"name": name, "queues": list(queues), "maxItems": max_items}
        return cast("Worker", self._call("POST", "/v1/workers", body=body, repeatable=True))

    def get_worker(self, worker_id: str) -> Worker:
        return cast("Worker", self._call("GET", _worker(worker_id)))

    def list_workers(
        self, *, owner: str | None = None, page_size: int = 50, cursor: str | None = None
    ) -> Pages[Worker]:
        """Workers of an owner, by id. Pages as it goes."""
        return self._pages("/v1/workers", {"owner": owner}, page_size, cursor=cursor)

    def poll(
        self, worker_id: str, *, poll_id: str, max_items: int | None = None, wait_seconds: int = 0
    ) -> list[ClaimedExecution]:
        """Claim executions. `poll_id` names this poll: with it a repeat gets what the lost answer had."""
        body: dict[str, Any] = {"pollId": poll_id, "waitSeconds": wait_seconds}
        if max_items is not None:
            body["maxItems"] = max_items
        answer = self._call("POST", f"{_worker(worker_id)}/poll", body=body, repeatable=True)
        return cast("list[ClaimedExecution]", answer["data"])

    def heartbeat(self, worker_id: str, held: Mapping[str, int]) -> Heartbeat:
        """Keep these executions, by id with their fences. Raises GnomonApiError 409 that names, in `details`, those
        that are gone; the others are kept all the same."""
        body = {"executions": [{"id": execution, "fence": fence} for execution, fence in held.items()]}
        return cast("Heartbeat", self._call("POST", f"{_worker(worker_id)}/heartbeat", body=body, repeatable=True))

    def drain_worker(self, worker_id: str) -> Worker:
        return cast("Worker", self._call("POST", f"{_worker(worker_id)}/drain", repeatable=True))

    def report_progress(self, execution_id: str, percent: float, message: str = "", **holder: Any) -> bool:
        """Whether it was kept: at most one a second is. `holder` as for `complete_execution`."""
        body = {**_holder(**holder), "percent": percent, "message": message}
        return bool(self._call("POST", f"{_execution(execution_id)}/progress", body=body, repeatable=True)["recorded"])

    def complete_execution(self, execution_id: str, result: Any = None, **holder: Any) -> Execution:
        """End the execution well. `holder`: `worker_id` and `fence` of the claim, or the `token` sent along."""
        body = {**_holder(**holder), "result": result}
        return cast("Execution", self._call("POST", f"{_execution(execution_id)}/complete", body=body, repeatable=True))

    def fail_execution(
        self,
        execution_id: str,
        code: str,
        message: str = "",
        *,
        retryable: bool = True,
        retry_after_seconds: int | None = None,
        **holder: Any,
    ) -> Execution:
        """End the execution as failed; what follows is its job's retry configuration's to say."""
        body = {**_holder(**holder), "error": {"code": code, "message": message, "retryable": retryable}}
        if retry_after_seconds is not None:
            body["retryAfterSeconds"] = retry_after_seconds
        return cast("Execution", self._call("POST", f"{_execution(execution_id)}/fail", body=body, repeatable=True))


def _worker(worker_id: str) -> str:
    return f"/v1/workers/{segment(worker_id, 'worker id')}"


def _execution(execution_id: str) -> str:
    return f"/v1/executions/{segment(execution_id, 'execution id')}"


def _holder(*, worker_id: str | None = None, fence: int | None = None, token: str | None = None) -> dict[str, Any]:
    return {"token": token} if token is not None else {"workerId": worker_id, "fence": fence}
