"""How rows stand in DynamoDB: small, expiring, in an index only while they must be, and safe across releases."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from functions.adapters import dynamodb_fields, dynamodb_history_items, dynamodb_items
from functions.adapters.dynamodb_history import DynamoDbHistory
from functions.adapters.dynamodb_idempotency import DynamoDbIdempotencyKeys
from functions.adapters.dynamodb_items import item_size
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.adapters.dynamodb_owners import DynamoDbOwners
from functions.domain.cursor import write_cursor
from functions.domain.definition import Definition
from functions.domain.errors import CorruptDefinitionError, InvalidFieldError, LostRaceError
from functions.domain.execution import Execution, ExecutionStatus
from functions.domain.job import Followed, Gap, Job, SkipReason, Upstream
from functions.domain.run import ActiveRun, LastRun, Outcome
from tests.factories import JOB_ID, NOW, make_definition, make_execution, make_job, make_run, new_id
from tests.faults import Crash, Faults

if TYPE_CHECKING:
    from tests.conftest import Aws

DAY = 86_400
BIG = '{"text":"' + "x" * 100_000 + '"}'
REFERENCE = {
    "schedule": {"type": "once", "at": "2027-01-15T08:00:00Z"},
    "target": {"type": "http", "url": "https://hooks.example.com/orders"},
}


@pytest.fixture
def jobs(aws: Aws) -> DynamoDbJobs:
    return DynamoDbJobs(aws.dynamodb, aws.jobs_table, graphs=aws.coordination_table)


def row(aws: Aws, sort: str = "S", job_id: str = JOB_ID) -> dict[str, Any]:
    key = {"jobId": {"S": job_id}, "S": {"S": sort}}
    return aws.dynamodb.get_item(TableName=aws.jobs_table, Key=key).get("Item")


def change(aws: Aws, **attributes: Any) -> None:
    """Somebody writes attributes of the state row by hand; None removes one."""
    item = row(aws) | {name: value for name, value in attributes.items() if value is not None}
    item = {name: value for name, value in item.items() if attributes.get(name, value) is not None}
    aws.dynamodb.put_item(TableName=aws.jobs_table, Item=item)


@pytest.mark.parametrize(
    ("kind", "fields", "apart"),
    [
        (Job, dynamodb_items._JOB, {"id", "definition"}),
        (Execution, dynamodb_history_items.EXECUTION, {"job_id", "slot_id", "attempt"}),
        (ActiveRun, dynamodb_items._RUN_FIELDS, set()),
        (Gap, dynamodb_items._GAP_FIELDS, set()),
        (LastRun, dynamodb_items.LAST_RUN_FIELDS, set()),
        (Upstream, dynamodb_items._UPSTREAM_FIELDS, set()),
        (Followed, dynamodb_items._FOLLOWED_FIELDS, set()),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_every_field_has_its_one_attribute_and_its_own_default(kind, fields, apart):
    declared = {field.name: field for field in dataclasses.fields(kind) if field.name not in apart}

    assert {field.name for field in fields} == set(declared)
    assert len({field.attribute for field in fields}) == len(fields)
    for field in fields:
        if field.default is not dynamodb_fields.REQUIRED and declared[field.name].default is not dataclasses.MISSING:
            assert field.default == declared[field.name].default, field.name


def test_names_of_keys_indexes_and_ttl_are_no_fields():
    reserved = {"jobId", "S", "as", "ow", "oc", "ttl"} | dynamodb_items.DEFINITION_ATTRIBUTES

    assert not reserved & {field.attribute for field in dynamodb_items._JOB}


@pytest.mark.case(39)
def test_a_busy_row_with_a_large_payload_stays_at_one_write_unit(aws, jobs):
    job = jobs.create(make_job(payload=BIG, owner="f3c8a1d2-5b6e-4f70-8192-a3b4c5d6e7f8", created_by="0" * 36))
    runs = {f"{NOW + 60 * n}": make_run(started_at=NOW + 60 * n + 0.123, started_by="w" * 12) for n in range(5)}
    last = LastRun(
        slot_id=f"{NOW}", attempt=4, outcome=Outcome.PERMANENTLY_FAILED, fence=9, ended_at=NOW, error_code="HTTP_503"
    )
    gap = Gap(first=NOW, last=NOW + 60, count=1, reason=SkipReason.SCHEDULE_CHANGED)

    jobs.save(job, replace(job, write_id="w" * 12, runs=runs, last_run=last, gap=gap, last_slot=NOW, starts=9_999))

    assert item_size(row(aws)) <= 1024
    assert job.definition_row == f"D#1#{job.write_id}"


def test_the_reference_job_is_inline_and_stays_at_one_write_unit_while_it_runs(aws, jobs):
    """The usual job: an http target, a payload of 200 bytes."""
    payload = '{"text":"' + "x" * 189 + '"}'
    job = jobs.create(make_job(document=REFERENCE, payload=payload, owner="f" * 36, created_by="f" * 36))
    assert job.definition_row is None

    run = make_run(started_at=NOW + 0.123, started_by="w" * 12)
    running = jobs.save(job, replace(job, write_id="w" * 12, runs={f"{NOW}": run}, last_slot=NOW, fence=1))
    assert item_size(row(aws)) <= 1024

    last = LastRun(slot_id=f"{NOW}", attempt=1, outcome=Outcome.COMPLETED, fence=1, ended_at=NOW)
    jobs.save(running, replace(running, runs={}, next_slot=None, attention_at=None, last_run=last, write_id="v" * 12))
    assert item_size(row(aws)) <= 1024


def test_a_row_is_in_the_attention_index_exactly_while_somebody_must_look(aws, jobs):
    job = jobs.create(make_job(attention_at=NOW + 90))
    assert (row(aws)["at"], row(aws)["as"]["S"][:2]) == ({"N": str(NOW + 90)}, "a#")

    jobs.save(job, replace(job, write_id="w-2", attention_at=None))
    assert not {"at", "as"} & set(row(aws))


@pytest.mark.parametrize("payload", ["{}", BIG], ids=["inline", "own row"])
def test_a_deleted_job_leaves_the_owner_index_and_expires_with_its_definition(aws, jobs, payload):
    job = jobs.create(make_job(payload=payload))
    assert {"ow", "oc"} <= set(row(aws))
    assert "ttl" not in row(aws)

    saved = jobs.save(job, replace(job, write_id="w-2", deleted_at=NOW + 7))

    assert not {"ow", "oc"} & set(row(aws))
    assert row(aws)["ttl"] == {"N": str(NOW + 7 + 30 * DAY)}
    if saved.definition_row is not None:
        assert row(aws, saved.definition_row)["ttl"] == row(aws)["ttl"]


def test_a_save_sends_only_what_changed(aws, jobs):
    job = jobs.create(make_job())
    sent: list[dict[str, Any]] = []
    aws.dynamodb.meta.events.register(
        "provide-client-params.dynamodb.UpdateItem", lambda params, **_: sent.append(params)
    )

    jobs.save(job, replace(job, write_id="w-2", wakes=1))

    [update] = sent
    assert set(update["ExpressionAttributeNames"].values()) == {"seq", "wid", "wk"}


def test_attributes_of_a_newer_release_survive(aws, jobs):
    job = jobs.create(make_job())
    change(aws, zz={"S": "from the future"})

    jobs.save(job, replace(job, write_id="w-2", paused=True))
    read = jobs.get(job.id)
    jobs.save(read, replace(read, write_id="w-3", revision=2, definition=make_definition(payload=BIG)))

    assert row(aws)["zz"] == {"S": "from the future"}


@pytest.mark.parametrize(
    "broken",
    [
        {"ca": None},
        {"o": None},
        {"seq": {"S": "1"}},
        {"runs": {"M": {"x": {"M": {}}}}},
        {"pr": {"S": "urgent"}},
        {"nx": {"N": "1000000000000"}},
        {"nx": {"N": "-1"}},
        {"ca": {"N": "1e30"}},
        {"runs": {"M": {"junk": {"M": {"st": {"S": "W"}, "n": {"N": "0"}, "lim": {"N": "1"}}}}}},
        {"lr": {"M": {"slot": {"S": "junk"}, "n": {"N": "1"}, "o": {"S": "COMPLETED"}, "t": {"N": "1"}}}},
    ],
    ids=[
        "no creation",
        "no owner",
        "wrong type",
        "broken run",
        "unknown priority",
        "no instant",
        "negative",
        "no number of seconds",
        "no slot",
        "no last slot",
    ],
)
def test_a_row_that_cannot_be_read_is_an_error_alone_and_hides_no_other(aws, jobs, broken, caplog):
    job = jobs.create(make_job())
    other = jobs.create(make_job(id=new_id()))
    change(aws, **broken)

    with pytest.raises(CorruptDefinitionError, match=job.id):
        jobs.get(job.id)
    assert jobs.get_many([job.id, other.id]) == [other]
    assert job.id in caplog.text


def test_a_definition_row_that_a_change_took_away_between_two_reads_is_no_corruption(aws, jobs):
    job = jobs.create(make_job(payload=BIG))
    state = [True]

    def overtake(model: Any, **_: Any) -> None:
        """The state row is read: now somebody replaces the definition."""
        if state:
            state.clear()
            jobs.save(
                job, replace(job, write_id="w-2", revision=2, definition=make_definition(payload=BIG, name="new"))
            )

    aws.dynamodb.meta.events.register("after-call.dynamodb.GetItem", overtake)
    assert jobs.get(job.id).defined.name == "new"

    state.append(True)
    job = jobs.get(job.id)
    aws.dynamodb.meta.events.unregister("after-call.dynamodb.GetItem", overtake)
    aws.dynamodb.meta.events.register("after-call.dynamodb.BatchGetItem", overtake)
    state[:] = [True]
    [read] = jobs.get_many([job.id])
    assert read.defined.name == "new"


def test_what_a_batch_read_left_out_is_asked_for_again(aws, jobs):
    put = [jobs.create(make_job(id=new_id())) for _ in range(3)]
    left: list[Any] = []

    def leave_one(parsed: dict[str, Any], **_: Any) -> None:
        if not left:
            item = parsed["Responses"][aws.jobs_table].pop()
            left.append({"jobId": item["jobId"], "S": item["S"]})
            parsed["UnprocessedKeys"] = {aws.jobs_table: {"Keys": left, "ConsistentRead": True}}

    aws.dynamodb.meta.events.register("after-call.dynamodb.BatchGetItem", leave_one)

    assert jobs.get_many([job.id for job in put]) == put


def test_a_superseded_definition_that_cannot_be_deleted_is_left(aws, jobs, caplog):
    job = jobs.create(make_job(payload=BIG))
    faults = Faults()
    aws.dynamodb.meta.events.register_first("before-parameter-build.dynamodb.DeleteItem", _break)
    faults.watch(aws.dynamodb)

    saved = jobs.save(
        job, replace(job, write_id="w-2", revision=2, definition=make_definition(payload=BIG, name="new"))
    )

    assert jobs.get(job.id) == saved
    assert "left behind" in caplog.text


def _break(params: dict[str, Any], **_: Any) -> None:
    params["TableName"] = "no-such-table"


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_definition_can_be_read_wherever_its_change_stopped(aws, jobs, after):
    job = jobs.create(make_job(payload=BIG))
    faults = Faults()
    faults.watch(aws.dynamodb)
    faults.inject(crash_after=after)
    new = replace(job, write_id="w-2", revision=2, definition=make_definition(payload=BIG, name="new"))

    with pytest.raises(Crash):
        jobs.save(job, new)

    assert faults.steps == ["dynamodb.PutItem", "dynamodb.UpdateItem", "dynamodb.DeleteItem"][:after]
    assert jobs.get(job.id).defined.name == ("nightly report" if after == 1 else "new")


def test_a_crash_before_a_write_leaves_nothing(aws, jobs):
    faults = Faults(crash_before=1)
    faults.watch(aws.dynamodb)

    with pytest.raises(Crash):
        jobs.create(make_job())

    assert row(aws) is None
    assert faults.steps == []


def test_other_failures_are_no_lost_race(aws):
    jobs = DynamoDbJobs(aws.dynamodb, "no-such-table")

    for call in (lambda: jobs.create(make_job()), lambda: jobs.save(make_job(), make_job())):
        with pytest.raises(aws.dynamodb.exceptions.ResourceNotFoundException):
            call()


@pytest.mark.parametrize("status", list(ExecutionStatus))
@pytest.mark.parametrize("final", [True, False])
def test_only_dead_letters_are_in_their_index_and_every_row_expires(aws, status, final):
    history = DynamoDbHistory(aws.dynamodb, aws.executions_table, retention_days=7)
    execution = make_execution(status=status, final=final, completed_at=NOW + 0.75)
    history.record(execution)
    history.record_gap(JOB_ID, Gap(first=NOW, last=NOW, count=1, reason=SkipReason.PAUSED), now=NOW + 0.75)

    items = aws.dynamodb.scan(TableName=aws.executions_table)["Items"]
    dead = aws.dynamodb.scan(TableName=aws.executions_table, IndexName="dead")["Items"]

    assert {item["ttl"]["N"] for item in items} == {str(NOW + 7 * DAY)}
    assert len(items) == 2
    assert [item["sk"]["S"] for item in dead] == ([f"{NOW}-0001"] if execution.is_dead_letter else [])


@pytest.mark.parametrize(
    "broken",
    [{"s": {"S": "LOST"}}, {"s": {"S": "FAILED"}, "ca": {"N": "1e18"}}],
    ids=["unknown status", "no instant"],
)
def test_a_history_row_that_cannot_be_read_hides_no_other(aws, caplog, broken):
    history = DynamoDbHistory(aws.dynamodb, aws.executions_table, retention_days=7)
    good = history.record(make_execution(attempt=1))
    key = {"jobId": {"S": JOB_ID}, "sk": {"S": f"{NOW}-0002"}}
    aws.dynamodb.put_item(TableName=aws.executions_table, Item=key | broken)
    aws.dynamodb.put_item(
        TableName=aws.executions_table,
        Item={"jobId": {"S": JOB_ID}, "sk": {"S": "junk-0001"}, "s": {"S": "FAILED"}, "ca": {"N": "1"}},
    )

    assert history.list(JOB_ID, limit=5, cursor=None).items == [good]
    with pytest.raises(CorruptDefinitionError):
        history.get(JOB_ID, f"{NOW}", 2)


def test_nothing_a_caller_sent_can_be_read_from_an_idempotency_row(aws):
    keys = DynamoDbIdempotencyKeys(aws.dynamodb, aws.idempotency_table)
    keys.claim("alice POST /v1/jobs", "secret-key", body_hash="b", ids=["one"], now=NOW + 0.5)

    [item] = aws.dynamodb.scan(TableName=aws.idempotency_table)["Items"]

    assert len(item["pk"]["S"]) == 64
    assert "secret-key" not in repr(item)
    assert "alice" not in repr(item)
    assert item["ttl"] == {"N": str(NOW + 3600)}


def test_another_process_does_not_mind_a_known_owner(aws):
    for _ in range(2):
        DynamoDbOwners(aws.dynamodb, aws.coordination_table).register("team-a")

    assert list(DynamoDbOwners(aws.dynamodb, aws.coordination_table).all()) == ["team-a"]


def test_the_size_is_what_dynamodb_counts():
    """Developer guide, "DynamoDB item sizes and formats"."""
    item = {
        "a": {"S": "é"},  # 1 + 2
        "bb": {"N": "1800000000"},  # 2 + 7 at most
        "c": {"BOOL": True},  # 1 + 1
        "d": {"M": {"e": {"S": "x"}}},  # 1 + 3 + 1 + (1 + 1)
    }

    assert item_size(item) == 3 + 9 + 2 + 7


def test_a_stored_definition_keeps_the_kind_of_every_number(jobs):
    document = {"numbers": {"m": 2**127, "n": 1.0, "z": -0.0, "é": "\u0000\U0001f600"}}
    job = jobs.create(make_job(document=document, payload='{"r":1.0,"n":170141183460469231731687303715884105728}'))

    read = jobs.get(job.id)

    assert isinstance(read.definition, Definition)
    assert repr(read.definition.document["numbers"]) == repr(document["numbers"])
    assert read.defined.payload == job.defined.payload


def test_runs_of_a_row_cannot_be_changed_in_place(jobs):
    jobs.create(make_job(runs=MappingProxyType({f"{NOW}": make_run()})))

    with pytest.raises(TypeError):
        jobs.get(JOB_ID).runs["x"] = make_run()


def test_a_race_with_an_unreadable_row_is_an_error_not_a_loss(aws, jobs):
    job = jobs.create(make_job())
    change(aws, seq={"N": "9"}, ca=None)

    with pytest.raises(CorruptDefinitionError):
        jobs.save(job, replace(job, write_id="w-2", paused=True))


def test_the_row_that_refused_comes_without_another_read(aws, jobs):
    job = jobs.create(make_job())
    jobs.save(job, replace(job, write_id="w-2", paused=True))
    calls: list[str] = []
    aws.dynamodb.meta.events.register("before-call", lambda model, **_: calls.append(model.name))

    with pytest.raises(LostRaceError):
        jobs.save(job, replace(job, write_id="w-3", wakes=1))

    assert calls == ["UpdateItem"]


@pytest.mark.parametrize("place", ["", "x", "1800000000", "1800000000#", f"1800000000#{JOB_ID}#"])
def test_a_cursor_that_was_made_up_with_its_checksum_is_refused(aws: Aws, jobs: DynamoDbJobs, place: str) -> None:
    history = DynamoDbHistory(aws.dynamodb, aws.executions_table, retention_days=30)
    with pytest.raises(InvalidFieldError):
        jobs.list_by_owners(("team-a",), limit=1, cursor=write_cursor(place, scope='owner ["team-a"]'))
    with pytest.raises(InvalidFieldError):
        history.list(JOB_ID, limit=1, cursor=write_cursor(place, scope=f"history {JOB_ID}"))
