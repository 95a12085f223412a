"""What a change of a circuit's or a worker's row tells the world."""

from __future__ import annotations

from dataclasses import dataclass

from functions.domain.circuit import Circuit
from functions.domain.circuit_key import CircuitKey
from functions.domain.event import EventType, LifecycleEvent
from functions.domain.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitChange:
    """One write of a circuit's row; `before` is None where nobody had written of it."""

    before: Circuit | None
    after: Circuit


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRegistered:
    worker: Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDrained:
    worker: Worker
    at: float
    """When it was written, epoch seconds."""


def circuit_events(change: CircuitChange) -> tuple[LifecycleEvent, ...]:
    """Opened, or closed; a probe that failed changes nothing that was told.

    Rows of circuits expire, and their `seq` begins anew: events are known by the milliseconds of their instant.
    """
    was_open = change.before is not None and change.before.open_until is not None
    after = change.after
    if was_open == (after.open_until is not None):
        return ()
    key = CircuitKey.parse(after.key)
    facts: dict[str, object] = {"circuit": after.key, "owner": key.owner, "target": key.target}
    if was_open and after.reset_by is not None:
        facts["by"] = after.reset_by.facts
    if not was_open:
        facts |= {"failures": after.failures, "open_until": after.open_until}
    return (
        LifecycleEvent(
            type=EventType.CIRCUIT_CLOSED if was_open else EventType.CIRCUIT_OPENED,
            source=f"circuit:{after.key}",
            seq=round(after.since * 1000),
            index=0,
            time=after.since,
            facts=facts,
        ),
    )


def worker_events(change: WorkerRegistered | WorkerDrained) -> tuple[LifecycleEvent, ...]:
    worker = change.worker
    if isinstance(change, WorkerDrained):
        by = {} if worker.drained_by is None else {"by": worker.drained_by.facts}
        return (
            LifecycleEvent(
                type=EventType.WORKER_DRAINING,
                source=f"worker:{worker.id}",
                seq=worker.version,
                index=0,
                time=change.at,
                facts={"worker_id": worker.id, "owner": worker.owner, "name": worker.name, **by},
            ),
        )
    facts = {"worker_id": worker.id, "owner": worker.owner, "name": worker.name, "queues": list(worker.queues)}
    return (
        LifecycleEvent(
            type=EventType.WORKER_REGISTERED,
            source=f"worker:{worker.id}",
            seq=1,
            index=0,
            time=worker.registered_at,
            facts=facts,
        ),
    )
