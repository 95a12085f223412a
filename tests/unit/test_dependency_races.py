"""Two changes of the graph at the same instant, stopped before any two of their port calls."""

from __future__ import annotations

from functions.domain.errors import InvalidFieldError
from functions.domain.job import Job
from tests.driver import Driver
from tests.turns import Race, giving, interleaved


def parents_of(driver: Driver, job_id: str) -> list[str]:
    return [one.job_id for one in driver.row(job_id).defined.depends_on]


def test_two_changes_that_would_close_a_cycle_together_end_with_one_refused() -> None:
    def begin() -> Race:
        driver = Driver()
        a, b = driver.create().id, driver.create().id
        return driver, giving(a, b), giving(b, a)

    tried = 0
    for driver, answers in interleaved(begin):
        refused = [one for one in answers if isinstance(one, InvalidFieldError)]
        changed = [one for one in answers if isinstance(one, Job)]
        assert (len(refused), len(changed)) == (1, 1), answers
        assert "would wait for each other" in refused[0].message
        [winner] = changed
        [parent] = parents_of(driver, winner.id)
        assert parents_of(driver, parent) == []
        assert driver.row(parent).next_slot is not None, "the one that was refused is as it was"
        assert driver.world.dependents.edges[parent] == {winner.id}
        tried += 1
    assert tried > 40


def test_a_cycle_of_three_is_closed_by_no_order_of_two_changes() -> None:
    def begin() -> Race:
        driver = Driver()
        a, b = driver.create().id, driver.create().id
        c = driver.create(schedule=None, dependsOn=[{"jobId": b}]).id
        return driver, giving(a, c), giving(b, a)

    for _, answers in interleaved(begin):
        assert sorted(isinstance(one, InvalidFieldError) for one in answers) == [False, True], answers


def test_a_parent_that_is_taken_away_and_given_back_at_once_keeps_its_edge() -> None:
    def begin() -> Race:
        driver = Driver()
        a, b = driver.create().id, driver.create().id
        child = driver.create(schedule=None, dependsOn=[{"jobId": a}, {"jobId": b}]).id
        return driver, giving(child, b), giving(child, b, a)

    for driver, answers in interleaved(begin):
        assert all(isinstance(one, Job) for one in answers), answers
        child = answers[0].id
        for parent in parents_of(driver, child):
            assert child in driver.world.dependents.edges[parent]


def test_changes_of_other_jobs_at_once_are_both_made() -> None:
    def begin() -> Race:
        driver = Driver()
        top, a, b = driver.create().id, driver.create().id, driver.create().id
        return driver, giving(a, top), giving(b, top)

    for driver, answers in interleaved(begin):
        assert all(isinstance(one, Job) for one in answers), answers
        assert driver.world.graphs.versions == {"team-a": 2}
        [top] = parents_of(driver, answers[0].id)
        assert driver.world.dependents.edges[top] == {answers[0].id, answers[1].id}
