"""The sweep: whoever should have looked at a job and did not, it looks instead (docs/protocol.md, 1.4)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Lock

from functions.domain.claims import no_report
from functions.domain.concurrency import waits_of
from functions.domain.decision import Drop, Due, Write, waiting_hints
from functions.domain.dispatch import is_expired
from functions.domain.errors import UnreadableRowError
from functions.domain.execution import Execution
from functions.domain.job import Job
from functions.domain.lean import may_end_lean
from functions.domain.lease import is_overdue
from functions.domain.quarantine import QUARANTINED, quarantined
from functions.domain.run import APPROVAL, ActiveRun
from functions.domain.visit import (
    FREE_WAKES,
    MAX_WAKES,
    Ask,
    Quarantine,
    Recover,
    decide_stranded,
    decide_visit,
)
from functions.usecases import concurrency
from functions.usecases.consequences import carry_out
from functions.usecases.executor import follow
from functions.usecases.holders import refuse_writes_under_way
from functions.usecases.judging import judged, judged_lost
from functions.usecases.liveness import Liveness, in_turn
from functions.usecases.services import Engine
from functions.usecases.writing import Applied, apply, revoke, ruled, send

MAX_BACKLOG = 1_000
"""Hints waiting in the run queues up to which the sweep adds some."""
MAX_ACTS = 5_000
"""Jobs a tick wakes or repairs at most. Those it only looks at do not count: a lease that is over may stand behind
thousands of jobs that wait for the queues to empty."""
UNREADABLE_SECONDS = 900
"""After which a row that cannot be read is tried again: as late as the longest back-off, for a release that can."""
_PARALLEL = 8
_GOES_ON = ("RECOVERED", "WORKER_GONE", "SILENT", "CALL_OVER", "QUARANTINED")
"""After these the visit looks at the rest of the row."""


@dataclass(slots=True)
class Swept:
    """What a tick did, for log and metrics."""

    looked_at: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Job ids whose visit failed, and why: one bad row hides no other."""
    unreadable: list[str] = field(default_factory=list)
    """Ids of jobs whose row cannot be read, each told once: it was set aside."""
    complete: bool = True
    """False when the tick ended before every row was seen; the next one goes on."""

    @property
    def acted(self) -> int:
        """Jobs it did something for."""
        return self.looked_at - self.reasons.get("WATCHED", 0) - self.reasons.get("BACKLOG", 0)


class Tick:
    """What the visits of one tick have in common."""

    def __init__(self, engine: Engine, *, room: int = MAX_BACKLOG) -> None:
        self.room = room
        """Hints that may still be sent to wake jobs; what repairs send is not counted."""
        self.drains = room > 0
        """Whether slots are given to those that wait: not while the queues are behind."""
        self.drained: set[str] = set()
        """The concurrency keys that were drained, each once whoever waits for it."""
        self.liveness = Liveness(engine)
        self._lock = Lock()

    def feed(self, hints: int) -> None:
        with self._lock:
            self.room -= hints


def sweep(
    engine: Engine,
    *,
    deadline: float,
    shuffle: Callable[[list[int]], None] = random.shuffle,
    parallel: int = _PARALLEL,
) -> Swept:
    """Visit the jobs whose attention is due, the longest due first, until `deadline` (epoch seconds).

    Jobs are woken as far as the backlog leaves room; the others are visited all the same, since some need a repair.
    """
    swept = Swept()
    tick = Tick(engine, room=MAX_BACKLOG - engine.timetable.backlog())
    due = _due(engine, shuffle)
    with ThreadPoolExecutor(max_workers=parallel) as pool:
        at_once = pool.map if parallel > 1 else map
        # No more at a time than may be woken: none of them takes the room of another.
        while batch := list(itertools.islice(due, min(parallel, tick.room) if tick.room > 0 else parallel)):
            if engine.clock.now() >= deadline or swept.acted >= MAX_ACTS:
                swept.complete = False
                break
            visits = at_once(lambda job_id: _visit_safely(engine, job_id, tick), batch)
            for job_id, reason, failure in visits:
                swept.looked_at += 1
                swept.reasons[reason] = swept.reasons.get(reason, 0) + 1
                if reason == "UNREADABLE" and failure is not None:
                    swept.unreadable.append(job_id)
                elif failure is not None:
                    swept.failed.append((job_id, failure))
    return swept


