"""Row: what a tick of the sweep reads while 100 000 jobs wait for their time, and 100 of them are overdue."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from bench.deployed import on_moto
from functions.domain.job import Job
from functions.usecases.services import Engine
from functions.usecases.sweep import sweep
from tests.factories import NOW, make_job
from tests.fakes import FakeClock, World

SCHEDULED = 100_000
SCHEDULED_ON_MOTO = 1_000
ONE_IN = 1_000
"""So many jobs, one of them overdue; on moto, whose tables are slow, one in ten."""
ONE_IN_ON_MOTO = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReads:
    store: str
    scheduled: int
    overdue: int
    rows_read: int
    """State rows."""
    entries_read: int
    """Of the attention index."""
    woken: int
    read_units: float | None
    """Of index and rows; None in memory."""


def measure_sweep(scheduled: int = SCHEDULED) -> list[SweepReads]:
    return [_in_memory(scheduled, ONE_IN), _on_moto(SCHEDULED_ON_MOTO, ONE_IN_ON_MOTO)]


def _jobs(scheduled: int, one_in: int) -> Iterator[Job]:
    """All due in the years to come, but one in so many: its hint was lost two minutes ago."""
    waiting = make_job(created_at=NOW - 3600, next_slot=NOW + 3600)
    overdue = make_job(created_at=NOW - 3600, next_slot=NOW - 120)
    for index in range(scheduled):
        job_id = str(uuid.UUID(int=index))
        if index % one_in == 0:
            yield dataclasses.replace(overdue, id=job_id)
        else:
            yield dataclasses.replace(waiting, id=job_id, next_slot=NOW + 3600 + index, attention_at=NOW + 3630 + index)


def _in_memory(scheduled: int, one_in: int) -> SweepReads:
    world = World(FakeClock(NOW))
    for job in _jobs(scheduled, one_in):
        world.jobs.put(job)
    world.jobs.calls.clear()
    engine = Engine(
        jobs=world.jobs,
        history=world.history,
        timetable=world.timetable,
        slots=world.slots,
        circuits=world.circuits,
        clock=world.clock,
        types=world.types,
    )
    swept = sweep(engine, deadline=NOW + 50, shuffle=lambda _: None)
    if not swept.complete:
        raise AssertionError("the tick ended early")
    return SweepReads(
        store="in memory",
        scheduled=scheduled,
        overdue=len(range(0, scheduled, one_in)),
        rows_read=world.jobs.calls.count("get"),
        entries_read=swept.looked_at,
        woken=swept.reasons.get("WOKEN", 0),
        read_units=None,
    )


def _on_moto(scheduled: int, one_in: int) -> SweepReads:
    with on_moto() as deployed:
        deployed.clock.time = float(NOW)
        for job in _jobs(scheduled, one_in):
            deployed.engine.jobs.create(job)
        calls, swept = deployed.tick()
    return SweepReads(
        store="DynamoDB's adapter on moto",
        scheduled=scheduled,
        overdue=len(range(0, scheduled, one_in)),
        rows_read=sum(call.operation == "GetItem" for call in calls),
        entries_read=sum(call.scanned for call in calls),
        woken=swept.reasons.get("WOKEN", 0),
        read_units=sum(call.read_units for call in calls),
    )
