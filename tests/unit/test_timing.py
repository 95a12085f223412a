"""Which way a hint takes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.hint import Hint
from functions.domain.ids import new_manual_slot_id, slot_id
from functions.domain.timing import OneTimeSchedule, QueueDelay, one_time_schedule, route, schedule_expression
from tests.factories import JOB_ID, NOW, make_hint, new_id

EVENTBRIDGE_NAME = re.compile(r"[0-9a-zA-Z\-_.]{1,64}")
"""EventBridge Scheduler API reference, CreateSchedule."""

hints = st.builds(
    Hint,
    st.uuids(version=4).map(str),
    st.one_of(
        st.integers(NOW, NOW + 10**9).map(slot_id),
        st.integers(NOW, NOW + 10**9).map(new_manual_slot_id),
    ),
    st.integers(1, 9_999),
)


@given(hints, st.integers(NOW, NOW + 86_400 * 3_660), st.floats(0, 86_400 * 3_650))
def test_no_hint_comes_early_and_far_ones_have_minutes_to_spare(hint, due_at, ahead):
    now = due_at - ahead

    way = route(hint, due_at=due_at, now=now)

    if isinstance(way, QueueDelay):
        assert ahead <= 900
        assert 0 <= way.seconds <= 900
        assert now + way.seconds >= due_at
        assert now + way.seconds < due_at + 1.001
    else:
        assert ahead > 900
        assert due_at - 780 < way.fires_at <= due_at - 180
        assert way.fires_at > now + 60
        assert EVENTBRIDGE_NAME.fullmatch(way.name)


def test_the_residual_after_a_schedule_fits_the_queues_delay():
    schedule = one_time_schedule(make_hint(), due_at=NOW)

    assert isinstance(route(make_hint(), due_at=NOW, now=schedule.fires_at), QueueDelay)


def test_the_name_says_whose_hint_it_is():
    assert one_time_schedule(make_hint(attempt=2), due_at=NOW + 7).name == (
        f"{JOB_ID.replace('-', '')}-r-{NOW + 7}-2-4f70"
    )
    assert "-s-" in one_time_schedule(make_hint(), due_at=NOW).name
    assert "-r-" in one_time_schedule(make_hint(slot_id=f"{NOW}mabcdefgh"), due_at=NOW).name


@given(hints, hints)
def test_two_hints_never_share_a_schedule_unless_they_are_one(one, other):
    names = {one_time_schedule(hint, due_at=NOW).name for hint in (one, other)}

    assert len(names) == 2 or (one.job_id, one.attempt) == (other.job_id, other.attempt)


def test_schedules_of_jobs_due_at_once_fire_spread_over_ten_minutes():
    fires = [one_time_schedule(make_hint(job_id=new_id()), due_at=NOW).fires_at for _ in range(2_000)]

    assert max(fires) - min(fires) > 500
    assert max(fires.count(instant) for instant in set(fires)) < 20


@pytest.mark.case(1)
def test_the_expression_has_no_offset_and_no_fraction():
    assert schedule_expression(1_801_407_582) == "at(2027-01-31T14:59:42)"


def test_the_longest_name_fits():
    way = route(Hint(JOB_ID, "9999999999mzzzzzzzz", 99_999), due_at=9_999_999_999, now=NOW)

    assert isinstance(way, OneTimeSchedule)
    assert len(way.name) <= 64
