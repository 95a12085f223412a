"""A lifecycle event as the JSON text that goes to the bus."""

from __future__ import annotations

from typing import Any

from functions.domain.event import LifecycleEvent
from functions.events.models import MODELS, JobEvent

_BY_TYPE = {model.type: model for model in MODELS}


def encode(event: LifecycleEvent, *, job_name: str | None) -> str:
    """The event's JSON; what it does not know is left out. Raises pydantic's ValidationError for one that is no event.

    Escaped to ASCII: names of jobs may hold characters that queues behind the bus refuse.
    """
    said: dict[str, Any] = {
        **event.facts,
        "event_type": event.type.value,
        "id": event.id,
        "time": event.time,
        "seq": event.seq,
        "index": event.index,
    }
    model = _BY_TYPE[event.type]
    if issubclass(model, JobEvent):
        said["job_name"] = job_name
    return model.model_validate(said).model_dump_json(exclude_none=True, ensure_ascii=True)