def _due(engine: Engine, shuffle: Callable[[list[int]], None]) -> Iterator[str]:
    """Ids of jobs whose attention is due: one of each shard in turn, each shard's longest due first.

    Jobs are spread evenly over the shards, so this is about the order of all of them.
    """
    shards = list(range(engine.jobs.shards))
    shuffle(shards)
    until = int(engine.clock.now())
    return in_turn([engine.jobs.due_for_attention(shard, until=until) for shard in shards])


def _visit_safely(engine: Engine, job_id: str, tick: Tick) -> tuple[str, str, str | None]:
    try:
        try:
            return job_id, visit(engine, job_id, tick), None
        except UnreadableRowError as error:
            anew = engine.jobs.set_aside(job_id, until=int(engine.clock.now()) + UNREADABLE_SECONDS)
            if anew is None:
                raise  # another job's row, or it was written meanwhile
            return job_id, "UNREADABLE", str(error) if anew else None
    except Exception as error:  # noqa: BLE001 - one bad row hides no other; the handler logs and counts it
        return job_id, "FAILED", f"{type(error).__name__}: {error}"


def visit(engine: Engine, job_id: str, tick: Tick | None = None) -> str:  # noqa: C901 - a line a decision
    """Look at one job, whose row is read strongly first; returns what was done."""
    tick = Tick(engine) if tick is None else tick
    read_at = engine.clock.now()
    job = engine.jobs.get(job_id, with_definition=False)
    if job is None:
        return "NO_SUCH_JOB"
    if job.waiting is not None and (stranded := _look_after_waiting(engine, job)) is not None:
        return stranded
    if tick.drains:
        _drain(engine, job, tick.drained)
    job, counts = _counts(engine, job, tick)
    done, sent, then = "WATCHED", frozenset[Due](), tuple[Due, ...]()
    for _ in range(len(job.runs) + 3):

        def decide(
            row: Job, _: str, sent: frozenset[Due] = sent, read_at: float = read_at
        ) -> Write | Recover | Quarantine | Ask | Drop:
            now, feeding = engine.clock.now(), tick.room > 0
            return decide_visit(row, now=now, read_at=read_at, feeding=feeding, counts=counts, sent=sent)

        # Most visits of an outage decide to do nothing: those need no more than the row.
        first = decide(job, "")
        decision: Applied | Recover | Quarantine | Ask | Drop = (
            apply(engine, job, decide) if isinstance(first, Write) else first
        )
        if isinstance(decision, Recover):
            waited = waiting_hints(job)
            job, recovered = _recover(engine, job, decision)
            done = recovered if done != "RECOVERED" else done
            sent |= frozenset(waiting_hints(job)).difference(waited)
            read_at = engine.clock.now()
            job = engine.jobs.get(job_id, with_definition=job.wakes >= FREE_WAKES) or job
            continue
        if isinstance(decision, Quarantine):
            _quarantine(engine, job, decision, then)
            return "QUARANTINED"
        if not isinstance(decision, Applied):
            return _left(engine, job, decision, done, tick)
        if decision.write.reason == QUARANTINED:
            # The hints wait until the runs have ended: before, the overlap policy would skip the slot.
            concurrency.after_write(engine, decision)
            job, done, then = decision.job, decision.write.reason, decision.write.hints
            continue
        tick.feed(len(decision.write.hints))
        carry_out(engine, decision)
        if decision.write.reason not in _GOES_ON:
            return decision.write.reason
        job, done = decision.job, decision.write.reason
    return done


