"""The payloads that targets and workers are given, with results of the jobs that theirs depends on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from functions.domain.errors import UnavailableError
from functions.domain.execution import ExecutionStatus
from functions.domain.job import Followed, Job, LastRun, Outcome, Upstream
from functions.domain.outcome import TargetAnswer
from tests.driver import Driver
from tests.factories import NOW, make_execution, make_job, make_run, new_id
from tests.working import FlowWorker

SLOT = f"{NOW}dabcdefgh"
OK = TargetAnswer(status=ExecutionStatus.COMPLETED)
FAILED = TargetAnswer(status=ExecutionStatus.FAILED)
PAYLOAD = '{"n":1.0,"total":{"$from":"PARENT","path":"total"}}'


def slot(number: int) -> str:
    return str(NOW - 1_000 + number)


def parent(driver: Driver, *totals: float | None, **changes: Any) -> Job:
    """A job whose runs have ended with these totals, the first in its oldest."""
    job_id = new_id()
    last = None
    for number, total in enumerate(totals, start=1):
        result = None if total is None else json.dumps({"total": total})
        driver.world.history.record(make_execution(job_id=job_id, slot_id=slot(number), result=result))
        last = LastRun(slot_id=slot(number), attempt=1, outcome=Outcome.COMPLETED, fence=1, ended_at=NOW - 900)
        if number < len(totals):
            driver.world.history.record_end(job_id, number, last)
    followed = Followed(ends=len(totals), told=len(totals))
    return driver.services.jobs.create(make_job(id=job_id, last_run=last, followed=followed, paused=True, **changes))


def child(driver: Driver, *parents: Job, took: tuple[int, ...], payload: str = PAYLOAD, **document: Any) -> Job:
    ids = [one.id for one in parents]
    run = make_run(state="W", took=took, due_at=NOW, attempt_limit=2)
    row = make_job(
        id=new_id(),
        next_slot=None,
        document={"schedule": None, "dependsOn": [{"jobId": one} for one in ids], **document},
        payload=payload.replace("PARENT", ids[0]),
        runs={SLOT: replace(run, state=type(make_run().state).WAITING)},
        upstream=Upstream(marks=tuple(one.followed.ends for one in parents if one.followed)),
    )
    return driver.services.jobs.create(row)


def given(driver: Driver) -> list[str]:
    return [call.payload for call in driver.world.targets.calls]


ORCHESTRATED = {"orchestrated": True}


@pytest.mark.parametrize("how", [{}, ORCHESTRATED], ids=["direct", "state machine"])
@pytest.mark.parametrize(("took", "total"), [((1,), 1.0), ((2,), 2.0), ((3,), 3.0), ((0,), 3.0), ((), 3.0)])
def test_the_result_is_of_the_run_that_was_taken_or_of_the_last(took: tuple[int, ...], total: float, how: Any) -> None:
    driver = Driver()
    job = child(driver, parent(driver, 1.0, 2.0, 3.0), took=took, **how)
    driver.run(120)
    assert given(driver) == [f'{{"n":1.0,"total":{total}}}']
    assert driver.row(job.id).last_run is not None


def test_another_attempt_is_given_the_same_though_the_parent_ran_again() -> None:
    driver = Driver()
    job = parent(driver, 1.0)
    child(driver, job, took=(1,), retryConfig={"initialDelaySeconds": 100})

    def fail_and_end_another(_: Any) -> TargetAnswer:
        row = driver.row(job.id)
        assert row.last_run is not None
        driver.world.history.record_end(job.id, 1, row.last_run)
        driver.world.history.record(make_execution(job_id=job.id, slot_id=slot(2), result='{"total":2.0}'))
        driver.world.jobs.put(
            replace(row, last_run=replace(row.last_run, slot_id=slot(2)), followed=Followed(ends=2, told=2))
        )
        return FAILED

    driver.world.targets.answers = [fail_and_end_another, OK]
    driver.run(600)
    once, again = '{"n":1.0,"total":1.0}', '{"n":1.0,"total":2.0}'
    assert given(driver) == [once, once, again], "and then it runs for the end that came meanwhile"


@pytest.mark.parametrize("gone", ["end", "execution", "row", "no result"])
def test_what_is_kept_no_longer_is_null(gone: str) -> None:
    driver = Driver()
    job = parent(driver, None if gone == "no result" else 1.0, 2.0)
    if gone == "end":
        driver.world.history.ends.clear()
    if gone == "execution":
        del driver.world.history.executions[job.id, slot(1), 1]
    if gone == "row":
        driver.world.history.ends.clear()
        del driver.world.jobs.rows[job.id]
    child(driver, job, took=(1,))
    driver.run(120)
    assert given(driver) == ['{"n":1.0,"total":null}']


def test_a_lean_run_has_its_result_in_the_row() -> None:
    driver = Driver()
    job = parent(driver, 1.0)
    assert job.last_run is not None
    driver.world.history.executions.clear()
    driver.world.jobs.put(replace(job, last_run=replace(job.last_run, ended_by="w", result='{"total":5}')))
    child(driver, job, took=(1,))
    driver.run(120)
    assert given(driver) == ['{"n":1.0,"total":5}']


def test_each_of_several_parents_is_asked_for_its_own_run() -> None:
    driver = Driver()
    first, second = parent(driver, 1.0, 2.0), parent(driver, 10.0, 20.0)
    payload = f'[{{"$from":"{second.id}","path":"total"}},{{"$from":"{first.id}","path":"total"}}]'
    child(driver, first, second, took=(2, 1), payload=payload)
    driver.run(120)
    assert given(driver) == ["[10.0,2.0]"]


@pytest.mark.parametrize("how", [{}, ORCHESTRATED], ids=["direct", "state machine"])
def test_a_payload_that_grows_too_large_fails_once_and_for_good(how: Any) -> None:
    driver = Driver()
    job = parent(driver, 1.0)
    driver.world.history.executions[job.id, slot(1), 1] = make_execution(
        job_id=job.id, slot_id=slot(1), result=json.dumps("x" * 30_000)
    )
    made = child(driver, job, took=(1,), payload="[" + ",".join(['{"$from":"PARENT"}'] * 5) + "]", **how)
    driver.run(600)
    assert given(driver) == []
    [execution] = driver.executions(made.id)
    assert execution.error is not None
    assert (execution.error.code, execution.reason, execution.final) == ("PAYLOAD_ERROR", "NOT_RETRYABLE", True)
    assert "150016 bytes" in execution.error.message
    assert "131072" in execution.error.message


def test_results_that_cannot_be_read_just_now_spend_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    job = child(driver, parent(driver, 1.0, 2.0), took=(1,))
    end, times = driver.world.history.end, iter([True])

    def fails_once(job_id: str, number: int) -> LastRun | None:
        if next(times, False):
            raise UnavailableError
        return end(job_id, number)

    monkeypatch.setattr(driver.world.history, "end", fails_once)
    driver.run(600)
    assert [(one.status.value, one.final) for one in driver.executions(job.id)] == [
        ("FAILED", False),
        ("COMPLETED", True),
    ]
    assert given(driver) == ['{"n":1.0,"total":1.0}']


def test_nothing_is_read_for_a_payload_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    job = parent(driver, 1.0, 2.0)
    child(driver, job, took=(1,), payload='{"from":"PARENT"}')
    monkeypatch.setattr(driver.world.history, "end", None)
    driver.run(120)
    assert given(driver) == [f'{{"from":"{job.id}"}}']


def test_a_job_that_depends_on_nobody_keeps_it_as_data() -> None:
    driver = Driver()
    driver.create(payload=PAYLOAD)
    driver.run(90)
    assert given(driver)[0] == PAYLOAD


def test_a_worker_is_given_it_too_and_the_same_again() -> None:
    driver = Driver()
    job = parent(driver, 1.0, 2.0)
    made = child(driver, job, took=(1,), target={"type": "worker", "queue": "reports"})
    worker = FlowWorker(driver, lambda _driver, ask: ask(), [OK])
    driver.run(120)
    [claimed] = worker.poll()
    assert (claimed.job.id, claimed.payload) == (made.id, '{"n":1.0,"total":1.0}')
    worker.polls = iter([0])  # type: ignore[assignment]  # the same poll again
    [again] = worker.poll()
    assert again.payload == claimed.payload
