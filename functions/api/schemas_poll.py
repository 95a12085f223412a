"""What a worker's poll may send, as strict as in schemas.py; a module of its own, for the function of its own."""

from typing import Annotated

from pydantic import Field, StringConstraints

from functions.api.strict import Strict, absent
from functions.domain.worker import MAX_ITEMS

MAX_WAIT_SECONDS = 20
"""Longest a poll waits: API Gateway ends every request after 30 s."""

QueueName = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]
"""As a target names it. No slash: what waits is found by owner and queue, and another owner's must never be meant."""
Queues = Annotated[list[QueueName], Field(min_length=1, max_length=10)]


class PollBody(Strict):
    """What `POST /v1/workers/{workerId}/poll` takes."""

    queues: Queues = absent(description="Some of the worker's queues; all of them by default.")
    max_items: int = absent(ge=1, le=MAX_ITEMS)
    wait_seconds: Annotated[int, Field(ge=0, le=MAX_WAIT_SECONDS)] = 0
    poll_id: str = absent(
        min_length=1,
        max_length=64,
        description="A name for this poll: sent again, it gets what it claimed, and claims no more than it asks for.",
    )
