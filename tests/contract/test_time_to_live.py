"""Each item that is stored expires as its kind does, after each write: over every place that writes."""

from __future__ import annotations

import ast
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from functions import adapters
from functions.adapters import dynamodb_keys
from functions.adapters.dynamodb_circuits import DynamoDbCircuits
from functions.adapters.dynamodb_graph import DynamoDbDependents, DynamoDbGraphs
from functions.adapters.dynamodb_history import DynamoDbHistory
from functions.adapters.dynamodb_idempotency import DynamoDbIdempotencyKeys
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.adapters.dynamodb_keys import state_key, text
from functions.adapters.dynamodb_limits import DynamoDbRateLimits
from functions.adapters.dynamodb_owners import DynamoDbOwners
from functions.adapters.dynamodb_progress import DynamoDbProgress
from functions.adapters.dynamodb_retry_configs import DynamoDbRetryConfigs
from functions.adapters.dynamodb_shares import DynamoDbShareRows
from functions.adapters.dynamodb_slots import DynamoDbSlots
from functions.adapters.dynamodb_workers import DynamoDbWorkers
from functions.adapters.dynamodb_workflows import DynamoDbWorkflows
from functions.adapters.process_shares import ProcessShares
from functions.domain.definition import Priority
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.instants import rfc3339
from functions.domain.outcome import TargetAnswer
from functions.domain.shares import Refusal, Share
from functions.ports import RecurringCount
from tests.api_client import Api, user
from tests.conftest import Aws
from tests.driver import Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.kept_items import KINDS, RETENTION_DAYS, all_items, check_item, kind_of, watch_writes

