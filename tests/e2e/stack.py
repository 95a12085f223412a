"""The running stack as a test meets it: its file, its AWS, its API, and patience."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import boto3
import httpx
from botocore.config import Config

from gnomon.local import emulator
from gnomon.local.places import ROOT, Place

T = TypeVar("T")

RUN_QUEUES = ("RunQueueHighUrl", "RunQueueNormalUrl", "RunQueueLowUrl")
"""Outputs of the stack."""
COUNTERS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
LATE = 1.5
"""Seconds after its slot within which a run has started."""
BUSY = 3


@dataclass(frozen=True)
class Stack:
    place: Place
    api_url: str
    tokens: Mapping[str, str]
    endpoint: str
    region: str
    webhook_secret: str
    outputs: Mapping[str, str]

    @classmethod
    def read(cls, place: Place) -> Stack:
        """What `make up` wrote; raises OSError where it wrote nothing."""
        file = json.loads(place.stack_file.read_text("utf-8"))
        return cls(
            place=place,
            api_url=file["apiUrl"],
            tokens=file["tokens"],
            endpoint=file["awsEndpointUrl"],
            region=file["region"],
            webhook_secret=file["webhookSecret"],
            outputs=file["outputs"],
        )


def bring_up(where: Place, *, persist: bool = False) -> None:
    """`make up` of one more stack, in a process of its own."""
    told = {"GNOMON_PORT": str(where.port), "GNOMON_STACK": str(where.stack_file), "GNOMON_PERSIST": str(int(persist))}
    subprocess.run([sys.executable, "-m", "gnomon.local.stack"], env=os.environ | told, cwd=ROOT, check=True)


class Aws:
    """Clients with the credentials of the emulator's root."""

    def __init__(self, stack: Stack) -> None:
        session = boto3.Session(emulator.ROOT_KEY, emulator.ROOT_KEY, region_name=stack.region)
        # Without proxies: a company's would be asked for 127.0.0.1 otherwise.
        config = Config(proxies={}, connect_timeout=5, read_timeout=30, retries={"total_max_attempts": 3})

        def client(service: str) -> Any:
            return session.client(service, endpoint_url=stack.endpoint, config=config)  # type: ignore[call-overload]

        self.cognito = client("cognito-idp")
        self.dynamodb = client("dynamodb")
        self.events = client("events")
        self.functions = client("lambda")
        self.iam = client("iam")
        self.scheduler = client("scheduler")
        self.secrets = client("secretsmanager")
        self.sqs = client("sqs")
        self.states = client("stepfunctions")


class Api:
    """The API without the client's comforts: nothing is checked, repeated or hidden."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._http = httpx.Client(base_url=stack.api_url, timeout=30, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        role: str = "scheduler",
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """`body`: bytes and text go as they are, anything else as JSON. An empty `token` sends none."""
        sent = {"Content-Type": "application/json"} if body is not None else {}
        given = self._stack.tokens[role] if token is None else token
        if given:
            sent["Authorization"] = f"Bearer {given}"
        content = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        return self._http.request(method, path, content=content, headers={**sent, **(headers or {})})

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.call("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        return self.call("POST", path, body, **options)


def problem(response: httpx.Response, status: int, code: str) -> dict[str, str]:
    """The messages of an error by their fields, after a look at its form."""
    assert response.status_code == status, f"{response.status_code}: {response.text[:500]}"
    error = response.json()["error"]
    assert error["code"] == code
    assert error["message"]
    assert error["requestId"]
    return {detail["field"]: detail["message"] for detail in error["details"]}


def until(what: Callable[[], T | None], *, seconds: float, every: float = 0.2, hint: str = "") -> T:
    """What `what` returns once that is true; fails when it is not within `seconds` of a machine with time to spare.

    A busy one gets `BUSY` times as long: this waits for what must happen, tests marked `on_time` measure when.
    """
    ends = time.monotonic() + BUSY * seconds
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < ends, f"not within {BUSY} times {seconds} s: {hint or what}"
        time.sleep(every)


def instant(text: str) -> float:
    """Epoch seconds of a time of the API."""
    return datetime.fromisoformat(text).timestamp()


def rfc3339(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def owner_of(token: str) -> str:
    """Owner of what this user without a team makes: the token's subject."""
    claims = token.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"])


def own_name(stack: Stack, role: str = "scheduler", *, owner: str | None = None) -> str:
    """A new name of a function, queue or secret that jobs of this owner may use."""
    return f"gnomon-local-{owner or owner_of(stack.tokens[role])}--{uuid.uuid4().hex[:12]}"


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


def job_body(**changes: Any) -> dict[str, Any]:
    """A job that is due in a year; a keyword replaces a field, None leaves it out."""
    body: dict[str, Any] = {
        "name": unique("e2e"),
        "schedule": {"type": "once", "at": rfc3339(time.time() + 31_000_000)},
        "target": {"type": "handler", "name": "echo"},
        "timeoutSeconds": 5,
    }
    body |= changes
    return {name: value for name, value in body.items() if value is not None}


def once(seconds: float) -> dict[str, Any]:
    """A one-time schedule so many seconds from now."""
    return {"type": "once", "at": rfc3339(time.time() + seconds)}
