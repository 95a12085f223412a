"""Slots of concurrency keys: taken before a start, given to who waits longest, freed at every end.

The protocol is docs/protocol.md, section 5.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import dataclass

from functions.domain.concurrency import (
    GRANT_SECONDS,
    UNPROVEN_SECONDS,
    Limit,
    Slot,
    hold,
    limit_for,
    place_of,
    read_hold,
    waits_of,
)
from functions.domain.decision import Drop
from functions.domain.errors import UnavailableError, UnreadableRowError
from functions.domain.ids import execution_id
from functions.domain.job import Job
from functions.domain.permits import Permit, decide_turn, let_go, may_start, still_granted
from functions.domain.run import ActiveRun
from functions.usecases.holders import is_given_up
from functions.usecases.services import Engine
from functions.usecases.writing import Applied, apply, ruled, send

_LOOKS = 3
_PUTS = 4
_CANDIDATES = 10
"""Waiting jobs of a shard that a drain looks at, beyond those whose grant is under way."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A slot that is written down for an attempt about to start."""

    key: str
    slot: Slot
    renewed: str | None
    """Mark of the slot that this attempt had before; None where nobody had written it down."""

    @property
    def name(self) -> str:
        return hold(self.key, self.slot.index)


def take(engine: Engine, limit: Limit, job: Job, execution: str, *, since: int, until: int) -> Hold | None:
    """A slot for the attempt: the one it was granted, renewed, or a free one if nobody waits who comes first."""
    for _ in range(_LOOKS):
        now = int(engine.clock.now())
        held = {slot.index: slot for slot in engine.slots.held(limit.key) if slot.index < limit.most}
        old = next((slot for slot in held.values() if slot.holder == execution), None)
        if old is None and _somebody_first(engine, limit.key, job, since):
            return None
        if old is None and len(held) >= limit.most:
            old = given_up(engine, limit.key, list(held.values()), now)
            if old is None:
                return None
        for index in _free(held.keys(), limit.most, execution) if old is None else [old.index]:
            slot = Slot(index=index, holder=execution, mark=engine.new_write_id(), at=now, until=until)
            if engine.slots.take(limit.key, slot, instead_of=old):
                before = old.mark if old is not None and old.holder == execution else None
                return Hold(limit.key, slot, renewed=before)
    return None


def given_up(engine: Engine, key: str, held: list[Slot], now: int) -> Slot | None:
    """A slot whose time is over and whose holder does not run."""
    over = (slot for slot in held if slot.until <= now)
    return next((slot for slot in over if is_given_up(engine, slot.holder, hold(key, slot.index))), None)


def _free(taken: Collection[int], most: int, execution: str) -> list[int]:
    """Free slots to try: the lowest, since a smaller limit sees those only; where others take them in the same
    instant, another one for each."""
    free = [index for index in range(most) if index not in taken]
    return [*free[:2], *(free[zlib.crc32(execution.encode()) % len(free) :])][:_PUTS]


def _somebody_first(engine: Engine, key: str, job: Job, since: int) -> bool:
    """Whether another job waits for the key that comes before this one. The index may lag: this is for fairness."""
    mine = place_of(job.priority, since)
    for shard in range(engine.jobs.waiting_shards):
        for place, job_id in engine.jobs.waiting_for(key, shard, limit=2):
            if job_id != job.id and place < mine:
                return True
    return False


def give_back(engine: Engine, held: Hold) -> None:
    """The attempt does not start: its slot is free, unless somebody renewed it since."""
    engine.slots.free(held.key, held.slot.index, holder=held.slot.holder, mark=held.slot.mark)


def after_write(engine: Engine, applied: Applied) -> None:
    """Free the permits that this write let go, and give them to runs that wait. Comes after the write's hints."""
    for execution, name in let_go(applied.before, applied.job):
        key, index = read_hold(name)
        if may_start(applied.job, execution):
            _take_back(engine, key, execution)
        else:
            engine.slots.free(key, index, holder=execution)
        drain(engine, key, room=index + 1)


def _take_back(engine: Engine, key: str, execution: str) -> None:
    """Free the permit that is kept for an execution which does not start now, but may in the next instant."""
    for _ in range(_LOOKS):
        slot = next((one for one in engine.slots.held(key) if one.holder == execution), None)
        if slot is None:
            return
        if is_given_up(engine, execution, hold(key, slot.index)):
            engine.slots.free(key, slot.index, holder=execution, mark=slot.mark)
            return


