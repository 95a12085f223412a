"""Each port twice: in memory, and the adapter on moto. One suite a port runs over both."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from functions.adapters.dynamodb_circuits import DynamoDbCircuits
from functions.adapters.dynamodb_graph import DynamoDbDependents, DynamoDbGraphs
from functions.adapters.dynamodb_history import DynamoDbHistory
from functions.adapters.dynamodb_idempotency import DynamoDbIdempotencyKeys
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.adapters.dynamodb_owners import DynamoDbOwners
from functions.adapters.dynamodb_progress import DynamoDbProgress
from functions.adapters.dynamodb_retry_configs import DynamoDbRetryConfigs
from functions.adapters.dynamodb_shares import DynamoDbShareRows
from functions.adapters.dynamodb_slots import DynamoDbSlots
from functions.adapters.dynamodb_workers import DynamoDbWorkers
from functions.adapters.dynamodb_workflows import DynamoDbWorkflows
from functions.adapters.eventbridge import EventBridgeBus
from functions.adapters.sqs_dead_letters import SqsDeadLetters
from functions.adapters.state_machine import StateMachine
from functions.adapters.timetable import RunQueue, SqsTimetable
from tests.fakes import (
    FakeClock,
    FakeDeadLetters,
    FakeEventBus,
    FakeMachine,
    FakeTimetable,
    InMemoryCircuits,
    InMemoryHistory,
    InMemoryIdempotencyKeys,
    InMemoryJobs,
    InMemoryOwners,
    InMemoryProgress,
    InMemoryRetryConfigs,
    InMemorySlots,
    InMemoryWorkers,
)
from tests.faults import Faults
from tests.graph_fakes import InMemoryDependents, InMemoryWorkflows
from tests.kept_items import all_items, check_item
from tests.share_fakes import InMemoryShareRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Aws

RETENTION_DAYS = 30


@pytest.fixture(params=["fake", "moto"])
def platform(request: pytest.FixtureRequest) -> Iterator[Aws | None]:
    """AWS in memory for the adapters; None for the fakes."""
    if request.param == "fake":
        yield None
        return
    aws: Aws = request.getfixturevalue("aws")
    yield aws
    tables = (aws.jobs_table, aws.executions_table, aws.idempotency_table, aws.coordination_table)
    for table, item in all_items(aws.dynamodb, {name: name for name in tables}):
        check_item(table, item)


@pytest.fixture
def faults(platform: Aws | None) -> Faults:
    faults = Faults()
    if platform is not None:
        for client in (platform.dynamodb, platform.sqs, platform.scheduler, platform.states, platform.events):
            faults.watch(client)
    return faults


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def jobs(platform: Aws | None, faults: Faults) -> Any:
    if platform is None:
        return InMemoryJobs(faults=faults)
    return DynamoDbJobs(platform.dynamodb, platform.jobs_table, graphs=platform.coordination_table)


@pytest.fixture
def lose_definition(platform: Aws | None, jobs: Any) -> Callable[[str], None]:
    """Makes a job's definition unreadable where it is stored."""
    if platform is None:
        return jobs.lose_definition

    def lose(job_id: str) -> None:
        job = jobs.get(job_id)
        row = job.definition_row or "S"
        platform.dynamodb.update_item(
            TableName=platform.jobs_table,
            Key={"jobId": {"S": job_id}, "S": {"S": row}},
            UpdateExpression="SET d = :broken",
            ExpressionAttributeValues={":broken": {"S": '{"name": '}},
        )

    return lose


@pytest.fixture
def spoil(platform: Aws | None, jobs: Any) -> Callable[..., None]:
    """Makes a job's row unreadable where it is stored, or readable again with `mended`."""
    if platform is None:
        return jobs.spoil

    def change(job_id: str, *, mended: bool = False) -> None:
        platform.dynamodb.update_item(
            TableName=platform.jobs_table,
            Key={"jobId": {"S": job_id}, "S": {"S": "S"}},
            UpdateExpression="SET pr = :priority",
            ExpressionAttributeValues={":priority": {"S": "normal" if mended else "urgent"}},
        )

    return change


@pytest.fixture
def graphs(platform: Aws | None, jobs: Any) -> Any:
    """The versions that `jobs` writes."""
    if platform is None:
        return jobs.graphs
    return DynamoDbGraphs(platform.dynamodb, platform.coordination_table)


@pytest.fixture
def dependents(platform: Aws | None, faults: Faults) -> Any:
    if platform is None:
        return InMemoryDependents(faults=faults)
    return DynamoDbDependents(platform.dynamodb, platform.coordination_table)


@pytest.fixture
def workflows(platform: Aws | None, faults: Faults) -> Any:
    if platform is None:
        return InMemoryWorkflows(faults=faults)
    return DynamoDbWorkflows(platform.dynamodb, platform.coordination_table)


