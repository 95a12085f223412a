"""A row that many write at once: what the engine has to write wins in the end, and callers' changes give way."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.claims import Holder
from functions.domain.errors import UnavailableError
from functions.domain.execution import Execution, ExecutionStatus, SkippedSlots
from functions.domain.hint import Hint
from functions.domain.ids import execution_id, slot_id
from functions.domain.job import Job, JobStatus
from functions.domain.run import Decision, RunState
from functions.domain.timing import HAND_BACK_MAX, hand_back_seconds
from functions.usecases.actions import execute_job, pause_job, resume_job, retry_job
from functions.usecases.approvals import GateDecision, decide_run
from functions.usecases.cancelling import cancel_execution, cancel_job, delete_job
from functions.usecases.claiming import Poll, poll
from functions.usecases.jobs import JobDraft, change_job
from functions.usecases.reports import end_execution
from functions.usecases.sweep import visit
from functions.usecases.workers import register_worker
from functions.usecases.writing import PATIENCE
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.faults import Crash, Faults, TroubleError
from tests.flows import AT, FAILED, OK, ONCE
from tests.unit.test_approvals import BOSS, GATE
from tests.working import OK as DONE

SLOT = slot_id(AT)
IN_TWENTY = {"initialDelaySeconds": 20, "backoffStrategy": "fixed", "jitter": 0}


@dataclass
class Crowd:
    """Others write the job before each write of ours, or before some of them, until it is over."""

    ends: float = 0.0
    density: float = 1.0
    choose: random.Random = field(default_factory=lambda: random.Random(1))
    met: int = 0

    def around(self, driver: Driver) -> None:
        jobs, save = driver.world.jobs, driver.world.jobs.save

        def crowded(read: Job, new: Job, **options: Any) -> Job:
            if driver.clock.now() < self.ends and self.choose.random() < self.density:
                row = jobs.rows[read.id]
                jobs.rows[read.id] = replace(row, seq=row.seq + 1, revision=row.revision + 1, write_id="another")
                self.met += 1
            return save(read, new, **options)

        jobs.save = crowded  # type: ignore[method-assign]  # comes first


class Scene:
    """A world with a job, up to the instant at which something is to be written."""

    def __init__(self, *, until: float = NOW + 5, sweeps: bool = False, **document: Any) -> None:
        self.driver = Driver(World(clock=FakeClock(NOW)), sweeps=sweeps)
        self.job = self.driver.create(**document)
        self.driver.run_until(until)
        self.crowd = Crowd()

    def begin(self, seconds: float = 3) -> None:
        self.crowd.around(self.driver)
        self.crowd.ends = self.driver.clock.now() + seconds

    @property
    def row(self) -> Job:
        return self.driver.row(self.job.id)

    def hint(self, attempt: int = 1, slot: str = SLOT) -> None:
        assert self.driver.deliver_hint(Hint(self.job.id, slot, attempt)) is not None

    def change(self, **changes: Any) -> Job:
        document = {**self.row.defined.document, **changes}
        return change_job(
            self.driver.services, SCHEDULER, self.job.id, change=lambda _: JobDraft(document=document, payload="{}")
        )


def start_and_end() -> Scene:
    scene = Scene(schedule=ONCE, until=AT)
    scene.begin()
    scene.hint()
    assert scene.row.status is JobStatus.COMPLETED
    return scene


def failed_end() -> Scene:
    scene = Scene(schedule=ONCE, until=AT, retryConfig=IN_TWENTY)
    scene.driver.world.targets.answers = [lambda _: scene.begin() or FAILED]
    scene.hint()
    assert scene.row.status is JobStatus.RETRYING
    return scene


def skip() -> Scene:
    scene = Scene(schedule={"type": "interval", "everySeconds": 10}, until=NOW + 5)
    execute_job(scene.driver.services, SCHEDULER, scene.job.id)
    scene.driver.world.clock.time = AT
    scene.begin()
    scene.hint()
    assert scene.row.gap is not None
    return scene


def cancel() -> Scene:
    scene = Scene(schedule=ONCE)
    scene.begin()
    cancel_job(scene.driver.services, SCHEDULER, scene.job.id)
    assert scene.row.cancelled
    return scene


def cancel_what_waits() -> Scene:
    scene = Scene(schedule=ONCE)
    execute_job(scene.driver.services, SCHEDULER, scene.job.id)
    scene.begin()
    delete_job(scene.driver.services, SCHEDULER, scene.job.id)
    assert scene.row.deleted_at is not None
    assert [one.status for one in scene.driver.executions(scene.job.id)] == [ExecutionStatus.CANCELLED]
    return scene


def cancel_one() -> Scene:
    scene = Scene(schedule=ONCE)
    execute_job(scene.driver.services, SCHEDULER, scene.job.id)
    (slot,) = scene.row.runs
    scene.begin()
    cancel_execution(scene.driver.services, SCHEDULER, execution_id(scene.job.id, slot, 1))
    assert scene.row.runs == {}
    return scene


def gate() -> Scene:
    scene = Scene(schedule=ONCE, approval=GATE, until=AT + 1)
    scene.begin()
    decide_run(scene.driver.services, BOSS, scene.job.id, GateDecision(decision=Decision.APPROVED))
    assert scene.row.runs[SLOT].approval is not None
    return scene


def claim_and_report() -> Scene:
    scene = Scene(schedule=ONCE, target={"type": "worker", "queue": "reports"}, until=AT + 1)
    services = scene.driver.services
    worker = register_worker(services, SCHEDULER, name="", queues=("reports",), max_items=1).id
    scene.begin()
    (claimed,) = poll(services, SCHEDULER, Poll(worker_id=worker, poll_id="p"), shuffle=lambda _: None)
    scene.crowd.ends = scene.driver.clock.now() + 3
    execution, holder = execution_id(scene.job.id, SLOT, 1), Holder(worker_id=worker, fence=claimed.run.fence)
    end_execution(services, SCHEDULER, execution, holder, DONE)
    assert scene.row.status is JobStatus.COMPLETED
    return scene


def recovery() -> Scene:
    scene = Scene(schedule=ONCE, until=AT)

    def die(_: object) -> Any:
        raise Crash

    scene.driver.world.targets.answers = [die, OK]
    scene.driver.deliver_hint(Hint(scene.job.id, SLOT, 1))
    scene.driver.world.clock.time = AT + 60 + 15 + 6
    scene.begin()
    assert visit(scene.driver.executor, scene.job.id) == "RECOVERED"
    assert scene.row.runs[SLOT].state is RunState.WAITING
    return scene


def expiry() -> Scene:
    scene = Scene(schedule=ONCE, until=AT, retryConfig={**IN_TWENTY, "retryWindowSeconds": 30})
    scene.driver.world.targets.answers = [FAILED]
    scene.hint()
    scene.driver.world.clock.time = AT + 60
    scene.begin()
    scene.hint(2)
    assert scene.row.status is JobStatus.FAILED
    return scene


ENGINE: list[Callable[[], Scene]] = [
    start_and_end,
    failed_end,
    skip,
    cancel,
    cancel_what_waits,
    cancel_one,
    gate,
    claim_and_report,
    recovery,
    expiry,
]


@pytest.mark.parametrize("act", ENGINE, ids=lambda act: act.__name__)
def test_what_the_engine_writes_wins_once_the_crowd_is_over(act: Callable[[], Scene]) -> None:
    scene = act()
    assert scene.crowd.met > 20, "not a crowd"


CALLERS: dict[str, Callable[[Scene], Any]] = {
    "pause": lambda scene: pause_job(scene.driver.services, SCHEDULER, scene.job.id),
    "change": lambda scene: scene.change(tags=["new"]),
    "execute": lambda scene: execute_job(scene.driver.services, SCHEDULER, scene.job.id),
}


@pytest.mark.parametrize("name", CALLERS)
def test_a_callers_change_gives_way_after_five_tries(name: str) -> None:
    scene = Scene(schedule=ONCE)
    scene.begin(60)
    with pytest.raises(UnavailableError, match="changed 5 times"):
        CALLERS[name](scene)
    assert scene.driver.clock.now() < NOW + 6
    assert scene.crowd.met == 5


@pytest.mark.parametrize("name", CALLERS)
def test_a_crowd_that_is_over_within_the_pauses_costs_no_caller_an_answer(name: str) -> None:
    scene = Scene(schedule=ONCE)
    scene.driver.world.clock.slept.clear()
    scene.begin(0.2)
    CALLERS[name](scene)
    assert scene.driver.world.clock.slept == [0.02, 0.04, 0.08, 0.16]


def test_a_resume_and_a_forced_retry_give_way_too() -> None:
    scene = Scene(schedule=ONCE, retryConfig={"maxRetries": 0}, until=AT)
    scene.driver.world.targets.answers = [FAILED]
    scene.hint()
    scene.begin(60)
    with pytest.raises(UnavailableError):
        retry_job(scene.driver.services, SCHEDULER, scene.job.id)
    paused = Scene(schedule=ONCE)
    pause_job(paused.driver.services, SCHEDULER, paused.job.id)
    paused.begin(60)
    with pytest.raises(UnavailableError):
        resume_job(paused.driver.services, SCHEDULER, paused.job.id)


def test_a_write_that_never_wins_is_an_error_in_the_end() -> None:
    scene = Scene(schedule=ONCE)
    scene.begin(3_600)
    began = scene.driver.clock.now()
    with pytest.raises(UnavailableError):
        cancel_job(scene.driver.services, SCHEDULER, scene.job.id)
    assert PATIENCE <= scene.driver.clock.now() - began < PATIENCE + 1


def test_a_cancel_does_not_look_again_for_a_change_that_brings_no_run() -> None:
    """Its history rows are put once, however often the job is changed meanwhile."""
    faults = Faults()
    driver = Driver(World(clock=FakeClock(NOW), faults=faults), sweeps=False)
    job = driver.create(schedule=ONCE)
    execute_job(driver.services, SCHEDULER, job.id)
    crowd = Crowd(ends=NOW + 3)
    crowd.around(driver)
    faults.steps.clear()
    cancel_job(driver.services, SCHEDULER, job.id)
    assert faults.steps.count("history.record") == 1
    assert crowd.met > 20


@given(seed=st.integers(0, 10**6), density=st.floats(0, 1), lasts=st.floats(0, 3.5), begins=st.floats(0, 5))
@settings(max_examples=60, deadline=None)
def test_a_job_of_every_second_runs_each_time_whatever_is_changed(
    seed: int, density: float, lasts: float, begins: float
) -> None:
    driver = Driver(World(clock=FakeClock(NOW)))
    job = driver.create(schedule={"type": "interval", "everySeconds": 1}, misfirePolicy="run_all")
    crowd = Crowd(ends=0, density=density, choose=random.Random(seed))
    crowd.around(driver)
    driver.run(1 + begins)
    crowd.ends = driver.clock.now() + lasts
    driver.run(12)
    started = {int(one.slot_id): one.started_at for one in driver.executions(job.id)}
    due = range(NOW + 1, int(driver.clock.now()) - 4)
    assert set(due) <= set(started)
    assert all((started[slot] or 0) - slot <= 5 for slot in due)
    assert not any(isinstance(entry, SkippedSlots) for entry in driver.history(job.id))


# --- what has ended, and is not yet in the row ---


def owner_lost(scene: Scene) -> None:
    """The attempt of the scene's slot has its end in history; its owner came no further."""
    faults = scene.driver.world.jobs.faults

    def die(when: str, name: str) -> None:
        if when == "after" and name == "history.record":
            raise Crash

    faults.inject(on_step=die)
    scene.driver.deliver_hint(Hint(scene.job.id, SLOT, 1))
    faults.disarm()
    scene.driver.world.timetable.armed.clear()
    assert scene.row.runs[SLOT].state is RunState.RUNNING