def drain(engine: Engine, key: str, *, also: Job | None = None, room: int | None = None, thorough: bool = False) -> int:
    """Give the key's free permits to the runs that wait for it, those who come first first; returns how many.

    `also` is a waiting job that the index may not show yet; with `room` permits known to exist, none free among them
    ends the matter at once. `thorough` looks after the holders of all but fresh ones; otherwise of those whose time is
    over.
    """
    now = int(engine.clock.now())
    held = _settled(engine, key, now, thorough=thorough)
    if room is not None and all(index in held for index in range(room)):
        return 0
    granted = 0
    for job_id in _candidates(engine, key, also, len(held)):
        job = _read(engine, job_id)
        for slot, run in [] if job is None else waits_of(job).get(key, []):
            if job is None or job.definition is None:
                break  # nobody can start it, and the sweep knows what to do
            most = limit_for(ruled(engine, job), key)
            index = None if most is None else _place(held, most, _execution(job, slot, run))
            if most is not None and index is None:
                if room is None or all(index in held for index in range(room)):
                    return granted
                break  # another may have a wider limit, and use what is free
            row = _grant(engine, key, job, slot, run, index, held)
            if row is not None:
                job, granted = row, granted + 1
    return granted


def _place(held: dict[int, Slot], most: int, execution: str) -> int | None:
    """The index of the permit that the execution has already, else of the first free one; None where there is none."""
    kept = [index for index, slot in held.items() if slot.holder == execution and index < most]
    free = [index for index in range(most) if index not in held]
    return next(iter(kept + free), None)


def _grant(
    engine: Engine, key: str, job: Job, slot: str, run: ActiveRun, index: int | None, held: dict[int, Slot]
) -> Job | None:
    """Make the run due, keep the permit for it, and send its hint. Returns its row; None where it waits no more.

    The row comes first: whatever becomes of the rest, a run that is due is looked after. Where somebody else is faster
    with the permit, the run asks for one by itself.
    """
    name, attempt = None if index is None else hold(key, index), run.current_attempt
    permit = Permit(_execution(job, slot, run), name or "")
    try:
        turn = apply(engine, job, lambda row, _: decide_turn(row, slot, key, attempt, name, now=engine.clock.now()))
    except UnavailableError:
        return None
    if isinstance(turn, Drop):
        return None
    if index is not None and index not in held:
        now = int(engine.clock.now())
        kept = Slot(
            index=index, holder=permit.execution_id, mark=engine.new_write_id(), at=now, until=now + GRANT_SECONDS
        )
        held[index] = kept
        if engine.slots.take(key, kept, instead_of=None):
            row = _read(engine, job.id, with_definition=False)
            if not still_granted(row, permit):
                engine.slots.free(key, index, holder=kept.holder, mark=kept.mark)
                del held[index]
                return None
    send(engine, turn.job, turn.write.hints)
    return turn.job


def _read(engine: Engine, job_id: str, *, with_definition: bool = True) -> Job | None:
    """None for a row that cannot be read, too: it keeps nobody from the key."""
    try:
        return engine.jobs.get(job_id, with_definition=with_definition)
    except UnreadableRowError:
        return None


def _execution(job: Job, slot: str, run: ActiveRun) -> str:
    return execution_id(job.id, slot, run.current_attempt)


def _settled(engine: Engine, key: str, now: int, *, thorough: bool) -> dict[int, Slot]:
    """The slots that are taken, without those whose holders turned out not to run."""
    held = {}
    for slot in engine.slots.held(key):
        suspect = slot.until <= now or (thorough and slot.at + UNPROVEN_SECONDS <= now and not _is_grant(slot))
        if suspect and is_given_up(engine, slot.holder, hold(key, slot.index)):
            engine.slots.free(key, slot.index, holder=slot.holder, mark=slot.mark)
        else:
            held[slot.index] = slot
    return held


def _is_grant(slot: Slot) -> bool:
    return slot.until - slot.at <= GRANT_SECONDS


def _candidates(engine: Engine, key: str, also: Job | None, granted: int) -> list[str]:
    """Ids of the jobs that wait for the key, in the order of their places."""
    found = [
        entry
        for shard in range(engine.jobs.waiting_shards)
        for entry in engine.jobs.waiting_for(key, shard, limit=granted + _CANDIDATES)
    ]
    if also is not None:
        waiting = waits_of(also).get(key, [])
        found += [(place_of(also.priority, run.deferred_at or 0), also.id) for _, run in waiting[:1]]
    return list(dict.fromkeys(job_id for _, job_id in sorted(found)))
