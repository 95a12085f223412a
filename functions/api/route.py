"""One line of the API: a method and a path, who may come, and what answers."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from functions.api.request import Answer, Request
    from functions.domain.caller import Caller


WORKER = "/v1/workers/{workerId}"
RETRY_CONFIGS = "/v1/retry-configs/"


class Access(enum.StrEnum):
    """What a call counts as for its caller's limits; PUBLIC takes no token and counts as nothing."""

    PUBLIC = "public"
    READ = "read"
    WRITE = "write"
    WORK = "work"
    """What workers and callbacks send: far more often than people."""


@dataclass(frozen=True, slots=True)
class Route:
    operation: str
    """The operation's id in the OpenAPI document."""
    method: str
    path: str
    """With parameters in braces: `/v1/jobs/{jobId}`."""
    access: Access
    answer: Callable[[Request], Answer]
    creates: int = 0
    """Jobs that each call may create, counted with it. Where the body says how many, `Request.create` counts them."""
    role: Callable[[Caller], None] | None = None
    """Raises ForbiddenError for callers whose role is not enough, whatever they ask for: their body is not read."""
    for_reporters: bool = False
    """Open to callers that only report by callback token."""
    any_accept: bool = False
    """Answers something else than JSON."""
    media: tuple[str, ...] = ()
    """Media types that it may answer besides JSON, for the client's `Accept`."""


def one_segment(path: str) -> str:
    """The path with the slashes of a job type encoded, as the routes read it: a type may have some (`billing/eu`)."""
    if not path.startswith(RETRY_CONFIGS):
        return path
    return RETRY_CONFIGS + path.removeprefix(RETRY_CONFIGS).replace("/", "%2F")
