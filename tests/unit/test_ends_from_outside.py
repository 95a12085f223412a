"""A waiting run is ended in its job's row first: of two who act on it at once, one has its way, whole."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from functions.domain.decision import Verdict, Write
from functions.domain.dispatch import decide_hint
from functions.domain.errors import GnomonError
from functions.domain.execution import Execution
from functions.domain.hint import Hint
from functions.domain.ids import slot_id
from functions.domain.job import Job
from functions.domain.run import Outcome, RunState
from functions.usecases.actions import execute_job, pause_job, resume_job, retry_job
from functions.usecases.cancelling import cancel_execution, cancel_job
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import ADMIN, SCHEDULER, Driver
from tests.factories import NOW, make_definition, make_document, make_job, make_run
from tests.fakes import FakeClock, World
from tests.faults import Faults
from tests.flows import AT, FAILED, OK, ONCE

SLOT = slot_id(AT)
WINDOW = {"initialDelaySeconds": 20, "backoffStrategy": "fixed", "jitter": 0, "retryWindowSeconds": 40}
Act = Callable[[Driver, Job], Any]


def force(driver: Driver, job: Job) -> Job:
    return retry_job(driver.services, SCHEDULER, job.id)


def longer_window(driver: Driver, job: Job) -> Job:
    document = make_document(schedule=ONCE, retryConfig={**WINDOW, "retryWindowSeconds": 4_000})
    return change_job(driver.services, ADMIN, job.id, change=lambda _: JobDraft(document=document, payload="{}"))


def tag(driver: Driver, job: Job) -> Job:
    document = make_document(schedule=ONCE, retryConfig=WINDOW, tags=["a"])
    return change_job(driver.services, ADMIN, job.id, change=lambda _: JobDraft(document=document, payload="{}"))


def pause(driver: Driver, job: Job) -> Job:
    pause_job(driver.services, SCHEDULER, job.id)
    return resume_job(driver.services, SCHEDULER, job.id)


def cancel(driver: Driver, job: Job) -> Job:
    return cancel_job(driver.services, SCHEDULER, job.id)


def cancel_one(driver: Driver, job: Job) -> Execution:
    return cancel_execution(driver.services, SCHEDULER, f"{job.id}-{SLOT}-0002")


def execute(driver: Driver, job: Job) -> Job:
    return execute_job(driver.services, SCHEDULER, job.id)


@dataclass
class Late:
    """A retry whose hint comes after its window; `act` happens before the `step`-th write of whoever has the hint."""

    act: Act
    step: int
    faults: Faults = field(default_factory=Faults)
    answered: bool | None = None
    """Whether the caller was answered, or refused; None where it did not come to that."""

    def __post_init__(self) -> None:
        self.driver = Driver(World(clock=FakeClock(NOW), faults=self.faults), sweeps=False)
        self.driver.world.targets.answers = [FAILED, OK]
        self.job = self.driver.create(schedule=ONCE, retryConfig=WINDOW)
        self.driver.run_until(NOW + 15)
        self.driver.world.timetable.armed.clear()
        self.driver.world.clock.time = AT + 41
        self.faults.inject(on_step=self._on_step)
        self.driver.deliver_hint(Hint(self.job.id, SLOT, 2))
        self.faults.disarm()
        self.driver.run(30)

    def _on_step(self, when: str, _: str) -> None:
        if when != "before" or self.faults.count != self.step:
            return
        self.faults.disarm()
        try:
            self.act(self.driver, self.job)
        except GnomonError:
            self.answered = False
        else:
            self.answered = True

    @property
    def calls(self) -> list[int]:
        return [call.attempt for call in self.driver.world.targets.calls]


def races(act: Act) -> list[Late]:
    """One for each write of the expiry."""
    found: list[Late] = []
    for step in itertools.count(1):
        late = Late(act, step)
        if late.answered is None:
            return found
        found.append(late)
    raise AssertionError


@pytest.mark.parametrize("act", [force, longer_window, tag, pause, cancel, cancel_one, execute])
def test_what_is_called_is_what_is_recorded(act: Act) -> None:
    """No target is called for an attempt that somebody else has ended; no answer of a call is dropped."""
    found = races(act)
    assert len(found) >= 3
    for late in found:
        ended = {one.attempt: one for one in late.driver.executions(late.job.id) if one.slot_id == SLOT}
        assert sorted(set(late.calls)) == late.calls, late.step
        for attempt, execution in ended.items():
            assert (execution.started_at is not None) == (attempt in late.calls), (late.step, execution)


def test_a_forced_retry_that_was_answered_is_made() -> None:
    for late in races(force):
        executions = late.driver.executions(late.job.id)
        assert late.answered, late.step
        last = executions[-1]
        assert last.status.value == "COMPLETED", (late.step, executions)
        assert late.driver.row(late.job.id).last_run is not None
        assert [one.attempt for one in executions] == list(range(1, len(executions) + 1)), late.step


def test_a_change_that_lengthens_the_window_in_time_keeps_the_retry() -> None:
    first, *_ = races(longer_window)
    assert first.calls == [1, 2]
    assert [one.reason for one in first.driver.executions(first.job.id)][-1] is None


def test_who_dies_after_the_verdict_leaves_it_to_the_next() -> None:
    for after in range(1, 4):
        faults = Faults()
        driver = Driver(World(clock=FakeClock(NOW), faults=faults))
        driver.world.targets.answers = [FAILED, OK]
        job = driver.create(schedule=ONCE, retryConfig=WINDOW)
        driver.run_until(NOW + 15)
        driver.world.timetable.armed.clear()
        driver.world.clock.time = AT + 41
        faults.inject(crash_after=after)
        driver.deliver_hint(Hint(job.id, SLOT, 2))
        faults.disarm()
        driver.run(300)
        ended = driver.executions(job.id)
        assert [(one.attempt, one.reason) for one in ended][-1] == (2, "RETRY_WINDOW_OVER"), after
        assert driver.row(job.id).runs == {}
        assert driver.row(job.id).lean is False
        assert len(driver.world.targets.calls) == 1


def test_a_forced_retry_of_a_run_that_is_ending_ends_it_first() -> None:
    """Whoever gave the verdict died: the caller need not wait for the sweep."""
    faults = Faults()
    driver = Driver(World(clock=FakeClock(NOW), faults=faults), sweeps=False)
    driver.world.targets.answers = [FAILED, OK]
    job = driver.create(schedule=ONCE, retryConfig=WINDOW)
    driver.run_until(NOW + 15)
    driver.world.timetable.armed.clear()
    driver.world.clock.time = AT + 41
    faults.inject(crash_after=1)
    driver.deliver_hint(Hint(job.id, SLOT, 2))
    faults.disarm()
    assert driver.row(job.id).runs[SLOT].verdict is Outcome.PERMANENTLY_FAILED
    retry_job(driver.services, SCHEDULER, job.id)
    driver.run(5)
    assert [call.attempt for call in driver.world.targets.calls] == [1, 3]
    row = driver.row(job.id)
    assert row.last_run is not None
    assert (row.last_run.outcome, row.last_run.reason) == (Outcome.COMPLETED, None)


def test_a_run_that_ended_by_its_window_can_be_retried_as_one_that_failed() -> None:
    late = Late(lambda *_: None, 99)
    last = late.driver.row(late.job.id).last_run
    assert last is not None
    assert (last.outcome, last.error_code, last.reason) == (
        Outcome.PERMANENTLY_FAILED,
        "RETRY_WINDOW_OVER",
        None,
    ), "not the verdict of its parents or of an approver"
    retry_job(late.driver.services, SCHEDULER, late.job.id)
    late.driver.run(5)
    assert late.calls == [1, 3]


def test_a_run_with_a_verdict_starts_no_attempt_whatever_is_changed() -> None:
    run = make_run(
        state=RunState.WAITING, attempt=1, due_at=NOW, verdict=Outcome.PERMANENTLY_FAILED, verdict_for="CIRCUIT_OPEN"
    )
    job = make_job(runs={SLOT: run}, definition=make_definition())
    decision = decide_hint(job, Hint(job.id, SLOT, 2), now=NOW + 1, write_id="w")
    assert decision == Verdict(SLOT, job)


def test_the_verdict_takes_away_the_leave_to_end_lean() -> None:
    """A first attempt that a circuit held back for too long."""
    run = make_run(state=RunState.WAITING, attempt=1, due_at=NOW)
    job = make_job(runs={SLOT: run}, lean=True, document={"retryConfig": {"retryWindowSeconds": 5}})
    decision = decide_hint(job, Hint(job.id, SLOT, 2), now=AT + 60, write_id="w")
    assert isinstance(decision, Write)
    assert (decision.ends, decision.starts, decision.job.lean) == (SLOT, None, False)
    assert decision.job.attention_at is not None
