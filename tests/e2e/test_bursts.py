"""Many requests at once."""

from __future__ import annotations

import contextlib
import math
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.e2e.mutants import begin_anew
from tests.e2e.stack import instant, job_body, problem, unique, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gnomon.client import Client
    from tests.e2e.stack import Api, Aws, Stack
    from tests.e2e.target import Endpoint

pytestmark = pytest.mark.e2e

LATE = 5
"""Seconds by which a run of a job that many change at once may start late, beyond what the machine makes of a job that
nobody changes; and within which it has ended."""


@pytest.fixture(autouse=True, scope="module")
def _no_processes_left(stack: Stack, aws: Aws) -> Iterator[None]:
    """The emulator starts a process for each request at once, and keeps it."""
    yield
    begin_anew(stack, aws, "api")


@pytest.mark.case(26)
def test_list_pages_and_filters(stack: Stack, api: Api, scheduler: Client) -> None:
    tag, kind = unique("tag"), unique("kind")
    bodies = [job_body(tags=[tag], type=kind if index % 10 == 0 else None) for index in range(30)]
    headers = {"Authorization": f"Bearer {stack.tokens['scheduler']}"}
    with (
        httpx.Client(base_url=stack.api_url, headers=headers, timeout=60, trust_env=False) as http,
        ThreadPoolExecutor(6) as threads,
    ):
        made = [answer.json()["id"] for answer in threads.map(lambda body: http.post("/v1/jobs", json=body), bodies)]

    pages, cursor = [], None
    while True:
        page = api.get(f"/v1/jobs?tag={tag}&limit=7" + (f"&cursor={cursor}" if cursor else "")).json()
        assert len(page["data"]) <= 7
        pages.append([job["id"] for job in page["data"]])
        cursor = page["pagination"].get("cursor")
        if not cursor:
            break
    ids = [job_id for page in pages for job_id in page]
    assert sorted(ids) == sorted(made)
    assert len(pages) >= 5

    assert len(list(scheduler.list_jobs(type_=kind))) == 3
    scheduler.pause_job(made[0])
    assert [job["id"] for job in scheduler.list_jobs(tag=tag, status="PAUSED")] == [made[0]]
    assert list(scheduler.list_jobs(tag=unique("none"))) == []
    problem(api.get("/v1/jobs?cursor=bm9uZQ"), 400, "VALIDATION_ERROR")
    first = api.get("/v1/jobs?limit=2").json()["pagination"]["cursor"]
    other = api.get(f"/v1/jobs?limit=100&cursor={first}", role="viewer")
    assert other.status_code == 400 or not {job["id"] for job in other.json()["data"]} & set(made)
    for job_id in made:
        scheduler.delete_job(job_id)


@pytest.mark.case(25)
def test_fifty_posts_with_one_key_make_one_job(stack: Stack, scheduler: Client) -> None:
    tag = unique("tag")
    body = job_body(tags=[tag])
    headers = {"Authorization": f"Bearer {stack.tokens['scheduler']}", "X-Idempotency-Key": unique("key")}
    limits = httpx.Limits(max_connections=50)
    with (
        httpx.Client(base_url=stack.api_url, headers=headers, timeout=90, trust_env=False, limits=limits) as http,
        ThreadPoolExecutor(50) as threads,
    ):
        # The emulator starts a process for each: not all of them at once, on two cores that takes too long.
        for count in (10, 20, 30, 40, 50):
            list(threads.map(lambda _: http.get("/health"), range(count)))
        answers = list(threads.map(lambda _: http.post("/v1/jobs", json=body), range(50)))
    assert {answer.status_code for answer in answers} == {201}
    (job_id,) = {answer.json()["id"] for answer in answers}
    assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
    assert [job["id"] for job in scheduler.list_jobs(tag=tag)] == [job_id]
    scheduler.delete_job(job_id)


