"""How many polls of one owner wait at the same time: each that waits holds a place, as runs hold permits.

A place whose poll died is free again once the poll would be over. So a poll that waits costs three calls more; one that
is given something at once costs none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from functions.domain.concurrency import Slot
from functions.domain.lease import CLOCK_SKEW

if TYPE_CHECKING:
    from functions.usecases.services import Polls

TRIES = 4
"""Places to try where others take them in the same instant."""
ANSWER_SECONDS = 10
"""Beyond its wait, within which a poll is over: API Gateway ends every request after 30 s."""


class WaitingPoll:
    """One poll's place among those of its owner that wait."""

    def __init__(self, polls: Polls, owner: str, *, until: float, shuffle: Callable[[list[int]], None]) -> None:
        self._polls = polls
        self._key = f"poll:{owner}"
        self._until = math.ceil(until) + ANSWER_SECONDS
        self._shuffle = shuffle
        self._mine: Slot | None = None

    def may_wait(self) -> bool:
        """Whether the poll has a place, or is given one now."""
        if self._mine is None:
            self._mine = self._take()
        return self._mine is not None

    def _take(self) -> Slot | None:
        polls, now = self._polls, int(self._polls.clock.now())
        taken = {slot.index: slot for slot in polls.slots.held(self._key)}
        lapsed = {index: slot for index, slot in taken.items() if slot.until + CLOCK_SKEW <= now}
        free = [index for index in range(polls.waiting_polls) if index not in taken or index in lapsed]
        self._shuffle(free)
        for index in free[:TRIES]:
            mark = polls.new_write_id()
            slot = Slot(index=index, holder=mark, mark=mark, at=now, until=self._until)
            if polls.slots.take(self._key, slot, instead_of=lapsed.get(index)):
                return slot
        return None

    def give_back(self) -> None:
        if self._mine is not None:
            self._polls.slots.free(self._key, self._mine.index, holder=self._mine.holder)
