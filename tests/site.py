"""A worker in a thread, at the real API and engine in memory."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import httpx

from gnomon.errors import GnomonError
from gnomon.work_client import WorkClient
from gnomon.worker import Run, Worker
from tests.driver import Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.gateway import CLAIMS, Gateway

if TYPE_CHECKING:
    from collections.abc import Callable

    from gnomon.tokens import Tokens

QUEUE = {"type": "worker", "queue": "reports"}
PATIENCE = 20.0


class Site:
    """An API whose clock moves by hand, except that polls that wait move it; a client a thread."""

    def __init__(self) -> None:
        self.driver = Driver(World(clock=FakeClock(NOW)))
        self.lock = threading.RLock()
        self.away = 0
        """Requests that the network still loses."""
        self.gateway = Gateway(self.driver, {**CLAIMS, "cognito:groups": "[scheduler team-a]"})
        self.requests: list[str] = []
        self.slow = threading.Event()

    def connect(self) -> WorkClient:
        return self.client("token")

    def client(self, tokens: str | Tokens) -> WorkClient:
        return WorkClient(
            "http://127.0.0.1:1", tokens, transport=httpx.MockTransport(self.answer), attempts=1, sleep=lambda _: None
        )

    def answer(self, request: httpx.Request) -> httpx.Response:
        time.sleep(0.002)
        with self.lock:
            self.requests.append(f"{request.method} {request.url.path}")
            if self.away:
                self.away -= 1
                raise httpx.ReadTimeout("lost", request=request)
            return self.gateway(request)

    def job(self, **changes: Any) -> str:
        with self.lock:
            given = {
                "schedule": {"type": "once", "at": "2027-01-15T08:00:00Z"},
                "target": QUEUE,
                "timeoutSeconds": 3600,
                **changes,
            }
            job = self.driver.create(**given).id
            self.driver.run(1)
            return job

    def history(self, job: str) -> list[Any]:
        with self.lock:
            return self.driver.world.history.of(job)

    def ended(self, job: str) -> Any:
        """The job's first attempt, once it has ended."""
        return until(lambda: next(iter(self.history(job)), None))


def until(what: Callable[[], Any]) -> Any:
    ends = time.monotonic() + PATIENCE
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < ends, what
        time.sleep(0.005)


class Running:
    """A worker in a thread of its own."""

    def __init__(self, site: Site, function: Callable[[Any, Run], Any], **options: Any) -> None:
        options = {"queues": ["reports"], "wait_seconds": 0, "heartbeat_seconds": 0.02, **options}
        self.worker = Worker(options.pop("connect", site.connect), function, **options)
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.worker.run()
        except GnomonError as error:
            self.error = error

    def __enter__(self) -> Running:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self.worker.stop()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
