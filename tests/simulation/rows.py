"""What must hold of a job's row after every single write (docs/architecture.md, docs/protocol.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.domain.execution import ExecutionStatus
from functions.domain.ids import is_manual, slot_id, slot_instant
from functions.domain.job import Job, SkipReason
from functions.domain.run import ActiveRun, Outcome, RunState
from tests.simulation.kinds import rules_of
from tests.simulation.life import Life, Violation, bounds, decided, holds, is_active, stands

if TYPE_CHECKING:
    from tests.simulation.actors import Actor

BACKOFF, BACKOFF_MAX, MOST_WAKES = 60, 900, 10
MARGIN = 15
MOST_ACTIVE = 10
LAST_LOOK = 3.5
"""Seconds from a look into history to the write that rests on it, where nobody stalls."""
CATCH_UP = 100


def must(holds: object, rule: str, life: Life, detail: object) -> None:
    if not holds:
        raise Violation(rule, f"{life.label}: {detail}")


def backoff(wakes: int) -> int:
    """Seconds that the sweep waits after its wake number `wakes` (1, 2, …)."""
    return int(min(BACKOFF * 2 ** (wakes - 1), BACKOFF_MAX))


def check_row(life: Life, row: Job, actor: Actor, now: float) -> None:
    """The row by itself."""
    _attention(life, row, actor, now)
    if row.next_slot is not None:
        must(
            row.last_slot is None or row.next_slot > row.last_slot,
            "next slot is after the last",
            life,
            (row.last_slot, row.next_slot),
        )
        must(
            life.period.between(row.next_slot, row.next_slot),
            "the next slot is one of the schedule",
            life,
            (row.next_slot, life.period.document["schedule"]),
        )
    queued = [slot for slot, run in row.runs.items() if run.state is RunState.QUEUED]
    must(not queued or any(map(is_active, row.runs.values())), "a queued run waits for another", life, row.runs)
    running = [run.fence for run in row.runs.values() if run.state is RunState.RUNNING]
    must(len(set(running)) == len(running), "fences are job-wide", life, running)
    must(all(fence <= row.fence for fence in running), "a run's fence is not above the job's", life, running)
    must(not (row.cancelled and (row.runs or row.next_slot)), "a cancelled job has nothing left", life, row)
    if row.gap is not None:
        for slot in life.started:
            inside = not is_manual(slot) and row.gap.first <= slot_instant(slot) <= row.gap.last
            must(not inside, "no slot is both started and skipped", life, (slot, row.gap))


def _attention(life: Life, row: Job, actor: Actor, now: float) -> None:
    """Absent exactly at rest; never later than the bound, but for what the sweep has woken."""
    looks, at, local = bounds(row), row.attention_at, now + actor.skew
    alarm = None if row.silence is None or row.silence.alerted else row.silence.since + row.silence.after
    rests = not looks and row.gap is None and alarm is None
    must((at is None) == rests, "attention is absent exactly at rest", life, (at, looks, alarm))
    if at is None:
        return
    must(alarm is None or at <= alarm, "attention is not later than the silence alarm", life, (at, alarm))
    if not looks and row.gap is None:
        return
    bound = min(looks) if looks else local + 31
    if at <= bound:
        return
    must(row.wakes > 0, "attention is not later than its bound", life, (at, bound, looks, row))
    must(at <= local + backoff(row.wakes), "a wake is not later than its back-off", life, (at, local, row.wakes))
    leases = [run.lease_expires_at or 0 for run in row.runs.values() if run.state is RunState.RUNNING]
    must(all(at <= lease for lease in leases), "the bound of a lease does not move", life, (at, leases))
    later = [look for look in looks if look - 30 > local]
    must(all(at <= look for look in later), "what is not due keeps its bound", life, (at, later))


def check_step(life: Life, before: Job, row: Job, actor: Actor, now: float, *, rescheduled: bool) -> None:
    """What one write may change."""
    must(row.seq == before.seq + 1, "each write takes the next seq", life, (before.seq, row.seq))
    must(row.write_id != before.write_id, "each write has its mark", life, row.write_id)
    must(row.fence >= before.fence, "the fence grows", life, (before.fence, row.fence))
    must(
        (row.last_slot or 0) >= (before.last_slot or 0), "the last slot grows", life, (before.last_slot, row.last_slot)
    )
    must(before.deleted_at is None or row.deleted_at is not None, "deleted is final", life, row)
    must(row.cancelled or not before.cancelled, "cancelled is final", life, row)
    must(before.lean or not row.lean, "the leave to end lean does not come back", life, row)
    if actor.kind != "caller":
        same = (before.paused, before.cancelled, before.revision, before.definition_row)
        must(
            same == (row.paused, row.cancelled, row.revision, row.definition_row),
            "callers alone change what is theirs",
            life,
            (actor.key, same),
        )
    if row.wakes > before.wakes:
        must(actor.kind == "sweep" and row.wakes == before.wakes + 1, "the sweep counts its wakes", life, row.wakes)
        must(row.wakes <= MOST_WAKES, "ten wakes at most", life, row.wakes)
    if row.cancelled and not before.cancelled:
        must(row.fence > before.fence, "a cancel takes the fence", life, row.fence)
    for slot in row.runs.keys() | before.runs.keys():
        _run(life, slot, before, row, actor, now)
    _passed(life, before, row, actor, now, rescheduled=rescheduled)
    _last_run(life, before, row)


def _run(life: Life, slot: str, before: Job, row: Job, actor: Actor, now: float) -> None:
    old, new = before.runs.get(slot), row.runs.get(slot)
    if new is None:
        assert old is not None
        ended = life.ended.get(slot)
        must(ended is not None, "a run leaves the row once history has its end", life, (slot, old))
        assert ended is not None
        must(ended.attempt >= old.attempt, "a run ends with its last attempt", life, (slot, old, ended))
        return
    if old == new:
        return
    if actor.action == "retry" and new.state is RunState.WAITING:
        _forced(life, slot, new)
    if old is None:
        _entered(life, slot, before, row, actor)
    if new.state is RunState.RUNNING:
        _started(life, slot, before, row, actor, now)
    elif new.state is RunState.WAITING and new.attempt > 0:
        past = life.history.get((slot, new.attempt))
        must(past is not None, "history has an attempt before the next one waits", life, (slot, new.attempt))
        assert past is not None
        if (slot, new.attempt + 1) not in life.forced:
            must(not past.final, "no attempt follows a final one", life, (slot, past))
            stepped_back = old is not None and old.state is RunState.QUEUED
            at, planned = new.due_at or 0, past.next_retry_at or 0
            fits = at >= planned if stepped_back else at == planned
            must(fits or new.verdict, "a retry waits for the instant in history", life, (slot, new, past))
    elif new.state is RunState.WAITING and old is not None and old.state is RunState.QUEUED:
        others = [run for key, run in row.runs.items() if key != slot and is_active(run) and not stands(row, run)]
        must(not others, "a queued run waits for all before it", life, (slot, others))
    if old is not None and old.state is RunState.RUNNING and new.state is RunState.WAITING:
        must(new.attempt == old.attempt, "an attempt that was claimed is not given back", life, (slot, old, new))


def _forced(life: Life, slot: str, run: ActiveRun) -> None:
    """A caller asked for the next attempt: the run goes on, with as many retries again (docs/architecture.md)."""
    life.forced.add((slot, run.attempt + 1))
    if slot in life.ended and life.ended[slot].attempt <= run.attempt:
        del life.ended[slot]
    life.limits[slot] = run.attempt + 1 + rules_of(life.period.document).get("maxRetries", 3)


def _entered(life: Life, slot: str, before: Job, row: Job, actor: Actor) -> None:
    """A run becomes active: only where the overlap policy has room (docs/architecture.md, docs/protocol.md A6, A8)."""
    new, document = row.runs[slot], life.period.document
    policy = document.get("overlapPolicy", "skip")
    goes_on = [run for run in before.runs.values() if is_active(run) and not stands(before, run)]
    waits = [key for key, run in before.runs.items() if run.state is RunState.QUEUED]
    if new.verdict_for == "QUARANTINED":
        must(new.verdict is not None, "what is quarantined does not start", life, slot)
    elif new.state is RunState.QUEUED:
        must(before.runs, "a run queues only behind another", life, slot)
        must(policy == "queue" and not waits, "only policy queue queues, one run", life, (slot, policy, waits))
    elif before.runs:
        allowed = policy == "allow" or (not goes_on and actor.kind == "caller")
        must(allowed, "a run beside another needs policy allow", life, (slot, policy, before.runs))
        must(len(before.runs) < MOST_ACTIVE or policy != "allow", "ten active runs at most", life, slot)
    if not is_manual(slot) and new.attempt <= 1 and (slot, new.attempt + 1) not in life.forced:
        must(slot not in life.ended, "no slot runs again once it has ended", life, (slot, life.ended.get(slot)))
        must(before.next_slot == slot_instant(slot) or _is_misfire(before, slot), "runs come in turn", life, slot)
    if slot not in life.limits:
        life.limits[slot] = new.attempt + 1 + rules_of(document).get("maxRetries", 3)
        if new.state is RunState.RUNNING:
            life.limits[slot] -= 1


def _is_misfire(before: Job, slot: str) -> bool:
    return before.next_slot is not None and before.next_slot < slot_instant(slot)


def _started(life: Life, slot: str, before: Job, row: Job, actor: Actor, now: float) -> None:
    old, new, attempt = before.runs.get(slot), row.runs[slot], row.runs[slot].attempt
    key, document, latest = (slot, attempt), life.period.document, now + actor.skew
    must(not before.cancelled, "a cancelled job starts nothing", life, key)
    must(not holds(before, new), "a paused job starts only what was asked for by hand", life, key)
    must(attempt == (old.attempt + 1 if old else 1), "attempts count up", life, (key, old))
    must(key not in life.attempts, "an attempt starts once", life, key)
    must(attempt <= life.limits[slot], "no more attempts than allowed", life, (key, life.limits[slot]))
    must(row.fence == before.fence + 1 == new.fence, "a start takes the fence", life, (before.fence, new.fence))
    beside = [other for other, run in before.runs.items() if run.state is RunState.RUNNING and other != slot]
    alone = document.get("overlapPolicy", "skip") != "allow"
    must(not (alone and beside), "one attempt at a time runs, but under allow", life, (key, beside))
    recorded = life.history.get(key)
    if recorded is not None:
        must(recorded.status is ExecutionStatus.CANCELLED, "an attempt starts before it ends", life, (key, recorded))
    must(attempt == 1 or (slot, attempt - 1) in life.history, "attempts come one after the other", life, key)
    due = old.due_at if old is not None and old.due_at is not None else slot_instant(slot) + row.spread
    started = new.started_at or 0.0
    must(started >= due - 0.001, "nothing starts early by its starter's clock", life, (key, due, started))
    must(now >= due - 2, "nothing starts earlier than clocks differ", life, (key, due, now))
    lease = new.lease_expires_at or 0
    timeout = document.get("timeoutSeconds", 60) + MARGIN
    must(started + timeout <= lease <= latest + timeout + 1, "a lease is timeout + 15 s", life, (key, lease, started))
    window = rules_of(document).get("retryWindowSeconds")
    if attempt > 1 and window is not None and key not in life.forced:
        over = slot_instant(slot) + window
        must(started < over + 1, "no retry starts after its window", life, (key, started, over))
    life.attempts.add(key)
    actor.started.add((row.id, *key))
    life.started.setdefault(slot, now)
    life.leases[key] = lease
    if old is None and not before.runs and before.catch_up_to != before.next_slot:
        _misfire(life, slot, row, started)


def _misfire(life: Life, slot: str, row: Job, started: float) -> None:
    """Slots more than the grace late: the latest one runs, none, or all of them in turn."""
    document = life.period.document
    policy, grace = document.get("misfirePolicy", "run_once"), document.get("misfireGraceSeconds", 60)
    if slot_instant(slot) + row.spread + grace >= started:
        return
    must(policy != "skip", "misfire policy skip skips", life, (slot, started))
    if policy == "run_once":
        following = life.period.after(slot_instant(slot))
        late = following is not None and following + row.spread + grace < started
        must(not late, "misfire policy run_once runs the latest", life, (slot, following, started))


def _passed(life: Life, before: Job, row: Job, actor: Actor, now: float, *, rescheduled: bool) -> None:
    """Every slot that `next` moved past was started, or is skipped with a reason that fits."""
    first = before.next_slot
    if first is None or (first == row.next_slot and not rescheduled):
        return
    period = life.periods[-2] if rescheduled else life.period
    earliest, latest = decided(actor, now)
    until = (row.next_slot - 1) if row.next_slot is not None else int(latest)
    moved = rescheduled and row.next_slot is not None and row.next_slot <= first  # the one slot of the job is another
    if rescheduled or row.cancelled or row.next_slot is None:
        until = min(until, int(earliest) - (before.spread if moved else 0))
    ended_by_rule = row.next_slot is None and not row.cancelled and not rescheduled
    if ended_by_rule:
        until = max(until, row.last_slot or 0)
    for slot in period.between(first, until):
        if slot > (row.last_slot or 0) and ended_by_rule:
            break
        outcome = slot_id(slot) in life.started or slot_id(slot) in row.runs or slot_id(slot) in life.ended
        must(outcome or life.skipped(slot), "a slot that is passed has an outcome", life, (slot, actor.key))
    if row.next_slot is not None and actor.kind == "caller":
        resumed = before.paused and not row.paused
        come = period.between(first, int(latest)) if rescheduled and not resumed else []
        kept = row.next_slot if row.next_slot in come else None
        _following(life, row, earliest - row.spread, latest - row.spread, kept=kept)
    if row.gap is not None and row.gap != before.gap:
        _reason(life, before, row, actor, now)


def _following(life: Life, row: Job, earliest: float, latest: float, *, kept: int | None) -> None:
    """After a resume or a new schedule: the first slot after max(now, last); or the one that had come, `kept`."""
    if life.period.document["schedule"]["type"] == "once":
        return
    low = life.period.after(max(int(earliest), row.last_slot or 0))
    high = life.period.after(max(int(latest), row.last_slot or 0))
    following = None if row.next_slot is None else life.period.after(row.next_slot)
    if kept and row.next_slot == kept and (following is None or following > earliest):
        return
    fits = low is not None and row.next_slot is not None and low <= row.next_slot <= (high or row.next_slot)
    must(fits, "the next slot is the first after now", life, (low, row.next_slot, high))


def _reason(life: Life, before: Job, row: Job, actor: Actor, now: float) -> None:
    assert row.gap is not None
    reason, grace = row.gap.reason, life.period.document.get("misfireGraceSeconds", 60)
    action = actor.action if actor.kind == "caller" else ""
    fits = {
        SkipReason.OVERLAP: any(_goes_on(life, slot, run, actor, now) for slot, run in before.runs.items()),
        SkipReason.MISFIRE: row.gap.last + before.spread + grace < now + actor.skew,
        SkipReason.PAUSED: action in ("resume", "change"),
        SkipReason.SCHEDULE_CHANGED: action in ("change", "respread"),
        SkipReason.JOB_CANCELLED: action in ("cancel", "delete"),
    }[reason]
    must(fits, "a skip has a reason", life, (row.gap, actor.key))


def _goes_on(life: Life, slot: str, run: ActiveRun, actor: Actor, now: float) -> bool:
    """Whether the run had not ended, when whoever skips a slot for its sake looked last, a few slow calls ago."""
    ended = life.recorded_at.get((slot, run.attempt)) if run.state is RunState.RUNNING else None
    return ended is None or ended > now - LAST_LOOK or actor.disturbed


def _last_run(life: Life, before: Job, row: Job) -> None:
    last = row.last_run
    if last is None or last == before.last_run or last.outcome is Outcome.SKIPPED:
        return
    execution = life.history.get((last.slot_id, last.attempt))
    must(execution is not None and execution.final, "a final state is in history", life, (last, execution))
    assert execution is not None
    expected = {ExecutionStatus.COMPLETED: Outcome.COMPLETED, ExecutionStatus.CANCELLED: Outcome.CANCELLED}.get(
        execution.status, Outcome.PERMANENTLY_FAILED
    )
    must(last.outcome is expected, "the last run is as history says", life, (last, execution.status))
