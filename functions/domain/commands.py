"""What callers' actions do to a job's row (docs/protocol.md, 1.5).

Each raises ConflictError where the state does not allow it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from functions.domain import silence
from functions.domain.actor import Actor
from functions.domain.approval import gate_changed, maker_after
from functions.domain.claims import no_longer_offered
from functions.domain.decision import (
    Drop,
    Due,
    Write,
    attention_no_later,
    waiting_hints,
    with_attention,
    with_run,
)
from functions.domain.definition import Definition
from functions.domain.ending import released
from functions.domain.errors import ConflictError
from functions.domain.following import look_hint
from functions.domain.ids import MAX_ATTEMPTS, is_dependent
from functions.domain.job import Gap, GateChange, GateChanged, Job, SkipReason, Upstream
from functions.domain.lean import may_be_lean
from functions.domain.overlap import must_have_room
from functions.domain.permits import no_longer_limited
from functions.domain.rescheduling import (
    first_slot,
    new_hints,
    pass_over_overdue,
    regained_slot,
    rescheduled,
    reschedules,
    with_regained_slot,
)
from functions.domain.rewiring import rewired
from functions.domain.run import ActiveRun, Outcome, RunState
from functions.domain.sameness import says_the_same
from functions.domain.upstream import ABSORBED, NO_PARENTS, Parent


def new_job(
    job_id: str,
    definition: Definition,
    *,
    owner: str,
    created_by: str,
    enabled: bool,
    now: float,
    write_id: str,
    upstream: Upstream | None = None,
) -> Job:
    """A job at its creation. Raises InvalidFieldError when its schedule has no slot.

    `upstream` is what one that depends on others knows of them: it has no slot of its own.
    """
    first = None if definition.depends_on else first_slot(definition, now=now)
    due = None if first is None else first + definition.schedule.spread_offset
    job = Job(
        id=job_id,
        owner=owner,
        created_by=created_by,
        created_at=int(now),
        write_id=write_id,
        revised_by=write_id,
        definition=definition,
        priority=definition.priority,
        lean=may_be_lean(definition),
        spread=definition.schedule.spread_offset,
        next_slot=first,
        paused=not enabled,
        silence=silence.armed(definition, now=int(now), next_due=due),
        upstream=upstream,
    )
    return with_attention(job, int(now))


def decide_pause(job: Job, *, now: float, write_id: str, by: Actor | None = None) -> Write | Drop:
    _must_not_be_cancelled(job, "paused")
    if job.paused:
        return Drop("PAUSED_ALREADY")
    row = replace(revised(job, write_id, by), paused=True, wakes=0)
    row, hints = _held(job, row, int(now))
    return Write(job=with_attention(row, int(now)), reason="PAUSED", hints=hints)


def _held(job: Job, row: Job, now: int) -> tuple[Job, tuple[Due, ...]]:
    """The row of a job that is paused now, in which a run that was asked for waits for none that the pause holds."""
    row = released(row, now)
    return row, tuple(hint for hint in waiting_hints(row) if job.runs[hint.slot_id].state is RunState.QUEUED)


def decide_resume(job: Job, *, now: float, write_id: str, by: Actor | None = None) -> Write | Drop:
    """Slots in the pause are skipped; an overdue one-time job runs now; a recurring job that has lost its next slot has
    it again, paused or not."""
    _must_not_be_cancelled(job, "resumed")
    row, _ = with_regained_slot(job, job.definition, now=now)
    if not job.paused and row is job:
        return Drop("NOT_PAUSED")
    row = replace(revised(row, write_id, by), paused=False, wakes=0, catch_up_to=None)
    flush = None
    if job.next_slot is not None and job.defined.schedule.recurring:
        row, flush = pass_over_overdue(row, job.defined, now=now, reason=SkipReason.PAUSED)
    row = with_attention(row, int(now))
    return Write(job=row, reason="RESUMED", flush=flush, hints=waiting_hints(row))


def decide_change(
    job: Job,
    definition: Definition,
    *,
    enabled: bool | None,
    now: float,
    write_id: str,
    parents: Mapping[str, Parent] = NO_PARENTS,
    by: Actor | None = None,
) -> Write | Drop:
    """Replace the definition, as `by` wants. A waiting retry is kept, and uses the new one at its next attempt.

    `parents` are those that the job did not depend on before. What says the same as before is not written, unless the
    job has lost its next slot: then it has it again.
    Raises ConflictError for a new schedule of a one-time job that has started.
    """
    _must_not_be_cancelled(job, "changed")
    same = (
        job.definition is not None and enabled in (None, not job.paused) and says_the_same(job.definition, definition)
    )
    if same and regained_slot(job, definition, now=now) is None:
        return Drop("UNCHANGED")
    lean = job.lean and may_be_lean(definition)
    row = replace(revised(job, write_id, by), definition=definition, priority=definition.priority, lean=lean, wakes=0)
    flush: Gap | None = None
    hints: tuple[Due, ...] = ()
    if reschedules(job, definition):
        resumes = enabled is True and job.paused
        row, flush = rescheduled(job, row, definition, now=now, resumes=resumes)
        hints = new_hints(job, row)
    else:
        row, hints = with_regained_slot(row, definition, now=now)
    row = rewired(job, row, definition, parents, now=int(now))
    if enabled is not None and enabled == row.paused:
        if enabled:
            row = replace(row, paused=False)
            if row.next_slot is not None and definition.schedule.recurring and flush is None:
                row, flush = pass_over_overdue(row, definition, now=now, reason=SkipReason.PAUSED)
            hints = waiting_hints(row)
        else:
            row, hints = _held(row, replace(row, paused=True), int(now))
    row, released = no_longer_offered(row, definition, now=int(now))
    row, unlimited = no_longer_limited(row, definition, now=int(now))
    row, gated = gate_changed(row, definition, now=int(now))
    hints = (*hints, *(hint for hint in (*released, *unlimited, *gated) if hint not in hints))
    succeeded = job.last_run is not None and job.last_run.outcome is Outcome.COMPLETED
    alarm = silence.changed(
        job.silence, job.definition, definition, now=int(now), next_due=row.next_due, succeeded=succeeded
    )
    row = replace(row, silence=alarm, changed_by=maker_after(job, definition, by), gate_change=_gate_change(job, row))
    if row.upstream != job.upstream and row.look_due is not None:
        hints = (*hints, look_hint(int(now)))
    return Write(job=with_attention(row, int(now)), reason="CHANGED", flush=flush, hints=hints)


def decide_transfer(job: Job, owner: str, *, now: float, write_id: str, by: Actor | None = None) -> Write | Drop:
    """Give the job to another owner.

    Raises ConflictError where something of the old owner's would stay behind: permits and offers to workers of active
    runs, and edges, which are between jobs of one owner.
    """
    if owner == job.owner:
        return Drop("OWNED_ALREADY")
    if job.runs or job.cancelled_calls:
        raise ConflictError("A run of the job is active: pause the job and let it end, or cancel it, then transfer.")
    if job.upstream is not None or job.followed is not None:
        raise ConflictError("The job depends on others, or others have depended on it: such jobs have one owner.")
    row = replace(revised(job, write_id, by), owner=owner)
    return Write(job=with_attention(row, int(now)), reason="TRANSFERRED", hints=waiting_hints(row))


def decide_execute(job: Job, slot: str, *, now: float, write_id: str, by: Actor | None = None) -> Write:
    """Run now, beside the schedule, as `by` asks; `slot` is the manual run's own id. Allowed on paused jobs: what the
    pause holds is in nobody's way, and steps back if it is over before this run is."""
    _must_not_be_cancelled(job, "run")
    definition = job.defined
    instant = int(now)
    run = ActiveRun(
        state=RunState.WAITING,
        attempt=0,
        attempt_limit=1 + definition.retry.max_retries,
        due_at=instant,
        manual=True,
        asked_by=None if by is None else by.id,
    )
    hints: tuple[Due, ...] = (Due(slot, 1, instant),)
    if job.runs and must_have_room(job, definition, may_queue=True):
        run, hints = replace(run, state=RunState.QUEUED, due_at=None), ()
    row = replace(with_run(job, slot, run), wakes=0, revised_by=write_id, acted=by)
    row = replace(row, attention_at=attention_no_later(row, instant))
    return Write(job=row, reason="RUN_REQUESTED", hints=hints)


