"""What is counted: each attempt that ends, once, by whomever it ends; of the sweep only what others failed at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from functions import telemetry
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.outcome import TargetAnswer
from functions.usecases.cancelling import cancel_execution
from functions.usecases.sweep import Swept
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW, make_execution
from tests.fakes import FakeClock, World
from tests.unit.test_claim_races import Office, id_of

Counted = Callable[[], dict[str, Any]]
ONCE = {"schedule": {"type": "once", "at": "2027-01-15T08:00:00Z"}, "retryConfig": {"maxRetries": 1, "jitter": 0}}
BROKEN = TargetAnswer(status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_503", message="no"))


def ends(driver: Driver) -> list[str]:
    return [each.error.code if each.error is not None else each.status.value for each in driver.ended]


def test_an_attempt_of_a_target_is_counted_once() -> None:
    driver = Driver(World(clock=FakeClock(NOW)))
    driver.create(**ONCE)
    driver.world.targets.answers = [BROKEN, TargetAnswer(status=ExecutionStatus.COMPLETED)]

    driver.run(120)

    assert ends(driver) == ["HTTP_503", "COMPLETED"]


def test_a_lean_end_is_counted() -> None:
    driver = Driver(World(clock=FakeClock(NOW)))
    job = driver.create(**ONCE)

    driver.run(5)

    assert driver.row(job.id).last_run is not None
    assert ends(driver) == ["COMPLETED"]


def test_a_report_is_counted_once_however_often_it_comes() -> None:
    office = Office.with_jobs()
    worker = office.worker()
    [claimed] = office.poll(worker)

    assert [office.complete(worker, claimed), office.complete(worker, claimed)] == [True, True]
    office.driver.run(400)

    assert ends(office.driver) == ["COMPLETED"]


def test_a_report_whose_function_died_is_counted_by_who_goes_on() -> None:
    office = Office.with_jobs()
    worker = office.worker()
    [claimed] = office.poll(worker)
    office.driver.services.history.record(
        make_execution(job_id=claimed.job.id, slot_id=claimed.slot_id, fence=claimed.run.fence, worker_id=worker)
    )

    office.driver.run(200)

    assert ends(office.driver) == ["COMPLETED"]


def test_a_silent_worker_is_counted_as_a_failed_attempt_and_no_lost_hint() -> None:
    office = Office.with_jobs()
    worker = office.worker()
    [claimed] = office.poll(worker)
    office.driver.sweeps = False
    office.driver.run(96)

    found = office.driver.sweep_now()

    assert found is not None
    assert found.reasons == {"WORKER_GONE": 1}
    assert ends(office.driver) == ["WORKER_LOST"]
    assert office.driver.ended[0].id == id_of(claimed)


def test_a_deadline_whose_hint_was_lost_is_a_repair() -> None:
    office = Office.with_jobs(timeoutSeconds=30)
    office.poll(office.worker())
    office.driver.world.timetable.armed.clear()
    office.driver.sweeps = False
    office.driver.run(51)

    found = office.driver.sweep_now()

    assert found is not None
    assert found.reasons == {"RECOVERED": 1}
    assert ends(office.driver) == ["TIMEOUT"]


def test_a_refused_report_counts_nothing() -> None:
    office = Office.with_jobs()
    worker = office.worker()
    [claimed] = office.poll(worker)
    cancel_execution(office.driver.services, SCHEDULER, id_of(claimed))

    assert not office.complete(worker, claimed)

    assert ends(office.driver) == ["CANCELLED"]


# --- the metrics ---


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Counted]:
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Gnomon")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "test")
    telemetry.metrics.cache_clear()

    def flushed() -> dict[str, Any]:
        capsys.readouterr()
        telemetry.flush()
        line = json.loads(capsys.readouterr().out or "{}")
        names = line["_aws"]["CloudWatchMetrics"][0]["Metrics"] if line else []
        return {each["Name"]: sum(line[each["Name"]]) for each in names}

    yield flushed
    telemetry.metrics().clear_metrics()
    telemetry.metrics.cache_clear()


def test_failed_attempts_are_counted_among_all(counted: Counted) -> None:
    telemetry.attempt_ended(make_execution())
    failed = {"status": ExecutionStatus.FAILED, "error": ExecutionError(code="WORKER_LOST", message="gone")}
    telemetry.attempt_ended(make_execution(**failed))
    telemetry.attempt_ended(make_execution(status=ExecutionStatus.CANCELLED))

    assert counted() == {"Attempts": 2, "FailedAttempts": 1}
    assert counted() == {}


def test_a_success_whose_result_was_not_kept_is_no_failure(counted: Counted) -> None:
    telemetry.attempt_ended(make_execution(error=ExecutionError(code="RESULT_TOO_LARGE", message="40000 bytes")))

    assert counted() == {"Attempts": 1}


def test_threads_count_together(counted: Counted) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: telemetry.attempt_ended(make_execution()), range(80)))

    assert counted() == {"Attempts": 80}


def test_who_counts_nothing_makes_no_metrics(counted: Counted) -> None:
    telemetry.flush()

    assert telemetry.metrics.cache_info().currsize == 0


def test_workers_that_are_gone_are_no_repair(counted: Counted) -> None:
    telemetry.swept(Swept(looked_at=3, reasons={"WORKER_GONE": 2, "WOKEN": 1}))

    assert counted() == {"Swept": 3, "Repaired": 1, "FailedVisits": 0, "UnreadableRows": 0}
