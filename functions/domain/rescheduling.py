"""What becomes of the slots that are due, and which one is next, when a caller changes when a job runs.

The rules are those of docs/protocol.md, 1.5: pause, resume, patch schedule, cancel.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from functions.domain.decision import Due, next_hint, pass_over, waiting_hints
from functions.domain.definition import Definition
from functions.domain.errors import ConflictError, InvalidFieldError
from functions.domain.ids import is_dependent
from functions.domain.instants import rfc3339
from functions.domain.job import Gap, Job, SkipReason


def first_slot(definition: Definition, *, now: float) -> int:
    first = definition.schedule.first(now=now)
    if first is None:
        raise InvalidFieldError("schedule", "There is no slot between now, startAt and endAt: the job would never run.")
    return first


def reschedules(job: Job, definition: Definition) -> bool:
    old = job.definition
    if old is None or bool(old.depends_on) != bool(definition.depends_on):
        return True
    return old.schedule != definition.schedule or old.max_runs != definition.max_runs


def rescheduled(
    job: Job, row: Job, definition: Definition, *, now: float, resumes: bool = False
) -> tuple[Job, Gap | None]:
    """Recompute the next slot; slots of the old schedule that have come are passed over, paused or not (V11).

    The last of them stays the next one where the new schedule has it too, due or not: what is changed of its spread,
    its end or its `maxRuns` takes no run away. Not where the same change ends a pause (`resumes`), in which it came.
    A job that depends on others has none: its slots are those of their ends.
    """
    once = job.definition is not None and not job.definition.schedule.recurring and not job.definition.depends_on
    # Not by `last_slot`: that may be an instant an earlier change passed over, or a slot of an earlier schedule.
    if once and job.next_slot is None and not definition.depends_on:
        raise ConflictError("The one-time job has started: its schedule cannot be changed. Create a new job.")
    flush, kept = None, None if resumes else _kept(job, definition, int(now))
    if job.next_slot is not None:
        until = _passed_until(job, definition, int(now)) if kept is None else kept - 1
        row, flush = into_gap(row, until=until, reason=SkipReason.SCHEDULE_CHANGED, definition=job.definition)
    row = replace(row, spread=definition.schedule.spread_offset, catch_up_to=None)
    if definition.depends_on:
        return _with_its_earliest(job, replace(row, next_slot=None), definition, int(now)), flush
    following: int | None
    if kept is not None and not _has_run_out(row, definition):
        following = kept
    elif definition.schedule.recurring or _has_run_out(row, definition):
        following = _following(row, definition, now=now)
    else:
        following = first_slot(definition, now=now)
        if row.last_slot is not None and following <= row.last_slot:
            raise InvalidFieldError(
                "schedule.at", f"{rfc3339(following)} is not after the job's last slot, {rfc3339(row.last_slot)}."
            )
    return replace(row, next_slot=following), flush


def _has_run_out(job: Job, definition: Definition) -> bool:
    return definition.max_runs is not None and job.starts >= definition.max_runs


def _kept(job: Job, definition: Definition, now: int) -> int | None:
    """The last slot that has come and was not started, where both schedules have it, and the new one none after it."""
    first, old = job.next_slot, job.definition
    if old is None or first is None or first > now or definition.depends_on or _has_run_out(job, definition):
        return None
    last = max(old.schedule.last_at_or_before(now) or first, first)
    following = definition.schedule.next_after(last)
    is_slot = definition.schedule.next_after(last - 1) == last
    return last if is_slot and (following is None or following > now) else None


def _passed_until(job: Job, definition: Definition, now: int) -> int:
    """The instant up to which slots of the old schedule are passed over by the new one.

    The one slot of a job that is put before it only where it was due: otherwise it is moved, and nothing is skipped.
    """
    moved = definition.schedule.at is not None and job.next_slot is not None and definition.schedule.at < job.next_slot
    return now - job.spread if moved else now


def _following(row: Job, definition: Definition, *, now: float) -> int | None:
    """The first slot of a recurring schedule after now that was not taken; None where it has ended."""
    if _has_run_out(row, definition):
        return None
    return definition.schedule.next_after(max(int(now) - row.spread, row.last_slot or 0))


def regained_slot(job: Job, definition: Definition, *, now: float) -> int | None:
    """The next slot of a recurring job that has none although its schedule has one; None for every other job.

    A quarantine under a definition that could not be read leaves a job so. Resume, forced retry, and a change of
    anything, or of nothing, set its next slot again.
    """
    if job.next_slot is not None or job.cancelled or job.deleted_at is not None:
        return None
    if definition.depends_on or not definition.schedule.recurring:
        return None
    return _following(job, definition, now=now)


def with_regained_slot(row: Job, definition: Definition | None, *, now: float) -> tuple[Job, tuple[Due, ...]]:
    """The row with its next slot again where it has lost it, and the hint for that; else the row as it is."""
    slot = None if definition is None else regained_slot(row, definition, now=now)
    if slot is None:
        return row, ()
    row = replace(row, next_slot=slot)
    return row, () if row.paused else next_hint(row)


def _with_its_earliest(job: Job, row: Job, definition: Definition, now: int) -> Job:
    """The row in which a run that was made for others' ends, and waits for its earliest start, has the new one.

    Its slot stays, which names it; a start that was put off for another reason, and a retry, have their own time.
    """
    if job.definition is None or job.definition.schedule.at is None:
        return row
    old, at = job.definition.schedule.at, max(now, definition.schedule.at or 0)
    runs = {
        slot: replace(run, due_at=at) if is_dependent(slot) and run.is_first and run.due_at == old else run
        for slot, run in row.runs.items()
    }
    return replace(row, runs=MappingProxyType(runs))


def new_hints(job: Job, row: Job) -> tuple[Due, ...]:
    """What to send for the slot, and for the run, that another schedule has moved."""
    if row.paused:
        return ()
    known = waiting_hints(job)
    return next_hint(row) + tuple(hint for hint in waiting_hints(row) if hint.slot_id in row.runs and hint not in known)


def pass_over_overdue(row: Job, definition: Definition, *, now: float, reason: SkipReason) -> tuple[Job, Gap | None]:
    """Move `next_slot` past now; the slots that are due go into the gap."""
    row, flush = into_gap(row, until=int(now) - row.spread, reason=reason, definition=definition)
    if row.next_slot is not None and row.last_slot is not None and row.next_slot <= row.last_slot:
        horizon = max(int(now) - row.spread, row.last_slot)
        row = replace(row, next_slot=definition.schedule.next_after(horizon))
    return row, flush


def into_gap(
    row: Job,
    *,
    until: int,
    reason: SkipReason,
    definition: Definition | None,
) -> tuple[Job, Gap | None]:
    """Put the slots from `next_slot` to `until` into the gap and remember the last as taken; none: no change.

    `definition` is the one the slots are of, None where it cannot be read.
    """
    first = row.next_slot
    if first is None or first > until:
        return row, None
    if definition is None:  # it cannot be read: the one slot that is known
        return replace(row, gap=Gap(first=first, last=first, count=1, reason=reason), last_slot=first), row.gap
    last = definition.schedule.last_at_or_before(until) if definition.schedule.recurring else first
    last = first if last is None or last < first else last
    gap, flush = pass_over(row, definition.schedule, first=first, last=last, reason=reason)
    return replace(row, gap=gap, last_slot=max(last, row.last_slot or 0)), flush
