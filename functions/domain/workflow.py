"""Jobs that were created together, as a graph: what it may be, its jobs and edges, their order."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from functions.domain.definition import Definition
from functions.domain.dependence import Dependency
from functions.domain.ids import slot_instant
from functions.domain.job import Job, JobStatus
from functions.domain.run import LastRun, Outcome, RunState
from functions.domain.waiting import job_waits

MAX_JOBS = 100
"""Jobs of one workflow: their rows are one transaction (DynamoDB: 100 actions)."""
MAX_EDGES = 5_000
"""Dependencies of all its jobs, more than 100 jobs can have among themselves: a write each, within one request."""
MAX_OUTSIDERS = 1_000
"""Jobs outside that any of them depends on: as many as of one job."""
LOCAL_NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"
DELETED = "DELETED"
"""Shown of a job of a workflow that was deleted since."""


class WaitsFor(enum.StrEnum):
    """What a job that does not run waits for."""

    JOBS = "jobs"
    APPROVAL = "approval"
    TIME = "time"
    RESUME = "resume"
    TURN = "turn"
    """A worker, a permit, a circuit, or whatever else holds up a run that is due: the job says which."""


def cycle_of(parents: Mapping[str, Sequence[str]]) -> tuple[str, ...] | None:
    """A cycle, each before the one that depends on it, the first once more at the end; None where there is none."""
    try:
        TopologicalSorter(parents).prepare()
    except CycleError as error:
        return tuple(error.args[1])
    return None


def generations(parents: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """All in groups, each after the groups of those that they depend on. Raises CycleError."""
    sorter = TopologicalSorter(parents)
    sorter.prepare()
    groups = []
    while sorter.is_active():
        ready = sorter.get_ready()
        groups.append(list(ready))
        sorter.done(*ready)
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    parent: str | None
    """Local name; None for a job outside the workflow."""
    parent_id: str
    child: str
    dependency: Dependency


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A job of a workflow."""

    name: str
    """Local."""
    job_id: str
    job: Job | None
    """None for one that was deleted."""

    @property
    def status(self) -> str:
        return DELETED if self.job is None else self.job.status.value

    @property
    def definition(self) -> Definition | None:
        return None if self.job is None else self.job.definition

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        return () if self.definition is None else self.definition.depends_on

    @property
    def last(self) -> LastRun | None:
        return None if self.job is None else self.job.last_run

    @property
    def slot(self) -> str | None:
        """Of the run that is active, else of the last one."""
        if self.job is None:
            return None
        return max(self.job.runs, default=None if self.last is None else self.last.slot_id)

    @property
    def ready_at(self) -> int | None:
        """When the run that `slot` names was due: by its schedule, or since all that it depends on had ended.

        One that was cancelled before its time was never due: its own end.
        """
        if self.slot is None:
            return None
        due = slot_instant(self.slot)
        return due if self.ended_at is None else min(due, self.ended_at)

    @property
    def started_at(self) -> float | None:
        """When the attempt that runs did start."""
        if self.job is None:
            return None
        starts = [run.started_at for run in self.job.runs.values() if run.state is RunState.RUNNING]
        return max((start for start in starts if start is not None), default=None)

    @property
    def ended_at(self) -> int | None:
        """When the last run ended; None while one is active."""
        return None if self.job is None or self.job.runs or self.last is None else self.last.ended_at

    @property
    def can_be_retried(self) -> bool:
        """Whether its own attempts failed for good: a verdict over its parents is repeated by theirs."""
        if self.job is None or self.job.cancelled or self.job.runs or self.last is None:
            return False
        return self.last.outcome is Outcome.PERMANENTLY_FAILED and self.last.reason is None

    @property
    def waits_for(self) -> WaitsFor | None:
        """None for one that runs, or has ended."""
        if self.job is None:
            return None
        match self.job.status:
            case JobStatus.BLOCKED:
                gated = any(run.at_gate for run in self.job.runs.values())
                return WaitsFor.APPROVAL if gated else WaitsFor.JOBS
            case JobStatus.PAUSED:
                return WaitsFor.RESUME
            case JobStatus.SCHEDULED:
                return WaitsFor.TIME if job_waits(self.job) is None else WaitsFor.TURN
            case JobStatus.RETRYING:
                return None if job_waits(self.job) is None else WaitsFor.TURN
            case _:
                return None

    def blocking(self) -> tuple[tuple[int, Dependency], ...]:
        """The dependencies that may block it, by index; () unless it waits for others."""
        return tuple(enumerate(self.dependencies)) if self.waits_for is WaitsFor.JOBS else ()


def members_of(jobs: Sequence[tuple[str, str]], rows: Mapping[str, Job]) -> tuple[Member, ...]:
    """`jobs` as (local name, id); a job without a row was deleted long ago."""
    found = [(name, job_id, rows.get(job_id)) for name, job_id in jobs]
    return tuple(
        Member(name=name, job_id=job_id, job=None if row is None or row.deleted_at is not None else row)
        for name, job_id, row in found
    )


def edges_of(members: Sequence[Member]) -> tuple[Edge, ...]:
    """All dependencies of these jobs, those on jobs outside included."""
    names = {member.job_id: member.name for member in members}
    return tuple(
        Edge(
            parent=names.get(dependency.job_id),
            parent_id=dependency.job_id,
            child=member.name,
            dependency=dependency,
        )
        for member in members
        for dependency in member.dependencies
    )


def local_parents(members: Sequence[Member]) -> dict[str, list[str]]:
    """The local names that each depends on, by local name."""
    parents: dict[str, list[str]] = {member.name: [] for member in members}
    for edge in edges_of(members):
        if edge.parent is not None:
            parents[edge.child].append(edge.parent)
    return parents


def cancel_order(members: Sequence[Member]) -> list[list[str]]:
    """Local names in groups, children in groups before those of their parents.

    Rows are read one after the other: a change between two reads may show a cycle that never was. Then all are one.
    """
    try:
        return generations(local_parents(members))[::-1]
    except CycleError:
        return [[member.name for member in members]]
