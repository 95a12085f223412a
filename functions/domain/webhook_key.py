"""The keys by which the http calls of an owner's jobs are signed (docs/webhooks.md). Instants are epoch seconds."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

from functions.domain.errors import ConflictError

KEEP_SECONDS = 24 * 3_600
"""How long after a rotation the key before still signs, beside the new one."""
REMEMBERED_SECONDS = 60
"""How long senders use keys that they have read: after it all of them sign by the new one."""
MOST_PREVIOUS = 4
"""Keys that sign beside the current one at most: each makes the header of every call 48 characters longer."""
_PREFIX = "whsec_"


class PreviousKey(NamedTuple):
    secret: str
    until: int
    """It signs until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookKeys:
    """An owner's keys. Secrets are `whsec_` and the base64 of 32 bytes, as Standard Webhooks writes them."""

    secret: str = field(repr=False)
    created_at: int
    previous: tuple[PreviousKey, ...] = field(default=(), repr=False)
    """The latest first."""

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> WebhookKeys:
        """Read what `to_document` made; raises ValueError, KeyError or TypeError for anything else."""
        previous = tuple(PreviousKey(str(one["secret"]), int(one["until"])) for one in document["previous"])
        keys = cls(secret=str(document["secret"]), created_at=int(document["createdAt"]), previous=previous)
        for secret in (keys.secret, *(one.secret for one in previous)):
            signing_bytes(secret)
        return keys

    def to_document(self) -> dict[str, Any]:
        return {
            "secret": self.secret,
            "createdAt": self.created_at,
            "previous": [one._asdict() for one in self.previous],
        }

    def signing(self, now: float) -> list[str]:
        """The secrets that sign a call that is sent now, the current one first."""
        return [self.secret, *(one.secret for one in self.previous if now < one.until)]

    def rotated(self, secret: str, *, keep_seconds: int, now: float) -> WebhookKeys:
        """The keys with a new secret. Those before sign for `keep_seconds` more at most; 0 ends them all at once.

        Raises ConflictError where too many would sign: none is dropped before its time unless the caller asks for it.
        """
        end = int(now) + keep_seconds
        before = (PreviousKey(self.secret, end), *self.previous)
        shortened = [PreviousKey(one.secret, min(one.until, end)) for one in before]
        previous = tuple(one for one in shortened if now < one.until)
        if len(previous) > MOST_PREVIOUS:
            raise ConflictError(
                f"The {MOST_PREVIOUS} keys before still sign beside the current one, and no more may. Wait until "
                "`previous` has fewer, or end them with keepPreviousSeconds 0."
            )
        return WebhookKeys(secret=secret, created_at=int(now), previous=previous)


class StoredKeys(NamedTuple):
    keys: WebhookKeys
    version: str
    """Names what was read, for the write that replaces it."""


def signing_bytes(secret: str) -> bytes:
    """What a secret stands for; raises ValueError."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error
    if len(key) < 24:
        raise ValueError("shorter than 24 bytes")
    return key


def owner_header(owner: str) -> str:
    """The owner as the header `Gnomon-Owner` has it: all but letters, digits and `_.-~` percent-encoded."""
    return quote(owner, safe="")