def decide_retry(job: Job, *, delay: int, now: float, write_id: str, by: Actor | None = None) -> Write:
    """Force a retry of the run that waits for one, or of the last one, which failed. Its attempts go on.

    A recurring job that has lost its next slot has it again. A run that was approved needs no second approval
    (functions/domain/approval.py).
    """
    _must_not_be_cancelled(job, "retried")
    definition = job.defined
    at = math.ceil(now) + delay
    waiting = sorted(
        (slot for slot, run in job.runs.items() if _waits_for_its_retry(run)),
        key=lambda slot: (job.runs[slot].due_at or 0, slot),
    )
    if waiting:
        slot = waiting[0]
        attempt, fence, approval = job.runs[slot].attempt, job.runs[slot].fence, job.runs[slot].approval
    else:
        last = job.last_run
        if last is None or last.outcome is not Outcome.PERMANENTLY_FAILED:
            raise ConflictError(
                "Only a run that failed for good, or waits for its retry, can be retried: "
                f"{'no run has ended yet' if last is None else f'the last run ended as {last.outcome.value}'}."
            )
        if last.slot_id in job.runs:
            raise ConflictError("The run is being retried just now.")
        if job.runs:
            must_have_room(job, definition, may_queue=False)
            _must_know_its_ends(job, last.slot_id)
        slot, attempt, fence, approval = last.slot_id, last.attempt, last.fence, last.approval
    if attempt + 1 > MAX_ATTEMPTS:
        raise ConflictError(f"The run has had {attempt} attempts; {MAX_ATTEMPTS} is the limit.")
    run = ActiveRun(
        state=RunState.WAITING,
        attempt=attempt,
        attempt_limit=min(attempt + 1 + definition.retry.max_retries, MAX_ATTEMPTS),
        fence=fence,
        due_at=at,
        manual=True,
        forced=True,
        asked_attempt=attempt + 1,
        took=_made_for(job, slot),
        approval=approval,
        asked_by=None if by is None else by.id,
    )
    row = replace(with_run(job, slot, run), wakes=0, revised_by=write_id, acted=by)
    row, hints = with_regained_slot(row, definition, now=now)
    row = replace(row, attention_at=attention_no_later(row, int(now)))
    return Write(job=row, reason="RETRY_FORCED", hints=(Due(slot, attempt + 1, at), *hints))


