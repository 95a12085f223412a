"""What holds starts back on the stack: circuits of targets, limits of keys and types, queues of priorities."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from gnomon.client import Client
from tests.e2e.stack import Api, instant, job_body, once, problem, unique, until
from tests.e2e.target import Endpoint
from tests.receiver import Exchange, receiving

pytestmark = pytest.mark.e2e

QUICK = {"maxRetries": 20, "initialDelaySeconds": 1, "backoffStrategy": "fixed", "jitter": 0}
NONE = {"maxRetries": 0}
BREAKER = {"failureThreshold": 5, "openSeconds": 30, "successThreshold": 1}
Create = Callable[..., dict[str, Any]]


@pytest.fixture
def target() -> Iterator[Endpoint]:
    """One of the test's own: its port is its circuit."""
    with Endpoint().listening() as endpoint:
        yield endpoint


def target_name(endpoint: Endpoint) -> str:
    return f"http:127.0.0.1:{urlsplit(endpoint.url()).port}"


def circuit(client: Client, endpoint: Endpoint) -> dict[str, Any] | None:
    """The caller's own."""
    return next((dict(each) for each in client.list_circuits() if each["target"] == target_name(endpoint)), None)


def breaks(admin: Client, **thresholds: int) -> str:
    """A job type whose jobs have circuits with these thresholds."""
    kind = unique("breaks")
    admin.put_retry_config(kind, {"circuitBreaker": thresholds})
    return kind


def all_of(client: Client, ids: list[str], *, seconds: float) -> None:
    """Waits until all of these jobs are completed."""
    left = set(ids)

    def rest() -> bool:
        left.difference_update([each for each in left if client.get_job(each)["status"] == "COMPLETED"])
        return not left

    until(rest, seconds=seconds, every=1, hint=f"{len(left)} of {len(ids)} are not completed")


@pytest.mark.timeout(300)
def test_five_failures_open_the_circuit_and_one_probe_closes_it(
    scheduler: Client, admin: Client, create: Create, target: Endpoint
) -> None:
    kind = breaks(admin, **BREAKER)
    failing = create(schedule=once(0), target=target.target("503-503-503-503-503-sleep"), retryConfig=QUICK, type=kind)
    opened = until(
        lambda: (found := circuit(scheduler, target)) and found["state"] == "OPEN" and found,
        seconds=30,
        hint="the circuit opens",
    )
    assert opened["failures"] == 5
    held_back = {"target": target.target("sleep"), "retryConfig": QUICK, "type": kind}
    with ThreadPoolExecutor(5) as threads:  # all of them before the opening is over
        waiting = list(threads.map(lambda _: create(schedule=once(0), **held_back)["id"], range(20)))
    ids = [failing["id"], *waiting]

    def held() -> bool:
        rows = [next(iter(scheduler.history(each)), None) for each in waiting]
        return all(row and (row["status"], row["reason"]) == ("QUEUED", "CIRCUIT_OPEN") for row in rows)

    until(held, seconds=18, hint="all twenty wait for the circuit, and say so")
    assert sum(len(target.calls(each)) for each in ids) == 5, "the receiver's count stays five"

    all_of(scheduler, ids, seconds=180)
    calls = sorted(call.at for each in ids for call in target.calls(each))
    assert len(calls) == 5 + 21
    over = instant(opened["openUntil"])
    assert calls[5] >= over - 0.5, "nobody calls while it is open"
    assert calls[6] >= calls[5] + 3, "one probe goes out, the others wait for its answer"
    closed = circuit(scheduler, target)
    assert closed is not None
    assert (closed["state"], closed["failures"], closed["openUntil"]) == ("CLOSED", 0, None)
    row = next(iter(scheduler.history(waiting[0])))
    assert (row["attempt"], row["status"], row["deferredFor"]) == (1, "COMPLETED", "CIRCUIT_OPEN")
    assert row["deferrals"] >= 1


def test_a_circuit_is_its_owners_who_resets_it(
    scheduler: Client, admin: Client, viewer: Client, api: Api, create: Create, target: Endpoint
) -> None:
    kind = breaks(admin, failureThreshold=1, openSeconds=3600)
    create(schedule=once(0), target=target.target("503"), retryConfig=NONE, type=kind)
    opened = until(
        lambda: (found := circuit(scheduler, target)) and found["state"] == "OPEN" and found,
        seconds=20,
        hint="the circuit opens",
    )
    key, path = opened["key"], f"/v1/circuits/{quote(opened['key'], safe='')}"
    assert (opened["jobType"], key) == (kind, f"{target_name(target)}~{kind}@{opened['owner']}")

    others = admin.create_job(job_body(schedule=once(0), target=target.target(), retryConfig=NONE, type=kind))
    all_of(admin, [others["id"]], seconds=20)
    assert circuit(scheduler, target) == opened, "another owner's job neither asks nor tells it"
    assert circuit(viewer, target) is None
    assert key in {each["key"] for each in admin.list_circuits(owner="*")}
    problem(api.call("GET", path, role="viewer"), 404, "NOT_FOUND")
    problem(api.call("POST", f"{path}/reset", role="viewer"), 404, "NOT_FOUND")

    assert scheduler.reset_circuit(key)["state"] == "CLOSED"
    again = create(schedule=once(0), target=target.target(), type=kind)
    all_of(scheduler, [again["id"]], seconds=20)
    problem(api.call("POST", f"/v1/circuits/{unique('handler:none')}/reset", role="admin"), 404, "NOT_FOUND")
    problem(
        api.call("GET", f"/v1/circuits/{quote('handler:echo@' + '😀' * 320, safe='')}", role="admin"), 404, "NOT_FOUND"
    )
    problem(api.call("GET", f"/v1/circuits?owner={'x' * 3000}", role="admin"), 400, "VALIDATION_ERROR")


