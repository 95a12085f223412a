"""Short checks that fail without the permission they are about: what `tests.e2e.grants` runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from functions.adapters.dynamodb_history import DynamoDbHistory
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus
from functions.domain.ids import new_write_id, slot_id
from functions.domain.job import Job
from functions.domain.run import ActiveRun, RunState
from functions.domain.visit import FREE_WAKES
from tests.e2e.letters import Letters
from tests.e2e.mutants import OUTPUTS
from tests.e2e.people import People
from tests.e2e.smoke_graphs import GRAPH_CHECKS
from tests.e2e.smoke_limits import LIMIT_CHECKS
from tests.e2e.smoke_work import WORK_CHECKS, reports_progress
from tests.e2e.stack import Api, Aws, Stack, job_body, once, own_name, unique, until
from tests.e2e.subscriber import Subscriber
from tests.e2e.target import Endpoint
from tests.e2e.user_function import make_function, remove_function

SOON = 8.0
"""Seconds a run takes at most, cold starts included."""
MINUTE = 60


@dataclass
class Smoke:
    stack: Stack
    aws: Aws
    api: Api
    endpoint: Endpoint
    people: People
    made: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)

    # The API

    def create(self, **changes: Any) -> str:
        """The new job's path."""
        headers = changes.pop("headers", {})
        answer = self.api.post("/v1/jobs", job_body(**changes), role="admin", headers=headers)
        assert answer.status_code == 201, f"create: {answer.status_code}"
        self.made.append(answer.headers["Location"])
        assert "RateLimit-Remaining" in answer.headers, "create: no limit is counted"
        return self.made[-1]

    def get(self, path: str) -> Any:
        answer = self.api.get(path, role="admin")
        assert answer.status_code == 200, f"GET: {answer.status_code}"
        return answer.json()

    def act(self, path: str, action: str, *, expect: int = 200, **headers: str) -> None:
        answer = self.api.post(f"{path}/{action}", role="admin", headers=headers)
        assert answer.status_code == expect, f"{action}: {answer.status_code}"

    def creates(self) -> None:
        self.create()

    def reads(self) -> None:
        self.get(self.create())

    def lists(self) -> None:
        path = self.create()
        assert path.rpartition("/")[2] in [job["id"] for job in self.get("/v1/jobs?limit=100")["data"]]

    def changes(self) -> None:
        self.act(self.create(), "pause")

    def forgets_definitions(self) -> None:
        path = self.create(payload="x" * 5_000)
        answer = self.api.call("PUT", path, job_body(payload="y" * 5_000), role="admin")
        assert answer.status_code == 200, f"PUT: {answer.status_code}"
        rows = self.aws.dynamodb.query(
            TableName=self.stack.outputs["JobsTable"],
            KeyConditionExpression="jobId = :id",
            ExpressionAttributeValues={":id": {"S": path.rpartition("/")[2]}},
        )["Items"]
        assert len(rows) == 2, f"{len(rows)} rows are left: the old definition is still there"

    def reads_history(self) -> None:
        self.get(f"{self.create()}/history")

    def reads_an_execution(self) -> None:
        path = self.ran()
        execution = self.get(f"{path}/history")["data"][0]
        assert self.get(f"/v1/executions/{execution['id']}")["status"] == "COMPLETED"

    def cancels_a_run(self) -> None:
        path = self.create(target=self.endpoint.target("503"), schedule=once(0), retryConfig=retries(60))
        self.reaches(path, "RETRYING")
        self.act(path, "cancel")
        assert self.get(f"{path}/history")["data"][0]["status"] == "CANCELLED"

    def keeps_a_key(self) -> None:
        self.create(headers={"Idempotency-Key": unique("key")})

    def releases_a_key(self) -> None:
        path, key = self.create(), unique("key")
        for _ in range(2):
            # Refused requests leave nothing behind: the second is refused like the first.
            self.act(path, "retry", expect=409, **{"Idempotency-Key": key})

    def lists_everybodys(self) -> None:
        team = unique("team")
        token = self.people.token("scheduler", team)
        answer = self.api.post("/v1/jobs", job_body(), token=token)
        assert answer.status_code == 201, f"create: {answer.status_code}"
        self.made.append(answer.headers["Location"])
        path, cursor = "/v1/jobs?owner=*&limit=100", ""
        while cursor is not None:
            page = self.get(path + cursor)
            if team in [job["owner"] for job in page["data"]]:
                return
            cursor = page["pagination"].get("cursor") and f"&cursor={page['pagination']['cursor']}"
        raise AssertionError("a new owner's job is in nobody's list")

    def sends_a_hint(self) -> None:
        self.ran()

    def arms_a_schedule(self) -> None:
        path = self.create(schedule=once(20 * MINUTE))
        assert self.schedules(path), "the far job has no schedule"

    def disarms_a_schedule(self) -> None:
        path = self.create(schedule=once(20 * MINUTE))
        self.act(path, "cancel")
        assert not self.schedules(path), "the cancelled job's schedule is still there"

    def configured(self, **config: Any) -> str:
        """A new job type that is configured so."""
        job_type = unique("type")
        answer = self.api.call("PUT", f"/v1/retry-configs/{job_type}", config, role="admin")
        assert answer.status_code == 200, f"PUT: {answer.status_code}"
        self.types.append(job_type)
        return job_type

    def reads_a_type(self) -> None:
        job_type = self.configured(maxRetries=1)
        self.get(f"/v1/retry-configs/{job_type}")

    def forgets_a_type(self) -> None:
        path = f"/v1/retry-configs/{self.configured(maxRetries=1)}"
        answer = self.api.call("DELETE", path, role="admin")
        assert answer.status_code == 204, f"DELETE: {answer.status_code}"

    # The executor

    def ran(self, **changes: Any) -> str:
        path = self.create(schedule=once(0), **changes)
        self.reaches(path, "COMPLETED")
        return path

    def reaches(self, path: str, status: str) -> None:
        ends = time.monotonic() + SOON
        while (found := self.get(path)["status"]) != status:
            history = self.get(f"{path}/history")["data"]
            said = history[0]["error"] if history else "nothing has run"
            assert time.monotonic() < ends, f"{found}, not {status}, after {SOON:.0f} s: {said}"
            time.sleep(0.2)

    def runs_a_handler(self) -> None:
        path = self.ran()
        assert self.get(f"{path}/history")["data"][0]["result"]["attempt"] == 1

    def runs_http(self) -> None:
        self.ran(target=self.endpoint.target())

    def signs_for_a_new_owner(self, **changes: Any) -> None:
        self._forget_webhook_key()
        self.ran(target=self.endpoint.target(), **changes)

    def _forget_webhook_key(self) -> None:
        """As if the administrator's jobs had never called. Functions remember a key for a minute."""
        owner = self.get(self.create())["owner"]
        names = [
            one["Name"]
            for page in self.aws.secrets.get_paginator("list_secrets").paginate()
            for one in page["SecretList"]
            if one["Name"].endswith(f"/webhook/{owner}")
        ]
        for name in names:
            self.aws.secrets.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)

    def reads_a_webhook_key(self) -> None:
        assert self.get("/v1/webhook-keys/me")["secret"].startswith("whsec_")

    def makes_a_webhook_key(self) -> None:
        self._forget_webhook_key()
        self.reads_a_webhook_key()

    def rotates_a_webhook_key(self) -> None:
        answer = self.api.post("/v1/webhook-keys/me/rotate", {"keepPreviousSeconds": 0}, role="admin")
        assert answer.status_code == 200, f"rotate: {answer.status_code}"

    def runs_http_with_a_secret(self, **changes: Any) -> None:
        name = own_name(self.stack, "admin")
        self.aws.secrets.create_secret(Name=name, SecretString="s3cr3t-value")
        self.ran(target=self.endpoint.target() | {"headers": {"X-Secret": {"secretArn": name}}}, **changes)

    def runs_a_function(self) -> None:
        self.ran(target={"type": "lambda", "functionName": self.function})

    def sends_to_a_queue(self, **changes: Any) -> None:
        url = self.aws.sqs.create_queue(QueueName=own_name(self.stack, "admin"))["QueueUrl"]
        self.ran(target={"type": "sqs", "queueUrl": url}, **changes)
        self.aws.sqs.delete_queue(QueueUrl=url)

    def follows_a_type(self, **changes: Any) -> None:
        """Its type allows no retry, and the stage three."""
        job_type = self.configured(maxRetries=0)
        path = self.create(type=job_type, schedule=once(0), target=self.endpoint.target("503"), **changes)
        self.reaches(path, "FAILED")

    def detects_poison(self) -> None:
        config = retries(1) | {"maxRetries": 9, "poisonDetection": True}
        path = self.create(schedule=once(0), target=self.endpoint.target("503"), retryConfig=config)
        self.reaches(path, "FAILED")
        reason = self.get(f"{path}/history")["data"][0]["reason"]
        assert reason == "POISON", f"the run ended with {reason}, not POISON"

    def retries_soon(self, **changes: Any) -> None:
        self.ran(target=self.endpoint.target("503-200"), retryConfig=retries(1), **changes)

    def retries_late(self, **changes: Any) -> None:
        policy = retries(20 * MINUTE)
        path = self.create(schedule=once(0), target=self.endpoint.target("503"), retryConfig=policy, **changes)
        self.reaches(path, "RETRYING")
        until(lambda: self.schedules(path), seconds=3, hint="the late retry has a schedule")

    # The state machine

    def runs_in_the_machine(self) -> None:
        self.ran(orchestrated=True)

    def runs_http_in_the_machine(self) -> None:
        self.ran(orchestrated=True, target=self.endpoint.target())

    def signs_for_a_new_owner_in_the_machine(self) -> None:
        self.signs_for_a_new_owner(orchestrated=True)

    def runs_http_with_a_secret_in_the_machine(self) -> None:
        self.runs_http_with_a_secret(orchestrated=True)

    def runs_a_function_in_the_machine(self) -> None:
        self.ran(orchestrated=True, target={"type": "lambda", "functionName": self.function})

    def sends_to_a_queue_in_the_machine(self) -> None:
        self.sends_to_a_queue(orchestrated=True)

    def retries_soon_in_the_machine(self) -> None:
        self.retries_soon(orchestrated=True)

    def retries_late_in_the_machine(self) -> None:
        self.retries_late(orchestrated=True)

    def stops_the_machine(self) -> None:
        path = self.create(schedule=once(0), target=self.endpoint.target("sleep"), orchestrated=True)
        job_id = path.rpartition("/")[2]
        until(lambda: self.endpoint.calls(job_id), seconds=SOON, hint="the target is called")
        self.act(path, "cancel")
        [execution] = self.get(f"{path}/history")["data"]
        arn = self.stack.outputs["StateMachineArn"].replace(":stateMachine:", ":execution:")
        found = self.aws.states.describe_execution(executionArn=f"{arn}:{execution['id']}-f{execution['fence']}")
        assert found["status"] == "ABORTED", f"the cancelled attempt's execution is {found['status']}"

    # The sweep

    def swept(self) -> dict[str, Any]:
        """What one tick answers; another may be under way, and there is one at a time."""

        def tick() -> dict[str, Any] | None:
            try:
                answer = self.aws.functions.invoke(FunctionName=self.stack.outputs["SweepFunction"], Payload=b"{}")
            except self.aws.functions.exceptions.TooManyRequestsException:
                return None
            said = json.loads(answer["Payload"].read())
            assert "FunctionError" not in answer, f"sweep: {said.get('errorType')}"
            assert said["failed"] == 0, f"sweep: {said}"
            return {"said": said}

        return until(tick, seconds=15)

    def wakes_a_lost_job(self) -> None:
        """It is due, and nobody was told."""
        path = self.create()
        job, now = self.row(path), int(time.time())
        self.jobs.save(job, replace(job, next_slot=now - 1, attention_at=now - 1, write_id=new_write_id()))
        self.swept()
        until(
            lambda: [each for each in self.get(f"{path}/history")["data"] if each["status"] == "COMPLETED"],
            seconds=SOON,
            hint="the lost job runs",
        )

    def wakes_a_job_that_was_woken_often(self) -> None:
        """No other job of its run queue was started lately, so the sweep asks for the other jobs of its owner."""
        path = self.create(priority="low")
        job, now = self.row(path), int(time.time())
        late = replace(job, wakes=FREE_WAKES, next_slot=now - 1, attention_at=now - 1, write_id=new_write_id())
        self.jobs.save(job, late)
        self.swept()
        until(
            lambda: [each for each in self.get(f"{path}/history")["data"] if each["status"] == "COMPLETED"],
            seconds=SOON,
            hint="the job runs",
        )

    def recovers_a_lost_run(self) -> None:
        path = self.create(target=self.endpoint.target())
        self.started_and_lost(path)
        self.swept()
        first = self.get(f"{path}/history")["data"][-1]
        assert (first["error"] or {}).get("code") == "WORKER_LOST", f"sweep: {first['status']}"

    def gives_up_by_its_type(self) -> None:
        """A process dies in its third attempt, as in the two before: poison, says the job's type."""
        path = self.create(type=self.configured(poisonDetection=True), target=self.endpoint.target())
        job, slot = self.started_and_lost(path, attempt=3)
        message = "The attempt's lease expired before its outcome was recorded."
        for number in (1, 2):
            self.history.record(
                Execution(
                    job_id=job.id,
                    slot_id=slot,
                    attempt=number,
                    status=ExecutionStatus.FAILED,
                    final=False,
                    fence=number,
                    write_id=new_write_id(),
                    completed_at=time.time() - 100,
                    error=ExecutionError(code="WORKER_LOST", message=message),
                )
            )
        self.swept()
        reason = self.get(f"{path}/history")["data"][0]["reason"]
        assert reason == "POISON", f"the run ended with {reason}, not POISON"

    def repairs_a_recorded_run(self) -> None:
        """The process died after the history row, and before the job row: its retry is due in twenty minutes."""
        path = self.create()
        job, slot = self.started_and_lost(path)
        now = time.time()
        self.history.record(
            Execution(
                job_id=job.id,
                slot_id=slot,
                attempt=1,
                status=ExecutionStatus.FAILED,
                final=False,
                fence=job.runs[slot].fence,
                write_id=new_write_id(),
                started_at=now - 60,
                completed_at=now - 50,
                next_retry_at=int(now) + 20 * MINUTE,
                reason="RETRY_SCHEDULED",
                error=ExecutionError(code="HTTP_503", message="HTTP 503"),
            )
        )
        self.swept()
        assert self.get(path)["activeRuns"][0]["status"] == "WAITING", "the job's row does not follow its history"
        assert [each for each in self.schedules(path) if "-r-" in each], "the late retry has no schedule"

    def started_and_lost(self, path: str, *, attempt: int = 1) -> tuple[Job, str]:
        """The row as a process leaves it that died in an attempt: its lease is over."""
        job, now = self.row(path), int(time.time())
        slot, fence = slot_id(now - 60), job.fence + 1
        run = ActiveRun(
            state=RunState.RUNNING,
            attempt=attempt,
            attempt_limit=4,
            fence=fence,
            lease_expires_at=now - 30,
            started_at=now - 60,
            started_by=new_write_id(),
        )
        lost = replace(job, runs={slot: run}, fence=fence, attention_at=now - 30, write_id=new_write_id())
        return self.jobs.save(job, lost), slot

    # Dead letters

    def announces_a_dead_letter(self) -> None:
        path = self.create(schedule=once(0), name="doomed", target=self.endpoint.target("404"))
        self.reaches(path, "FAILED")
        letters = Letters(self.aws.sqs, self.stack.outputs["DeadLetterQueueUrl"])
        job_id = path.rpartition("/")[2]
        (letter,) = until(lambda: letters.of(job_id, wait=0), seconds=SOON, hint="a dead letter")
        assert letter["jobName"] == "doomed"

    def keeps_the_unreadable(self, function: str = "dead_letters", key: dict[str, Any] | None = None) -> None:
        keys = {"jobId": {"S": unique("job")}, **(key or {})}
        record = {"eventID": "1", "eventName": "INSERT", "dynamodb": {"Keys": keys, "NewImage": keys}}
        answer = self.aws.functions.invoke(
            FunctionName=self.stack.outputs[OUTPUTS[function]], Payload=json.dumps({"Records": [record]})
        )
        assert "FunctionError" not in answer, f"{function}: an unreadable record is not kept"
        url = self.stack.outputs["UnreadableQueueUrl"]
        messages = self.aws.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        assert any(keys["jobId"]["S"] in message["Body"] for message in messages), "nothing was kept"

    # The events

    def tells_an_end(self) -> None:
        subscriber = self.subscriber  # listens from here on
        path = self.create(schedule=once(0), target=self.endpoint.target("404"))
        events = subscriber.story(path.rpartition("/")[2], "job.permanently_failed", seconds=SOON)
        assert events[-1]["errorCode"] == "HTTP_404", "lifecycle: an end is told without its error"

    def tells_the_name(self) -> None:
        """Of a job whose definition has a row of its own."""
        subscriber = self.subscriber  # listens from here on
        path = self.create(description="x" * 900)
        [event] = subscriber.story(path.rpartition("/")[2], "job.scheduled", seconds=SOON)
        assert "jobName" in event, "lifecycle: a name is not read"

    def keeps_the_unreadable_of_jobs(self) -> None:
        self.keeps_the_unreadable("lifecycle", {"S": {"S": "S"}})

    # What they stand on

    def schedules(self, path: str) -> list[str]:
        prefix = path.rpartition("/")[2].replace("-", "")
        group = self.stack.outputs["ScheduleGroup"]
        found = self.aws.scheduler.list_schedules(GroupName=group, NamePrefix=prefix)["Schedules"]
        return [each["Name"] for each in found]

    def row(self, path: str) -> Job:
        job = self.jobs.get(path.rpartition("/")[2])
        assert job is not None
        return job

    @cached_property
    def jobs(self) -> DynamoDbJobs:
        return DynamoDbJobs(self.aws.dynamodb, self.stack.outputs["JobsTable"])

    @cached_property
    def history(self) -> DynamoDbHistory:
        return DynamoDbHistory(self.aws.dynamodb, self.stack.outputs["ExecutionsTable"], retention_days=30)

    @cached_property
    def subscriber(self) -> Subscriber:
        return Subscriber(self.stack, self.aws)

    @cached_property
    def function(self) -> str:
        """A function of the user's, under a name that the stage allows."""
        return make_function(self.aws, own_name(self.stack, "admin"))

    def clean_up(self) -> None:
        """Delete what the checks made."""
        for path in self.made:
            self.api.call("DELETE", path, role="admin")
        self.made.clear()
        for job_type in self.types:
            self.api.call("DELETE", f"/v1/retry-configs/{job_type}", role="admin")
        self.types.clear()
        if "subscriber" in self.__dict__:
            self.subscriber.close()
            del self.subscriber
        if "function" in self.__dict__:
            remove_function(self.aws, self.function)