@pytest.fixture
def break_workflow(platform: Aws | None, workflows: Any) -> Callable[[str], None]:
    """Makes a workflow unreadable where it is stored."""
    if platform is None:
        return workflows.broken.add

    def spoil(workflow_id: str) -> None:
        platform.dynamodb.update_item(
            TableName=platform.coordination_table,
            Key={"kind": {"S": "workflow"}, "name": {"S": workflow_id}},
            UpdateExpression="SET j = :broken",
            ExpressionAttributeValues={":broken": {"S": '[["a"]]'}},
        )

    return spoil


@pytest.fixture
def history(platform: Aws | None, faults: Faults) -> Any:
    if platform is None:
        return InMemoryHistory(faults=faults)
    return DynamoDbHistory(platform.dynamodb, platform.executions_table, retention_days=RETENTION_DAYS)


@pytest.fixture
def idempotency(platform: Aws | None, faults: Faults) -> Any:
    if platform is None:
        return InMemoryIdempotencyKeys(faults=faults)
    return DynamoDbIdempotencyKeys(platform.dynamodb, platform.idempotency_table)


@pytest.fixture
def retry_configs(platform: Aws | None, faults: Faults) -> Any:
    if platform is None:
        return InMemoryRetryConfigs(faults=faults)
    return DynamoDbRetryConfigs(platform.dynamodb, platform.coordination_table)


@pytest.fixture
def break_config(platform: Aws | None, retry_configs: Any) -> Callable[[str], None]:
    """Makes a type's configuration unreadable where it is stored."""
    if platform is None:
        return retry_configs.broken.add

    def spoil(job_type: str) -> None:
        platform.dynamodb.update_item(
            TableName=platform.coordination_table,
            Key={"kind": {"S": "retry-config"}, "name": {"S": job_type}},
            UpdateExpression="SET d = :broken",
            ExpressionAttributeValues={":broken": {"S": '{"maxRetries": "many"}'}},
        )

    return spoil


@pytest.fixture
def owners(platform: Aws | None, faults: Faults) -> Any:
    if platform is None:
        return InMemoryOwners(faults=faults)
    return DynamoDbOwners(platform.dynamodb, platform.coordination_table)


@pytest.fixture
def circuits(platform: Aws | None, faults: Faults) -> Any:
    if platform is None:
        return InMemoryCircuits(faults=faults)
    return DynamoDbCircuits(platform.dynamodb, platform.coordination_table)


@pytest.fixture
def share_rows(platform: Aws | None) -> Any:
    return (
        InMemoryShareRows() if platform is None else DynamoDbShareRows(platform.dynamodb, platform.coordination_table)
    )


@pytest.fixture
def slots(platform: Aws | None, faults: Faults) -> Any:
    if platform is None:
        return InMemorySlots(faults=faults)
    return DynamoDbSlots(platform.dynamodb, platform.coordination_table)


@pytest.fixture
def workers(platform: Aws | None, faults: Faults) -> Any:
    if platform is None:
        return InMemoryWorkers(faults=faults)
    return DynamoDbWorkers(platform.dynamodb, platform.coordination_table)


@pytest.fixture
def progress(platform: Aws | None, faults: Faults) -> Any:
    if platform is None:
        return InMemoryProgress(faults=faults)
    return DynamoDbProgress(platform.dynamodb, platform.coordination_table)


@pytest.fixture
def dead_letters(platform: Aws | None, faults: Faults) -> Any:
    if platform is None:
        return FakeDeadLetters(faults=faults)
    return SqsDeadLetters(platform.sqs, platform.dead_letter_queue_url)


@pytest.fixture
def event_bus(platform: Aws | None, faults: Faults) -> Any:
    if platform is None:
        return FakeEventBus(faults=faults)
    return EventBridgeBus(platform.events, platform.event_bus)


@pytest.fixture
def timetable(platform: Aws | None, faults: Faults, clock: FakeClock) -> Any:
    if platform is None:
        return FakeTimetable(clock, faults=faults)
    return make_timetable(platform, clock)


@pytest.fixture
def machine(platform: Aws | None, faults: Faults, clock: FakeClock) -> Any:
    if platform is None:
        return FakeMachine(clock, faults=faults)
    return StateMachine(lambda: platform.states, arn=platform.machine, clock=clock)


def make_timetable(aws: Aws, clock: FakeClock, *, capacity: int = 0) -> SqsTimetable:
    return SqsTimetable(
        aws.sqs,
        aws.scheduler,
        queues={priority: RunQueue(*queue, capacity) for priority, queue in aws.queues.items()},
        group=aws.schedule_group,
        role_arn=aws.scheduler_role_arn,
        clock=clock,
    )


def at_once(count: int, call: Callable[[int], Any]) -> list[Any]:
    """What `count` threads get that call at the same time: an answer or an exception each."""
    barrier = threading.Barrier(count)

    def one(number: int) -> Any:
        barrier.wait()
        try:
            return call(number)
        except Exception as error:  # noqa: BLE001 - an answer like any other here
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))
