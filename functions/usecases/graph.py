"""Look at the graph a job is part of: ask its parents for their ends, tell its dependents of its own.

Both rest on rows alone (docs/workflows.md). Whoever ends a run sends a hint for it; where that is lost, attention
brings it.
"""

from __future__ import annotations

from collections.abc import Sequence

from functions.domain.condition import holds
from functions.domain.decision import Drop, Write
from functions.domain.dependence import Join
from functions.domain.errors import CorruptDefinitionError, GnomonError, UnreadableRowError
from functions.domain.execution import LOST_RESULT
from functions.domain.expression import Effort, TooMuchWorkError
from functions.domain.expression_costs import LOOK_STEPS
from functions.domain.following import Telling, decide_told, telling
from functions.domain.job import Job
from functions.domain.looks import as_often, decide_look, look_later, may_not_look
from functions.domain.result import UNREADABLE
from functions.domain.rounds import may_stand
from functions.domain.run import LastRun
from functions.domain.upstream import CONDITION_TOO_COSTLY, RESULT_NOT_KEPT, Ends, Parent, parent_of, unmet
from functions.parallel import for_all
from functions.usecases.ancestors import as_settled
from functions.usecases.consequences import carry_out
from functions.usecases.dependencies import runs_once
from functions.usecases.services import Engine, Executor
from functions.usecases.writing import apply

PAGE = 50
"""Dependents that are read at a time."""
TELLING_SECONDS = 15.0
"""How long one message tells dependents; another goes on."""
_FEW = 10
"""Parents that are read at once without asking first the one that blocked before."""


def look(executor: Executor, job: Job) -> str:
    """Do what is due in the job's graph; returns what was done, for the log.

    It asks first: what is settled by its own parents is so before its dependents look at it.
    """
    asked = None
    if job.deleted_at is not None and job.definition is not None and job.definition.depends_on:
        executor.dependents.remove(job.id, [one.job_id for one in job.definition.depends_on])
    if job.upstream is not None:
        job, asked = _ask(executor, job)
    told = _tell(executor, job)
    return asked if asked not in (None, "ACTIVE", "PAUSED") else told or asked or "NO_GRAPH"


# --- tell ---


def _tell(executor: Executor, job: Job) -> str | None:
    """Look at each dependent for the job's last end; None where all were."""
    walk = telling(job)
    if walk is None:
        return None
    until = executor.clock.now() + TELLING_SECONDS
    failures: list[GnomonError] = []
    while True:
        children = executor.dependents.of(job.id, after=walk.after, limit=PAGE)
        failures += _look_at_all(executor, job, children)
        done, late = len(children) < PAGE, executor.clock.now() >= until
        if failures and (done or late):
            raise failures[0]  # the message comes again, and tells all that it told now once more
        if done:
            return _walked(executor, job, walk._replace(done=True))
        walk = walk._replace(after=children[-1])
        if late:
            return _walked(executor, job, walk)


def _walked(executor: Executor, job: Job, walk: Telling) -> str:
    """Keep in the row how far it is, and have another message do what is left."""
    done = apply(executor, job, lambda row, _: decide_told(row, walk, now=executor.clock.now()))
    if isinstance(done, Drop):
        return done.reason
    carry_out(executor, done)
    return done.write.reason


def _look_at_all(executor: Executor, parent: Job, children: Sequence[str]) -> list[GnomonError]:
    """Look at each; returns what failed. A definition that cannot be read hinders no other."""

    def one(child: str) -> GnomonError | None:
        try:
            _look_at(executor, parent, child)
        except CorruptDefinitionError:
            return None
        except GnomonError as error:
            return error
        return None

    return [error for error in for_all(one, children, at_once=executor.parallel) if error is not None]


def _look_at(executor: Executor, parent: Job, child_id: str) -> None:
    child = executor.jobs.get(child_id)
    if child is None:
        return  # being created: its own first look comes after this
    if child.deleted_at is None:
        _ask(executor, child)
    if parent.deleted_at is not None or child.deleted_at is not None:
        # Nothing is to be told any more: of a parent that is gone this was the last, and its row says so.
        executor.dependents.remove(child_id, [parent.id])


