"""A worker: a process of the caller's that fetches executions by itself, and holds them by its heartbeats."""

from __future__ import annotations

import base64
import enum
import hashlib
import re
import secrets
from dataclasses import dataclass

from functions.domain.actor import Actor

OFFLINE_AFTER = 90
"""Seconds without a heartbeat after which a worker counts as gone."""
MAX_ITEMS = 10
"""Executions one poll claims at most."""
_WORKER_ID = re.compile(r"[a-z2-7]{16}", re.ASCII)


class WorkerStatus(enum.StrEnum):
    ACTIVE = "ACTIVE"
    DRAINING = "DRAINING"
    """Finishes what it holds, and is given nothing more."""
    OFFLINE = "OFFLINE"
    """Not heard of for 90 s: what it held is lost, or soon will be."""


OWNER_CHARACTERS = 5
"""Of a worker's id: the same for all workers of one owner, so that they stand together."""


def new_worker_id(owner: str) -> str:
    """55 random bits behind the owner's prefix."""
    return owner_prefix(owner) + base64.b32encode(secrets.token_bytes(7)).decode().lower()[:11]


def owner_prefix(owner: str) -> str:
    """How ids of the owner's workers begin; by chance those of another owner, too."""
    return base64.b32encode(hashlib.sha256(owner.encode()).digest()).decode().lower()[:OWNER_CHARACTERS]


def is_worker_id(text: str) -> bool:
    return _WORKER_ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Instants are epoch seconds, UTC."""

    id: str
    owner: str
    """Whose executions it is given: those of nobody else."""
    created_by: str
    name: str
    queues: tuple[str, ...]
    max_items: int
    """Executions a poll asks for that does not say how many."""
    registered_at: int
    seen_at: int
    """Its last heartbeat, or poll."""
    draining: bool = False
    drained_by: Actor | None = None
    """Who drains it."""
    poll_id: str | None = None
    """The last poll that found something."""
    intended: tuple[str, ...] = ()
    """Ids of the executions that poll set out to claim, kept before the first claim: only these are claimed for it."""
    version: int = 1
    """Grows with every write but a heartbeat's."""

    def status(self, now: float) -> WorkerStatus:
        if now - self.seen_at > OFFLINE_AFTER:
            return WorkerStatus.OFFLINE
        return WorkerStatus.DRAINING if self.draining else WorkerStatus.ACTIVE