def retries(delay: float) -> dict[str, Any]:
    return {
        "maxRetries": 3,
        "backoffStrategy": "fixed",
        "initialDelaySeconds": delay,
        "maxDelaySeconds": max(300, delay),
        "jitter": 0,
    }


Check = Callable[[Smoke], None]

CHECKS: dict[str, dict[str, Check]] = {
    "poll": WORK_CHECKS,
    "jobs": {"ReportProgress": reports_progress},
    "api": LIMIT_CHECKS["api"]
    | GRAPH_CHECKS["api"]
    | {
        "ReadJob": Smoke.reads,
        "ReadListedJobs": Smoke.lists,
        "CreateJob": Smoke.creates,
        "ChangeJob": Smoke.changes,
        "ForgetDefinition": Smoke.forgets_definitions,
        "ListJobs": Smoke.lists,
        "ReadExecution": Smoke.reads_an_execution,
        "ListHistory": Smoke.reads_history,
        "RecordExecution": Smoke.cancels_a_run,
        "ClaimKey": Smoke.keeps_a_key,
        "ReleaseKey": Smoke.releases_a_key,
        "CountRequest": Smoke.creates,
        "RegisterOwner": Smoke.lists_everybodys,
        "ListOwners": Smoke.lists_everybodys,
        "ReadJobType": Smoke.reads_a_type,
        "ForgetJobType": Smoke.forgets_a_type,
        "SendHints": Smoke.sends_a_hint,
        "ArmSchedules": Smoke.arms_a_schedule,
        "DisarmSchedules": Smoke.disarms_a_schedule,
        "StopAttempts": Smoke.stops_the_machine,
        "ReadWebhookKeys": Smoke.reads_a_webhook_key,
        "CreateWebhookKeys": Smoke.makes_a_webhook_key,
        "RotateWebhookKeys": Smoke.rotates_a_webhook_key,
    },
    "executor": LIMIT_CHECKS["executor"]
    | GRAPH_CHECKS["executor"]
    | {
        "ReadJob": Smoke.runs_a_handler,
        "ChangeJob": Smoke.runs_a_handler,
        "RecordExecution": Smoke.retries_soon,
        "ReadExecution": Smoke.detects_poison,
        "ReadCoordination": Smoke.follows_a_type,
        "SendHints": Smoke.retries_soon,
        "ArmSchedules": Smoke.retries_late,
        "CallHandlers": Smoke.runs_a_handler,
        "CallFunctions": Smoke.runs_a_function,
        "SendToQueues": Smoke.sends_to_a_queue,
        "ReadWebhookKeys": Smoke.runs_http,
        "CreateWebhookKeys": Smoke.signs_for_a_new_owner,
        "ReadSecrets": Smoke.runs_http_with_a_secret,
        "StartAttempts": Smoke.runs_in_the_machine,
    },
    "steps": LIMIT_CHECKS["steps"]
    | {
        "ReadJob": Smoke.runs_in_the_machine,
        "ChangeJob": Smoke.runs_in_the_machine,
        "ReadExecution": Smoke.runs_in_the_machine,
        "RecordExecution": Smoke.runs_in_the_machine,
        "SendHints": Smoke.retries_soon_in_the_machine,
        "ArmSchedules": Smoke.retries_late_in_the_machine,
        "CallHandlers": Smoke.runs_in_the_machine,
        "CallFunctions": Smoke.runs_a_function_in_the_machine,
        "SendToQueues": Smoke.sends_to_a_queue_in_the_machine,
        "ReadWebhookKeys": Smoke.runs_http_in_the_machine,
        "CreateWebhookKeys": Smoke.signs_for_a_new_owner_in_the_machine,
        "ReadSecrets": Smoke.runs_http_with_a_secret_in_the_machine,
    },
    "sweep": LIMIT_CHECKS["sweep"]
    | {
        "FindAttention": Smoke.wakes_a_lost_job,
        "FindOthers": Smoke.wakes_a_job_that_was_woken_often,
        "ReadJob": Smoke.wakes_a_lost_job,
        "ChangeJob": Smoke.wakes_a_lost_job,
        "SendHints": Smoke.wakes_a_lost_job,
        "MeasureQueues": Smoke.wakes_a_lost_job,
        "ReadExecution": Smoke.recovers_a_lost_run,
        "RecordExecution": Smoke.recovers_a_lost_run,
        "ReadJobType": Smoke.gives_up_by_its_type,
        "ArmSchedules": Smoke.repairs_a_recorded_run,
    },
    "dead_letters": {
        "ReadJob": Smoke.announces_a_dead_letter,
        "Announce": Smoke.announces_a_dead_letter,
        "KeepUnreadable": Smoke.keeps_the_unreadable,
    },
    "lifecycle": {
        "ReadJob": Smoke.tells_the_name,
        "ReadExecution": Smoke.tells_an_end,
        "PutEvents": Smoke.tells_an_end,
        "KeepUnreadable": Smoke.keeps_the_unreadable_of_jobs,
    },
}
"""The check that a grant's removal must fail, by function and name in infra.grants."""

OF_CUSTOMER_KEYS = frozenset({"UseKeysOfSecrets", "UseKeysOfQueues"})
"""The local stage lists no keys, so it has no such statements."""
NOT_ENFORCED = OF_CUSTOMER_KEYS | {
    "UseTablesKey",
    "UseSecretsKey",
    "PassHintRole",
    "ConsumeHints",
    "ReadStream",
    "FindStream",
}
"""What the emulator never asks for: the use of keys, the passing of roles, and what event source mappings read with.
Tests of the template are about them (tests/infra/test_grants.py)."""
