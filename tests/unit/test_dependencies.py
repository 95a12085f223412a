"""How a job comes to depend on others: flags, edges, reads, in this order."""

from __future__ import annotations

import pytest

from functions.domain.dependence import Dependency
from functions.domain.errors import InvalidFieldError
from functions.domain.job import Job, LastRun, Outcome
from functions.domain.upstream import Parent
from functions.usecases.dependencies import begin, followed_parents
from tests.api_client import Api
from tests.factories import NOW, make_definition, make_job, new_id

ENDED = LastRun(slot_id="1800000000", attempt=1, outcome=Outcome.COMPLETED, fence=1, ended_at=NOW)
ONCE = {"schedule": {"type": "once", "at": "2027-01-15T08:00:00Z"}}


@pytest.fixture
def api() -> Api:
    return Api()


def stored(api: Api, **changes: object) -> Job:
    row = make_job(**{"id": new_id(), **changes})
    return api.services.jobs.create(row)


def test_parents_are_flagged_then_edged_then_read_in_the_order_given(api: Api) -> None:
    recurring = stored(api)
    done = stored(api, document=ONCE, next_slot=None, last_run=ENDED)
    child, known = new_id(), new_id()
    api.world.jobs.calls.clear()
    wanted = [Dependency(job_id=one) for one in (done.id, known, recurring.id)]
    parents = followed_parents(api.services, "team-a", child, wanted, known={known: Parent(once=True, over=False)})
    assert [(one.ends, one.over, one.once) for one in parents] == [(1, True, True), (0, False, True), (0, False, False)]
    assert parents[0].last == ENDED
    assert {parent for parent, children in api.world.dependents.edges.items() if children == {child}} == {
        recurring.id,
        done.id,
        known,
    }
    again = followed_parents(api.services, "team-a", child, wanted, known={known: Parent()})
    assert again[0] == parents[0]
    row = api.services.jobs.get(done.id)
    assert row is not None
    assert (row.seq, row.revision) == (done.seq + 1, done.revision), "flagged by one write, of no caller's"


@pytest.mark.parametrize("kind", ["unknown", "foreign", "deleted", "itself"])
def test_a_parent_that_is_none_is_refused_before_anything_is_written(api: Api, kind: str) -> None:
    good, child = stored(api), new_id()
    bad = {
        "unknown": new_id,
        "foreign": lambda: stored(api, owner="team-b").id,
        "deleted": lambda: stored(api, deleted_at=NOW, cancelled=True, next_slot=None).id,
        "itself": lambda: child,
    }[kind]()
    with pytest.raises(InvalidFieldError) as refused:
        followed_parents(api.services, "team-a", child, [Dependency(job_id=good.id), Dependency(job_id=bad)])
    assert refused.value.field == "dependsOn[1].jobId"
    expected = f"{bad}: a job cannot depend on itself." if kind == "itself" else f"There is no job {bad}."
    assert refused.value.message == expected
    assert api.services.jobs.get(good.id) == good
    assert not api.world.dependents.edges


def test_a_job_that_depends_only_on_one_time_jobs_is_one_time_itself(api: Api) -> None:
    root, recurring = stored(api, document=ONCE), stored(api)
    for parents, once in (([root.id], True), ([root.id, recurring.id], False)):
        middle = new_id()
        depends_on = [{"jobId": one} for one in parents]
        definition = make_definition(schedule=None, dependsOn=depends_on, job_id=middle)
        upstream = begin(api.services, "team-a", middle, definition, now=NOW)
        assert (upstream.marks, upstream.look_at, upstream.since) == ((0,) * len(parents), NOW, NOW)
        stored(api, id=middle, definition=definition, next_slot=None, upstream=upstream)
        [found] = followed_parents(api.services, "team-a", new_id(), [Dependency(job_id=middle)])
        assert found.once is once
        assert not found.over


def test_the_last_end_of_a_parent_that_is_over_counts_at_once(api: Api) -> None:
    over = stored(api, document=ONCE, next_slot=None, last_run=ENDED)
    running = stored(api, last_run=ENDED)
    definition = make_definition(schedule=None, dependsOn=[{"jobId": over.id}, {"jobId": running.id}])
    assert begin(api.services, "team-a", new_id(), definition, now=NOW).marks == (0, 1)


def test_a_thousand_parents_are_read_together(api: Api) -> None:
    ids = [stored(api).id for _ in range(1_000)]
    api.world.jobs.calls.clear()
    parents = followed_parents(api.services, "team-a", new_id(), [Dependency(job_id=one) for one in ids])
    assert len(parents) == 1_000
    assert api.world.jobs.calls.count("get_rows") == 2
    assert all(one == Parent(over=False, idle=False, due=NOW + 60) for one in parents)
