"""What a hint means for a row, line by line of the table for consumers (docs/job-lifecycle.md)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from functions.domain.decision import Deferral, Drop, Due, HintDecision, Resend, Wait, Write
from functions.domain.dispatch import CATCH_UP_LIMIT, STARTS_PER_MINUTE, decide_hint
from functions.domain.errors import CorruptDefinitionError
from functions.domain.ids import slot_id, slot_instant
from functions.domain.job import Gap, Job, SkipReason
from functions.domain.overlap import MAX_ACTIVE
from functions.domain.run import ActiveRun, Outcome, RunState
from tests.driver import Driver
from tests.factories import NOW, make_hint, make_job, make_run
from tests.fakes import FakeClock, World

NEXT = NOW + 60
MARK = "mark"


def decide(
    job: Job, slot: int | str = NEXT, attempt: int = 1, *, now: float = NEXT, deferral: Deferral | None = None
) -> HintDecision:
    hint = make_hint(slot_id=slot if isinstance(slot, str) else slot_id(slot), attempt=attempt)
    return decide_hint(job, hint, now=now, write_id=MARK, deferral=deferral)


def written(decision: HintDecision) -> Write:
    assert isinstance(decision, Write), decision
    return decision


def waiting(**changes: Any) -> ActiveRun:
    return make_run(**{"state": RunState.WAITING, "attempt": 1, "due_at": NOW, "fence": 3, **changes})


MANUAL = f"{NOW}mabcdefgh"
RUNNING = make_run(fence=3)
QUEUED = make_run(state=RunState.QUEUED, due_at=None)


class TestDrops:
    @pytest.mark.parametrize(
        ("job", "slot", "attempt", "reason"),
        [
            (make_job(cancelled=True), NEXT, 1, "JOB_CANCELLED"),
            (make_job(cancelled=True, runs={slot_id(NOW): waiting()}), NOW, 2, "JOB_CANCELLED"),
            (make_job(), NEXT - 60, 1, "NOTHING_DUE"),
            (make_job(), NEXT + 60, 1, "NOTHING_DUE"),
            (make_job(), NEXT, 2, "NOTHING_DUE"),
            (make_job(), MANUAL, 1, "NOTHING_DUE"),
            (make_job(next_slot=None), NEXT, 1, "NOTHING_DUE"),
            (make_job(paused=True), NEXT, 1, "PAUSED"),
            (make_job(last_slot=NEXT), NEXT, 1, "SLOT_TAKEN"),
            (make_job(last_slot=NEXT + 60), NEXT, 1, "SLOT_TAKEN"),
            (make_job(runs={slot_id(NOW): RUNNING}), NOW, 1, "NOT_WAITING"),
            (make_job(runs={slot_id(NOW): RUNNING}), NOW, 2, "NOT_WAITING"),
            (make_job(runs={slot_id(NOW): RUNNING, slot_id(NOW + 1): QUEUED}), NOW + 1, 1, "NOT_WAITING"),
            (make_job(runs={slot_id(NOW): waiting()}), NOW, 1, "NOT_WAITING"),
            (make_job(runs={slot_id(NOW): waiting()}), NOW, 3, "NOT_WAITING"),
            (make_job(runs={slot_id(NOW): waiting()}, paused=True), NOW, 2, "PAUSED"),
            (make_job(runs={slot_id(NOW): RUNNING}, catch_up_to=NEXT, next_slot=NEXT), NEXT, 1, "CATCHING_UP"),
        ],
    )  # fmt: skip
    def test_a_hint_for_what_is_not_due_does_nothing(
        self, job: Job, slot: int | str, attempt: int, reason: str
    ) -> None:
        assert decide(job, slot, attempt) == Drop(reason)


class TestEarly:
    @pytest.mark.parametrize("early", [0.25, 1, 2])
    def test_by_no_more_than_clocks_differ_it_waits(self, early: float) -> None:
        assert decide(make_job(), now=NEXT - early) == Wait(pytest.approx(early))
        job = make_job(runs={slot_id(NOW): waiting(due_at=NEXT)})
        assert decide(job, NOW, 2, now=NEXT - early) == Wait(pytest.approx(early))

    @pytest.mark.parametrize("early", [2.1, 30, 3_600])
    def test_by_more_it_is_sent_again(self, early: float) -> None:
        assert decide(make_job(), now=NEXT - early) == Resend(NEXT)
        job = make_job(runs={slot_id(NOW): waiting(due_at=NEXT)})
        assert decide(job, NOW, 2, now=NEXT - early) == Resend(NEXT)

    def test_a_slot_is_due_at_its_instant_plus_the_jobs_spread(self) -> None:
        job = make_job(spread=40)
        assert decide(job, now=NEXT + 39) == Wait(1)
        assert decide(job, now=NEXT + 10) == Resend(NEXT + 40)
        assert written(decide(job, now=NEXT + 40)).starts == slot_id(NEXT)


class TestStart:
    def test_one_write_takes_the_slot_and_arms_the_next(self) -> None:
        job = make_job(
            fence=6, wakes=3, starts=2, last_slot=NOW, document={"timeoutSeconds": 20, "retryConfig": {"maxRetries": 7}}
        )
        write = written(decide(job, now=NEXT + 0.7654))
        assert (write.reason, write.starts, write.flush) == ("STARTED", slot_id(NEXT), None)
        assert write.hints == (Due(slot_id(NEXT + 60), 1, NEXT + 60),)
        row = write.job
        assert (row.next_slot, row.last_slot, row.fence, row.wakes, row.starts) == (NEXT + 60, NEXT, 7, 0, 3)
        assert dict(row.runs) == {
            slot_id(NEXT): ActiveRun(
                state=RunState.RUNNING,
                attempt=1,
                attempt_limit=8,
                fence=7,
                lease_expires_at=NEXT + 1 + 20 + 15,
                started_at=NEXT + 0.765,
                due_at=None,
                started_by=MARK,
            )
        }
        assert (row.brake_minute, row.brake_count) == (NEXT // 60, 1)
        assert row.seq == job.seq
        assert row.revision == job.revision

    def test_attention_is_moved_only_where_it_is_too_late(self) -> None:
        assert written(decide(make_job())).job.attention_at == NEXT + 30
        woken = make_job(attention_at=NEXT + 900, wakes=5)
        assert written(decide(woken)).job.attention_at == NEXT + 75, "V1: never later than the lease"
        short = make_job(attention_at=NEXT + 900, document={"timeoutSeconds": 1})
        assert written(decide(short)).job.attention_at == NEXT + 16
        assert written(decide(make_job(attention_at=NOW))).job.attention_at == NOW

    def test_a_one_time_job_has_no_next(self) -> None:
        job = make_job(document={"schedule": {"type": "once", "at": "2027-01-15T08:01:00Z"}})
        write = written(decide(job))
        assert (write.job.next_slot, write.hints) == (None, ())
        assert write.job.last_slot == NEXT

    @pytest.mark.parametrize(("starts", "following"), [(0, NEXT + 60), (1, NEXT + 60), (2, None)])
    def test_max_runs_counts_starts(self, starts: int, following: int | None) -> None:
        write = written(decide(make_job(starts=starts, document={"maxRuns": 3})))
        assert write.job.next_slot == following
        assert bool(write.hints) == (following is not None)

    def test_nothing_follows_end_at(self) -> None:
        write = written(decide(make_job(document={"endAt": "2027-01-15T08:01:59Z"})))
        assert (write.job.next_slot, write.hints) == (None, ())

    def test_hints_of_a_spread_job_are_due_at_slot_and_spread(self) -> None:
        job = make_job(spread=11)
        assert written(decide(job, now=NEXT + 11)).hints == (Due(slot_id(NEXT + 60), 1, NEXT + 71),)

    def test_without_a_definition_it_fails(self) -> None:
        with pytest.raises(CorruptDefinitionError):
            decide(replace(make_job(), definition=None))
        assert decide(replace(make_job(paused=True), definition=None)) == Drop("PAUSED"), "needed where it starts only"


class TestFire:
    def test_a_waiting_attempt_starts_under_a_new_fence_and_leaves_slots_alone(self) -> None:
        run = waiting(attempt=2, attempt_limit=3, fence=4)
        job = make_job(runs={slot_id(NOW): run}, fence=9, last_slot=NOW, starts=5, wakes=2)
        write = written(decide(job, NOW, 3, now=NOW + 5.5))
        assert (write.reason, write.starts, write.hints, write.flush) == ("STARTED", slot_id(NOW), (), None)
        assert write.job.runs[slot_id(NOW)] == ActiveRun(
            state=RunState.RUNNING,
            attempt=3,
            attempt_limit=3,
            fence=10,
            lease_expires_at=NOW + 6 + 75,
            started_at=NOW + 5.5,
            due_at=None,
            started_by=MARK,
        )
        row = write.job
        assert (row.next_slot, row.last_slot, row.starts, row.fence, row.wakes) == (NEXT, NOW, 5, 10, 0)
        assert row.attention_at == job.attention_at == NOW + 30

    def test_a_manual_run_starts_on_a_paused_job(self) -> None:
        run = waiting(attempt=0, manual=True, fence=0)
        write = written(decide(make_job(paused=True, runs={MANUAL: run}), MANUAL))
        assert write.starts == MANUAL
        assert write.job.paused
        assert write.job.runs[MANUAL].manual

    def test_a_released_waiter_starts_though_its_slot_is_not_the_last(self) -> None:
        """V7: the last slot guards only a start that advances the next one."""
        job = make_job(runs={slot_id(NOW): waiting(attempt=0)}, last_slot=NOW + 30)
        assert written(decide(job, NOW)).starts == slot_id(NOW)


class TestOverlap:
    @pytest.mark.parametrize(
        ("policy", "runs", "outcome"),
        [
            ("skip", [RUNNING], "OVERLAP"),
            ("skip", [waiting()], "OVERLAP"),
            ("queue", [RUNNING], "QUEUED"),
            ("queue", [waiting(due_at=NOW + 9_000)], "QUEUED"),
            ("queue", [RUNNING, QUEUED], "OVERLAP"),
            ("allow", [RUNNING], "STARTED"),
            ("allow", [RUNNING] * (MAX_ACTIVE - 1), "STARTED"),
            ("allow", [RUNNING] * MAX_ACTIVE, "OVERLAP"),
        ],
    )  # fmt: skip
    def test_the_policy_alone_decides(self, policy: str, runs: list[ActiveRun], outcome: str) -> None:
        active = {slot_id(NOW - number): run for number, run in enumerate(runs)}
        job = make_job(runs=active, document={"overlapPolicy": policy}, wakes=4, fence=20, starts=1)
        write = written(decide(job))
        assert write.reason == outcome
        row = write.job
        assert (row.next_slot, row.last_slot, row.wakes) == (NEXT + 60, NEXT, 0)
        assert write.hints == (Due(slot_id(NEXT + 60), 1, NEXT + 60),), "its winner arms the next: the chain goes on"
        assert dict(active.items()) == {slot: run for slot, run in row.runs.items() if slot != slot_id(NEXT)}
        if outcome == "OVERLAP":
            assert row.gap == Gap(first=NEXT, last=NEXT, count=1, reason=SkipReason.OVERLAP)
            assert slot_id(NEXT) not in row.runs
            assert (row.fence, row.starts, write.starts) == (20, 1, None)
            assert row.attention_at == row.bound(NEXT)
        elif outcome == "QUEUED":
            assert row.runs[slot_id(NEXT)] == ActiveRun(state=RunState.QUEUED, attempt=0, attempt_limit=4)
            assert (row.fence, row.starts, write.starts) == (20, 2, None)
            assert row.attention_at == row.bound(NEXT)
        else:
            assert row.runs[slot_id(NEXT)].state is RunState.RUNNING
            assert (row.fence, row.starts, write.starts) == (21, 2, slot_id(NEXT))

    def test_misfire_does_not_look_while_a_run_is_active(self) -> None:
        job = make_job(runs={slot_id(NOW): RUNNING}, document={"misfirePolicy": "run_once"})
        write = written(decide(job, now=NEXT + 3_600))
        assert write.job.gap == Gap(first=NEXT, last=NEXT, count=1, reason=SkipReason.OVERLAP)
        assert write.job.next_slot == NEXT + 60

    def test_slots_in_a_row_are_one_gap(self) -> None:
        old = Gap(first=NEXT - 120, last=NEXT - 60, count=2, reason=SkipReason.OVERLAP)
        job = make_job(runs={slot_id(NOW): RUNNING}, gap=old, last_slot=NEXT - 60)
        write = written(decide(job))
        assert write.job.gap == Gap(first=NEXT - 120, last=NEXT, count=3, reason=SkipReason.OVERLAP)
        assert write.flush is None

    @pytest.mark.parametrize(
        ("old", "last_slot"),
        [
            (Gap(first=NEXT - 180, last=NEXT - 120, count=2, reason=SkipReason.OVERLAP), NEXT - 60),
            (Gap(first=NEXT - 120, last=NEXT - 60, count=2, reason=SkipReason.PAUSED), NEXT - 60),
        ],
        ids=["a slot was started since", "another reason"],
    )
    def test_another_gap_is_put_into_history_first(self, old: Gap, last_slot: int) -> None:
        write = written(decide(make_job(runs={slot_id(NOW): RUNNING}, gap=old, last_slot=last_slot)))
        assert write.flush == old
        assert write.job.gap == Gap(first=NEXT, last=NEXT, count=1, reason=SkipReason.OVERLAP)


class TestMisfire:
    @pytest.mark.parametrize("policy", ["run_once", "skip", "run_all"])
    @pytest.mark.parametrize("late", [0, 1, 60])
    def test_up_to_the_grace_it_just_starts(self, policy: str, late: int) -> None:
        write = written(decide(make_job(document={"misfirePolicy": policy}), now=NEXT + late))
        assert (write.starts, write.job.gap, write.job.catch_up_to) == (slot_id(NEXT), None, None)

    def test_run_once_starts_the_latest_slot_more_than_the_grace_late(self) -> None:
        write = written(decide(make_job(), now=NEXT + 600))
        latest = NEXT + 480  # NEXT + 540 is not more than 60 s late
        assert write.starts == slot_id(latest)
        assert write.job.gap == Gap(first=NEXT, last=latest - 60, count=8, reason=SkipReason.MISFIRE)
        assert (write.job.next_slot, write.job.last_slot, write.job.starts) == (latest + 60, latest, 1)
        assert write.hints == (Due(slot_id(latest + 60), 1, latest + 60),)

    def test_skip_starts_none_of_them(self) -> None:
        write = written(decide(make_job(document={"misfirePolicy": "skip"}), now=NEXT + 600))
        assert (write.starts, write.reason) == (None, "MISFIRE")
        assert write.job.gap == Gap(first=NEXT, last=NEXT + 480, count=9, reason=SkipReason.MISFIRE)
        assert write.hints == (Due(slot_id(NEXT + 540), 1, NEXT + 540),)
        assert write.job.starts == 0

    def test_run_all_starts_the_oldest_and_the_others_wait_for_it(self) -> None:
        write = written(decide(make_job(document={"misfirePolicy": "run_all"}), now=NEXT + 600))
        assert write.starts == slot_id(NEXT)
        assert (write.job.next_slot, write.job.catch_up_to, write.job.gap) == (NEXT + 60, NEXT + 480, None)
        assert write.hints == (), "its end sends the hint of the next"
        assert write.job.next_waits

    def test_run_all_runs_a_hundred_at_most(self) -> None:
        write = written(decide(make_job(document={"misfirePolicy": "run_all"}), now=NEXT + 60 * 250))
        latest = NEXT + 60 * 248
        oldest = latest - 60 * (CATCH_UP_LIMIT - 1)
        assert write.starts == slot_id(oldest)
        assert write.job.catch_up_to == latest
        skipped = (oldest - NEXT) // 60
        assert write.job.gap == Gap(first=NEXT, last=oldest - 60, count=skipped, reason=SkipReason.MISFIRE)

    @pytest.mark.parametrize("policy", ["skip", "run_once", "run_all"])
    def test_a_one_time_job(self, policy: str) -> None:
        once = {"schedule": {"type": "once", "at": "2027-01-15T08:01:00Z"}, "misfirePolicy": policy}
        write = written(decide(make_job(document=once), now=NEXT + 3_600))
        if policy == "skip":
            assert write.starts is None
            assert write.job.last_run is not None
            assert write.job.last_run.outcome is Outcome.SKIPPED
            assert write.job.next_slot is None
        else:
            assert write.starts == slot_id(NEXT)
            assert write.job.gap is None

    def test_the_spread_is_no_lateness(self) -> None:
        job = make_job(spread=50)
        assert written(decide(job, now=NEXT + 50 + 60)).starts == slot_id(NEXT)
        assert written(decide(job, now=NEXT + 50 + 121)).starts == slot_id(NEXT + 60)

    def test_another_grace(self) -> None:
        job = make_job(document={"misfireGraceSeconds": 3_600})
        assert written(decide(job, now=NEXT + 3_600)).starts == slot_id(NEXT)


class TestBrake:
    """A runaway chain is held to 300 starts a minute of a job; what it holds is deferred, not lost."""

    def braked(self, **changes: Any) -> Job:
        return make_job(brake_minute=NEXT // 60, brake_count=STARTS_PER_MINUTE, fence=300, wakes=1, **changes)

    def test_a_slot_becomes_a_run_that_waits_for_the_next_minute(self) -> None:
        write = written(decide(self.braked(), now=NEXT + 1.5))
        later = NEXT + 60
        assert (write.reason, write.starts) == ("BRAKE", None)
        assert write.job.runs[slot_id(NEXT)] == ActiveRun(
            state=RunState.WAITING,
            attempt=0,
            attempt_limit=4,
            due_at=later,
            deferrals=1,
            deferred_for="BRAKE",
            deferred_at=NEXT + 1,
        )
        assert (write.job.next_slot, write.job.last_slot, write.job.fence) == (NEXT + 60, NEXT, 300)
        assert set(write.hints) == {Due(slot_id(NEXT + 60), 1, NEXT + 60), Due(slot_id(NEXT), 1, later)}
        assert write.job.attention_at is not None
        assert write.job.attention_at <= later + 30

    def test_a_retry_keeps_its_attempt_and_moves_to_the_next_minute(self) -> None:
        job = self.braked(runs={slot_id(NOW): waiting()})
        write = written(decide(job, NOW, 2, now=NEXT + 10))
        assert (write.reason, write.starts) == ("BRAKE", None)
        assert write.job.runs[slot_id(NOW)] == replace(
            waiting(), due_at=NEXT + 60, deferrals=1, deferred_for="BRAKE", deferred_at=NEXT + 10
        )
        assert write.hints == (Due(slot_id(NOW), 2, NEXT + 60),)
        assert write.job.fence == 300

    def test_it_lets_go_with_the_minute(self) -> None:
        write = written(decide(self.braked(), now=NEXT + 60))
        assert write.starts == slot_id(NEXT)
        assert (write.job.brake_minute, write.job.brake_count) == (NEXT // 60 + 1, 1)

    def test_it_counts_starts_within_the_minute(self) -> None:
        job = make_job(brake_minute=NEXT // 60, brake_count=STARTS_PER_MINUTE - 1)
        write = written(decide(job))
        assert write.starts == slot_id(NEXT)
        assert write.job.brake_count == STARTS_PER_MINUTE


class TestDeferral:
    """A start that is put off by reads before it: no fence, no attempt spent."""

    def test_a_slot_becomes_a_run_that_waits_and_the_next_slot_is_armed(self) -> None:
        deferral = Deferral(reason="CIRCUIT_OPEN", until=NEXT + 40)
        write = written(decide(make_job(), now=NEXT + 0.5, deferral=deferral))
        run = write.job.runs[slot_id(NEXT)]
        assert (run.state, run.attempt, run.due_at, run.fence) == (RunState.WAITING, 0, NEXT + 40, 0)
        assert (run.deferrals, run.deferred_for, run.deferred_at) == (1, "CIRCUIT_OPEN", NEXT)
        assert (write.starts, write.job.fence) == (None, 0)
        assert set(write.hints) == {Due(slot_id(NEXT + 60), 1, NEXT + 60), Due(slot_id(NEXT), 1, NEXT + 40)}

    def test_put_off_again_it_remembers_since_when(self) -> None:
        run = replace(waiting(), deferrals=2, deferred_for="BRAKE", deferred_at=NOW)
        deferral = Deferral(reason="CIRCUIT_OPEN", until=NEXT + 40)
        job = make_job(runs={slot_id(NOW): run})
        write = written(decide(job, NOW, 2, deferral=deferral))
        run = write.job.runs[slot_id(NOW)]
        assert (run.deferrals, run.deferred_for, run.deferred_at) == (3, "CIRCUIT_OPEN", NOW)

    def test_what_waits_for_others_gets_no_hint_and_is_looked_at_in_time(self) -> None:
        deferral = Deferral(reason="CONCURRENCY_LIMIT", until=NEXT, waits_for="key:team-a|db")
        write = written(decide(make_job(), deferral=deferral))
        assert write.job.runs[slot_id(NEXT)].waits_for == "key:team-a|db"
        assert write.hints == (Due(slot_id(NEXT + 60), 1, NEXT + 60),)
        assert write.job.attention_at is not None
        assert write.job.attention_at <= NEXT + 60

    def test_waiting_for_the_same_again_changes_nothing(self) -> None:
        run = replace(waiting(), waits_for="key:team-a|db", deferrals=1, deferred_at=NOW)
        deferral = Deferral(reason="CONCURRENCY_LIMIT", until=NEXT, waits_for="key:team-a|db")
        job = make_job(runs={slot_id(NOW): run})
        decision = decide(job, NOW, 2, deferral=deferral)
        assert decision == Drop("CONCURRENCY_LIMIT")

    def test_a_start_after_it_waits_for_nothing_and_its_history_tells_of_it(self) -> None:
        run = replace(waiting(), waits_for="key:team-a|db", deferrals=2, deferred_for="X", deferred_at=NOW)
        write = written(decide(make_job(runs={slot_id(NOW): run}), NOW, 2, now=NEXT))
        started = write.job.runs[slot_id(NOW)]
        assert (started.state, started.waits_for, started.deferrals) == (RunState.RUNNING, None, 2)

    def test_a_job_of_a_worker_queue_waits_for_a_worker_of_its_owner(self) -> None:
        job = make_job(document={"target": {"type": "worker", "queue": "reports"}})
        write = written(decide(job))
        assert (write.reason, write.starts) == ("WAITS_FOR_WORKER", None)
        assert write.job.runs[slot_id(NEXT)].waits_for == "worker:team-a/reports"

    def test_the_look_at_what_waits_comes_less_and_less_often(self) -> None:
        run = replace(waiting(), waits_for="x", due_at=NOW)
        looks = []
        for _ in range(8):
            looks.append(run.look_at(NOW) - NOW)
            run = run.looked(NOW + looks[-1])
        assert looks == [60, 120, 240, 480, 960, 1860, 2760, 3660]

    def test_a_look_that_is_due_stays_due_however_often_the_row_is_written(self) -> None:
        run = replace(waiting(), waits_for="x", due_at=NOW)
        assert {run.look_at(NOW + later) for later in (0, 30, 59, 60, 500)} == {NOW + 60}
        assert run.looked(NOW + 59) == run


def test_the_lease_outlives_the_timeout_by_its_margin_whatever_the_fraction() -> None:
    for now in (NEXT + 0.0, NEXT + 0.001, NEXT + 0.999):
        run = written(decide(make_job(), now=now)).job.runs[slot_id(NEXT)]
        assert run.lease_expires_at == math.ceil(now) + 75


def test_the_brake_defers_and_loses_nothing() -> None:
    """A job of every second that has almost used up its minute: what it holds back runs when the next one begins."""
    driver = Driver(World(clock=FakeClock(NOW)))
    job = driver.create(schedule={"type": "interval", "everySeconds": 1}, overlapPolicy="queue")
    driver.world.jobs.put(replace(job, brake_minute=NOW // 60, brake_count=STARTS_PER_MINUTE - 20))
    driver.run_until(NOW + 63.5)
    executions = driver.world.history.of(job.id)
    starts = [(slot_instant(row.slot_id) - NOW, row.started_at or 0) for row in executions]
    assert starts[:20] == [(second, NOW + second) for second in range(1, 21)]
    # The one that was braked, the one that queued behind it, and then each second again.
    assert starts[20:23] == [(21, NOW + 60), (22, NOW + 60), (60, NOW + 60)]
    [gap] = driver.world.history.gaps.values()
    assert (gap.first, gap.count, gap.reason) == (NOW + 23, 37, SkipReason.OVERLAP)
