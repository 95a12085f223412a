"""What the sweep does for a row: the first line of the table that applies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.domain.decision import Drop, Due, Write
from functions.domain.ids import slot_id
from functions.domain.job import Gap, Job, SkipReason
from functions.domain.run import LastRun, Outcome, RunState
from functions.domain.visit import MAX_WAKES, Quarantine, Recover, after_quarantine, decide_visit, quarantined
from tests.factories import NOW, make_job, make_run

NEXT = NOW + 60
SLOT = slot_id(NOW)
RUN = make_run(lease_expires_at=NOW + 75)
WAITING = make_run(state=RunState.WAITING, attempt=1, due_at=NOW + 20)
GAP = Gap(first=NOW, last=NOW, count=1, reason=SkipReason.PAUSED)


def visit(job: Job, now: float, *, feeding: bool = True) -> Any:
    return decide_visit(job, now=now, read_at=now, feeding=feeding)


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


class TestQuarantine:
    def test_after_ten_wakes_what_is_due_is_ended(self) -> None:
        job = make_job(wakes=MAX_WAKES, runs={SLOT: WAITING})
        decision = visit(job, NEXT + 40)
        assert isinstance(decision, Quarantine)
        assert [slot for slot, _ in decision.due] == [SLOT, slot_id(NEXT)]
        found = [quarantined(job, slot, run, now=NEXT + 40.5, write_id="w") for slot, run in decision.due]
        assert [(row.slot_id, row.attempt, row.final, row.reason) for row in found] == [
            (SLOT, 2, True, "QUARANTINED"),
            (slot_id(NEXT), 1, True, "QUARANTINED"),
        ]
        assert all(row.is_dead_letter for row in found)
        first = after_quarantine(job, decision.due, now=NEXT + 40)
        assert isinstance(first, Write)
        assert (dict(first.job.runs), first.job.next_slot, first.job.wakes) == ({}, NEXT, MAX_WAKES)
        write = after_quarantine(first.job, decision.due, now=NEXT + 40)
        assert isinstance(write, Write)
        row = write.job
        assert after_quarantine(row, decision.due, now=NEXT + 40) == Drop("PROGRESS")
        assert (dict(row.runs), row.next_slot, row.last_slot, row.attention_at, row.wakes) == ({}, None, NEXT, None, 0)
        assert row.last_run == LastRun(
            slot_id=slot_id(NEXT),
            attempt=1,
            outcome=Outcome.PERMANENTLY_FAILED,
            fence=0,
            ended_at=NEXT + 40,
            error_code="QUARANTINED",
        )

    def test_needs_no_definition(self) -> None:
        job = replace(make_job(wakes=MAX_WAKES), definition=None)
        decision = visit(job, NEXT + 40)
        assert isinstance(after_quarantine(job, decision.due, now=NEXT + 40), Write)

    def test_a_run_that_started_meanwhile_is_left_to_its_owner(self) -> None:
        job = make_job(wakes=MAX_WAKES, runs={SLOT: WAITING}, next_slot=None)
        decision = visit(job, NEXT)
        started = replace(job, runs={SLOT: RUN}, wakes=0)
        assert after_quarantine(started, decision.due, now=NEXT) == Drop("PROGRESS")

    def test_a_waiter_is_released_and_a_gap_is_flushed(self) -> None:
        queued = make_run(state=RunState.QUEUED, due_at=None, attempt=0)
        job = make_job(wakes=MAX_WAKES, runs={SLOT: WAITING, "q": queued}, next_slot=None, gap=GAP)
        write = after_quarantine(job, visit(job, NEXT).due, now=NEXT)
        assert isinstance(write, Write)
        assert write.job.runs["q"].state is RunState.WAITING
        assert (write.flush, write.job.gap) == (GAP, None)

    def test_ten_wakes_are_about_an_hour_and_a_half(self) -> None:
        job, now, wakes = make_job(), NEXT + 30, 0
        while not isinstance(decision := visit(job, now), Quarantine):
            assert isinstance(decision, Write)
            job = decision.job
            assert job.attention_at is not None
            now, wakes = job.attention_at, wakes + 1
        assert wakes == MAX_WAKES
        assert now - NEXT == 30 + 60 + 120 + 240 + 480 + 6 * 900
