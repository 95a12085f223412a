"""Whether the end that a parent had last still counts, or a run of it is on its way from further above.

A parent that is settled may come again: a caller retries a job that failed, above it, and what depends on that runs
once more, one after the other. Its row says nothing of it before its own parents have ended. Whoever joins its older
end with the newer one of another would be judged twice, the first time by half of the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from functions.domain.job import Job
from functions.domain.upstream import Parent, is_done_with, parent_of
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
        replace(parent, over=False, again=True)
        if parent.over and not is_new and _comes_again(engine, rows.get(dependency.job_id))
        else parent
        for parent, is_new, dependency in zip(parents, new, job.defined.depends_on, strict=True)
    ]


def _comes_again(engine: Engine, row: Job | None) -> bool:
    """Whether anything above the job, of what still counts for those below it, runs, or has ended and not told of it.

    Row by row upwards; with its definition, which names its parents.
    """
    seen: set[str] = set()
    above = [] if row is None or row.upstream is None or row.cancelled else [row.id]
    while above and len(seen) < MOST:
        seen.update(above)
        marks = dict(pair for one in _read(engine, above) for pair in _marks(one))
        found = engine.jobs.get_rows(sorted(marks))
        counting = [one for one in found.values() if not is_done_with(parent_of(one), marks[one.id])]
        if any(not one.is_over or _tells(one) for one in counting):
            return True
        above = sorted({one.id for one in counting if one.upstream is not None and not one.cancelled} - seen)
    return False


def _read(engine: Engine, ids: Sequence[str]) -> list[Job]:
    return [one for first in range(0, len(ids), 100) for one in engine.jobs.get_many(ids[first : first + 100])]


def _marks(row: Job) -> Iterator[tuple[str, int]]:
    """Its parents and how far it has taken their ends; none of a row whose definition cannot be read."""
    if row.definition is not None and row.upstream is not None:
        ids = [dependency.job_id for dependency in row.definition.depends_on]
        yield from zip(ids, row.upstream.marks, strict=False)


def _tells(row: Job) -> bool:
    return row.followed is not None and row.followed.ends > row.followed.told
