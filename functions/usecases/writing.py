"""Apply a decision to a job's row: one conditional write, decided again from the row that came first.

The rule is docs/protocol.md, 1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from functions.domain.decision import Due, Write
from functions.domain.errors import LostRaceError, UnavailableError
from functions.domain.following import in_its_graph, superseded_end
from functions.domain.hint import Hint
from functions.domain.job import Job
from functions.domain.lean import decide_revoke, displaced
from functions.ports import ArmedHint
from functions.usecases.services import Engine

TRIES = 5
PAUSE = 0.02
"""Seconds: half the longest pause after the first lost race; doubling, so that many who race come apart."""

Other = TypeVar("Other")


@dataclass(frozen=True, slots=True)
class Applied:
    """A write of ours that is in the row."""

    before: Job
    """The row the decision was made from."""
    job: Job
    """The row as this write left it."""
    write: Write


def ruled(engine: Engine, job: Job) -> Job:
    """The job with its definition under the configuration of its type, as everything that decides takes it."""
    if job.definition is None:
        return job
    return replace(job, definition=job.definition.under(engine.types.get(job.definition.type)))


def apply(engine: Engine, job: Job, decide: Callable[[Job, str], Write | Other]) -> Applied | Other:
    """Decide from `job` and write; whoever loses the race decides again from the row that won it.

    `decide` gets the row, `ruled`, and the write's fresh mark. What it returns besides a Write is returned as it is.
    Raises UnavailableError after five lost races, or when the row is gone; GraphChangedError for a write with `graph`.
    """
    for lost_races in range(TRIES):
        if lost_races:
            engine.clock.sleep(engine.uniform(0, PAUSE * 2**lost_races))
        mark = engine.new_write_id()
        job = ruled(engine, job)
        decision = decide(job, mark)
        if not isinstance(decision, Write):
            return decision
        row, looks = in_its_graph(job, decision.job, now=int(engine.clock.now()))
        decision = replace(decision, job=row, hints=(*decision.hints, *looks))
        if (execution := displaced(job, row)) is not None:
            engine.history.record(execution)
        if (end := superseded_end(job, row)) is not None:
            engine.history.record_end(job.id, *end)
        if decision.flush is not None:
            engine.history.record_gap(job.id, decision.flush, now=engine.clock.now())
        try:
            saved = engine.jobs.save(job, replace(decision.job, write_id=mark), graph=decision.graph)
        except LostRaceError as lost:
            if lost.current is None:
                raise UnavailableError("The job's row is gone.") from lost
            if _is_own(lost.current, mark):
                return Applied(job, replace(decision.job, write_id=mark, seq=job.seq + 1), decision)
            job = lost.current
            continue
        return Applied(job, saved, decision)
    raise UnavailableError(f"The job was changed {TRIES} times while this change was made: try again.")


def _is_own(current: Job, mark: str) -> bool:
    """Whether the row shows that the write with this mark was applied, and then overwritten by another."""
    if current.revised_by == mark or (current.last_run is not None and current.last_run.ended_by == mark):
        return True
    return any(run.started_by == mark for run in current.runs.values())


def revoke(engine: Engine, job: Job, *, check: Callable[[Job], None] = lambda _: None) -> Job:
    """Make sure that none of the job's attempts ends lean any more; returns the row as it then is.

    Whoever puts history for an attempt that is not its own does this first. `check` may refuse a row by raising.
    """

    def decide(row: Job, _: str) -> Write | Job:
        check(row)
        return decide_revoke(row)

    revoked = apply(engine, job, decide)
    return revoked.job if isinstance(revoked, Applied) else revoked


def send_all(engine: Engine, jobs: Iterable[tuple[Job, Iterable[Due]]]) -> None:
    """Send the hints of many jobs' writes together. Those that cannot be sent are brought by the sweep."""
    hints = [
        ArmedHint(Hint(job.id, due.slot_id, due.attempt), due.due_at, job.priority)
        for job, dues in jobs
        for due in dues
    ]
    if hints:
        engine.timetable.arm_all(hints)


def send(engine: Engine, job: Job, hints: Iterable[Due]) -> None:
    """Send the hints of one write that applied."""
    send_all(engine, [(job, hints)])
