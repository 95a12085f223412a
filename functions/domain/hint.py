"""A delayed message "look at this job now". Never the truth.

Its form in a queue is JSON, `{"v":1,"jobId":…,"slot":…,"attempt":…}`; events/hint-v1.json keeps a sample.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from functions.domain.ids import execution_id, is_job_id, parse_execution_id

VERSION = 1
LOOK_SLOT = "0000000000"
"""With attempt 0: look at the graph that the job is part of; no run is meant."""


class Hint(NamedTuple):
    """Names what is due, never a counter: a changed revision must not void a waiting retry."""

    job_id: str
    slot_id: str
    attempt: int
    """The attempt that would start, from 1; 0 beside LOOK_SLOT."""

    @property
    def is_look(self) -> bool:
        return self.slot_id == LOOK_SLOT and self.attempt == 0


def write_hint(hint: Hint) -> str:
    """The message's body."""
    body = {"v": VERSION, "jobId": hint.job_id, "slot": hint.slot_id, "attempt": hint.attempt}
    return json.dumps(body, separators=(",", ":"))


def read_hint(body: str) -> Hint:
    """Read a message's body; keys it does not know are ignored. Raises ValueError that names what is wrong."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body is no JSON: {error}") from error
    if not isinstance(message, dict):
        raise ValueError("the body is no JSON object")  # noqa: TRY004 - callers tell bad messages by one class
    version, job_id = message.get("v"), message.get("jobId")
    slot, attempt = message.get("slot"), message.get("attempt")
    if type(version) is not int or version != VERSION:
        raise ValueError(f"v is {version!r:.64}, this release reads {VERSION}")
    if not isinstance(job_id, str) or not is_job_id(job_id):
        raise ValueError(f"jobId {job_id!r:.64} is no job id")
    if not isinstance(slot, str) or parse_execution_id(execution_id(job_id, slot, 1)) is None:
        raise ValueError(f"slot {slot!r:.64} is no slot id")
    if type(attempt) is not int or attempt < (0 if slot == LOOK_SLOT else 1):
        raise ValueError(f"attempt {attempt!r:.64} is no number from 1")
    return Hint(job_id, slot, attempt)