KEYS = {
    "jobs": ("jobId", "S"),
    "executions": ("jobId", "sk"),
    "idempotency": ("pk",),
    "coordination": ("kind", "name"),
}
FOLDER = Path(next(iter(adapters.__path__)))
_WRITES = {"put_item", "update_item", "transact_write_items", "batch_write_item"}
BROKEN = TargetAnswer(status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_503", message="no"))
FEW = 2
ADMIN = user("root", "admin")


def places_that_write() -> set[tuple[str, str]]:
    """Module and function of each call of the adapters that may store an item."""
    found: set[tuple[str, str]] = set()
    for path in FOLDER.glob("dynamodb_*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                names = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
                if names & _WRITES:
                    found.add((path.stem, function.name))
    return found


def writing_places() -> Iterator[tuple[str, str]]:
    """The functions of adapters by which something is written just now."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.parent == FOLDER:
            yield path.stem, frame.f_code.co_name
        frame = frame.f_back


class Stage:
    """API and engine over the adapters, and what each write has left."""

    def __init__(self, aws: Aws) -> None:
        dynamodb = aws.dynamodb
        self.aws, self.clock = aws, FakeClock(NOW)
        self.world = world = World(clock=self.clock)
        ports: dict[str, Any] = {
            "jobs": DynamoDbJobs(dynamodb, aws.jobs_table, graphs=aws.coordination_table),
            "history": DynamoDbHistory(dynamodb, aws.executions_table, retention_days=RETENTION_DAYS),
            "slots": DynamoDbSlots(dynamodb, aws.coordination_table),
            "circuits": DynamoDbCircuits(dynamodb, aws.coordination_table),
            "idempotency": DynamoDbIdempotencyKeys(dynamodb, aws.idempotency_table),
            "owners": DynamoDbOwners(dynamodb, aws.coordination_table),
            "workers": DynamoDbWorkers(dynamodb, aws.coordination_table),
            "progress": DynamoDbProgress(dynamodb, aws.coordination_table),
            "retry_configs": DynamoDbRetryConfigs(dynamodb, aws.coordination_table),
            "dependents": DynamoDbDependents(dynamodb, aws.coordination_table),
            "graphs": DynamoDbGraphs(dynamodb, aws.coordination_table),
            "workflows": DynamoDbWorkflows(dynamodb, aws.coordination_table),
        }
        for name, port in ports.items():
            setattr(world, name, port)
        self.driver = Driver(world)
        self.api = Api(
            world,
            claims=ADMIN,
            limits=DynamoDbRateLimits(
                dynamodb,
                aws.coordination_table,
                reads_per_minute=10_000,
                writes_per_minute=10_000,
                work_per_minute=10_000,
                creations_per_day=10_000,
            ),
        )
        self.kinds: set[str] = set()
        self.places: set[tuple[str, str]] = set()
        self.wrong: list[str] = []
        watch_writes(dynamodb, KEYS, self.seen)

    def seen(self, table: str, item: Any) -> None:
        self.places.update(writing_places())
        deleted = None
        kind = kind_of(table, item)
        self.kinds.add(kind)
        if kind == "job":
            deleted = "ow" not in item
        elif kind == "definition":
            deleted = self.is_deleted(item["jobId"]["S"])
        try:
            check_item(table, item, now=self.clock.now(), deleted=deleted)
        except AssertionError as error:  # raised here it would be an answer of AWS
            self.wrong.append(str(error))

    def is_deleted(self, job_id: str) -> bool:
        item = self.aws.dynamodb.get_item(TableName="jobs", Key=state_key(job_id)).get("Item", {"ow": None})
        return "ow" not in item

    def once(self, **changes: Any) -> str:
        at = {"type": "once", "at": rfc3339(int(self.clock.now()))}
        return self.api.create(**{"schedule": at, **changes})

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        reply = self.api.post(path, body, **options)
        assert reply.status in (200, 201), reply.text
        return reply.json


@pytest.fixture(autouse=True)
def _few_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep's tick asks each of them."""
    monkeypatch.setattr(dynamodb_keys, "SHARDS", FEW)
    monkeypatch.setattr(DynamoDbJobs, "shards", FEW)


@pytest.fixture
def stage(aws: Aws) -> Iterator[Stage]:
    stage = Stage(aws)
    yield stage
    assert stage.wrong == []


def create_keep_and_delete(stage: Stage) -> None:
    body = {"schedule": {"type": "interval", "everySeconds": 600}, "payload": {"text": "x" * 9_000}}
    path = stage.api.create(**body)
    stage.driver.run(601)
    stage.api.patch(path, {"payload": {"text": "y" * 9_000}})
    assert stage.api.delete(path).status == 204
    small = stage.once()
    key = {"idempotency-key": "k"}
    for _ in range(2):
        stage.post(
            "/v1/jobs",
            {"name": "n", "schedule": body["schedule"], "target": {"type": "http", "url": "https://a.example"}},
            headers=key,
        )
    stage.clock.advance(30)
    stage.driver.run(5)
    assert stage.api.delete(small).status == 204


def fail_skip_and_follow(stage: Stage) -> None:
    parent = stage.api.create(schedule={"type": "interval", "everySeconds": 60}, retryConfig={"maxRetries": 0})
    child = stage.api.create(schedule=None, dependsOn=[{"jobId": parent.rpartition("/")[2]}])
    stage.driver.run(200)
    stage.world.targets.answers = [BROKEN, TargetAnswer(status=ExecutionStatus.COMPLETED)]
    stage.driver.run(130)
    stage.driver.leap_to(stage.clock.now() + 400)
    stage.driver.run(100)
    for path in (child, parent):
        assert stage.api.delete(path).status == 204
    stage.driver.run(60)


def work(stage: Stage) -> None:
    stage.once(target={"type": "worker", "queue": "q"}, timeoutSeconds=300)
    stage.driver.run(2)
    worker = stage.post("/v1/workers", {"queues": ["q"]})["id"]
    stage.clock.advance(25)
    [held] = stage.post(f"/v1/workers/{worker}/poll", {})["data"]
    holder = {"workerId": worker, "fence": held["fence"]}
    stage.post(f"/v1/executions/{held['id']}/progress", holder | {"percent": 5})
    stage.clock.advance(40)
    stage.post(f"/v1/executions/{held['id']}/progress", holder | {"percent": 50})
    stage.post(f"/v1/workers/{worker}/heartbeat", {"executions": [{"id": held["id"], "fence": held["fence"]}]})
    stage.post(f"/v1/executions/{held['id']}/complete", holder | {"result": {"rows": 3}})
    stage.post(f"/v1/workers/{worker}/drain")


def limit_and_break(stage: Stage) -> None:
    stage.world.targets.answers = [BROKEN] * 3
    shared = {"concurrencyKey": "db", "maxConcurrency": 1, "retryConfig": {"maxRetries": 1, "initialDelaySeconds": 1}}
    stage.world.types.set_circuits(failureThreshold=2, openSeconds=30)
    for _ in range(2):
        stage.once(**shared, circuitBreaker={})
    stage.driver.run(120)
    [circuit] = stage.api.get("/v1/circuits").json["data"]
    stage.post(f"/v1/circuits/{circuit['key']}/reset")
    stage.world.targets.answers = [TargetAnswer(status=ExecutionStatus.COMPLETED)]


def shut_out(stage: Stage) -> None:
    mallory, trudy = (str(uuid.UUID(int=number, version=4)) for number in (1, 2))
    for subject in (mallory, trudy):
        assert stage.api.put(f"/v1/admin/revocations/{subject}").status == 200
    assert stage.api.delete(f"/v1/admin/revocations/{trudy}").status == 204


def configure_and_group(stage: Stage) -> None:
    assert stage.api.put("/v1/retry-configs/billing", {"maxConcurrency": 3}).status == 200
    step = {"target": {"type": "http", "url": "https://example.com/hook"}}
    jobs = {
        "a": step | {"schedule": {"type": "interval", "everySeconds": 60}},
        "b": step | {"dependsOn": [{"job": "a"}]},
    }
    made = stage.post("/v1/workflows", {"name": "w", "jobs": jobs})
    ids = {one["name"]: one["jobId"] for one in made["jobs"]}
    other = stage.api.create(schedule={"type": "interval", "everySeconds": 60}).rpartition("/")[2]
    assert stage.api.patch(f"/v1/jobs/{ids['b']}", {"dependsOn": [{"jobId": ids["a"]}, {"jobId": other}]}).status == 200
    refused = {"name": "n", "schedule": {"type": "cron", "expression": "0 0 30 2 *"}, "target": step["target"]}
    stage.post("/v1/jobs/bulk", {"items": [refused]})


def spoil(stage: Stage) -> None:
    job_id = stage.once().rpartition("/")[2]
    for broken in ("urgent", "normal"):
        stage.aws.dynamodb.update_item(
            TableName="jobs",
            Key=state_key(job_id),
            UpdateExpression="SET pr = :pr",
            ExpressionAttributeValues={":pr": text(broken)},
        )
        stage.clock.advance(120)
        stage.driver.sweep_now()
    stage.driver.run(60)


def share_and_count(stage: Stage) -> None:
    rows = DynamoDbShareRows(stage.aws.dynamodb, stage.aws.coordination_table)
    shares = ProcessShares(rows, dict.fromkeys(Priority, Share(2, 100)), clock=stage.clock, call_later=lambda *_: None)  # type: ignore[arg-type, return-value]  # nothing is called
    entry = shares.enter("team-a", Priority.NORMAL, lasts=40)
    assert not isinstance(entry, Refusal)
    stage.clock.advance(70)
    rows.stay("team-a", Priority.NORMAL, "p", until=stage.clock.now() + 40, now=stage.clock.now())
    stage.clock.advance(5)
    rows.leave("team-a", Priority.NORMAL, "p", now=stage.clock.now())
    stage.world.owners.register("team-z")
    stage.world.owners.add_recurring("team-a", 1, most=1)
    assert stage.world.owners.correct_recurring(
        "team-a", 0, instead_of=RecurringCount(1, None), now=int(stage.clock.now())
    )


STORIES = (
    create_keep_and_delete,
    fail_skip_and_follow,
    work,
    limit_and_break,
    configure_and_group,
    share_and_count,
    shut_out,
    spoil,
)


@pytest.mark.slow
def test_each_write_of_each_kind_leaves_what_expires_as_it_should(stage: Stage) -> None:
    for story in STORIES:
        story(stage)
    assert stage.kinds == KINDS.keys()
    assert places_that_write() - stage.places == set(), "no story goes there"
    tables = {"jobs": "jobs", "executions": "executions", "idempotency": "idempotency", "coordination": "coordination"}
    for table, item in all_items(stage.aws.dynamodb, tables):
        check_item(table, item)


def test_an_item_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(AssertionError, match="nobody has said"):
        kind_of("coordination", {"kind": text("lottery"), "name": text("x")})
    with pytest.raises(AssertionError, match="nobody has said"):
        kind_of("jobs", {"jobId": text("x"), "S": text("A#1")})
