"""The emulator is stopped in the middle of everything and started again with its state: docs/architecture.md's promise
holds beyond the outage."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from functions.domain import job, lease
from gnomon.client import Client
from gnomon.local import emulator
from gnomon.local.places import Place, at
from tests.e2e.stack import Aws, Stack, bring_up, instant, job_body, once, until
from tests.e2e.target import Endpoint

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(420)]

PORTS = range(4640, 4650)
TICK = 60
"""Seconds between two sweeps."""
HINT_LOST = job.HINT_SLACK + TICK
"""Seconds after its due instant within which a run starts although nobody was told (the crash table)."""
OWNER_LOST = lease.LEASE_MARGIN + lease.LEASE_GRACE + TICK
"""Seconds beyond an attempt's timeout, from its start, within which it is repaired when its owner died."""
GRACE = 15
"""Seconds for the sweep's own way: the emulator's schedules tick every ten."""
OUTAGE = 8
"""Seconds during which nothing runs."""
INTERVAL = 15
TIMEOUT = 5
HELD = {"retryConfig": {"maxRetries": 3, "initialDelaySeconds": 15, "backoffStrategy": "fixed", "jitter": 0}}


@dataclass(frozen=True)
class Outage:
    """What was there before, and when it was away."""

    jobs: dict[str, str]
    """Ids by what became of each at the stop."""
    before: dict[str, dict[str, Any]]
    """The jobs as they were just before the stop."""
    schedules: set[str]
    """Names in EventBridge Scheduler before the stop."""
    stopped: float
    started: float
    """Epoch seconds at which all was ready again."""
    stack: Stack


@contextmanager
def _client(of: Stack) -> Iterator[Client]:
    with Client(of.api_url, of.tokens["scheduler"]) as client:
        yield client


def _schedules(aws: Aws) -> set[str]:
    return {each["Name"] for each in aws.scheduler.list_schedules()["Schedules"]}


def _free_place() -> Place:
    for port in PORTS:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0 and emulator.find(at(port)) is None:
                return at(port)
    raise AssertionError(f"no port of {PORTS} is free")


@pytest.fixture(scope="module")
def outage(endpoint: Endpoint) -> Iterator[Outage]:
    where = _free_place()
    try:
        bring_up(where, persist=True)
        yield _interrupted(where, endpoint)
    finally:
        emulator.remove(where)


def _interrupted(where: Place, endpoint: Endpoint) -> Outage:
    before = Stack.read(where)
    with _client(before) as client:

        def create(**changes: Any) -> str:
            return client.create_job(job_body(timeoutSeconds=TIMEOUT, **changes))["id"]

        jobs = {
            "far": create(schedule=once(3600), target=endpoint.target()),
            "repeated": create(schedule={"type": "interval", "everySeconds": INTERVAL}, target=endpoint.target()),
            "retrying": create(schedule=once(0), target=endpoint.target("503-200"), **HELD),
        }
        until(lambda: client.get_job(jobs["retrying"])["status"] == "RETRYING", seconds=30, hint="the first failure")
        until(lambda: endpoint.calls(jobs["repeated"]), seconds=40, hint="the first slot of the interval")
        jobs["due in the outage"] = create(schedule=once(6), target=endpoint.target())
        jobs["due later"] = create(schedule=once(75), target=endpoint.target())
        jobs["running"] = create(schedule=once(0), target=endpoint.target("hang-200"))
        until(lambda: endpoint.calls(jobs["running"]), seconds=30, every=0.05, hint="the call that hangs")
        seen = {name: dict(client.get_job(job_id)) for name, job_id in jobs.items()}
    schedules = _schedules(Aws(before))
    stopped = time.time()
    assert emulator.stop(where)
    time.sleep(OUTAGE)
    bring_up(where, persist=True)
    return Outage(jobs, seen, schedules, stopped, time.time(), Stack.read(where))