class Recorded(Scene):
    def __init__(self, **document: Any) -> None:
        faults = Faults()
        self.driver = Driver(World(clock=FakeClock(NOW), faults=faults), sweeps=False)
        self.job = self.driver.create(schedule={"type": "interval", "everySeconds": 10}, **document)
        self.driver.run_until(AT)
        self.crowd = Crowd()
        owner_lost(self)


@pytest.mark.parametrize("policy", ["skip", "queue", "allow"])
def test_no_slot_is_skipped_for_a_run_that_has_ended(policy: str) -> None:
    scene = Recorded(overlapPolicy=policy)
    following = slot_id(AT + 10)
    scene.driver.run_until(AT + 10)
    if policy == "queue":
        execute_job(scene.driver.services, SCHEDULER, scene.job.id)
    scene.hint(slot=following)
    scene.driver.run(5)
    ended = {one.slot_id: one.status for one in scene.driver.executions(scene.job.id)}
    assert ended[SLOT] is ExecutionStatus.COMPLETED
    assert ended[following] is ExecutionStatus.COMPLETED
    assert scene.row.gap is None


def test_a_hint_that_comes_again_ends_what_history_has_ended() -> None:
    scene = Recorded()
    scene.hint()
    assert scene.row.runs == {}
    assert [call.attempt for call in scene.driver.world.targets.calls] == [1]


