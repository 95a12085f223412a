"""What callers' actions do to a row, line by line of the table for actions (docs/job-lifecycle.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.domain.cancellation import armed_hints, decide_cancel, executions_to_cancel
from functions.domain.commands import (
    MAX_ATTEMPTS,
    decide_change,
    decide_execute,
    decide_gap_written,
    decide_pause,
    decide_resume,
    decide_retry,
    new_job,
)
from functions.domain.decision import Drop, Due, Write, waiting_hints
from functions.domain.errors import ConflictError, InvalidFieldError
from functions.domain.execution import ExecutionStatus
from functions.domain.ids import slot_id
from functions.domain.job import Gap, Job, JobStatus, SkipReason
from functions.domain.overlap import MAX_ACTIVE
from functions.domain.run import ActiveRun, LastRun, Outcome, RunState
from tests.factories import JOB_ID, NOW, make_definition, make_job, make_run

NEXT = NOW + 60
SLOT = slot_id(NOW)
MANUAL = f"{NOW}mabcdefgh"
MARK = "mark"
ONCE = {"schedule": {"type": "once", "at": "2027-01-15T08:01:00Z"}}
RUN = make_run(fence=3)
WAITING = make_run(state=RunState.WAITING, attempt=2, due_at=NOW + 500, fence=3)
QUEUED = make_run(state=RunState.QUEUED, due_at=None)
GAP = Gap(first=NOW - 60, last=NOW - 60, count=1, reason=SkipReason.OVERLAP)
FAILED = LastRun(slot_id=SLOT, attempt=4, outcome=Outcome.PERMANENTLY_FAILED, fence=2, ended_at=NOW)


def pause(job: Job, now: float = NOW + 10) -> Any:
    return decide_pause(job, now=now, write_id=MARK)


def resume(job: Job, now: float = NOW + 10) -> Any:
    return decide_resume(job, now=now, write_id=MARK)


def change(job: Job, now: float = NOW + 10, *, enabled: bool | None = None, **document: Any) -> Write:
    definition = make_definition(**document)
    write = decide_change(job, definition, enabled=enabled, now=now, write_id=MARK)
    assert isinstance(write, Write)
    return write


def execute(job: Job, now: float = NOW + 10) -> Write:
    return decide_execute(job, MANUAL, now=now, write_id=MARK)


def retry(job: Job, now: float = NOW + 10, delay: int = 0) -> Write:
    return decide_retry(job, delay=delay, now=now, write_id=MARK)


def cancel(job: Job, now: float = NOW + 10, *, deleted: bool = False) -> Any:
    return decide_cancel(job, deleted=deleted, now=now, write_id=MARK)


@pytest.mark.parametrize("action", [pause, resume, change, execute, retry])
def test_a_cancelled_job_stays_as_it_is(action: Callable[[Job], object]) -> None:
    with pytest.raises(ConflictError, match="CANCELLED"):
        action(make_job(cancelled=True, next_slot=None, last_run=FAILED))


class TestNew:
    def make(self, *, enabled: bool = True, now: float = NOW + 0.9, **document: Any) -> Job:
        definition = make_definition(created_at=int(now), **document)
        return new_job(JOB_ID, definition, owner="team-a", created_by="alice", enabled=enabled, now=now, write_id=MARK)

    def test_a_job_at_its_creation(self) -> None:
        job = self.make()
        assert (job.next_slot, job.attention_at, job.status) == (NOW + 60, NOW + 90, JobStatus.SCHEDULED)
        assert (job.seq, job.revision, job.write_id, job.revised_by) == (1, 1, MARK, MARK)
        assert waiting_hints(job) == (Due(slot_id(NOW + 60), 1, NOW + 60),)

    def test_one_that_is_not_enabled_is_at_rest(self) -> None:
        job = self.make(enabled=False)
        assert (job.status, job.attention_at, waiting_hints(job)) == (JobStatus.PAUSED, None, ())

    def test_start_and_end(self) -> None:
        job = self.make(startAt="2027-01-15T09:00:00Z", endAt="2027-01-15T09:01:00Z")
        assert job.next_slot == NOW + 3_600
        with pytest.raises(InvalidFieldError):
            self.make(startAt="2027-01-15T09:00:30Z", endAt="2027-01-15T09:00:29Z")

    def test_a_spread_job_is_due_later_than_its_slot(self) -> None:
        job = self.make(spreadSeconds=60)
        assert waiting_hints(job) == (Due(slot_id(NOW + 60), 1, NOW + 60 + job.spread),)
        assert job.attention_at == NOW + 90 + job.spread


class TestPause:
    def test_what_runs_goes_on_and_what_waits_is_held(self) -> None:
        write = pause(make_job(runs={SLOT: RUN, "w": WAITING}, wakes=3))
        assert (write.job.paused, write.job.wakes, write.hints, write.flush) == (True, 0, (), None)
        assert write.job.attention_at == RUN.lease_expires_at
        assert dict(write.job.runs) == {SLOT: RUN, "w": WAITING}
        assert (write.job.revision, write.job.revised_by, write.job.next_slot) == (2, MARK, NEXT)

    def test_nothing_running_is_at_rest(self) -> None:
        assert pause(make_job(runs={"w": WAITING})).job.attention_at is None

    def test_a_manual_run_is_not_held(self) -> None:
        write = pause(make_job(runs={MANUAL: replace(WAITING, manual=True)}))
        assert write.job.attention_at == NOW + 530

    def test_twice_is_once(self) -> None:
        assert pause(make_job(paused=True)) == Drop("PAUSED_ALREADY")


class TestResume:
    def test_slots_in_the_pause_are_passed_over(self) -> None:
        write = resume(make_job(paused=True, wakes=2), NOW + 200.5)
        row = write.job
        assert (row.paused, row.wakes, row.next_slot, row.last_slot) == (False, 0, NOW + 240, NOW + 180)
        assert row.gap == Gap(first=NEXT, last=NOW + 180, count=3, reason=SkipReason.PAUSED)
        assert write.hints == (Due(slot_id(NOW + 240), 1, NOW + 240),)
        assert row.attention_at == NOW + 270
        assert (row.revision, row.revised_by) == (2, MARK)

    def test_none_due_is_none_passed_over(self) -> None:
        write = resume(make_job(paused=True))
        assert (write.job.next_slot, write.job.gap) == (NEXT, None)

    def test_an_overdue_one_time_job_runs(self) -> None:
        write = resume(make_job(paused=True, document=ONCE), NOW + 9_000)
        assert (write.job.next_slot, write.job.gap) == (NEXT, None)
        assert write.hints == (Due(slot_id(NEXT), 1, NEXT),)

    def test_all_that_waits_is_sent(self) -> None:
        write = resume(make_job(paused=True, runs={"w": WAITING, SLOT: RUN}))
        assert write.hints == (Due("w", 3, NOW + 500), Due(slot_id(NEXT), 1, NEXT))

    def test_never_before_the_last_slot(self) -> None:
        """V9: a clock ahead started the slot of the very second that this one has not reached."""
        write = resume(make_job(paused=True, last_slot=NEXT, next_slot=NEXT + 60), NEXT - 1)
        assert write.job.next_slot == NEXT + 60

    def test_a_gap_of_another_reason_is_flushed(self) -> None:
        write = resume(make_job(paused=True, gap=GAP, last_slot=NOW - 60), NOW + 100)
        assert write.flush == GAP
        assert write.job.gap is not None
        assert write.job.gap.reason is SkipReason.PAUSED

    def test_not_paused_is_no_change(self) -> None:
        assert resume(make_job()) == Drop("NOT_PAUSED")


class TestChange:
    def test_a_new_tag_moves_nothing(self) -> None:
        job = make_job(runs={"w": WAITING, SLOT: RUN}, catch_up_to=NEXT, last_slot=NOW)
        write = change(job, tags=["x"])
        assert dict(write.job.runs) == dict(job.runs)
        assert (write.job.next_slot, write.job.last_slot, write.job.catch_up_to) == (NEXT, NOW, NEXT)
        assert (write.hints, write.flush, write.job.revision) == ((), None, 2)
        assert write.job.defined.document["tags"] == ["x"]

    def test_a_new_schedule_takes_the_next_slot_after_now(self) -> None:
        write = change(make_job(), NOW + 10, schedule={"type": "interval", "everySeconds": 25})
        assert (write.job.next_slot, write.job.gap) == (NOW + 25, None)
        assert write.hints == (Due(slot_id(NOW + 25), 1, NOW + 25),)
        assert write.job.attention_at == NOW + 55

    def test_never_a_slot_that_was_taken(self) -> None:
        """V9: strictly after max(now, last)."""
        job = make_job(last_slot=NOW + 75, next_slot=NOW + 120)
        assert change(job, NOW + 10, schedule={"type": "interval", "everySeconds": 25}).job.next_slot == NOW + 100

    @pytest.mark.parametrize("paused", [False, True])
    def test_what_was_due_is_passed_over_and_not_forgotten(self, paused: bool) -> None:
        job = make_job(paused=paused)
        write = change(job, NOW + 200, schedule={"type": "interval", "everySeconds": 3_600})
        assert write.job.gap == Gap(first=NEXT, last=NOW + 180, count=3, reason=SkipReason.SCHEDULE_CHANGED)
        assert (write.job.last_slot, write.job.next_slot) == (NOW + 180, NOW + 3_600)
        assert bool(write.hints) is not paused

    def test_a_slot_that_has_come_is_skipped_where_the_job_may_run_no_more(self) -> None:
        write = change(make_job(starts=1), NEXT + 10, maxRuns=1)
        assert write.job.gap == Gap(first=NEXT, last=NEXT, count=1, reason=SkipReason.SCHEDULE_CHANGED)
        assert write.job.next_slot is None

    def test_a_running_one_time_job_keeps_its_schedule(self) -> None:
        started = make_job(document=ONCE, next_slot=None, last_slot=NEXT, runs={slot_id(NEXT): RUN})
        other = {"type": "once", "at": "2027-01-15T09:00:00Z"}
        with pytest.raises(ConflictError, match="started"):
            change(started, NEXT + 5, schedule=other)
        assert change(started, NEXT + 5, **ONCE, tags=["x"]).job.runs == started.runs

    def test_an_ended_recurring_job_comes_alive_again(self) -> None:
        ended = make_job(next_slot=None, last_slot=NOW, document={"maxRuns": 1}, starts=1)
        assert ended.status is JobStatus.COMPLETED
        assert change(ended, NOW + 100, maxRuns=2).job.next_slot == NOW + 120
        assert (
            change(ended, NOW + 100, maxRuns=1, schedule={"type": "interval", "everySeconds": 9}).job.next_slot is None
        )

    def test_from_recurring_to_once_and_a_slot_that_was_taken_is_refused(self) -> None:
        assert change(make_job(), **ONCE).job.next_slot == NEXT
        with pytest.raises(InvalidFieldError) as refused:
            change(make_job(last_slot=NEXT, next_slot=NEXT + 60), NEXT + 1, **ONCE)
        assert refused.value.field == "schedule.at"

    def test_a_job_whose_definition_is_lost_gets_a_new_one(self) -> None:
        lost = replace(make_job(next_slot=None, last_slot=NOW + 60, last_run=FAILED), definition=None)
        assert change(lost, NOW + 100).job.next_slot == NOW + 120

    def test_and_the_slot_that_was_due_meanwhile_is_not_forgotten(self) -> None:
        write = change(replace(make_job(), definition=None), NOW + 200)
        assert write.job.gap == Gap(first=NEXT, last=NEXT, count=1, reason=SkipReason.SCHEDULE_CHANGED)
        assert (write.job.last_slot, write.job.next_slot) == (NEXT, NOW + 240)

    def test_enabled_in_a_change_is_pause_and_resume(self) -> None:
        off = change(make_job(), enabled=False)
        assert (off.job.paused, off.hints, off.job.attention_at) == (True, (), None)
        on = change(make_job(paused=True, runs={"w": WAITING}), NOW + 100, enabled=True)
        assert on.job.gap == Gap(first=NEXT, last=NEXT, count=1, reason=SkipReason.PAUSED)
        assert on.hints == (Due("w", 3, NOW + 500), Due(slot_id(NOW + 120), 1, NOW + 120))
        assert change(make_job(paused=True), enabled=None, tags=["new"]).job.paused

    def test_a_new_spread_counts_from_the_next_slot(self) -> None:
        write = change(make_job(), spreadSeconds=50)
        assert write.job.spread == make_definition(spreadSeconds=50).schedule.spread_offset > 0
        assert write.hints == (Due(slot_id(NEXT), 1, NEXT + write.job.spread),)


class TestExecute:
    @pytest.mark.parametrize("paused", [False, True])
    def test_a_run_of_its_own_beside_the_schedule(self, paused: bool) -> None:
        job = make_job(paused=paused, wakes=2, document={"retryConfig": {"maxRetries": 1}})
        write = execute(job, NOW + 10.7)
        assert dict(write.job.runs) == {
            MANUAL: ActiveRun(state=RunState.WAITING, attempt=0, attempt_limit=2, due_at=NOW + 10, manual=True)
        }
        assert write.hints == (Due(MANUAL, 1, NOW + 10),)
        assert (write.job.next_slot, write.job.last_slot, write.job.starts, write.job.wakes) == (NEXT, None, 0, 0)
        assert write.job.attention_at == NOW + 40, "min(att, now + 30)"
        assert (write.job.revision, write.job.revised_by) == (1, MARK)

    def test_attention_is_not_moved_later(self) -> None:
        assert execute(make_job(attention_at=NOW + 15)).job.attention_at == NOW + 15

    @pytest.mark.parametrize(
        ("policy", "runs", "outcome"),
        [
            ("skip", {SLOT: RUN}, "skip"),
            ("skip", {SLOT: WAITING}, "skip"),
            ("queue", {SLOT: RUN}, None),
            ("queue", {SLOT: RUN, "q": QUEUED}, "queue"),
            ("allow", {SLOT: RUN}, None),
            ("allow", {str(number): RUN for number in range(MAX_ACTIVE)}, "10 runs"),
        ],
    )
    def test_the_overlap_policy_says_whether_there_is_room(
        self, policy: str, runs: dict[str, ActiveRun], outcome: str | None
    ) -> None:
        job = make_job(runs=runs, document={"overlapPolicy": policy})
        if outcome is not None:
            with pytest.raises(ConflictError, match=outcome):
                execute(job)
            return
        write = execute(job)
        run = write.job.runs[MANUAL]
        if policy == "queue":
            assert (run.state, run.due_at, run.manual, write.hints) == (RunState.QUEUED, None, True, ())
        else:
            assert (run.state, write.hints) == (RunState.WAITING, (Due(MANUAL, 1, NOW + 10),))


class TestRetry:
    @pytest.mark.parametrize("paused", [False, True])
    def test_a_waiting_run_is_retried_now(self, paused: bool) -> None:
        job = make_job(runs={SLOT: WAITING}, paused=paused, document={"retryConfig": {"maxRetries": 1}}, fence=8)
        write = retry(job, NOW + 10.5, delay=20)
        assert write.job.runs[SLOT] == ActiveRun(
            state=RunState.WAITING,
            attempt=2,
            attempt_limit=4,
            fence=3,
            due_at=NOW + 31,
            manual=True,
            forced=True,
            asked_attempt=3,
        )
        assert write.hints == (Due(SLOT, 3, NOW + 31),)
        assert write.job.fence == 8
        assert write.job.attention_at is not None
        assert write.job.attention_at <= NOW + 61

    def test_of_several_the_one_that_is_due_first(self) -> None:
        runs = {"a": WAITING, "b": replace(WAITING, due_at=NOW + 100), "c": RUN}
        job = make_job(runs=runs, document={"overlapPolicy": "allow"})
        assert retry(job).hints[0].slot_id == "b"

    def test_the_last_run_that_failed_goes_on_counting(self) -> None:
        write = retry(make_job(last_run=FAILED, fence=8))
        assert write.job.runs[SLOT] == ActiveRun(
            state=RunState.WAITING,
            attempt=4,
            attempt_limit=8,
            fence=2,
            due_at=NOW + 10,
            manual=True,
            forced=True,
            asked_attempt=5,
        )
        assert write.hints == (Due(SLOT, 5, NOW + 10),)
        assert write.job.fence == 8, "job-wide: the next start takes the next one (V6)"
        assert write.job.last_slot is None

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({}, "no run has ended"),
            ({"last_run": replace(FAILED, outcome=Outcome.COMPLETED)}, "COMPLETED"),
            ({"last_run": replace(FAILED, outcome=Outcome.CANCELLED)}, "CANCELLED"),
            ({"last_run": replace(FAILED, outcome=Outcome.SKIPPED)}, "SKIPPED"),
            ({"last_run": FAILED, "runs": {SLOT: RUN}}, "just now"),
            ({"last_run": FAILED, "runs": {"other": RUN}}, "skip"),
            ({"last_run": FAILED, "runs": {"other": RUN}, "document": {"overlapPolicy": "queue"}}, "queue"),
            ({"last_run": replace(FAILED, attempt=MAX_ATTEMPTS)}, "9999 is the limit"),
        ],
    )
    def test_anything_else_is_a_conflict_that_says_why(self, changes: dict[str, Any], said: str) -> None:
        with pytest.raises(ConflictError, match=said):
            retry(make_job(**changes))

    def test_beside_another_run_where_the_policy_allows_it(self) -> None:
        job = make_job(last_run=FAILED, runs={"other": RUN}, document={"overlapPolicy": "allow"})
        assert set(retry(job).job.runs) == {"other", SLOT}


class TestCancel:
    def test_every_run_is_history_first(self) -> None:
        job = make_job(runs={SLOT: RUN, "1800000030": WAITING, "1800000040": QUEUED})
        found = executions_to_cancel(job, now=NOW + 10, write_id="w")
        assert [(row.slot_id, row.attempt, row.status, row.final) for row in found] == [
            (SLOT, 1, ExecutionStatus.CANCELLED, True),
            ("1800000030", 3, ExecutionStatus.CANCELLED, True),
            ("1800000040", 1, ExecutionStatus.CANCELLED, True),
        ]
        assert {row.reason for row in found} == {"JOB_CANCELLED"}

    def test_then_one_write_ends_it_all(self) -> None:
        write = cancel(make_job(runs={SLOT: RUN, "1800000030": WAITING}, fence=6, wakes=2, catch_up_to=NEXT))
        row = write.job
        assert (row.cancelled, dict(row.runs), row.next_slot, row.catch_up_to, row.fence) == (True, {}, None, None, 7)
        assert (row.attention_at, row.gap, row.deleted_at, row.status) == (None, None, None, JobStatus.CANCELLED)
        assert row.last_run is not None
        assert (row.last_run.slot_id, row.last_run.outcome) == ("1800000030", Outcome.CANCELLED)
        assert write.hints == ()

    def test_slots_that_were_due_are_not_forgotten(self) -> None:
        write = cancel(make_job(), NOW + 200)
        assert write.job.gap == Gap(first=NEXT, last=NOW + 180, count=3, reason=SkipReason.JOB_CANCELLED)
        assert write.job.attention_at == NOW + 230
        done = decide_gap_written(write.job, now=NOW + 201)
        assert isinstance(done, Write)
        assert (done.flush, done.job.gap, done.job.attention_at) == (write.job.gap, None, None)
        assert decide_gap_written(done.job, now=NOW + 201) == Drop("NO_GAP")

    def test_a_slot_that_has_come_is_not_forgotten_while_its_start_is_spread(self) -> None:
        write = cancel(make_job(spread=30), NEXT + 10)
        assert write.job.gap == Gap(first=NEXT, last=NEXT, count=1, reason=SkipReason.JOB_CANCELLED)

    def test_the_overdue_slot_of_a_job_whose_definition_is_lost(self) -> None:
        write = cancel(replace(make_job(gap=GAP, last_slot=NOW - 60), definition=None), NOW + 200)
        assert write.flush == GAP
        assert write.job.gap == Gap(first=NEXT, last=NEXT, count=1, reason=SkipReason.JOB_CANCELLED)

    def test_twice_is_once_and_what_is_over_cannot_be(self) -> None:
        assert cancel(make_job(cancelled=True, next_slot=None)) == Drop("CANCELLED_ALREADY")
        over = make_job(next_slot=None, last_run=replace(FAILED, outcome=Outcome.COMPLETED))
        with pytest.raises(ConflictError, match="COMPLETED"):
            cancel(over)

    def test_delete_also_takes_what_is_over(self) -> None:
        over = make_job(next_slot=None, last_run=replace(FAILED, outcome=Outcome.COMPLETED))
        write = cancel(over, deleted=True)
        assert (write.job.deleted_at, write.job.cancelled, write.job.last_run) == (NOW + 10, False, over.last_run)
        again = cancel(make_job(cancelled=True, next_slot=None, last_run=FAILED), deleted=True)
        assert (again.job.deleted_at, again.job.cancelled) == (NOW + 10, True)
        alive = cancel(make_job(), deleted=True)
        assert (alive.job.deleted_at, alive.job.cancelled, alive.reason) == (NOW + 10, True, "DELETED")


def test_schedules_to_take_back_are_those_of_all_that_waits_held_or_not() -> None:
    job = make_job(paused=True, runs={"w": WAITING, SLOT: RUN})
    assert set(armed_hints(job)) == {Due("w", 3, NOW + 500), Due(slot_id(NEXT), 1, NEXT)}
