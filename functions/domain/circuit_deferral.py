"""How long a run waits for the circuit of its target (docs/job-lifecycle.md, "Circuits")."""

from __future__ import annotations

from functions.domain.circuit import Circuit, CircuitPolicy, look_again_at
from functions.domain.decision import Deferral, Write
from functions.domain.dispatch import CIRCUIT_OPEN, too_late
from functions.domain.ids import is_scheduled, slot_instant
from functions.domain.job import Job
from functions.domain.lease import CLOCK_SKEW
from functions.domain.retry import Uniform
from functions.domain.run import ActiveRun, RunState

LONGEST = 86_400
"""Seconds for which a run waits that neither a retry window nor a next slot ends."""


def held_back(
    job: Job, slot: str, circuit: Circuit, policy: CircuitPolicy, *, now: float, uniform: Uniform
) -> Deferral | Write:
    """What becomes of the attempt in `slot` that the circuit holds back: it looks again later, or has waited enough.

    `job` is the row before the start. A run that is not in it yet is put off at least once: an end needs its entry.
    """
    run = job.runs.get(slot)
    limit = _limit(job, slot, now=now)
    if run is not None and run.state is RunState.WAITING and not run.at_gate and now >= limit:
        return too_late(job, slot, reason=CIRCUIT_OPEN, now=now)
    deferrals = 0 if run is None else run.deferrals
    until = look_again_at(circuit, policy, deferrals=deferrals, limit=limit, now=now, uniform=uniform)
    return Deferral(reason=CIRCUIT_OPEN, until=until)


def _limit(job: Job, slot: str, *, now: float) -> int:
    """The last instant at which the attempt may still look: shortly before its retry window or the job's next slot
    ends its time, so that it is over before what follows is due."""
    run, definition = job.runs.get(slot), job.defined
    first = _held_back_since(run)
    began = int(now) if first is None else first
    if run is not None and run.forced:
        return began + LONGEST
    if definition.retry.retry_window_seconds is not None:
        return slot_instant(slot) + definition.retry.retry_window_seconds - CLOCK_SKEW
    if definition.schedule.recurring and is_scheduled(slot):
        # Never a slot that is as good as due: the run would end at its first look.
        following = definition.schedule.next_after(max(slot_instant(slot), began + CLOCK_SKEW - job.spread))
        if following is not None:
            return following + job.spread - CLOCK_SKEW
    return began + LONGEST


def _held_back_since(run: ActiveRun | None) -> int | None:
    """When the circuit held the run back first; None where it has not yet.

    The time that it waited for others before (an approval, a permit) does not count: one look at an open circuit must
    not end it.
    """
    if run is None or run.deferred_for != CIRCUIT_OPEN:
        return None
    return run.deferred_at if run.held_back_at is None else run.held_back_at
