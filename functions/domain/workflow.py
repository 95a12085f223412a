"""Jobs that were created together, as a graph: its order, how it stands, what blocks whom, what has taken the time.

All is derived from the jobs' rows at the time of reading (docs/workflows.md); a workflow has no state of its own.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from functions.domain.definition import Definition
from functions.domain.dependence import Dependency, Join
from functions.domain.ids import slot_instant
from functions.domain.job import Job, JobStatus
from functions.domain.run import LastRun, Outcome, RunState
from functions.domain.upstream import parent_of

MAX_JOBS = 100
"""Jobs of one workflow: their rows are one transaction (DynamoDB: 100 actions)."""
MAX_EDGES = 5_000
"""Dependencies of all its jobs, more than 100 jobs can have among themselves: a write each, within one request."""
MAX_OUTSIDERS = 1_000
"""Jobs outside that any of them depends on: as many as of one job."""
LOCAL_NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"
SHOWN_BLOCKERS = 20
"""Parents that are named for one job that waits."""
DELETED = "DELETED"
"""Shown of a job of a workflow that was deleted since."""


class WorkflowStatus(enum.StrEnum):
    RUNNING = "RUNNING"
    """Something runs, waits for its retry, or is about to start."""
    WAITING = "WAITING"
    """For a time, an approval, a job outside, or somebody to resume it."""
    COMPLETED = "COMPLETED"
    """Nothing is left, and nothing failed or was cancelled; jobs may have been skipped."""
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class WaitsFor(enum.StrEnum):
    """What a job that does not run waits for."""

    JOBS = "jobs"
    APPROVAL = "approval"
    TIME = "time"
    RESUME = "resume"


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
class Blocker:
    """A parent that a job still waits for."""

    name: str | None
    """Local; None for a job outside the workflow."""
    job_id: str
    status: str


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
                return WaitsFor.TIME
            case _:
                return None

    def blocking(self) -> tuple[tuple[int, Dependency], ...]:
        """The dependencies that may block it, by index; () unless it waits for others."""
        return tuple(enumerate(self.dependencies)) if self.waits_for is WaitsFor.JOBS else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What a job has added to the time of its workflow."""

    name: str
    job_id: str
    seconds: int


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


def blockers_of(member: Member, rows: Mapping[str, Job], names: Mapping[str, str]) -> tuple[Blocker, ...]:
    """The parents that the job waits for, at most 20. `rows` by id; one that is not there is not judged."""
    up = None if member.job is None else member.job.upstream
    found: list[Blocker] = []
    for index, dependency in member.blocking():
        row = rows.get(dependency.job_id)
        if up is None or row is None or index >= len(up.marks):
            continue
        parent = parent_of(row)
        if parent.over or parent.ends > up.marks[index]:
            continue
        name = names.get(dependency.job_id)
        found.append(Blocker(name=name, job_id=dependency.job_id, status=row.status.value))
        if len(found) == SHOWN_BLOCKERS:
            break
    return tuple(found)


def status_of(members: Sequence[Member], rows: Mapping[str, Job], *, now: float) -> WorkflowStatus:
    """`rows` by id: those of the jobs, and of jobs outside that they wait for; what is not there is not waited for."""
    statuses = {member.status for member in members}
    if any(_is_going_on(member, rows, now) for member in members):
        return WorkflowStatus.RUNNING
    if statuses & {JobStatus.BLOCKED, JobStatus.SCHEDULED, JobStatus.PAUSED}:
        return WorkflowStatus.WAITING
    if JobStatus.FAILED in statuses:
        return WorkflowStatus.FAILED
    return WorkflowStatus.CANCELLED if JobStatus.CANCELLED in statuses else WorkflowStatus.COMPLETED


def _is_going_on(member: Member, rows: Mapping[str, Job], now: float) -> bool:
    job = member.job
    if job is None:
        return False
    if job.status in (JobStatus.RUNNING, JobStatus.RETRYING):
        return True
    if job.status is JobStatus.SCHEDULED:
        dues = [run.due_at for run in job.runs.values()] + ([job.next_due] if job.next_due is not None else [])
        return any(due is None or due <= now for due in dues)
    return _has_news(member, rows)


def _has_news(member: Member, rows: Mapping[str, Job]) -> bool:
    """Whether all that it depends on have ended, and it has not taken that yet: between their end and its look."""
    job, definition = member.job, member.definition
    if job is None or job.upstream is None or definition is None or job.cancelled or job.paused or job.runs:
        return False
    if definition.join is Join.ANY and not job.waits_for_parents:
        return False  # ends after the one that it ran for are left alone
    marks, parents = job.upstream.marks, [rows.get(dependency.job_id) for dependency in definition.depends_on]
    if len(marks) != len(parents):
        return False
    known = [(parent_of(row), mark) for row, mark in zip(parents, marks, strict=True) if row is not None]
    news = [parent.ends > mark for parent, mark in known]
    waits = [not new and not parent.over for new, (parent, _) in zip(news, known, strict=True)]
    return any(news) and not any(waits)


def critical_path(members: Sequence[Member], *, now: float) -> tuple[Span, ...]:
    """The chain of jobs that has determined the time so far, first one first.

    It ends with the job that runs or ended last. Before each stands the parent whose end it had to wait for, and what a
    job adds is the time from then to its own end.
    """
    by_name = {member.name: member for member in members}
    parents = local_parents(members)
    until = {
        member.name: int(now) if member.ended_at is None else member.ended_at
        for member in members
        if member.ready_at is not None and (member.ended_at is not None or member.ready_at <= now)
    }
    if not until:
        return ()
    chains = {name: _chain(name, by_name, parents, until) for name, end in until.items() if end == max(until.values())}
    longest = max(chains.values(), key=lambda chain: (sum(span.seconds for span in chain), len(chain)))
    return tuple(longest)


def _chain(
    name: str, members: Mapping[str, Member], parents: Mapping[str, Sequence[str]], until: Mapping[str, int]
) -> list[Span]:
    chain: list[Span] = []
    at: str | None = name
    while at is not None and all(span.name != at for span in chain):
        member = members[at]
        ready = member.ready_at or 0
        before = [
            (members[parent].ended_at or 0, parent)
            for parent in parents[at]
            if members[parent].ended_at is not None and (members[parent].ended_at or 0) <= ready
        ]
        seconds = max(0, until[at] - ready)
        chain.append(Span(name=at, job_id=member.job_id, seconds=seconds))
        at = max(before)[1] if before else None
    return chain[::-1]
