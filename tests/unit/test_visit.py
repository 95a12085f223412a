"""What the sweep does for a row: the first line of the table that applies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.domain.decision import Drop, Due, Write
from functions.domain.ids import slot_id
from functions.domain.job import Gap, Job, SkipReason
from functions.domain.run import RunState
from functions.domain.visit import (
    FREE_WAKES,
    HELD_WAKES,
    MAX_WAKES,
    WAKE_BACKOFF_MAX,
    Recover,
    decide_visit,
)
from tests.factories import NOW, make_job, make_run

NEXT = NOW + 60
SLOT = slot_id(NOW)
RUN = make_run(lease_expires_at=NOW + 75)
WAITING = make_run(state=RunState.WAITING, attempt=1, due_at=NOW + 20)
GAP = Gap(first=NOW, last=NOW, count=1, reason=SkipReason.PAUSED)


def visit(job: Job, now: float, *, feeding: bool = True, counts: bool = True) -> Any:
    return decide_visit(job, now=now, read_at=now, feeding=feeding, counts=counts)


class TestExpiredLease:
    @pytest.mark.parametrize(("now", "over"), [(NOW + 79.9, False), (NOW + 80, True), (NOW + 500, True)])
    def test_five_seconds_after_it_the_run_is_recovered(self, now: float, over: bool) -> None:
        job = make_job(runs={SLOT: RUN}, next_slot=None)
        assert (visit(job, now) == Recover(SLOT, RUN)) is over

    @pytest.mark.parametrize("feeding", [True, False])
    def test_before_anything_else_and_whatever_waits_in_the_queues(self, feeding: bool) -> None:
        job = make_job(runs={"a": WAITING, SLOT: RUN}, gap=GAP, wakes=MAX_WAKES)
        assert visit(job, NOW + 90, feeding=feeding) == Recover(SLOT, RUN)

    def test_paused_or_not(self) -> None:
        assert visit(make_job(runs={SLOT: RUN}, paused=True), NOW + 90) == Recover(SLOT, RUN)


class TestWake:
    @pytest.mark.parametrize(
        ("wakes", "wait"),
        [(0, 60), (1, 120), (2, 240), (3, 480), (4, 900), (5, 900), (9, 900)],
    )
    def test_the_back_off_doubles_to_fifteen_minutes(self, wakes: int, wait: int) -> None:
        job = make_job(wakes=wakes, attention_at=NEXT + 30)
        write = visit(job, NEXT + 40)
        assert isinstance(write, Write)
        assert write.hints == (Due(slot_id(NEXT), 1, NEXT),)
        assert (write.job.wakes, write.job.attention_at) == (wakes + 1, NEXT + 40 + wait)
        assert replace(write.job, wakes=wakes, attention_at=job.attention_at) == job, "nothing else"

    @pytest.mark.parametrize("early", [1, 900])
    def test_a_row_whose_back_off_is_not_over_is_left_alone(self, early: int) -> None:
        """The index that shows it lags behind its last wake."""
        job = make_job(wakes=2, attention_at=NEXT + 40 + early)
        assert visit(job, NEXT + 40) == Drop("WATCHED")

    def test_what_is_not_due_keeps_its_bound(self) -> None:
        job = make_job(runs={SLOT: replace(RUN, lease_expires_at=NEXT + 100)}, wakes=4)
        write = visit(job, NEXT + 40)
        assert write.job.attention_at == NEXT + 100, "a lease's bound never moves"
        later = make_job(runs={SLOT: replace(WAITING, due_at=NEXT + 200)}, wakes=4)
        assert visit(later, NEXT + 40).job.attention_at == NEXT + 230

    def test_all_that_is_due_gets_its_hint(self) -> None:
        other = f"{NOW}mabcdefgh"
        job = make_job(runs={SLOT: WAITING, other: replace(WAITING, attempt=0, due_at=NEXT + 999)})
        assert visit(job, NEXT + 40).hints == (Due(SLOT, 2, NOW + 20), Due(slot_id(NEXT), 1, NEXT))

    @pytest.mark.parametrize(
        "job",
        [
            make_job(paused=True),
            make_job(paused=True, runs={SLOT: WAITING}),
            make_job(next_slot=NOW + 9_000),
            make_job(cancelled=True, next_slot=None),
        ],
        ids=["paused", "held retry", "not due", "cancelled"],
    )
    def test_nothing_due_is_not_woken(self, job: Job) -> None:
        decision = visit(replace(job, attention_at=NOW), NEXT + 40)
        assert isinstance(decision, Write)
        assert (decision.reason, decision.hints, decision.job.wakes) == ("WATCHED", (), 0)
        assert decision.job.attention_at == job.bound(NEXT + 40)

    def test_a_manual_run_of_a_paused_job_is(self) -> None:
        job = make_job(paused=True, runs={SLOT: replace(WAITING, manual=True)})
        assert visit(job, NEXT + 40).hints == (Due(SLOT, 2, NOW + 20),)

    def test_a_missed_slot_that_waits_for_the_one_before_is_not(self) -> None:
        job = make_job(runs={SLOT: replace(RUN, lease_expires_at=NEXT + 500)}, catch_up_to=NEXT, attention_at=NOW)
        decision = visit(job, NEXT + 40)
        assert (decision.reason, decision.hints) == ("WATCHED", ())


class TestHeld:
    """While nothing shows that the executor works for other jobs."""

    @pytest.mark.parametrize(("wakes", "kept"), [(FREE_WAKES, FREE_WAKES), (7, 7), (8, 8), (9, 8), (MAX_WAKES, 8)])
    def test_what_is_due_is_woken_and_not_counted(self, wakes: int, kept: int) -> None:
        job = make_job(wakes=wakes, attention_at=NEXT + 30)
        write = visit(job, NEXT + 40, counts=False)
        assert isinstance(write, Write)
        assert (write.reason, write.hints) == ("HELD", (Due(slot_id(NEXT), 1, NEXT),))
        assert (write.job.wakes, write.job.attention_at) == (kept, NEXT + 40 + 900)
        assert replace(write.job, wakes=wakes, attention_at=job.attention_at) == job, "nothing else"

    @pytest.mark.parametrize("wakes", range(FREE_WAKES))
    def test_the_first_wakes_count_in_any_case_so_that_they_back_off(self, wakes: int) -> None:
        job = make_job(wakes=wakes, attention_at=NEXT + 30)
        assert visit(job, NEXT + 40, counts=False) == visit(job, NEXT + 40, counts=True)
        assert visit(job, NEXT + 40, counts=False).reason == "WOKEN"

    def test_then_the_back_off_is_at_its_longest(self) -> None:
        job = make_job(wakes=FREE_WAKES - 1, attention_at=NEXT + 30)
        assert visit(job, NEXT + 40).job.attention_at == NEXT + 40 + WAKE_BACKOFF_MAX

    def test_however_long_there_is_no_quarantine_and_once_it_works_again_two_more_wakes_come_first(self) -> None:
        job, now = make_job(), NEXT + 30
        for _ in range(1_000):
            write = visit(job, now, counts=False)
            assert isinstance(write, Write)
            job = write.job
            assert job.attention_at is not None
            now = job.attention_at
        wakes = 0
        job = replace(job, wakes=HELD_WAKES)
        while (write := visit(job, now)).reason != "QUARANTINED":
            job, wakes = write.job, wakes + 1
            assert job.attention_at is not None
            now = job.attention_at
        assert wakes == 2


class TestBacklog:
    @pytest.mark.parametrize("wakes", [0, 3, MAX_WAKES])
    def test_it_neither_wakes_nor_counts_nor_quarantines(self, wakes: int) -> None:
        job = make_job(wakes=wakes, attention_at=NEXT + 30)
        assert visit(job, NEXT + 40, feeding=False) == Drop("BACKLOG")

    def test_what_is_watched_goes_on(self) -> None:
        job = make_job(runs={SLOT: replace(RUN, lease_expires_at=NEXT + 500)}, next_slot=None, attention_at=NOW)
        assert visit(job, NEXT, feeding=False).reason == "WATCHED"


class TestGap:
    def test_only_a_gap_keeps_it_awake(self) -> None:
        job = make_job(paused=True, gap=GAP, attention_at=NOW + 30)
        write = visit(job, NOW + 40)
        assert (write.reason, write.flush, write.job.gap, write.job.attention_at) == ("GAP", GAP, None, None)
        assert write.hints == ()

    def test_beside_other_things_it_waits_for_the_next_end(self) -> None:
        job = make_job(gap=GAP, attention_at=NOW)
        assert visit(job, NOW + 40).flush is None
        assert visit(job, NOW + 40).job.gap == GAP


class TestWatched:
    def test_a_valid_lease_moves_attention_to_itself(self) -> None:
        job = make_job(runs={SLOT: RUN}, next_slot=None, attention_at=NOW + 30, wakes=2)
        write = visit(job, NOW + 40)
        assert (write.reason, write.job.attention_at, write.job.wakes, write.hints) == ("WATCHED", NOW + 75, 0, ())

    def test_a_row_as_it_should_be_is_not_written(self) -> None:
        assert visit(make_job(), NOW + 40) == Drop("WATCHED")
        rest = make_job(paused=True)
        assert rest.attention_at is None
        assert visit(rest, NOW + 40) == Drop("WATCHED")
