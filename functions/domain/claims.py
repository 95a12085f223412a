"""What a claim, a heartbeat and a report mean for a job's row (docs/protocol.md, 1.6)."""

from __future__ import annotations

import hashlib
import hmac
import math
from dataclasses import dataclass, field, replace

from functions.domain.decision import Drop, Due, Write, attention_no_later, with_run
from functions.domain.definition import Definition
from functions.domain.dispatch import deadline_hint, is_expired, put_off, started, too_late, worker_queue
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus
from functions.domain.ids import ExecutionKey
from functions.domain.job import Job
from functions.domain.lease import LEASE_MARGIN, WORKER_LEASE, is_held, is_too_late
from functions.domain.outcome import TargetAnswer
from functions.domain.overlap import must_step_back
from functions.domain.run import ActiveRun, RunState


@dataclass(frozen=True, slots=True)
class Held:
    """The attempt is held already, for as long as is asked for: a claim, say, whose answer was lost."""

    job: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who reports: a worker under the fence of its claim, or whoever was sent an attempt's one-time token."""

    worker_id: str | None = None
    fence: int | None = None
    token: str | None = field(default=None, repr=False)

    def holds(self, run: ActiveRun) -> bool:
        """Whether the running attempt is this one's to report on."""
        if self.token is not None:
            if run.worker_id is not None or run.deadline_at is None or run.started_by is None:
                return False  # no attempt that was sent a token
            return hmac.compare_digest(self.token.encode(), run.started_by.encode())
        return run.worker_id is not None and run.worker_id == self.worker_id and run.fence == self.fence


def decide_claim(
    job: Job, key: ExecutionKey, *, worker_id: str, queues: tuple[str, ...], now: float, write_id: str
) -> Write | Held | Drop:
    """Start the attempt `key` names for a worker that serves these queues of the job's owner, if it waits for one.

    Raises CorruptDefinitionError where the definition cannot be read.
    """
    run = job.runs.get(key.slot_id)
    if run is None or job.cancelled:
        return Drop("GONE")
    if run.state is RunState.RUNNING and run.attempt == key.attempt and run.worker_id == worker_id:
        return Held(job) if is_held(run, now) else Drop(why_not_held(run, now))
    refusal = _refusal(job, run, key, queues, now)
    if refusal is not None:
        return Drop(refusal)
    definition = job.defined
    if is_expired(key.slot_id, run, definition, now):
        return too_late(job, key.slot_id, now=now)
    row = started(job, key.slot_id, run, definition, now=now, write_id=write_id, worker_id=worker_id)
    return Write(job=row, reason="CLAIMED", hints=deadline_hint(row, key.slot_id), starts=key.slot_id)


def _refusal(job: Job, run: ActiveRun, key: ExecutionKey, queues: tuple[str, ...], now: float) -> str | None:
    if run.state is not RunState.WAITING or run.attempt + 1 != key.attempt:
        return "TAKEN"
    if job.holds(run):
        return "PAUSED"
    queue = job.defined.worker_queue
    if queue not in queues or run.waits_for != worker_queue(job.owner, queue) or must_step_back(job, key.slot_id):
        return "NOT_OFFERED"
    braked = put_off(job, now)
    return None if braked is None else braked.reason


def decide_extend(job: Job, key: ExecutionKey, holder: Holder, *, now: float) -> Write | Held | Drop:
    """Let a heartbeat prolong the lease, never beyond the deadline + LEASE_MARGIN. A lease that is over stays over."""
    run = running(job, key)
    if run is None or not holder.holds(run):
        return Drop("LOST")
    return _prolong(job, key.slot_id, run, math.ceil(now) + WORKER_LEASE, reason="EXTENDED", now=now)


def decide_accept(job: Job, key: ExecutionKey, *, fence: int, now: float) -> Write | Held | Drop:
    """Let the attempt wait for its callback until its deadline: the target has accepted the call.

    Held where the lease of the call lasts as long.
    """
    run = running(job, key)
    if run is None or run.fence != fence or run.deadline_at is None:
        return Drop("LOST")
    return _prolong(job, key.slot_id, run, run.deadline_at + LEASE_MARGIN, reason="ACCEPTED", now=now)


def _prolong(job: Job, slot: str, run: ActiveRun, until: int, *, reason: str, now: float) -> Write | Held | Drop:
    """The row's attention stays where it is: the sweep that meets the longer lease moves it on."""
    if not is_held(run, now):
        return Drop(why_not_held(run, now))
    lease = min(until, (run.deadline_at or 0) + LEASE_MARGIN)
    if run.lease_expires_at is not None and lease <= run.lease_expires_at:
        return Held(job)
    row = with_run(job, slot, replace(run, lease_expires_at=lease))
    return Write(job=replace(row, attention_at=attention_no_later(row, int(now))), reason=reason)


def why_not_held(run: ActiveRun, now: float) -> str:
    """What has become of a running attempt whose owner comes too late."""
    return ExecutionStatus.TIMED_OUT.value if is_too_late(run, now) else "LOST"


def running(job: Job, key: ExecutionKey) -> ActiveRun | None:
    """The run whose running attempt this is; None where it is not running."""
    run = job.runs.get(key.slot_id)
    return run if run is not None and run.state is RunState.RUNNING and run.attempt == key.attempt else None


def no_report(job: Job) -> TargetAnswer:
    """What comes of an attempt without a report by its deadline; raises CorruptDefinitionError."""
    message = f"no report within {job.defined.timeout_seconds} s"
    return TargetAnswer(status=ExecutionStatus.TIMED_OUT, error=ExecutionError(code="TIMEOUT", message=message))


def is_same_report(stored: Execution, holder: Holder, answer: TargetAnswer) -> bool:
    """Whether history has this very report already: it came twice."""
    if holder.token is not None:
        mine = stored.worker_id is None and stored.write_id == report_mark(holder.token)
    else:
        mine = stored.worker_id is not None and (stored.worker_id, stored.fence) == (holder.worker_id, holder.fence)
    return mine and (stored.status, stored.error, stored.result) == (answer.status, answer.error, answer.result)


def report_mark(token: str) -> str:
    """Mark of the history row that a callback makes: from its token, which is gone from the row by then."""
    return f"cb:{hashlib.sha256(token.encode()).hexdigest()[:24]}"


def no_longer_offered(job: Job, definition: Definition, *, now: int) -> tuple[Job, tuple[Due, ...]]:
    """The row after its target became `definition`'s: runs that wait for workers of another queue are due, with hints.

    No hint for those that the pause holds.
    """
    queue = definition.worker_queue
    offer = None if queue is None else worker_queue(job.owner, queue)
    hints: tuple[Due, ...] = ()
    for slot, run in job.runs.items():
        if run.state is RunState.WAITING and (run.waits_for or "").startswith("worker:") and run.waits_for != offer:
            job = with_run(job, slot, replace(run, waits_for=None, due_at=now))
            hints += () if job.holds(run) else (Due(slot, run.attempt + 1, now),)
    return job, hints
