"""What a change of a job's row tells of the graph that the job is part of, and of its approval gates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from functions.domain.actor import Actor, ActorKind
from functions.domain.event import EventType, Told, run_facts
from functions.domain.job import Job
from functions.domain.run import TIMEOUT, ActiveRun, Approval, Decision

_DECIDED = {Decision.APPROVED: EventType.APPROVED, Decision.REJECTED: EventType.REJECTED}


def of_runs(before: Job, after: Job, at: float) -> Iterator[Told]:
    """Decisions at gates, runs that were made for those of other jobs, runs that came to a gate: in this order."""
    for slot in sorted(after.runs):
        run, old = after.runs[slot], before.runs.get(slot)
        if _at_gate(old) and not run.at_gate and run.approval is not None:
            decided = run.approval
            facts = run_facts(after, slot) | {"by": _decider(before, after, decided).facts, "comment": decided.comment}
            yield Told(_DECIDED[decided.decision], float(decided.at), facts)
    for slot in sorted(after.runs):
        run = after.runs[slot]
        if run.took and run.verdict is None and slot not in before.runs and after.upstream != before.upstream:
            yield Told(EventType.UNBLOCKED, at, run_facts(after, slot) | {"parents": _parents(after, run)})
    for slot in sorted(after.runs):
        run = after.runs[slot]
        if run.at_gate and not _at_gate(before.runs.get(slot)):
            gate = None if after.definition is None else after.definition.approval
            role = {} if gate is None else {"role": gate.role}
            yield Told(EventType.APPROVAL_NEEDED, at, run_facts(after, slot) | {"decide_by": run.due_at, **role})


def _decider(before: Job, after: Job, approval: Approval) -> Actor:
    """The caller as the write of the decision names it. Where a later write has replaced that, its id remains."""
    if approval.by == TIMEOUT:
        return Actor(id=TIMEOUT, kind=ActorKind.SYSTEM)
    if after.acted is not None and after.revised_by != before.revised_by and approval.by == after.acted.id:
        return after.acted
    return Actor(id=approval.by, kind=ActorKind.PERSON)


def of_wait(before: Job | None, after: Job, at: float) -> Iterator[Told]:
    """The job has to wait for others. Told once a wait: that another of them keeps it waiting next is no news."""
    up, old = after.upstream, None if before is None else before.upstream
    if up is None or up.blocked_by is None or after.runs or after.paused or after.cancelled:
        return
    if old is None or old.blocked_by is None:
        yield Told(EventType.BLOCKED, at, {"blocked_by": _parent(after, up.blocked_by), "since": up.since})


def _at_gate(run: ActiveRun | None) -> bool:
    return run is not None and run.at_gate


def _parents(job: Job, run: ActiveRun) -> list[str] | None:
    """The jobs whose ends were taken; None where the definition, which names them, is in a row of its own."""
    if job.definition is None:
        return None
    pairs = zip(job.definition.depends_on, run.took, strict=False)
    return [dependency.job_id for dependency, number in pairs if number]


def _parent(job: Job, index: int) -> str | None:
    dependencies: tuple[Any, ...] = () if job.definition is None else job.definition.depends_on
    return dependencies[index].job_id if index < len(dependencies) else None