def _must_know_its_ends(job: Job, slot: str) -> None:
    """Raises ConflictError where the marks say no longer which ends the last run was made for, but the one after it."""
    if is_dependent(slot) and any(run.took for run in job.runs.values()):
        raise ConflictError("The run for what the jobs before this one ended next is active: wait for its end.")


def _made_for(job: Job, slot: str) -> tuple[int, ...]:
    """The ends of parents' runs that the run was made for; of the last run the marks say so, () for a run of another
    kind."""
    if slot in job.runs:
        return job.runs[slot].took
    if job.upstream is None or not is_dependent(slot):
        return ()
    return tuple(0 if mark == ABSORBED else mark for mark in job.upstream.marks)


def _waits_for_its_retry(run: ActiveRun) -> bool:
    return run.state is RunState.WAITING and run.attempt > 0 and run.verdict is None


def decide_gap_written(job: Job, *, now: float) -> Write | Drop:
    """Clear the gap, whose history row is put first."""
    if job.gap is None:
        return Drop("NO_GAP")
    return Write(job=with_attention(replace(job, gap=None), int(now)), reason="GAP", flush=job.gap)


def _must_not_be_cancelled(job: Job, verb: str) -> None:
    if job.cancelled:
        raise ConflictError(f"The job is CANCELLED and cannot be {verb}: create a new one.")


def revised(job: Job, write_id: str, by: Actor | None) -> Job:
    updated_by = job.updated_by if by is None else by.id if by.id != job.created_by else None
    return replace(job, revision=job.revision + 1, revised_by=write_id, acted=by, updated_by=updated_by)


def _gate_change(job: Job, row: Job) -> GateChange | None:
    """What became of the gate. Where the definition before cannot be read, it may not have stayed."""
    before, after = None if job.definition is None else job.definition.approval, row.defined.approval
    if job.definition is not None and before == after:
        return job.gate_change
    what = GateChanged.CHANGED
    if job.definition is not None and (before is None or after is None):
        what = GateChanged.ADDED if before is None else GateChanged.REMOVED
    return GateChange(revision=row.revision, what=what)
