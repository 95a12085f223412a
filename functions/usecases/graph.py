"""Look at the graph a job is part of: tell its dependents of an end, ask its parents for theirs (docs/workflows.md).

Both rest on rows alone. Whoever ends a run sends a hint for it; where that is lost, attention brings it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from functions.domain.condition import holds
from functions.domain.decision import Drop, Write, with_attention
from functions.domain.errors import CorruptDefinitionError, GnomonError
from functions.domain.following import look_hint
from functions.domain.job import Job
from functions.domain.run import LastRun
from functions.domain.upstream import Ends, Parent, decide_look, parent_of, unmet
from functions.usecases.services import Engine, Executor
from functions.usecases.writing import Applied, apply, send

PAGE = 50
"""Dependents that are read at a time."""
TELLING_SECONDS = 15.0
"""How long one message tells dependents; another goes on."""
_PARALLEL = 8
_FEW = 10
"""Parents that are read at once without asking first the one that blocked before."""


def look(executor: Executor, job: Job) -> str:
    """Do what is due in the job's graph; returns what was done, for the log."""
    told = _tell(executor, job)
    return (_ask(executor, job) if job.upstream is not None else None) or told or "NO_GRAPH"


def _tell(executor: Executor, job: Job) -> str | None:
    """Look at each dependent for the job's last end; None where all were."""
    followed = job.followed
    if followed is None or followed.ends <= followed.told:
        return None
    until = executor.clock.now() + TELLING_SECONDS
    cursor = followed.cursor
    failures: list[GnomonError] = []
    while True:
        children = executor.dependents.of(job.id, after=cursor, limit=PAGE)
        failures += _look_at_all(executor, job.id, children)
        cursor = children[-1] if children else cursor
        if failures:
            raise failures[0]
        if len(children) < PAGE:
            return _told(executor, job, followed.ends)
        if executor.clock.now() >= until:
            return _go_on(executor, job, followed.ends, cursor)


def _look_at_all(executor: Executor, parent: str, children: Sequence[str]) -> list[GnomonError]:
    """Look at each; returns what failed. A definition that cannot be read hinders no other."""

    def one(child: str) -> GnomonError | None:
        try:
            _look_at(executor, parent, child)
        except CorruptDefinitionError:
            return None
        except GnomonError as error:
            return error
        return None

    if len(children) < 2:
        found = [one(child) for child in children]
    else:
        with ThreadPoolExecutor(max_workers=_PARALLEL) as pool:
            found = list(pool.map(one, children))
    return [error for error in found if error is not None]


def _look_at(executor: Executor, parent: str, child_id: str) -> None:
    child = executor.jobs.get(child_id)
    if child is None:
        return  # being created: its own first look comes after this
    if child.deleted_at is not None:
        executor.dependents.remove(child_id, [parent])
        return
    _ask(executor, child)


def _told(executor: Executor, job: Job, number: int) -> str:
    def decide(row: Job, _: str) -> Write | Drop:
        if row.followed is None or row.followed.told >= number:
            return Drop("TOLD")
        followed = replace(row.followed, told=number, cursor=None)
        return Write(job=with_attention(replace(row, followed=followed), int(executor.clock.now())), reason="TOLD")

    apply(executor, job, decide)
    return "TOLD"


def _go_on(executor: Executor, job: Job, number: int, cursor: str | None) -> str:
    """Keep the place in the row, and have another message go on from there."""

    def decide(row: Job, _: str) -> Write | Drop:
        if row.followed is None or row.followed.ends != number:
            return Drop("ANOTHER_END")  # told from the first dependent on, by its own hint
        now = int(executor.clock.now())
        followed = replace(row.followed, cursor=cursor)
        return Write(job=replace(row, followed=followed), reason="TELLING", hints=(look_hint(now),))

    done = apply(executor, job, decide)
    if isinstance(done, Applied):
        send(executor, done.job, done.write.hints)
    return "TELLING"


def _ask(executor: Executor, job: Job) -> str | None:
    """Read the parents and decide what their ends mean for the job; None where it depends on nobody."""

    def decide(row: Job, _: str) -> Write | Drop:
        now = executor.clock.now()
        if row.upstream is None or row.cancelled or row.paused or row.runs:
            return Drop("NO_LOOK")
        if _blocked_as_before(executor, row, now):
            return Drop("BLOCKED")
        ids = [dependency.job_id for dependency in row.defined.depends_on]
        rows = executor.jobs.get_rows(ids)
        parents = [parent_of(rows.get(one)) for one in ids]
        return decide_look(row, parents, _ends(executor, row, parents), now=now)

    done = apply(executor, job, decide)
    if isinstance(done, Drop):
        return done.reason
    send(executor, done.job, done.write.hints)
    return done.write.reason


def _blocked_as_before(executor: Executor, row: Job, now: float) -> bool:
    """Whether one of many parents, which blocked at the last look, still does: then the others need no read."""
    up, dependencies = row.upstream, row.defined.depends_on
    if up is None or up.blocked_by is None or up.look_at is None or up.look_at <= now or up.since is None:
        return False
    if len(dependencies) <= _FEW or up.blocked_by >= len(dependencies):
        return False
    blocker = parent_of(executor.jobs.get(dependencies[up.blocked_by].job_id, with_definition=False))
    return not blocker.over and blocker.ends <= up.marks[up.blocked_by]


def _ends(executor: Executor, job: Job, parents: Sequence[Parent]) -> Ends:
    dependencies = job.defined.depends_on

    def of(index: int, number: int) -> LastRun | None:
        parent = parents[index]
        return parent.last if number == parent.ends else executor.history.end(dependencies[index].job_id, number)

    def why_unmet(index: int, end: LastRun) -> str | None:
        dependency = dependencies[index]
        return unmet(dependency, end, lambda when: holds(when, result_of(executor, dependency.job_id, end)))

    return Ends(of=of, unmet=why_unmet)


def result_of(engine: Engine, job_id: str, end: LastRun) -> str | None:
    """The result of the run that ended so, as JSON text; None for none, or where history has it no longer."""
    if end.ended_by is not None:
        return end.result
    execution = engine.history.get(job_id, end.slot_id, end.attempt)
    return None if execution is None else execution.result