def _counts(engine: Engine, job: Job, tick: Tick) -> tuple[Job, bool]:
    """Whether a wake of the job counts; the row, with its definition where a quarantine may come of that."""
    if job.wakes < FREE_WAKES or tick.room <= 0:
        return job, True
    job = engine.jobs.get(job.id) or job
    return job, tick.liveness.lets_count(job)


def _left(engine: Engine, job: Job, decision: Ask | Drop, done: str, tick: Tick) -> str:
    """The end of a visit whose last decision writes nothing."""
    if isinstance(decision, Ask):
        tick.feed(len(decision.hints))
        send(engine, job, decision.hints)
    reason = "WOKEN" if isinstance(decision, Ask) else decision.reason
    return done if done in _GOES_ON else reason


def _look_after_waiting(engine: Engine, job: Job) -> str | None:
    """What nobody else does for runs that wait for others: a definition that cannot be read, a window that is over.

    Returns what was done in the row; None where nothing was.
    """
    # One that is inline was read with the row.
    defined = job if job.definition_row is None else engine.jobs.get(job.id)
    if defined is None:
        return None
    if defined.definition is None:
        stranded = apply(engine, job, lambda row, _: decide_stranded(row, now=engine.clock.now()))
        if isinstance(stranded, Drop):
            return stranded.reason
        carry_out(engine, stranded)
        return stranded.write.reason
    now, definition = engine.clock.now(), ruled(engine, defined).defined
    send(
        engine,
        job,
        [
            Due(slot, run.current_attempt, int(now))
            for slot, run in defined.runs.items()
            if run.waits_for not in (None, APPROVAL)
            and not defined.holds(run)
            and is_expired(slot, run, definition, now)
        ],
    )
    return None


def _drain(engine: Engine, job: Job, drained: set[str]) -> None:
    """Give free slots of the keys that the job waits for to those who come first, and look after their holders."""
    for key in waits_of(job):
        if key not in drained:
            drained.add(key)
            concurrency.drain(engine, key, also=job, thorough=True)


def _recover(engine: Engine, job: Job, decision: Recover) -> tuple[Job, str]:
    """End an attempt whose lease is over, as its owner recorded, or else by now.

    Returns the row after that, and what was done: nothing that others failed to do where a worker was not heard of.
    """
    slot, run = decision.slot_id, decision.run
    recorded, done = engine.history.get(job.id, slot, run.attempt), "RECOVERED"
    if recorded is None:
        if may_end_lean(job, slot, run.attempt):
            job = revoke(engine, job)
            if job.runs.get(slot) != run:
                return job, done  # its owner was faster
        if run.deadline_at is not None:
            unmoved = refuse_writes_under_way(engine, job)
            if unmoved is None:
                return job, done
            job = unmoved
        recorded = engine.history.record(_given_up(engine, job, slot, run))
        if run.worker_id is not None and recorded.error is not None and recorded.error.code == "WORKER_LOST":
            done = "WORKER_GONE"
    return follow(engine, job, recorded, fence=run.fence), done


def _given_up(engine: Engine, job: Job, slot: str, run: ActiveRun) -> Execution:
    """The end of an attempt that nobody holds any more: TIMED_OUT where its report is overdue, else WORKER_LOST."""
    if is_overdue(run, engine.clock.now()):
        defined = engine.jobs.get(job.id)
        if defined is not None and defined.definition is not None:  # one that cannot be read: lost, not timed out
            job = replace(job, definition=defined.definition)
            return judged(engine, job, slot, no_report(job))
    return judged_lost(engine, job, slot, run)


def _quarantine(engine: Engine, job: Job, decision: Quarantine, then: tuple[Due, ...]) -> None:
    """End the runs that have their verdict in the row, then send the hints that had to wait for that."""
    job = engine.jobs.get(job.id) or job
    for slot in decision.slot_ids:
        if (run := job.runs.get(slot)) is not None and run.verdict is not None:
            mark = engine.new_write_id()
            end = quarantined(job, slot, wakes=MAX_WAKES, now=engine.clock.now(), write_id=mark)
            job = follow(engine, job, engine.history.record(end), fence=run.fence)
    send(engine, job, then)
