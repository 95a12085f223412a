"""10 000 children of one parent, 1 000 parents of one child: what is read and written does not grow with the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from functions.domain.hint import LOOK_SLOT, Hint
from functions.domain.job import Job, Upstream
from functions.domain.looks import LOOK_EVERY
from functions.usecases.graph import PAGE
from tests.api_client import make_body
from tests.factories import NOW, make_definition, make_job
from tests.workflows import Played, job, workflow

if TYPE_CHECKING:
    from collections.abc import Sequence

CHILDREN = 10_000
PARENTS = 1_000
ONCE = {"type": "once", "at": "2027-01-15T08:00:00Z"}


def child_of(parent: str, number: int) -> Job:
    job_id = f"00000000-0000-4000-8000-{number:012x}"
    definition = make_definition(schedule=None, dependsOn=[{"jobId": parent}], job_id=job_id)
    upstream = Upstream(marks=(0,), look_at=NOW + LOOK_EVERY, since=NOW)
    return make_job(id=job_id, owner="alice", definition=definition, next_slot=None, upstream=upstream)


@pytest.mark.slow
def test_ten_thousand_children_are_told_page_by_page_each_once() -> None:
    played = Played()
    world = played.world
    parent = played.api.post("/v1/jobs", make_body(schedule=ONCE, name="parent")).json["id"]
    played.api.post("/v1/jobs", make_body(schedule=None, dependsOn=[{"jobId": parent}], enabled=False))
    children = [world.jobs.put(child_of(parent, number)).id for number in range(CHILDREN)]
    for one in children:
        world.dependents.edges[parent].add(one)
    whole, pages = world.dependents.of, []

    def page(of: str, *, after: str | None, limit: int) -> Sequence[str]:
        world.clock.advance(1)
        pages.append(limit)
        return whole(of, after=after, limit=limit)

    world.dependents.of = page  # type: ignore[method-assign]
    world.jobs.calls.clear()
    told = 0
    while world.jobs.rows[parent].followed.told == 0:  # type: ignore[union-attr]
        for delivery in world.timetable.take_due():
            if delivery.hint.job_id == parent:
                played.driver.deliver(delivery)
                told += delivery.hint.slot_id == LOOK_SLOT
    assert set(pages) == {PAGE}
    assert len(pages) == CHILDREN // PAGE + 1
    assert told > 10, "a message tells for 15 s, and another goes on"
    rows = [world.jobs.rows[one] for one in children]
    assert all(len(row.runs) == 1 and row.upstream and row.upstream.marks == (1,) for row in rows)
    assert set(world.jobs.calls) <= {"get", "get_rows"}, "by key alone"
    assert world.jobs.calls.count("get_rows") == CHILDREN
    before = {one: world.jobs.rows[one] for one in children}
    played.driver.deliver_hint(Hint(parent, LOOK_SLOT, 0))
    for one in children[:100]:
        played.driver.deliver_hint(Hint(one, LOOK_SLOT, 0))
    assert {one: world.jobs.rows[one] for one in children} == before, "told twice: nothing comes of it"


@pytest.mark.slow
def test_a_thousand_parents_of_one_child_are_read_few_at_a_time_and_it_runs_once() -> None:
    played = Played()
    parents = []
    for start in range(0, PARENTS, 100):
        items = [make_body(schedule=ONCE, name=f"parent{n}") for n in range(start, start + 100)]
        parents += [one["job"]["id"] for one in played.api.post("/v1/jobs/bulk", {"items": items}).json["data"]]
    body = make_body(name="child", schedule=None, dependsOn=[{"jobId": one} for one in parents])
    child = played.api.post("/v1/jobs", body).json["id"]
    played.world.jobs.calls.clear()
    played.run(600)
    assert played.called.count("child") == 1
    row = played.world.jobs.rows[child]
    assert row.upstream == Upstream(marks=(1,) * PARENTS)
    assert played.world.jobs.calls.count("get_rows") <= PARENTS + 10
    assert set(played.world.jobs.calls) <= {"get", "get_rows", "due_for_attention", "waiting_for"}


def test_a_workflow_of_a_hundred_jobs_in_a_row_ends() -> None:
    played = Played()
    chain = {"j0": job()} | {f"j{n}": job(f"j{n - 1}") for n in range(1, 100)}
    path = played.create(workflow(**chain))
    played.run(120)
    assert played.called == list(chain)
    assert played.seen(path)["status"] == "COMPLETED"
    assert [span["name"] for span in played.seen(path)["criticalPath"]] == list(chain)


def test_a_workflow_of_a_hundred_jobs_side_by_side_ends() -> None:
    played = Played()
    fan: dict[str, Any] = {"root": job()} | {f"j{n}": job("root") for n in range(98)}
    fan["last"] = job(*[f"j{n}" for n in range(98)])
    path = played.create(workflow(**fan))
    played.run(120)
    assert sorted(played.called) == sorted(fan)
    assert (played.called[0], played.called[-1]) == ("root", "last")
    assert played.seen(path)["status"] == "COMPLETED"
