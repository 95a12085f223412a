"""Approve a run that waits at its gate, or reject it."""

from __future__ import annotations

from dataclasses import dataclass

from functions.domain.approval import decide_gate, decided_as, refusal
from functions.domain.caller import Caller
from functions.domain.decision import Write
from functions.domain.errors import ConflictError, ForbiddenError, InvalidFieldError, NotFoundError
from functions.domain.idempotency import IdempotencyKey
from functions.domain.ids import execution_id, is_slot_id, parse_execution_id, run_id, slot_id
from functions.domain.instants import rfc3339
from functions.domain.job import Job
from functions.domain.run import Approval, Decision
from functions.domain.schedule import ScheduleType
from functions.usecases.actions import without_ended
from functions.usecases.consequences import carry_out
from functions.usecases.idempotency import claimed
from functions.usecases.jobs import disarm_replaced, load_job, must_be_as_read, must_see
from functions.usecases.services import Services
from functions.usecases.writing import Applied, apply, ruled


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """What a caller decides about a run that waits at its gate."""

    decision: Decision
    run: str | None = None
    """Id of the run; None for the one that waits, of a job that runs once."""
    comment: str | None = None


def decide_run(
    services: Services,
    caller: Caller,
    job_id: str,
    wanted: GateDecision,
    *,
    key: IdempotencyKey | None = None,
    if_match: int | None = None,
) -> Job:
    """Store the decision in one write of the job's row; of two, the second finds the first.

    Raises NotFoundError, ForbiddenError, PreconditionFailedError, InvalidFieldError where the run must be named, and
    ConflictError where it does not wait for approval.
    """
    job = ruled(services, load_job(services, job_id))
    _must_decide(caller, job, if_match)
    with claimed(services, key, _waiting(job, wanted), now=services.clock.now()) as (kept, replayed):
        if replayed and _has_decided(services, job, kept, caller, wanted):
            return job
        earlier = parse_execution_id(kept)
        slot = _slot(services, job, wanted.run) if earlier is None else earlier.slot_id
        job = _ended(services, job, slot)

        def decide(row: Job, mark: str) -> Write:
            _must_decide(caller, row, if_match, slot=slot)
            now = services.clock.now()
            return decide_gate(
                row, slot, wanted.decision, by=caller.actor, comment=wanted.comment, now=now, write_id=mark
            )

        applied: Applied = apply(services, job, decide)
    disarm_replaced(services, applied)
    carry_out(services, applied)
    return applied.job


def _must_decide(caller: Caller, job: Job, if_match: int | None, *, slot: str | None = None) -> None:
    """Raises unless the caller may decide about the job's runs, and about the one in `slot`."""
    if job.deleted_at is not None:
        raise NotFoundError(f"There is no job {job.id}.")
    must_see(caller, job)
    must_be_as_read(job, if_match)
    gate = job.defined.approval
    if gate is None:
        raise ConflictError("The job has no approval gate: its runs wait for nobody.")
    run = None if slot is None else job.runs.get(slot)
    why = refusal(job, gate, caller, asked_by=None if run is None else run.asked_by)
    if why is not None:
        raise ForbiddenError(why)


def _waiting(job: Job, wanted: GateDecision) -> str:
    """Id of the execution that is decided about; the job's own where none waits, or it is not clear which."""
    waiting = [slot for slot, run in job.runs.items() if run.at_gate and wanted.run in (None, run_id(job.id, slot))]
    if len(waiting) != 1 or (wanted.run is None and _runs_again(job)):
        return job.id
    return execution_id(job.id, waiting[0], job.runs[waiting[0]].current_attempt)


def _runs_again(job: Job) -> bool:
    """Whether the job's runs must be told apart: it is recurring, or depends on others and has run before."""
    kind = job.defined.schedule.type
    return kind in (ScheduleType.CRON, ScheduleType.INTERVAL) or (
        bool(job.defined.depends_on) and job.last_run is not None
    )


def _slot(services: Services, job: Job, name: str | None) -> str:
    """The slot of the run that is meant, whatever its state. Raises ConflictError, InvalidFieldError, NotFoundError."""
    waiting = sorted(slot for slot, run in job.runs.items() if run.at_gate)
    if name is None:
        if _runs_again(job) or len(waiting) > 1:
            which = ", ".join(run_id(job.id, slot) for slot in waiting) or "none"
            raise InvalidFieldError("runId", f"runId is required: each run has a gate of its own. Waiting: {which}.")
        known = waiting or sorted(job.runs)
        if known or job.last_run is not None:
            return known[0] if known or job.last_run is None else job.last_run.slot_id
        raise ConflictError(f"No run of the job waits for approval: it is {job.status.value}.")
    slot = name.removeprefix(f"{job.id}-")
    if slot == name or not is_slot_id(slot):
        raise NotFoundError(f"The job has no run {name:.128}.")
    if slot not in job.runs and (job.last_run is None or job.last_run.slot_id != slot):
        _must_be_known(services, job, slot)
    return slot


def _must_be_known(services: Services, job: Job, slot: str) -> None:
    """Raises what is to be said of a run that is not in the row: ConflictError, or NotFoundError."""
    if job.next_slot is not None and slot == slot_id(job.next_slot):
        raise ConflictError(f"The run is not due before {rfc3339(job.next_slot + job.spread)}.")
    stored = services.history.get(job.id, slot, 1)
    if stored is None:
        raise NotFoundError(f"The job has no run {run_id(job.id, slot)}.")
    decided = "" if stored.approval is None else f" It {decided_as(stored.approval)}."
    raise ConflictError(f"The run {run_id(job.id, slot)} has ended.{decided}")


def _ended(services: Services, job: Job, slot: str) -> Job:
    """The row without the run, where history has ended it, by somebody who died before the row followed (A11)."""
    run = job.runs.get(slot)
    if run is None or not run.at_gate:
        return job
    return without_ended(services, job, slot, run)


def _has_decided(services: Services, job: Job, execution: str, caller: Caller, wanted: GateDecision) -> bool:
    """Whether this decision of the caller's about the execution is stored: in the row, or in history."""
    key = parse_execution_id(execution)
    if key is None:
        return False
    run, last = job.runs.get(key.slot_id), job.last_run
    found: Approval | None = None
    if run is not None:
        found = run.approval
    elif last is not None and last.slot_id == key.slot_id:
        found = last.approval
    else:
        stored = services.history.get(*key)
        found = None if stored is None else stored.approval
    return found is not None and (found.by, found.decision) == (caller.id, wanted.decision)
