"""The events of a job reach the bus in their order, whatever the bus refuses, and however often."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st

from functions.domain.execution import ExecutionStatus
from functions.events.envelope import encode
from functions.ports import BusEvent
from functions.usecases.lifecycle import Announcer, Told, tell
from tests.factories import NOW, make_execution, make_job
from tests.fakes import FakeEventBus, World
from tests.unit.test_lifecycle_told import TOLD, records

JOBS = 3
LONG = 10_000
"""Seconds: no wait is too long."""
IDS = [f"11111111-1111-4111-8111-{number:012d}" for number in range(JOBS)]
PLACES = ("1:0", "2:0", "3:0", "3:1", "4:0")
Plan = list[list[int]]
"""Of each job, how often each of its five events is refused before it is taken."""


class Moody(FakeEventBus):
    """Refuses each event as often as the plan says: what is put in its place is not taken for it."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.left = {
            f"{job_id}:{place}": times
            for job_id, row in zip(IDS, plan, strict=True)
            for place, times in zip(PLACES, row, strict=True)
        }

    def put(self, events: Sequence[BusEvent]) -> frozenset[int]:
        self.puts.append(list(events))
        refused = set()
        for place, event in enumerate(events):
            event_id = json.loads(event.detail)["id"]
            if self.left[event_id] > 0:
                self.left[event_id] -= 1
                refused.add(place)
            else:
                self.events.append(event)
        return frozenset(refused)


def told(plan: Plan, deadline: float) -> tuple[Moody, Told, list[str]]:
    world, bus = World(), Moody(plan)
    jobs = [make_job(id=job_id) for job_id in IDS]
    for job in jobs:
        world.history.record(
            make_execution(job_id=job.id, status=ExecutionStatus.FAILED, final=False, next_retry_at=NOW + 9)
        )
    announcer = Announcer(jobs=world.jobs, history=world.history, bus=bus, clock=world.clock, encode=encode)
    given_ = records(*jobs)
    return bus, tell(announcer, given_, deadline=deadline), [record.id for record in given_]


def ids(bus: FakeEventBus, job_id: str) -> list[str]:
    return [json.loads(event.detail)["id"].removeprefix(f"{job_id}:") for event in bus.events if event.key == job_id]


PLANS = st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=JOBS, max_size=JOBS)


@settings(max_examples=60)
@given(PLANS)
@example([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 2, 1, 3]])
@example([[0, 0, 1, 0, 0], [0, 0, 0, 0, 0], [3, 3, 3, 3, 3]])
def test_refusals_never_change_the_order_of_a_jobs_events(plan: Plan) -> None:
    bus, result, _ = told(plan, NOW + LONG)
    assert (result.events, result.unsent) == (JOBS * len(TOLD), ())
    for job_id in IDS:
        assert ids(bus, job_id) == list(PLACES)
    assert all(len({event.key for event in put}) == len(put) for put in bus.puts)


@settings(max_examples=60)
@given(PLANS, st.integers(1, 12))
@example([[0, 2, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 9, 0]], 3)
def test_what_is_left_at_the_deadline_is_the_rest_of_each_job(plan: Plan, seconds: int) -> None:
    """Each has its first events on the bus, without a hole, and the records of the others come again."""
    bus, result, given_ = told(plan, NOW + seconds)
    for job_id in IDS:
        there = ids(bus, job_id)
        assert there == list(PLACES)[: len(there)]
    # Record n of the stream is step n // JOBS of job n % JOBS; the third step makes two events.
    needed = (1, 2, 4, 5)
    expected = [record for n, record in enumerate(given_) if len(ids(bus, IDS[n % JOBS])) < needed[n // JOBS]]
    assert list(result.unsent) == expected


def test_a_job_that_is_refused_holds_up_no_other() -> None:
    bus, result, _ = told([[99] * 5, [0] * 5, [0] * 5], NOW + 4)
    assert [len(ids(bus, job_id)) for job_id in IDS] == [0, 5, 5]
    assert len(result.unsent) == 4
