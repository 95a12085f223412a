"""Whether the executor works for other jobs: what counts as a sign of it, and which jobs are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.definition import Priority
from functions.domain.job import Job
from functions.domain.liveness import FEW, STARTED_SECONDS, STUCK_WAKES, Others, others_of
from functions.domain.visit import FREE_WAKES, HELD_WAKES, WAKE_BACKOFF, WAKE_BACKOFF_MAX
from functions.usecases.liveness import NEWEST, SOONEST, Liveness
from tests.driver import Driver
from tests.factories import NOW, make_job, new_id
from tests.fakes import FakeClock, World


def job(**changes: Any) -> Job:
    return make_job(id=new_id(), **changes)


def started(seconds_ago: float = 100, **changes: Any) -> Job:
    return job(brake_minute=int(NOW - seconds_ago) // 60, brake_count=1, **changes)


def stuck(wakes: int = FREE_WAKES, **changes: Any) -> Job:
    return job(wakes=wakes, created_at=NOW - 9_000, next_slot=NOW - 8_000, attention_at=NOW + 100, **changes)


WORKERS = {"target": {"type": "worker", "queue": "reports"}}


class TestSigns:
    @pytest.mark.parametrize(
        ("other", "expected"),
        [
            (started(0), Others(1, 0)),
            (started(STARTED_SECONDS), Others(1, 0)),
            (started(STARTED_SECONDS + 60), Others(0, 0)),
            (job(), Others(0, 0)),
            (stuck(), Others(0, 1)),
            (stuck(STUCK_WAKES - 1), Others(0, 0)),
            (stuck(brake_minute=NOW // 60), Others(0, 1)),
            (started(document=WORKERS), Others(0, 0)),
            (replace(started(), definition=None), Others(0, 0)),
            (started(priority=Priority.HIGH), Others(0, 0)),
            (stuck(priority=Priority.LOW), Others(0, 0)),
        ],
        ids=[
            "just started",
            "started an hour ago",
            "started longer ago",
            "never started",
            "stuck",
            "woken once",
            "started, and stuck since",
            "claimed by a worker, perhaps",
            "not to be read",
            "started from another queue",
            "stuck in another queue",
        ],
    )
    def test_what_another_job_shows(self, other: Job, expected: Others) -> None:
        assert others_of(stuck(), [other], now=NOW) == expected

    def test_a_job_is_no_sign_for_itself(self) -> None:
        one, other = stuck(), started()
        assert others_of(one, [one], now=NOW) == Others(0, 0)
        assert others_of(other, [other], now=NOW) == Others(0, 0)

    @given(st.integers(0, 99), st.integers(0, 99), st.booleans())
    @settings(max_examples=300, deadline=None)
    def test_they_show_that_it_works_where_few_are_stuck_and_more_were_started(
        self, well: int, bad: int, readable: bool
    ) -> None:
        shows = Others(well, bad).show_it_works(readable=readable)
        if bad > FEW or bad > well:
            assert not shows
        elif well:
            assert shows
        else:
            assert shows is not readable

    def test_what_came_due_after_the_executor_stopped_is_held_before_its_quarantine(self) -> None:
        """Signs from before the end stay for an hour: the wakes of that hour leave two more."""
        waits = [min(WAKE_BACKOFF * 2**wake, WAKE_BACKOFF_MAX) for wake in range(20)]
        wakes_in_time = [wake for wake in range(20) if sum(waits[:wake]) <= STARTED_SECONDS + 60]
        assert len(wakes_in_time) <= HELD_WAKES


def asked(rows: list[Job], one: Job, prepare: Callable[[Driver], None] = lambda _: None) -> tuple[bool, Driver]:
    driver = Driver(World(clock=FakeClock(NOW)))
    for row in (*rows, one):
        driver.world.jobs.put(row)
    prepare(driver)
    driver.world.jobs.calls.clear()
    return Liveness(driver.executor).lets_count(driver.row(one.id)), driver


class TestWhoIsAsked:
    def test_a_job_alone_in_its_stage_is_held(self) -> None:
        assert asked([], stuck())[0] is False

    def test_a_definition_that_cannot_be_read_is_a_reason_by_itself(self) -> None:
        one = stuck()
        assert asked([], one, lambda driver: driver.world.jobs.lose_definition(one.id))[0] is True

    @pytest.mark.parametrize("others", [1, 3, 90])
    def test_not_where_others_are_stuck_too(self, others: int) -> None:
        """A release that can read no definition must not leave all of them at rest."""
        one, rest = stuck(), [stuck() for _ in range(others)]

        def lose(driver: Driver) -> None:
            for row in (one, *rest):
                driver.world.jobs.lose_definition(row.id)

        assert asked(rest, one, lose)[0] is False

    @pytest.mark.parametrize("every", [60, 600, 3_600])
    def test_jobs_that_run_often_are_found_by_their_attention(self, every: int) -> None:
        others = [started(every - number % every, next_slot=NOW + 1 + number % every) for number in range(300)]
        assert asked(others, stuck(owner="another"))[0] is True

    def test_jobs_that_ran_once_are_found_by_their_owner(self) -> None:
        ran = [started(30 * number, next_slot=None, attention_at=None) for number in range(40)]
        assert asked(ran, stuck())[0] is True
        assert asked(ran, stuck(owner="another"))[0] is False

    def test_jobs_that_run_daily_are_found_by_their_owner(self) -> None:
        daily = [started(3_000 * number, next_slot=NOW + 86_400 - 3_000 * number) for number in range(28)]
        assert asked(daily, stuck())[0] is True

    @pytest.mark.parametrize("well", [20, 2_000])
    def test_a_fault_that_many_have_is_not_in_their_rows(self, well: int) -> None:
        others = [started(next_slot=NOW + 60 + number) for number in range(well)]
        bad = [stuck() for _ in range(20)]
        assert asked([*others, *bad[1:]], bad[0])[0] is False
        assert asked([*others, *bad[1:3]], bad[0])[0] is True

    def test_what_is_read_is_bounded_and_read_once(self) -> None:
        many = [stuck() for _ in range(500)]
        driver = Driver(World(clock=FakeClock(NOW)))
        for row in many:
            driver.world.jobs.put(row)
        driver.world.jobs.calls.clear()
        liveness = Liveness(driver.executor)
        assert not any(liveness.lets_count(row) for row in many[:100])
        calls = driver.world.jobs.calls
        assert calls.count("get") == SOONEST
        assert calls.count("list_by_owners") == 0, "in an outage nobody asks owner by owner"

    def test_of_one_owner_too(self) -> None:
        one = stuck()
        found, driver = asked([job(next_slot=NOW + 90_000) for _ in range(200)], one)
        assert found is False
        calls = driver.world.jobs.calls
        assert (calls.count("list_by_owners"), calls.count("get")) == (1, 1 + 1 + NEWEST)

    def test_a_row_that_cannot_be_read_hides_no_other(self) -> None:
        bad, one = started(next_slot=NOW + 20), stuck()
        found, _ = asked([bad, started(next_slot=NOW + 30)], one, lambda driver: driver.world.jobs.spoil(bad.id))
        assert found is True
