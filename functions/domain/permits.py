"""Which permits and probes a job's row shows, and what a write of the row lets go (docs/protocol.md, 4 and 5).

A permit is a place below the limit of a concurrency key or of a job type, named `<key>#<index>`. A probe is the one
attempt that may call a target whose circuit is half open. All instants are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from functions.domain.concurrency import GRANT_SECONDS, is_limit, keys_of, read_hold
from functions.domain.decision import Drop, Due, Write, attention_no_later, with_attention, with_run
from functions.domain.definition import Definition
from functions.domain.ids import execution_id, parse_execution_id
from functions.domain.job import Job
from functions.domain.lease import LEASE_MARGIN
from functions.domain.overlap import MAX_ACTIVE
from functions.domain.run import ActiveRun, RunState


class Permit(NamedTuple):
    """A permit and the execution that it is held by, or kept for."""

    execution_id: str
    name: str


def permits_of(job: Job) -> frozenset[Permit]:
    """The permits of attempts that run, of cancelled calls that go on, and of runs whose turn it is."""
    found = set()
    for slot, run in (*job.runs.items(), *job.cancelled_calls.items()):
        execution = execution_id(job.id, slot, run.current_attempt)
        names = run.holds if run.state is RunState.RUNNING else _granted(job, run)
        found |= {Permit(execution, name) for name in names}
    return frozenset(found)


def _granted(job: Job, run: ActiveRun) -> tuple[str, ...]:
    """The permit that is kept for the run while nothing but its hint is missing."""
    waits = run.state is not RunState.WAITING or run.waits_for is not None or job.holds(run)
    return () if waits or run.verdict is not None or run.granted is None else (run.granted,)


def let_go(before: Job, after: Job) -> list[Permit]:
    """The permits that the row had before a write and has no more: its attempt has ended, or its run does not start
    now, for whatever reason."""
    return sorted(permits_of(before) - permits_of(after))


def probes_ended(before: Job, after: Job) -> list[tuple[str, str]]:
    """The probes that a write ended, each an execution id with the key of its circuit. One that a caller has cancelled
    is none any more, also where its call goes on."""
    return sorted(_probes_of(before) - _probes_of(after))


def _probes_of(job: Job) -> frozenset[tuple[str, str]]:
    return frozenset(
        (execution_id(job.id, slot, run.attempt), run.probes)
        for slot, run in job.runs.items()
        if run.state is RunState.RUNNING and run.probes is not None
    )


def may_start(job: Job, execution: str) -> bool:
    """Whether the execution waits for its start, so that somebody may be about to start it."""
    key = parse_execution_id(execution)
    run = None if key is None else job.runs.get(key.slot_id)
    waits = run is not None and run.state is not RunState.RUNNING
    return waits and key is not None and run is not None and run.current_attempt == key.attempt


def still_granted(job: Job | None, permit: Permit) -> bool:
    """Whether the permit is kept for a run that waits for nothing else."""
    return job is not None and permit in permits_of(job)


def decide_turn(job: Job, slot: str, key: str, attempt: int, name: str | None, *, now: float) -> Write | Drop:
    """It is the turn of the run that waits for the key: it is due, and the permit is kept for it; None where it needs
    none any more.

    The permit is put after this write, so that the run is never left waiting with a permit that nobody looks for.
    """
    run = job.runs.get(slot)
    if run is None or run.state is not RunState.WAITING or run.waits_for != key:
        return Drop("NOT_WAITING")
    if run.current_attempt != attempt or job.holds(run):
        return Drop("NOT_WAITING")
    turn = replace(run, waits_for=None, due_at=int(now), looked_at=None, granted=name)
    # Its attention moves now: nobody looks at it before its hint is late.
    row = with_attention(replace(with_run(job, slot, turn), wakes=0), int(now))
    return Write(job=row, reason="GRANTED", hints=(Due(slot, attempt, int(now)),))


def without_lapsed(job: Job, *, now: int) -> Job:
    """The row in which no permit is kept beyond its time for a run that was woken before and has not started since."""
    if not job.wakes:
        return job
    for slot, run in job.runs.items():
        if run.granted is not None and (run.due_at or 0) + GRANT_SECONDS <= now:
            job = with_run(job, slot, replace(run, granted=None))
    return job


def no_longer_limited(job: Job, definition: Definition, *, now: int) -> tuple[Job, tuple[Due, ...]]:
    """The row after its definition became this one, and hints for what is due now.

    A run that waits for a permit of another key is due, and no such permit is kept. No hint where the pause holds it.
    """
    keys = keys_of(job.owner, definition)
    hints: tuple[Due, ...] = ()
    for slot, run in job.runs.items():
        if run.state is not RunState.WAITING:
            continue
        if is_limit(run.waits_for) and run.waits_for not in keys:
            job = with_run(job, slot, replace(run, waits_for=None, due_at=now, looked_at=None))
            hints += () if job.holds(run) else (Due(slot, run.current_attempt, now),)
        elif run.granted is not None and read_hold(run.granted)[0] not in keys:
            job = with_run(job, slot, replace(run, granted=None))
    return job, hints


def with_calls(job: Job, cancelled: Mapping[str, ActiveRun]) -> Job:
    """The row that remembers the calls of these runs, which a caller has cancelled: as long as they may go on they keep
    their permits. No more than ten: of more, those that end first are forgotten."""
    calls = {
        **job.cancelled_calls,
        **{slot: _call(run) for slot, run in cancelled.items() if run.state is RunState.RUNNING and run.holds},
    }
    if not calls:
        return job
    latest = sorted(calls, key=lambda slot: (calls[slot].lease_expires_at or 0, slot))[-MAX_ACTIVE:]
    return replace(job, cancelled_calls=MappingProxyType({slot: calls[slot] for slot in latest}))


def _call(run: ActiveRun) -> ActiveRun:
    """What has to be known of a cancelled attempt until its call has ended.

    A target that reports later works until the attempt's deadline, whether it has accepted the call by now or not.
    """
    lease = run.lease_expires_at
    if run.worker_id is None and run.deadline_at is not None:
        lease = run.deadline_at + LEASE_MARGIN
    return ActiveRun(
        state=RunState.RUNNING,
        attempt=run.attempt,
        attempt_limit=run.attempt,
        fence=run.fence,
        lease_expires_at=lease,
        started_by=run.started_by,
        holds=run.holds,
        worker_id=run.worker_id,
        deadline_at=run.deadline_at,
    )


def decide_call_over(job: Job, slot: str, attempt: int, *, now: float) -> Write | Drop:
    """The call of an attempt that was cancelled has ended: its permits are free."""
    if job.cancelled_call(slot, attempt) is None:
        return Drop("NO_CALL")
    return Write(job=with_attention(_without_calls(job, {slot}), int(now)), reason="CALL_OVER")


def calls_over(job: Job, *, until: float, now: float) -> Write | None:
    """The row without the cancelled calls whose lease was over at `until`; None where there is none."""
    over = {slot for slot, call in job.cancelled_calls.items() if (call.lease_expires_at or 0) <= until}
    if not over:
        return None
    row = _without_calls(job, over)
    return Write(job=replace(row, attention_at=attention_no_later(row, int(now))), reason="CALL_OVER")


def _without_calls(job: Job, slots: set[str]) -> Job:
    left = {slot: call for slot, call in job.cancelled_calls.items() if slot not in slots}
    return replace(job, cancelled_calls=MappingProxyType(left))
