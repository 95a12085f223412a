"""`gnomon worker`: the loop that polls, works, keeps, reports and drains, against the real API and engine in memory."""

from __future__ import annotations

import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from gnomon.commands.worker import loaded
from gnomon.errors import GnomonApiError, UsageError
from gnomon.worker import LeaseLost, NonRetryable, Run
from tests.site import PATIENCE, Running, Site, until


@pytest.fixture
def site() -> Site:
    return Site()


def test_it_works_on_what_waits_and_reports_the_result(site: Site) -> None:
    job = site.job(payload='{"pages": 3}')

    def build(payload: Any, run: Run) -> Any:
        return {"pages": payload["pages"], "attempt": run.attempt, "run": run.run_id}

    with Running(site, build):
        ended = site.ended(job)

    assert ended.status == "COMPLETED"
    assert ended.result == f'{{"pages":3,"attempt":1,"run":"{job}-1800000000"}}'


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (ValueError("no disk"), "HANDLER_ERROR:ValueError", "RETRY_SCHEDULED"),
        (NonRetryable("never"), "HANDLER_ERROR:NonRetryable", "NOT_RETRYABLE"),
        (SystemExit(3), "HANDLER_ERROR:SystemExit", "RETRY_SCHEDULED"),
        (ValueError("\udc80" * 3000), "HANDLER_ERROR:ValueError", "RETRY_SCHEDULED"),
    ],
)
def test_what_the_function_raises_fails_the_attempt(site: Site, error: BaseException, code: str, reason: str) -> None:
    job = site.job()

    def broken(_payload: Any, _run: Run) -> Any:
        raise error

    with Running(site, broken):
        ended = site.ended(job)

    assert (ended.status, ended.error.code, ended.reason) == ("FAILED", code, reason)
    assert len(ended.error.message) <= 1000


@pytest.mark.parametrize("result", [object(), "x" * 40_000, float("nan")])
def test_a_result_that_cannot_be_kept_is_a_failure_for_good(site: Site, result: Any) -> None:
    job = site.job()

    with Running(site, lambda _payload, _run: result):
        ended = site.ended(job)

    assert (ended.error.code, ended.final) == ("HANDLER_ERROR:InvalidResult", True)


def test_it_works_on_no_more_than_it_was_told_at_the_same_time(site: Site) -> None:
    jobs = [site.job() for _ in range(6)]
    at_once, most, lock = [0], [0], threading.Lock()

    def busy(_payload: Any, _run: Run) -> None:
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        time.sleep(0.05)
        with lock:
            at_once[0] -= 1

    with Running(site, busy, concurrency=3):
        for job in jobs:
            site.ended(job)

    assert most[0] == 3


def test_a_worker_whose_poll_may_not_wait_pauses_before_the_next(site: Site) -> None:
    """The API answers at once where as many polls of the owner wait as may: here time stands still, so none waits."""

    def polls() -> int:
        return len([one for one in site.requests if one.endswith("/poll")])

    with Running(site, lambda _payload, _run: None, wait_seconds=1):
        until(lambda: polls() == 1)
        time.sleep(0.5)
        assert polls() == 1


def test_it_keeps_what_it_works_on(site: Site) -> None:
    job = site.job()
    go, begun = threading.Event(), threading.Event()

    def slow(_payload: Any, _run: Run) -> str:
        begun.set()
        assert go.wait(PATIENCE)
        return "done"

    with Running(site, slow):
        assert begun.wait(PATIENCE)
        for _ in range(6):  # three minutes, a heartbeat each 30 s
            with site.lock:
                site.driver.run(30)
                seen = len([one for one in site.requests if one.endswith("/heartbeat")])
            until(lambda seen=seen: len([one for one in site.requests if one.endswith("/heartbeat")]) > seen + 1)
        go.set()
        ended = site.ended(job)

    assert (ended.status, ended.attempt) == ("COMPLETED", 1)


@pytest.mark.case(18)
def test_a_cancelled_execution_is_told_to_its_function(site: Site) -> None:
    job = site.job()
    heard = []

    def patient(_payload: Any, run: Run) -> str:
        until(lambda: run.is_lost)
        try:
            run.report_progress(50)
        except LeaseLost as error:
            heard.append(error)
            raise
        return "in vain"

    with Running(site, patient) as running:
        until(lambda: site.driver.row(job).status == "RUNNING")
        with site.lock:
            site.connect().cancel_job(job)
        until(lambda: heard)
        running.stop()

    assert [row.status for row in site.history(job)] == ["CANCELLED"]


@pytest.mark.case(17)
def test_the_result_of_a_lost_execution_is_dropped(site: Site) -> None:
    job = site.job()
    go, begun = threading.Event(), threading.Event()

    def stalls(_payload: Any, _run: Run) -> str:
        begun.set()
        assert go.wait(PATIENCE)
        return "too late"

    with Running(site, stalls, heartbeat_seconds=60) as running:
        assert begun.wait(PATIENCE)
        with site.lock:
            site.driver.run(160)
        assert site.ended(job).error.code == "WORKER_LOST"
        running.worker.stop()
        go.set()
        running.stop()

    assert [row.status for row in site.history(job)] == ["FAILED"]
    assert any(one.endswith("/complete") for one in site.requests)


