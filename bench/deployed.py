"""API, executor and sweep on the real adapters over AWS in memory, their calls watched; only the targets are none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import boto3
from moto import mock_aws

from bench.call_log import Call, CallLog
from bench.invocations import hints_event, invoked
from bench.request_time import RULES, reference_body
from functions.adapters.dynamodb_circuits import DynamoDbCircuits
from functions.adapters.dynamodb_graph import DynamoDbDependents, DynamoDbGraphs
from functions.adapters.dynamodb_history import DynamoDbHistory
from functions.adapters.dynamodb_idempotency import DynamoDbIdempotencyKeys
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.adapters.dynamodb_limits import DynamoDbRateLimits
from functions.adapters.dynamodb_owners import DynamoDbOwners
from functions.adapters.dynamodb_progress import DynamoDbProgress
from functions.adapters.dynamodb_retry_configs import DynamoDbRetryConfigs
from functions.adapters.dynamodb_shares import DynamoDbShareRows
from functions.adapters.dynamodb_slots import DynamoDbSlots
from functions.adapters.dynamodb_workers import DynamoDbWorkers
from functions.adapters.dynamodb_workflows import DynamoDbWorkflows
from functions.adapters.process_shares import ProcessShares
from functions.adapters.remembered_job_types import RememberedJobTypes
from functions.adapters.timetable import RunQueue, SqsTimetable
from functions.api.app import create_app
from functions.domain.definition import Priority
from functions.domain.hint import Hint
from functions.domain.ids import slot_id
from functions.domain.job_type import TypeConfig
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.shares import Share
from functions.usecases.executor import handle_hint
from functions.usecases.services import Engine, Executor, Services
from functions.usecases.sweep import Swept, sweep
from tests.api_client import sample_event
from tests.fakes import FakeClock, FakeMachine, FakeTargets, InMemoryWebhookKeys
from tests.tables import create_tables

REGION = "eu-central-1"
GROUP = "hints"
SHARES = dict.fromkeys(Priority, Share(processes=50, starts_per_minute=3_000))
LIMITS = {
    "reads_per_minute": 10_000,
    "writes_per_minute": 10_000,
    "work_per_minute": 10_000,
    "creations_per_day": 100_000,
}


@contextmanager
def on_moto() -> Iterator[Deployed]:
    with mock_aws():
        yield Deployed()


class Never:
    """Calls that end within a second are not looked at meanwhile."""

    def cancel(self) -> None:
        """Nothing is to come."""


class Deployed:
    """What is deployed, and who calls it. `clock` moves only where it is moved."""

    def __init__(self) -> None:
        session = boto3.Session("test", "test", region_name=REGION)
        dynamodb, sqs, scheduler = (session.client(name) for name in ("dynamodb", "sqs", "scheduler"))  # type: ignore[call-overload]  # the stubs know literals only
        create_tables(dynamodb)
        scheduler.create_schedule_group(Name=GROUP)
        self.log = CallLog(session.client("dynamodb"))
        self.clock = FakeClock()
        queues = {}
        for priority in Priority:
            url = sqs.create_queue(QueueName=f"run-{priority}")["QueueUrl"]
            queues[priority] = RunQueue(url, f"arn:aws:sqs:{REGION}:123456789012:run-{priority}")
        retry_configs = DynamoDbRetryConfigs(dynamodb, "coordination")
        ports: Any = {
            "jobs": DynamoDbJobs(dynamodb, "jobs", graphs="coordination"),
            "history": DynamoDbHistory(dynamodb, "executions", retention_days=30),
            "timetable": SqsTimetable(
                sqs,
                scheduler,
                queues=queues,
                group=GROUP,
                role_arn="arn:aws:iam::123456789012:role/hints",
                clock=self.clock,
            ),
            "slots": DynamoDbSlots(dynamodb, "coordination"),
            "circuits": DynamoDbCircuits(dynamodb, "coordination"),
            "clock": self.clock,
            "types": RememberedJobTypes(retry_configs, clock=self.clock, defaults=TypeConfig()),
        }
        services = Services(
            **ports,
            idempotency=DynamoDbIdempotencyKeys(dynamodb, "idempotency"),
            owners=DynamoDbOwners(dynamodb, "coordination"),
            workers=DynamoDbWorkers(dynamodb, "coordination"),
            progress=DynamoDbProgress(dynamodb, "coordination"),
            retry_configs=retry_configs,
            webhook_keys=InMemoryWebhookKeys(),
            machine=FakeMachine(self.clock),
            dependents=DynamoDbDependents(dynamodb, "coordination"),
            graphs=DynamoDbGraphs(dynamodb, "coordination"),
            workflows=DynamoDbWorkflows(dynamodb, "coordination"),
        )
        self._app = create_app(
            services,
            limits=DynamoDbRateLimits(dynamodb, "coordination", **LIMITS),
            rules=RULES,
            check_address=lambda _url: None,  # it asks the DNS
            stage="bench",
            version="0",
        )
        self.engine = Engine(**ports)
        self._targets = FakeTargets()
        self._executor = Executor(
            **ports,
            targets=self._targets,
            machine=FakeMachine(self.clock),
            shares=ProcessShares(
                DynamoDbShareRows(dynamodb, "coordination"), SHARES, clock=self.clock, call_later=lambda *_: Never()
            ),
            dependents=DynamoDbDependents(dynamodb, "coordination"),
        )
        for client in (dynamodb, sqs, scheduler):
            self.log.watch(client)
        self.path = ""
        """Of the job created last."""

    def create(self, body: Mapping[str, Any] | None = None, *, key: str | None = None) -> list[Call]:
        event = sample_event("api-create-job") | {"body": json.dumps(body or reference_body())}
        del event["headers"]["x-idempotency-key"]
        if key is not None:
            event["headers"]["x-idempotency-key"] = key
        calls, answer = self._request(event, 201)
        self.path = answer["headers"]["Location"]
        return calls

    def create_many(self, bodies: Sequence[Mapping[str, Any]]) -> tuple[list[Call], list[str]]:
        """One request to POST /v1/jobs/bulk without idempotency key: its calls, and the ids of the jobs."""
        calls, answer = self._request(bulk_event(bodies), 200)
        results = json.loads(answer["body"])["data"]
        return calls, [one["job"]["id"] for one in results]

    def register(self, queues: Sequence[str]) -> str:
        """A worker's id."""
        return str(self.post("/v1/workers", {"queues": list(queues)}, status=201)[1]["id"])

    def post(self, path: str, body: Mapping[str, Any], *, status: int = 200) -> tuple[list[Call], dict[str, Any]]:
        """A request's calls and its answer."""
        event = sample_event("api-create-job") | {"rawPath": path, "body": json.dumps(body)}
        del event["headers"]["x-idempotency-key"]
        event["requestContext"]["http"]["path"] = path
        calls, answer = self._request(event, status)
        return calls, json.loads(answer["body"])

    def get(self) -> list[Call]:
        event = sample_event("api-get-job") | {"rawPath": self.path}
        del event["headers"]["if-none-match"]
        event["requestContext"]["http"]["path"] = self.path
        return self._request(event, 200)[0]

    def list(self, *, owner: str | None = None) -> list[Call]:
        """A list of one owner, or of both that the caller acts for."""
        query = "limit=50" if owner is None else f"limit=50&owner={owner}"
        event = sample_event("api-list-jobs") | {"rawQueryString": query}
        calls, answer = self._request(event, 200)
        if not json.loads(answer["body"])["data"]:
            raise AssertionError("an empty list says nothing about the calls of a list")
        return calls

    def run(self, slot: int, *, ends: bool = True) -> list[Call]:
        """The hint of the last created job's slot comes on time; its target succeeds at once, or only accepts."""
        self.clock.time = slot + 0.1
        self.log.take()
        hint = Hint(self.path.rpartition("/")[2], slot_id(slot), 1)
        handled = handle_hint(self._executor, hint)
        execution = handled.execution
        if (execution is not None) is not ends or (execution is not None and execution.error is not None):
            raise AssertionError(f"the run did not succeed: {handled}")
        return self.log.take()

    def deliver(
        self, hints: Sequence[Hint], answer: TargetAnswer | Callable[[Invocation], TargetAnswer], *, at: float
    ) -> tuple[list[Call], str]:
        """One batch to the executor's handler at this instant: its calls, and what it wrote to its log.

        Raises AssertionError where the handler gives a message back.
        """
        self.clock.time = at
        self._targets.answers = [answer]
        self.log.take()
        failures, written = invoked(self._executor, hints_event(hints))
        if failures:
            raise AssertionError(f"{len(failures)} of {len(hints)} hints failed: {written}")
        return self.log.take(), written

    def tick(self) -> tuple[list[Call], Swept]:
        """One tick of the sweep."""
        self.log.take()
        swept = sweep(self.engine, deadline=self.clock.now() + 50, shuffle=lambda _: None)
        return self.log.take(), swept

    def _request(self, event: dict[str, Any], status: int) -> tuple[list[Call], dict[str, Any]]:
        self.log.take()
        answer = self._app(event, None)
        if answer["statusCode"] != status:
            raise AssertionError(f"{answer['statusCode']}: {answer['body']}")
        return self.log.take(), answer


def bulk_event(bodies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    event = sample_event("api-create-job")
    event |= {"rawPath": "/v1/jobs/bulk", "body": json.dumps({"items": list(bodies)})}
    event["requestContext"]["http"]["path"] = "/v1/jobs/bulk"
    del event["headers"]["x-idempotency-key"]
    return event
