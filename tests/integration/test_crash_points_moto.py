"""The flows stopped after each single write, over the DynamoDB adapters: the same ends as over the fakes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from functions.adapters.dynamodb_history import DynamoDbHistory
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from tests.driver import Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.faults import Faults
from tests.flows import FLOWS, SETTLE, Flow, check_repaired, scheduled_lateness

if TYPE_CHECKING:
    from tests.conftest import Aws


def driver_over(aws: Aws) -> Driver:
    return Driver(
        World(clock=FakeClock(NOW)),
        jobs=DynamoDbJobs(aws.dynamodb, aws.jobs_table),
        history=DynamoDbHistory(aws.dynamodb, aws.executions_table, retention_days=30),
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.case(32)
@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_a_death_after_any_write_is_repaired(flow: Flow, aws: Aws) -> None:
    undisturbed = driver_over(aws)
    job_id = flow.run(undisturbed)
    starts = scheduled_lateness(undisturbed, job_id)
    delete_job(aws, job_id)
    for step in itertools.count(1):
        faults = Faults(crash_after=step)
        faults.watch(aws.dynamodb)
        driver = driver_over(aws)
        job_id = flow.run(driver)
        crashed = faults.crashed
        faults.disarm()
        driver.run(SETTLE)
        check_repaired(
            driver, flow, job_id, starts=starts, where=f"{flow.name}, after {step}: {faults.steps[:step][-3:]}"
        )
        delete_job(aws, job_id)
        if not crashed:
            assert step > 3
            break


def delete_job(aws: Aws, job_id: str) -> None:
    """Make room: the sweep of the next round sees its own job only."""
    rows = aws.dynamodb.query(
        TableName=aws.jobs_table,
        KeyConditionExpression="jobId = :job",
        ExpressionAttributeValues={":job": {"S": job_id}},
    )["Items"]
    for row in rows:
        aws.dynamodb.delete_item(TableName=aws.jobs_table, Key={"jobId": row["jobId"], "S": row["S"]})
