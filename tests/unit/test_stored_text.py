"""Stored JSON text is judged when it is read: what is not JSON goes into no answer, no event and no call."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.adapters import dynamodb_retry_configs, dynamodb_workflows
from functions.adapters.dynamodb_history_items import end_item, execution_item, read_end, read_history
from functions.adapters.dynamodb_items import definition_attributes, read_job, state_attributes
from functions.adapters.dynamodb_keys import retry_config_key, state_key, text, workflow_row
from functions.api.views import execution_text, job_text, jobs_text, retry_configs_text
from functions.api.views_workflows import workflows_text
from functions.domain.errors import CorruptDefinitionError, UnreadablePayloadError
from functions.domain.event import Change
from functions.domain.events import events_of
from functions.domain.execution import LOST_RESULT, Execution, ExecutionStatus
from functions.domain.lean import kept_execution
from functions.domain.run import LastRun, Outcome
from functions.domain.stored_json import is_readable, read_stored
from functions.events.envelope import encode
from functions.ports import Page
from functions.usecases.dead_letters import announce_dead_letters
from tests.api_client import Api, make_body
from tests.driver import Driver
from tests.factories import JOB_ID, NOW, make_definition, make_execution, make_job, new_id
from tests.fakes import InMemoryHistory, World
from tests.graphs import Graph
from tests.stored import redefine
from tests.working import FlowWorker

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)
HARM = [
    "NaN",
    "-Infinity",
    "1e999",
    r'"\ud800"',
    "[" * 5_000,
    "}",
    ",",
    "'x'",
    "\x01",
    "nul",
    "9" * 5_000,
    "01",
    "\ufeff",
]
KNOWN_BAD = [
    "",
    " ",
    "{",
    '{"a":NaN}',
    "[1e999]",
    r'["\udfff"]',
    "[" * 300 + "]" * 300,
    '{"a":1}}',
    "None",
    "9" * 5_000,
]


@st.composite
def stored(draw: st.DrawFn) -> str:
    """JSON text, damaged or not, or any text."""
    written = json.dumps(draw(JSON), ensure_ascii=draw(st.booleans()))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(written)))
        written = written[:at] + draw(st.sampled_from(HARM)) + written[draw(st.integers(at, len(written))) :]
    elif draw(st.booleans()):
        written = draw(st.text(max_size=20))
    return written


def strict(answer: str) -> Any:
    """The value of an answer; fails for what a strict reader in another language refuses."""

    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} in an answer")

    value = json.loads(answer, parse_constant=refuse)
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


@given(stored())
def test_what_is_read_is_what_any_reader_reads(written: str) -> None:
    try:
        value = read_stored(written)
    except ValueError:
        assert not is_readable(written)
        return
    assert is_readable(written)
    assert strict(written) == value
    strict(json.dumps(value))


@pytest.mark.parametrize("written", KNOWN_BAD)
def test_what_json_cannot_carry_is_not_read(written: str) -> None:
    assert not is_readable(written)


def test_the_largest_that_may_be_stored_is_read() -> None:
    for written in ("[" * 100 + "]" * 100, '"' + "x" * 131_000 + '"', "9" * 4_000, '"\\ud83d\\ude00"', "-0.0"):
        assert is_readable(written)


class TestPayloads:
    @given(stored())
    def test_a_job_is_answered_with_its_payload_or_not_at_all(self, written: str) -> None:
        job = read_job(item(payload=written))
        assert strict(jobs_text(Page(items=[job])))["data"][0]["name"] == "nightly report"
        try:
            answer = job_text(job)
        except UnreadablePayloadError:
            assert not is_readable(written)
            return
        assert strict(answer)["payload"] == json.loads(written)

    @given(stored(), st.sampled_from(["http", "worker"]))
    def test_a_call_gets_the_payload_or_is_not_made(self, written: str, kind: str) -> None:
        driver = Driver(World())
        target = {
            "http": {"type": "http", "url": "https://a.example.com/"},
            "worker": {"type": "worker", "queue": "reports"},
        }
        job = driver.create(schedule={"type": "once", "at": "2027-01-15T08:00:10Z"}, target=target[kind])
        redefine(driver.world.jobs, job.id, payload=written)
        worker, claimed = FlowWorker(driver, lambda _, call: call(), []), list[str]()
        for _ in range(4):
            driver.run(10)
            claimed += [one.payload for one in worker.poll()] if kind == "worker" else []
        sent = [call.payload for call in driver.world.targets.calls] + claimed
        if is_readable(written):
            assert sent == [written]
            strict(sent[0])
            return
        assert sent == []
        [ended] = driver.executions(job.id)
        assert (ended.status, ended.final, ended.reason) == (ExecutionStatus.FAILED, True, "NOT_RETRYABLE")
        assert ended.error is not None
        assert ended.error.code == "PAYLOAD_ERROR"

    @pytest.mark.parametrize("written", KNOWN_BAD)
    def test_the_api_says_so_and_takes_another_payload(self, written: str) -> None:
        api = Api()
        broken, sound = (api.create().rsplit("/", 1)[1] for _ in range(2))
        redefine(api.world.jobs, broken, payload=written)
        reply = api.get(f"/v1/jobs/{broken}")
        assert (reply.status, reply.code) == (500, "INTERNAL_ERROR")
        assert reply.message == (
            "The stored payload of the job cannot be read. Replace it: PUT the job, or PATCH its payload."
        )
        assert {job["id"] for job in api.get("/v1/jobs").json["data"]} == {broken, sound}
        for repair in (
            lambda: api.patch(f"/v1/jobs/{broken}", {"payload": {"a": 1}}),
            lambda: api.put(f"/v1/jobs/{broken}", make_body(payload={"a": 1})),
        ):
            redefine(api.world.jobs, broken, payload=written)
            assert repair().status == 200
            assert api.get(f"/v1/jobs/{broken}").json["payload"] == {"a": 1}

    def test_a_change_that_leaves_it_there_is_not_made(self) -> None:
        api = Api()
        parent = api.create().rsplit("/", 1)[1]
        job = api.post("/v1/jobs", make_body(schedule=None, dependsOn=[{"jobId": parent}])).json["id"]
        redefine(api.world.jobs, job, payload='{"$from": NaN}')
        assert "payload of the job cannot be read" in api.patch(f"/v1/jobs/{job}", {"description": "new"}).message
        assert "description" not in api.get("/v1/jobs").json["data"][0]
        assert api.patch(f"/v1/jobs/{job}", {"description": "new", "payload": None}).status == 200


FIELDS = ["description", "type", "tags", "id", "payload", "target", "approval", "circuitBreaker", ""]
"""Of a document; the last is the whole of it."""


class TestDocuments:
    @given(
        stored(),
        st.sampled_from(["description", "type", "tags", "id", "payload", "target", "approval", "circuitBreaker", ""]),
    )
    def test_no_list_is_spoiled_by_one(self, written: str, field: str) -> None:
        document = (
            '{"name":"n","schedule":{"type":"interval","everySeconds":60},"target":{"type":"handler","name":"x"}}'
        )
        damaged = written if not field else f'{document[:-1]},"{field}":{written}}}'
        job = read_job(item() | {"d": text(damaged)})
        [listed] = strict(jobs_text(Page(items=[job])))["data"]
        assert listed["id"] == JOB_ID
        assert "payload" not in listed
        with contextlib.suppress(CorruptDefinitionError):
            assert strict(job_text(job))["payload"] == {}
        change = Change(before=None, after=job, at=NOW)
        name = None if job.definition is None else job.definition.name
        for event in events_of(change, {}):
            strict(encode(event, job_name=name))
        strict(json.dumps(letter(job)))


class TestResults:
    @given(stored(), st.sampled_from([ExecutionStatus.COMPLETED, ExecutionStatus.FAILED]))
    def test_history_shows_how_it_ended_whatever_became_of_the_result(
        self, written: str, status: ExecutionStatus
    ) -> None:
        made = make_execution(status=status)
        row = read_history(execution_item(made, retention_days=30) | {"res": text(written)})
        assert isinstance(row, Execution)
        shown = strict(execution_text(row))
        assert (shown["status"], shown["final"]) == (status.value, True)
        if is_readable(written):
            assert row == replace(made, result=written)
            return
        assert (row.result, row.error) == (None, made.error or LOST_RESULT)

    @given(stored())
    def test_a_result_in_the_jobs_row_is_lost_alone(self, written: str) -> None:
        last = LastRun(
            slot_id=f"{NOW}", attempt=1, outcome=Outcome.COMPLETED, fence=1, ended_at=NOW, ended_by="w", result="1"
        )
        before = make_job(last_run=None)
        stored_row = item(replace(before, last_run=last))
        stored_row["lr"]["M"]["res"] = text(written)
        job = read_job(stored_row)
        kept = kept_execution(job)
        assert kept is not None
        shown = strict(execution_text(kept))
        assert shown["status"] == "COMPLETED"
        for event in events_of(Change(before=before, after=job, at=NOW), {}):
            strict(encode(event, job_name="n"))
        code = None if is_readable(written) else "RESULT_UNREADABLE"
        assert strict(job_text(job))["lastRun"]["errorCode"] == code
        assert (shown["error"] or {}).get("code") == code
        end = read_end(end_item(JOB_ID, 1, last, retention_days=1) | {"res": text(written)})
        assert end.missing_result_code == code

    @pytest.mark.parametrize("damage", ["result", "row"])
    @pytest.mark.parametrize("when", ["rows > `0`", "@ == `null`", "`true`"])
    def test_a_result_that_cannot_be_read_is_never_taken_for_null(self, damage: str, when: str) -> None:
        history = Damaged(damage)
        graph = Graph(Driver(World(), history=history))
        graph.results = {"a": json.dumps({"rows": 3, "text": "x" * 200})}
        graph.job("a")
        history.job_id = graph.ids["a"]
        graph.job("asks", "a", when=when)
        graph.job("takes", "a", payload=json.dumps({"$from": graph.ids["a"], "path": "rows"}))
        graph.job("only after", "a")
        graph.run()
        assert graph.outcomes("asks") == [("SKIPPED", "UPSTREAM_RESULT_UNREADABLE")]
        assert graph.outcomes("only after") == [("COMPLETED", None)]
        [failed] = graph.driver.executions(graph.ids["takes"])
        assert failed.error is not None
        assert failed.error.code == "PAYLOAD_ERROR"
        assert f"{graph.ids['a']}, whose result was not kept: RESULT_UNREADABLE" in failed.error.message
        assert graph.calls["takes"] == 0


class TestOthers:
    @given(stored())
    def test_a_workflow_is_read_whole_or_left_out(self, written: str) -> None:
        row = workflow_row(new_id()) | {
            "n": text("w"), "o": text("o"), "cb": text("c"), "ca": {"N": "1800000000"}, "j": text(written),
        }  # fmt: skip
        with contextlib.suppress(CorruptDefinitionError):
            workflow = dynamodb_workflows._read(row)
            assert all(isinstance(part, str) for pair in workflow.jobs for part in pair)
            strict(workflows_text(Page(items=[workflow])))

    @given(stored())
    def test_a_types_configuration_is_read_whole_or_left_out(self, written: str) -> None:
        row = retry_config_key("billing") | {"d": text(written), "ut": {"N": "1800000000"}, "ub": text("alice")}
        with contextlib.suppress(CorruptDefinitionError):
            strict(retry_configs_text(Page(items=[dynamodb_retry_configs._read(row)])))


class Damaged(InMemoryHistory):
    """History in which one job's results, or whole rows, cannot be read any more."""

    def __init__(self, damage: str) -> None:
        super().__init__()
        self.damage, self.job_id = damage, ""

    def get(self, job_id: str, slot_id: str, attempt: int) -> Execution | None:
        row = super().get(job_id, slot_id, attempt)
        if job_id != self.job_id or row is None:
            return row
        if self.damage == "row":
            raise CorruptDefinitionError
        return replace(row, result=None, error=LOST_RESULT)


def item(job: Any = None, *, payload: str = "{}") -> dict[str, Any]:
    """A state row with its definition."""
    row = make_job() if job is None else job
    definition = definition_attributes(make_definition(payload=payload))
    return state_key(JOB_ID) | state_attributes(row) | definition


def letter(job: Any) -> dict[str, object]:
    """The announcement of the job's final failure."""

    class Jobs:
        def get(self, _job_id: str) -> Any:
            return job

    class Letters:
        sent: list[dict[str, object]]

        def announce(self, messages: list[dict[str, object]]) -> None:
            self.sent = messages

    letters = Letters()
    announce_dead_letters(Jobs(), letters, [make_execution(status=ExecutionStatus.FAILED)])  # type: ignore[arg-type]
    return letters.sent[0]
