"""How a job comes to depend on others: they are followed first, then the edges are put, then their rows are read.

In this order, whatever dies in between, no end is missed (docs/workflows.md): a parent that is followed counts its
ends, one that has the edge tells of them, and what ended before the read is in the row that was read. What a crash
leaves behind is a parent that counts ends nobody asks for, and an edge to a job that does not exist: both harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from functions.domain.decision import Drop, Write, with_attention
from functions.domain.definition import Definition
from functions.domain.dependence import Dependency
from functions.domain.errors import InvalidFieldError
from functions.domain.following import followed_by
from functions.domain.job import Job, Upstream
from functions.domain.schedule import ScheduleType
from functions.domain.upstream import NO_PARENTS, Parent, initial_marks, parent_of
from functions.parallel import for_all
from functions.usecases.services import Services
from functions.usecases.writing import apply


def connected(services: Services, job: Job, *, now: float) -> Job:
    """The row of a new job, with its parents followed where it has any: what is done last before the row is put.

    Raises InvalidFieldError as `followed_parents` does.
    """
    definition = job.defined
    if not definition.depends_on:
        return job
    upstream = begin(services, job.owner, job.id, definition, now=now)
    return with_attention(replace(job, upstream=upstream), int(now))


def begin(
    services: Services,
    owner: str,
    child: str,
    definition: Definition,
    *,
    now: float,
    known: Mapping[str, Parent] = NO_PARENTS,
) -> Upstream:
    """What a job that is about to be created knows of those it depends on. Raises as `followed_parents` does."""
    parents = followed_parents(services, owner, child, definition.depends_on, known=known)
    return Upstream(marks=initial_marks(parents), look_at=int(now), since=int(now))


def followed_parents(
    services: Services,
    owner: str,
    child: str,
    dependencies: Sequence[Dependency],
    *,
    known: Mapping[str, Parent] = NO_PARENTS,
) -> list[Parent]:
    """Follow each parent, put its edge to the child, and read it; in the order of the dependencies.

    `known` are parents that the same request makes: only their edges are put. Raises InvalidFieldError, before
    anything is written, for a parent that does not exist, or not for this owner.
    """
    given = [one.job_id for one in dependencies]
    stored = must_exist(services, owner, child, dependencies, known=known)
    unfollowed = [one for one, row in stored.items() if row.followed is None]
    for_all(lambda one: _follow(services, one, owner, given.index(one)), unfollowed, at_once=services.parallel)
    services.dependents.add(child, given)
    rows = services.jobs.get_rows(list(stored))
    return [known[one] if one in known else parent_of(rows.get(one)) for one in given]


def must_exist(
    services: Services,
    owner: str,
    child: str,
    dependencies: Sequence[Dependency],
    *,
    known: Mapping[str, Parent] = NO_PARENTS,
) -> dict[str, Job]:
    """The rows of the parents that are not known, by id; raises InvalidFieldError for one that is none for the child.

    A job of another owner reads like one that does not exist.
    """
    rows = services.jobs.get_rows([one.job_id for one in dependencies if one.job_id not in known])
    for index, one in enumerate(dependencies):
        field = f"dependsOn[{index}].jobId"
        if one.job_id == child:
            raise InvalidFieldError(field, f"{child}: a job cannot depend on itself.")
        row = rows.get(one.job_id)
        if one.job_id not in known and (row is None or row.deleted_at is not None or row.owner != owner):
            raise InvalidFieldError(field, f"There is no job {one.job_id}.")
    return rows


def runs_once(definition: Definition | None, parents: Iterable[Parent]) -> bool:
    """Whether a job with this definition, and these parents in the end, runs but once by itself."""
    if definition is None:
        return False
    if definition.depends_on:
        return all(parent.once for parent in parents)
    return definition.schedule.type is ScheduleType.ONCE


def runs_once_now(services: Services, definition: Definition | None) -> bool:
    """The same by the parents' rows, which are read; those that are gone do not count."""
    parents = () if definition is None else definition.depends_on
    rows = services.jobs.get_rows([one.job_id for one in parents]) if parents else {}
    return runs_once(definition, map(parent_of, rows.values()))


def _follow(services: Services, parent: str, owner: str, place: int) -> None:
    """Have the parent count its ends from now on: from then on it keeps its owner.

    Raises InvalidFieldError where it has been transferred since it was read.
    """
    row = services.jobs.get(parent)
    if row is None or row.followed is not None:
        return
    once = runs_once_now(services, row.definition)

    def decide(row: Job, _: str) -> Write | Drop:
        if row.owner != owner:
            raise InvalidFieldError(f"dependsOn[{place}].jobId", f"There is no job {parent}.")
        if row.followed is not None:
            return Drop("FOLLOWED_ALREADY")
        return Write(job=replace(row, followed=followed_by(row, once=once)), reason="FOLLOWED")

    apply(services, row, decide)
