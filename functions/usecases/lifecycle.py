"""Tell the world what became of jobs: lifecycle events from the stream of their rows, in order per job."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from functions.domain.errors import CorruptDefinitionError
from functions.domain.event import Attempt, Change, LifecycleEvent
from functions.domain.events import events_of, in_history
from functions.domain.execution import Execution
from functions.domain.job import Job
from functions.domain.lean import kept_execution
from functions.domain.target_events import CircuitChange, WorkerDrained, WorkerRegistered, circuit_events, worker_events
from functions.ports import BusEvent, Clock, EventBus, JobStore, RunHistory

FIRST_WAIT, LONGEST_WAIT = 0.2, 5.0
"""Seconds before what the bus refused is put again; doubling."""
_NAMES = 1_000


class Encode(Protocol):
    def __call__(self, event: LifecycleEvent, *, job_name: str | None) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcer:
    jobs: JobStore
    history: RunHistory
    bus: EventBus
    clock: Clock
    encode: Encode
    names: dict[tuple[str, str], str | None] = field(default_factory=dict)
    """Names of jobs whose definition is not in their row, by job and definition row."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the stream."""

    id: str
    change: Change | CircuitChange | WorkerRegistered | WorkerDrained


@dataclass(frozen=True, slots=True)
class Told:
    events: int
    unsent: tuple[str, ...] = ()
    """Records that must come again, in their order: not all of their events are on the bus."""


def tell(announcer: Announcer, records: Iterable[Record], *, deadline: float) -> Told:
    """Put the events of the records on the bus, those of a job one after the other, until `deadline`.

    Raises what the tables raise: then all records come again, and their events have the same ids.
    """
    lines: dict[str, deque[tuple[Record, BusEvent]]] = {}
    order: list[Record] = []
    for record in records:
        order.append(record)
        for event in _events(announcer, record.change):
            lines.setdefault(event.key, deque()).append((record, event))
    sent = _drain(announcer, lines, deadline)
    left = {record.id for line in lines.values() for record, _ in line}
    return Told(sent, tuple(record.id for record in order if record.id in left))


def _drain(announcer: Announcer, lines: dict[str, deque[tuple[Record, BusEvent]]], deadline: float) -> int:
    """Put the first of each line until all are empty: nothing of a job overtakes what was refused."""
    sent, wait = 0, FIRST_WAIT
    while lines:
        heads: Sequence[tuple[str, BusEvent]] = [(key, line[0][1]) for key, line in lines.items()]
        refused = announcer.bus.put([event for _, event in heads])
        for place, (key, _) in enumerate(heads):
            if place in refused:
                continue
            sent += 1
            lines[key].popleft()
            if not lines[key]:
                del lines[key]
        if not refused:
            wait = FIRST_WAIT
            continue
        if announcer.clock.now() + wait >= deadline:
            break
        announcer.clock.sleep(wait)
        wait = min(wait * 2, LONGEST_WAIT)
    return sent


def _events(announcer: Announcer, change: Change | CircuitChange | WorkerRegistered | WorkerDrained) -> list[BusEvent]:
    if isinstance(change, Change):
        events = _of_job(announcer, change)
        name = _name(announcer, change.after) if events else None
    else:
        events = circuit_events(change) if isinstance(change, CircuitChange) else worker_events(change)
        name = None
    return [
        BusEvent(
            key=event.source, type=event.type.value, time=event.time, detail=announcer.encode(event, job_name=name)
        )
        for event in events
    ]


def _of_job(announcer: Announcer, change: Change) -> tuple[LifecycleEvent, ...]:
    history = {}
    for ended in in_history(change):
        row = _recorded(announcer.history, change.after, ended)
        if row is not None:
            history[ended] = row
    return events_of(change, history)


def _recorded(history: RunHistory, after: Job, ended: Attempt) -> Execution | None:
    """None where there is no row, or it cannot be read: the job's row says how the run ended."""
    kept = kept_execution(after)
    if kept is not None and (kept.slot_id, kept.attempt) == ended:
        return kept
    try:
        return history.get(after.id, ended.slot_id, ended.attempt)
    except CorruptDefinitionError:
        return None


def _name(announcer: Announcer, job: Job) -> str | None:
    """The job's name, best effort: its definition may have been replaced, or cannot be read."""
    if job.definition is not None:
        return job.definition.name
    if job.definition_row is None:
        return None
    key = (job.id, job.definition_row)
    if key not in announcer.names:
        if len(announcer.names) >= _NAMES:
            announcer.names.clear()
        announcer.names[key] = _stored_name(announcer.jobs, job)
    return announcer.names[key]


def _stored_name(jobs: JobStore, job: Job) -> str | None:
    try:
        current = jobs.get(job.id)
    except CorruptDefinitionError:
        return None
    if current is None or current.definition is None or current.definition_row != job.definition_row:
        return None
    return current.definition.name
