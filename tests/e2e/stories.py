"""Stories that take minutes: begun first, looked at last."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.domain.ids import new_write_id
from gnomon.client import Client
from tests.e2e.processes import kill_process_at
from tests.e2e.stack import Aws, Stack, job_body, once, until
from tests.e2e.target import Endpoint

MINUTE = 60


@dataclass(frozen=True)
class MinuteJob:
    """A job that is due every minute."""

    job_id: str
    begun: float

    @classmethod
    def begin(cls, client: Client, endpoint: Endpoint) -> MinuteJob:
        body = job_body(schedule={"type": "cron", "expression": "* * * * *"}, target=endpoint.target())
        begun = time.time()
        return cls(client.create_job(body)["id"], begun)


@dataclass(frozen=True)
class KilledRun:
    """A run whose function's process was ended by SIGKILL while it waited for the target's answer."""

    job_id: str
    timeout_seconds: int
    killed: float
    """Epoch seconds."""

    @classmethod
    def begin(cls, stack: Stack, client: Client, endpoint: Endpoint) -> KilledRun:
        # Not while another run may be in the same process.
        while not 3 < time.time() % MINUTE < MINUTE - 8:
            time.sleep(0.5)
        body = job_body(schedule=once(0), target=endpoint.target("hang-200"), timeoutSeconds=4)
        job_id = client.create_job(body)["id"]
        (call, *_) = until(lambda: endpoint.calls(job_id), seconds=40, every=0.05, hint="the call to kill")
        kill_process_at(call.port, of=stack.place)
        return cls(job_id, body["timeoutSeconds"], time.time())


@dataclass(frozen=True)
class LostHint:
    """A job whose row says that it is due, and nobody was told."""

    job_id: str
    due: int
    """Epoch seconds."""

    @classmethod
    def begin(cls, stack: Stack, aws: Aws, client: Client, endpoint: Endpoint) -> LostHint:
        job_id = client.create_job(job_body(target=endpoint.target()))["id"]
        table = DynamoDbJobs(aws.dynamodb, stack.outputs["JobsTable"])
        job = table.get(job_id)
        assert job is not None
        due = int(time.time()) + 2
        row = replace(job, next_slot=due, write_id=new_write_id())
        table.save(job, replace(row, attention_at=row.bound(due - 2)))
        return cls(job_id, due)
