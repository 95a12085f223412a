"""Operations of workers, and of those who report on executions."""

from __future__ import annotations

from functions.api.openapi_operation import CURSOR, LIMIT, Operation, parameter


def _work(summary: str, success: tuple[int, str | None, str], body: str, *errors: int) -> Operation:
    return Operation(
        tag="workers",
        summary=summary,
        success=success,
        body=body,
        body_required=body in ("ProgressBody", "FailBody", "CompleteBody"),
        errors=(404, 413, 415, *errors),
    )


WORK: dict[str, Operation] = {
    "registerWorker": Operation(
        tag="workers",
        summary="Register a worker for some queues of its owner",
        success=(201, "Worker", "The worker; `Location` names it."),
        body="WorkerBody",
        body_required=True,
        examples={"reports": {"summary": "A worker for one queue", "value": {"queues": ["reports"]}}},
        errors=(413, 415),
    ),
    "listWorkers": Operation(
        tag="workers",
        summary="List workers that were heard of within a day",
        success=(200, "WorkerList", "A page; it may be empty and still have a cursor."),
        parameters=(
            parameter(
                "query",
                "owner",
                {"type": "string"},
                "Whose: of all owners that you act for by default, `*` for everybody's.",
            ),
            LIMIT,
            CURSOR,
        ),
    ),
    "getWorker": Operation(
        tag="workers", summary="Read a worker", success=(200, "Worker", "The worker."), errors=(404,)
    ),
    "heartbeat": _work(
        "Say that the worker lives, and keep what it holds",
        (200, "Heartbeat", "The worker, and the lease of each execution it named."),
        "HeartbeatBody",
        409,
    ),
    "drainWorker": _work("Give the worker nothing more", (200, "Worker", "The worker."), "NoFields"),
    "pollWorker": _work(
        "Claim executions; wait up to 20 s where there are none",
        (200, "Claimed", "What the worker now holds; empty where nothing came."),
        "PollBody",
    ),
    "reportProgress": _work(
        "Say how far a running execution is", (200, "ProgressKept", "Whether it was kept."), "ProgressBody", 409
    ),
    "completeExecution": _work(
        "End a running execution well", (200, "Execution", "The attempt as recorded."), "CompleteBody", 409
    ),
    "failExecution": _work(
        "End a running execution as failed", (200, "Execution", "The attempt as recorded."), "FailBody", 409
    ),
}
