"""Events go to the bus in order per job; what the bus refuses holds up its own job and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from functions.domain.cancellation import decide_cancel
from functions.domain.decision import Write
from functions.domain.errors import CorruptDefinitionError
from functions.domain.event import Change
from functions.domain.execution import ExecutionStatus
from functions.domain.following import in_its_graph
from functions.domain.ids import slot_id
from functions.domain.job import Followed, Job, Upstream
from functions.domain.run import RunState
from functions.events.envelope import encode
from functions.usecases.lifecycle import Announcer, Record, tell
from tests.factories import NOW, make_execution, make_job, make_run, new_id
from tests.fakes import FakeEventBus, World

SLOT = slot_id(NOW)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def bus() -> FakeEventBus:
    return FakeEventBus()


@pytest.fixture
def announcer(world: World, bus: FakeEventBus) -> Announcer:
    return Announcer(jobs=world.jobs, history=world.history, bus=bus, clock=world.clock, encode=encode)


def story(job: Job) -> list[Change]:
    """Created, started, failed, started again."""
    run = make_run(started_at=NOW + 0.5)
    rows = [
        job,
        replace(job, runs=MappingProxyType({SLOT: run})),
        replace(job, runs=MappingProxyType({SLOT: make_run(state=RunState.WAITING, attempt=1, due_at=NOW + 9)})),
        replace(job, runs=MappingProxyType({SLOT: replace(run, attempt=2, fence=2)})),
    ]
    rows = [replace(row, seq=number) for number, row in enumerate(rows, start=1)]
    return [Change(before=old, after=new, at=NOW + 1) for old, new in zip([None, *rows], rows, strict=False)]


def records(*jobs: Job) -> list[Record]:
    """The stories of the jobs, mixed as a stream mixes them."""
    mixed = [change for step in zip(*(story(job) for job in jobs), strict=True) for change in step]
    return [Record(str(number), change) for number, change in enumerate(mixed)]


def on_the_bus(bus: FakeEventBus, job: Job) -> list[dict[str, Any]]:
    return [json.loads(event.detail) for event in bus.events if event.key == job.id]


TOLD = ["job.scheduled", "job.started", "job.failed", "job.retry_scheduled", "job.started"]


def failed(world: World, job: Job) -> None:
    world.history.record(
        make_execution(job_id=job.id, status=ExecutionStatus.FAILED, final=False, next_retry_at=NOW + 9)
    )


def test_the_events_of_each_job_are_in_order_and_never_two_in_one_call(
    world: World, bus: FakeEventBus, announcer: Announcer
) -> None:
    jobs = [make_job(id=new_id()) for _ in range(3)]
    for job in jobs:
        failed(world, job)

    told = tell(announcer, records(*jobs), deadline=NOW + 50)

    assert (told.events, told.unsent) == (15, ())
    for job in jobs:
        events = on_the_bus(bus, job)
        assert [event["eventType"] for event in events] == TOLD
        assert [event["id"] for event in events] == [
            f"{job.id}:{place}" for place in ("1:0", "2:0", "3:0", "3:1", "4:0")
        ]
        assert events[2]["errorCode"] == "HTTP_503"
    assert all(len({event.key for event in put}) == len(put) for put in bus.puts)


@pytest.mark.parametrize("waits", [False, True], ids=["scheduled", "waits for others"])
def test_the_cancel_of_a_job_that_others_depend_on_is_told_once(
    bus: FakeEventBus, announcer: Announcer, waits: bool
) -> None:
    """It is an end for them, and no run of its own."""
    job = make_job(followed=Followed(ends=0, told=0))
    if waits:
        job = replace(job, next_slot=None, upstream=Upstream(marks=(0,), look_at=NOW))
    decided = decide_cancel(job, deleted=False, now=NOW, write_id="w")
    assert isinstance(decided, Write)
    row, _ = in_its_graph(job, decided.job, now=NOW)
    assert row.last_run != job.last_run

    told = tell(announcer, [Record("1", Change(before=job, after=row, at=NOW))], deadline=NOW + 50)

    assert (told.events, told.unsent) == (1, ())
    assert [event["eventType"] for event in on_the_bus(bus, job)] == ["job.cancelled"]


def test_a_refused_event_is_put_again_before_anything_later_of_its_job(
    world: World, bus: FakeEventBus, announcer: Announcer
) -> None:
    refused, other = make_job(id=new_id()), make_job(id=new_id())
    bus.refuses = {refused.id}
    slept = world.clock.sleep

    def sleep(seconds: float) -> None:
        slept(seconds)
        if world.clock.now() > NOW + 3:
            bus.refuses.clear()

    world.clock.sleep = sleep  # type: ignore[method-assign]  # the bus comes back while the function waits

    told = tell(announcer, records(refused, other), deadline=NOW + 50)

    assert told.unsent == ()
    assert [event["eventType"] for event in on_the_bus(bus, refused)] == TOLD
    assert [event["eventType"] for event in on_the_bus(bus, other)] == TOLD
    assert world.clock.slept == sorted(world.clock.slept)


def test_what_is_refused_until_the_end_comes_again_and_holds_up_no_other(
    world: World, bus: FakeEventBus, announcer: Announcer
) -> None:
    refused, other = make_job(id=new_id()), make_job(id=new_id())
    bus.refuses = {refused.id}
    given = records(refused, other)

    told = tell(announcer, given, deadline=NOW + 20)

    assert told.unsent == tuple(record.id for record in given if record.change.after.id == refused.id)
    assert on_the_bus(bus, refused) == []
    assert [event["eventType"] for event in on_the_bus(bus, other)] == TOLD
    assert world.clock.now() < NOW + 20


def test_what_comes_again_has_the_same_ids(world: World, bus: FakeEventBus, announcer: Announcer) -> None:
    job = make_job()
    failed(world, job)

    tell(announcer, records(job), deadline=NOW + 20)
    tell(announcer, records(job), deadline=NOW + 20)

    first, again = bus.events[:5], bus.events[5:]
    assert first == again


def test_a_history_row_that_cannot_be_read_holds_nobody_up(
    world: World, bus: FakeEventBus, announcer: Announcer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def corrupt(*_: object) -> None:
        raise CorruptDefinitionError

    monkeypatch.setattr(world.history, "get", corrupt)

    tell(announcer, records(make_job()), deadline=NOW + 20)

    assert [json.loads(event.detail)["eventType"] for event in bus.events] == TOLD


def test_a_failing_table_is_no_lost_event(announcer: Announcer, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records come again, as the function fails."""

    def throttled(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(world.history, "get", throttled)

    with pytest.raises(TimeoutError):
        tell(announcer, records(make_job()), deadline=NOW + 20)


def test_a_name_is_read_once_where_the_row_does_not_have_it(
    world: World, bus: FakeEventBus, announcer: Announcer
) -> None:
    stored = world.jobs.put(make_job(document={"name": "yearly report", "description": "x" * 900}))
    assert stored.definition_row is not None
    row = replace(stored, definition=None)

    tell(announcer, records(row), deadline=NOW + 20)

    assert {json.loads(event.detail)["jobName"] for event in bus.events} == {"yearly report"}
    assert world.jobs.calls == ["get"]


def test_a_name_of_another_definition_is_left_out(world: World, bus: FakeEventBus, announcer: Announcer) -> None:
    world.jobs.put(make_job())

    tell(announcer, records(make_job(definition=None, definition_row="D#1#old")), deadline=NOW + 20)

    assert all("jobName" not in json.loads(event.detail) for event in bus.events)
