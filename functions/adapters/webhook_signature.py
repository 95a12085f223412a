"""Signatures of Standard Webhooks, version 1 (standardwebhooks.com): HMAC-SHA256 over `id.timestamp.body`."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import TYPE_CHECKING

from functions.adapters.secret_values import SecretError, SecretValues

if TYPE_CHECKING:
    from functions.ports import Clock

ROTATION_SECONDS = 24 * 3_600
"""How long after a rotation the secret before still signs, beside the new one."""


class WebhookSignature:
    """Signs with the stage's secret, JSON in Secrets Manager: `{"current", "previous"?, "rotatedAt"?}`.

    The secrets are base64 text, with or without the prefix `whsec_` and padding; `rotatedAt` is epoch seconds.
    """

    def __init__(self, secrets: SecretValues, *, secret_arn: str, clock: Clock) -> None:
        self._secrets = secrets
        self._secret_arn = secret_arn
        self._clock = clock

    def headers(self, message_id: str, body: bytes) -> dict[str, str]:
        """The three `webhook-…` headers of a message, signed now.

        `message_id` has no full stop, and is the same in every attempt: receivers know by it what they have done.

        Raises SecretError, always retryable: the secret is the stage's, and no fault of the job.
        """
        now = self._clock.now()
        timestamp = str(int(now))
        signed = f"{message_id}.{timestamp}.".encode() + body
        signatures = [
            "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in self._keys(now)
        ]
        return {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": " ".join(signatures)}

    def _keys(self, now: float) -> list[bytes]:
        try:
            text = self._secrets.get(self._secret_arn)
        except SecretError as error:
            raise SecretError(f"the webhook {error}", retryable=True) from error
        try:
            stored = json.loads(text)
            keys = [_key(stored["current"])]
            if stored.get("previous") and now < float(stored.get("rotatedAt") or 0) + ROTATION_SECONDS:
                keys.append(_key(stored["previous"]))
        except (ValueError, TypeError, KeyError, AttributeError):
            # The cause is left out on purpose: it may quote the secret.
            raise SecretError("the webhook secret is not in its form", retryable=True) from None
        return keys


def _key(text: str) -> bytes:
    encoded = text.removeprefix("whsec_")
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError from error
    if not key:
        raise ValueError
    return key
