"""Approval gates: a run waits until somebody lets it pass, or the time of its gate is over (docs/job-lifecycle.md).

Nothing runs meanwhile: the run is in its job's row, and a hint for the deadline is under way.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from types import MappingProxyType

from functions.domain.actor import Actor, ActorKind
from functions.domain.approval_policy import ApprovalPolicy, OnTimeout
from functions.domain.caller import Caller, Role
from functions.domain.decision import Due, Write, attention_no_later, with_attention, with_run
from functions.domain.definition import Definition
from functions.domain.errors import ConflictError, ForbiddenError
from functions.domain.ids import run_id
from functions.domain.instants import rfc3339
from functions.domain.job import Job
from functions.domain.run import APPROVAL, TIMEOUT, ActiveRun, Approval, Decision, Outcome, RunState
from functions.domain.timing import SCHEDULE_LEAD, SCHEDULE_SPREAD

NEEDED, REJECTED, TIMED_OUT = "APPROVAL_NEEDED", "REJECTED", "APPROVAL_TIMEOUT"
"""Reasons: why a run waits, and why it ended."""
_EARLIEST_HINT = SCHEDULE_LEAD + SCHEDULE_SPREAD
"""Seconds before the deadline in which its hint may come: a schedule fires early, and the residue is sent again."""


def gate_before(definition: Definition, run: ActiveRun) -> ApprovalPolicy | None:
    """The gate that the run has to pass before its next attempt; None where it may start.

    Its first attempt needs one approval, and the retries of an approved run none, unless what is called has changed
    since. A run that began without a gate goes on without; a caller's retry of it passes the gate.
    """
    policy, given = definition.approval, run.approval
    if policy is None or run.verdict is not None:
        return None
    if given is None:
        return policy if run.attempt == 0 or run.forced or run.at_gate else None
    return None if given.subject in (None, subject_of(definition)) else policy


def subject_of(definition: Definition) -> str:
    """What an approval is about, hashed: another target or another payload needs another approval."""
    text = json.dumps([definition.target, definition.payload], separators=(",", ":"), sort_keys=True)
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:15]).decode()


def maker_after(job: Job, definition: Definition, by: Actor | None) -> str | None:
    """Who made what the job calls, after `by` gave it this definition; None for its creator.

    Kept while there is no gate, too: one that comes later must not let an author approve the own payload. A change of
    anything else makes nobody another maker: the author of a payload is no approver of it after a colleague has changed
    a tag.
    """
    before = job.definition
    if by is None or (before is not None and subject_of(before) == subject_of(definition)):
        return job.changed_by
    return by.id if by.id != job.created_by else None


def wait_at_gate(
    job: Job, slot: str, run: ActiveRun, policy: ApprovalPolicy, *, now: float
) -> tuple[Job, tuple[Due, ...]]:
    """The row in which the run waits at its gate, and the hint for the gate's deadline."""
    deadline = int(now) + policy.timeout_seconds
    waiting = replace(
        run,
        state=RunState.WAITING,
        due_at=deadline,
        waits_for=APPROVAL,
        looked_at=None,
        deferred_for=NEEDED,
        deferred_at=int(now),
        approval=None,
    )
    # Moves the index key at once: the sweep need not come at the start's time to do it.
    row = with_attention(replace(with_run(job, slot, waiting), wakes=0), int(now))
    return row, (Due(slot, run.attempt + 1, deadline),)


def is_not_the_deadlines(run: ActiveRun, now: float) -> bool:
    """Whether a hint for a run at its gate can only be a copy of the one that brought it there."""
    return run.at_gate and run.due_at is not None and run.due_at - now > _EARLIEST_HINT


def time_over(
    job: Job, slot: str, run: ActiveRun, policy: ApprovalPolicy, definition: Definition, *, now: float
) -> Write | ActiveRun:
    """What becomes of a run whose gate's time is over: it ends rejected, or is the approved one that may start."""
    if policy.on_timeout is OnTimeout.APPROVE:
        return _passed(run, _by_timeout(Decision.APPROVED, definition, now), at=int(now))
    ended = _refused(run, _by_timeout(Decision.REJECTED, definition, now), TIMED_OUT, at=int(now))
    return _decided(job, slot, ended, TIMED_OUT, now=now)


def decide_gate(
    job: Job, slot: str, decision: Decision, *, by: Actor, comment: str | None, now: float, write_id: str
) -> Write:
    """Store a caller's decision about the run in `slot`, and let it go on: to its start, or to its end.

    Raises ConflictError where it does not wait for one, or its time is over.
    """
    run = job.runs.get(slot)
    if run is None or not run.at_gate or run.due_at is None:
        raise ConflictError(f"The run {run_id(job.id, slot)} does not wait for approval: {standing(job, slot)}.")
    if run.due_at <= now:
        when = "at resume" if job.holds(run) else "now"
        raise ConflictError(f"The gate's time was over at {rfc3339(run.due_at)}: onTimeout decides {when}.")
    approval = Approval(
        decision=decision, by=by.id, at=int(now), comment=comment, subject=_subject(decision, job.defined)
    )
    job = replace(job, revised_by=write_id, acted=by)
    if decision is Decision.APPROVED:
        return _decided(job, slot, _passed(run, approval, at=int(now)), "APPROVED", now=now)
    return _decided(job, slot, _refused(run, approval, REJECTED, at=int(now)), REJECTED, now=now)


