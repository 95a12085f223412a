"""Functions' processes are ended by SIGKILL at named points: what follows is what docs/architecture.md's crash table
promises. The executor that waits for its target is test_repairs.test_killed_process_loses_no_run."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest

from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.domain import job, lease, path, visit
from functions.domain.ids import new_write_id
from gnomon.client import Client
from tests.e2e.processes import kill, processes_of
from tests.e2e.stack import Api, Aws, Stack, instant, job_body, once, unique, until
from tests.e2e.target import Endpoint

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(240)]

TICK = 60
"""Seconds between two sweeps."""
GRACE = 15
"""Seconds for the sweep's own way: the emulator's schedules tick every ten."""
HINT_LOST = job.HINT_SLACK + TICK + GRACE
"""Seconds after its due instant within which a run starts although nobody was told."""
SWEEP_LOST = visit.WAKE_BACKOFF + TICK + GRACE
"""Seconds after a sweep's death within which a job is woken that it had marked as woken."""
LEASE = lease.LEASE_MARGIN
CALL = path.DIRECT_SECONDS
"""Seconds that a call of a callback attempt may take."""
REPAIRED = 120
"""Seconds after the lease within which a lost run is repeated and has ended."""
QUICK = {"maxRetries": 3, "initialDelaySeconds": 1, "backoffStrategy": "fixed", "jitter": 0}
FILES = 30_000
SHORT = 20
PATIENCE = 6
"""Seconds: the timeout of the short jobs, each of which takes three."""
OVERDUE = 40
ITEMS = 100
SWEEPERS = 8
"""Jobs that a sweep looks at at the same time."""


@dataclass(frozen=True)
class Rows:
    """The rows of jobs whose names begin with a mark, as the table has them."""

    aws: Aws
    table: str

    def rows(self, mark: str) -> dict[str, dict[str, Any]]:
        """By the jobs' names."""
        pages = self.aws.dynamodb.get_paginator("scan").paginate(
            TableName=self.table,
            FilterExpression="contains(d, :mark)",
            ExpressionAttributeValues={":mark": {"S": mark}},
            ConsistentRead=True,
        )
        return {json.loads(row["d"]["S"])["name"]: row for page in pages for row in page["Items"]}


@dataclass(frozen=True)
class CutSweep:
    ids: list[str]
    woken: int
    """Jobs that the killed sweep had woken."""
    error: str | None
    """Of the killed invocation."""
    killed: float
    """Epoch seconds."""


@dataclass(frozen=True)
class CutBulk:
    made: dict[str, str]
    """Ids of the jobs that were there after the kill, by their names."""
    first_status: int
    bodies: list[dict[str, Any]]
    answer: dict[str, Any]
    """Of the repeat."""


@dataclass(frozen=True)
class KilledExecutors:
    ids: list[str]
    callback: str
    """Of a job whose target was being called: it would have had two hours to report."""
    waiting: str
    """Of a job that waits for the same concurrency key."""
    killed: float
    """Epoch seconds."""


@pytest.fixture(scope="module")
def rows(stack: Stack, aws: Aws) -> Rows:
    return Rows(aws, stack.outputs["JobsTable"])


@pytest.fixture(scope="module")
def cut_sweep(
    stack: Stack, aws: Aws, api: Api, endpoint: Endpoint, scheduler: Client, rows: Rows
) -> Iterator[CutSweep]:
    cut = _cut_sweep(stack, aws, api, endpoint, rows)
    yield cut
    _delete(scheduler, cut.ids)


@pytest.fixture(scope="module")
def killed_executors(stack: Stack, api: Api, endpoint: Endpoint, scheduler: Client) -> Iterator[KilledExecutors]:
    killed = _kill_executors(stack, api, endpoint)
    yield killed
    _delete(scheduler, [*killed.ids, killed.callback, killed.waiting])


