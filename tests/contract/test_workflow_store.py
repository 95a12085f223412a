"""WorkflowStore: rows of workflows, and the list of an owner's."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from functions.domain.cursor import write_cursor
from functions.domain.errors import CorruptDefinitionError, InvalidFieldError
from functions.graph_ports import Workflow
from tests.contract.conftest import at_once
from tests.factories import NOW, new_id
from tests.faults import Crash


def workflow(**changes: Any) -> Workflow:
    return Workflow(
        **{
            "id": new_id(),
            "name": "Käse, nightly",
            "owner": "team-a",
            "created_by": "alice",
            "created_at": NOW,
            "jobs": (("extract", new_id()), ("load", new_id())),
            **changes,
        }
    )


def listed(workflows: Any, owner: str = "team-a", *, limit: int = 100) -> list[Workflow]:
    found: list[Workflow] = []
    cursor = None
    while True:
        page = workflows.list_by_owners((owner,), limit=limit, cursor=cursor)
        assert len(page.items) <= limit
        found += page.items
        if (cursor := page.cursor) is None:
            return found


@pytest.mark.parametrize("jobs", [(), tuple((f"step-{n}" + "x" * 50, new_id()) for n in range(100))])
def test_a_workflow_is_read_as_it_was_put(workflows, jobs):
    put = workflows.put(workflow(jobs=jobs))

    assert workflows.get(put.id) == put
    assert put.jobs == jobs
    assert workflows.get(new_id()) is None


def test_the_first_row_stays_and_is_listed_alone(workflows):
    first = workflows.put(workflow())

    assert workflows.put(workflow(id=first.id, name="another", created_at=NOW + 7)) == first
    assert workflows.put(workflow(id=first.id, owner="team-b")) == first
    assert workflows.get(first.id) == first
    assert listed(workflows) == [first]
    assert listed(workflows, "team-b") == []


@pytest.mark.parametrize("number", [1, 2])
def test_a_put_whose_answer_was_lost_succeeds(workflows, faults, number):
    faults.inject(lose_answer=number)

    put = workflows.put(workflow())

    assert workflows.get(put.id) == put
    assert listed(workflows) == [put]


def test_a_crash_before_the_end_leaves_nothing_to_be_seen_and_is_repeated(workflows, faults):
    wanted = workflow()
    faults.inject(crash_before=1)
    with pytest.raises(Crash):
        workflows.put(wanted)
    assert (workflows.get(wanted.id), listed(workflows)) == (None, [])

    faults.disarm()
    assert workflows.put(wanted) == wanted
    assert listed(workflows) == [wanted]


def test_what_is_stored_is_listed_wherever_the_put_stopped(workflows, faults):
    for step in (1, 2, 3):
        wanted = workflow(owner=f"team-{step}")
        faults.inject(crash_after=step)
        with contextlib.suppress(Crash):
            workflows.put(wanted)
        stored = workflows.get(wanted.id)
        assert listed(workflows, wanted.owner) == ([] if stored is None else [stored])


def test_all_of_many_parallel_writers_get_the_one_that_is_stored(workflows):
    workflow_id = new_id()

    answers = at_once(8, lambda number: workflows.put(workflow(id=workflow_id, created_at=NOW + number)))

    assert {answer.created_at for answer in answers} == {workflows.get(workflow_id).created_at}
    assert listed(workflows) == [answers[0]]


@pytest.mark.parametrize("limit", [1, 2, 5, 6, 100])
def test_an_owners_are_newest_first_over_pages(workflows, limit):
    made = [workflows.put(workflow(created_at=NOW + second)) for second in (3, 1, 4, 1, 5)]
    workflows.put(workflow(owner="team-b"))

    assert listed(workflows, limit=limit) == sorted(made, key=lambda one: (one.created_at, one.id), reverse=True)


def test_one_that_cannot_be_read_says_so_and_hides_no_other(workflows, break_workflow):
    made = [workflows.put(workflow(created_at=NOW + second)) for second in range(3)]
    break_workflow(made[1].id)

    with pytest.raises(CorruptDefinitionError):
        workflows.get(made[1].id)
    assert listed(workflows, limit=1) == [made[2], made[0]]


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_workflows_of_several_owners_are_one_list(workflows, limit):
    made = [
        workflows.put(workflow(owner=owner, created_at=NOW + second))
        for second, owner in enumerate(["alice", "team-a", "bob", "team-a", "alice"])
    ]
    found, cursor = [], None
    while True:
        page = workflows.list_by_owners(("team-a", "alice"), limit=limit, cursor=cursor)
        found += page.items
        if (cursor := page.cursor) is None:
            break
    assert found == [made[4], made[3], made[1], made[0]]


@pytest.mark.parametrize("how", ["of another", "made up", "cut"])
def test_a_cursor_that_was_not_handed_out_is_refused(workflows, how):
    for owner in ("team-a", "team-b"):
        for _ in range(2):
            workflows.put(workflow(owner=owner))
    cursor = {
        "of another": workflows.list_by_owners(("team-b",), limit=1, cursor=None).cursor,
        "made up": write_cursor("elsewhere", scope="workflows of team-a"),
        "cut": workflows.list_by_owners(("team-a",), limit=1, cursor=None).cursor[:-1],
    }[how]

    with pytest.raises(InvalidFieldError, match="cursor"):
        workflows.list_by_owners(("team-a",), limit=1, cursor=cursor)