def test_progress_is_sent_once_a_second_and_wrong_progress_is_an_error(site: Site) -> None:
    job = site.job()

    def reports(_payload: Any, run: Run) -> None:
        for percent in range(50):
            run.report_progress(percent, "step")
        run.report_progress(300)  # within the second: not sent
        time.sleep(1.01)
        run.report_progress(300)

    with Running(site, reports):
        ended = site.ended(job)

    assert ended.error.code == "HANDLER_ERROR:ValueError"
    assert sum(one.endswith("/progress") for one in site.requests) == 2


def test_stop_finishes_what_runs_and_takes_nothing_more(site: Site) -> None:
    first = site.job()
    go, begun = threading.Event(), threading.Event()

    def slow(_payload: Any, _run: Run) -> str:
        begun.set()
        assert go.wait(PATIENCE)
        return "done"

    with Running(site, slow) as running:
        assert begun.wait(PATIENCE)
        running.worker.stop()
        until(lambda: any(one.endswith("/drain") for one in site.requests))
        second = site.job()
        go.set()
        running.stop()

    assert site.ended(first).status == "COMPLETED"
    assert site.history(second) == []
    assert site.connect().get_worker(running.worker.id)["status"] == "DRAINING"


@pytest.mark.slow
def test_it_outlives_an_api_that_is_away(site: Site) -> None:
    job = site.job()
    site.away = 3

    with Running(site, lambda _payload, _run: 1):
        ended = site.ended(job)

    assert ended.status == "COMPLETED"


def test_a_poll_whose_answer_was_lost_loses_no_execution(site: Site) -> None:
    job = site.job()
    lost = []
    answer = site.answer

    def lossy(request: httpx.Request) -> httpx.Response:
        response = answer(request)
        if request.url.path.endswith("/poll") and not lost:
            lost.append(response)
            raise httpx.ReadTimeout("lost", request=request)
        return response

    site.answer = lossy  # type: ignore[method-assign]

    with Running(site, lambda _payload, run: run.attempt):
        ended = site.ended(job)

    assert lost[0].json()["data"]
    assert (ended.status, ended.result) == ("COMPLETED", "1")


def test_a_worker_that_was_forgotten_registers_again(site: Site) -> None:
    with Running(site, lambda _payload, _run: 1) as running:
        first = until(lambda: running.worker.id)
        with site.lock:
            site.driver.world.workers.rows.clear()
        until(lambda: running.worker.id != first)
        job = site.job()
        assert site.ended(job).worker_id == running.worker.id


def test_it_keeps_more_than_one_heartbeat_may_name(site: Site) -> None:
    go, jobs = threading.Event(), [site.job() for _ in range(101)]

    def slow(_payload: Any, _run: Run) -> str:
        assert go.wait(PATIENCE)
        return "done"

    with Running(site, slow, concurrency=101) as running:
        until(lambda: len(running.worker._held) == len(jobs))
        with site.lock:
            site.driver.run(60)
            site.requests.clear()
        until(lambda: len([one for one in site.requests if one.endswith("/heartbeat")]) > 4)
        with site.lock:
            site.driver.run(80)
        go.set()
        until(lambda: all(site.history(job) for job in jobs))

    assert {execution.status for job in jobs for execution in site.history(job)} == {"COMPLETED"}


def test_it_stops_well_though_the_api_is_away(site: Site) -> None:
    running = Running(site, lambda _payload, _run: 1)
    broken = threading.Event()

    def unavailable(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/poll") and broken.is_set():
            body = {"error": {"code": "UNAVAILABLE", "message": "try again", "requestId": "r"}}
            return httpx.Response(503, json=body, request=request)
        return answer(request)

    answer, site.answer = site.answer, unavailable  # type: ignore[method-assign]
    with running:
        until(lambda: running.worker.id)
        broken.set()
        time.sleep(0.1)  # until a poll is refused
        running.stop()

    assert running.error is None


def test_what_the_api_refuses_for_good_ends_it(site: Site) -> None:
    site.gateway.claims = {"token_use": "access", "sub": "eve", "username": "eve"}

    running = Running(site, lambda _payload, _run: 1)
    running.thread.start()
    running.thread.join(PATIENCE)

    assert isinstance(running.error, GnomonApiError)
    assert running.error.status == 403


def test_the_example_of_the_page_works(site: Site) -> None:
    page = (Path(__file__).parents[2] / "docs" / "workers.md").read_text("utf-8")
    source = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert source is not None
    module: dict[str, Any] = {}
    exec(source[1], module)
    good, bad = site.job(payload='{"pages": ["a", "b"]}'), site.job(payload='{"pages": []}')

    with Running(site, module["build"], concurrency=4):
        assert site.ended(good).result == '{"pages":2}'
        assert site.ended(bad).reason == "NOT_RETRYABLE"


@pytest.mark.parametrize(
    "path", ["reports", "reports:", ":build", "no_such_module_at_all:build", "json:no_such", "json:__doc__"]
)
def test_what_is_no_function_is_refused(path: str) -> None:
    with pytest.raises(UsageError):
        loaded(path)


def test_functions_are_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reports_of_this_test.py").write_text("def build(payload, run):\n    return payload\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    assert loaded("reports_of_this_test:build")(1, None) == 1  # type: ignore[arg-type]  # it takes no notice of its run
