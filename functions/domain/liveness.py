"""Whether the executor works for other jobs: asked before a wake in vain counts towards a job's quarantine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from functions.domain.job import Job

STARTED_SECONDS = 3_600
"""How long ago another job may have started and still shows that the executor works. Less than the ten wakes take, so
no job is quarantined for what came due after the executor stopped."""
STUCK_WAKES = 2
"""Wakes after which a job counts as stuck: one wake replaces a lost hint."""
FEW = 5
"""Stuck jobs beyond which the fault is not in their rows."""


class Others(NamedTuple):
    """Of the other jobs that were looked at."""

    started: int
    stuck: int

    @property
    def are_stuck(self) -> bool:
        """Whether too many are stuck for a fault in single rows, however many others were started."""
        return self.stuck > FEW

    def show_it_works(self, *, readable: bool) -> bool:
        """Whether a job that was woken in vain is alone with that.

        `readable`: its definition can be read. One that cannot is a reason that needs no witness.
        """
        return self.stuck <= min(self.started, FEW) and (self.started > 0 or not readable)


def others_of(job: Job, sample: Iterable[Job], *, now: float) -> Others:
    """What the jobs in `sample`, with their definitions, show to `job`: those of its run queue, without itself."""
    others = [one for one in sample if one.id != job.id and one.priority is job.priority]
    return Others(
        started=sum(_was_started(one, now) for one in others if not _is_stuck(one)),
        stuck=sum(map(_is_stuck, others)),
    )


def _is_stuck(job: Job) -> bool:
    return job.wakes >= STUCK_WAKES


def _was_started(job: Job, now: float) -> bool:
    """Whether the executor started an attempt lately. A worker claims its attempts itself, so those show nothing."""
    lately = (job.brake_minute + 1) * 60 > now - STARTED_SECONDS
    return lately and job.definition is not None and job.definition.worker_queue is None
