"""The flows stopped after each single write, over the DynamoDB adapters: the same ends as over the fakes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from functions.adapters import dynamodb_keys
from functions.adapters.dynamodb_circuits import DynamoDbCircuits
from functions.adapters.dynamodb_graph import DynamoDbDependents, DynamoDbGraphs
from functions.adapters.dynamodb_history import DynamoDbHistory
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.adapters.dynamodb_slots import DynamoDbSlots
from tests.driver import Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.faults import Faults
from tests.flows import FLOWS, SETTLE, Flow, check_repaired, scheduled_lateness

if TYPE_CHECKING:
    from tests.conftest import Aws

FEW = 4
"""Shards of the attention index here. Nearly all that these tests did was asking 32 of them for one job."""


@pytest.fixture(autouse=True)
def _few_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamodb_keys, "SHARDS", FEW)
    monkeypatch.setattr(DynamoDbJobs, "shards", FEW)


def driver_over(aws: Aws) -> Driver:
    return Driver(
        World(clock=FakeClock(NOW)),
        jobs=DynamoDbJobs(aws.dynamodb, aws.jobs_table, graphs=aws.coordination_table),
        history=DynamoDbHistory(aws.dynamodb, aws.executions_table, retention_days=30),
        circuits=DynamoDbCircuits(aws.dynamodb, aws.coordination_table),
        slots=DynamoDbSlots(aws.dynamodb, aws.coordination_table),
        dependents=DynamoDbDependents(aws.dynamodb, aws.coordination_table),
        graphs=DynamoDbGraphs(aws.dynamodb, aws.coordination_table),
    )


IN_CI = {
    "once",
    "cron-three-minutes",
    "once-retried-twice",
    "orchestrated",
    "callback",
    "cancel-running",
    "approved",
    "concurrency-waits",
    "child",
}
"""One flow of each kind; the others run nightly. All of them run over the fakes each time (test_crash_points.py)."""


def test_the_flows_of_ci_are_there() -> None:
    assert {flow.name for flow in FLOWS} > IN_CI


@pytest.mark.timeout(300)
@pytest.mark.case(32)
@pytest.mark.parametrize(
    "flow",
    [pytest.param(flow, id=flow.name, marks=() if flow.name in IN_CI else pytest.mark.nightly) for flow in FLOWS],
)
def test_a_death_after_any_write_is_repaired(flow: Flow, aws: Aws) -> None:
    undisturbed = driver_over(aws)
    job_id = flow.run(undisturbed)
    starts = scheduled_lateness(undisturbed, job_id)
    make_room(aws)
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
        make_room(aws)
        if not crashed:
            assert step > 3
            break


def make_room(aws: Aws) -> None:
    """The sweep of the next round sees its own jobs only, and its targets and keys are new."""
    keys = {aws.jobs_table: ("jobId", "S"), aws.coordination_table: ("kind", "name")}
    for table, names in keys.items():
        for row in aws.dynamodb.scan(TableName=table)["Items"]:
            aws.dynamodb.delete_item(TableName=table, Key={name: row[name] for name in names})
