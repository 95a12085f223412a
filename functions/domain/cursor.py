"""Where the next page of a list starts, as an opaque token.

The token holds the position only, with a checksum over it and the list it belongs to: the key is rebuilt from the
request's own scope, so another caller's token gives nothing of that caller's.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable

from functions.domain.errors import InvalidFieldError

_SUM = 6
MAX_POSITION_BYTES = 1_000
"""Longest position: it becomes a sort key, and DynamoDB takes 1 024 bytes."""


def write_cursor(position: str, *, scope: str) -> str:
    """A token of URL-safe characters. `scope` names the list: its kind and its owner or job."""
    data = position.encode()
    return base64.urlsafe_b64encode(_checksum(data, scope) + data).decode().rstrip("=")


def read_cursor(token: str, *, scope: str) -> str:
    """The position; raises InvalidFieldError("cursor", …) for a token that was not made for this list."""
    try:
        # Strict and canonical: no second spelling of a token is accepted.
        data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        position = data[_SUM:].decode()
    except (binascii.Error, ValueError) as error:
        raise _invalid(token) from error
    if not 0 < len(position.encode()) <= MAX_POSITION_BYTES or write_cursor(position, scope=scope) != token:
        raise _invalid(token)
    return position


def owners_scope(kind: str, owners: Iterable[str]) -> str:
    """The scope of a list of these owners."""
    return f"{kind} {json.dumps(sorted(owners))}"


def newest(places: Iterable[str], limit: int) -> tuple[list[str], bool]:
    """The last of the places in their order, at most `limit`, and whether there are more.

    Lists of several owners are merged so: a place begins with an instant, and means the same in each of the lists.
    """
    ordered = sorted(places, reverse=True)
    return ordered[:limit], len(ordered) > limit


def _checksum(data: bytes, scope: str) -> bytes:
    return hashlib.sha256(scope.encode() + b"\0" + data).digest()[:_SUM]


def _invalid(token: str) -> InvalidFieldError:
    return InvalidFieldError("cursor", f"{token[:64]!r} is no cursor of this list: take it from pagination.cursor.")
