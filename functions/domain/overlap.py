"""Which runs of a job may be active beside each other, and what a caller can do about the one that is in the way."""

from __future__ import annotations

from functions.domain.definition import Definition, OverlapPolicy
from functions.domain.errors import ConflictError
from functions.domain.ids import execution_id, run_id
from functions.domain.instants import rfc3339
from functions.domain.job import Job
from functions.domain.run import ActiveRun, RunState

MAX_ACTIVE = 10
"""Active runs of one job under overlap policy `allow`."""


def must_have_room(job: Job, definition: Definition, *, may_queue: bool) -> bool:
    """Whether a run that a caller asks for must queue; raises ConflictError where the overlap policy has no room.

    What a pause holds is in nobody's way: it waits for a resume that need not come.
    """
    policy, active = definition.overlap, len(job.runs)
    if policy is OverlapPolicy.ALLOW:
        if active >= MAX_ACTIVE:
            raise ConflictError(f"{active} runs are active; overlapPolicy allow holds at most {MAX_ACTIVE}.")
        return False
    if not job.goes_on:
        return False
    if policy is OverlapPolicy.QUEUE and may_queue:
        if any(run.state is RunState.QUEUED for run in job.runs.values()):
            raise ConflictError(f"A run is queued, and overlapPolicy queue holds one. {_what_to_do(job)}")
        return True
    raise ConflictError(f"A run is active, and overlapPolicy is {policy.value}. {_what_to_do(job)}")


def must_step_back(job: Job, slot: str) -> bool:
    """Whether another attempt runs beside which this run may make none: one of the two was held by a pause, or the
    overlap policy was another."""
    if job.defined.overlap is OverlapPolicy.ALLOW:
        return False
    return any(run.state is RunState.RUNNING for other, run in job.runs.items() if other != slot)


def refuses_scheduled(job: Job, definition: Definition) -> bool:
    """Whether the overlap policy has no place for a scheduled run beside those that no caller asked for."""
    own = [run for run in job.runs.values() if not run.manual]
    if definition.overlap is OverlapPolicy.SKIP:
        return bool(own)
    if definition.overlap is OverlapPolicy.ALLOW:
        return len(own) >= MAX_ACTIVE
    return any(run.state is RunState.QUEUED for run in own)


def _what_to_do(job: Job) -> str:
    """About the run that comes to its end first, as far as can be told."""
    going_on = [
        (slot, run) for slot, run in job.runs.items() if run.state is not RunState.QUEUED and not _is_held(job, run)
    ]
    slot, run = min(going_on, key=lambda one: (one[1].state is not RunState.RUNNING, one[1].due_at or 0, one[0]))
    name, cancel = (
        f"The run {run_id(job.id, slot)}",
        f"cancel its execution {execution_id(job.id, slot, run.current_attempt)}",
    )
    if run.state is RunState.RUNNING:
        return f"{name} is in its attempt {run.attempt}: wait for its end, or {cancel}."
    if run.at_gate:
        return f"{name} waits for approval: approve or reject it, or {cancel}."
    if run.attempt > 0 and run.waits_for is None:
        at = rfc3339(run.due_at or 0)
        return f"{name} waits for its retry at {at}: retry the job to start it now, wait for its end, or {cancel}."
    return f"{name} is about to start: wait for its end, or {cancel}."


def _is_held(job: Job, run: ActiveRun) -> bool:
    return run.state is RunState.WAITING and job.holds(run)
