"""The sender of http targets as tests use it: on 127.0.0.1, with a secret of its own."""

from __future__ import annotations

import base64
import json
import ssl
import time
from typing import Any

from functions.adapters.address_guard import AddressGuard, Destination
from functions.adapters.http_target import HttpTarget
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.target_url import parse_url
from tests.factories import make_rules

JOB = "3f1c2a4e-0b5d-4c7e-9a8f-1234567890ab"
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
        self._values: dict[str, str | Exception] = {"webhook": json.dumps({"current": KEY}), **values}

    def get(self, secret: str) -> str:
        value = self._values[secret]
        if isinstance(value, Exception):
            raise value
        return value


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
        owner="team-a",
        slot_id="1800000000",
        run_id=f"{JOB}-1800000000",
        execution_id=f"{JOB}-1800000000-{attempt:04d}",
        attempt=attempt,
        scheduled_for=1_800_000_000,
        payload=payload,
        timeout_seconds=timeout_seconds,
        callback_token=callback_token,
    )


def sender(*, guard: Any = None, secrets: Any = None, tls: ssl.SSLContext | None = None) -> HttpTarget:
    return HttpTarget(
        guard=guard or AddressGuard(RULES),
        secrets=secrets or Secrets(),
        webhook_secret_arn="webhook",
        clock=SystemClock(),
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
