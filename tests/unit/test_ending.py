"""How an attempt ends: its history row, then the job's row that follows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.domain.decision import Drop, Due, Write
from functions.domain.ending import attempts_before, decide_end, ended_from_outside, judge, lost
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus
from functions.domain.ids import slot_id
from functions.domain.job import Gap, Job, SkipReason
from functions.domain.outcome import TargetAnswer
from functions.domain.retry import RetryPolicy
from functions.domain.run import ActiveRun, LastRun, Outcome, RunState
from tests.factories import JOB_ID, NOW, make_execution, make_job, make_run

SLOT = slot_id(NOW)
LATER = slot_id(NOW + 60)
RUN = make_run(fence=5, started_at=NOW + 0.25)
GAP = Gap(first=NOW + 60, last=NOW + 60, count=1, reason=SkipReason.OVERLAP)


def running(**changes: Any) -> Job:
    return make_job(**{"runs": {SLOT: RUN}, "fence": 9, "last_slot": NOW, "wakes": 3, **changes})


def end(job: Job, execution: Execution, *, fence: int = 5, now: float = NOW + 10) -> Write:
    decision = decide_end(job, execution, fence=fence, now=now)
    assert isinstance(decision, Write)
    return decision


def completed(**changes: Any) -> Execution:
    return make_execution(slot_id=SLOT, fence=5, **changes)


def retried(**changes: Any) -> Execution:
    return completed(status=ExecutionStatus.FAILED, final=False, next_retry_at=NOW + 40, **changes)


class TestJudge:
    def judged(
        self,
        answer: TargetAnswer,
        run: ActiveRun = RUN,
        *,
        before: tuple[ExecutionError | None, ...] = (),
        **config: Any,
    ) -> Execution:
        job = running(runs={SLOT: run}, document={"retryConfig": {"jitter": 0, **config}})
        return judge(
            job, SLOT, answer, before=before, now=NOW + 9.87654, write_id="w", uniform=lambda a, b: (a + b) / 2
        )

    def test_success_is_final(self) -> None:
        found = self.judged(TargetAnswer(status=ExecutionStatus.COMPLETED, result="7"))
        assert found == Execution(
            job_id=JOB_ID,
            slot_id=SLOT,
            attempt=1,
            status=ExecutionStatus.COMPLETED,
            final=True,
            fence=5,
            write_id="w",
            started_at=NOW + 0.25,
            completed_at=NOW + 9.877,
            result="7",
        )

    @pytest.mark.parametrize("status", [ExecutionStatus.FAILED, ExecutionStatus.TIMED_OUT])
    def test_a_failure_with_attempts_left_has_its_retry_drawn_here(self, status: ExecutionStatus) -> None:
        error = ExecutionError(code="TIMEOUT", message="late")
        found = self.judged(TargetAnswer(status=status, error=error))
        assert (found.status, found.final, found.next_retry_at, found.reason, found.error) == (
            status,
            False,
            NOW + 20,
            "RETRY_SCHEDULED",
            error,
        )

    @pytest.mark.parametrize(
        ("run", "retryable", "reason"),
        [
            (replace(RUN, attempt=4), True, "RETRIES_EXHAUSTED"),
            (replace(RUN, attempt=5), True, "RETRIES_EXHAUSTED"),
            (RUN, False, "NOT_RETRYABLE"),
        ],
    )
    def test_other_failures_are_final(self, run: ActiveRun, retryable: bool, reason: str) -> None:
        found = self.judged(TargetAnswer(status=ExecutionStatus.FAILED, retryable=retryable), run)
        assert (found.final, found.next_retry_at, found.reason) == (True, None, reason)
        assert found.is_dead_letter

    def test_the_jitter_is_the_given_one(self) -> None:
        asked: list[tuple[float, float]] = []

        def low(a: float, b: float) -> float:
            asked.append((a, b))
            return a

        answer = TargetAnswer(status=ExecutionStatus.FAILED)
        job = running(document={"retryConfig": {"jitter": 0.5}})
        found = judge(job, SLOT, answer, before=(), now=NOW, write_id="w", uniform=low)
        assert (asked, found.next_retry_at) == ([(0.5, 1.5)], NOW + 5)


class TestPoison:
    """The same error three times in a row, counted from the last attempt that a caller asked for."""

    ERROR = ExecutionError(code="HTTP_500", message="the target answered 500")
    FAILED = TargetAnswer(status=ExecutionStatus.FAILED, error=ERROR)
    ON = RetryPolicy.read({"poisonDetection": True})

    @pytest.mark.parametrize(
        ("attempt", "asked", "wanted"),
        [
            (1, 0, ()),
            (2, 0, ()),
            (3, 0, (1, 2)),
            (7, 0, (5, 6)),
            (10, 0, ()),  # the last one allowed
            (5, 4, ()),
            (6, 4, (4, 5)),
        ],
    )
    def test_which_attempts_are_compared(self, attempt: int, asked: int, wanted: tuple[int, ...]) -> None:
        run = replace(RUN, attempt=attempt, attempt_limit=10, asked_attempt=asked)
        assert attempts_before(run, self.ON) == wanted
        assert attempts_before(run, RetryPolicy()) == ()

    def test_the_third_same_error_is_final_with_attempts_left(self) -> None:
        found = TestJudge().judged(self.FAILED, replace(RUN, attempt=3), before=(self.ERROR, self.ERROR))
        assert (found.final, found.next_retry_at, found.reason) == (True, None, "POISON")
        assert found.is_dead_letter

    @pytest.mark.parametrize(
        "before",
        [
            (ERROR, None),
            (None, ERROR),
            (replace(ERROR, code="HTTP_503"), ERROR),
            (ERROR, replace(ERROR, message="the target answered 500 to another line")),
            (),
        ],
        ids=["no second row", "no first row", "another code", "another message", "not asked for"],
    )
    def test_other_errors_are_retried(self, before: tuple[ExecutionError | None, ...]) -> None:
        found = TestJudge().judged(self.FAILED, replace(RUN, attempt=3), before=before)
        assert (found.final, found.reason) == (False, "RETRY_SCHEDULED")

    def test_what_would_be_final_anyway_keeps_its_reason(self) -> None:
        found = TestJudge().judged(
            replace(self.FAILED, retryable=False), replace(RUN, attempt=3), before=(self.ERROR, self.ERROR)
        )
        assert found.reason == "NOT_RETRYABLE"

    def test_an_open_circuit_says_nothing_of_the_run(self) -> None:
        error = ExecutionError(code="CIRCUIT_OPEN", message="open")
        answer = TargetAnswer(status=ExecutionStatus.FAILED, error=error)
        assert TestJudge().judged(answer, replace(RUN, attempt=3), before=(error, error)).reason == "RETRY_SCHEDULED"

    def test_an_attempt_that_is_lost_for_the_third_time_is_final(self) -> None:
        run = replace(RUN, attempt=3)
        gone = lost(JOB_ID, SLOT, run, before=(), now=NOW, write_id="w", message="gone").error
        found = lost(JOB_ID, SLOT, run, before=(gone, gone), now=NOW, write_id="w", message="gone")
        assert (found.final, found.next_retry_at, found.reason) == (True, None, "POISON")
        assert lost(JOB_ID, SLOT, run, before=(self.ERROR, gone), now=NOW, write_id="w", message="gone").final is False


class TestLost:
    @pytest.mark.parametrize(("attempt", "final"), [(1, False), (3, False), (4, True)])
    def test_an_attempt_is_spent_and_repeated_without_backoff(self, attempt: int, final: bool) -> None:
        found = lost(
            JOB_ID, SLOT, replace(RUN, attempt=attempt), before=(), now=NOW + 80.2, write_id="w", message="gone"
        )
        assert found.error is not None
        assert (found.status, found.error.code, found.attempt) == (ExecutionStatus.FAILED, "WORKER_LOST", attempt)
        assert (found.final, found.next_retry_at) == (final, None if final else NOW + 81)
        assert found.fence == 5


class TestEndedFromOutside:
    @pytest.mark.parametrize(
        ("run", "attempt", "started_at"),
        [
            (RUN, 1, NOW + 0.25),
            (make_run(state=RunState.WAITING, attempt=2, due_at=NOW), 3, None),
            (make_run(state=RunState.QUEUED, due_at=None), 1, None),
        ],
    )
    def test_it_takes_the_number_of_the_attempt_that_runs_or_would_come(
        self, run: ActiveRun, attempt: int, started_at: float | None
    ) -> None:
        found = ended_from_outside(
            JOB_ID, SLOT, run, status=ExecutionStatus.CANCELLED, reason="JOB_CANCELLED", now=NOW + 1, write_id="w"
        )
        assert (found.attempt, found.started_at, found.final) == (attempt, started_at, True)
        assert (found.status, found.reason, found.fence) == (ExecutionStatus.CANCELLED, "JOB_CANCELLED", run.fence)


class TestFollow:
    @pytest.mark.parametrize(
        ("job", "execution", "fence"),
        [
            (running(), completed(), 4),
            (running(), completed(), 6),
            (running(runs={}), completed(), 5),
            (running(runs={LATER: RUN}), completed(), 5),
            (running(runs={SLOT: replace(RUN, attempt=2)}), completed(), 5),
            (running(runs={SLOT: make_run(state=RunState.WAITING, attempt=1, fence=5)}), retried(), 5),
            (running(runs={SLOT: make_run(state=RunState.WAITING, attempt=1, fence=5)}), completed(), 5),
            (running(cancelled=True, runs={}, next_slot=None), completed(), 5),
        ],
        ids=["old fence", "other fence", "no run", "other slot", "later attempt", "waits", "ended", "cancelled"],
    )
    def test_a_run_that_is_no_longer_so_is_not_mine(self, job: Job, execution: Execution, fence: int) -> None:
        assert decide_end(job, execution, fence=fence, now=NOW + 10) == Drop("NOT_MINE")

    @pytest.mark.parametrize(
        ("status", "outcome"),
        [
            (ExecutionStatus.COMPLETED, Outcome.COMPLETED),
            (ExecutionStatus.FAILED, Outcome.PERMANENTLY_FAILED),
            (ExecutionStatus.TIMED_OUT, Outcome.PERMANENTLY_FAILED),
            (ExecutionStatus.CANCELLED, Outcome.CANCELLED),
        ],
    )
    def test_a_final_row_takes_the_run_out(self, status: ExecutionStatus, outcome: Outcome) -> None:
        write = end(running(), completed(status=status))
        row = write.job
        assert row.runs == {}
        assert row.last_run == LastRun(
            slot_id=SLOT,
            attempt=1,
            outcome=outcome,
            fence=5,
            ended_at=NOW + 10,
            error_code=None if outcome in (Outcome.COMPLETED, Outcome.CANCELLED) else "HTTP_503",
        )
        assert (row.wakes, row.attention_at, row.fence, row.next_slot) == (0, NOW + 90, 9, NOW + 60)
        assert (write.hints, write.starts, write.flush) == ((), None, None)

    def test_another_attempt_follows_at_the_instant_that_history_says(self) -> None:
        write = end(running(next_slot=None), retried())
        assert write.job.runs == {
            SLOT: ActiveRun(state=RunState.WAITING, attempt=1, attempt_limit=4, fence=5, due_at=NOW + 40)
        }
        assert write.job.last_run is None
        assert write.hints == (Due(SLOT, 2, NOW + 40),)
        assert write.job.attention_at == NOW + 70

    def test_a_paused_job_holds_it(self) -> None:
        write = end(running(paused=True), retried())
        assert write.hints == ()
        assert write.job.attention_at is None, "A22: at rest until it is resumed"
        manual = end(running(paused=True, runs={SLOT: replace(RUN, manual=True)}), retried())
        assert manual.hints == (Due(SLOT, 2, NOW + 40),)

    def test_the_gap_is_put_into_history_before_the_row_loses_it(self) -> None:
        write = end(running(gap=GAP, last_slot=NOW + 60), completed())
        assert (write.flush, write.job.gap) == (GAP, None)

    def test_the_end_that_leaves_nothing_active_releases_who_waits(self) -> None:
        """V8: in the same write, so that no lost message strands it."""
        queued = make_run(state=RunState.QUEUED, due_at=None, attempt=0)
        write = end(running(runs={SLOT: RUN, LATER: queued}), completed())
        assert write.job.runs == {LATER: replace(queued, state=RunState.WAITING, due_at=NOW + 10)}
        assert write.hints == (Due(LATER, 1, NOW + 10),)
        assert write.job.attention_at == NOW + 40

    def test_nobody_is_released_while_a_retry_waits(self) -> None:
        queued = make_run(state=RunState.QUEUED, due_at=None, attempt=0)
        write = end(running(runs={SLOT: RUN, LATER: queued}), retried())
        assert write.job.runs[LATER] == queued
        assert write.hints == (Due(SLOT, 2, NOW + 40),)

    def test_hints_of_others_are_not_sent_again(self) -> None:
        other = make_run(state=RunState.WAITING, attempt=1, due_at=NOW + 500)
        write = end(running(runs={SLOT: RUN, LATER: other}), completed())
        assert write.hints == ()

    def test_the_next_missed_slot_of_run_all_follows_the_one_before_it(self) -> None:
        job = running(catch_up_to=NOW + 120, next_slot=NOW + 60)
        assert end(job, completed()).hints == (Due(LATER, 1, NOW + 60),)
        assert end(replace(job, paused=True), completed()).hints == ()
        assert end(job, retried()).hints == (Due(SLOT, 2, NOW + 40),), "not while its retry waits"

    def test_a_cancel_that_died_before_the_row_ends_the_waiting_run(self) -> None:
        run = make_run(state=RunState.WAITING, attempt=1, due_at=NOW, fence=5)
        cancelled = completed(status=ExecutionStatus.CANCELLED, attempt=2)
        write = end(running(runs={SLOT: run}), cancelled)
        assert write.job.runs == {}
        assert write.job.last_run is not None
        assert write.job.last_run.outcome is Outcome.CANCELLED
