"""Workers and callbacks on the stack: real processes of `gnomon worker`, real polls, reports by token."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gnomon.errors import GnomonApiError
from gnomon.work_client import WorkClient
from tests.e2e.stack import Api, Stack, instant, once, problem, unique, until

if TYPE_CHECKING:
    from gnomon.client import Client
    from tests.e2e.people import People
    from tests.e2e.target import Endpoint

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
QUICK = {"maxRetries": 2, "initialDelaySeconds": 1, "backoffStrategy": "fixed", "jitter": 0}
PICKED_UP = 240
"""Seconds after its worker's death within which another has an execution."""
FUNCTIONS = '''
import time
from pathlib import Path


def build(payload, run):
    """Works `seconds` long, and says so; the file named by `mark` is there once it has begun."""
    if "mark" in payload:
        Path(payload["mark"]).touch()
    for step in range(int(payload["seconds"] * 10)):
        run.report_progress(step, f"step {step}")
        time.sleep(0.1)
    return {"attempt": run.attempt}
'''


@pytest.fixture
def work(stack: Stack) -> Iterator[WorkClient]:
    with WorkClient(stack.api_url, stack.tokens["scheduler"]) as client:
        yield client


class Shop:
    """A queue of its own, a folder with the function, and processes that work on it."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self.queue = unique("queue")
        self.folder = folder
        self._stack = stack
        self._processes: list[subprocess.Popen[bytes]] = []
        (folder / "reports.py").write_text(FUNCTIONS, encoding="utf-8")

    def target(self) -> dict[str, str]:
        return {"type": "worker", "queue": self.queue}

    def mark(self) -> Path:
        return self.folder / unique("mark")

    def open(self) -> subprocess.Popen[bytes]:
        """A `gnomon worker` process."""
        command = [sys.executable, "-m", "gnomon", "worker", "--queue", self.queue, "reports:build"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "GNOMON_"))}
        environment |= {"PYTHONPATH": str(ROOT), "GNOMON_STACK": str(self._stack.place.stack_file)}
        with (self.folder / "worker.log").open("ab") as log:
            process = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log)
        self._processes.append(process)
        return process

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


@pytest.fixture
def shop(stack: Stack, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(stack, tmp_path)
    yield shop
    shop.close()


def _one(work: WorkClient, job: dict[str, Any]) -> Any:
    return next(iter(work.history(job["id"])), None)


@pytest.mark.on_time
def test_an_execution_from_poll_to_result(work: WorkClient, shop: Shop, create: Callable[..., dict[str, Any]]) -> None:
    worker = work.register_worker([shop.queue], name="test")
    job = create(target=shop.target(), schedule=once(3), payload={"n": 2**70}, timeoutSeconds=300)
    begun = time.monotonic()

    [execution] = work.poll(worker["id"], poll_id="one", wait_seconds=20)

    assert time.monotonic() - begun < 15, "the poll waits no longer than it must"
    assert (execution["jobId"], execution["payload"]) == (job["id"], {"n": 2**70})
    assert [each["id"] for each in work.poll(worker["id"], poll_id="one")] == [execution["id"]]
    holder = {"worker_id": worker["id"], "fence": execution["fence"]}
    assert work.report_progress(execution["id"], 25, "a quarter", **holder)
    assert work.get_execution(execution["id"])["progress"] == {"percent": 25, "message": "a quarter"}
    assert work.heartbeat(worker["id"], {execution["id"]: execution["fence"]})["status"] == "ACTIVE"
    done = work.complete_execution(execution["id"], {"rows": 3}, **holder)
    assert (done["status"], done["result"], done["workerId"]) == ("COMPLETED", {"rows": 3}, worker["id"])
    assert work.complete_execution(execution["id"], {"rows": 3}, **holder) == done
    with pytest.raises(GnomonApiError) as refused:
        work.fail_execution(execution["id"], "TARGET_ERROR", **holder)
    assert refused.value.status == 409
    assert work.get_job(job["id"])["status"] == "COMPLETED"


def test_many_polls_at_once_share_what_waits(
    stack: Stack, work: WorkClient, shop: Shop, create: Callable[..., dict[str, Any]]
) -> None:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - here alone

    jobs = [create(target=shop.target(), schedule=once(0), timeoutSeconds=60) for _ in range(12)]
    until(lambda: all((_one(work, job) or {}).get("reason") for job in jobs), seconds=20, hint="all wait for workers")

    def poll(_: int) -> list[str]:
        with WorkClient(stack.api_url, stack.tokens["scheduler"]) as client:
            worker = client.register_worker([shop.queue])
            found: list[str] = []
            for _ in range(4):
                found += [each["id"] for each in client.poll(worker["id"], poll_id=uuid.uuid4().hex, max_items=3)]
            return found

    with ThreadPoolExecutor(4) as threads:
        claimed = [one for found in threads.map(poll, range(4)) for one in found]

    assert len(claimed) == len(set(claimed)) == 12


def test_payloads_are_for_their_owners_workers(
    stack: Stack, people: People, shop: Shop, work: WorkClient, create: Callable[..., dict[str, Any]]
) -> None:
    job = create(target=shop.target(), schedule=once(0))
    until(lambda: (_one(work, job) or {}).get("reason") == "WAITS_FOR_WORKER", seconds=10)

    with WorkClient(stack.api_url, people.token("scheduler", unique("team"))) as other:
        theirs = other.register_worker([shop.queue])
        assert other.poll(theirs["id"], poll_id="p") == []
        with pytest.raises(GnomonApiError) as refused:
            work.poll(theirs["id"], poll_id="p")
    assert refused.value.status == 404


@pytest.mark.on_time
def test_drain_ends_a_poll_that_waits(stack: Stack, work: WorkClient, shop: Shop) -> None:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - here alone

    worker = work.register_worker([shop.queue])
    with ThreadPoolExecutor(1) as thread, WorkClient(stack.api_url, stack.tokens["scheduler"]) as other:
        begun = time.monotonic()
        waiting = thread.submit(other.poll, worker["id"], poll_id="p", wait_seconds=20)
        time.sleep(2)
        assert work.drain_worker(worker["id"])["status"] == "DRAINING"
        assert waiting.result() == []
    assert time.monotonic() - begun < 8


def test_a_worker_process_works_and_ends_gracefully(
    work: WorkClient, shop: Shop, create: Callable[..., dict[str, Any]]
) -> None:
    process, mark = shop.open(), shop.mark()
    job = create(target=shop.target(), schedule=once(0), payload={"seconds": 4, "mark": str(mark)}, timeoutSeconds=60)
    until(mark.exists, seconds=30, hint="the worker works")
    until(lambda: (_one(work, job) or {}).get("progress"), seconds=5, hint="its progress is shown")

    process.send_signal(signal.SIGTERM)
    later = create(target=shop.target(), schedule=once(0), payload={"seconds": 0}, timeoutSeconds=60)

    assert process.wait(20) == 0, (shop.folder / "worker.log").read_text()
    ended = _one(work, job)
    assert (ended["status"], ended["result"]) == ("COMPLETED", {"attempt": 1})
    assert work.get_worker(ended["workerId"])["status"] == "DRAINING"
    assert (_one(work, later) or {}).get("status") in (None, "QUEUED")


@pytest.mark.slow
@pytest.mark.case(17)
@pytest.mark.timeout(330)
def test_a_killed_worker_s_execution_is_picked_up_by_another(
    work: WorkClient, shop: Shop, create: Callable[..., dict[str, Any]]
) -> None:
    first, mark = shop.open(), shop.mark()
    job = create(
        target=shop.target(),
        schedule=once(0),
        payload={"seconds": 2, "mark": str(mark)},
        timeoutSeconds=1800,
        retryConfig=QUICK,
    )
    until(mark.exists, seconds=30, hint="the worker works")
    first.kill()
    killed = time.time()
    lost = _one(work, job)
    assert lost["status"] == "RUNNING"

    shop.open()
    until(lambda: work.get_job(job["id"])["status"] == "COMPLETED", seconds=PICKED_UP + 10, every=1)

    second, failed = work.history(job["id"])
    assert (failed["id"], failed["error"]["code"]) == (lost["id"], "WORKER_LOST")
    assert (second["attempt"], second["status"], second["result"]) == (2, "COMPLETED", {"attempt": 2})
    assert second["workerId"] != failed["workerId"]
    assert instant(second["startedAt"]) - killed <= PICKED_UP
    holder = {"worker_id": lost["workerId"], "fence": lost["fence"]}
    reports: list[Callable[[], Any]] = [
        lambda: work.heartbeat(lost["workerId"], {lost["id"]: lost["fence"]}),
        lambda: work.report_progress(lost["id"], 99, **holder),
        lambda: work.complete_execution(lost["id"], "too late", **holder),
    ]
    for report in reports:
        with pytest.raises(GnomonApiError) as refused:
            report()
        assert refused.value.status == 409
    assert [each["status"] for each in work.history(job["id"])] == ["COMPLETED", "FAILED"]


@pytest.mark.on_time
@pytest.mark.parametrize("beats", [True, False], ids=["beats only", "silent"])
def test_a_worker_that_does_not_report_is_timed_out_at_its_deadline(
    work: WorkClient, shop: Shop, create: Callable[..., dict[str, Any]], beats: bool
) -> None:
    worker = work.register_worker([shop.queue])
    job = create(target=shop.target(), schedule=once(0), timeoutSeconds=5, retryConfig=QUICK)
    [first] = work.poll(worker["id"], poll_id="one", wait_seconds=20)
    deadline = instant(first["deadlineAt"])
    while beats and time.time() < deadline - 1:
        work.heartbeat(worker["id"], {first["id"]: first["fence"]})
        time.sleep(1)

    [second] = work.poll(worker["id"], poll_id="two", wait_seconds=20)

    done, late = work.history(job["id"])
    assert (late["id"], late["status"], late["error"]["code"]) == (first["id"], "TIMED_OUT", "TIMEOUT")
    assert 4 <= instant(late["completedAt"]) - deadline <= 5.5
    assert (done["id"], done["attempt"], done["status"]) == (second["id"], 2, "RUNNING")
    with pytest.raises(GnomonApiError) as refused:
        work.complete_execution(first["id"], worker_id=worker["id"], fence=first["fence"])
    assert (refused.value.status, refused.value.message[:9]) == (409, "TIMED_OUT")
    work.complete_execution(second["id"], "done", worker_id=worker["id"], fence=second["fence"])
    assert work.get_job(job["id"])["status"] == "COMPLETED"


@pytest.mark.case(18)
def test_a_worker_learns_that_its_execution_was_cancelled(
    work: WorkClient, api: Api, shop: Shop, create: Callable[..., dict[str, Any]]
) -> None:
    worker = work.register_worker([shop.queue])
    job = create(target=shop.target(), schedule=once(0), timeoutSeconds=300)
    [execution] = work.poll(worker["id"], poll_id="p", wait_seconds=20)
    work.cancel_job(job["id"])

    held = {"executions": [{"id": execution["id"], "fence": execution["fence"]}]}
    answer = api.post(f"/v1/workers/{worker['id']}/heartbeat", held)
    assert problem(answer, 409, "CONFLICT") == {execution["id"]: "CANCELLED"}
    with pytest.raises(GnomonApiError) as refused:
        work.complete_execution(execution["id"], worker_id=worker["id"], fence=execution["fence"])
    assert (refused.value.status, refused.value.message[:9]) == (409, "CANCELLED")
    [only] = work.history(job["id"])
    assert only["status"] == "CANCELLED"


def _accepted(work: WorkClient, endpoint: Endpoint, job: dict[str, Any], attempt: int = 1) -> tuple[str, str]:
    """Execution and token of an attempt, once its target was called."""
    until(lambda: len(endpoint.calls(job["id"])) >= attempt, seconds=20, hint=f"call {attempt}")
    headers = endpoint.calls(job["id"])[attempt - 1].headers
    assert headers["gnomon-execution-id"] == f"{headers['webhook-id']}-{attempt:04d}"
    return headers["gnomon-execution-id"], headers["gnomon-callback-token"]


def test_a_callback_completes_the_execution(
    work: WorkClient, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    job = create(target=endpoint.target("202"), schedule=once(0), completion="callback", timeoutSeconds=3600)
    execution, token = _accepted(work, endpoint, job)
    until(lambda: work.get_job(job["id"])["status"] == "RUNNING", seconds=5)
    time.sleep(2)
    assert work.get_execution(execution)["status"] == "RUNNING", "accepted is not done"
    assert work.report_progress(execution, 50, "half", token=token)

    done = work.complete_execution(execution, {"rows": 3}, token=token)

    assert (done["status"], done["result"]) == ("COMPLETED", {"rows": 3})
    assert work.complete_execution(execution, {"rows": 3}, token=token) == done
    assert work.get_job(job["id"])["status"] == "COMPLETED"


def test_a_callback_fails_and_is_retried(
    work: WorkClient, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    job = create(
        target=endpoint.target(), schedule=once(0), completion="callback", timeoutSeconds=60, retryConfig=QUICK
    )
    first, token = _accepted(work, endpoint, job)
    assert work.fail_execution(first, "TARGET_ERROR", "no disk", token=token)["reason"] == "RETRY_SCHEDULED"

    second, other = _accepted(work, endpoint, job, 2)

    assert other != token
    with pytest.raises(GnomonApiError) as refused:
        work.complete_execution(second, token=token)
    assert refused.value.status == 409
    work.complete_execution(second, "done", token=other)
    assert [each["status"] for each in work.history(job["id"])] == ["COMPLETED", "FAILED"]


@pytest.mark.on_time
def test_a_callback_that_does_not_come_times_out_and_is_retried(
    work: WorkClient, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    job = create(target=endpoint.target(), schedule=once(0), completion="callback", timeoutSeconds=5, retryConfig=QUICK)
    first, token = _accepted(work, endpoint, job)
    second, other = _accepted(work, endpoint, job, 2)
    with pytest.raises(GnomonApiError) as refused:
        work.complete_execution(first, "too late", token=token)
    assert (refused.value.status, refused.value.message[:9]) == (409, "TIMED_OUT")
    work.complete_execution(second, "done", token=other)

    done, late = work.history(job["id"])

    assert (late["status"], late["error"]["code"], late["final"]) == ("TIMED_OUT", "TIMEOUT", False)
    held = instant(late["completedAt"]) - instant(late["startedAt"])
    assert 9 <= held <= 11.5, "4 s after its deadline, in whole seconds rounded up, and the queue's own delay"
    assert done["result"] == "done"


def test_a_target_that_refuses_ends_the_attempt(
    scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    job = create(target=endpoint.target("400"), schedule=once(0), completion="callback", timeoutSeconds=60)
    until(lambda: scheduler.get_job(job["id"])["status"] == "FAILED", seconds=15)
    [only] = scheduler.history(job["id"])
    assert only["error"]["code"] == "HTTP_400"
