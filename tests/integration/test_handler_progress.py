"""How far a handler is: what it reports is kept in the table, at most once a second, and never fails its work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from functions import bootstrap
from functions.adapters.dynamodb_progress import DynamoDbProgress
from functions.domain.progress import Progress
from functions.handlers import jobs
from functions.jobs import Run, registry
from functions.jobs import job as registered_job
from tests.conftest import REGION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Aws

EXECUTION = "3f1c2a4e-0b5d-4c7e-9a8f-1234567890ab-1800000000-0001"


@pytest.fixture(autouse=True)
def _environment(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    variables = {"STAGE": "test", "COORDINATION_TABLE": aws.coordination_table, "AWS_DEFAULT_REGION": REGION}
    for name, value in {**variables, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}.items():
        monkeypatch.setenv(name, value)
    bootstrap.progress.cache_clear()
    yield
    bootstrap.progress.cache_clear()


@pytest.fixture
def run() -> Iterator[Callable[[Callable[[Run], Any]], dict[str, Any]]]:
    """Calls the jobs function with this as the handler."""
    registry.load()
    before = dict(registry._handlers)

    def call(work: Callable[[Run], Any], **changes: Any) -> dict[str, Any]:
        registered_job("reporting")(lambda _payload, run: work(run))
        event = {
            "handler": "reporting",
            "payload": None,
            "jobId": EXECUTION[:36],
            "runId": EXECUTION[:47],
            "executionId": EXECUTION,
            "attempt": 1,
            "scheduledFor": "2027-01-15T08:00:00Z",
            "timeoutSeconds": 60,
            **changes,
        }
        return jobs.handler(event, None)

    yield call
    registry._handlers.clear()
    registry._handlers.update(before)


@pytest.fixture
def board(aws: Aws) -> DynamoDbProgress:
    return DynamoDbProgress(aws.dynamodb, aws.coordination_table)


def test_what_a_handler_reports_is_shown(run: Callable[..., dict[str, Any]], board: DynamoDbProgress) -> None:
    other = EXECUTION[:-1] + "2"

    def work(run: Run) -> None:
        run.report_progress(10 * run.attempt, "half")
        run.report_progress(99, "within the second")

    assert run(work) == {"result": "null"}
    registry._handlers.pop("reporting")
    run(work, executionId=other, attempt=2)  # the next execution of the process

    assert board.read(EXECUTION) == Progress(percent=10, message="half")
    assert board.read(other) == Progress(percent=20, message="half")


def test_at_most_one_write_a_second(aws: Aws, board: DynamoDbProgress) -> None:
    now = [1_800_000_000.0]
    reports = jobs.Reports(clock=lambda: now[0])
    written: list[float] = []

    def count(model: Any, **_: Any) -> None:
        if model.name == "UpdateItem":
            written.append(now[0] - 1_800_000_000)

    client = bootstrap.progress()._client  # type: ignore[attr-defined]  # the adapter's
    client.meta.events.register("before-call.dynamodb.UpdateItem", count)
    for percent in range(0, 101, 2):  # four a second
        reports(EXECUTION, percent, f"page {percent}")
        now[0] += 0.25

    assert written == list(range(13))
    assert board.read(EXECUTION) == Progress(percent=96, message="page 96")


def test_what_cannot_be_kept_fails_no_handler(
    run: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("COORDINATION_TABLE", "a-table-that-is-not-there")

    assert run(lambda run: run.report_progress(10) or "done") == {"result": '"done"'}
    assert "progress" in caplog.text


def test_a_number_that_is_no_percentage_is_the_handlers_mistake(run: Callable[..., dict[str, Any]]) -> None:
    assert run(lambda run: run.report_progress(101))["error"]["type"] == "ValueError"


def test_an_engine_of_the_release_before_names_no_execution(aws: Aws, run: Callable[..., dict[str, Any]]) -> None:
    assert run(lambda run: run.report_progress(10), executionId="") == {"result": "null"}
    assert aws.dynamodb.scan(TableName=aws.coordination_table)["Items"] == []
