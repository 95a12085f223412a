"""Every function on AWS in memory, called with the events in events/; and every file there is read."""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from functions import bootstrap
from functions.adapters.dynamodb_circuits import DynamoDbCircuits
from functions.adapters.dynamodb_graph import DynamoDbDependents
from functions.adapters.dynamodb_history import DynamoDbHistory
from functions.adapters.dynamodb_history_items import end_item, execution_item, gap_item, read_end, read_history
from functions.adapters.dynamodb_items import definition_attributes, read_definition, read_job, state_attributes
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.adapters.dynamodb_keys import definition_key, state_key
from functions.adapters.dynamodb_workers import DynamoDbWorkers
from functions.adapters.dynamodb_workflows import DynamoDbWorkflows
from functions.domain.circuit import Circuit
from functions.domain.definition import Priority
from functions.domain.errors import CorruptDefinitionError, HintNotSentError, LostRaceError, UnavailableError
from functions.domain.execution import ExecutionStatus
from functions.domain.hint import read_hint
from functions.domain.instants import rfc3339
from functions.domain.job import JobStatus
from functions.domain.worker import Worker
from functions.graph_ports import Workflow
from functions.handlers import api, dead_letters, executor, jobs, lifecycle, steps, sweep
from functions.settings import CircuitRules, RetryDefaults, TargetRules
from tests.api_client import Api
from tests.conftest import REGION, Aws
from tests.contract.conftest import make_timetable
from tests.factories import JOB_ID, NOW, make_definition, make_job
from tests.fakes import FakeClock
from tests.integration.samples import (
    DEFINITION,
    END,
    EVENTS,
    FAILED_EXECUTION,
    FULL_ROW,
    GAP_ROW,
    ROW_OF_A_GRAPH,
    ROW_WITH_ALARM,
    sample,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONTEXT: Any = SimpleNamespace(
    aws_request_id="5f1d2c3b-4a59-4687-9a0b-1c2d3e4f5061", get_remaining_time_in_millis=lambda: 30_000
)
CACHED = (
    bootstrap.api,
    bootstrap.executor,
    bootstrap.taken_hints,
    bootstrap.sweeper,
    bootstrap.dead_letters,
    bootstrap.lifecycle,
    bootstrap._client,
)


@pytest.fixture
def unreadable(aws: Aws) -> str:
    """URL of the queue for records that cannot be read."""
    return str(aws.sqs.create_queue(QueueName="unreadable")["QueueUrl"])


@pytest.fixture(autouse=True)
def _environment(aws: Aws, unreadable: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    queues = {priority.value: {"url": url, "arn": arn} for priority, (url, arn) in aws.queues.items()}
    variables = {
        "STAGE": "test",
        "VERSION": "0.1.0",
        "API_ADDRESS": "https://{domain}",
        "JOBS_TABLE": aws.jobs_table,
        "EXECUTIONS_TABLE": aws.executions_table,
        "IDEMPOTENCY_TABLE": aws.idempotency_table,
        "COORDINATION_TABLE": aws.coordination_table,
        "RETRY_DEFAULTS": json.dumps(dataclasses.asdict(RetryDefaults())),
        "CIRCUIT_RULES": json.dumps(dataclasses.asdict(CircuitRules())),
        "RETENTION_DAYS": "30",
        "RUN_QUEUES": json.dumps(queues),
        "RUN_CAPACITY": json.dumps(dict.fromkeys(queues, 100)),
        "SCHEDULE_GROUP": aws.schedule_group,
        "SCHEDULER_ROLE_ARN": aws.scheduler_role_arn,
        "TARGET_RULES": json.dumps(dataclasses.asdict(TargetRules())),
        "MACHINE_TEAMS": "[]",
        "CALLER_LIMITS": json.dumps(
            {"writes_per_minute": 100, "reads_per_minute": 500, "work_per_minute": 6000, "creations_per_day": 1000}
        ),
        "OWNER_SHARES": json.dumps(
            {name: {"processes": 50, "starts_per_minute": 100_000} for name in ("high", "normal", "low")}
        ),
        "RECURRING_JOBS": "1000",
        "SHORTEST_INTERVAL_SECONDS": "1",
        "WAITING_POLLS": "10",
        "JOBS_FUNCTION": "jobs",
        "STATE_MACHINE": aws.machine,
        "WEBHOOK_KEYS": json.dumps({"prefix": "gnomon/test/webhook/", "kms_key": "alias/aws/secretsmanager"}),
        "DEAD_LETTER_QUEUE_URL": aws.dead_letter_queue_url,
        "UNREADABLE_QUEUE_URL": unreadable,
        "EVENT_BUS": aws.event_bus,
        "POWERTOOLS_SERVICE_NAME": "test",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    boto3.DEFAULT_SESSION = None
    for made in CACHED:
        made.cache_clear()
    yield
    for made in CACHED:
        made.cache_clear()


@pytest.fixture
def outbox(aws: Aws) -> str:
    """URL of a queue that jobs name as their target."""
    return str(aws.sqs.create_queue(QueueName="gnomon-test-team-a--outbox")["QueueUrl"])


@pytest.fixture
def store(aws: Aws) -> DynamoDbJobs:
    return DynamoDbJobs(aws.dynamodb, aws.jobs_table, graphs=aws.coordination_table)


@pytest.fixture
def history(aws: Aws) -> DynamoDbHistory:
    return DynamoDbHistory(aws.dynamodb, aws.executions_table, retention_days=30)


def received(aws: Aws, url: str) -> list[str]:
    found: list[str] = []
    while messages := aws.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        found += [message["Body"] for message in messages]
    return found


def due_job(outbox: str, **changes: Any) -> Any:
    """A one-time job to the outbox that was due a second ago."""
    now = int(time.time())
    document = {"schedule": {"type": "once", "at": rfc3339(now - 1)}, "target": {"type": "sqs", "queueUrl": outbox}}
    return make_job(document=document, created_at=now - 10, next_slot=now - 1, **changes)


def record(hint_of: Any, number: int = 1, body: str | None = None) -> dict[str, Any]:
    """A record of events/hint-v1.json that names this job's next slot."""
    message = sample("hint-v1")["Records"][0]
    hint = json.loads(message["body"]) | {"jobId": hint_of.id, "slot": str(hint_of.next_slot)}
    return message | {"messageId": f"message-{number}", "body": json.dumps(hint) if body is None else body}


def failed_items(answer: Any) -> list[str]:
    return [item["itemIdentifier"] for item in answer["batchItemFailures"]]


class TestExecutor:
    def test_a_hint_starts_calls_and_ends(
        self, aws: Aws, outbox: str, store: DynamoDbJobs, history: DynamoDbHistory
    ) -> None:
        job = store.create(due_job(outbox, payload='{"n":1.0}'))
        assert executor.handler({"Records": [record(job)]}, CONTEXT) == {"batchItemFailures": []}
        row = store.get(job.id)
        assert row is not None
        assert row.status is JobStatus.COMPLETED
        execution = history.get(job.id, str(job.next_slot), 1)
        assert execution is not None
        assert execution.status is ExecutionStatus.COMPLETED
        assert received(aws, outbox) == ['{"n":1.0}']
        # Twice, once more after completion: nothing.
        assert failed_items(executor.handler({"Records": [record(job), record(job, 2)]}, CONTEXT)) == []
        assert store.get(job.id) == row
        assert received(aws, outbox) == []

    def test_the_sample_names_a_job_that_is_not_there_and_is_dropped(self) -> None:
        assert failed_items(executor.handler(sample("hint-v1"), CONTEXT)) == []

    @pytest.mark.case(16)
    def test_of_three_messages_only_the_second_comes_back(self, aws: Aws, outbox: str, store: DynamoDbJobs) -> None:
        first, second, third = (store.create(due_job(outbox, id=JOB_ID[:-1] + digit, payload=digit)) for digit in "123")
        spoil(aws, second.id, d="{")
        answer = executor.handler({"Records": [record(first, 1), record(second, 2), record(third, 3)]}, CONTEXT)
        assert failed_items(answer) == ["message-2"]
        assert sorted(received(aws, outbox)) == ["1", "3"]

    @pytest.mark.case(16)
    def test_a_body_that_is_no_json_fails_alone(self) -> None:
        batch = sample("hints-batch")
        assert failed_items(executor.handler(batch, CONTEXT)) == [batch["Records"][1]["messageId"]]

    @pytest.mark.case(16)
    def test_what_keeps_failing_ends_in_the_dead_letter_queue(self, aws: Aws) -> None:
        """By the queue's redrive policy, which infra/ sets (tests/infra/test_queues.py)."""
        dead = aws.sqs.create_queue(QueueName="hints-dlq")["QueueUrl"]
        arn = aws.sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 5})
        run = aws.sqs.create_queue(QueueName="runs", Attributes={"RedrivePolicy": policy, "VisibilityTimeout": "0"})
        aws.sqs.send_message(QueueUrl=run["QueueUrl"], MessageBody="not JSON")
        for _ in range(6):
            for message in aws.sqs.receive_message(QueueUrl=run["QueueUrl"]).get("Messages", ()):
                event = record(make_job(), body=message["Body"])
                if failed_items(executor.handler({"Records": [event]}, CONTEXT)) == []:
                    aws.sqs.delete_message(QueueUrl=run["QueueUrl"], ReceiptHandle=message["ReceiptHandle"])
        assert received(aws, run["QueueUrl"]) == []
        assert received(aws, dead) == ["not JSON"]


def throttled() -> ClientError:
    return ClientError({"Error": {"Code": "ThrottlingException", "Message": "come again"}}, "GetItem")


class TestHandBack:
    """What could not be handled just now is visible again in a second or two, not after the queue's 540."""

    @pytest.fixture
    def taken(self, aws: Aws) -> Callable[..., dict[str, Any]]:
        url, arn = aws.queues[Priority.NORMAL]
        aws.sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "540"})

        def take(hint_of: Any, *, receives: int = 1, body: str | None = None) -> dict[str, Any]:
            event = record(hint_of, body=body)
            aws.sqs.send_message(QueueUrl=url, MessageBody=event["body"])
            [message] = aws.sqs.receive_message(QueueUrl=url)["Messages"]
            attributes = event["attributes"] | {"ApproximateReceiveCount": str(receives)}
            return event | {
                "receiptHandle": message["ReceiptHandle"],
                "eventSourceARN": arn,
                "attributes": attributes,
            }

        return take

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
        """What SQS is asked to make visible again."""
        made: list[dict[str, Any]] = []
        client = bootstrap._client("sqs")
        change = client.change_message_visibility

        def spy(**arguments: Any) -> Any:
            made.append(arguments)
            return change(**arguments)

        monkeypatch.setattr(client, "change_message_visibility", spy)
        return made

    @pytest.mark.parametrize(
        "error",
        [
            UnavailableError(),
            LostRaceError(None),
            HintNotSentError(),
            throttled(),
            EndpointConnectionError(endpoint_url="https://dynamodb"),
            ReadTimeoutError(endpoint_url="https://dynamodb"),
            ClientError({"Error": {"Code": "x"}, "ResponseMetadata": {"HTTPStatusCode": 503}}, "PutItem"),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_what_passes_by_itself_comes_again_soon(
        self, error: Exception, taken: Any, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(executor, "handle_hint", raising(error))
        event = taken(make_job())
        assert failed_items(executor.handler({"Records": [event]}, CONTEXT)) == [event["messageId"]]
        [one] = asked
        assert one["ReceiptHandle"] == event["receiptHandle"]
        assert one["VisibilityTimeout"] in (1, 2)

    def test_it_is_visible_again(self, aws: Aws, taken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(executor, "handle_hint", raising(UnavailableError()))
        event = taken(make_job())
        executor.handler({"Records": [event]}, CONTEXT)
        url = aws.queues[Priority.NORMAL][0]
        assert received(aws, url) == []
        time.sleep(2.1)
        assert received(aws, url) == [event["body"]]

    def test_the_more_often_it_was_taken_the_longer_it_waits(
        self, taken: Any, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(executor, "handle_hint", raising(UnavailableError()))
        for receives in (1, 2, 3, 4):
            executor.handler({"Records": [taken(make_job(), receives=receives)]}, CONTEXT)
        waits = [one["VisibilityTimeout"] for one in asked]
        assert all(2**index <= wait <= 1.5 * 2**index + 0.5 for index, wait in enumerate(waits))

    @pytest.mark.parametrize("error", [CorruptDefinitionError(), ValueError("a bug"), KeyError("x")])
    def test_poison_waits_for_the_queues_own_time(
        self, error: Exception, taken: Any, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(executor, "handle_hint", raising(error))
        assert failed_items(executor.handler({"Records": [taken(make_job())]}, CONTEXT)) == ["message-1"]
        assert failed_items(executor.handler({"Records": [taken(make_job(), body="not JSON")]}, CONTEXT)) != []
        assert asked == []

    def test_one_that_sqs_does_not_take_back_fails_as_before(self, taken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(executor, "handle_hint", raising(UnavailableError()))
        event = taken(make_job()) | {"receiptHandle": "nobody's"}
        assert failed_items(executor.handler({"Records": [event]}, CONTEXT)) == ["message-1"]
        other = taken(make_job()) | {"eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:another"}
        assert failed_items(executor.handler({"Records": [other]}, CONTEXT)) == ["message-1"]

    def test_a_table_that_throttles_is_met_in_every_call(
        self, aws: Aws, outbox: str, store: DynamoDbJobs, taken: Any, asked: list[dict[str, Any]]
    ) -> None:
        job = store.create(due_job(outbox))
        event = taken(job)
        bootstrap.executor().jobs.get = raising(throttled())  # type: ignore[method-assign]  # the table refuses it
        assert failed_items(executor.handler({"Records": [event]}, CONTEXT)) == ["message-1"]
        assert len(asked) == 1


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


class TestSteps:
    """events/step-v1.json is what the state machine gives the function; the executor gave the machine its ids."""

    def test_the_executor_hands_over_and_the_steps_do_the_rest(
        self, aws: Aws, outbox: str, store: DynamoDbJobs, history: DynamoDbHistory
    ) -> None:
        job = due_job(outbox)
        document = {**job.defined.document, "orchestrated": True}
        job = store.create(replace(job, definition=make_definition(**document, created_at=job.created_at)))
        executor.handler({"Records": [record(job)]}, CONTEXT)
        assert received(aws, outbox) == []
        [execution] = aws.states.list_executions(stateMachineArn=aws.machine)["executions"]
        given = json.loads(aws.states.describe_execution(executionArn=execution["executionArn"])["input"])
        step = sample("step-v1") | given
        assert step.keys() == sample("step-v1").keys()

        assert steps.handler(step | {"step": "checkCircuit"}, CONTEXT) == {"state": "closed", "until": None}
        assert steps.handler(step, CONTEXT) == {"status": "COMPLETED"}
        assert len(received(aws, outbox)) == 1
        row = store.get(job.id)
        assert row is not None
        assert row.status is JobStatus.RUNNING
        assert steps.handler(step | {"step": "recordOutcome"}, CONTEXT) == {"status": "COMPLETED"}
        row = store.get(job.id)
        assert row is not None
        assert row.status is JobStatus.COMPLETED
        for again in ("checkCircuit", "invoke", "recordOutcome", "recordFailure", "recordTimeout", "endAsCircuitOpen"):
            steps.handler(step | {"step": again, "until": 0}, CONTEXT)
        assert store.get(job.id) == row
        assert received(aws, outbox) == []

    def test_the_sample_names_a_job_that_is_not_there_and_is_let_be(self) -> None:
        assert steps.handler(sample("step-v1"), CONTEXT) == {"status": None}
        assert steps.handler(sample("step-v1") | {"step": "checkCircuit"}, CONTEXT)["state"] == "stopped"

    @pytest.mark.parametrize("changes", [{"v": 2}, {"step": "dance"}])
    def test_what_it_does_not_know_is_an_error_of_the_function(self, changes: dict[str, Any]) -> None:
        with pytest.raises((ValueError, KeyError)):
            steps.handler(sample("step-v1") | changes, CONTEXT)


def spoil(aws: Aws, job_id: str, row: str = "S", **attributes: str) -> None:
    """Set attributes of a stored row by hand."""
    for name, value in attributes.items():
        aws.dynamodb.update_item(
            TableName=aws.jobs_table,
            Key={"jobId": {"S": job_id}, "S": {"S": row}},
            UpdateExpression="SET #name = :value",
            ExpressionAttributeNames={"#name": name},
            ExpressionAttributeValues={":value": {"S": value}},
        )


class TestSweep:
    def test_a_due_job_whose_hint_was_lost_gets_one(self, aws: Aws, outbox: str, store: DynamoDbJobs) -> None:
        now = int(time.time())
        job = store.create(replace(due_job(outbox), attention_at=now - 1))
        store.create(make_job(id=JOB_ID[:-1] + "0", created_at=now))
        answer = sweep.handler(sample("sweep"), CONTEXT)
        assert (answer["lookedAt"], answer["reasons"], answer["failed"]) == (1, {"WOKEN": 1}, 0)
        [body] = received(aws, aws.queues[Priority.NORMAL][0])
        assert read_hint(body)[:2] == (job.id, str(job.next_slot))

    def test_a_row_that_cannot_be_read_hides_no_other(self, aws: Aws, outbox: str, store: DynamoDbJobs) -> None:
        ids = [f"{JOB_ID[:-2]}{number:02d}" for number in range(20)]
        for job_id in ids:
            store.create(replace(due_job(outbox, id=job_id), attention_at=int(time.time()) - 1))
        spoil(aws, ids[7], runs="broken")
        answer = sweep.handler(sample("sweep"), CONTEXT)
        assert (answer["lookedAt"], answer["reasons"]) == (20, {"WOKEN": 19, "UNREADABLE": 1})
        assert answer["failed"] == 0
        named = {read_hint(body).job_id for body in received(aws, aws.queues[Priority.NORMAL][0])}
        assert named == set(ids) - {ids[7]}

    def test_without_time_left_the_next_tick_goes_on(self, outbox: str, store: DynamoDbJobs) -> None:
        store.create(replace(due_job(outbox), attention_at=int(time.time()) - 1))
        late: Any = SimpleNamespace(aws_request_id="r", get_remaining_time_in_millis=lambda: 8_000)
        assert sweep.handler(sample("sweep"), late)["lookedAt"] == 0
        assert sweep.handler(sample("sweep"), CONTEXT)["lookedAt"] == 1


def keys_of(row: dict[str, Any]) -> dict[str, Any]:
    """Of a row of Coordination."""
    return {name: row[name] for name in ("kind", "name")}


class TestDeadLetters:
    def test_a_run_that_failed_for_good_is_announced_with_all_it_takes(self, aws: Aws, store: DynamoDbJobs) -> None:
        store.create(replace(FULL_ROW, deleted_at=None, cancelled=False))
        assert dead_letters.handler(sample("history-stream"), CONTEXT) == {"batchItemFailures": []}
        [body] = received(aws, aws.dead_letter_queue_url)
        assert json.loads(body) == sample("dead-letter-v1")

    def test_a_record_that_cannot_be_read_holds_nobody_up(self, aws: Aws, unreadable: str) -> None:
        event = sample("history-stream")
        broken = json.loads(json.dumps(event["Records"][0]))
        del broken["dynamodb"]["NewImage"]["s"]
        event["Records"].insert(0, broken)
        assert dead_letters.handler(event, CONTEXT) == {"batchItemFailures": []}
        assert len(received(aws, aws.dead_letter_queue_url)) == 1
        [kept] = received(aws, unreadable)
        assert json.loads(kept)["keys"] == broken["dynamodb"]["Keys"]

    def test_gaps_and_attempts_that_are_retried_are_no_dead_letters(self, aws: Aws) -> None:
        event = sample("history-stream")
        [first] = event["Records"]
        waiting = execution_item(replace(FAILED_EXECUTION, final=False), retention_days=30)
        event["Records"] = [
            first | {"dynamodb": first["dynamodb"] | {"NewImage": image}}
            for image in (waiting, sample("row-gap-v1"), sample("row-execution-v1"))
        ]
        dead_letters.handler(event, CONTEXT)
        assert len(received(aws, aws.dead_letter_queue_url)) == 1

    def test_what_is_kept_for_other_jobs_is_passed_over(self, aws: Aws, unreadable: str) -> None:
        end = sample("row-end-v1")
        [record] = sample("history-stream")["Records"]
        images = {"Keys": {name: end[name] for name in ("jobId", "sk")}, "NewImage": end, "SequenceNumber": "1"}
        answer = dead_letters.handler({"Records": [{**record, "dynamodb": images}]}, CONTEXT)
        assert answer == {"batchItemFailures": []}
        assert received(aws, aws.dead_letter_queue_url) == received(aws, unreadable) == []
        assert "dl" not in end, "the function is called for rows of this index only"


class TestLifecycle:
    """events/jobs-stream.json: a run of a job ended well."""

    def test_a_change_of_a_job_is_on_the_bus(self, aws: Aws) -> None:
        assert lifecycle.handler(sample("jobs-stream"), CONTEXT) == {"batchItemFailures": []}
        [body] = received(aws, aws.subscriber_url)
        event = json.loads(body)
        assert event["detail-type"] == "job.completed"
        assert event["detail"]["id"] == f"{JOB_ID}:42:0"
        assert event["detail"]["jobName"] == DEFINITION.name

    def test_how_an_attempt_ended_is_read_from_history(self, aws: Aws, history: DynamoDbHistory) -> None:
        slot = str(NOW + 600)
        history.record(replace(FAILED_EXECUTION, slot_id=slot, attempt=1))
        lifecycle.handler(sample("jobs-stream"), CONTEXT)
        [body] = received(aws, aws.subscriber_url)
        detail = json.loads(body)["detail"]
        assert (detail["eventType"], detail["errorCode"]) == ("job.permanently_failed", "HTTP_503")

    def test_a_record_that_cannot_be_read_holds_nobody_up(self, aws: Aws, unreadable: str) -> None:
        event = sample("jobs-stream")
        broken = json.loads(json.dumps(event["Records"][0]))
        del broken["dynamodb"]["NewImage"]["ca"]
        event["Records"].insert(0, broken)
        assert lifecycle.handler(event, CONTEXT) == {"batchItemFailures": []}
        assert len(received(aws, aws.subscriber_url)) == 1
        [kept] = received(aws, unreadable)
        assert json.loads(kept)["keys"] == broken["dynamodb"]["Keys"]

    def test_definitions_and_what_expired_are_no_events(self, aws: Aws, unreadable: str) -> None:
        [record] = sample("jobs-stream")["Records"]
        definition = json.loads(json.dumps(record))
        definition["dynamodb"]["Keys"]["S"] = {"S": "D#3#AbCdEfGhIjKl"}
        expired = {**record, "eventName": "REMOVE"}
        assert lifecycle.handler({"Records": [definition, expired]}, CONTEXT) == {"batchItemFailures": []}
        assert received(aws, aws.subscriber_url) == received(aws, unreadable) == []

    def test_circuits_and_workers_are_told_of_and_heartbeats_are_not(self, aws: Aws, unreadable: str) -> None:
        circuits = DynamoDbCircuits(aws.dynamodb, aws.coordination_table)
        opened = Circuit(key="sqs:orders@team-a", failures=5, since=NOW, open_until=NOW + 30)
        circuits.save(Circuit(key="sqs:orders@team-a"), opened, now=NOW)
        worker = Worker(
            id="abcdefghijklmnop",
            owner="team-a",
            created_by="alice",
            name="one",
            queues=("reports",),
            max_items=1,
            registered_at=NOW,
            seen_at=NOW,
        )
        DynamoDbWorkers(aws.dynamodb, aws.coordination_table).register(worker)
        [record] = sample("jobs-stream")["Records"]

        def change(event: str, row: dict[str, Any]) -> dict[str, Any]:
            images = {"Keys": keys_of(row), "NewImage": row, "SequenceNumber": "1", "ApproximateCreationDateTime": NOW}
            return {**record, "eventName": event, "dynamodb": images}

        table = aws.dynamodb.scan(TableName=aws.coordination_table)["Items"]
        rows = {row["kind"]["S"]: row for row in table}
        unread = change("INSERT", {name: value for name, value in rows["circuit#team-a"].items() if name != "si"})
        records = [
            change("INSERT", rows["circuit#team-a"]),
            change("INSERT", rows["worker"]),
            change("MODIFY", rows["worker"]),
        ]
        assert lifecycle.handler({"Records": [unread, *records]}, CONTEXT) == {"batchItemFailures": []}
        found = [json.loads(body)["detail-type"] for body in received(aws, aws.subscriber_url)]
        assert sorted(found) == ["circuit.opened", "worker.registered"]
        assert len(received(aws, unreadable)) == 1

    def test_edges_graphs_and_workflows_are_no_events(self, aws: Aws, unreadable: str) -> None:
        DynamoDbDependents(aws.dynamodb, aws.coordination_table).add(JOB_ID, ["parent"])
        workflow = Workflow(id="w", name="nightly", owner="team-a", created_by="alice", created_at=NOW, jobs=())
        DynamoDbWorkflows(aws.dynamodb, aws.coordination_table).put(workflow)
        store = DynamoDbJobs(aws.dynamodb, aws.jobs_table, graphs=aws.coordination_table)
        read = store.create(replace(FULL_ROW, deleted_at=None))
        store.save(read, replace(read, write_id="w-2", paused=False), graph=0)
        table = aws.dynamodb.scan(TableName=aws.coordination_table)["Items"]
        assert {row["kind"]["S"].partition("#")[0] for row in table} == {"dependents", "graph", "workflow", "workflows"}
        [record] = sample("jobs-stream")["Records"]
        records = [
            {
                **record,
                "eventName": event,
                "dynamodb": {
                    "Keys": keys_of(row),
                    "NewImage": row,
                    "SequenceNumber": "1",
                    "ApproximateCreationDateTime": NOW,
                },
            }
            for row in table
            for event in ("INSERT", "MODIFY")
        ]
        assert lifecycle.handler({"Records": records}, CONTEXT) == {"batchItemFailures": []}
        assert received(aws, aws.subscriber_url) == received(aws, unreadable) == []

    def test_what_the_bus_refuses_comes_again(self, aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EVENT_BUS", "a bus that is not there")
        hurried: Any = SimpleNamespace(aws_request_id="1", get_remaining_time_in_millis=lambda: 10_100)
        answer = lifecycle.handler(sample("jobs-stream"), hurried)
        assert answer == {"batchItemFailures": [{"itemIdentifier": "400000000000000001"}]}


def test_the_api_and_the_jobs_function_answer_their_samples() -> None:
    assert api.handler(sample("api-health"), CONTEXT)["statusCode"] == 200
    assert json.loads(jobs.handler(sample("jobs"), CONTEXT)["result"])["payload"] == sample("jobs")["payload"]


class TestShapes:
    """Rows and messages of every release are read; this release writes the newest (CONTRIBUTING.md)."""

    def test_a_state_row(self) -> None:
        item = sample("row-job-v1")
        assert read_job(item) == FULL_ROW
        assert item == state_key(JOB_ID) | state_attributes(FULL_ROW) | definition_attributes(DEFINITION)

    def test_a_state_row_with_a_silence_alarm(self) -> None:
        item = sample("row-job-v2")
        assert read_job(item) == ROW_WITH_ALARM
        assert item == state_key(JOB_ID) | state_attributes(ROW_WITH_ALARM) | definition_attributes(DEFINITION)

    def test_a_state_row_of_a_graph(self) -> None:
        item = sample("row-job-v3")
        assert read_job(item) == ROW_OF_A_GRAPH
        assert item == state_key(JOB_ID) | state_attributes(ROW_OF_A_GRAPH) | definition_attributes(DEFINITION)

    def test_an_end(self) -> None:
        assert read_end(sample("row-end-v1")) == END
        assert sample("row-end-v1") == end_item(JOB_ID, 3, END, retention_days=30)

    def test_a_definition_row(self) -> None:
        item = sample("row-definition-v1")
        assert read_definition(item, job_id=JOB_ID, created_at=NOW) == DEFINITION
        assert item == definition_key(JOB_ID, "D#1#AbCdEfGhIjKl") | definition_attributes(DEFINITION)

    def test_an_execution(self) -> None:
        assert read_history(sample("row-execution-v1")) == FAILED_EXECUTION
        assert sample("row-execution-v1") == execution_item(FAILED_EXECUTION, retention_days=30)

    def test_a_gap(self) -> None:
        assert read_history(sample("row-gap-v1")) == GAP_ROW
        assert sample("row-gap-v1") == gap_item(GAP_ROW, retention_days=30)

    @pytest.mark.parametrize("name", ["row-job-v1", "row-execution-v1", "row-gap-v1"])
    def test_what_a_newer_release_adds_is_ignored(self, name: str) -> None:
        item = sample(name) | {"zz": {"M": {"new": {"BOOL": True}}}}
        read = read_job if name == "row-job-v1" else read_history
        assert read(item) == read(sample(name))

    def test_what_is_missing_is_an_error_of_its_own(self) -> None:
        for name, required in (("row-job-v1", "seq"), ("row-execution-v1", "s"), ("row-gap-v1", "to")):
            item = sample(name)
            del item[required]
            with pytest.raises(CorruptDefinitionError):
                (read_job if name == "row-job-v1" else read_history)(item)

    def test_what_a_schedule_carries_is_what_a_queue_carries(self, aws: Aws) -> None:
        hint = read_hint(sample("hint-v1")["Records"][0]["body"])
        timetable = make_timetable(aws, FakeClock(NOW - 7_200))
        timetable.arm(hint, due_at=NOW, priority=Priority.NORMAL)
        [summary] = aws.scheduler.list_schedules(GroupName=aws.schedule_group)["Schedules"]
        schedule = aws.scheduler.get_schedule(Name=summary["Name"], GroupName=aws.schedule_group)
        assert schedule["Target"]["Input"] == sample("hint-v1")["Records"][0]["body"]


READ_HERE = {
    "dead-letter-v1",
    "hint-v1",
    "hints-batch",
    "history-stream",
    "jobs",
    "jobs-v1",
    "jobs-stream",
    "lifecycle-v1",
    "row-definition-v1",
    "step-v1",
    "row-execution-v1",
    "row-gap-v1",
    "row-job-v1",
    "row-job-v2",
    "row-job-v3",
    "row-end-v1",
    "sweep",
}


def test_every_file_in_events_is_read_by_a_test() -> None:
    names = {path.stem for path in EVENTS.iterdir()}
    assert {name for name in names if not name.startswith("api-")} == READ_HERE
    for name in names - READ_HERE:
        assert Api().answer(sample(name)).status < 500, name
