"""Where the next page of a list starts, as an opaque token.

The token holds the position only, with a checksum over it and the list it belongs to: the key is rebuilt from the
request's own scope, so another caller's token gives nothing of that caller's.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

from functions.domain.errors import InvalidFieldError

_SUM = 6


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
    if write_cursor(position, scope=scope) != token:
        raise _invalid(token)
    return position


def _checksum(data: bytes, scope: str) -> bytes:
    return hashlib.sha256(scope.encode() + b"\0" + data).digest()[:_SUM]


def _invalid(token: str) -> InvalidFieldError:
    return InvalidFieldError("cursor", f"{token[:64]!r} is no cursor of this list: take it from pagination.cursor.")
