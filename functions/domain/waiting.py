"""What a run, or a job, waits for besides its time, and since when: read from the job's row alone."""

from __future__ import annotations

import enum
from typing import NamedTuple

from functions.domain.circuit import target_key
from functions.domain.concurrency import key_name, type_name
from functions.domain.dispatch import worker_queue
from functions.domain.ids import is_scheduled, run_id, slot_instant
from functions.domain.job import Job
from functions.domain.run import APPROVAL, ActiveRun, RunState


class WaitKind(enum.StrEnum):
    """What is waited for, and what `name` is."""

    WORKER = "worker"
    """A worker that claims the run; its queue."""
    CONCURRENCY = "concurrency"
    """A permit of the job's concurrency key; the key."""
    JOB_TYPE = "job_type"
    """A permit of the job's type; the type."""
    CIRCUIT = "circuit"
    """The circuit of the target to close; its key."""
    STATE_MACHINE = "state_machine"
    """Room in the state machine."""
    START_RATE = "start_rate"
    """The next minute: the job has started too often in this one."""
    OWNER_LIMIT = "owner_limit"
    """Its owner's share of the executor: other attempts of the owner to end, or the next minute."""
    APPROVAL = "approval"
    """A decision at the gate; the role that decides."""
    PREVIOUS_RUN = "previous_run"
    """The run before it to end; its id."""
    DEPENDENCIES = "dependencies"
    """Other jobs; the id of the first that is not yet as this one needs it."""


class Waiting(NamedTuple):
    kind: WaitKind
    name: str | None
    """None for a kind that has none, or where it is not known."""
    since: int | None
    """When the attempt was first held up, epoch seconds; a job's dependencies: when it began to wait."""


_BY_REASON = {
    "CIRCUIT_OPEN": WaitKind.CIRCUIT,
    "NOT_STARTED": WaitKind.STATE_MACHINE,
    "BRAKE": WaitKind.START_RATE,
    "OWNER_LIMIT": WaitKind.OWNER_LIMIT,
}


def run_waits(job: Job, slot: str, run: ActiveRun) -> Waiting | None:
    """What the run in `slot` waits for; None for one that runs, or waits for its time alone."""
    if run.state is RunState.RUNNING:
        return None
    if run.state is RunState.QUEUED:
        return _behind_another(job, slot)
    if run.waits_for == APPROVAL:
        policy = None if job.definition is None else job.definition.approval
        return Waiting(WaitKind.APPROVAL, None if policy is None else policy.role, run.deferred_at)
    if run.waits_for is not None:
        return _for_others(job, run.waits_for, run.deferred_at)
    kind = _BY_REASON.get(run.deferred_for or "")
    if kind is None:
        return None
    is_named = kind is WaitKind.CIRCUIT and job.definition is not None
    return Waiting(kind, target_key(job.defined.target) if is_named else None, run.deferred_at)


def job_waits(job: Job) -> Waiting | None:
    """What the job waits for: of several runs, the one that has waited longest."""
    waiting = [one for slot, run in job.runs.items() if (one := run_waits(job, slot, run)) is not None]
    if waiting:
        return min(waiting, key=lambda one: (one.since is None, one.since or 0, one.kind))
    if job.runs or not job.waits_for_parents or job.upstream is None:
        return None
    blocked_by, dependencies = job.upstream.blocked_by, () if job.definition is None else job.definition.depends_on
    is_known = blocked_by is not None and blocked_by < len(dependencies)
    return Waiting(
        WaitKind.DEPENDENCIES, dependencies[blocked_by or 0].job_id if is_known else None, job.upstream.since
    )


def _behind_another(job: Job, slot: str) -> Waiting:
    before = min((other for other, run in job.runs.items() if run.state is not RunState.QUEUED), default=None)
    since = slot_instant(slot) + (job.spread if is_scheduled(slot) else 0)
    return Waiting(WaitKind.PREVIOUS_RUN, None if before is None else run_id(job.id, before), since)


def _for_others(job: Job, waits_for: str, since: int | None) -> Waiting | None:
    for prefix, kind in (
        (worker_queue(job.owner, ""), WaitKind.WORKER),
        (key_name(job.owner, ""), WaitKind.CONCURRENCY),
        (type_name(""), WaitKind.JOB_TYPE),
    ):
        if waits_for.startswith(prefix):
            return Waiting(kind, waits_for.removeprefix(prefix), since)
    return None
