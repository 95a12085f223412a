"""Quarantine: the due run ends, by a verdict in the row first; the schedule goes on."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.domain.decision import Due, Write
from functions.domain.definition import OverlapPolicy
from functions.domain.ending import decide_end
from functions.domain.errors import GnomonError
from functions.domain.execution import Execution, ExecutionStatus, SkippedSlots
from functions.domain.hint import Hint
from functions.domain.ids import slot_id
from functions.domain.job import Gap, Job, SkipReason
from functions.domain.quarantine import QUARANTINED, quarantined
from functions.domain.run import LastRun, Outcome, RunState
from functions.domain.visit import MAX_WAKES, Quarantine, decide_visit
from functions.usecases.actions import execute_job, pause_job, resume_job, retry_job
from functions.usecases.cancelling import cancel_execution, cancel_job
from functions.usecases.sweep import visit as visit_row
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW, make_job, make_run, new_id
from tests.fakes import FakeClock, World
from tests.faults import Faults

NEXT = NOW + 60
SLOT = slot_id(NOW)
RUN = make_run(lease_expires_at=NOW + 75)
WAITING = make_run(state=RunState.WAITING, attempt=1, due_at=NOW + 20)
QUEUED = make_run(state=RunState.QUEUED, due_at=None, attempt=0)
GAP = Gap(first=NOW, last=NOW, count=1, reason=SkipReason.PAUSED)


def visit(job: Job, now: float) -> Any:
    return decide_visit(job, now=now, read_at=now, feeding=True)


def condemned(job: Job, now: float = NEXT + 40) -> Write:
    write = visit(job, now)
    assert isinstance(write, Write)
    assert (write.reason, write.flush) == (QUARANTINED, None)
    return write


def ended(job: Job, now: float = NEXT + 40) -> tuple[Job, list[Execution], list[Due]]:
    """The row after all of it, its rows of history, and its hints in their order."""
    write = condemned(job, now)
    decision = visit(write.job, now)
    assert isinstance(decision, Quarantine)
    row, rows, hints = write.job, [], []
    for slot in decision.slot_ids:
        rows.append(quarantined(row, slot, wakes=MAX_WAKES, now=now, write_id="w"))
        end = decide_end(row, rows[-1], fence=row.runs[slot].fence, now=now)
        assert isinstance(end, Write)
        row, hints = end.job, [*hints, *end.hints]
    return row, rows, [*hints, *write.hints]


def test_after_ten_wakes_what_is_due_has_its_verdict_and_then_its_end() -> None:
    job = make_job(wakes=MAX_WAKES, runs={SLOT: WAITING}, lean=True)
    write = condemned(job)
    for slot, attempt in ((SLOT, 1), (slot_id(NEXT), 0)):
        run = write.job.runs[slot]
        assert (run.state, run.attempt, run.verdict, run.verdict_for) == (
            RunState.WAITING,
            attempt,
            Outcome.PERMANENTLY_FAILED,
            QUARANTINED,
        )
    assert (write.job.next_slot, write.job.last_slot, write.job.lean, write.job.wakes) == (NEXT + 60, NEXT, False, 0)
    row, rows, _ = ended(job)
    assert [(one.slot_id, one.attempt, one.final, one.reason) for one in rows] == [
        (SLOT, 2, True, QUARANTINED),
        (slot_id(NEXT), 1, True, QUARANTINED),
    ]
    assert all(one.is_dead_letter for one in rows)
    assert (dict(row.runs), row.next_slot, row.last_slot, row.wakes) == ({}, NEXT + 60, NEXT, 0)
    assert row.attention_at == NEXT + 60 + 30
    assert row.last_run is not None
    assert replace(row.last_run, reason=None) == LastRun(
        slot_id=slot_id(NEXT),
        attempt=1,
        outcome=Outcome.PERMANENTLY_FAILED,
        fence=0,
        ended_at=NEXT + 40,
        error_code=QUARANTINED,
    )


def test_a_definition_that_cannot_be_read_leaves_the_job_at_rest_and_says_how_to_go_on() -> None:
    row, [execution], hints = ended(replace(make_job(wakes=MAX_WAKES), definition=None))
    assert execution.error is not None
    assert "cannot be read" in execution.error.message
    assert "PUT" in execution.error.message
    assert (row.next_slot, row.last_slot, row.attention_at, hints) == (None, NEXT, None, [])


def test_one_that_can_says_that_the_schedule_goes_on() -> None:
    _, [execution], _ = ended(make_job(wakes=MAX_WAKES))
    assert execution.error is not None
    assert "schedule goes on" in execution.error.message


@pytest.mark.parametrize("now", [NEXT + 40, NEXT + 6_400, NEXT + 500_000])
def test_the_slot_after_it_is_next_due_or_not(now: int) -> None:
    row, _, hints = ended(make_job(wakes=MAX_WAKES), now)
    assert (row.next_slot, row.last_slot, row.gap) == (NEXT + 60, NEXT, None)
    assert row.attention_at == NEXT + 60 + 30, "the misfire policy decides about those that were missed"
    assert hints == [Due(slot_id(NEXT + 60), 1, NEXT + 60)], "nobody else arms it"


def test_it_is_no_start_for_max_runs() -> None:
    row, _, _ = ended(make_job(wakes=MAX_WAKES, document={"maxRuns": 1}))
    assert (row.next_slot, row.starts) == (NEXT + 60, 0)


@pytest.mark.parametrize(
    "document",
    [{"endAt": "2027-01-15T08:01:30Z"}, {"schedule": {"type": "once", "at": "2027-01-15T08:01:00Z"}}],
    ids=["the last slot", "one-time"],
)
def test_where_no_slot_follows_the_job_is_over(document: dict[str, Any]) -> None:
    row, _, hints = ended(make_job(wakes=MAX_WAKES, document=document))
    assert (row.next_slot, row.attention_at, hints) == (None, None, [])


def test_what_run_all_has_caught_up_with_is_over() -> None:
    row, _, _ = ended(make_job(wakes=MAX_WAKES, catch_up_to=NEXT))
    assert row.catch_up_to is None
    row, _, hints = ended(make_job(wakes=MAX_WAKES, catch_up_to=NEXT + 60))
    assert row.catch_up_to == NEXT + 60
    assert hints == [Due(slot_id(NEXT + 60), 1, NEXT + 60)], "the next missed one waits for nothing any more"


def test_a_waiter_is_released_and_a_gap_is_flushed() -> None:
    job = make_job(wakes=MAX_WAKES, runs={SLOT: WAITING, "q": QUEUED}, next_slot=None, gap=GAP)
    row, _, hints = ended(job)
    assert (row.runs["q"].state, row.gap) == (RunState.WAITING, None)
    assert hints == [Due("q", 1, NEXT + 40)]


def test_a_verdict_that_is_there_stays() -> None:
    rejected = replace(WAITING, attempt=0, verdict=Outcome.CANCELLED, verdict_for="REJECTED", manual=True)
    job = make_job(wakes=MAX_WAKES, runs={SLOT: rejected}, next_slot=NOW + 9_000)
    assert visit(job, NEXT + 40) == Quarantine((SLOT,)), "it needs no other"
    execution = quarantined(job, SLOT, wakes=MAX_WAKES, now=NEXT, write_id="w")
    assert (execution.status, execution.reason) == (ExecutionStatus.CANCELLED, "REJECTED")
    _, rows, _ = ended(replace(job, next_slot=NEXT))
    assert {(one.slot_id, one.reason) for one in rows} == {(SLOT, "REJECTED"), (slot_id(NEXT), QUARANTINED)}


def test_what_is_not_due_stays() -> None:
    other = replace(WAITING, attempt=0, due_at=NEXT + 999)
    running = replace(RUN, lease_expires_at=NEXT + 500)
    row, [execution], _ = ended(make_job(wakes=MAX_WAKES, runs={"a": other, "b": running}))
    assert execution.slot_id == slot_id(NEXT)
    assert dict(row.runs) == {"a": other, "b": running}


def test_ten_wakes_are_about_an_hour_and_a_half() -> None:
    job, now, wakes = make_job(), NEXT + 30, 0
    while (decision := visit(job, now)).reason != QUARANTINED:
        job = decision.job
        assert job.attention_at is not None
        now, wakes = job.attention_at, wakes + 1
    assert wakes == MAX_WAKES
    assert now - NEXT == 30 + 60 + 120 + 240 + 480 + 6 * 900


# --- with others at the same time ---

DUE = NOW + 60
EVERY = {"type": "interval", "everySeconds": 600}
ONCE = {"type": "once", "at": "2027-01-15T08:01:00Z"}


class Edge:
    """A job whose tenth wake was in vain, and the sweep's visit to it: `act` happens in its midst."""

    def __init__(self, schedule: dict[str, Any], act: Callable[[Edge], Any], step: int, when: str) -> None:
        self.faults = Faults()
        self.driver = Driver(World(clock=FakeClock(NOW), faults=self.faults), sweeps=False)
        self.job = self.driver.create(schedule=schedule | ({"everySeconds": 60} if "everySeconds" in schedule else {}))
        self.driver.world.timetable.armed.clear()
        for _ in range(3):
            self.driver.world.jobs.put(make_job(id=new_id(), brake_minute=NOW // 60, next_slot=NOW + 3_000))
        self.driver.world.jobs.put(replace(self.driver.row(self.job.id), wakes=MAX_WAKES, attention_at=DUE + 30))
        self.driver.world.clock.time = DUE + 110  # the next slot is due, too, and not too late
        self.step, self.when, self.act = step, when, act
        self.answered: bool | None = None
        """Whether the caller was answered, or refused; None where it did not come to that."""

    def play(self) -> None:
        numbers = itertools.count(1)

        def watch(when: str, name: str) -> None:
            if (when, next(numbers)) == (self.when, self.step):
                self.faults.on_step = None
                try:
                    self.act(self)
                    self.answered = True
                except GnomonError:
                    self.answered = False

        self.faults.on_step = watch
        visit_row(self.driver.executor, self.job.id)
        self.faults.on_step = None

    @property
    def slot(self) -> str:
        return slot_id(DUE)


def start(edge: Edge) -> Any:
    return edge.driver.deliver_hint(Hint(edge.job.id, edge.slot, 1))


def pause(edge: Edge) -> Any:
    return pause_job(edge.driver.services, SCHEDULER, edge.job.id)


def cancel(edge: Edge) -> Any:
    return cancel_job(edge.driver.services, SCHEDULER, edge.job.id)


def retry(edge: Edge) -> Any:
    return retry_job(edge.driver.services, SCHEDULER, edge.job.id)


def execute(edge: Edge) -> Any:
    return execute_job(edge.driver.services, SCHEDULER, edge.job.id)


def cancel_one(edge: Edge) -> Any:
    return cancel_execution(edge.driver.services, SCHEDULER, f"{edge.job.id}-{edge.slot}-0001")


def second_sweep(edge: Edge) -> Any:
    return visit_row(edge.driver.executor, edge.job.id)


def take_all(edge: Edge) -> Any:
    """A consumer is as quick as it can be with what the sweep has sent."""
    for delivery in edge.driver.world.timetable.take_due():
        edge.driver.deliver(delivery)


ACTS = [start, pause, cancel, retry, execute, cancel_one, second_sweep, take_all]
STEPS = 14


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("schedule", [EVERY, ONCE], ids=["recurring", "one-time"])
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_of_two_who_act_at_once_one_has_its_way_whole(
    act: Callable[[Edge], Any], schedule: dict[str, Any], when: str
) -> None:
    met = 0
    for step in range(1, STEPS):
        edge = Edge(schedule, act, step, when)
        edge.play()
        driver, job_id = edge.driver, edge.job.id
        met += edge.answered is not None
        where = (act.__name__, when, step)
        if driver.row(job_id).paused:
            resume_job(driver.services, SCHEDULER, job_id)
        driver.sweeps = True
        driver.run(30)
        called = {call.attempt for call in driver.world.targets.calls if call.slot_id == edge.slot}
        of_slot = [one for one in driver.executions(job_id) if one.slot_id == edge.slot]
        for execution in of_slot:
            quarantined_ = execution.reason == QUARANTINED
            assert quarantined_ is (execution.attempt not in called) or execution.status.value == "CANCELLED", where
        assert called <= {one.attempt for one in of_slot if one.status is ExecutionStatus.COMPLETED}, where
        row = driver.row(job_id)
        if act in (retry, execute) and edge.answered:
            assert driver.world.targets.calls, "who is answered has its run"
        if not row.cancelled and schedule is EVERY:
            assert row.next_slot is not None, where
            assert row.next_slot > driver.clock.now() - 60, where
        assert not any(run.verdict for run in row.runs.values()), where
        if act in (start, second_sweep, take_all):
            assert not any(isinstance(entry, SkippedSlots) for entry in driver.history(job_id)), where
    assert met >= 3, "it came to that"


@pytest.mark.parametrize("kind", ["crash_before", "crash_after", "lose_answer"])
@pytest.mark.parametrize("schedule", [EVERY, ONCE], ids=["recurring", "one-time"])
def test_a_sweep_that_dies_in_it_is_followed_by_one_that_goes_on(kind: str, schedule: dict[str, Any]) -> None:
    for number in itertools.count(1):
        edge = Edge(schedule, lambda _: None, 0, "")
        driver = edge.driver
        edge.faults.inject(**{kind: number})
        driver.sweep_now()
        done = edge.faults.count < number
        edge.faults.disarm()
        driver.sweeps = True
        driver.run(240)
        [first, *_] = driver.world.history.of(edge.job.id)
        assert (first.slot_id, first.reason) == (edge.slot, QUARANTINED), (kind, number)
        assert first.error is not None
        assert "definition" not in first.error.message, "it was read"
        assert driver.row(edge.job.id).last_run is not None
        assert edge.slot not in {call.slot_id for call in driver.world.targets.calls}
        if schedule is EVERY:
            assert driver.world.targets.calls, "the schedule goes on"
        if done:
            return


@pytest.mark.parametrize("size", [10, 3_000], ids=["inline", "apart"])
def test_the_definition_is_read_wherever_it_is(size: int) -> None:
    """One in a row of its own is not read by an ordinary visit: that must not look as if it could not be read."""
    driver = Driver(World(clock=FakeClock(NOW)), sweeps=False)
    job = driver.create(schedule={"type": "interval", "everySeconds": 60}, payload=f'"{"x" * size}"')
    driver.world.jobs.put(make_job(id=new_id(), brake_minute=NOW // 60))
    row = driver.row(job.id)
    assert (row.definition_row is None) is (size == 10)
    driver.world.jobs.put(replace(row, wakes=MAX_WAKES, attention_at=DUE + 30))
    driver.world.clock.time = DUE + 40
    assert visit_row(driver.executor, job.id) == QUARANTINED
    assert driver.row(job.id).next_slot == DUE + 60


def test_beside_a_worker_that_is_heard_of_again() -> None:
    """The visit reads the row once more where a lease turned out to be prolonged: with its definition."""
    driver = Driver(World(clock=FakeClock(NOW)), sweeps=False)
    payload = f'"{"x" * 3_000}"'
    job = driver.create(schedule={"type": "interval", "everySeconds": 60}, payload=payload, overlapPolicy="allow")
    assert driver.row(job.id).defined.overlap is OverlapPolicy.ALLOW
    driver.world.jobs.put(make_job(id=new_id(), brake_minute=NOW // 60))
    lost = make_run(lease_expires_at=DUE + 20, attempt_limit=1)
    row = replace(driver.row(job.id), wakes=MAX_WAKES, attention_at=DUE + 25, runs={SLOT: lost})
    driver.world.jobs.put(row)
    driver.world.clock.time = DUE + 40
    visit_row(driver.executor, job.id)
    assert driver.row(job.id).next_slot is not None


def test_a_retry_first_ends_the_run_that_is_being_quarantined() -> None:
    write = condemned(make_job(wakes=MAX_WAKES, runs={SLOT: WAITING}, next_slot=NOW + 9_000))
    driver = Driver(World(clock=FakeClock(NEXT)), sweeps=False)
    driver.world.jobs.put(write.job)
    retried = retry_job(driver.services, SCHEDULER, write.job.id)
    assert retried.last_run is not None
    assert (retried.last_run.attempt, retried.last_run.error_code) == (2, "QUARANTINED")
    assert (retried.runs[SLOT].attempt, retried.runs[SLOT].verdict, retried.runs[SLOT].forced) == (2, None, True)
