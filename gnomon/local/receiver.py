"""An HTTP receiver on this machine that jobs can call: it checks each call's signature and answers as it was told.

The signature is that of Standard Webhooks (standardwebhooks.com): HMAC-SHA256 over `id.timestamp.body`, in base64.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import threading
import time
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

TOLERANCE_SECONDS = 300
"""How old a signed call may be, so that a recorded one cannot be replayed for ever."""

_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One call that arrived."""

    at: float
    """Epoch seconds."""
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    refusal: str | None
    """Why the signature was refused; None when it is genuine."""
    answered: int
    """HTTP status."""

    @property
    def job_id(self) -> str:
        return self.headers.get("gnomon-job-id", "")

    @property
    def attempt(self) -> str:
        return self.headers.get("gnomon-attempt", "")


class Receiver:
    """Listens on an ephemeral port of 127.0.0.1 while used as a context manager.

    `answers` gives for each path the statuses of a job's first, second, … call; the last one repeats, and paths that
    are not in it answer 200. A call whose signature is not genuine is answered 401 and does not count.
    """

    def __init__(
        self,
        secret: str,
        answers: Mapping[str, Sequence[int]] | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._secret = secret
        self._answers = dict(answers or {})
        self._clock = clock
        self._lock = threading.Lock()
        self._deliveries: list[Delivery] = []
        self._calls: Counter[tuple[str, str]] = Counter()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """`http://127.0.0.1:<port>`."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def deliveries(self) -> list[Delivery]:
        """What arrived so far, oldest first."""
        with self._lock:
            return list(self._deliveries)

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> int:
        """Record one call; returns the status to answer."""
        now = self._clock()
        refusal = refuse(self._secret, headers, body, now=now)
        with self._lock:
            answer = _UNAUTHORIZED if refusal else self._next_answer(path, headers.get("gnomon-job-id", ""))
            self._deliveries.append(
                Delivery(at=now, path=path, headers=headers, body=body, refusal=refusal, answered=answer)
            )
        return answer

    def _next_answer(self, path: str, job_id: str) -> int:
        statuses = self._answers.get(path) or (200,)
        call = self._calls[path, job_id]
        self._calls[path, job_id] += 1
        return statuses[min(call, len(statuses) - 1)]


def refuse(secret: str, headers: Mapping[str, str], body: bytes, *, now: float) -> str | None:
    """Why this call is not genuine; None when one of its signatures is right and it is recent.

    `secret` is `whsec_<base64>`; header names are in lower case.
    """
    message_id, timestamp = headers.get("webhook-id"), headers.get("webhook-timestamp", "")
    if not message_id or not timestamp.isdecimal():
        return "webhook-id or webhook-timestamp is missing"
    if abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        return f"webhook-timestamp {timestamp} is more than {TOLERANCE_SECONDS} s away"
    try:
        encoded = secret.removeprefix("whsec_")
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except binascii.Error:
        return "the receiver's own secret is not whsec_<base64>"
    digest = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(digest)
    # Several signatures stand side by side while the secret is rotated.
    given = headers.get("webhook-signature", "").encode().split(b" ")
    if not any(hmac.compare_digest(expected, signature) for signature in given):
        return "webhook-signature does not match"
    return None


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10
        # Head and body in one packet: two would wait for each other (Nagle and delayed ACK, 40 ms).
        wbufsize = -1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status = receiver.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            answer = b'{"received":true}' if status < 300 else b""
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Quiet: what arrives is in `deliveries`."""

    return Handler
