"""What workers and targets that report later may send: shapes and ranges, as strict as in schemas.py."""

from typing import Annotated, Any

from pydantic import FailFast, Field, StringConstraints

from functions.api.schemas import ErrorCode, Owner
from functions.api.schemas_poll import Queues
from functions.api.strict import Strict, absent
from functions.domain.progress import MESSAGE_CHARACTERS
from functions.domain.worker import MAX_ITEMS

MAX_HELD = 100
"""Executions one heartbeat may name."""
MAX_FENCE = 10**11

ExecutionId = Annotated[str, StringConstraints(min_length=1, max_length=80)]
WorkerId = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Fence = Annotated[int, Field(ge=0, le=MAX_FENCE)]


class WorkerBody(Strict):
    """What `POST /v1/workers` takes."""

    name: Annotated[str, StringConstraints(max_length=128)] = ""
    owner: Owner = absent(description="Whose executions it is given: the caller's or those of one of its teams.")
    queues: Queues
    max_items: Annotated[
        int, Field(ge=1, le=MAX_ITEMS, description="Executions a poll asks for that does not say how many.")
    ] = 1


class HeldExecution(Strict):
    id: ExecutionId
    fence: Fence


class HeartbeatBody(Strict):
    """What `POST /v1/workers/{workerId}/heartbeat` takes: what the worker holds."""

    executions: Annotated[list[HeldExecution], Field(max_length=MAX_HELD), FailFast()] = Field(default=[])


class _ReportBody(Strict):
    worker_id: WorkerId = absent(description="Beside `fence`: the worker that holds the execution.")
    fence: int = absent(ge=0, le=MAX_FENCE, description="As the poll gave it.")
    token: str = absent(
        min_length=1,
        max_length=64,
        description="Instead of `workerId` and `fence`: the one-time token of an attempt with completion callback.",
    )


class CompleteBody(_ReportBody):
    """What `POST /v1/executions/{executionId}/complete` takes."""

    result: Any = Field(default=None, description="Any JSON, at most 32 768 bytes.")


class ReportedError(Strict):
    code: ErrorCode
    message: Annotated[str, StringConstraints(max_length=1_000)] = ""
    retryable: bool = True


class FailBody(_ReportBody):
    """What `POST /v1/executions/{executionId}/fail` takes."""

    error: ReportedError
    retry_after_seconds: int = absent(ge=0, le=86_400, description="No retry sooner, as far as maxDelaySeconds allows.")


class ProgressBody(_ReportBody):
    """What `POST /v1/executions/{executionId}/progress` takes."""

    percent: Annotated[float, Field(ge=0, le=100)]
    message: Annotated[str, StringConstraints(max_length=MESSAGE_CHARACTERS)] = ""
