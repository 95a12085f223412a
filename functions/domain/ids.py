"""Identifiers. All are derived from the job and its slot, except the two that are drawn: job ids and manual slots.

| id        | form                                   |
|-----------|----------------------------------------|
| job       | UUID                                   |
| slot      | epoch seconds in 10 digits             |
| manual    | `<epoch>m<8 base32>`: sorts in its place |
| dependent | `<epoch>d<8 base32>`: of a run made for those of other jobs, derived from them |
| run       | `<job>-<slot>`                         |
| execution | `<run>-<attempt, 4 digits>`            |
"""

import base64
import hashlib
import json
import re
import secrets
import uuid
from collections.abc import Sequence
from typing import NamedTuple

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
JOB_ID_PATTERN = f"^{_UUID}$"
_SLOT = r"[0-9]{10}(?:[dm][a-z2-7]{8})?"
_EXECUTION = re.compile(rf"({_UUID})-({_SLOT})-([0-9]{{4}})")
_SLOT_ID = re.compile(_SLOT)
_JOB = re.compile(_UUID)

MAX_ATTEMPTS = 9_999
"""Attempts of one run: an execution's id has four digits for them."""


class ExecutionKey(NamedTuple):
    """The three parts of an execution's id. `attempt` 0 is the key of a gap."""

    job_id: str
    slot_id: str
    attempt: int


def new_job_id() -> str:
    return str(uuid.uuid4())


def new_write_id() -> str:
    """Mark of one conditional write, by which its writer knows it again (72 random bits)."""
    return secrets.token_urlsafe(9)


def new_webhook_secret() -> str:
    """A key of Standard Webhooks (256 random bits)."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def is_job_id(text: str) -> bool:
    return _JOB.fullmatch(text) is not None


def is_slot_id(text: str) -> bool:
    return _SLOT_ID.fullmatch(text) is not None


def slot_id(slot: int) -> str:
    return f"{slot:010d}"


def new_manual_slot_id(now: float) -> str:
    return f"{int(now):010d}m{base64.b32encode(secrets.token_bytes(5)).decode().lower()}"


def dependent_slot_id(instant: int, job_id: str, ends: Sequence[tuple[str, int]]) -> str:
    """The slot id of the run of `job_id` that is made for these ends, (parent, number) each: the same for the same."""
    text = json.dumps([job_id, *ends], separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).digest()
    return f"{instant:010d}d{base64.b32encode(digest[:5]).decode().lower()}"


def slot_instant(slot: str) -> int:
    """The instant a slot id names, in epoch seconds."""
    return int(slot[:10])


def is_manual(slot: str) -> bool:
    return slot[10:11] == "m"


def is_dependent(slot: str) -> bool:
    """Whether it is of a run that was made for those of other jobs."""
    return slot[10:11] == "d"


def is_scheduled(slot: str) -> bool:
    """Whether it is a slot of the job's own schedule."""
    return slot.isdigit()


def run_id(job_id: str, slot: str) -> str:
    return f"{job_id}-{slot}"


def execution_id(job_id: str, slot: str, attempt: int) -> str:
    return f"{job_id}-{slot}-{attempt:04d}"


def parse_execution_id(text: str) -> ExecutionKey | None:
    """None when the text is no execution id."""
    match = _EXECUTION.fullmatch(text)
    return ExecutionKey(match[1], match[2], int(match[3])) if match else None
