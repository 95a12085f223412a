"""Scenarios of tests/cases/scenarios.md that are about the platform: over the adapters, on moto, in virtual time."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from functions.adapters import dynamodb_jobs
from functions.adapters.dynamodb_history import DynamoDbHistory
from functions.adapters.dynamodb_items import item_size
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.adapters.dynamodb_keys import attention_shard
from functions.domain.hint import Hint
from functions.domain.job import JobStatus
from functions.domain.run import RunState
from functions.domain.timing import SCHEDULE_LEAD, SCHEDULE_SPREAD
from functions.usecases.cancelling import cancel_job
from tests.api_client import Api
from tests.contract.conftest import make_timetable
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW, make_job, make_run
from tests.fakes import FakeClock, World
from tests.flows import FAILED, MINUTELY, ONCE

if TYPE_CHECKING:
    from tests.conftest import Aws


def driver_on(aws: Aws, world: World | None = None) -> Driver:
    return Driver(
        world or World(clock=FakeClock(NOW)),
        jobs=DynamoDbJobs(aws.dynamodb, aws.jobs_table, graphs=aws.coordination_table),
        history=DynamoDbHistory(aws.dynamodb, aws.executions_table, retention_days=30),
    )


def schedules(aws: Aws) -> list[dict[str, Any]]:
    listed = aws.scheduler.list_schedules(GroupName=aws.schedule_group)["Schedules"]
    return [aws.scheduler.get_schedule(Name=one["Name"], GroupName=aws.schedule_group) for one in listed]


@pytest.mark.case(1)
def test_the_expression_of_a_schedule_is_plain_utc(aws: Aws) -> None:
    world = World()
    world.timetable = make_timetable(aws, world.clock)  # type: ignore[assignment]  # the adapter in the fake's place
    Api(world).create(schedule={"type": "once", "at": "2027-01-31T15:59:42.123+01:00"})
    [schedule] = schedules(aws)
    assert schedule["ScheduleExpressionTimezone"] == "UTC"
    match = re.fullmatch(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)", schedule["ScheduleExpression"])
    assert match is not None
    fires = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    lead = (datetime(2027, 1, 31, 14, 59, 42, tzinfo=UTC) - fires).total_seconds()
    assert SCHEDULE_LEAD <= lead < SCHEDULE_LEAD + SCHEDULE_SPREAD


@pytest.mark.case(14)
def test_cancel_deletes_the_schedule_of_a_waiting_retry(aws: Aws) -> None:
    world = World(clock=FakeClock(NOW))
    world.timetable = make_timetable(aws, world.clock)  # type: ignore[assignment]  # the adapter in the fake's place
    driver = driver_on(aws, world)
    waiting = make_run(state=RunState.WAITING, attempt=1, due_at=NOW + 3_600)
    job = driver.services.jobs.create(make_job(next_slot=None, document={"schedule": ONCE}, runs={str(NOW): waiting}))
    other = driver.create(schedule={"type": "interval", "everySeconds": 7_200})
    world.timetable.arm(Hint(job.id, str(NOW), 2), due_at=NOW + 3_600, priority=job.priority)
    assert len(schedules(aws)) == 2
    cancel_job(driver.services, SCHEDULER, job.id)
    [left] = schedules(aws)
    assert other.id in left["Target"]["Input"]


BIG = '{"text":"' + "x" * 100_000 + '"}'


@pytest.mark.slow
@pytest.mark.case(20)
@pytest.mark.parametrize(
    ("row", "broken"),
    [
        ("inline", "payload"),
        ("own", "row gone"),
        *(pytest.param(*case, marks=pytest.mark.nightly) for case in (("inline", "document"), ("own", "payload"))),
        pytest.param("own", "document", marks=pytest.mark.nightly),
    ],
)
def test_a_corrupt_definition_ends_in_history_and_others_go_on(aws: Aws, row: str, broken: str) -> None:
    driver = driver_on(aws)
    job = driver.create(schedule=ONCE, payload=BIG if row == "own" else "{}")
    other = driver.create(schedule=MINUTELY, maxRuns=3)
    key = {"jobId": {"S": job.id}, "S": {"S": job.definition_row or "S"}}
    assert (job.definition_row is None) == (row == "inline")
    if broken == "row gone":
        aws.dynamodb.delete_item(TableName=aws.jobs_table, Key=key)
    else:
        aws.dynamodb.update_item(
            TableName=aws.jobs_table,
            Key=key,
            UpdateExpression="SET #name = :broken",
            ExpressionAttributeNames={"#name": "p" if broken == "payload" else "d"},
            ExpressionAttributeValues={":broken": {"S": '{"a": '}},
        )
    driver.run(2 * 3_600)
    found = driver.services.history.get(job.id, str(NOW + 10), 1)
    assert found is not None
    assert found.error is not None
    assert found.error.code == ("PAYLOAD_ERROR" if broken == "payload" else "QUARANTINED")
    assert found.is_dead_letter
    dead = aws.dynamodb.scan(TableName=aws.executions_table, IndexName="dead")["Items"]
    assert [item["jobId"]["S"] for item in dead] == [job.id]
    ended = driver.services.jobs.get(job.id)
    assert ended is not None
    assert (ended.status, ended.attention_at) == (JobStatus.FAILED, None)
    assert [call.job_id for call in driver.world.targets.calls] == [other.id] * 3
    driver.run(5 * 540)
    assert driver.world.timetable.armed == []


@pytest.mark.slow
@pytest.mark.case(21)
def test_the_attention_index_gives_the_longest_overdue_first_over_pages(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred runs with leases, whose rows were due in the index since their start; one stuck, started last."""
    monkeypatch.setattr(dynamodb_jobs, "ATTENTION_PAGE", 7)
    driver = driver_on(aws)
    ids = [one for one in (str(uuid.UUID(int=number)) for number in range(6_000)) if attention_shard(one) == 3][:101]
    for number, job_id in enumerate(ids):
        stuck = number == 100
        lease = NOW + (75 if stuck else 3_600)
        run = make_run(started_at=float(NOW - 100 + number), lease_expires_at=lease)
        driver.services.jobs.create(
            make_job(
                id=job_id, document={"schedule": ONCE}, next_slot=None, runs={str(NOW): run}, attention_at=NOW + 30
            )
        )
    driver.clock.sleep(60.5)
    first = driver.sweep_now()
    assert first is not None
    assert first.reasons == {"WATCHED": 101}
    driver.clock.sleep(20)
    second = driver.sweep_now()
    assert second is not None
    assert second.reasons == {"RECOVERED": 1}
    assert driver.row(ids[100]).status is JobStatus.RETRYING
    assert driver.row(ids[0]).status is JobStatus.RUNNING


