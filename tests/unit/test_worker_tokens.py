"""A worker outlives its token, and what goes wrong in each of its calls: what has finished is kept and reported."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from gnomon import worker as worker_module
from gnomon.client import ClientCredentials
from gnomon.errors import CredentialsError, GnomonApiError
from gnomon.tokens import RereadToken
from gnomon.worker import NonRetryable, Run, UnreportedError
from tests.served import served
from tests.site import PATIENCE, Running, Site, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow

ROUTES = ["/v1/workers", "/poll", "/heartbeat", "/progress", "/complete", "/fail"]


class Gate:
    """What stands before a site's API: it knows which tokens are valid, and may answer something else."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.valid = {"good"}
        self.refused: list[str] = []
        """Paths of the requests with a token that is not valid."""
        self.faults: dict[str, list[Callable[[httpx.Request], httpx.Response]]] = {}
        """By the end of a path: what is done to its next requests, before or in the place of the API's answer."""
        original = site.answer

        def answer(request: httpx.Request) -> httpx.Response:
            for ending, faults in self.faults.items():
                if request.url.path.endswith(ending) and faults:
                    return faults.pop(0)(request)
            if request.headers["authorization"].removeprefix("Bearer ") not in self.valid:
                self.refused.append(request.url.path)
                return httpx.Response(401, json={"message": "Unauthorized"})
            return original(request)

        self.answer_well = original
        site.answer = answer  # type: ignore[method-assign]


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def gate(site: Site) -> Gate:
    return Gate(site)


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker takes its leases for over after a second."""
    monkeypatch.setattr(worker_module, "LEASE_SECONDS", 1.0)


class Slow:
    """A function that ends when it is let."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, _payload: Any, _run: Run) -> str:
        self.begun.set()
        assert self.go.wait(PATIENCE)
        return "done"


def test_a_finished_result_is_kept_until_the_token_is_taken_again(site: Site, gate: Gate) -> None:
    """The fixed token of a shell: refused for a while, in each call."""
    job, slow = site.job(), Slow()
    with Running(site, slow, connect=lambda: site.client("good")) as running:
        assert slow.begun.wait(PATIENCE)
        gate.valid.clear()
        slow.go.set()
        until(lambda: [path for path in gate.refused if path.endswith("/complete")])
        assert running.thread.is_alive()
        gate.valid.add("good")
        ended = site.ended(job)
        assert (ended.status, ended.result, ended.attempt) == ("COMPLETED", '"done"', 1)
        again = site.job()
        assert site.ended(again).status == "COMPLETED"
    assert running.error is None


def test_a_fixed_token_that_stays_refused_ends_the_worker_when_nothing_is_held(
    site: Site, gate: Gate, short_lease: None, caplog: pytest.LogCaptureFixture
) -> None:
    job, slow = site.job(), Slow()
    with caplog.at_level(logging.INFO, "gnomon.worker"):
        running = Running(site, slow, connect=lambda: site.client("good"))
        running.thread.start()
        assert slow.begun.wait(PATIENCE)
        gate.valid.clear()
        slow.go.set()
        running.thread.join(PATIENCE)
    assert not running.thread.is_alive()
    assert isinstance(running.error, GnomonApiError)
    assert running.error.status == 401
    assert "GNOMON_CLIENT_ID" in str(running.error.advice)
    told = [record.getMessage() for record in caplog.records]
    assert any("is kept and reported again until its lease ends" in text and "GNOMON_TOKEN" in text for text in told)
    assert any("is lost, and its job's retries make another attempt" in text for text in told)
    assert not site.history(job)


def test_without_a_token_from_the_start_it_ends_at_once(site: Site, gate: Gate) -> None:
    gate.valid.clear()
    running = Running(site, lambda _payload, _run: 1, connect=lambda: site.client("good"))
    running.thread.start()
    running.thread.join(PATIENCE)
    assert isinstance(running.error, GnomonApiError)
    assert len(gate.refused) == 2  # it connected again, once