def test_a_hint_that_comes_twice_leaves_a_running_attempt_alone() -> None:
    scene = Scene(schedule=ONCE, until=AT)
    seen: list[Job] = []

    def again(_: object) -> Any:
        before = scene.row
        scene.hint()
        seen.extend((before, scene.row))
        return OK

    scene.driver.world.targets.answers = [again]
    scene.hint()
    assert seen[0] == seen[1]
    assert scene.row.status is JobStatus.COMPLETED


# --- a platform that refuses calls for a while ---


def down(driver: Driver, *, seconds: float, begins: float) -> None:
    """Every write of a row or of history is refused in that time."""

    def refuse(when: str, name: str) -> None:
        inside = begins <= driver.clock.now() < begins + seconds
        if when == "before" and inside and not name.startswith(("timetable", "targets")):
            raise TroubleError

    driver.world.jobs.faults.inject(on_step=refuse)


@pytest.mark.parametrize("document", [{}, {"schedule": ONCE}, {"orchestrated": True}])
@pytest.mark.parametrize("begins", ["at the start", "in the call"])
@pytest.mark.parametrize("seconds", [1, 5, 10])
def test_a_throttle_of_some_seconds_costs_no_second_call(document: dict[str, Any], begins: str, seconds: int) -> None:
    driver = Driver(World(clock=FakeClock(NOW), faults=Faults()))
    job = driver.create(**{"schedule": {"type": "interval", "everySeconds": 600}, **document})
    due = job.next_slot or 0
    if begins == "at the start":
        down(driver, seconds=seconds, begins=due)
    else:
        driver.world.targets.answers = [lambda _: down(driver, seconds=seconds, begins=driver.clock.now()) or OK]
    driver.run_until(due + 30)
    (ended,) = [one for one in driver.executions(job.id) if isinstance(one, Execution)]
    assert (ended.status, ended.attempt) == (ExecutionStatus.COMPLETED, 1)
    assert len(driver.world.targets.calls) == 1
    assert (ended.started_at or 0) - due <= seconds + 5
    assert driver.dead_messages == []
    assert driver.row(job.id).runs == {}


def test_what_fails_for_longer_than_the_receives_last_is_left_to_the_sweep() -> None:
    driver = Driver(World(clock=FakeClock(NOW), faults=Faults()))
    job = driver.create(schedule=ONCE)
    down(driver, seconds=200, begins=AT - 1)
    driver.run_until(AT + 600)
    assert driver.row(job.id).status is JobStatus.COMPLETED
    (ended,) = driver.executions(job.id)
    assert (ended.started_at or 0) - AT <= 200 + 130


@given(receives=st.integers(-1, 1_000), extra=st.floats(0, 1))
def test_the_times_after_which_a_message_comes_again(receives: int, extra: float) -> None:
    seconds = hand_back_seconds(receives, uniform=lambda low, high: low + extra * (high - low))
    assert 1 <= seconds <= HAND_BACK_MAX
    assert seconds <= hand_back_seconds(receives + 1, uniform=lambda low, high: high)


def test_five_receives_outlast_ten_seconds() -> None:
    waits = [hand_back_seconds(receives, uniform=lambda low, _: low) for receives in (1, 2, 3, 4)]
    assert waits == [1, 2, 4, 8]
    assert sum(waits) > 10
