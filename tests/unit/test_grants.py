"""A permit that is kept for a run is used within a minute or so, or passed on, whatever becomes of the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.concurrency import GRANT_SECONDS, Slot
from functions.domain.dispatch import STARTS_PER_MINUTE
from functions.domain.ids import slot_id
from functions.domain.instants import rfc3339
from functions.domain.job import Job, JobStatus
from functions.domain.run import HINT_SLACK, ActiveRun, RunState
from functions.usecases import concurrency
from functions.usecases.actions import pause_job, resume_job, retry_job
from functions.usecases.cancelling import cancel_execution, cancel_job, delete_job
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW, make_run
from tests.fakes import FakeClock, World
from tests.faults import Crash
from tests.permits import KEY, TYPE, WAITED, Queue, change, holder_of

GATE = {"role": "admin", "timeoutSeconds": 3_600, "fourEyes": False}


def paused(queue: Queue) -> None:
    pause_job(queue.driver.services, SCHEDULER, queue.first)


def paused_by_a_change(queue: Queue) -> None:
    def changed(row: Job) -> JobDraft:
        return JobDraft(document=dict(row.defined.document), payload="{}", enabled=False)

    change_job(queue.driver.services, SCHEDULER, queue.first, change=changed)


def given_another_key(queue: Queue) -> None:
    queue.change(queue.first, concurrencyKey="other")


def given_no_key(queue: Queue) -> None:
    queue.change(queue.first, concurrencyKey=None, maxConcurrency=None)


def cancelled(queue: Queue) -> None:
    cancel_job(queue.driver.services, SCHEDULER, queue.first)


def deleted(queue: Queue) -> None:
    delete_job(queue.driver.services, SCHEDULER, queue.first)


def execution_cancelled(queue: Queue) -> None:
    [slot] = queue.driver.row(queue.first).runs
    cancel_execution(queue.driver.services, SCHEDULER, f"{queue.first}-{slot}-0001")


def held_by_its_circuit(queue: Queue) -> None:
    queue.change(queue.first, circuitBreaker={})
    queue.open_circuit()
    queue.hint(queue.first)


def held_by_a_probe(queue: Queue) -> None:
    queue.change(queue.first, circuitBreaker={})
    queue.open_circuit(probe=True)
    queue.hint(queue.first)


def held_by_its_circuit_for_too_long(queue: Queue) -> None:
    held_by_its_circuit(queue)
    [(slot, run)] = queue.driver.row(queue.first).runs.items()
    row = queue.driver.row(queue.first)
    granted = replace(run, granted=f"{KEY}#0", held_back_at=NOW - 10**6, due_at=int(queue.driver.clock.now()))
    queue.world.jobs.put(replace(row, runs={slot: granted}))
    queue.hint(queue.first)


def refused_at_its_other_limit(queue: Queue) -> None:
    queue.change(queue.first, type="report")
    other = Slot(index=0, holder=holder_of(queue.runner), mark="t", at=NOW, until=NOW + 10**6)
    keep_running(queue)
    queue.world.slots.take(TYPE, other, instead_of=None)
    queue.hint(queue.first)


def keep_running(queue: Queue) -> None:
    """The job that held the key's permit holds the type's."""
    row = queue.driver.row(queue.runner)
    run = make_run(holds=(f"{TYPE}#0",), lease_expires_at=NOW + 10**6, started_by="w", fence=1)
    queue.world.jobs.put(replace(row, runs={slot_id(NOW + 5): run}))


def sent_to_a_gate(queue: Queue) -> None:
    queue.change(queue.first, approval=GATE)
    queue.hint(queue.first)


def offered_to_workers(queue: Queue) -> None:
    queue.change(queue.first, target={"type": "worker", "queue": "q"}, circuitBreaker=None)
    queue.hint(queue.first)


def braked(queue: Queue) -> None:
    row = queue.driver.row(queue.first)
    minute = int(queue.driver.clock.now()) // 60
    queue.world.jobs.put(replace(row, brake_minute=minute, brake_count=STARTS_PER_MINUTE))
    queue.hint(queue.first)


LEAVES: list[Callable[[Queue], None]] = [
    paused,
    paused_by_a_change,
    given_another_key,
    given_no_key,
    cancelled,
    deleted,
    execution_cancelled,
    held_by_its_circuit,
    held_by_a_probe,
    refused_at_its_other_limit,
    sent_to_a_gate,
    offered_to_workers,
    braked,
]


@pytest.mark.parametrize("leaves", LEAVES, ids=lambda leaves: leaves.__name__)
def test_a_run_that_does_not_start_passes_its_permit_on_at_once(leaves: Callable[[Queue], None]) -> None:
    queue = Queue()
    leaves(queue)
    assert queue.holder in (queue.second, None) or leaves in (given_no_key,)
    queue.driver.run(2)
    late = queue.started(queue.second)
    assert late is not None
    assert late <= 2


def test_a_run_whose_wait_for_the_circuit_is_over_does_too() -> None:
    queue = Queue()
    held_by_its_circuit_for_too_long(queue)
    queue.driver.run(2)
    assert queue.driver.row(queue.first).status is JobStatus.FAILED
    assert queue.started(queue.second) is not None


def test_a_retry_that_is_forced_into_the_future_does_too() -> None:
    queue = Queue()
    [(slot, run)] = queue.driver.row(queue.first).runs.items()
    row = queue.driver.row(queue.first)
    queue.world.slots.free(KEY, 0, holder=f"{queue.first}-{slot}-0001")
    later = replace(run, attempt=1)
    queue.world.jobs.put(replace(row, runs={slot: later}))
    kept = Slot(index=0, holder=f"{queue.first}-{slot}-0002", mark="k", at=NOW + WAITED, until=NOW + WAITED + 60)
    queue.world.slots.take(KEY, kept, instead_of=None)
    retry_job(queue.driver.services, SCHEDULER, queue.first, delay_seconds=600)
    queue.driver.run(2)
    assert queue.started(queue.second) is not None


@pytest.mark.parametrize("leaves", LEAVES, ids=lambda leaves: leaves.__name__)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["slots.free", "slots.take", "timetable.arm"])
def test_whoever_dies_while_it_passes_the_permit_on_loses_nobody(
    leaves: Callable[[Queue], None], when: str, step: str
) -> None:
    queue = Queue()

    def die(moment: str, name: str) -> None:
        if (moment, name) == (when, step):
            queue.world.faults.disarm()
            raise Crash

    queue.world.faults.inject(on_step=die)
    queue.driver.call(lambda: leaves(queue))
    queue.world.faults.disarm()
    queue.driver.run(2_000)
    assert queue.started(queue.second) is not None


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["jobs.save", "slots.take", "timetable.arm"])
def test_a_drain_that_dies_between_its_steps_leaves_no_permit_idle(when: str, step: str) -> None:
    queue = Queue.__new__(Queue)
    original = concurrency.drain

    def dies(moment: str, name: str) -> None:
        if (moment, name) == (when, step):
            queue.world.faults.disarm()
            raise Crash

    def drain(*arguments: Any, **options: Any) -> int:
        queue.world.faults.inject(on_step=dies)
        return original(*arguments, **options)

    concurrency.drain = drain
    try:
        with pytest.raises(Crash):
            queue.__init__(lost=False)  # type: ignore[misc]
    finally:
        concurrency.drain = original
    queue.world.faults.disarm()
    # Before its first write nobody has been told: who waits is looked at when the sweep comes to it.
    bound = 900 + 60 if (when, step) == ("before", "jobs.save") else GRANT_SECONDS + 60
    queue.driver.run(bound + 2)
    started = [late for job in (queue.first, queue.second) if (late := queue.started(job)) is not None]
    assert started
    assert min(started) <= bound


def test_a_paused_run_comes_back_to_its_place() -> None:
    queue = Queue()
    paused(queue)
    third = queue.create(int(queue.driver.clock.now()) + 1)
    queue.driver.run(2)
    resume_job(queue.driver.services, SCHEDULER, queue.first)
    queue.driver.run(200)
    assert queue.started(queue.first) is not None
    assert queue.started(third) is not None


def test_a_pause_between_grant_and_permit_leaves_no_permit_to_who_is_paused() -> None:
    queue = Queue.__new__(Queue)

    def pauses(moment: str, name: str) -> None:
        if (moment, name) == ("before", "slots.take") and queue.granted_at:
            queue.world.faults.disarm()
            row = queue.driver.row(queue.first)  # the process that pauses dies before it does anything else
            queue.world.jobs.save(row, replace(row, paused=True, write_id="pause"))

    original = concurrency.drain

    def drain(*arguments: Any, **options: Any) -> int:
        if hasattr(queue, "granted_at"):
            queue.world.faults.inject(on_step=pauses)
        return original(*arguments, **options)

    concurrency.drain = drain
    try:
        with pytest.raises(AssertionError):
            queue.__init__(lost=False)  # type: ignore[misc]  # it expects that the first one has the permit
    finally:
        concurrency.drain = original
    queue.driver.run(2)
    assert queue.started(queue.second) is not None


def test_a_run_that_comes_back_and_starts_in_the_same_instant_keeps_its_permit() -> None:
    queue = Queue()

    def dies(_: Any) -> Any:
        raise Crash

    def comes_back(moment: str, name: str) -> None:
        if (moment, name) == ("after", "jobs.save"):
            queue.world.faults.disarm()
            resume_job(queue.driver.services, SCHEDULER, queue.first)
            queue.world.targets.answers = [dies]
            queue.hint(queue.first)

    queue.world.faults.inject(on_step=comes_back)
    pause_job(queue.driver.services, SCHEDULER, queue.first)
    [run] = queue.driver.row(queue.first).runs.values()
    assert (run.state, queue.holder) == (RunState.RUNNING, queue.first)


def test_a_limit_that_shrinks_below_a_granted_permit_passes_it_on() -> None:
    driver = Driver(World(clock=FakeClock(NOW)))
    slots = driver.world.slots
    jobs = [
        driver.create(
            schedule={"type": "once", "at": rfc3339(NOW + 10 + n)}, concurrencyKey="database", maxConcurrency=2
        ).id
        for n in range(2)
    ]
    blocker = driver.create(schedule={"type": "once", "at": rfc3339(NOW + 5)}).id
    hold_all(driver, blocker, 2)
    driver.run_until(NOW + 1_000)
    slots.free(KEY, 1, holder=holder_of(blocker))
    concurrency.drain(driver.executor, KEY)
    driver.world.timetable.armed.clear()
    [_, kept] = slots.held(KEY)
    assert kept.holder[:36] == jobs[0]
    change(driver, jobs[0], maxConcurrency=1)
    driver.run(95)
    assert driver.row(jobs[1]).status is JobStatus.COMPLETED


def hold_all(driver: Driver, job: str, most: int) -> None:
    row, slot = driver.row(job), slot_id(NOW + 5)
    names = tuple(f"{KEY}#{index}" for index in range(most))
    run = make_run(holds=names, lease_expires_at=NOW + 10**6, started_by="w", fence=1)
    driver.world.jobs.put(replace(row, runs={slot: run}, next_slot=None, last_slot=NOW + 5, fence=1))
    for index in range(most):
        taken = Slot(index=index, holder=holder_of(job), mark="w", at=NOW, until=NOW + 10**6)
        driver.world.slots.take(KEY, taken, instead_of=None)


def test_who_waits_for_the_old_key_is_asked_anew_at_once() -> None:
    queue = Queue()
    queue.change(queue.second, concurrencyKey="other")
    queue.driver.run(2)
    assert queue.started(queue.second) is not None


def test_a_change_of_the_key_leaves_a_running_attempt_its_permit() -> None:
    queue = Queue(lost=False)
    [delivery] = queue.world.timetable.take_due()
    during: list[str | None] = []

    def changes(moment: str, name: str) -> None:
        if (moment, name) == ("before", "targets.call"):
            queue.world.faults.disarm()
            queue.change(queue.first, concurrencyKey="other")
            during.append(queue.holder)

    queue.world.faults.inject(on_step=changes)
    queue.driver.deliver(delivery)
    assert during == [queue.first]
    queue.driver.run(2)
    assert queue.started(queue.second) is not None
    assert queue.world.slots.held(KEY) == []


REQUESTS = ["pause", "resume", "key", "limit", "lose", "lose", "run", "run", "run"]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(data=st.data(), jobs=st.integers(2, 5), most=st.integers(1, 2))
def test_whatever_callers_do_no_permit_idles_beside_runs_that_wait(data: st.DataObject, jobs: int, most: int) -> None:
    """Random callers' requests at random instants while random hints get lost: every permit that is kept for a run that
    does not start is with another within two minutes and a half."""
    driver = Driver(World(clock=FakeClock(NOW)))
    limit = {"concurrencyKey": "database", "maxConcurrency": most}
    made = [driver.create(schedule={"type": "interval", "everySeconds": 20 + n}, **limit).id for n in range(jobs)]
    idle_since: float | None = None
    for _ in range(data.draw(st.integers(5, 25))):
        act(driver, data.draw(st.sampled_from(made)), data.draw(st.sampled_from(REQUESTS)), data)
        idle_since = check_idle(driver, idle_since)
    for job in made:
        resume_job(driver.services, SCHEDULER, job)
    driver.run(400)
    for job in made:
        for run in driver.row(job).runs.values():
            assert not waits_longer(run, driver.clock.now(), 300)


def act(driver: Driver, job: str, request: str, data: st.DataObject) -> None:
    if request == "pause":
        pause_job(driver.services, SCHEDULER, job)
    elif request == "resume":
        resume_job(driver.services, SCHEDULER, job)
    elif request == "key":
        change(driver, job, concurrencyKey=data.draw(st.sampled_from(["database", "other"])))
    elif request == "limit":
        change(driver, job, maxConcurrency=data.draw(st.integers(1, 3)))
    elif request == "lose":
        for delivery in list(driver.world.timetable.armed):
            if delivery.hint.job_id == job and data.draw(st.booleans()):
                driver.world.timetable.drop(delivery)
    else:
        driver.run(data.draw(st.sampled_from([1, 7, 30, 61])))


def check_idle(driver: Driver, since: float | None) -> float | None:
    """Since when a permit is kept for nobody who starts while another run waits for it."""
    rows = [driver.row(job) for job in driver.world.jobs.rows]
    running = {f"{row.id}-{slot}-{run.attempt:04d}" for row in rows for slot, run in row.runs.items()}
    waits = any(run.waits_for == KEY and not row.holds(run) for row in rows for run in row.runs.values())
    idle = any(slot.holder not in running for slot in driver.world.slots.held(KEY)) and waits
    now = driver.clock.now()
    if not idle:
        return None
    assert since is None or now - since <= 2 * 60 + HINT_SLACK
    return now if since is None else since


def waits_longer(run: ActiveRun, now: float, seconds: int) -> bool:
    return run.waits_for is not None and run.due_at is not None and run.due_at + seconds < now
