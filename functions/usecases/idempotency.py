"""What a request makes is kept under its idempotency key, so that the same request again finds it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from functions.domain.errors import (
    ConflictError,
    ForbiddenError,
    InvalidFieldError,
    NotFoundError,
    PreconditionFailedError,
)
from functions.domain.idempotency import IdempotencyKey
from functions.usecases.services import Services


@contextlib.contextmanager
def claimed(services: Services, key: IdempotencyKey | None, made: str, *, now: float) -> Iterator[tuple[str, bool]]:
    """Keep the id of what the request makes under its key, if it has one, unless the block refuses the request.

    Gives the id that is kept, and whether an earlier request kept it.
    """
    if key is None:
        yield made, False
        return
    claim = services.idempotency.claim(key.scope, key.key, body_hash=key.body_hash, ids=[made], now=now)
    try:
        yield claim.ids[0], claim.replayed
    except (ConflictError, ForbiddenError, InvalidFieldError, NotFoundError, PreconditionFailedError):
        services.idempotency.release(key.scope, key.key, claim)
        raise
