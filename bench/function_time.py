"""How long the functions of a job take on Lambda, in GB-seconds: a calculation on CPU times measured here.

    duration = what it waits for + its CPU time here / its share of a processor there

Waiting is assumed (`CALL_SECONDS`, `TARGET_SECONDS`), a processor there is assumed to be as fast as one here, and no
CPU time is taken to pass while something is waited for, so durations come out long rather than short. Messages of a
batch are waited for together and computed one after the other. Not in it: TLS and sockets, cold starts.
"""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.awsrequest import AWSResponse

from bench.call_log import Call
from bench.deployed import REGION, bulk_event
from bench.invocations import CONTEXT, hints_event, with_executor
from bench.measuring import cpu_seconds, pinned
from bench.request_time import Served, reference_body
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.bootstrap import CALLS
from functions.domain.hint import Hint
from functions.domain.ids import slot_id
from functions.domain.instants import rfc3339
from functions.domain.job import JobStatus
from functions.handlers import executor as handler
from functions.parallel import AT_ONCE
from functions.usecases.services import Executor
from tests.api_client import sample_event
from tests.factories import NOW, make_job
from tests.fakes import FakeTargets

CALL_SECONDS = 0.010
"""A call to DynamoDB, SQS or EventBridge Scheduler, assumed: AWS promises single-digit milliseconds of DynamoDB."""
TARGET_SECONDS = 0.050
"""Until the target of the reference job has answered."""
MB_OF_A_PROCESSOR = 1769
"""Memory at which Lambda gives a function one processor (AWS Lambda developer guide, "Configure function memory")."""
MEMORY_MB = {"api": 1024, "executor": 512, "sweep": 512}
"""As infra/lambda_functions.py sets it; a test compares."""
ROUNDS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTimes:
    """CPU seconds, medians; the ports are those in memory."""

    bulk_request: float
    """POST /v1/jobs/bulk with 100 reference jobs."""
    one_request: float
    """POST /v1/jobs with one: about what any small request takes."""
    hint_batches: dict[int, float]
    """The executor with so many hints of due jobs."""
    aws_call: float
    """boto3 makes one request and reads its answer."""

    def api(self, calls: Sequence[Call]) -> float:
        """GB-seconds of a bulk request that makes these calls."""
        puts = sum(call.operation == "PutItem" and call.place == "jobs" for call in calls)
        one_by_one = len(calls) - puts + math.ceil(puts / AT_ONCE)
        return self._gb_seconds("api", CALL_SECONDS * one_by_one, self.bulk_request + len(calls) * self.aws_call)

    def request(self, calls: Sequence[Call]) -> float:
        """GB-seconds of a small request that makes these calls."""
        return self._gb_seconds("api", CALL_SECONDS * len(calls), self.one_request + len(calls) * self.aws_call)

    def executor(self, calls: Sequence[Call], *, fill: int, calls_target: bool) -> float:
        """GB-seconds of a batch of so many hints that makes these calls."""
        waits = CALL_SECONDS * len(calls) / fill + (TARGET_SECONDS if calls_target else 0)
        return self._gb_seconds("executor", waits, self.hint_batches[fill] + len(calls) * self.aws_call)

    def sweep(self, calls: Sequence[Call]) -> float:
        """GB-seconds of a tick that finds nothing."""
        return self._gb_seconds("sweep", CALL_SECONDS * len(calls), len(calls) * self.aws_call)

    @staticmethod
    def _gb_seconds(function: str, waits: float, cpu: float) -> float:
        memory = MEMORY_MB[function]
        return (waits + cpu / (memory / MB_OF_A_PROCESSOR)) * memory / 1024


def measure_functions(fills: Sequence[int], *, rounds: int = ROUNDS) -> FunctionTimes:
    with pinned():
        return FunctionTimes(
            bulk_request=_median(_bulk_request, rounds),
            one_request=_median(_one_request, rounds),
            hint_batches={fill: _median(lambda fill=fill: _hint_batches(fill), rounds) for fill in fills},  # type: ignore[misc]  # bound here
            aws_call=_median(_aws_calls, rounds),
        )


def _median(measure: Callable[[], float], rounds: int) -> float:
    measure()  # Nothing is loaded or compiled later.
    return statistics.median(measure() for _ in range(rounds))


def _bulk_request() -> float:
    app, event = Served().app, bulk_event([reference_body()] * 100)
    return cpu_seconds(lambda: app(event, None), times=3)


def _one_request() -> float:
    app, event = Served().app, sample_event("api-create-job") | {"body": json.dumps(reference_body())}
    del event["headers"]["x-idempotency-key"]
    return cpu_seconds(lambda: app(event, None), times=20)


def _hint_batches(fill: int, *, times: int = 20) -> float:
    served = Served()
    now = int(served.world.clock.now())
    document = reference_body() | {"schedule": {"type": "once", "at": rfc3339(now)}}
    payload = json.dumps(document.pop("payload"))
    jobs = [
        make_job(
            id=str(index).rjust(8, "0") + "-0000-4000-8000-000000000000",
            document=document,
            payload=payload,
            created_at=now,
            next_slot=now,
            lean=True,
        )
        for index in range(fill * times)
    ]
    for job in jobs:
        served.world.jobs.put(job)
    events = iter(
        [
            hints_event([Hint(job.id, slot_id(now), 1) for job in jobs[first : first + fill]])
            for first in range(0, len(jobs), fill)
        ]
    )
    wanted = ("jobs", "history", "timetable", "clock", "types", "machine", "circuits", "slots", "shares", "dependents")
    ports = {name: served.ports[name] for name in wanted}
    executor = Executor(**ports, targets=FakeTargets())
    with with_executor(executor):
        spent = cpu_seconds(lambda: handler.handler(next(events), CONTEXT), times=times)
    ran = sum(served.world.jobs.rows[job.id].status is JobStatus.COMPLETED for job in jobs)
    if ran != len(jobs):
        raise AssertionError(f"{ran} of {len(jobs)} jobs ran")
    return spent


def _aws_calls() -> float:
    """A state row saved through a client that is answered at once."""
    client = boto3.Session("test", "test", region_name=REGION).client("dynamodb", config=CALLS)
    client.meta.events.register_first("before-send.dynamodb", _answered)
    store, job = DynamoDbJobs(client, "jobs"), make_job()
    changed = dataclasses.replace(job, attention_at=NOW + 75, fence=job.fence + 1)
    store.save(job, changed)
    return cpu_seconds(lambda: store.save(job, changed), times=50)


class _Body:
    """An answer's body, as urllib3 hands it out."""

    @staticmethod
    def stream(**_: Any) -> Iterator[bytes]:
        yield b"{}"


def _answered(request: Any, **_: Any) -> Any:
    return AWSResponse(request.url, 200, {}, _Body())  # type: ignore[arg-type]  # a mapping is enough
