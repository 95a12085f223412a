"""Workflows over the DynamoDB adapters: which calls they make, how large rows become, what a dependency costs."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from functions.adapters.dynamodb_graph import DynamoDbDependents, DynamoDbGraphs
from functions.adapters.dynamodb_history import DynamoDbHistory
from functions.adapters.dynamodb_idempotency import DynamoDbIdempotencyKeys
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.adapters.dynamodb_workflows import DynamoDbWorkflows
from functions.api.app import create_app
from functions.domain.job import Upstream
from tests.api_client import RULES
from tests.factories import NOW, make_definition, make_job, new_id
from tests.workflows import PATH, Played, diamond, job, workflow

if TYPE_CHECKING:
    from tests.conftest import Aws

BIGGEST = 400 * 1024
"""Bytes of an item, and actions of a transaction (DynamoDB quotas)."""
MOST = 100


class OverMoto(Played):
    """API and engine whose graph, jobs, history and keys are in DynamoDB's tables."""

    def __init__(self, aws: Aws) -> None:
        super().__init__()
        self.aws = aws
        self.calls: list[tuple[str, dict[str, Any]]] = []
        aws.dynamodb.meta.events.register_first(
            "before-parameter-build.dynamodb",
            lambda params, model, **_: self.calls.append((model.name, dict(params))),
        )
        ports: dict[str, Any] = {
            "jobs": DynamoDbJobs(aws.dynamodb, aws.jobs_table, graphs=aws.coordination_table),
            "history": DynamoDbHistory(aws.dynamodb, aws.executions_table, retention_days=30),
            "dependents": DynamoDbDependents(aws.dynamodb, aws.coordination_table),
        }
        more: dict[str, Any] = {
            "graphs": DynamoDbGraphs(aws.dynamodb, aws.coordination_table),
            "workflows": DynamoDbWorkflows(aws.dynamodb, aws.coordination_table),
            "idempotency": DynamoDbIdempotencyKeys(aws.dynamodb, aws.idempotency_table),
        }
        self.driver.executor = dataclasses.replace(self.driver.executor, **ports)
        self.driver.services = dataclasses.replace(self.driver.services, **ports, **more)
        self.api.services = self.driver.services
        self.api.app = create_app(
            self.driver.services,
            limits=self.world.limits,
            rules=RULES,
            check_address=lambda _url: None,
            stage="test",
            version="0",
        )
        self.jobs = ports["jobs"]

    def took(self) -> Counter[str]:
        """The calls since the last time, after a look at each."""
        calls, self.calls = self.calls, []
        for name, params in calls:
            assert name != "Scan"
            if name == "TransactWriteItems":
                assert len(params["TransactItems"]) <= MOST
        return Counter(name for name, _ in calls)

    def largest(self) -> int:
        """Bytes of the largest item there is; its JSON is longer than what DynamoDB counts."""
        rows = [
            row
            for table in (self.aws.jobs_table, self.aws.executions_table, self.aws.coordination_table)
            for page in self.aws.dynamodb.get_paginator("scan").paginate(TableName=table)
            for row in page["Items"]
        ]
        self.calls.clear()
        return max(len(json.dumps(row, default=str)) for row in rows)


@pytest.fixture
def played(aws: Aws) -> OverMoto:
    return OverMoto(aws)


def test_a_diamond_over_the_adapters(played: OverMoto) -> None:
    path = played.create(diamond(), headers={"idempotency-key": "k1"})
    made = played.took()
    # The edges, the workflow and its place in the list, the key; four rows in one transaction.
    assert made == {"PutItem": 4 + 2 + 1, "TransactWriteItems": 1}
    assert played.create(diamond(), headers={"idempotency-key": "k1"}) == path
    assert set(played.took()) == {"PutItem", "GetItem", "BatchGetItem"}
    played.run(60)
    ran = played.took()
    assert sorted(played.called) == ["a", "b", "c", "d"]
    assert set(ran) <= {"GetItem", "BatchGetItem", "PutItem", "UpdateItem", "Query"}
    assert set(played.statuses(path).values()) == {"COMPLETED"}
    assert played.took() == {"GetItem": 1, "BatchGetItem": 1}
    assert len(played.api.get(PATH).json["data"]) == 1


@pytest.mark.slow
def test_a_hundred_jobs_are_one_transaction(played: OverMoto) -> None:
    big = {"text": "x" * 3_000}
    jobs = {"root": job(payload=big)} | {f"j{n}": job("root", payload=big) for n in range(98)}
    path = played.create(workflow(**jobs, last=job(*[f"j{n}" for n in range(98)])))
    made = played.took()
    assert made["TransactWriteItems"] == 1
    assert made["PutItem"] == 2 * 98 + 2 + 100, "edges, the workflow's rows, definitions too large for their jobs' rows"
    assert len(played.statuses(path)) == 100
    assert played.took()["BatchGetItem"] <= 4
    reply = played.api.post(f"{path}/cancel")
    assert reply.status == 200
    assert {one["status"] for one in reply.json["jobs"]} == {"CANCELLED"}
    played.took()
    assert played.largest() < BIGGEST


def test_a_thousand_parents_fit_a_row_and_are_read_by_hundreds(played: OverMoto) -> None:
    parents = [new_id() for _ in range(1_000)]
    edges = [{"jobId": one, "when": "length(rows) > `100`", "on": "completion"} for one in parents]
    job_id = new_id()
    definition = make_definition(job_id=job_id, schedule=None, dependsOn=edges)
    upstream = Upstream(marks=(9_999_999_999,) * 1_000, look_at=NOW, since=NOW)
    played.jobs.create(make_job(id=job_id, definition=definition, next_slot=None, upstream=upstream))
    assert played.jobs.get(job_id).upstream == upstream
    assert played.largest() < BIGGEST // 2
    assert played.jobs.get_rows(parents) == {}
    assert played.took() == {"BatchGetItem": 10}


def test_what_a_dependency_costs(played: OverMoto) -> None:
    """Of a chain: the numbers of docs/workflows.md."""
    played.driver.sweeps = False
    counts = {}
    for length in (1, 11):
        chain = {f"j{n}": job(f"j{n - 1}") if n else job() for n in range(length)}
        played.create(workflow(**chain), headers={"idempotency-key": new_id()})
        made = played.took()
        played.run(60)
        ran = played.took()
        counts[length] = (made, ran)
    (made_one, ran_one), (made_all, ran_all) = counts[1], counts[11]
    assert made_all["PutItem"] - made_one["PutItem"] == 10, "an edge each"
    # Its run is made, starts, ends; nothing more will come; and its parent's dependents were told.
    assert ran_all["UpdateItem"] - ran_one["UpdateItem"] == 10 * 5
    assert ran_all["PutItem"] - ran_one["PutItem"] == 10, "history"
    assert ran_all["Query"] - ran_one["Query"] == 10, "the edges of a parent that ended"
    assert ran_all["BatchGetItem"] - ran_one["BatchGetItem"] == 10 * 2, "the parents, at each of its two looks"
