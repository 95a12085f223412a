"""Events as they stand on the bus: each fits its schema, and says nothing that is not for everybody."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType

import jsonschema_rs
import pydantic
import pytest

from functions.domain.actor import Actor, ActorKind
from functions.domain.circuit import Circuit, closed
from functions.domain.event import Attempt, Change, EventType, LifecycleEvent
from functions.domain.events import events_of
from functions.domain.execution import ExecutionStatus
from functions.domain.ids import slot_id
from functions.domain.job import Gap, GateChange, GateChanged, Job, SkipReason, Upstream
from functions.domain.run import APPROVAL, Approval, Decision, LastRun, Outcome, RunState
from functions.domain.silence import Silence
from functions.domain.target_events import (
    CircuitChange,
    WorkerDrained,
    WorkerRegistered,
    circuit_events,
    worker_events,
)
from functions.domain.worker import Worker
from functions.events.envelope import encode
from functions.events.models import MODELS
from functions.events.schemas import main, schema_files
from tests.factories import NOW, make_definition, make_execution, make_job, make_run
from tests.integration.samples import sample

SLOT = slot_id(NOW)
ANN = Actor(id="ann", kind=ActorKind.PERSON, client_id="app")
BOT = Actor(id="bot", kind=ActorKind.MACHINE, client_id="bot")
PARENT = "3f1c2a4e-0b5d-4c7e-9a8f-1234567890ab"


def everything() -> dict[EventType, LifecycleEvent]:
    """An event of each type."""
    run = make_run(started_at=NOW + 0.25)
    idle = make_job(acted=ANN)
    acted = {"acted": ANN, "revised_by": "another"}
    busy = replace(idle, runs=MappingProxyType({SLOT: run}))
    waits = replace(idle, runs=MappingProxyType({SLOT: make_run(state=RunState.WAITING, attempt=1, due_at=NOW + 9)}))
    failed = make_execution(status=ExecutionStatus.FAILED, reason="RETRIES_EXHAUSTED", result="{}")
    assert failed.error is not None
    lost = replace(failed, error=replace(failed.error, code="WORKER_LOST"))
    gap = Gap(first=NOW, last=NOW + 60, count=2, reason=SkipReason.PAUSED)
    definition = make_definition(schedule={"type": "interval", "everySeconds": 90})
    quiet = replace(idle, silence=Silence(after=600, since=NOW - 700, last_success_at=NOW - 700))
    silent = replace(idle, silence=Silence(after=600, since=NOW - 700, last_success_at=NOW - 700, alerted=True))
    ended = LastRun(slot_id=SLOT, attempt=1, outcome=Outcome.COMPLETED, fence=1, ended_at=NOW)
    writes: list[tuple[Job | None, Job, list[object]]] = [
        (None, idle, []),
        (idle, busy, []),
        (busy, idle, [make_execution(result='{"a":1}')]),
        (busy, waits, [replace(failed, final=False, next_retry_at=NOW + 9)]),
        (busy, idle, [failed]),
        (busy, idle, [lost]),
        (
            busy,
            idle,
            [make_execution(status=ExecutionStatus.CANCELLED, reason="EXECUTION_CANCELLED", cancelled_by=ANN)],
        ),
        (idle, replace(idle, gap=gap), []),
        (idle, replace(idle, paused=True, **acted), []),
        (replace(idle, paused=True), replace(idle, **acted), []),
        (idle, replace(idle, cancelled=True, deleted_at=NOW, **acted), []),
        (quiet, silent, []),
        (replace(silent, runs=busy.runs), replace(quiet, last_run=ended), [make_execution()]),
        (idle, replace(idle, definition=definition, revision=2, next_slot=NOW + 90, **acted), []),
        (idle, replace(idle, owner="team-b", revision=2, **acted), []),
        (idle, replace(idle, gate_change=GateChange(revision=2, what=GateChanged.REMOVED), revision=2, **acted), []),
        (
            idle,
            replace(idle, runs=MappingProxyType({f"{NOW}mabcdefgh": make_run(state=RunState.WAITING)}), **acted),
            [],
        ),
    ]
    child = make_job(
        next_slot=None,
        document={
            "schedule": None,
            "dependsOn": [{"jobId": PARENT}],
            "approval": {"role": "admin", "timeoutSeconds": 60},
        },
        upstream=Upstream(marks=(0,), look_at=NOW),
    )
    waits_for_it = replace(child, upstream=Upstream(marks=(0,), look_at=NOW + 9, since=NOW, blocked_by=0))
    dependent = f"{NOW}dabcdefgh"
    made = make_run(state=RunState.WAITING, took=(1,))
    taken = replace(child, upstream=Upstream(marks=(1,), look_at=NOW), runs=MappingProxyType({dependent: made}))
    gate = replace(taken, runs=MappingProxyType({dependent: replace(made, waits_for=APPROVAL, due_at=NOW + 60)}))
    decisions = [
        replace(taken, runs=MappingProxyType({dependent: replace(made, approval=decided)}), **by)
        for decided, by in (
            (Approval(decision=Decision.APPROVED, by="ann", at=NOW + 5, comment="go"), acted),
            (Approval(decision=Decision.REJECTED, by="timeout", at=NOW + 60), {}),
        )
    ]
    writes += [(child, waits_for_it, []), (waits_for_it, taken, []), (taken, gate, [])]
    writes += [(gate, decided, []) for decided in decisions]
    circuit = Circuit(
        key="http:example.com:443~billing@team-a", seq=5, failures=5, since=NOW + 0.25, open_until=NOW + 31
    )
    worker = Worker(
        id="abcdefghijklmnop",
        owner="team-a",
        created_by="alice",
        name="reports-1",
        queues=("reports",),
        max_items=1,
        registered_at=NOW,
        seen_at=NOW,
    )
    found = {
        event.type: event
        for event in (
            *circuit_events(CircuitChange(before=None, after=circuit)),
            *circuit_events(
                CircuitChange(before=circuit, after=replace(closed(circuit, now=NOW + 40.5), reset_by=ANN))
            ),
            *worker_events(WorkerRegistered(worker=worker)),
            *worker_events(
                WorkerDrained(worker=replace(worker, version=3, draining=True, drained_by=BOT), at=NOW + 9.5)
            ),
        )
    }
    for before, after, rows in writes:
        history = {Attempt(row.slot_id, row.attempt): row for row in rows}  # type: ignore[attr-defined]  # executions
        for event in events_of(Change(before=before, after=after, at=NOW + 1.5), history):  # type: ignore[arg-type]
            found[event.type] = event
    return found


def test_what_a_caller_did_says_who_and_nothing_else_does() -> None:
    said = {kind.value: encode(event, job_name=None) for kind, event in everything().items()}
    by = {kind: json.loads(text)["by"] for kind, text in said.items() if "by" in json.loads(text)}
    ann = {"id": "ann", "kind": "person", "clientId": "app"}
    assert by == dict.fromkeys(
        (
            "job.scheduled",
            "job.changed",
            "job.transferred",
            "job.gate_changed",
            "job.run_requested",
            "job.paused",
            "job.resumed",
            "job.cancelled",
            "job.deleted",
            "job.run_cancelled",
            "job.approved",
            "circuit.closed",
        ),
        ann,
    ) | {
        "job.rejected": {"id": "timeout", "kind": "system"},
        "worker.draining": {"id": "bot", "kind": "machine", "clientId": "bot"},
    }


def test_there_is_a_model_for_each_type_and_no_other() -> None:
    assert [model.type for model in MODELS] == list(dict.fromkeys(model.type for model in MODELS))
    assert {model.type for model in MODELS} == set(EventType) == everything().keys()


@pytest.mark.parametrize("kind", list(EventType))
def test_an_event_fits_its_schema_and_no_other(kind: EventType) -> None:
    text = encode(everything()[kind], job_name="nightly \ufffe")
    content = json.loads(text)

    assert text.isascii()
    assert len(text) < 1_000
    assert content["version"] == "1.0"
    assert content.get("jobName") == ("nightly \ufffe" if kind.value.startswith("job.") else None)
    assert None not in content.values()
    for name, schema in schema_files().items():
        valid = jsonschema_rs.is_valid(json.loads(schema), content)
        assert valid == (name == f"{kind.value}.json"), name
    assert not {"result", "message", "payload"} & content.keys()


def test_the_sample_of_each_event_is_what_this_release_sends() -> None:
    """events/lifecycle-v1.json keeps one of each: a field that a subscriber may read is never taken away."""
    stored = {event["eventType"]: event for event in sample("lifecycle-v1")["events"]}

    sent = {kind.value: json.loads(encode(event, job_name="nightly report")) for kind, event in everything().items()}

    assert sent == stored


def test_what_is_no_event_is_refused() -> None:
    event = everything()[EventType.STARTED]

    for facts in ({}, {**event.facts, "payload": "{}"}):
        with pytest.raises(pydantic.ValidationError):
            encode(replace(event, facts=facts), job_name=None)


def test_writing_the_schemas_removes_those_of_no_event(tmp_path) -> None:
    (tmp_path / "job.old.json").write_text("{}")

    main(tmp_path)

    assert {file.name for file in tmp_path.iterdir()} == schema_files().keys()