def test_attempts_of_the_state_machine_tell_the_circuit_and_ask_it(
    scheduler: Client, admin: Client, create: Create, target: Endpoint
) -> None:
    kind = breaks(admin, failureThreshold=2, openSeconds=3600)
    job = create(schedule=once(0), target=target.target("503"), orchestrated=True, retryConfig=QUICK, type=kind)
    until(lambda: (circuit(scheduler, target) or {}).get("state") == "OPEN", seconds=40, hint="the circuit opens")
    waits = until(
        lambda: next((row for row in scheduler.history(job["id"]) if row["reason"] == "CIRCUIT_OPEN"), None),
        seconds=20,
        hint="the third attempt waits",
    )
    assert (waits["attempt"], waits["status"]) == (3, "QUEUED")
    assert len(target.calls(job["id"])) == 2


class Crowd:
    """A target that takes a while, and counts how many call it at the same time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.most = self.calls = self._now = 0
        self._lock = threading.Lock()
        self.port = 0

    @contextlib.contextmanager
    def listening(self) -> Iterator[Crowd]:
        with receiving(self._respond) as receiver:
            self.port = receiver.port
            yield self

    @property
    def target(self) -> dict[str, str]:
        return {"type": "http", "url": f"http://127.0.0.1:{self.port}/"}

    def _respond(self, exchange: Exchange) -> None:
        with self._lock:
            self.calls += 1
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(self.seconds)
        with self._lock:
            self._now -= 1
        with contextlib.suppress(OSError):
            exchange.answer(200, b"{}")


def create_many(client: Client, count: int, **body: Any) -> list[str]:
    with ThreadPoolExecutor(6) as threads:
        made = threads.map(lambda _: client.create_job(job_body(schedule=once(4), **body)), range(count))
        return [job["id"] for job in made]


@pytest.mark.timeout(240)
def test_fifty_runs_of_a_key_never_show_four_at_once_and_all_finish(scheduler: Client) -> None:
    with Crowd(0.4).listening() as crowd:
        key = unique("database")
        ids = create_many(scheduler, 50, target=crowd.target, concurrencyKey=key, maxConcurrency=3)
        all_of(scheduler, ids, seconds=180)
    assert crowd.calls == 50
    assert crowd.most in (2, 3), "never four; three wherever the machine has room for them"
    row = [each for job in ids for each in scheduler.history(job)]
    assert {each["status"] for each in row} == {"COMPLETED"}
    # Fifty at once are more than an owner's share of the executor, too.
    assert {each["deferredFor"] for each in row} - {"OWNER_LIMIT"} == {None, "CONCURRENCY_LIMIT"}
    for job in ids:
        scheduler.delete_job(job)


@pytest.mark.timeout(120)
def test_a_job_type_bounds_all_its_jobs(scheduler: Client, admin: Client) -> None:
    kind = unique("report")
    admin.put_retry_config(kind, {"maxConcurrency": 2})
    with Crowd(0.5).listening() as crowd:
        ids = create_many(scheduler, 12, target=crowd.target, type=kind)
        all_of(scheduler, ids, seconds=90)
    assert crowd.calls == 12
    assert crowd.most <= 2
    admin.delete_retry_config(kind)
    for job in ids:
        scheduler.delete_job(job)


@pytest.mark.on_time
def test_a_high_run_starts_while_the_low_queue_is_full(scheduler: Client, create: Create, target: Endpoint) -> None:
    with Crowd(4).listening() as crowd:
        low = create_many(scheduler, 60, target=crowd.target, priority="low", timeoutSeconds=30)
        until(lambda: crowd.calls >= 1, seconds=30, hint="low runs have started")
        high = create(schedule=once(0), target=target.target(), priority="high")
        [call] = until(lambda: target.calls(high["id"]), seconds=15, hint="the high run starts")
        assert call.at - instant(high["schedule"]["at"]) < 5
        for job in low:
            scheduler.delete_job(job)
