"""Apply a decision to a job's row: one conditional write, decided again from the row that came first.

The rule is docs/protocol.md, 1.2. What the engine itself has to write wins in the end; callers' changes give way to it.
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
"""Of any write; of a caller's change, which gives way to the engine's, no more."""
PATIENCE = 8.0
"""Seconds for which another write is tried again. As much is left of an attempt's lease when its time is over, of a
request and of a tick of the sweep."""
PAUSE = 0.02
"""Seconds: the longest pause of an engine's write after a lost race. It decides from the row that won, so a longer one
would lose to the next of many. Callers pause for up to twice as long, doubling: they come apart and give way."""
TROUBLE, LONGEST_TROUBLE = 0.1, 1.0
"""Seconds: the longest pause after the platform refused a call for the first time, and after it did so often."""

Other = TypeVar("Other")
Result = TypeVar("Result")


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


def apply(
    engine: Engine,
    job: Job,
    decide: Callable[[Job, str], Write | Other],
    *,
    tries: int | None = None,
    until: float | None = None,
) -> Applied | Other:
    """Decide from `job` and write; after a lost race decide again from the row that won it.

    `decide` gets the row, `ruled`, and the write's fresh mark. What it returns besides a Write is returned as it is.
    What gives way to others is tried `tries` times; else at least TRIES times, and until `until` (epoch seconds), for
    PATIENCE seconds where that is None. Raises UnavailableError when it lost each time, or the row is gone;
    GraphChangedError for a write with `graph`.
    """
    until = engine.clock.now() + PATIENCE if until is None else until
    lost_races = 0
    while True:
        mark = engine.new_write_id()
        job = ruled(engine, job)
        decision = decide(job, mark)
        if not isinstance(decision, Write):
            return decision
        row, looks = in_its_graph(job, decision.job, now=int(engine.clock.now()))
        decision = replace(decision, job=replace(row, write_id=mark), hints=(*decision.hints, *looks))
        try:
            saved = _save(engine, job, decision, until=until)
        except LostRaceError as lost:
            if lost.current is None:
                raise UnavailableError("The job's row is gone.") from lost
            if _is_own(lost.current, mark):
                return Applied(job, replace(decision.job, seq=job.seq + 1), decision)
            job = lost.current
        else:
            return Applied(job, saved, decision)
        lost_races += 1
        if lost_races >= (tries or TRIES) and (tries or engine.clock.now() >= until):
            raise UnavailableError(f"The job was changed {lost_races} times while this change was made: try again.")
        engine.clock.sleep(engine.uniform(0, PAUSE * 2**lost_races if tries else PAUSE))


def _save(engine: Engine, job: Job, decision: Write, *, until: float) -> Job:
    """Write the row. What would be lost by it is put into history first: each under a key that is its own, as it is in
    the row that was read, so that a write which is then not made has told nothing that is not so."""
    row, gap = decision.job, decision.flush

    def save() -> Job:
        if (execution := displaced(job, row)) is not None:
            engine.history.record(execution)
        if (end := superseded_end(job, row)) is not None:
            engine.history.record_end(job.id, *end)
        if gap is not None:
            engine.history.record_gap(job.id, gap, now=engine.clock.now())
        return engine.jobs.save(job, row, graph=decision.graph)

    return insist(engine, save, until=until)


def insist(engine: Engine, call: Callable[[], Result], *, until: float | None = None) -> Result:
    """Make a call that bears being repeated, again and again while the platform refuses it for now: until `until`, for
    PATIENCE seconds where that is None. Raises what it raised last."""
    until = engine.clock.now() + PATIENCE if until is None else until
    pause = TROUBLE
    while True:
        try:
            return call()
        except Exception as error:
            if not engine.is_transient(error) or engine.clock.now() + pause > until:
                raise
        engine.clock.sleep(engine.uniform(pause / 2, pause))
        pause = min(pause * 2, LONGEST_TROUBLE)


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
        ArmedHint(Hint(job.id, due.slot_id, due.attempt), due.due_at, job.priority, job.owner)
        for job, dues in jobs
        for due in dues
    ]
    if hints:
        engine.timetable.arm_all(hints)


def send(engine: Engine, job: Job, hints: Iterable[Due]) -> None:
    """Send the hints of one write that applied."""
    send_all(engine, [(job, hints)])
