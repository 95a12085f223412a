"""Limits of concurrency keys and job types for what workers claim: a slot is taken before the claim, as before a start.

What finds no slot goes on waiting for a worker, and is passed over until there is one.
"""

from __future__ import annotations

import math

from functions.domain.concurrency import HOLD_MARGIN, limits_of, with_holds
from functions.domain.decision import Drop, Write
from functions.domain.errors import CorruptDefinitionError
from functions.domain.ids import ExecutionKey, execution_id
from functions.domain.job import Job
from functions.domain.lease import WORKER_LEASE
from functions.usecases import concurrency
from functions.usecases.concurrency import Hold
from functions.usecases.services import Engine
from functions.usecases.writing import ruled


class Limits:
    """Of one look, or one claim."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._full: dict[tuple[str, int], bool] = {}
        self._taken: dict[str, Hold] = {}
        """Slots this claim has taken anew."""

    def have_room(self, job: Job) -> bool:
        """Whether the job may run one more just now, as far as a look can tell: the claim itself decides."""
        try:
            limits = limits_of(ruled(self._engine, job))
        except CorruptDefinitionError:
            return False
        return not any(self._is_full(limit.key, limit.most) for limit in limits)

    def _is_full(self, key: str, most: int) -> bool:
        if (key, most) not in self._full:
            now = int(self._engine.clock.now())
            held = [slot for slot in self._engine.slots.held(key) if slot.index < most]
            self._full[key, most] = len(held) >= most and concurrency.given_up(self._engine, key, held, now) is None
        return self._full[key, most]

    def held_by(self, claim: Write, row: Job, key: ExecutionKey) -> Write | Drop:
        """The claim with the slots it holds, which were taken for it; Drop where there is none."""
        now = self._engine.clock.now()
        # A worker that dies is looked after by its lease, not by its job's timeout.
        until = math.ceil(now) + WORKER_LEASE + HOLD_MARGIN
        since = row.runs[key.slot_id].deferred_at or int(now)
        names = []
        for limit in limits_of(row):
            held = concurrency.take(self._engine, limit, row, execution_id(*key), since=since, until=until)
            if held is None:
                return Drop("CONCURRENCY_LIMIT")
            mine = self._taken.get(limit.key)
            if held.renewed is None or (mine is not None and mine.slot.mark == held.renewed):
                self._taken[limit.key] = held
            names.append(held.name)
        return with_holds(claim, key.slot_id, tuple(names))

    def give_back(self) -> None:
        """The claim came to nothing: the slots it has taken are free, for whoever waits for them."""
        for held in self._taken.values():
            concurrency.give_back(self._engine, held)
            concurrency.drain(self._engine, held.key, room=held.slot.index + 1)