def _completed(outage: Outage, name: str, latest: float) -> list[dict[str, Any]]:
    """The attempts of a job that has completed by `latest`, oldest first."""
    job_id = outage.jobs[name]
    with _client(outage.stack) as client:
        until(
            lambda: client.get_job(job_id)["status"] == "COMPLETED",
            seconds=max(1.0, latest - time.time()),
            every=1,
            hint=f"{name} completes",
        )
        return [dict(each) for each in reversed(list(client.history(job_id)))]


def test_the_stop_was_in_the_middle(outage: Outage) -> None:
    states = {name: shown["status"] for name, shown in outage.before.items()}
    assert states | {"repeated": ""} == {
        "far": "SCHEDULED",
        "repeated": "",
        "retrying": "RETRYING",
        "due in the outage": "SCHEDULED",
        "due later": "SCHEDULED",
        "running": "RUNNING",
    }
    assert outage.started - outage.stopped >= OUTAGE


@pytest.mark.parametrize("name", ["due in the outage", "due later"])
def test_scheduled_jobs_run(outage: Outage, endpoint: Endpoint, name: str) -> None:
    due = instant(outage.before[name]["nextRunAt"])
    latest = max(due, outage.started) + HINT_LOST + GRACE
    (attempt,) = _completed(outage, name, latest)
    assert due <= instant(attempt["startedAt"]) <= latest
    assert len(endpoint.calls(outage.jobs[name])) == 1


def test_a_waiting_retry_is_made(outage: Outage, endpoint: Endpoint) -> None:
    latest = max(outage.stopped + 15, outage.started) + HINT_LOST + GRACE
    first, second = _completed(outage, "retrying", latest)
    assert (first["status"], second["status"]) == ("FAILED", "COMPLETED")
    assert instant(first["nextRetryAt"]) <= instant(second["startedAt"]) <= latest
    assert len(endpoint.calls(outage.jobs["retrying"])) == 2


def test_a_running_attempt_is_lost_and_repeated(outage: Outage, endpoint: Endpoint) -> None:
    began = outage.before["running"]
    latest = max(outage.stopped + TIMEOUT + OWNER_LOST, outage.started + TICK) + GRACE
    first, second = _completed(outage, "running", latest)
    assert began["status"] == "RUNNING"
    assert (first["status"], first["error"]["code"]) == ("FAILED", "WORKER_LOST")
    assert (second["attempt"], second["status"]) == (2, "COMPLETED")
    assert second["fence"] > first["fence"]
    assert instant(second["startedAt"]) <= latest
    assert [call.headers["gnomon-attempt"] for call in endpoint.calls(outage.jobs["running"])] == ["1", "2"]


def test_no_slot_of_an_interval_is_lost_or_run_twice(outage: Outage) -> None:
    job_id = outage.jobs["repeated"]
    until_slot = outage.started + 2 * INTERVAL
    with _client(outage.stack) as client:
        until(
            lambda: instant(client.get_job(job_id)["nextRunAt"]) > until_slot,
            seconds=max(1.0, outage.started + HINT_LOST + 2 * INTERVAL + GRACE - time.time()),
            every=1,
            hint="the interval goes on",
        )
        history = [dict(each) for each in client.history(job_id)]
    slots: list[float] = []
    for each in history:
        if each["status"] == "SKIPPED":
            first, last = instant(each["from"]), instant(each["to"])
            slots += [first + INTERVAL * step for step in range(int((last - first) / INTERVAL) + 1)]
        elif each["attempt"] == 1:
            slots.append(instant(each["scheduledFor"]))
    slots.sort()
    assert slots == [slots[0] + INTERVAL * step for step in range(len(slots))]
    assert slots[0] <= outage.stopped < outage.started <= slots[-1]


def test_schedules_are_still_there(outage: Outage) -> None:
    assert len(outage.schedules) >= 2, "the sweep's, and that of the job due in an hour"
    assert outage.schedules <= _schedules(Aws(outage.stack))
