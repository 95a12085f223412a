"""What a caller names a request by, so that the same one again does nothing more."""

from __future__ import annotations

from typing import NamedTuple


class IdempotencyKey(NamedTuple):
    scope: str
    """Caller, method and path."""
    key: str
    body_hash: str