def test_what_is_stopped_while_it_has_no_token_says_what_is_lost(site: Site, gate: Gate, short_lease: None) -> None:
    job, slow = site.job(), Slow()
    running = Running(site, slow, connect=lambda: site.client("good"))
    running.thread.start()
    assert slow.begun.wait(PATIENCE)
    gate.valid.clear()
    running.worker.stop()
    slow.go.set()
    running.thread.join(PATIENCE)
    assert isinstance(running.error, UnreportedError)
    assert f"{job}-1800000000-0001" in str(running.error)


def test_what_is_stopped_while_it_has_no_token_still_reports_in_time(site: Site, gate: Gate) -> None:
    job, slow = site.job(), Slow()
    running = Running(site, slow, connect=lambda: site.client("good"))
    with running:
        assert slow.begun.wait(PATIENCE)
        gate.valid.clear()
        running.worker.stop()
        slow.go.set()
        until(lambda: [path for path in gate.refused if path.endswith("/complete")])
        gate.valid.add("good")
        assert site.ended(job).status == "COMPLETED"
    assert running.error is None


def test_a_stack_file_that_is_renewed_brings_the_worker_back(site: Site, gate: Gate) -> None:
    """Also long after the first 401, and with nothing held."""
    written = ["good"]
    tokens = RereadToken(lambda: written[0])
    with Running(site, lambda _payload, _run: 1, connect=lambda: site.client(tokens)) as running:
        until(lambda: running.worker.id)
        gate.valid.clear()
        until(lambda: [path for path in gate.refused if path.endswith("/poll")])
        time.sleep(0.3)
        assert running.thread.is_alive()
        written[0] = "new"
        gate.valid.add("new")
        assert site.ended(site.job()).status == "COMPLETED"


def test_a_connection_that_cannot_be_made_for_a_while_is_an_outage(site: Site, gate: Gate) -> None:
    """Users' code that fetches tokens of its own, and fails after the worker has begun."""
    broken, tried = threading.Event(), threading.Event()

    def connect() -> Any:
        if broken.is_set():
            tried.set()
            raise OSError("no vault")
        return site.client("good" if gate.valid == {"good"} else "new")

    job, slow = site.job(), Slow()
    with Running(site, slow, connect=connect):
        assert slow.begun.wait(PATIENCE)
        broken.set()
        gate.valid = {"new"}
        slow.go.set()
        assert tried.wait(PATIENCE)
        broken.clear()
        assert site.ended(job).status == "COMPLETED"


def test_a_role_that_is_taken_away_and_given_back_loses_no_result(site: Site, gate: Gate) -> None:
    forbidden = {"error": {"code": "FORBIDDEN", "message": "not yours", "details": [], "requestId": "r"}}
    gate.faults["/complete"] = [lambda _: httpx.Response(403, json=forbidden)] * 2
    job = site.job()
    with Running(site, lambda _payload, _run: 1, connect=lambda: site.client("good")):
        assert site.ended(job).status == "COMPLETED"


def unavailable(status: int) -> Callable[[httpx.Request], httpx.Response]:
    def answer(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, json={"message": "try again"})

    return answer


def lost(kind: type[httpx.TransportError]) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        raise kind("gone", request=request)

    return answer


