"""Row 4: the calls to AWS that each request makes, and those of whole runs, on the real adapters over AWS in memory.

They are counted where boto3 makes them. What a target does is not in it, and neither is what Lambda's own poller of
the run queues does (a receive and a delete a batch).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from moto import mock_aws

from bench.call_log import Call, CallLog
from bench.request_time import RULES, reference_body
from functions.adapters.dynamodb_history import DynamoDbHistory
from functions.adapters.dynamodb_idempotency import DynamoDbIdempotencyKeys
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.adapters.dynamodb_limits import DynamoDbRateLimits
from functions.adapters.dynamodb_owners import DynamoDbOwners
from functions.adapters.timetable import RunQueue, SqsTimetable
from functions.api.app import create_app
from functions.domain.definition import Priority
from functions.domain.hint import Hint
from functions.domain.ids import slot_id
from functions.domain.instants import rfc3339
from functions.usecases.executor import handle_hint
from functions.usecases.services import Executor, Services
from tests.api_client import sample_event
from tests.fakes import FakeClock, FakeTargets
from tests.tables import create_tables

REGION = "eu-central-1"
GROUP = "hints"
LIMITS = {"reads_per_minute": 10_000, "writes_per_minute": 10_000, "creations_per_day": 100_000}
JOBS_OF_A_LIST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The calls of one request or run."""

    what: str
    calls: Sequence[Call]
    budget: int | None = None
    """Calls at most; None where there is no budget."""

    @property
    def read_units(self) -> float:
        return sum(call.read_units for call in self.calls)

    @property
    def write_units(self) -> int:
        return sum(call.write_units for call in self.calls)


def count_calls() -> list[Counted]:
    """Requests with their budgets, then runs."""
    with on_moto() as deployed:
        first = deployed.create()
        inline = _requests(deployed, reference_body(), "", 0)
        large = _requests(deployed, reference_body() | {"payload": {"text": "x" * 2000}}, ", definition apart", 1)
        return [
            *inline,
            *large,
            Counted(what="POST /v1/jobs, its owner's first in a process", calls=first),
            *_one_time_run(deployed),
            _cron_run(deployed),
        ]


@contextmanager
def on_moto() -> Iterator[Deployed]:
    with mock_aws():
        yield Deployed()


class Deployed:
    """API and executor on the real adapters; only the target is none."""

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
        ports: Any = {
            "jobs": DynamoDbJobs(dynamodb, "jobs"),
            "history": DynamoDbHistory(dynamodb, "executions", retention_days=30),
            "timetable": SqsTimetable(
                sqs,
                scheduler,
                queues=queues,
                group=GROUP,
                role_arn="arn:aws:iam::123456789012:role/hints",
                clock=self.clock,
            ),
            "clock": self.clock,
        }
        services = Services(
            **ports,
            idempotency=DynamoDbIdempotencyKeys(dynamodb, "idempotency"),
            owners=DynamoDbOwners(dynamodb, "coordination"),
        )
        self._app = create_app(
            services,
            limits=DynamoDbRateLimits(dynamodb, "coordination", **LIMITS),
            rules=RULES,
            check_address=lambda _url: None,  # it asks the DNS
            stage="bench",
            version="0",
        )
        self._executor = Executor(**ports, targets=FakeTargets())
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

    def get(self) -> list[Call]:
        event = sample_event("api-get-job") | {"rawPath": self.path}
        del event["headers"]["if-none-match"]
        event["requestContext"]["http"]["path"] = self.path
        return self._request(event, 200)[0]

    def list(self) -> list[Call]:
        event = sample_event("api-list-jobs") | {"rawQueryString": "limit=50"}
        calls, answer = self._request(event, 200)
        if not json.loads(answer["body"])["data"]:
            raise AssertionError("an empty list says nothing about the calls of a list")
        return calls

    def run(self, slot: int) -> list[Call]:
        """The hint of the last created job's slot comes on time; its target succeeds at once."""
        self.clock.time = slot + 0.1
        self.log.take()
        hint = Hint(self.path.rpartition("/")[2], slot_id(slot), 1)
        handled = handle_hint(self._executor, hint)
        if handled.execution is None or handled.execution.error is not None:
            raise AssertionError(f"the run did not succeed: {handled}")
        return self.log.take()

    def _request(self, event: dict[str, Any], status: int) -> tuple[list[Call], dict[str, Any]]:
        self.log.take()
        answer = self._app(event, None)
        if answer["statusCode"] != status:
            raise AssertionError(f"{answer['statusCode']}: {answer['body']}")
        return self.log.take(), answer


def _requests(deployed: Deployed, body: Mapping[str, Any], kind: str, more: int) -> list[Counted]:
    create = deployed.create(body)
    with_key = deployed.create(body, key=f"key{kind}")
    for _ in range(JOBS_OF_A_LIST):
        deployed.create(body)
    return [
        Counted(what=f"POST /v1/jobs{kind}", calls=create, budget=3 + more),
        Counted(what=f"POST /v1/jobs with idempotency key{kind}", calls=with_key, budget=4 + more),
        Counted(what=f"GET /v1/jobs/{{jobId}}{kind}", calls=deployed.get(), budget=2 + more),
        Counted(what=f"GET /v1/jobs{kind}", calls=deployed.list(), budget=3 + more),
    ]


def _one_time_run(deployed: Deployed) -> list[Counted]:
    slot = int(deployed.clock.now()) + 5
    body = reference_body() | {"schedule": {"type": "once", "at": rfc3339(slot)}}
    create = deployed.create(body)
    run = deployed.run(slot)
    return [
        Counted(what="one-time job: created", calls=create),
        Counted(what="one-time job: started and ended", calls=run),
        Counted(what="one-time job: both", calls=[*create, *run]),
    ]


def _cron_run(deployed: Deployed) -> Counted:
    deployed.create(reference_body() | {"schedule": {"type": "cron", "expression": "* * * * *"}})
    first = (int(deployed.clock.now()) // 60 + 1) * 60
    deployed.run(first)
    return Counted(what="cron job: one run", calls=deployed.run(first + 60))
