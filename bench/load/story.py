"""What is asked of the API, and what the receiver answers: half of all jobs fail until somebody forces a retry."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MAX_RETRIES = 3
ALLOWED = MAX_RETRIES + 1
"""Attempts of a run before somebody forces another."""
A_CALL = 100
"""Jobs of a bulk request."""
FAILING = "/failing"
"""Path that answers 503 to the attempts that are allowed, and 200 to one that is forced after them."""
STEADY = "/steady"

BULK, SINGLE, RETRY = "create, bulk", "create, single", "force a retry"
FLOOR = "echo of "
"""Before the name of a request whose body the bare function got, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One POST."""

    name: str
    url: str
    body: Any
    weight: int = 1
    """Jobs that it creates or retries."""
    due: float | None = None
    """Epoch seconds at which what it asks is to happen: `delaySeconds` counts from the instant it is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What became of a request."""

    name: str
    weight: int
    url: str
    sent: float
    ended: float
    """Epoch seconds."""
    status: int
    """0 when no answer came."""
    answer: str


def answer_of(path: str, attempt: int) -> int:
    """The receiver's decision: the status of a job's attempt."""
    return 503 if path == FAILING and attempt <= ALLOWED else 200


def job_body(number: int, *, tag: str, receiver: str, at: float) -> dict[str, Any]:
    """Every other job fails."""
    return {
        "name": f"load {number}",
        "tags": [tag],
        "schedule": {"type": "once", "at": _rfc3339(at)},
        "target": {"type": "http", "url": receiver + (FAILING if number % 2 else STEADY)},
        "payload": {"number": number, "text": "x" * 150},
        "timeoutSeconds": 20,
        "retryConfig": {
            "maxRetries": MAX_RETRIES,
            "backoffStrategy": "fixed",
            "initialDelaySeconds": 2,
            "maxDelaySeconds": 5,
            "jitter": 0.5,
        },
    }


def bulk_creations(bodies: Sequence[Any], *, api: str, echo: str) -> list[Request]:
    """All at once, a hundred a call; then the same bodies for the bare function."""
    batches = [bodies[start : start + A_CALL] for start in range(0, len(bodies), A_CALL)]
    asked = [
        Request(name=BULK, url=f"{api}/v1/jobs/bulk", body={"items": list(batch)}, weight=len(batch))
        for batch in batches
    ]
    return [*asked, *(floor_of(one, echo) for one in asked)]


def single_creations(bodies: Sequence[Any], *, api: str, echo: str) -> list[Request]:
    return _interleaved((Request(name=SINGLE, url=f"{api}/v1/jobs", body=body) for body in bodies), echo)


def forced_retries(job_ids: Iterable[str], *, due: float, api: str, echo: str) -> list[Request]:
    """Of every job, all due at one instant."""
    asked = (Request(name=RETRY, url=f"{api}/v1/jobs/{job_id}/retry", body={}, due=due) for job_id in job_ids)
    return _interleaved(asked, echo)


def floor_of(request: Request, echo: str) -> Request:
    """The same body, for the bare function behind the same kind of route."""
    return dataclasses.replace(request, name=FLOOR + request.name, url=echo)


def save(requests: Sequence[Request], file: Path) -> None:
    file.write_text(json.dumps([dataclasses.asdict(one) for one in requests]), encoding="utf-8")


def load(file: Path) -> list[Request]:
    return [Request(**one) for one in json.loads(file.read_text(encoding="utf-8"))]


def _interleaved(asked: Iterable[Request], echo: str) -> list[Request]:
    """Each beside its floor, now before, now after it."""
    found: list[Request] = []
    for number, one in enumerate(asked):
        pair = (one, floor_of(one, echo))
        found += pair if number % 2 else reversed(pair)
    return found


def _rfc3339(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
