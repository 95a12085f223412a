"""Whether the holder of a lease elsewhere (a probe, a slot) still runs: its job's row says (docs/protocol.md, 5)."""

from __future__ import annotations

from dataclasses import replace

from functions.domain.errors import LostRaceError, UnreadableRowError
from functions.domain.ids import parse_execution_id
from functions.domain.run import RunState
from functions.domain.visit import LEASE_GRACE
from functions.usecases.services import Engine


def is_given_up(engine: Engine, holder: str, place: str | None = None) -> bool:
    """Whether the execution does not run, and cannot start on what was written down for it before this call.

    With the name of a slot as `place`, one that runs on others has given it up. Without, it is about a probe whose time
    to call is over: one that still runs waits for its callback only.

    A start names the `seq` it read before it took or renewed its lease; a row that is not running is written here
    once more, so a start under way is refused and asks again. A row that moved meanwhile is left for another time,
    and so is one that cannot be read.
    """
    key = parse_execution_id(holder)
    try:
        job = None if key is None else engine.jobs.get(key.job_id, with_definition=False)
    except UnreadableRowError:
        return False
    if key is None or job is None:
        return True
    run = job.runs.get(key.slot_id)
    if run is not None and run.state is RunState.RUNNING and run.attempt == key.attempt:
        if run.deadline_at is not None if place is None else place not in run.holds:
            return True
        return (run.lease_expires_at or 0) + LEASE_GRACE <= engine.clock.now()
    try:
        engine.jobs.save(job, replace(job, write_id=engine.new_write_id()))
    except LostRaceError:
        return False
    return True
