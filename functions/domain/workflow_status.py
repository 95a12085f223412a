"""How a workflow stands, what blocks whom, what has taken the time.

All is derived from the jobs' rows at the time of reading (docs/workflows.md); a workflow has no state of its own.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from functions.domain.dependence import Join
from functions.domain.job import Job, JobStatus
from functions.domain.upstream import parent_of
from functions.domain.workflow import Member, local_parents

SHOWN_BLOCKERS = 20
"""Parents that are named for one job that waits."""


class WorkflowStatus(enum.StrEnum):
    RUNNING = "RUNNING"
    """Something runs, waits for its retry, or is about to start."""
    WAITING = "WAITING"
    """For a time, an approval, a job outside, or somebody to resume it."""
    COMPLETED = "COMPLETED"
    """Nothing is left, and nothing failed or was cancelled; jobs may have been skipped."""
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """A parent that a job still waits for."""

    name: str | None
    """Local; None for a job outside the workflow."""
    job_id: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What a job has added to the time of its workflow."""

    name: str
    job_id: str
    seconds: int


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
