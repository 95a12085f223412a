"""The endpoint that jobs of these tests call: its answers are written in the path of each job's URL."""

from __future__ import annotations

import contextlib
import gzip
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.receiver import Exchange, Receiver, receiving


@dataclass(frozen=True)
class Call:
    at: float
    """Epoch seconds."""
    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    port: int
    """The caller's own, by which its process is found."""


LARGE = b'{"rows":"%s"}' % (b"x" * 39_998)
JSON = "application/json; charset=utf-8"
ODD = {
    "large": (LARGE, {"Content_Type": JSON}),
    "unreadable": (b'{"rows": 1', {"Content_Type": JSON}),
    "coded": (
        gzip.compress('{"rows": "Müller"}'.encode("latin-1")),
        {
            "Content_Type": "application/json; charset=iso-8859-1",
            "Content_Encoding": "gzip",
        },
    ),
}
"""Bodies and headers of answers that are 200."""


class Endpoint:
    """`/503-503-200` answers a job's first three calls so, and goes on with the last; `hang` in a status's place gives
    no answer while the tests run, `sleep` answers 200 after three seconds, `busy` 429 and asks for four seconds,
    `early` 103 twice and then 200, `short` 503 with less of a body than it promised, `large` 200 with 40 009 bytes of
    declared JSON, `unreadable` with JSON that is none, `coded` with JSON in gzip and ISO 8859-1."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[Call] = []
        self._count: Counter[str] = Counter()
        self._receiver: Receiver

    @contextlib.contextmanager
    def listening(self) -> Iterator[Endpoint]:
        with receiving(self._respond) as self._receiver:
            yield self

    def url(self, answers: str = "200") -> str:
        return f"http://127.0.0.1:{self._receiver.port}/{answers}"

    def target(self, answers: str = "200") -> dict[str, str]:
        return {"type": "http", "url": self.url(answers)}

    def calls(self, job_id: str) -> list[Call]:
        """What arrived of a job, oldest first."""
        with self._lock:
            return [call for call in self._calls if call.headers.get("gnomon-job-id") == job_id]

    def callers(self) -> set[str]:
        """Ids of the jobs of which something arrived."""
        with self._lock:
            return {call.headers.get("gnomon-job-id", "") for call in self._calls}

    def _respond(self, exchange: Exchange) -> None:
        at, received = time.time(), exchange.receiver.requests
        job = exchange.headers.get("Gnomon-Job-Id", "")
        with self._lock:
            # The receiver notes a request in the thread that answers it: this one's is the last with its headers.
            headers = {name.lower(): value for name, value in exchange.headers.items()}
            mine = next(each for each in reversed(received) if each.headers == headers)
            self._calls.append(
                Call(at, mine.method, mine.path, mine.headers, mine.body, exchange.client_address[1]),
            )
            answers = exchange.path.lstrip("/").split("?")[0].split("-")
            answer = answers[min(self._count[job], len(answers) - 1)]
            self._count[job] += 1
        if answer == "hang":
            exchange.receiver.stopped.wait()
            return
        if answer == "sleep":
            exchange.receiver.stopped.wait(3)
        with contextlib.suppress(OSError):
            if answer == "busy":
                exchange.answer(429, b"{}", Retry_After="4")
                return
            if answer in ODD:
                body, odd = ODD[answer]
                exchange.answer(200, body, **odd)
                return
            if answer == "short":
                exchange.wfile.write(b"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nContent-Length: 99\r\n\r\nno")
                return
            if answer == "early":
                exchange.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n" * 2)
            exchange.answer(200 if answer in ("sleep", "early") else int(answer), b'{"answered":true}')
