"""What only DynamoDB's transactions do: conflicts with other writers, tokens, throttles among the reasons."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from functions.adapters.aws_errors import is_transient
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.adapters.dynamodb_transactions import ROUNDS
from functions.domain.errors import JobExistsError, UnavailableError
from tests.factories import make_job, new_id
from tests.faults import Faults

if TYPE_CHECKING:
    from tests.conftest import Aws

CONFLICT = {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"}
FINE = {"Code": "None"}


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def jobs(aws: Aws, pauses: list[float]) -> DynamoDbJobs:
    return DynamoDbJobs(aws.dynamodb, aws.jobs_table, graphs=aws.coordination_table, sleep=pauses.append)


def refuse(
    aws: Aws, operation: str, *, times: int, code: str, reasons: list[dict[str, Any]] | None = None
) -> list[int]:
    """The first `times` calls are answered so, and go nowhere; returns all calls so far, by number."""
    calls: list[int] = []

    def answer(**_: Any) -> Any:
        calls.append(len(calls) + 1)
        if len(calls) > times:
            return None
        error = {"Error": {"Code": code, "Message": "refused"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
        return SimpleNamespace(status_code=400), error | ({"CancellationReasons": reasons} if reasons else {})

    aws.dynamodb.meta.events.register(f"before-call.dynamodb.{operation}", answer)
    return calls


def cancelled(aws: Aws, *reasons: dict[str, Any], times: int) -> list[int]:
    code = "TransactionCanceledException"
    return refuse(aws, "TransactWriteItems", times=times, code=code, reasons=list(reasons))


@pytest.mark.parametrize("code", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
def test_what_passes_by_itself_is_repeated(aws, jobs, pauses, code):
    wanted = [make_job(id=new_id()) for _ in range(2)]
    calls = cancelled(aws, {"Code": code}, FINE, times=ROUNDS - 1)

    put = jobs.create_all(wanted)

    assert jobs.get_many([job.id for job in wanted]) == list(put)
    assert len(calls) == ROUNDS
    assert all(later == 2 * earlier for earlier, later in itertools.pairwise(pauses))


def test_who_is_always_in_the_way_makes_it_unavailable(aws, jobs, pauses):
    read = jobs.create(make_job())
    cancelled(aws, FINE, CONFLICT, times=99)

    with pytest.raises(UnavailableError):
        jobs.save(read, replace(read, write_id="w-2", paused=True), graph=0)

    assert jobs.get(read.id) == read
    assert len(pauses) == ROUNDS - 1
    assert sum(pauses) < 1


def test_a_condition_beside_a_conflict_is_judged_once_the_conflict_is_over(aws, jobs):
    """Which of a transaction's conditions were looked at beside a conflict is not said."""
    wanted = [make_job(id=new_id()) for _ in range(2)]
    jobs.create(make_job(id=wanted[1].id, write_id="theirs"))
    calls = cancelled(aws, CONFLICT, {"Code": "ConditionalCheckFailed"}, times=1)

    with pytest.raises(JobExistsError):
        jobs.create_all(wanted)

    assert len(calls) == 2


@pytest.mark.parametrize("reasons", [[{"Code": "ValidationError"}, FINE], [FINE, FINE]])
def test_a_cancellation_for_another_reason_goes_up(aws, jobs, reasons):
    cancelled(aws, *reasons, times=99)

    with pytest.raises(ClientError, match="TransactionCanceled"):
        jobs.create_all([make_job(id=new_id()) for _ in range(2)])


def test_a_write_that_meets_a_transaction_is_repeated(aws, jobs, pauses):
    read = jobs.create(make_job())
    calls = refuse(aws, "UpdateItem", times=2, code="TransactionConflictException")

    saved = jobs.save(read, replace(read, write_id="w-2", paused=True))

    assert jobs.get(read.id) == saved
    assert (len(calls), len(pauses)) == (3, 2)


def test_a_write_that_always_meets_one_may_come_again(aws, jobs):
    read = jobs.create(make_job())
    calls = refuse(aws, "UpdateItem", times=99, code="TransactionConflictException")

    with pytest.raises(ClientError) as refused:
        jobs.save(read, replace(read, write_id="w-2", paused=True))

    assert is_transient(refused.value)
    assert len(calls) == ROUNDS


def test_a_change_of_the_graph_needs_the_table_of_graphs(aws):
    jobs = DynamoDbJobs(aws.dynamodb, aws.jobs_table)
    read = jobs.create(make_job())

    with pytest.raises(TypeError):
        jobs.save(read, replace(read, write_id="w-2", paused=True), graph=0)


def test_every_repeat_of_a_call_has_its_token_and_every_call_its_own(aws, jobs):
    """The SDK draws one for each call: what it repeats after a lost answer is answered as the first was."""
    sent: list[str] = []
    aws.dynamodb.meta.events.register_first(
        "before-send.dynamodb.TransactWriteItems",
        lambda request, **_: sent.append(json.loads(request.body)["ClientRequestToken"]),
    )
    faults = Faults(lose_answer=1)
    faults.watch(aws.dynamodb)

    for _ in range(2):
        jobs.create_all([make_job(id=new_id()), make_job(id=new_id())])

    first, repeated, second = sent
    assert first == repeated != second


def test_the_row_that_refused_comes_without_another_read(aws, jobs):
    read = jobs.create(make_job())
    jobs.save(read, replace(read, write_id="w-2", paused=True))
    called: list[str] = []
    aws.dynamodb.meta.events.register("before-call", lambda model, **_: called.append(model.name))

    with pytest.raises(Exception, match="Another write came first"):
        jobs.save(read, replace(read, write_id="w-3", wakes=1), graph=0)

    assert called == ["TransactWriteItems"]
