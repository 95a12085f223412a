"""The sender of http targets as tests use it: on 127.0.0.1, with a secret of its own."""

from __future__ import annotations

import base64
import ssl
import time
from typing import Any

from functions.adapters.address_guard import AddressGuard, Destination
from functions.adapters.http_target import HttpTarget
from functions.adapters.webhook_signature import WebhookSignature
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.target_url import parse_url
from functions.domain.webhook_key import PreviousKey, WebhookKeys
from tests.factories import make_rules
from tests.fakes import InMemoryWebhookKeys

JOB = "3f1c2a4e-0b5d-4c7e-9a8f-1234567890ab"
OWNER = "team-a"
KEY = base64.b64encode(b"k" * 32).decode()
PAYLOAD = '{"lat":33.10318374633789,"r":1.0,"t":"é"}'
RULES = make_rules(unguarded_origins=("http://127.0.0.1:*", "https://127.0.0.1:*", "!http://127.0.0.1:4566"))


class SystemClock:
    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


class Secrets:
    def __init__(self, **values: str | Exception) -> None:
        self._values: dict[str, str | Exception] = dict(values)

    def get(self, secret: str) -> str:
        value = self._values[secret]
        if isinstance(value, Exception):
            raise value
        return value


def keys_of(owner: str, current: str, *previous: str, keep: float = 3_600) -> InMemoryWebhookKeys:
    """A store with an owner's webhook keys. Secrets with or without `whsec_`."""
    now = int(time.time())
    store = InMemoryWebhookKeys()
    before = tuple(PreviousKey(_whole(one), int(now + keep)) for one in previous)
    store.create(owner, WebhookKeys(secret=_whole(current), created_at=now - 60, previous=before))
    return store


def _whole(secret: str) -> str:
    return f"whsec_{secret.removeprefix('whsec_')}"


class Addresses:
    """A guard that knows the addresses of every host."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = addresses

    def destination(self, url: str) -> Destination:
        return Destination(url=parse_url(url), addresses=self._addresses)


def invocation(
    payload: str = PAYLOAD, timeout_seconds: int = 10, *, attempt: int = 2, callback_token: str | None = None
) -> Invocation:
    return Invocation(
        job_id=JOB,
        owner=OWNER,
        slot_id="1800000000",
        run_id=f"{JOB}-1800000000",
        execution_id=f"{JOB}-1800000000-{attempt:04d}",
        attempt=attempt,
        scheduled_for=1_800_000_000,
        payload=payload,
        timeout_seconds=timeout_seconds,
        callback_token=callback_token,
    )


def sender(
    *, guard: Any = None, secrets: Any = None, keys: Any = None, clock: Any = None, tls: ssl.SSLContext | None = None
) -> HttpTarget:
    clock = clock or SystemClock()
    return HttpTarget(
        guard=guard or AddressGuard(RULES),
        secrets=secrets or Secrets(),
        signature=WebhookSignature(keys or keys_of(OWNER, KEY), clock=clock),
        clock=clock,
        tls=tls,
    )


def call(url: str, *, timeout_seconds: int = 10, secrets: Any = None, **target: Any) -> TargetAnswer:
    return sender(secrets=secrets).call(
        invocation(timeout_seconds=timeout_seconds), {"type": "http", "url": url, **target}
    )


def code(answer: TargetAnswer) -> str | None:
    return None if answer.error is None else answer.error.code


def message(answer: TargetAnswer) -> str:
    assert answer.error is not None
    return answer.error.message
