"""Whether the executor works for other jobs, read from their rows: no wake counts towards quarantine without that."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import TypeVar

from functions.domain.errors import UnreadableRowError
from functions.domain.job import Job
from functions.domain.liveness import STARTED_SECONDS, others_of
from functions.domain.run import HINT_SLACK
from functions.parallel import for_all
from functions.usecases.services import Engine

SOONEST = 64
"""Jobs that are read of those that need attention soonest."""
NEWEST = 32
"""Jobs that are read of one owner."""
T = TypeVar("T")


class Liveness:
    """What one tick of the sweep knows of it: read when the first job asks, and kept."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._soonest: dict[str, Job] | None = None
        self._newest: dict[str, dict[str, Job]] = {}
        self._lock = Lock()

    def lets_count(self, job: Job) -> bool:
        """Whether a wake of this job, with its definition, counts although it was in vain.

        First those are asked that need attention soonest: all that is stuck is among them, and of the others those
        that run often. Jobs that run once, or once a day, are not, so then the owner's newest are.
        """
        now, readable = self._engine.clock.now(), job.definition is not None
        with self._lock:
            sample = self._by_attention()
            others = others_of(job, sample.values(), now=now)
            if others.started == 0 and not others.are_stuck and readable:
                sample = sample | self._by_owner(job.owner)
                others = others_of(job, sample.values(), now=now)
        return others.show_it_works(readable=readable)

    def _by_attention(self) -> dict[str, Job]:
        if self._soonest is None:
            jobs = self._engine.jobs
            until = int(self._engine.clock.now()) + STARTED_SECONDS + HINT_SLACK
            walks = [jobs.due_for_attention(shard, until=until) for shard in range(jobs.shards)]
            self._soonest = self._read(itertools.islice(in_turn(walks), SOONEST))
        return self._soonest

    def _by_owner(self, owner: str) -> dict[str, Job]:
        if owner not in self._newest:
            self._newest[owner] = self._read(
                self._engine.jobs.list_by_owners((owner,), limit=NEWEST, cursor=None).items
            )
        return self._newest[owner]

    def _read(self, ids: Iterable[str]) -> dict[str, Job]:
        """The rows that can be read, with their definitions."""
        jobs = for_all(self._get, ids, at_once=self._engine.parallel)
        return {job.id: job for job in jobs if job is not None}

    def _get(self, job_id: str) -> Job | None:
        try:
            return self._engine.jobs.get(job_id)
        except UnreadableRowError:
            return None


def in_turn(walks: Iterable[Iterator[T]]) -> Iterator[T]:
    """One of each walk in turn, until all are at their end."""
    left = list(walks)
    while left:
        for walk in tuple(left):
            try:
                yield next(walk)
            except StopIteration:
                left.remove(walk)
