"""Graphs: one version an owner, written with the row that changes the graph."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.domain.errors import GraphChangedError, LostRaceError
from tests.contract.conftest import at_once
from tests.contract.test_job_store import BIG, definition_rows
from tests.factories import make_definition, make_job, new_id
from tests.faults import Crash


def test_the_first_version_is_0_and_each_change_is_the_next(jobs, graphs):
    read = jobs.create(make_job())
    assert graphs.version(read.owner) == 0

    first = jobs.save(read, replace(read, write_id="w-2", paused=True), graph=0)
    assert (first.seq, graphs.version(read.owner)) == (read.seq + 1, 1)
    assert jobs.get(read.id) == first

    jobs.save(first, replace(first, write_id="w-3", paused=False), graph=1)
    assert graphs.version(read.owner) == 2
    assert graphs.version("team-b") == 0


def test_a_write_that_changes_no_graph_leaves_the_version(jobs, graphs):
    read = jobs.create(make_job())

    jobs.save(read, replace(read, write_id="w-2", paused=True))

    assert graphs.version(read.owner) == 0


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("payload", ["{}", BIG], ids=["inline", "own row"])
def test_who_knows_another_version_changes_nothing(jobs, graphs, platform, version, payload):
    other = jobs.create(make_job(id=new_id()))
    jobs.save(other, replace(other, write_id="w-1", paused=True), graph=0)
    read = jobs.create(make_job())
    new = replace(read, write_id="w-2", revision=2, definition=make_definition(payload=payload, name="renamed"))

    with pytest.raises(GraphChangedError):
        jobs.save(read, new, graph=version)

    assert jobs.get(read.id) == read
    assert graphs.version(read.owner) == 1
    assert definition_rows(jobs, platform) == []


def test_a_lost_race_for_the_row_leaves_the_version(jobs, graphs, platform):
    read = jobs.create(make_job())
    winner = jobs.save(read, replace(read, write_id="first", paused=True))
    new = replace(read, write_id="second", definition=make_definition(payload=BIG))

    with pytest.raises(LostRaceError) as lost:
        jobs.save(read, new, graph=0)

    assert lost.value.current == winner
    assert graphs.version(read.owner) == 0
    assert definition_rows(jobs, platform) == []


def test_who_lost_both_races_gets_the_row(jobs, graphs):
    read = jobs.create(make_job())
    winner = jobs.save(read, replace(read, write_id="first", paused=True), graph=0)

    with pytest.raises(LostRaceError) as lost:
        jobs.save(read, replace(read, write_id="second", cancelled=True), graph=0)

    assert lost.value.current == winner
    assert graphs.version(read.owner) == 1


def test_a_row_that_is_gone_leaves_the_version(jobs, graphs):
    read = make_job()

    with pytest.raises(LostRaceError) as lost:
        jobs.save(read, replace(read, write_id="w-2", paused=True), graph=0)

    assert lost.value.current is None
    assert graphs.version(read.owner) == 0


@pytest.mark.case(31)
@pytest.mark.parametrize("payload", ["{}", BIG], ids=["inline", "own row"])
def test_a_change_whose_answer_was_lost_succeeds(jobs, graphs, faults, payload):
    read = jobs.create(make_job())
    new = replace(read, write_id="mine", revision=2, definition=make_definition(payload=payload, name="renamed"))
    faults.inject(lose_answer=1 if payload == "{}" else 2)

    saved = jobs.save(read, new, graph=0)

    assert jobs.get(read.id) == saved
    assert saved.defined.name == "renamed"
    assert graphs.version(read.owner) == 1


def test_a_change_whose_answer_was_lost_succeeds_although_the_graph_changed_since(jobs, graphs, faults):
    read, other = jobs.create(make_job()), jobs.create(make_job(id=new_id()))

    def change_another() -> None:
        jobs.save(other, replace(other, write_id="other", paused=True), graph=1)

    faults.inject(lose_answer=1, meanwhile=change_another)

    saved = jobs.save(read, replace(read, write_id="mine", paused=True), graph=0)

    assert jobs.get(read.id) == saved
    assert graphs.version(read.owner) == 2


def test_a_change_that_lost_its_answer_and_was_overwritten_shows_its_marks(jobs, graphs, faults):
    """Where the SDK's token of the call is not known any more; else it is answered as the first time."""
    read = jobs.create(make_job())

    def pause() -> None:
        row = jobs.get(read.id)
        jobs.save(row, replace(row, write_id="other", paused=True))

    faults.inject(lose_answer=2, meanwhile=pause)
    new = replace(read, write_id="mine", revised_by="mine", revision=2, definition=make_definition(payload=BIG))

    with pytest.raises(LostRaceError) as lost:
        jobs.save(read, new, graph=0)

    assert (lost.value.current.revised_by, lost.value.current.paused) == ("mine", True)
    assert jobs.get(read.id).defined.payload == BIG
    assert graphs.version(read.owner) == 1


@pytest.mark.parametrize("before", [True, False])
def test_a_crash_leaves_both_or_neither(jobs, graphs, faults, before):
    read = jobs.create(make_job())
    faults.inject(crash_before=1) if before else faults.inject(crash_after=1)

    with pytest.raises(Crash):
        jobs.save(read, replace(read, write_id="mine", paused=True), graph=0)

    assert (jobs.get(read.id).paused, graphs.version(read.owner)) == ((False, 0) if before else (True, 1))


def test_of_two_that_change_one_graph_at_once_one_must_look_again(jobs, graphs):
    """Two edges that would close a cycle together: each writer knows the graph without the other's."""
    rows = [jobs.create(make_job(id=new_id())) for _ in range(8)]

    answers = at_once(
        8, lambda number: jobs.save(rows[number], replace(rows[number], write_id="w-2", paused=True), graph=0)
    )

    won = [answer for answer in answers if not isinstance(answer, Exception)]
    assert len(won) == 1
    assert {type(answer) for answer in answers if answer is not won[0]} == {GraphChangedError}
    assert [jobs.get(row.id).paused for row in rows].count(True) == 1
    assert graphs.version(won[0].owner) == 1
