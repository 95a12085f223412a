"""The lean end: one write ends a one-time job's first attempt, unless somebody has revoked its leave to."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.domain.decision import Drop, Write
from functions.domain.errors import ConflictError, LostRaceError
from functions.domain.execution import Execution, ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.ids import slot_id
from functions.domain.job import Gap, Job, JobStatus, SkipReason
from functions.domain.lean import (
    LEAN_RESULT_BYTES,
    decide_lean_end,
    decide_revoke,
    displaced,
    fits_the_row,
    has_lean_run,
    kept_execution,
    may_end_lean,
)
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.run import LastRun, Outcome, RunState
from functions.usecases.actions import execute_job, pause_job, resume_job, retry_job
from functions.usecases.cancelling import cancel_execution, cancel_job, delete_job
from functions.usecases.executor import conclude
from functions.usecases.history import job_history, read_execution
from functions.usecases.jobs import JobDraft, change_job
from functions.usecases.sweep import visit
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW, make_document, make_execution, make_job, make_run, new_id
from tests.fakes import FakeClock, World
from tests.faults import Crash, Faults
from tests.flows import AT, FAILED, LONG, MINUTELY, OK, ONCE

SLOT = slot_id(AT)
MANUAL = f"{AT}mabcdefgh"
SMALL = f'"{"x" * (LEAN_RESULT_BYTES - 2)}"'


def started(**faults: Any) -> Driver:
    return Driver(World(clock=FakeClock(NOW), faults=Faults(**faults)))


def running(**changes: Any) -> Job:
    """A one-time job whose first attempt runs."""
    runs = {SLOT: make_run(fence=3, started_at=AT + 0.123)}
    return make_job(
        **{"document": {"schedule": ONCE}, "next_slot": None, "runs": runs, "fence": 3, "lean": True, **changes}
    )


def success(**changes: Any) -> Execution:
    return make_execution(
        **{"slot_id": SLOT, "fence": 3, "started_at": AT + 0.123, "completed_at": AT + 0.456, **changes}
    )


def end(job: Job, execution: Execution) -> Write | Drop:
    return decide_lean_end(job, execution, now=AT + 0.5, write_id="mark")


class TestTheDecision:
    def test_the_row_keeps_all_of_the_execution(self) -> None:
        execution = success(result='{"rows":3}')
        ended = end(running(), execution)
        assert isinstance(ended, Write)
        assert ended.job.status is JobStatus.COMPLETED
        assert (ended.job.runs, ended.job.attention_at) == ({}, None)
        assert kept_execution(ended.job) == replace(execution, write_id="mark")

    @pytest.mark.parametrize(
        ("job", "execution"),
        [
            (running(lean=False), success()),
            (running(runs={}), success()),
            (running(), success(fence=2)),
            (running(), success(attempt=2)),
            (running(runs={SLOT: make_run(fence=3, attempt=2)}), success(attempt=2)),
            (running(runs={SLOT: make_run(fence=3, state=RunState.WAITING)}), success()),
            (running(runs={MANUAL: make_run(fence=3, manual=True)}), success(slot_id=MANUAL)),
        ],
        ids=["revoked", "gone", "another start", "another attempt", "a retry", "waiting", "by hand"],
    )
    def test_it_is_not_for(self, job: Job, execution: Execution) -> None:
        assert isinstance(end(job, execution), Drop)

    def test_a_gap_goes_to_history_first_and_a_queued_run_is_released(self) -> None:
        gap = Gap(first=NOW, last=NOW, count=1, reason=SkipReason.PAUSED)
        queued = make_run(state=RunState.QUEUED, manual=True, due_at=None)
        runs = {**running().runs, MANUAL: queued}
        ended = end(running(gap=gap, runs=runs), success())
        assert isinstance(ended, Write)
        assert (ended.flush, ended.job.gap) == (gap, None)
        assert [hint.slot_id for hint in ended.hints] == [MANUAL]

    @pytest.mark.parametrize(
        ("changes", "fits"),
        [
            ({"result": None}, True),
            ({"result": SMALL}, True),
            ({"result": SMALL.replace("x", "ä", 1)}, False),
            ({"status": ExecutionStatus.FAILED}, False),
            ({"status": ExecutionStatus.CANCELLED}, False),
            ({"reason": "A_REASON_THE_ROW_HAS_NO_PLACE_FOR"}, False),
        ],
    )
    def test_the_row_has_room_for_a_short_success(self, changes: dict[str, Any], fits: bool) -> None:
        assert fits_the_row(success(**changes)) is fits

    def test_the_leave_is_for_first_attempts_of_scheduled_slots(self) -> None:
        assert may_end_lean(running(), SLOT, 1)
        assert not may_end_lean(running(), SLOT, 2)
        assert not may_end_lean(running(), MANUAL, 1)
        assert not may_end_lean(running(lean=False), SLOT, 1)

    @pytest.mark.parametrize(
        ("run", "can"),
        [
            (make_run(), True),
            (make_run(state=RunState.WAITING), True),
            (make_run(state=RunState.QUEUED), True),
            (make_run(attempt=2), False),
            (make_run(state=RunState.WAITING, attempt=1), False),
        ],
    )
    def test_who_revokes_looks_at_what_runs_and_what_may_start(self, run: Any, can: bool) -> None:
        assert has_lean_run(running(runs={SLOT: run})) is can

    def test_a_revoke_changes_nothing_else(self) -> None:
        job = running(attention_at=AT + 30, wakes=2)
        revoked = decide_revoke(job)
        assert isinstance(revoked, Write)
        assert revoked.job == replace(job, lean=False)
        assert decide_revoke(revoked.job) == revoked.job

    def test_only_a_row_that_loses_a_kept_execution_displaces_it(self) -> None:
        kept = replace(running(), runs={}, last_run=_last(ended_by="w1"))
        other = replace(kept, last_run=_last(ended_by=None, attempt=2))
        assert displaced(kept, replace(kept, paused=True)) is None
        assert displaced(other, replace(other, last_run=None)) is None
        assert displaced(kept, other) == kept_execution(kept)


def _last(**changes: Any) -> LastRun:
    last = LastRun(slot_id=SLOT, attempt=1, outcome=Outcome.COMPLETED, fence=3, ended_at=AT, completed_at=AT + 0.5)
    return replace(last, **changes)


class TestWhoMayEndLean:
    def test_a_one_time_job_until_it_becomes_recurring(self) -> None:
        driver = started()
        job = driver.create(schedule=ONCE)
        assert job.lean
        assert not driver.create(schedule=MINUTELY).lean
        for schedule, lean in ((ONCE, True), (MINUTELY, False), (ONCE, False)):
            draft = JobDraft(document=make_document(schedule=schedule, tags=["new"]), payload="{}")
            changed = change_job(driver.services, SCHEDULER, job.id, change=lambda _, draft=draft: draft)
            assert changed.lean is lean

    @pytest.mark.parametrize(("answer", "rows"), [(OK, 0), (LONG, 1)])
    def test_one_write_ends_it_unless_the_result_is_long(self, answer: TargetAnswer, rows: int) -> None:
        driver = started()
        driver.world.targets.answers = [answer]
        job = driver.create(schedule=ONCE)
        driver.world.faults.steps.clear()
        driver.run_until(NOW + 20)
        ends = ["history.record"] * rows
        assert driver.world.faults.steps == ["jobs.save", "targets.call", *ends, "jobs.save"]
        assert len(driver.world.history.executions) == rows
        assert driver.row(job.id).status is JobStatus.COMPLETED
        [execution] = driver.executions(job.id)
        assert (execution.status, execution.final, execution.result) == ("COMPLETED", True, answer.result)

    def test_a_retry_has_its_rows_in_history(self) -> None:
        driver = started()
        driver.world.targets.answers = [FAILED, OK]
        job = driver.create(schedule=ONCE, retryConfig={"initialDelaySeconds": 5})
        driver.run_until(NOW + 60)
        assert [one.attempt for one in driver.world.history.of(job.id)] == [1, 2]
        assert kept_execution(driver.row(job.id)) is None


def ended_lean() -> tuple[Driver, Job]:
    driver = started()
    job = driver.create(schedule=ONCE)
    driver.run_until(NOW + 20)
    assert driver.world.history.executions == {}
    return driver, driver.row(job.id)


class TestReading:
    def test_it_is_shown_as_any_other(self) -> None:
        driver, job = ended_lean()
        [execution] = job_history(driver.services, SCHEDULER, job.id).items
        assert isinstance(execution, Execution)
        assert (execution.id, execution.attempt, execution.final) == (f"{job.id}-{SLOT}-0001", 1, True)
        assert (execution.started_at, execution.completed_at, execution.result) == (AT, AT, "null")
        assert read_execution(driver.services, SCHEDULER, execution.id) == execution

    def test_cancelling_it_is_a_conflict_and_so_is_a_retry(self) -> None:
        driver, job = ended_lean()
        with pytest.raises(ConflictError, match="COMPLETED"):
            cancel_execution(driver.services, SCHEDULER, f"{job.id}-{SLOT}-0001")
        with pytest.raises(ConflictError, match="COMPLETED"):
            retry_job(driver.services, SCHEDULER, job.id)

    def test_pages_beside_runs_by_hand(self) -> None:
        driver, job = ended_lean()
        for _ in range(3):
            execute_job(driver.services, SCHEDULER, job.id)
            driver.run(30)
        found, cursor = [], None
        while True:
            page = job_history(driver.services, SCHEDULER, job.id, limit=1, cursor=cursor)
            found += [entry.id for entry in page.items if isinstance(entry, Execution)]
            if (cursor := page.cursor) is None:
                break
        assert len(found) == len(set(found)) == 4
        assert found[-1] == f"{job.id}-{SLOT}-0001"


class TestWhatReplacesIt:
    @pytest.mark.parametrize("step", range(1, 9))
    @pytest.mark.parametrize("when", ["crash_before", "crash_after"])
    def test_history_has_it_before_the_row_loses_it(self, step: int, when: str) -> None:
        driver, job = ended_lean()
        execute_job(driver.services, SCHEDULER, job.id)
        driver.world.faults.inject(**{when: step})
        driver.run(5)
        assert any(one.slot_id == SLOT for one in driver.executions(job.id)), "at any time"
        driver.world.faults.disarm()
        driver.run(900)
        assert driver.executions(job.id)[0].slot_id == SLOT
        assert driver.world.history.get(job.id, SLOT, 1) is not None
        assert kept_execution(driver.row(job.id)) is None

    @pytest.mark.parametrize("end", [cancel_job, delete_job])
    def test_a_cancel_of_a_later_run_keeps_it(self, end: Callable[..., object]) -> None:
        driver, job = ended_lean()
        execute_job(driver.services, SCHEDULER, job.id)
        end(driver.services, SCHEDULER, job.id)
        stored = driver.world.history.get(job.id, SLOT, 1)
        assert stored is not None
        assert stored.status is ExecutionStatus.COMPLETED

    def test_callers_who_leave_it_in_place_write_no_history(self) -> None:
        driver, job = ended_lean()
        pause_job(driver.services, SCHEDULER, job.id)
        resume_job(driver.services, SCHEDULER, job.id)
        assert driver.world.history.executions == {}
        assert kept_execution(driver.row(job.id)) is not None


def in_the_call(driver: Driver, act: Callable[[Invocation], object]) -> str:
    """The job whose first call is met by `act`, and then succeeds."""

    def answer(invocation: Invocation) -> TargetAnswer:
        act(invocation)
        return OK

    driver.world.targets.answers = [answer]
    return driver.create(schedule=ONCE).id


def before_the(step: str, driver: Driver, act: Callable[[], object]) -> Callable[[str, str], None]:
    def on_step(when: str, name: str) -> None:
        if (when, name) == ("before", step):
            driver.world.faults.on_step = None
            act()

    return on_step


class TestWhoEndsFirst:
    """Both ways: the owner's one write comes before or after each write of whoever ends its attempt, too."""

    @pytest.mark.parametrize("step", ["jobs.save", "history.record"])
    def test_a_cancel_between_the_call_and_the_end(self, step: str) -> None:
        """The cancel dies before its revoke, or before its history row: the owner ends the attempt after it."""
        driver = started()

        def cancel(_: Invocation) -> None:
            def die() -> None:
                raise Crash

            driver.world.faults.on_step = before_the(step, driver, die)
            driver.call(lambda: cancel_job(driver.services, SCHEDULER, job_id))
            driver.world.faults.on_step = None

        job_id = in_the_call(driver, cancel)
        driver.run_until(NOW + 20)
        assert driver.row(job_id).status is JobStatus.COMPLETED
        [execution] = driver.executions(job_id)
        assert execution.status is ExecutionStatus.COMPLETED
        assert len(driver.world.history.executions) == (step == "history.record"), "once revoked, history decides"

    @pytest.mark.parametrize("step", ["jobs.save", "history.record"])
    @pytest.mark.parametrize("how", ["job", "execution", "sweep"])
    def test_the_owner_ends_before_the_revoke_or_before_the_row_of_history(self, how: str, step: str) -> None:
        driver = started()
        ends: list[Callable[[], object]] = []

        def leave(invocation: Invocation) -> None:
            """The owner's process stands still here: its end is written later, by `ends`."""
            row = driver.row(invocation.job_id)
            execution = success(
                job_id=row.id, fence=row.fence, started_at=row.runs[SLOT].started_at, completed_at=driver.clock.now()
            )
            ends.append(lambda: owner_ends(driver, row, execution))
            raise Crash

        job_id = in_the_call(driver, leave)
        driver.sweeps = False
        driver.run_until(NOW + 15)
        driver.world.clock.time = NOW + 100
        driver.world.faults.on_step = before_the(step, driver, ends[0])
        other: Callable[[], object] = {
            "sweep": lambda: visit(driver.executor, job_id),
            "job": lambda: cancel_job(driver.services, SCHEDULER, job_id),
            "execution": lambda: cancel_execution(driver.services, SCHEDULER, f"{job_id}-{SLOT}-0001"),
        }[how]
        with contextlib.nullcontext() if how == "sweep" else pytest.raises(ConflictError):
            other()
        assert driver.row(job_id).status is JobStatus.COMPLETED
        assert [one.status for one in driver.executions(job_id)] == [ExecutionStatus.COMPLETED]
        assert {one.status for one in driver.world.history.of(job_id)} <= {ExecutionStatus.COMPLETED}

    def test_two_sweeps_and_then_the_owner(self) -> None:
        driver = started()
        job_id = in_the_call(driver, lambda _: _crash())
        driver.sweeps = False
        driver.run_until(NOW + 15)
        owner = driver.row(job_id)
        driver.world.clock.time = NOW + 100
        driver.world.faults.on_step = before_the("history.record", driver, lambda: visit(driver.executor, job_id))
        visit(driver.executor, job_id)
        owner_ends(driver, owner, success(job_id=job_id, fence=owner.fence))
        [execution] = driver.executions(job_id)
        assert execution.error is not None
        assert execution.error.code == "WORKER_LOST"
        assert driver.row(job_id).status is JobStatus.RETRYING

    def test_an_own_end_whose_answer_was_lost_is_known_by_its_mark(self) -> None:
        driver = started()
        job = driver.create(schedule=ONCE)
        driver.world.clock.time = AT
        driver.world.faults.inject(lose_answer=2, meanwhile=lambda: pause_job(driver.services, SCHEDULER, job.id))
        driver.deliver_hint(Hint(job.id, SLOT, 1))
        driver.world.faults.disarm()
        assert kept_execution(driver.row(job.id)) is not None
        assert driver.world.history.executions == {}

    def test_a_row_that_changes_all_the_time_leaves_it_to_history(self, monkeypatch: pytest.MonkeyPatch) -> None:
        driver = started()
        job = driver.create(schedule=ONCE)
        driver.run_until(AT)
        save, races = driver.world.jobs.save, iter(range(5))

        def racing(read: Job, new: Job, **options: Any) -> Job:
            if kept_execution(new) is not None and next(races, None) is not None:
                raise LostRaceError(driver.row(read.id))
            return save(read, new, **options)

        monkeypatch.setattr(driver.world.jobs, "save", racing)
        driver.run(5)
        assert [one.status for one in driver.world.history.of(job.id)] == [ExecutionStatus.COMPLETED]
        assert driver.row(job.id).status is JobStatus.COMPLETED

    def test_a_quarantine_takes_the_leave_before_it_takes_the_number(self) -> None:
        """What is started after all, by a hint that comes while the sweep quarantines it, finds that in history."""
        driver = started()
        job = driver.create(schedule=ONCE)
        driver.world.jobs.put(make_job(id=new_id(), brake_minute=NOW // 60))  # the executor works for others
        driver.world.jobs.put(replace(driver.row(job.id), wakes=10, attention_at=NOW + 30))
        driver.world.clock.time = NOW + 100
        hint = Hint(job.id, SLOT, 1)
        records = iter([1])

        def start(when: str, name: str) -> None:
            if (when, name) == ("after", "history.record") and next(records, None):
                driver.deliver_hint(hint)

        driver.world.faults.on_step = start
        visit(driver.executor, job.id)
        driver.world.faults.on_step = None
        assert driver.row(job.id).status is JobStatus.FAILED
        [execution] = driver.executions(job.id)
        assert execution.reason == "QUARANTINED"

    def test_what_has_ended_before_a_quarantine_is_left_alone(self) -> None:
        driver = started()
        job = driver.create(schedule=ONCE)
        driver.world.jobs.put(make_job(id=new_id(), brake_minute=NOW // 60))  # the executor works for others
        driver.world.jobs.put(replace(driver.row(job.id), wakes=10, attention_at=NOW + 30))
        driver.world.clock.time = NOW + 100
        driver.world.faults.on_step = before_the(
            "jobs.save", driver, lambda: driver.deliver_hint(Hint(job.id, SLOT, 1))
        )
        visit(driver.executor, job.id)
        assert driver.row(job.id).status is JobStatus.COMPLETED
        assert driver.world.history.executions == {}


def _crash() -> None:
    raise Crash


def owner_ends(driver: Driver, row: Job, execution: Execution) -> None:
    """What the executor does once its call is over, with the row as it was when it began."""
    conclude(driver.executor, row, execution)
