"""What every test gets: no AWS environment, no network outside e2e, and AWS in memory (moto) where it asks for it."""

from __future__ import annotations

import functools
import json
import os
import random
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
import pytest_socket
from botocore.config import Config
from hypothesis import settings
from moto import mock_aws
from moto.core.botocore_stubber import BotocoreStubber

from functions import telemetry
from functions.domain.definition import Priority
from tests import dynamodb_rules
from tests.seeded import ids_of
from tests.tables import create_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

REGION = "eu-central-1"

# A busy machine is no wrong answer: an example may take as long as it takes.
settings.register_profile("gnomon", deadline=None)
settings.load_profile("gnomon")


_SLOW_FOLDERS = (Path(__file__).parent / "infra", Path(__file__).parent / "integration")
"""They synthesize stacks, or run over AWS in memory."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """`make check` leaves out what runs over AWS in memory or synthesizes: it runs the same over the fakes."""
    called_with = getattr(item, "callspec", None)
    on_aws = "aws" in getattr(item, "fixturenames", ()) or (
        called_with and called_with.params.get("platform") == "moto"
    )
    if on_aws or any(item.path.is_relative_to(folder) for folder in _SLOW_FOLDERS):
        item.add_marker("slow")


@pytest.fixture(autouse=True)
def _no_aws_environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials, profile or endpoint of the machine reaches a test."""
    if request.node.get_closest_marker("e2e"):
        return
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Gnomon/test")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)


@pytest.fixture(autouse=True)
def _ids_follow_the_seed(request: pytest.FixtureRequest) -> Iterator[None]:
    """`--randomly-seed=<the printed seed>` repeats a run: its order, and every id that tests and product draw."""
    if request.node.get_closest_marker("e2e"):
        yield
        return
    with ids_of(random.getrandbits(64)):
        yield


class CurrentOutput:
    """Standard output as it is at each write: a logger outlives its test, and the stream that pytest gave the test."""

    def write(self, text: str) -> int:
        return sys.stdout.write(text)

    def flush(self) -> None:
        sys.stdout.flush()


@pytest.fixture(autouse=True, scope="session")
def _loggers_outlive_tests() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(telemetry, "Logger", functools.partial(telemetry.Logger, stream=CurrentOutput()))
        yield


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sockets are off. Tests marked e2e have them; the fixture `loopback` allows 127.0.0.0/8."""
    if request.node.get_closest_marker("e2e"):
        yield
        return
    if "loopback" in request.fixturenames:
        pytest_socket.socket_allow_hosts(["127.0.0.0/8", "::1"], allow_unix_socket=True)
    else:
        pytest_socket.disable_socket(allow_unix_socket=True)
    yield
    pytest_socket.enable_socket()


@pytest.fixture
def loopback() -> None:
    """This test talks to a server of its own on this machine."""


@dataclass
class Aws:
    """Clients over AWS in memory, and the names of what is there."""

    dynamodb: Any
    sqs: Any
    scheduler: Any
    states: Any
    """Without the SDK's retries, as functions.adapters.state_machine has it."""
    machine: str
    """ARN of a state machine that does nothing."""
    events: Any
    jobs_table: str
    executions_table: str
    idempotency_table: str
    coordination_table: str
    queues: dict[Priority, Any]
    dead_letter_queue_url: str
    event_bus: str
    subscriber_url: str
    """Of a queue that gets everything from the bus."""
    schedule_group: str = "gnomon"
    scheduler_role_arn: str = "arn:aws:iam::123456789012:role/hints"


@pytest.fixture
def _as_dynamodb_does(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """DynamoDB checks a condition and writes in one step; moto does only while nobody else is in it. And it refuses
    requests that moto takes: they fail the test, whatever became of them."""
    lock, original = threading.RLock(), BotocoreStubber.process_request
    refused: list[str] = []

    def process_request(self: BotocoreStubber, request: Any) -> Any:
        service, _, operation = _header(request, "X-Amz-Target").partition(".")
        if service == "DynamoDB_20120810":
            refused.extend(dynamodb_rules.problems(operation, json.loads(request.body)))
        with lock:
            return original(self, request)

    monkeypatch.setattr(BotocoreStubber, "process_request", process_request)
    yield
    assert not refused, refused


def _header(request: Any, name: str) -> str:
    value = request.headers.get(name, "")
    return value.decode() if isinstance(value, bytes) else value


@functools.cache
def _session() -> boto3.Session:
    """One for all tests: it keeps the service models it read."""
    return boto3.Session("test", "test", region_name=REGION)


@pytest.fixture
def aws(_as_dynamodb_does: None) -> Iterator[Aws]:
    """The tables and queues of the stack, on moto."""
    with mock_aws():
        session = _session()
        # The SDK's own retries without their delay.
        config = Config(retries={"mode": "standard", "max_attempts": 2}, max_pool_connections=64)
        dynamodb, sqs, scheduler, events = (
            session.client(name, config=config) for name in ("dynamodb", "sqs", "scheduler", "events")
        )
        tables = create_tables(dynamodb)
        queues = {priority: _queue(sqs, f"run-{priority}") for priority in Priority}
        states = session.client("stepfunctions", config=Config(retries={"total_max_attempts": 1}))
        machine = states.create_state_machine(
            name="attempts",
            definition=json.dumps({"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}),
            roleArn="arn:aws:iam::123456789012:role/attempts",
        )
        scheduler.create_schedule_group(Name="gnomon")
        events.create_event_bus(Name="gnomon")
        subscriber_url, subscriber_arn = _queue(sqs, "subscriber")
        events.put_rule(Name="all", EventBusName="gnomon", EventPattern='{"source": ["gnomon"]}')
        events.put_targets(Rule="all", EventBusName="gnomon", Targets=[{"Id": "queue", "Arn": subscriber_arn}])
        yield Aws(
            dynamodb=dynamodb,
            sqs=sqs,
            scheduler=scheduler,
            states=states,
            machine=machine["stateMachineArn"],
            events=events,
            event_bus="gnomon",
            subscriber_url=subscriber_url,
            queues=queues,
            dead_letter_queue_url=_queue(sqs, "dead-letters")[0],
            **tables,
        )


def _queue(sqs: Any, name: str) -> tuple[str, str]:
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    return url, sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