@contextlib.contextmanager
def _warm(stack: Stack, clients: int) -> Iterator[Callable[[str, list[dict[str, Any]]], list[httpx.Response]]]:
    """Puts bodies, so many at a time. The emulator starts a process for each request at once: here, before."""
    headers = {"Authorization": f"Bearer {stack.tokens['scheduler']}"}
    with (
        httpx.Client(base_url=stack.api_url, headers=headers, timeout=60, trust_env=False) as http,
        ThreadPoolExecutor(clients) as threads,
    ):
        for count in (clients // 2, clients):
            list(threads.map(lambda _: http.get("/health"), range(count)))
        yield lambda job_id, bodies: list(threads.map(lambda body: http.put(f"/v1/jobs/{job_id}", json=body), bodies))


def _lateness(scheduler: Client, endpoint: Endpoint, job_id: str, first: float, last: float) -> float:
    """Of the slots from `first` to `last`, each of which must have been run, once, and soon have ended: the most."""
    slots = range(math.ceil(first), int(last) + 1)

    def ended() -> dict[float, Any]:
        entries = [one for one in scheduler.history(job_id) if one["status"] != "RUNNING"]
        return {instant(one["scheduledFor"]): one for one in entries}

    until(lambda: ended().keys() >= set(slots), seconds=4 * LATE, every=0.5, hint=f"each of {slots} has ended")
    history = ended()
    assert {slot: history[slot]["status"] for slot in slots} == dict.fromkeys(slots, "COMPLETED")
    took = {slot: instant(history[slot]["completedAt"]) - instant(history[slot]["startedAt"]) for slot in slots}
    assert max(took.values()) <= LATE
    called = [instant(call.headers["gnomon-scheduled-for"]) for call in endpoint.calls(job_id)]
    assert sorted(slot for slot in called if first <= slot <= last) == list(slots)
    return max(instant(history[slot]["startedAt"]) - slot for slot in slots)


def _equal(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [body] * 100


def _different(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**body, "tags": [f"n{number}"]} for number in range(100)]


def _deployed(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**body, "tags": ["deployed"]}] * 48


BURSTS = [
    pytest.param(_equal, 8, {200}, 0, id="100 equal PUTs"),
    pytest.param(_deployed, 12, {200}, 1, id="48 clients that PUT the same new definition"),
    # A caller's change gives way after five lost races.
    pytest.param(_different, 8, {200, 503}, 100, id="100 PUTs that all change something"),
]


@pytest.mark.parametrize(("bodies", "clients", "statuses", "changes"), BURSTS)
def test_a_job_of_every_second_runs_each_time_while_many_change_it(
    stack: Stack,
    scheduler: Client,
    endpoint: Endpoint,
    create: Callable[..., dict[str, Any]],
    bodies: Callable[[dict[str, Any]], list[dict[str, Any]]],
    clients: int,
    statuses: set[int],
    changes: int,
) -> None:
    schedule = {"type": "interval", "everySeconds": 1}
    # On a busy machine a run may take a second, and every slot is to run all the same.
    body = job_body(schedule=schedule, target=endpoint.target(), overlapPolicy="allow")
    job, control = create(**body), create(**body)
    until(lambda: endpoint.calls(job["id"]) and endpoint.calls(control["id"]), seconds=10, hint="both run")
    with _warm(stack, clients) as put_all:
        began = time.time()
        answers = put_all(job["id"], bodies(body))
        over = time.time()
    print(f"{len(answers)} PUTs in {over - began:.1f} s")
    assert {answer.status_code for answer in answers} <= statuses
    applied = [answer.json()["revision"] for answer in answers if answer.status_code == 200]
    assert applied
    assert max(applied) - job["revision"] <= changes
    assert scheduler.get_job(job["id"])["revision"] == max(applied)
    late, machine = (_lateness(scheduler, endpoint, one["id"], began, over + 3) for one in (job, control))
    print(f"at most {late:.3f} s late; a job beside it that nobody changes {machine:.3f} s")
    assert late <= machine + LATE
