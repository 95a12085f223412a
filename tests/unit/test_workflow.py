"""How a workflow stands, from the rows of its jobs."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.job import Followed, Job, Upstream
from functions.domain.run import APPROVAL, LastRun, Outcome, RunState
from functions.domain.workflow import WaitsFor, cycle_of, generations, members_of
from functions.domain.workflow_status import WorkflowStatus, blockers_of, critical_path, status_of
from tests.factories import NOW, make_definition, make_job, make_run

ONCE = {"schedule": {"type": "once", "at": "2027-01-15T08:00:00Z"}}


def ended(at: int, outcome: Outcome = Outcome.COMPLETED, slot: int = NOW, reason: str | None = None) -> LastRun:
    return LastRun(slot_id=f"{slot:010d}", attempt=1, outcome=outcome, fence=1, ended_at=at, reason=reason)


def row(name: str, *after: str, **fields: Any) -> Job:
    """A one-time job with its name as its id; `after` are those it depends on, whose first end it waits for."""
    if not after:
        defaults = {"definition": make_definition(job_id=name, **ONCE), "followed": Followed(ends=0, told=0, once=True)}
        return make_job(id=name, **{"next_slot": None, **defaults, **fields})
    depends_on = [{"jobId": one} for one in after]
    defaults = {
        "definition": make_definition(job_id=name, schedule=None, dependsOn=depends_on),
        "upstream": Upstream(marks=(0,) * len(after), look_at=NOW, since=NOW),
    }
    return make_job(id=name, **{"next_slot": None, **defaults, **fields})


def standing(*rows: Job, now: float = NOW + 100) -> WorkflowStatus:
    found = {one.id: one for one in rows}
    return status_of(members_of([(one, one) for one in found], found), found, now=now)


WAITER = make_run(state=RunState.WAITING, waits_for=APPROVAL, due_at=NOW + 500)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (row("a", next_slot=NOW + 99), WorkflowStatus.RUNNING),
        (row("a", next_slot=NOW + 101), WorkflowStatus.WAITING),
        (row("a", next_slot=NOW, paused=True), WorkflowStatus.WAITING),
        (row("a", runs={"1800000000": make_run()}), WorkflowStatus.RUNNING),
        (row("a", runs={"1800000000": make_run(state=RunState.WAITING, attempt=1)}), WorkflowStatus.RUNNING),
        (row("a", runs={"1800000000": WAITER}), WorkflowStatus.WAITING),
        (row("a", last_run=ended(NOW)), WorkflowStatus.COMPLETED),
        (row("a", last_run=ended(NOW, Outcome.PERMANENTLY_FAILED)), WorkflowStatus.FAILED),
        (row("a", cancelled=True), WorkflowStatus.CANCELLED),
        (row("a", deleted_at=NOW, cancelled=True), WorkflowStatus.COMPLETED),
        (row("a", "x", upstream=Upstream(marks=(1,)), last_run=ended(NOW, Outcome.SKIPPED)), WorkflowStatus.COMPLETED),
    ],
)
def test_by_the_state_of_its_one_job(job: Job, expected: WorkflowStatus) -> None:
    assert standing(job) is expected


def test_a_failure_outweighs_a_cancel_and_what_goes_on_outweighs_both() -> None:
    failed = row("a", last_run=ended(NOW, Outcome.PERMANENTLY_FAILED))
    cancelled, waits = row("b", cancelled=True), row("c", next_slot=NOW + 500)
    assert standing(failed, cancelled) is WorkflowStatus.FAILED
    assert standing(failed, cancelled, waits) is WorkflowStatus.WAITING
    assert standing(failed, cancelled, waits, row("d", runs={"1800000000": make_run()})) is WorkflowStatus.RUNNING


def test_between_an_end_and_the_look_of_its_child_something_goes_on() -> None:
    parent = row("a", last_run=ended(NOW), followed=Followed(ends=1, told=0, once=True))
    other = row("b", next_slot=NOW + 500)
    assert standing(parent, row("c", "a")) is WorkflowStatus.RUNNING
    assert standing(parent, other, row("c", "a", "b")) is WorkflowStatus.WAITING, "the other is not there yet"
    assert standing(parent, row("c", "a", paused=True)) is WorkflowStatus.WAITING
    settled = {"upstream": Upstream(marks=(0,)), "last_run": ended(NOW, Outcome.SKIPPED)}
    assert standing(parent, row("c", "a", **settled)) is WorkflowStatus.RUNNING, "retried, and not yet looked at"
    settled["upstream"] = Upstream(marks=(1,))
    assert standing(parent, row("c", "a", **settled)) is WorkflowStatus.COMPLETED


def test_who_blocks_whom() -> None:
    done = row("a", last_run=ended(NOW), followed=Followed(ends=1, told=1, once=True))
    runs = row("b", runs={"1800000000": make_run()})
    over = row("c", cancelled=True)
    child = row("d", "a", "b", "c", "gone")
    rows = {one.id: one for one in (done, runs, over, child)}
    members = members_of([("A", "a"), ("B", "b"), ("C", "c"), ("D", "d")], rows)
    [blocker] = blockers_of(members[3], rows, {member.job_id: member.name for member in members})
    assert (blocker.name, blocker.job_id, blocker.status) == ("B", "b", "RUNNING")
    assert members[3].waits_for is WaitsFor.JOBS
    assert blockers_of(members[1], rows, {}) == ()


def test_the_path_ends_with_what_goes_on_and_leaves_out_what_was_not_waited_for() -> None:
    first = row("a", last_run=ended(NOW + 10), followed=Followed(ends=1, told=1, once=True))
    quick = row("b", last_run=ended(NOW + 2), followed=Followed(ends=1, told=1, once=True))
    running = row("c", "a", "b", runs={f"{NOW + 10}dabcdefgh": make_run()})
    idle = row("d", "c")
    rows = {one.id: one for one in (first, quick, running, idle)}
    spans = critical_path(members_of([(one, one) for one in rows], rows), now=NOW + 50)
    assert [(span.name, span.seconds) for span in spans] == [("a", 10), ("c", 40)]


def test_a_parent_that_was_retried_since_is_not_on_the_path_of_what_ran_before() -> None:
    parent = row("a", last_run=ended(NOW + 90), followed=Followed(ends=2, told=2, once=True))
    child = row("b", "a", last_run=ended(NOW + 95, slot=NOW + 20), upstream=Upstream(marks=(2,)))
    rows = {one.id: one for one in (parent, child)}
    spans = critical_path(members_of([("a", "a"), ("b", "b")], rows), now=NOW + 99)
    assert [(span.name, span.seconds) for span in spans] == [("b", 75)]


def test_nothing_has_happened_yet() -> None:
    rows = {"a": row("a", next_slot=NOW + 500)}
    assert critical_path(members_of([("a", "a")], rows), now=NOW) == ()


GRAPHS = st.integers(1, 8).flatmap(
    lambda size: st.dictionaries(
        st.sampled_from([str(n) for n in range(size)]),
        st.lists(st.sampled_from([str(n) for n in range(size)]), max_size=3, unique=True),
        min_size=size,
        max_size=size,
    )
)


@given(GRAPHS)
def test_a_graph_has_an_order_or_a_cycle(parents: dict[str, list[str]]) -> None:
    cycle = cycle_of(parents)
    if cycle is None:
        place = {name: at for at, group in enumerate(generations(parents)) for name in group}
        assert set(place) == set(parents)
        assert all(place[parent] < place[name] for name, above in parents.items() for parent in above)
    else:
        assert cycle[0] == cycle[-1]
        assert all(before in parents[after] for before, after in itertools.pairwise(cycle))