FAULTS = {
    "401": unavailable(401),
    "429": unavailable(429),
    "500": unavailable(500),
    "503": unavailable(503),
    "refused connection": lost(httpx.ConnectError),
    "timeout": lost(httpx.ReadTimeout),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("route", ROUTES)
def test_whatever_happens_to_a_call_costs_no_attempt(site: Site, gate: Gate, route: str, fault: str) -> None:
    """Twice in a row, but for the first call of all, and for progress, of which one a second is sent."""
    job = site.job()
    gate.faults[route] = [FAULTS[fault]] * (1 if route in ("/v1/workers", "/progress") else 2)
    tokens = RereadToken(lambda: "good")

    def work(_payload: Any, run: Run) -> str:
        run.report_progress(50)
        until(lambda: not gate.faults["/heartbeat"] if route == "/heartbeat" else True)
        if route == "/fail":
            raise NonRetryable("on purpose")
        return "done"

    gate.faults.setdefault("/heartbeat", [])
    with Running(site, work, connect=lambda: site.client(tokens)) as running:
        ended = site.ended(job)

    assert not gate.faults[route]
    assert (ended.status, ended.attempt) == ("FAILED" if route == "/fail" else "COMPLETED", 1)
    assert ended.reason == ("NOT_RETRYABLE" if route == "/fail" else None)
    assert running.error is None
    assert len(site.history(job)) == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_draining_goes_on_until_the_api_has_heard(site: Site, gate: Gate, fault: str) -> None:
    gate.faults["/drain"] = [FAULTS[fault]]
    slow, job = Slow(), site.job()
    with Running(site, slow, connect=lambda: site.client(RereadToken(lambda: "good"))) as running:
        assert slow.begun.wait(PATIENCE)
        running.worker.stop()
        until(lambda: any(one.endswith("/drain") for one in site.requests))
        slow.go.set()
        assert site.ended(job).status == "COMPLETED"
    assert running.error is None


# --- with client credentials, over real HTTP ---


class Login:
    """A token endpoint whose tokens the gate takes until they are revoked."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.made = 0
        self.answer: Callable[[], httpx.Response] | None = None

    def __call__(self, _request: httpx.Request) -> httpx.Response:
        if self.answer is not None:
            return self.answer()
        self.made += 1
        token = f"token-{self.made}"
        self.gate.valid = {token}
        return httpx.Response(200, json={"access_token": token, "expires_in": 3600})


@pytest.fixture
def login(gate: Gate) -> Login:
    return Login(gate)


@pytest.fixture
def credentials(login: Login, loopback: None) -> Iterator[ClientCredentials]:
    with served(login) as url:
        yield ClientCredentials("id", "secret", f"{url}/oauth2/token", sleep=lambda _: time.sleep(0.01))


def test_client_credentials_outlive_every_token(
    site: Site, gate: Gate, login: Login, credentials: ClientCredentials
) -> None:
    """Revoked before each call of the worker in turn; the threads share what is new."""
    with Running(site, lambda _payload, run: run.report_progress(1), connect=lambda: site.client(credentials)) as one:
        for _ in range(5):
            job = site.job()
            gate.valid.clear()
            ended = site.ended(job)
            assert (ended.status, ended.attempt) == ("COMPLETED", 1)
    assert one.error is None
    assert login.made >= 5


def test_a_result_waits_for_the_token_endpoint(
    site: Site, gate: Gate, login: Login, credentials: ClientCredentials
) -> None:
    job, slow = site.job(), Slow()
    with Running(site, slow, connect=lambda: site.client(credentials)) as running:
        assert slow.begun.wait(PATIENCE)
        login.answer = lambda: httpx.Response(503)
        gate.valid.clear()
        slow.go.set()
        until(lambda: [path for path in gate.refused if path.endswith("/complete")])
        time.sleep(0.2)
        assert running.thread.is_alive()
        login.answer = None
        assert site.ended(job).status == "COMPLETED"


def test_credentials_that_are_taken_away_end_it_when_nothing_is_held(
    site: Site, gate: Gate, login: Login, credentials: ClientCredentials
) -> None:
    job, slow = site.job(), Slow()
    running = Running(site, slow, connect=lambda: site.client(credentials))
    running.thread.start()
    assert slow.begun.wait(PATIENCE)
    login.answer = lambda: httpx.Response(400, json={"error": "invalid_client"})
    until(lambda: len(running.worker._held) == 1)
    gate.valid.clear()
    time.sleep(0.1)
    assert running.thread.is_alive()
    login.answer = None
    slow.go.set()
    assert site.ended(job).status == "COMPLETED"
    until(lambda: not running.worker._held)
    login.answer = lambda: httpx.Response(400, json={"error": "invalid_client"})
    gate.valid.clear()
    running.thread.join(PATIENCE)
    assert isinstance(running.error, CredentialsError)
    assert "invalid_client" in str(running.error)
