"""Pause, resume, transfer, run now, retry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from functions.domain.caller import Caller
from functions.domain.commands import (
    decide_execute,
    decide_pause,
    decide_resume,
    decide_retry,
    decide_transfer,
)
from functions.domain.decision import Drop, Write
from functions.domain.errors import ConflictError, UnavailableError
from functions.domain.idempotency import IdempotencyKey
from functions.domain.ids import execution_id as attempt_id
from functions.domain.ids import parse_execution_id
from functions.domain.job import Job
from functions.domain.run import ActiveRun, RunState
from functions.usecases.consequences import carry_out
from functions.usecases.executor import follow, record_verdict
from functions.usecases.idempotency import claimed
from functions.usecases.jobs import load_changeable, must_change
from functions.usecases.quotas import add_recurring, is_live_recurring
from functions.usecases.services import Services
from functions.usecases.writing import TRIES, Applied, apply, ruled


def pause_job(services: Services, caller: Caller, job_id: str, *, if_match: int | None = None) -> Job:
    job = load_changeable(services, caller, job_id, if_match)
    now = services.clock.now()
    decide = _as_allowed(caller, if_match, lambda row, mark: decide_pause(row, now=now, write_id=mark, by=caller.actor))
    return _done(services, apply(services, job, decide, tries=TRIES))


def resume_job(services: Services, caller: Caller, job_id: str, *, if_match: int | None = None) -> Job:
    job = load_changeable(services, caller, job_id, if_match)
    now = services.clock.now()
    decide = _as_allowed(
        caller, if_match, lambda row, mark: decide_resume(row, now=now, write_id=mark, by=caller.actor)
    )
    return _done(services, apply(services, job, decide, tries=TRIES))


def transfer_job(
    services: Services,
    caller: Caller,
    job_id: str,
    *,
    owner: str,
    check: Callable[[Job], None],
    if_match: int | None = None,
) -> Job:
    """Give the job to another owner. `check` raises InvalidFieldError where that owner may not use what it calls.

    Raises ForbiddenError for all but admins, and ConflictError while a run is active, the job is part of a graph, or
    that owner has no room for a recurring job.
    """
    caller.must_administer("the owner of a job")
    job = load_changeable(services, caller, job_id, if_match)
    now, by = services.clock.now(), caller.actor
    services.owners.register(owner)
    added = False

    def decide(row: Job, mark: str) -> Write | Drop:
        check(replace(row, owner=owner))
        decided = decide_transfer(row, owner, now=now, write_id=mark, by=by)
        nonlocal added
        if not added and isinstance(decided, Write) and is_live_recurring(row):
            add_recurring(services, owner)
            added = True
        return decided

    return _done(services, apply(services, job, _as_allowed(caller, if_match, decide), tries=TRIES))


def execute_job(
    services: Services,
    caller: Caller,
    job_id: str,
    *,
    check: Callable[[Job], None] = lambda _: None,
    key: IdempotencyKey | None = None,
    if_match: int | None = None,
) -> Job:
    """Run the job now, beside its schedule. Raises ConflictError where the overlap policy has no room for the run, and
    what `check` raises for a job that must not run as it is."""
    job = load_changeable(services, caller, job_id, if_match)
    now = services.clock.now()
    with claimed(services, key, services.new_manual_slot_id(now), now=now) as (slot, replayed):
        if replayed and _has_run(services, job, slot):
            return job

        def decide(row: Job, mark: str) -> Write | Drop:
            if row.seq != job.seq and _has_run(services, row, slot):
                return Drop("REQUESTED_ALREADY")
            return decide_execute(row, slot, now=now, write_id=mark, by=caller.actor)

        decided = apply(services, job, _as_allowed(caller, if_match, decide, check=check), tries=TRIES)
    return _done(services, decided)


def _has_run(services: Services, job: Job, slot: str) -> bool:
    """Whether the manual run was made already: it is in the row, was the last to end, or is in history."""
    if slot in job.runs or (job.last_run is not None and job.last_run.slot_id == slot):
        return True
    return services.history.get(job.id, slot, 1) is not None


def retry_job(
    services: Services,
    caller: Caller,
    job_id: str,
    *,
    check: Callable[[Job], None] = lambda _: None,
    delay_seconds: int = 0,
    key: IdempotencyKey | None = None,
    if_match: int | None = None,
) -> Job:
    """Retry the run that waits for its retry, or the last one, which failed. Raises ConflictError for any other, and
    what `check` raises for a job that must not run as it is.

    With a key the attempt that would follow is kept under it: the same request again retries unless that one was made.
    """
    job = _ended(services, load_changeable(services, caller, job_id, if_match))
    now = services.clock.now()

    def decide(row: Job, mark: str) -> Write | Drop:
        if _with_verdict(row):
            return Drop("ENDING")
        return decide_retry(row, delay=delay_seconds, now=now, write_id=mark, by=caller.actor)

    with claimed(services, key, _next_attempt(services, job, now), now=now) as (execution, replayed):
        if replayed and _was_retried(services, job, execution):
            return job
        for _ in range(TRIES):
            decided = apply(services, job, _as_allowed(caller, if_match, decide, check=check), tries=TRIES)
            if isinstance(decided, Applied):
                return _done(services, decided)
            job = _ended(services, decided)
    raise UnavailableError("The run that is to be retried is ending: try again.")


def without_ended(services: Services, job: Job, slot: str, run: ActiveRun) -> Job:
    """The row after it followed what history has of the run's current attempt; the row as it is where that has none."""
    stored = services.history.get(job.id, slot, run.current_attempt)
    return job if stored is None else follow(services, job, stored, fence=run.fence)