@pytest.fixture(scope="module")
def cut_bulks(
    stack: Stack, api: Api, endpoint: Endpoint, scheduler: Client, rows: Rows
) -> Iterator[dict[int, CutBulk]]:
    """By the number of rows there were when the process was killed."""
    bulks = {count: _cut_bulk(stack, api, endpoint, rows, count) for count in (1, ITEMS // 4)}
    yield bulks
    for bulk in bulks.values():
        _delete(scheduler, [item["job"]["id"] for item in bulk.answer["data"]])


def _delete(client: Client, ids: list[str]) -> None:
    for job_id in ids:
        client.delete_job(job_id)


def _bulk(api: Api, bodies: list[dict[str, Any]]) -> list[str]:
    answer = api.post("/v1/jobs/bulk", {"items": bodies})
    assert answer.status_code == 200, answer.text[:500]
    return [item["job"]["id"] for item in answer.json()["data"]]


def _overdue_jobs(aws: Aws, api: Api, endpoint: Endpoint, rows: Rows) -> tuple[str, list[str]]:
    """Jobs whose slot is now and whose hint nobody sent: what their names begin with, and their ids."""
    mark = unique("swept")
    ids = _bulk(api, [job_body(name=f"{mark}-{n}", target=endpoint.target()) for n in range(OVERDUE)])
    table = DynamoDbJobs(aws.dynamodb, rows.table)

    def overdue(job_id: str) -> None:
        read = table.get(job_id)
        assert read is not None
        now = int(time.time())
        table.save(read, replace(read, next_slot=now, write_id=new_write_id(), attention_at=now))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(overdue, ids))
    time.sleep(1)
    return mark, ids


def _woken(rows: Rows, mark: str) -> int:
    return sum("wk" in row or "lr" in row or "runs" in row for row in rows.rows(mark).values())


def _cut_sweep(stack: Stack, aws: Aws, api: Api, endpoint: Endpoint, rows: Rows) -> CutSweep:
    """Jobs that are overdue and nobody was told of: the sweep dies having woken some, and is invoked again."""
    name = stack.outputs["SweepFunction"]
    mark, ids = _overdue_jobs(aws, api, endpoint, rows)
    if _woken(rows, mark):  # the sweep's own minute came first; the next is a minute away
        mark, ids = _overdue_jobs(aws, api, endpoint, rows)

    def woken() -> int:
        return _woken(rows, mark)

    with ThreadPoolExecutor(1) as threads:
        pids = processes_of(name, of=stack.place)
        tick = threads.submit(aws.functions.invoke, FunctionName=name, Payload=b"{}")
        until(lambda: woken() >= 5, seconds=20, every=0.005, hint="the sweep is in the middle")
        kill(pids)
        killed = time.time()
        error = tick.result().get("FunctionError")
    seen = woken()
    aws.functions.invoke(FunctionName=name, Payload=b"{}")
    # The others' runs are over before the executors are killed.
    until(
        lambda: sum("lr" in row for row in rows.rows(mark).values()) >= OVERDUE - 2 * SWEEPERS,
        seconds=40,
        hint="the second sweep wakes the others",
    )
    time.sleep(1)
    return CutSweep(ids, seen, error, killed)


def _kill_executors(stack: Stack, api: Api, endpoint: Endpoint) -> KilledExecutors:
    bodies = [
        job_body(schedule=once(0), target=endpoint.target("sleep-200"), timeoutSeconds=PATIENCE) for _ in range(SHORT)
    ]
    late = {
        "completion": "callback",
        "timeoutSeconds": 7_200,
        "retryConfig": QUICK,
        "concurrencyKey": unique("key"),
        "maxConcurrency": 1,
    }
    callback, *ids = _bulk(api, [job_body(schedule=once(0), target=endpoint.target("hang-202"), **late), *bodies])
    until(lambda: endpoint.calls(callback), seconds=30, every=0.05, hint="the callback's target is called")
    until(lambda: sum(bool(endpoint.calls(one)) for one in ids) >= SHORT // 4, seconds=30, every=0.05, hint="they run")
    kill(processes_of(stack.outputs["ExecutorFunction"], of=stack.place))
    killed = time.time()
    [waiting] = _bulk(api, [job_body(schedule=once(0), target=endpoint.target("202"), **late)])
    return KilledExecutors(ids, callback, waiting, killed)


def _cut_bulk(stack: Stack, api: Api, endpoint: Endpoint, rows: Rows, count: int) -> CutBulk:
    """The API's processes die once `count` of the jobs are in the table; the caller repeats the request."""
    mark, key = unique("bulk"), {"X-Idempotency-Key": unique("key")}
    bodies = [job_body(name=f"{mark}-{n}", schedule=once(3), target=endpoint.target()) for n in range(ITEMS)]
    pids = processes_of(stack.outputs["ApiFunction"], of=stack.place)
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(api.post, "/v1/jobs/bulk", {"items": bodies}, headers=key)
        until(lambda: len(rows.rows(mark)) >= count, seconds=20, every=0.005, hint="jobs are being made")
        kill(pids)
        status = first.result().status_code
    made = {name: row["jobId"]["S"] for name, row in rows.rows(mark).items()}
    repeat = api.post("/v1/jobs/bulk", {"items": bodies}, headers=key)
    assert repeat.status_code == 200, repeat.text[:500]
    return CutBulk(made, status, bodies, repeat.json())


def _all_completed(client: Client, ids: list[str], latest: float) -> dict[str, list[dict[str, Any]]]:
    """The attempts of each, oldest first, once the run of all has completed; it must by `latest`."""
    left = set(ids)

    def done() -> bool:
        last = {one: client.get_job(one)["lastRun"] for one in left}
        left.difference_update([one for one, run in last.items() if run and run["outcome"] == "COMPLETED"])
        return not left

    until(done, seconds=max(1.0, latest - time.time()), every=1, hint=f"{len(ids)} jobs complete")
    return {one: [dict(each) for each in reversed(list(client.history(one)))] for one in ids}


def test_killed_handler_is_run_again(stack: Stack, scheduler: Client, create: Callable[..., dict[str, Any]]) -> None:
    scratch = stack.place.directory / "tmp" / unique("expire")
    scratch.mkdir()
    try:
        for n in range(FILES):
            (scratch / str(n)).touch()
        first = next(scratch.iterdir())
        made = create(
            schedule=once(0),
            target={"type": "handler", "name": "expire-files"},
            payload={"directory": scratch.name, "olderThanSeconds": 0},
            retryConfig=QUICK,
        )
        until(lambda: not first.exists(), seconds=20, every=0.001, hint="the handler works")
        kill(processes_of(stack.outputs["JobsFunction"], of=stack.place))  # the process may have started just now
        left = len(list(scratch.iterdir()))
        attempts = _all_completed(scheduler, [made["id"]], time.time() + 40)[made["id"]]
        assert 0 < left < FILES, "the kill was not in the middle"
        assert [(each["attempt"], each["status"]) for each in attempts] == [(1, "FAILED"), (2, "COMPLETED")]
        assert attempts[0]["error"]["code"].startswith("HANDLER_ERROR:")
        assert attempts[0]["nextRetryAt"]
        assert attempts[1]["result"] == {"removed": left, "kept": 0}
        assert not list(scratch.iterdir())
    finally:
        shutil.rmtree(scratch)


@pytest.mark.parametrize("count", [1, ITEMS // 4])
# All is killed before the first look at what became of it, so that the waiting for the sweep is one.
@pytest.mark.usefixtures("cut_sweep", "killed_executors")
def test_bulk_request_is_finished_by_its_repeat(
    cut_bulks: dict[int, CutBulk], scheduler: Client, endpoint: Endpoint, count: int
) -> None:
    bulk = cut_bulks[count]
    assert bulk.first_status >= 500
    assert count <= len(bulk.made) < ITEMS, "the kill was not in the middle"
    jobs = [item["job"] for item in bulk.answer["data"]]
    assert [each["name"] for each in jobs] == [each["name"] for each in bulk.bodies]
    by_name = {each["name"]: each["id"] for each in jobs}
    assert bulk.made.items() <= by_name.items()
    assert len(set(by_name.values())) == ITEMS
    mark = bulk.bodies[0]["name"].rpartition("-")[0]
    listed = [each["id"] for each in scheduler.list_jobs() if each["name"].rpartition("-")[0] == mark]
    assert sorted(listed) == sorted(by_name.values())
    due = max(instant(each["schedule"]["at"]) for each in bulk.bodies)
    histories = _all_completed(scheduler, listed, due + HINT_LOST)
    for job_id, attempts in histories.items():
        assert [(each["attempt"], each["status"]) for each in attempts] == [(1, "COMPLETED")]
        assert len(endpoint.calls(job_id)) == 1


def test_all_executors_killed(killed_executors: KilledExecutors, scheduler: Client, endpoint: Endpoint) -> None:
    latest = killed_executors.killed + PATIENCE + LEASE + REPAIRED
    histories = _all_completed(scheduler, killed_executors.ids, latest)
    lost = 0
    for job_id, attempts in histories.items():
        assert [each["attempt"] for each in attempts] == list(range(1, len(attempts) + 1))
        *failed, last = attempts
        assert (last["status"], last["final"]) == ("COMPLETED", True)
        assert instant(last["completedAt"]) <= latest
        assert {each["error"]["code"] for each in failed} <= {"WORKER_LOST"}
        lost += len(failed)
        called = [int(call.headers["gnomon-attempt"]) for call in endpoint.calls(job_id)]
        assert sorted(set(called)) == called, "an attempt called twice"
        assert set(called) <= {each["attempt"] for each in attempts}
    assert lost >= SHORT // 4, "the kill was not in the middle"


def test_sweep_killed_in_the_middle_of_a_tick(cut_sweep: CutSweep, scheduler: Client, endpoint: Endpoint) -> None:
    cut = cut_sweep
    assert cut.error is not None
    assert 5 <= cut.woken < OVERDUE, "the kill was not in the middle"
    histories = _all_completed(scheduler, cut.ids, cut.killed + SWEEP_LOST)
    for job_id, attempts in histories.items():
        assert [(each["attempt"], each["status"]) for each in attempts] == [(1, "COMPLETED")]
        assert len(endpoint.calls(job_id)) == 1


def test_a_callback_whose_call_was_killed_is_repeated_soon(
    killed_executors: KilledExecutors, scheduler: Client, aws: Aws, stack: Stack, api: Api, endpoint: Endpoint
) -> None:
    """Its timeout is two hours, but its lease is that of its call: neither it nor its key waits for longer.

    The lost attempt's permit goes to the run that waits for it or to the repeat: reports are sent in the order of the
    calls.
    """
    killed = killed_executors
    lost_from = killed.killed + CALL + LEASE - GRACE
    latest = killed.killed + CALL + LEASE + REPAIRED
    left = {killed.callback: 2, killed.waiting: 1}

    def report_what_is_called() -> bool:
        for job_id, attempt in list(left.items()):
            calls = endpoint.calls(job_id)
            if len(calls) >= attempt:
                headers = calls[attempt - 1].headers
                path = f"/v1/executions/{headers['gnomon-run-id']}-{attempt:04d}/complete"
                assert api.post(path, {"token": headers["gnomon-callback-token"]}).status_code == 200
                del left[job_id]
        return not left

    def swept() -> bool:
        """The sweep's own minute may be most of one away: it is asked to come as soon as there is something to do."""
        if time.time() > lost_from and len(left) == 2:
            aws.functions.invoke(FunctionName=stack.outputs["SweepFunction"], Payload=b"{}")
        return report_what_is_called()

    until(swept, seconds=max(1.0, latest - time.time()), every=1, hint=f"these attempts are called: {left}")
    histories = _all_completed(scheduler, [killed.callback, killed.waiting], latest)
    lost, done = histories[killed.callback]
    assert (lost["error"]["code"], done["status"]) == ("WORKER_LOST", "COMPLETED")
    assert lost_from <= instant(lost["completedAt"]) <= latest
    assert [each["status"] for each in histories[killed.waiting]] == ["COMPLETED"]
    assert instant(histories[killed.waiting][0]["startedAt"]) <= latest
