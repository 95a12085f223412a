from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from functions.adapters.secret_values import SecretError
from functions.adapters.webhook_signature import WebhookSignature

ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:webhook"
OLD, NEW = (base64.b64encode(bytes([byte]) * 32).decode() for byte in (1, 2))


class FixedClock:
    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


class OneSecret:
    def __init__(self, text: str | Exception) -> None:
        self._text = text

    def get(self, secret: str) -> str:
        assert secret == ARN
        if isinstance(self._text, Exception):
            raise self._text
        return self._text


def signature(stored: Any, now: float | None = None) -> WebhookSignature:
    text = stored if isinstance(stored, (str, Exception)) else json.dumps(stored)
    clock = FixedClock(time.time() if now is None else now)
    return WebhookSignature(OneSecret(text), secret_arn=ARN, clock=clock)


def test_the_signature_is_that_of_the_standards_own_library() -> None:
    now = 1_614_265_330.9
    body = '{"text":"é"}'.encode()
    headers = signature({"current": NEW}, now).headers("msg-1", body)
    assert headers == {
        "webhook-id": "msg-1",
        "webhook-timestamp": "1614265330",
        "webhook-signature": Webhook(f"whsec_{NEW}").sign("msg-1", datetime.fromtimestamp(now, UTC), body.decode()),
    }


@pytest.mark.parametrize("body", [b"", b"{}", '{"a":"é"}'.encode()])
def test_receivers_verify_it(body: bytes) -> None:
    Webhook(f"whsec_{NEW}").verify(body, signature({"current": NEW}).headers("msg-1", body), json_parse=False)


@pytest.mark.parametrize("form", [NEW, f"whsec_{NEW}", NEW.rstrip("="), f"whsec_{NEW.rstrip('=')}"])
def test_a_key_has_every_form_that_the_library_takes(form: str) -> None:
    headers = signature({"current": form}).headers("msg-1", b"{}")
    Webhook(form).verify(b"{}", headers)
    Webhook(f"whsec_{NEW}").verify(b"{}", headers)


@pytest.mark.parametrize(("age", "valid"), [(0, True), (24 * 3_600 - 60, True), (24 * 3_600 + 60, False)])
def test_the_secret_before_signs_too_for_a_day(age: float, valid: bool) -> None:
    stored = {"current": NEW, "previous": OLD, "rotatedAt": time.time() - age}
    headers = signature(stored).headers("msg-1", b"{}")
    Webhook(NEW).verify(b"{}", headers)
    assert len(headers["webhook-signature"].split(" ")) == (2 if valid else 1)
    if valid:
        Webhook(OLD).verify(b"{}", headers)
    else:
        with pytest.raises(WebhookVerificationError):
            Webhook(OLD).verify(b"{}", headers)


@pytest.mark.parametrize("stored", ["no json", "[]", "{}", {"current": ""}, {"current": "?!"}, {"current": 7}])
def test_nothing_is_sent_unsigned(stored: Any) -> None:
    with pytest.raises(SecretError, match="webhook") as caught:
        signature(stored).headers("msg-1", b"{}")
    assert caught.value.retryable


def test_a_secret_that_cannot_be_read_is_no_fault_of_the_job() -> None:
    with pytest.raises(SecretError, match="webhook") as caught:
        signature(SecretError("denied", retryable=False)).headers("msg-1", b"{}")
    assert caught.value.retryable