@pytest.mark.slow
@pytest.mark.case(39)
def test_a_minutely_job_with_a_large_payload_writes_one_unit_at_a_time(aws: Aws) -> None:
    driver = driver_on(aws)
    driver.world.targets.answers = [FAILED]
    job = driver.create(
        schedule=MINUTELY,
        payload=BIG,
        overlapPolicy="allow",
        retryConfig={"initialDelaySeconds": 100, "jitter": 0, "maxRetries": 2},
    )
    sizes: list[int] = []
    written: list[str] = []

    def after(parsed: Any, model: Any, **_: Any) -> None:
        if "Error" not in parsed:
            written.append(model.name)
            row = aws.dynamodb.get_item(
                TableName=aws.jobs_table, Key={"jobId": {"S": job.id}, "S": {"S": "S"}}, ConsistentRead=True
            )["Item"]
            sizes.append(item_size(row))

    before_call: list[str] = []

    def before(params: Any, **_: Any) -> None:
        before_call.append(params["body"].decode() if isinstance(params["body"], bytes) else str(params["body"]))

    events = aws.dynamodb.meta.events
    events.register("after-call.dynamodb.UpdateItem", after)
    events.register("before-call.dynamodb.UpdateItem", before)
    driver.run(601)
    assert len(written) > 30
    assert max(sizes) <= 1_024, "one write unit is 1 KB"
    assert max(len(body) for body in before_call) < 3_000, "the payload is never sent again"
    assert all(call.payload == BIG for call in driver.world.targets.calls)