# --- ask ---


def _ask(executor: Executor, job: Job) -> tuple[Job, str]:
    """Read the parents and decide what their ends mean for the job; returns its row after that."""

    def decide(row: Job, _: str) -> Write | Drop:
        now = executor.clock.now()
        hindrance = may_not_look(row)
        if hindrance is not None:
            return Drop(hindrance)
        if row.definition is None:
            return look_later(row, now=now)
        ids = [dependency.job_id for dependency in row.defined.depends_on]
        try:
            if _blocked_as_before(executor, row, now):
                return Drop("BLOCKED")
            rows = executor.jobs.get_rows(ids)
            parents = as_settled(executor, row, [parent_of(rows.get(one)) for one in ids], rows)
        except UnreadableRowError:  # a parent's, or that of one further above
            return look_later(row, now=now, settled_too=True)
        once = runs_once(row.defined, map(parent_of, rows.values()))
        try:
            return as_often(row, decide_look(row, parents, _ends(executor, row, parents), now=now), once=once)
        except CorruptDefinitionError:  # an end that history keeps
            return look_later(row, now=now, settled_too=True)

    done = apply(executor, job, decide)
    if isinstance(done, Drop):
        return job, done.reason
    carry_out(executor, done)
    return done.job, done.write.reason


def _blocked_as_before(executor: Executor, row: Job, now: float) -> bool:
    """Whether one of many parents, which blocked at the last look, still does: then the others need no read.

    Only where all are needed: with join `any` each of the others may be the one.
    """
    up, dependencies = row.upstream, row.defined.depends_on
    if up is None or up.blocked_by is None or up.look_at is None or up.look_at <= now or up.since is None:
        return False
    if row.defined.join is Join.ANY or len(dependencies) <= _FEW or up.blocked_by >= len(dependencies):
        return False
    blocker = parent_of(executor.jobs.get(dependencies[up.blocked_by].job_id, with_definition=False))
    stands = may_stand(row.defined.upstream_timeout, up, blocker)
    return stands and not blocker.over and blocker.ends <= up.marks[up.blocked_by]


def _ends(executor: Executor, job: Job, parents: Sequence[Parent]) -> Ends:
    dependencies, effort = job.defined.depends_on, Effort(LOOK_STEPS)

    def of(index: int, number: int) -> LastRun | None:
        parent = parents[index]
        return parent.last if number == parent.ends else executor.history.end(dependencies[index].job_id, number)

    def why_unmet(index: int, end: LastRun) -> str | None:
        dependency = dependencies[index]
        try:
            return unmet(dependency, end, lambda when: holds(when, result_of(executor, dependency.job_id, end), effort))
        except ResultNotKeptError as error:
            return RESULT_NOT_KEPT[error.code]
        except TooMuchWorkError:
            return CONDITION_TOO_COSTLY

    return Ends(of=of, unmet=why_unmet)


class ResultNotKeptError(Exception):
    """A run has succeeded with a result that was not kept, or cannot be read any more."""

    def __init__(self, job_id: str, code: str) -> None:
        super().__init__(f"{job_id}: {code}")
        self.job_id = job_id
        self.code = code


def result_of(engine: Engine, job_id: str, end: LastRun) -> str | None:
    """The result of the run that ended so, as JSON text; None for none, or where history has it no longer.

    Raises ResultNotKeptError for one that is never taken for null.
    """
    if end.missing_result_code is not None:
        raise ResultNotKeptError(job_id, end.missing_result_code)
    if end.ended_by is not None:
        return end.result
    try:
        execution = engine.history.get(job_id, end.slot_id, end.attempt)
    except CorruptDefinitionError:
        raise ResultNotKeptError(job_id, UNREADABLE) from None
    if execution is not None and execution.error == LOST_RESULT:
        raise ResultNotKeptError(job_id, UNREADABLE)
    return None if execution is None else execution.result