def _ended(services: Services, job: Job) -> Job:
    """The row without the runs that have a verdict, and without the waiting ones that history has ended, by a process
    that died before the row followed (A11)."""
    if condemned := _with_verdict(job):
        for slot in condemned:
            record_verdict(services, job, slot)
        job = services.jobs.get(job.id) or job
    for slot, run in job.runs.items():
        if run.state is RunState.WAITING and run.attempt > 0:
            job = without_ended(services, job, slot, run)
    return job


def _with_verdict(job: Job) -> list[str]:
    return [slot for slot, run in job.runs.items() if run.verdict is not None]


def _next_attempt(services: Services, job: Job, now: float) -> str:
    """The id of the execution that a forced retry would make of this row; the job's own where it would make none."""
    try:
        due = decide_retry(ruled(services, job), delay=0, now=now, write_id="").hints[0]
    except ConflictError:
        return job.id
    return attempt_id(job.id, due.slot_id, due.attempt)


def _was_retried(services: Services, job: Job, execution: str) -> bool:
    """Whether this attempt was asked for: it waits because a caller said so, runs, or is in history."""
    key = parse_execution_id(execution)
    if key is None:
        return False
    run = job.runs.get(key.slot_id)
    if run is not None and (run.attempt >= key.attempt or (run.manual and run.current_attempt == key.attempt)):
        return True
    return services.history.get(*key) is not None


def _as_allowed(
    caller: Caller,
    if_match: int | None,
    decide: Callable[[Job, str], Write | Drop],
    *,
    check: Callable[[Job], None] = lambda _: None,
) -> Callable[[Job, str], Write | Job]:
    """`decide`, but only for a row that the caller may change: the one that won a race is another than was loaded.

    Where nothing is to be written, the row as it is; else `check` may refuse by raising.
    """

    def checked(row: Job, mark: str) -> Write | Job:
        must_change(caller, row, if_match)
        decision = decide(row, mark)
        if isinstance(decision, Drop):
            return row
        check(row)
        return decision

    return checked


def _done(services: Services, decided: Applied | Job) -> Job:
    if isinstance(decided, Job):
        return decided
    carry_out(services, decided)
    return decided.job