def standing(job: Job, slot: str) -> str:
    """What is the matter with a run that does not wait at its gate."""
    run = job.runs.get(slot)
    if run is None:
        last = job.last_run
        if last is None or last.slot_id != slot:
            return "it has ended"
        ended = f"it has ended as {last.outcome.value}"
        return ended if last.approval is None else f"it {decided_as(last.approval)}; {ended}"
    if run.approval is not None:
        return f"it {decided_as(run.approval)}"
    if run.state is RunState.RUNNING:
        return f"attempt {run.attempt} runs"
    return "it waits for the run before it" if run.state is RunState.QUEUED else "it waits to start"


def decided_as(approval: Approval) -> str:
    """`was approved by alice at 2027-01-15T08:00:00Z`."""
    return f"was {approval.decision.value} by {approval.by} at {rfc3339(approval.at)}"


def refusal(job: Job, policy: ApprovalPolicy, caller: Caller, *, asked_by: str | None = None) -> str | None:
    """Why the caller may not decide at the job's gate; None where it may. `asked_by`: who asked for the run."""
    if not _has_role(caller, policy.role):
        return f"Deciding about this job's runs takes the role {policy.role}."
    is_named = bool(caller.names & set(policy.approvers))
    if policy.approvers and not is_named:
        return "You are not among the approvers of this job's runs."
    if caller.kind is ActorKind.MACHINE and not is_named:
        return "A machine decides about this job's runs only where approvers names its client id."
    return _own_work(job, caller, asked_by) if policy.four_eyes else None


def must_not_dodge(job: Job, definition: Definition, caller: Caller) -> None:
    """Raises ForbiddenError where the change opens or changes a gate that the caller may not touch.

    That is a gate at which runs wait, for callers who may not decide about them; and a protected gate, for all but a
    second person who may decide at it.
    """
    gate = None if job.definition is None else job.definition.approval
    if gate is None or definition.approval == gate:
        return
    for run in job.runs.values():
        if run.at_gate and (why := refusal(job, gate, caller, asked_by=run.asked_by)) is not None:
            raise ForbiddenError(f"A run waits at the job's approval gate: whoever may decide may change it. {why}")
    if gate.protected and (why := refusal(job, replace(gate, four_eyes=True), caller)) is not None:
        raise ForbiddenError(f"The job's approval gate is protected: a second person who may decide changes it. {why}")


def _own_work(job: Job, caller: Caller, asked_by: str | None) -> str | None:
    if caller.id == job.created_by:
        return "You created this job: with fourEyes somebody else decides about its runs."
    if caller.id == job.changed_by:
        return "You changed what this job calls last: with fourEyes somebody else decides about its runs."
    if caller.id == asked_by:
        return "You asked for this run: with fourEyes somebody else decides about it."
    return None


def gate_changed(job: Job, definition: Definition, *, now: int) -> tuple[Job, tuple[Due, ...]]:
    """The row after its definition became this one: due are runs whose gate is gone, and runs offered to workers that
    now need an approval. With hints, unless the pause holds them."""
    hints: tuple[Due, ...] = ()
    runs = dict(job.runs)
    for slot, run in job.runs.items():
        gate = gate_before(definition, run)
        offered = run.state is RunState.WAITING and (run.waits_for or "").startswith("worker:")
        if (run.at_gate and gate is None) or (offered and gate is not None):
            runs[slot] = replace(run, waits_for=None, due_at=now, deferred_for=None, deferred_at=None, deferrals=0)
            hints += () if job.holds(run) else (Due(slot, run.attempt + 1, now),)
    return (replace(job, runs=MappingProxyType(runs)), hints) if runs != dict(job.runs) else (job, ())


def _has_role(caller: Caller, role: str) -> bool:
    """An admin has every role; `scheduler` is the API's role, any other word a group of the user pool."""
    if Role.ADMIN in caller.roles or role in caller.groups:
        return True
    return role == Role.SCHEDULER and Role.SCHEDULER in caller.roles


def _by_timeout(decision: Decision, definition: Definition, now: float) -> Approval:
    return Approval(decision=decision, by=TIMEOUT, at=int(now), subject=_subject(decision, definition))


def _subject(decision: Decision, definition: Definition) -> str | None:
    return subject_of(definition) if decision is Decision.APPROVED else None


def _passed(run: ActiveRun, approval: Approval, *, at: int) -> ActiveRun:
    """Due, and with nothing of the wait left: what puts it off next counts from now."""
    return replace(run, approval=approval, waits_for=None, due_at=at, deferrals=0, deferred_for=None, deferred_at=None)


def _refused(run: ActiveRun, approval: Approval, reason: str, *, at: int) -> ActiveRun:
    """Its hint ends it, also while the job is paused."""
    run = _passed(run, approval, at=at)
    return replace(run, verdict=Outcome.CANCELLED, verdict_for=reason, manual=True)


def _decided(job: Job, slot: str, run: ActiveRun, reason: str, *, now: float) -> Write:
    row = replace(with_run(job, slot, run), wakes=0)
    row = replace(row, attention_at=attention_no_later(row, int(now)))
    hints = () if row.holds(run) else (Due(slot, run.attempt + 1, int(now)),)
    return Write(job=row, reason=reason, hints=hints)
