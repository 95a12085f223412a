"""The flows stopped after each single write, over the DynamoDB adapters: the same ends as over the fakes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from functions.adapters.dynamodb_history import DynamoDbHistory
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.domain.ids import is_manual, slot_instant
from tests.driver import Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.faults import Faults
from tests.flows import FLOWS, SKIPPED, Flow, check_settled, final_statuses

if TYPE_CHECKING:
    from tests.conftest import Aws

COVERED = ("once-retried-twice", "once-with-a-big-definition", "overlap-queue", "pause-and-resume", "cancel-running")


@pytest.mark.slow
@pytest.mark.case(32)
@pytest.mark.parametrize("flow", [flow for flow in FLOWS if flow.name in COVERED], ids=lambda flow: flow.name)
def test_a_death_after_any_write_is_repaired(flow: Flow, aws: Aws) -> None:
    for step in itertools.count(1):
        faults = Faults(crash_after=step)
        faults.watch(aws.dynamodb)
        world = World(clock=FakeClock(NOW))
        driver = Driver(
            world,
            jobs=DynamoDbJobs(aws.dynamodb, aws.jobs_table),
            history=DynamoDbHistory(aws.dynamodb, aws.executions_table, retention_days=30),
        )
        job_id = flow.run(driver)
        crashed = faults.crashed
        faults.disarm()
        driver.run(600)
        where = f"{flow.name}, after {step}: {faults.steps[:step][-3:]}"
        check_settled(driver, job_id)
        statuses = final_statuses(driver, job_id)
        scheduled = {slot_instant(slot) - NOW: found for slot, found in statuses.items() if not is_manual(slot)}
        for slot, outcome in flow.outcomes.items():
            allowed = {outcome, flow.after_a_death} | ({SKIPPED} if flow.recurring else set())
            assert scheduled[slot][-1] in allowed, f"{where}: {slot}"
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
