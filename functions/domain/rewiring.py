"""What becomes of what a job's row knows of its parents, when a caller changes which they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from functions.domain.definition import Definition
from functions.domain.job import Job, Upstream
from functions.domain.upstream import Parent, initial_marks


def parents_added(job: Job, definition: Definition) -> list[str]:
    """Ids of those that the job does not depend on yet, in the order of the definition."""
    known = _marks(job)
    return [one.job_id for one in definition.depends_on if one.job_id not in known]


def parents_removed(before: Job, definition: Definition) -> list[str]:
    """Ids of those that the definition names no more."""
    kept = {one.job_id for one in definition.depends_on}
    return [one for one in _marks(before) if one not in kept]


def rewired(job: Job, row: Job, definition: Definition, parents: Mapping[str, Parent], *, now: int) -> Job:
    """`row`, which a change makes of `job`, with its marks and its runs' in the order of the new dependencies.

    What was taken of a parent that stays is kept; `parents` has those that are added.
    """
    if not definition.depends_on:
        return _with_places(replace(row, upstream=None), ())
    if job.upstream is not None and job.definition is not None and _words(job.definition) == _words(definition):
        return row
    old, known = job.upstream, _marks(job)
    ids = [one.job_id for one in definition.depends_on]
    marks = tuple(known[one] if one in known else initial_marks([parents[one]])[0] for one in ids)
    places = {one: place for place, one in enumerate(known)}
    upstream = Upstream(marks=marks, look_at=now, since=now)
    if old is not None:
        blocker = (index for index, one in enumerate(ids) if one in places and places[one] == old.blocked_by)
        # One that is added may be waited for from now on; and what it ended last is taken for a run of its own slot.
        since = old.since if all(one in known for one in ids) else now
        upstream = replace(upstream, since=since, blocked_by=next(blocker, None))
    row = replace(row, upstream=upstream)
    return _with_places(row, [places.get(one) for one in ids])


def _marks(job: Job) -> dict[str, int]:
    """What was taken of each parent, in the order of the dependencies."""
    if job.upstream is None or job.definition is None:
        return {}
    ids = (one.job_id for one in job.definition.depends_on)
    return dict(zip(ids, job.upstream.marks, strict=False))


def _words(definition: Definition) -> tuple[object, ...]:
    return (
        definition.depends_on,
        definition.join,
        definition.on_upstream_failure,
        definition.upstream_timeout,
        definition.schedule,
    )


def _moved(took: tuple[int, ...], places: Sequence[int | None]) -> tuple[int, ...]:
    """The numbers of ends in their new places, 0 for none; a run that was made for no ends stays so."""
    return took and tuple(took[place] if place is not None and place < len(took) else 0 for place in places)


def _with_places(row: Job, places: Sequence[int | None]) -> Job:
    runs = {slot: replace(run, took=_moved(run.took, places)) for slot, run in row.runs.items()}
    return replace(row, runs=MappingProxyType(runs))
