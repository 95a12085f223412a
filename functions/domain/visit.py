"""What the sweep does for a row whose attention is due (docs/protocol.md, 1.4): the first line that applies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from functions.domain.decision import (
    Drop,
    Due,
    Write,
    attention_no_later,
    waiting_hints,
    with_attention,
    without_run,
)
from functions.domain.following import look_hint
from functions.domain.ids import slot_id
from functions.domain.job import Job
from functions.domain.lease import LEASE_GRACE, is_free
from functions.domain.permits import calls_over, without_lapsed
from functions.domain.quarantine import QUARANTINED, quarantine
from functions.domain.run import APPROVAL, ActiveRun, RunState

WAKE_BACKOFF = 60
WAKE_BACKOFF_MAX = 900
MAX_WAKES = 10
"""Wakes without progress after which what is due in a row is quarantined."""
FREE_WAKES = 5
"""Wakes that count whether or not the executor works for other jobs; by then the back-off is at its longest."""
HELD_WAKES = MAX_WAKES - 2
"""Wakes that are kept at most while the executor does not: once it works again, two more come before a quarantine."""


@dataclass(frozen=True, slots=True)
class Recover:
    """A running attempt's lease is over: its history row decides what became of it."""

    slot_id: str
    run: ActiveRun


@dataclass(frozen=True, slots=True)
class Ask:
    """Somebody must look at the graph; the row says when until one has, and that write moves its attention on: to move
    it now, too, would be dearer than a second message, should nobody have looked when the sweep comes again."""

    hints: tuple[Due, ...]


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Runs that could not be started have their verdict in the row: end them."""

    slot_ids: tuple[str, ...]


def decide_visit(  # noqa: PLR0911, C901 - a line a decision
    job: Job, *, now: float, read_at: float, feeding: bool, counts: bool = True, sent: frozenset[Due] = frozenset()
) -> Recover | Quarantine | Ask | Write | Drop:
    """Decide about a row that was read strongly, not before `read_at`: a lease that was over then stays over, one that
    is over by now may have been prolonged since, and history asks for no row's condition.

    `feeding` is False while the queues hold a backlog: then due work is neither woken nor counted (A16).
    `counts` is False while nothing shows that the executor works for other jobs: then due work is woken, but the wakes
    beyond FREE_WAKES do not count towards its quarantine.
    `sent` are the hints that this visit has just sent for the runs it recovered: they had no time to start anything.
    """
    instant = int(now)
    silence = job.silence
    if silence is not None and silence.due_at is not None and silence.due_at <= now:
        silent = replace(job, silence=replace(silence, alerted=True))
        # `at` stays due where there is a rest: the visit goes on with it.
        return Write(job=replace(silent, attention_at=attention_no_later(silent, instant)), reason="SILENT")
    over = calls_over(job, until=read_at - LEASE_GRACE, now=now)
    if over is not None:
        return over
    for slot, run in job.runs.items():
        if run.state is RunState.RUNNING and is_free(run, read_at):
            return Recover(slot, run)
    judged = {slot: run.verdict_for for slot, run in job.runs.items() if run.verdict is not None}
    if QUARANTINED in judged.values():
        return Quarantine(tuple(judged))
    due = tuple(
        hint
        for hint in waiting_hints(job)
        if hint.due_at <= now and hint not in sent and not _waits_for_others(job, hint.slot_id)
    )
    looks = job.look_due is not None and job.look_due <= now and look_hint(instant) not in sent
    early = job.attention_at is not None and job.attention_at > now  # the index lags: its back-off is not over
    if (due or looks) and (early or not feeding):
        return Drop("WATCHED" if early else "BACKLOG")
    if due and job.wakes >= MAX_WAKES and counts:
        slots = [hint.slot_id for hint in due]
        return Quarantine(tuple(slots)) if judged.keys() >= set(slots) else quarantine(job, slots, now=instant)
    row = without_lapsed(_looked(job, instant), now=instant) if feeding else job
    if looks and not due:
        # One that nobody makes is asked for again and again, and never counted: the job itself may be well.
        return Ask((look_hint(instant),))
    if due:
        wait = min(WAKE_BACKOFF * 2**job.wakes, WAKE_BACKOFF_MAX)
        rest = replace(row, followed=None, upstream=None) if looks else row
        bound = _bound_of_what_is_not_due(rest, {hint.slot_id for hint in due}, instant)
        at = instant + wait if bound is None else min(instant + wait, bound)
        hints = (*due, look_hint(instant)) if looks else due
        held = job.wakes >= FREE_WAKES and not counts
        wakes = min(job.wakes, HELD_WAKES) if held else job.wakes + 1
        return Write(job=replace(row, attention_at=at, wakes=wakes), reason="HELD" if held else "WOKEN", hints=hints)
    settled = replace(row, wakes=0, attention_at=row.bound(instant))
    if job.gap is not None and _only_the_gap(job, instant):
        return Write(job=with_attention(replace(job, gap=None, wakes=0), instant), reason="GAP", flush=job.gap)
    return Drop("WATCHED") if settled == job else Write(job=settled, reason="WATCHED")


def decide_stranded(job: Job, *, now: float) -> Write | Drop:
    """What waits for others under a definition that nobody can read: it is due, so that it is woken and at last
    quarantined, as whatever else cannot be started. Whoever could start it only passes it over."""
    instant = int(now)
    runs = {
        slot: run if run.waits_for in (None, APPROVAL) else replace(run, waits_for=None, due_at=instant)
        for slot, run in job.runs.items()
    }
    if runs == dict(job.runs):
        return Drop("WATCHED")
    return Write(job=with_attention(replace(job, runs=MappingProxyType(runs)), instant), reason="STRANDED")


def _looked(job: Job, now: int) -> Job:
    """The row after those who wait for others were looked after."""
    runs = {slot: run.looked(now) for slot, run in job.runs.items()}
    return job if runs == dict(job.runs) else replace(job, runs=MappingProxyType(runs))


def _waits_for_others(job: Job, slot: str) -> bool:
    """Whether the run is due but not ours to wake: whoever frees what it waits for does."""
    run = job.runs.get(slot)
    return run is not None and run.waits_for not in (None, APPROVAL)


def _bound_of_what_is_not_due(job: Job, due: set[str], now: int) -> int | None:
    rest = job
    for slot in due:
        rest = without_run(rest, slot)
    if job.next_waits or (rest.next_slot is not None and slot_id(rest.next_slot) in due):
        rest = replace(rest, next_slot=None)
    return replace(rest, gap=None).bound(now)


def _only_the_gap(job: Job, now: int) -> bool:
    return replace(job, gap=None, silence=None).bound(now) is None
