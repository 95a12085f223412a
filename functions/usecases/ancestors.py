"""Whether the end that a parent had last still counts, or a run of it is on its way from further above.

A parent that is settled may come again: a caller retries a job that failed, above it, and what depends on that runs
once more, one after the other. Its row says nothing of it before its own parents have ended. Whoever joins its older
end with the newer one of another would be judged twice, the first time by half of the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from functions.domain.job import Job
from functions.domain.upstream import Parent
from functions.usecases.services import Engine

MOST = 200
"""Ancestors that are read at most; of a parent with more, its last end counts."""


def as_settled(engine: Engine, job: Job, parents: Sequence[Parent], rows: Mapping[str, Job]) -> list[Parent]:
    """The parents as they are, but for those that are over and may come again: these are not over."""
    up = job.upstream
    new = [up is not None and parent.ends > mark for parent, mark in zip(parents, up.marks if up else (), strict=True)]
    if len(parents) < 2 or not any(new):
        return list(parents)
    return [
        replace(parent, over=False)
        if parent.over and not is_new and _comes_again(engine, rows.get(dependency.job_id))
        else parent
        for parent, is_new, dependency in zip(parents, new, job.defined.depends_on, strict=True)
    ]


def _comes_again(engine: Engine, row: Job | None) -> bool:
    """Whether anything above the job runs, or has ended and not told of it."""
    if row is None or row.upstream is None or row.cancelled:
        return False
    seen, above = {row.id}, [row.id]
    while above and len(seen) <= MOST:
        found = [one for first in range(0, len(above), 100) for one in engine.jobs.get_many(above[first : first + 100])]
        if any(not one.is_over or _tells(one) for one in found if one.id != row.id):
            return True
        parents = {
            dependency.job_id
            for one in found
            if one.definition is not None and one.upstream is not None and not one.cancelled
            for dependency in one.definition.depends_on
        }
        above = sorted(parents - seen)
        seen |= parents
    return False


def _tells(row: Job) -> bool:
    return row.followed is not None and row.followed.ends > row.followed.told
