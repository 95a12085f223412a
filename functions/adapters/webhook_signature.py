"""Signatures of Standard Webhooks, version 1 (standardwebhooks.com): HMAC-SHA256 over `id.timestamp.body`.

Each owner has a key of its own, so a signature says whose job called. What is signed has no room for the owner: the
header `Gnomon-Owner` only tells a receiver of several owners which key to verify by.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from functions.adapters.aws_errors import error_code
from functions.adapters.secret_values import SecretError
from functions.domain.errors import UnavailableError
from functions.domain.ids import new_webhook_secret
from functions.domain.webhook_key import REMEMBERED_SECONDS, WebhookKeys, owner_header, signing_bytes
from functions.key_ports import made_keys

if TYPE_CHECKING:
    from functions.key_ports import WebhookKeyStore
    from functions.ports import Clock

REMEMBERED_OWNERS = 1_000
STALE_SECONDS = 15 * 60
"""How long after they were read keys still sign where they cannot be read again."""
RETRY_SECONDS = 10
"""How long such keys sign before it is tried again to read them: a call must not wait for each try."""


class _Known(NamedTuple):
    keys: WebhookKeys
    read_at: float
    retry_at: float = 0.0
    """Where they could not be read again: not before then."""


class WebhookSignature:
    """Signs with the owner's keys, which are made at their first use and remembered for a minute.

    While they cannot be read again, those that were read up to 15 minutes ago go on signing.
    """

    def __init__(
        self, store: WebhookKeyStore, *, clock: Clock, new_secret: Callable[[], str] = new_webhook_secret
    ) -> None:
        self._store = store
        self._clock = clock
        self._new_secret = new_secret
        self._known: dict[str, _Known] = {}

    def headers(self, owner: str, message_id: str, body: bytes) -> dict[str, str]:
        """The three `webhook-…` headers of a message, signed now, and the owner that the key is of.

        `message_id` has no full stop, and is the same in every attempt: receivers know by it what they have done.

        Raises SecretError, always retryable: the keys are the stage's to keep, and no fault of the job.
        """
        now = self._clock.now()
        timestamp = str(int(now))
        signed = f"{message_id}.{timestamp}.".encode() + body
        signatures = [
            "v1," + base64.b64encode(hmac.digest(signing_bytes(secret), signed, hashlib.sha256)).decode()
            for secret in self._keys(owner, now).signing(now)
        ]
        return {
            "webhook-id": message_id,
            "webhook-timestamp": timestamp,
            "webhook-signature": " ".join(signatures),
            "Gnomon-Owner": owner_header(owner),
        }

    def _keys(self, owner: str, now: float) -> WebhookKeys:
        known = self._known.get(owner)
        if known is not None and 0 <= now - known.read_at < REMEMBERED_SECONDS:
            return known.keys
        if known is not None and not 0 <= now - known.read_at < STALE_SECONDS:
            known = None
        if known is not None and now < known.retry_at:
            return known.keys
        try:
            keys = self._read(owner, now)
        except SecretError:
            if known is None:
                raise
            self._known[owner] = known._replace(retry_at=now + RETRY_SECONDS)
            return known.keys
        if len(self._known) >= REMEMBERED_OWNERS:
            self._known.clear()
        self._known[owner] = _Known(keys, now)
        return keys

    def _read(self, owner: str, now: float) -> WebhookKeys:
        try:
            return made_keys(self._store, owner, new_secret=self._new_secret, now=now).keys
        except ClientError as error:
            code = error_code(error)
            raise SecretError(f"the webhook key of {owner} could not be read: {code}", retryable=True) from error
        except (BotoCoreError, UnavailableError) as error:
            raise SecretError(
                f"the webhook key of {owner} could not be read: {type(error).__name__}", retryable=True
            ) from error
