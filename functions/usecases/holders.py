"""Whether the holder of a lease elsewhere (a probe, a slot) still runs: its job's row says (docs/protocol.md, 5)."""

from __future__ import annotations

from dataclasses import replace

from functions.domain.claims import running
from functions.domain.errors import LostRaceError, UnreadableRowError
from functions.domain.ids import parse_execution_id
from functions.domain.job import Job
from functions.domain.lease import is_free
from functions.usecases.services import Engine


def is_given_up(engine: Engine, holder: str, place: str | None = None) -> bool:
    """Whether the execution does not run, and cannot start on what was written down for it before this call.

    With the name of a slot as `place`, one that runs on others has given it up. Without, it is about a probe whose time
    to call is over: one that still runs waits for its callback only.

    A start names the `seq` it read before it took or renewed its lease, so one that is under way is refused by the row
    that `refuse_writes_under_way` leaves, and asks again. A row that moved meanwhile is left for another time, and so
    is one that cannot be read.
    """
    key = parse_execution_id(holder)
    try:
        job = None if key is None else engine.jobs.get(key.job_id, with_definition=False)
    except UnreadableRowError:
        return False
    if key is None or job is None:
        return True
    run = running(job, key)
    if run is None and place is not None:
        run = job.cancelled_call(key.slot_id, key.attempt)  # a permit is held as long as its call may go on
    if run is not None:
        if run.deadline_at is not None if place is None else place not in run.holds:
            return True
        if not is_free(run, engine.clock.now()):
            return False
    return refuse_writes_under_way(engine, job) is not None


def refuse_writes_under_way(engine: Engine, job: Job) -> Job | None:
    """Write the row once more, nothing else changed; None where it has moved since it was read.

    A start, or a write that prolongs a lease, may have been decided before and be under way still: it names the `seq`
    that it read, is refused, and decides again.
    """
    try:
        return engine.jobs.save(job, replace(job, write_id=engine.new_write_id()))
    except LostRaceError:
        return None
