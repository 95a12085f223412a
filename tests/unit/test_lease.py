"""Who holds a running attempt at which instant: the owner, nobody, or whoever comes (docs/protocol.md, section 7)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.lease import (
    CLOCK_SKEW,
    REPORT_GRACE,
    Hold,
    hold_of,
    is_free,
    is_held,
    is_overdue,
    is_too_late,
    seconds_to_call,
    times_out_at,
)
from functions.domain.run import ActiveRun
from tests.factories import NOW, make_run

HELD, LAPSED, FREE = Hold.HELD, Hold.LAPSED, Hold.FREE
LEASES = st.integers(NOW, NOW + 400)
DEADLINES = st.one_of(st.none(), st.integers(NOW, NOW + 400))
INSTANTS = st.floats(NOW - 10, NOW + 420)
APART = st.floats(-CLOCK_SKEW, CLOCK_SKEW)


def run_of(lease: int | None, deadline: int | None) -> ActiveRun:
    return make_run(lease_expires_at=lease, deadline_at=deadline)


@pytest.mark.parametrize(
    ("lease", "deadline", "seconds", "hold"),
    [
        (90, None, 89.9, HELD),
        (90, None, 90, LAPSED),
        (90, None, 94.9, LAPSED),
        (90, None, 95, FREE),
        (90, 300, 89.9, HELD),
        (90, 300, 90, LAPSED),
        (90, 300, 95, FREE),
        (315, 300, 301.9, HELD),
        (315, 300, 302, LAPSED),
        (315, 300, 303.9, LAPSED),
        (315, 300, 304, FREE),
        (301, 300, 300.9, HELD),
        (301, 300, 301, LAPSED),
        (301, 300, 303.9, LAPSED),
        (301, 300, 304, FREE),
        (None, None, 0, FREE),
    ],
)
def test_lease_and_deadline_end_a_hold(lease: int | None, deadline: int | None, seconds: float, hold: Hold) -> None:
    run = run_of(None if lease is None else NOW + lease, None if deadline is None else NOW + deadline)
    assert hold_of(run, NOW + seconds) is hold
    assert (is_held(run, NOW + seconds), is_free(run, NOW + seconds)) == (hold is HELD, hold is FREE)


@given(LEASES, DEADLINES, INSTANTS, APART)
def test_no_two_clocks_say_held_and_free_at_once(lease: int, deadline: int | None, now: float, apart: float) -> None:
    run = run_of(lease, deadline)
    assert {hold_of(run, now), hold_of(run, now + apart)} != {HELD, FREE}


@given(LEASES, DEADLINES, INSTANTS, st.floats(0, 400))
def test_time_alone_gives_nothing_back(lease: int, deadline: int | None, now: float, later: float) -> None:
    order = [HELD, LAPSED, FREE]
    run = run_of(lease, deadline)
    assert order.index(hold_of(run, now)) <= order.index(hold_of(run, now + later))


@given(st.integers(NOW, NOW + 400), INSTANTS, APART)
def test_who_takes_a_report_and_who_ends_its_attempt_never_do_so_at_once(
    deadline: int, now: float, apart: float
) -> None:
    run = run_of(deadline + 1_000, deadline)
    taken, ended = not is_too_late(run, now), is_overdue(run, now + apart)
    assert not (taken and ended)
    assert taken is (now < deadline + REPORT_GRACE)


def test_only_an_attempt_with_a_deadline_times_out() -> None:
    assert times_out_at(run_of(NOW, None)) is None
    assert not is_overdue(run_of(NOW, None), NOW + 10**6)
    assert not is_too_late(run_of(NOW, None), NOW + 10**6)
    assert times_out_at(run_of(NOW, NOW + 10)) == NOW + 14


@pytest.mark.parametrize(("passed", "left"), [(0, 70), (69, 1), (69.5, 0), (80, -10)])
def test_a_call_ends_before_others_may_act(passed: float, left: int) -> None:
    run = replace(make_run(), lease_expires_at=NOW + 75)
    assert seconds_to_call(run, NOW + passed) == left
