"""A job is given other parents: those that are added are followed, and no cycle is closed.

Only edges that are added to a job that exists can close one: nobody depends yet on a job that is being made. They are
written together with the version of the owner's graph that was read before its ancestors were walked (`Write.graph`),
so of two changes that would close a cycle together the second walks again, and finds the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from functions.domain.decision import Write
from functions.domain.definition import Definition
from functions.domain.errors import InvalidFieldError
from functions.domain.job import Job
from functions.domain.rewiring import parents_added, parents_removed
from functions.domain.upstream import Parent
from functions.usecases.dependencies import followed_parents, must_exist, runs_once_now
from functions.usecases.services import Services

MAX_ANCESTORS = 5_000
"""Jobs that a job may depend on, directly or not, where it is given parents."""
_AT_ONCE = 100
"""Rows of one read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """What a change needs of the graph."""

    parents: Mapping[str, Parent] = field(default_factory=dict)
    """Those that are added."""
    graph: int | None = None
    """The version that was read, where edges are added."""
    once: bool | None = None
    """What a job that others follow says of itself from now on (`Followed.once`); None for one that nobody follows."""

    def applied(self, write: Write) -> Write:
        """The write of a change that was decided for these parents."""
        followed = write.job.followed
        if followed is not None and self.once is not None:
            write = replace(write, job=replace(write.job, followed=replace(followed, once=self.once)))
        return replace(write, graph=self.graph)


def wire(services: Services, job: Job, definition: Definition) -> Wiring:
    """Prepare the write that gives `job` this definition: edges come before it.

    Raises InvalidFieldError, and then nothing was written, for a parent that does not exist, or not for the job's
    owner, and for one that depends on the job itself.
    """
    added = parents_added(job, definition)
    if not added:
        return Wiring(once=_once(services, job, definition))
    kept = {one.job_id: Parent() for one in definition.depends_on if one.job_id not in set(added)}
    must_exist(services, job.owner, job.id, definition.depends_on, known=kept)
    graph = services.graphs.version(job.owner)
    _refuse_cycle(services, job, definition.name, added)
    parents = followed_parents(services, job.owner, job.id, definition.depends_on, known=kept)
    return Wiring(
        parents={one.job_id: parent for one, parent in zip(definition.depends_on, parents, strict=True)},
        graph=graph,
        once=_once(services, job, definition),
    )


def rewired_edges(services: Services, before: Job, after: Job) -> None:
    """Once the row says which its parents are: take back the edges of those that it has no more, best effort.

    Another change may be giving it one of these again: whoever comes last puts the edge that the other took.
    """
    definition = after.defined
    if added := parents_added(before, definition):
        services.dependents.add(after.id, added)
    if removed := parents_removed(before, definition):
        services.dependents.remove(after.id, removed)
        row = services.jobs.get(after.id)
        again = {one.job_id for one in row.definition.depends_on} if row and row.definition else set()
        if lost := [one for one in removed if one in again]:
            services.dependents.add(after.id, lost)


def _once(services: Services, job: Job, definition: Definition) -> bool | None:
    """Whether the job, which others follow, runs but once by itself; None for one that nobody follows."""
    return None if job.followed is None else runs_once_now(services, definition)


def _refuse_cycle(services: Services, job: Job, name: str, added: Sequence[str]) -> None:
    """Walk the ancestors of the new parents, level by level."""
    child_of: dict[str, str] = dict.fromkeys(added, job.id)
    names = {job.id: name}
    level = list(added)
    while level:
        following: list[str] = []
        for ancestor in _definitions(services, level):
            if ancestor.deleted_at is not None or ancestor.definition is None:
                continue
            names[ancestor.id] = ancestor.definition.name
            for one in ancestor.definition.depends_on:
                if one.job_id == job.id:
                    raise InvalidFieldError("dependsOn", _cycle(job.id, ancestor.id, child_of, names))
                if one.job_id not in child_of:
                    child_of[one.job_id] = ancestor.id
                    following.append(one.job_id)
        if len(child_of) > MAX_ANCESTORS:
            raise InvalidFieldError(
                "dependsOn", f"The job would depend on more than {MAX_ANCESTORS} jobs, directly or not."
            )
        level = following


def _definitions(services: Services, ids: Sequence[str]) -> Iterator[Job]:
    for start in range(0, len(ids), _AT_ONCE):
        wanted = ids[start : start + _AT_ONCE]
        rows = {row.id: row for row in services.jobs.get_many(wanted)}
        for one in wanted:
            # Left out where it cannot be read, or was changed meanwhile.
            row = rows.get(one) or services.jobs.get(one)
            if row is not None:
                yield row


def _cycle(job_id: str, last: str, child_of: Mapping[str, str], names: Mapping[str, str]) -> str:
    """The message: each depends on the next."""
    path = [job_id, last]
    while path[-1] != job_id:
        path.append(child_of[path[-1]])
    shown = " → ".join(f"{names[one]} ({one})" for one in reversed(path))
    return f"The jobs would wait for each other: {shown}."
