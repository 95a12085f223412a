"""Who holds a slot, or the place of a probe: the interleavings of docs/protocol.md, section 5, one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.domain.circuit import Circuit, CircuitState, with_probe
from functions.domain.execution import ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.ids import slot_id
from functions.domain.job import Job, JobStatus
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.run import RunState
from functions.usecases.executor import handle_hint
from functions.usecases.holders import is_given_up
from tests.driver import Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.faults import Crash

KEY = "key:team-a|database"
CIRCUIT = "http:example.com:443@team-a"
ONCE = {"type": "once", "at": "2027-01-15T08:00:10Z"}
SLOT = slot_id(NOW + 10)
LIMIT = {"concurrencyKey": "database", "maxConcurrency": 1}
BREAKER = {"breaker": {"failureThreshold": 1, "openSeconds": 5}}
OK = TargetAnswer(status=ExecutionStatus.COMPLETED, result="true")


class Scene:
    """Two jobs that want the same place; hints are delivered by hand."""

    def __init__(self, **document: Any) -> None:
        self.driver = Driver(World(clock=FakeClock(NOW)), sweeps=False)
        self.world = self.driver.world
        self.one, self.two = (self.driver.create(schedule=ONCE, timeoutSeconds=20, **document).id for _ in range(2))
        self.world.timetable.armed.clear()
        self.world.clock.time = NOW + 10.0
        self.running: list[str] = []
        self.most = 0
        self.world.targets.answers = [self.call]
        self.meanwhile: dict[str, Callable[[], None]] = {}
        self.world.faults.on_step = self.step

    def call(self, invocation: Invocation) -> TargetAnswer:
        self.running.append(invocation.execution_id)
        self.most = max(self.most, len(self.leased()))
        return OK

    def leased(self) -> list[str]:
        now = self.world.clock.now()
        return [
            f"{row.id}-{slot}-{run.attempt:04d}"
            for row in self.world.jobs.rows.values()
            for slot, run in row.runs.items()
            if run.state is RunState.RUNNING and now < (run.lease_expires_at or 0)
        ]

    def step(self, when: str, name: str) -> None:
        happens = self.meanwhile.pop(f"{when} {name}", None)
        if happens is not None:
            happens()

    def hint(self, job_id: str, attempt: int = 1) -> str:
        return handle_hint(self.driver.executor, Hint(job_id, SLOT, attempt)).reason

    def holder(self) -> str | None:
        slots = self.world.slots.held(KEY)
        return slots[0].holder[:36] if slots else None

    def later(self, seconds: float) -> None:
        self.world.clock.time += seconds

    def finishes(self) -> None:
        """Everything that is under way comes to its end."""
        self.world.faults.disarm()
        self.driver.sweeps = True
        self.driver._next_sweep = self.world.clock.now() + 1
        self.driver.run(1500)
        assert self.driver.row(self.one).status is JobStatus.COMPLETED
        assert self.driver.row(self.two).status is JobStatus.COMPLETED
        assert self.world.slots.held(KEY) == []


@pytest.mark.parametrize("document", [LIMIT, BREAKER], ids=["slot", "probe"])
def test_a_start_that_stalled_is_refused_once_its_place_was_taken_over(document: dict[str, Any]) -> None:
    """Holder takes · stalls until its time is over · another takes over and runs · the holder's start is refused."""
    scene = Scene(**document)
    half_open(scene)
    started: list[list[str]] = []

    def stalls() -> None:
        scene.later(200)

        def the_other_runs(_: Invocation) -> TargetAnswer:
            raise Crash  # it holds its place under a lease from here on

        scene.world.targets.answers = [the_other_runs]
        with pytest.raises(Crash):
            scene.hint(scene.two)
        started.append(scene.leased())
        scene.world.targets.answers = [scene.call]

    scene.meanwhile["before jobs.save"] = stalls
    assert scene.hint(scene.one) in ("CONCURRENCY_LIMIT", "CIRCUIT_OPEN")
    assert [each[:36] for each in started[0]] == [scene.two]
    assert scene.running == []
    assert [each[:36] for each in scene.leased()] == [scene.two]


def half_open(scene: Scene) -> None:
    """The circuit lets one through."""
    scene.world.circuits.rows[CIRCUIT] = Circuit(key=CIRCUIT, seq=1, failures=1, since=NOW, open_until=NOW + 5)


def test_a_start_that_comes_before_the_taker_writes_its_row_stands() -> None:
    """Holder takes, stalls · the taker reads its row · the holder starts · the taker's write of that row is refused."""
    scene = Scene(**LIMIT)
    holder = take_and_die(scene)
    scene.later(200)

    def holder_starts() -> None:
        row = scene.driver.row(scene.one)
        run = replace(start_of(row), lease_expires_at=int(scene.world.clock.now()) + 30)
        scene.world.jobs.save(row, replace(row, runs={SLOT: run}, next_slot=None, last_slot=NOW + 10, write_id="start"))

    scene.meanwhile["before jobs.save"] = holder_starts
    assert scene.hint(scene.two) == "CONCURRENCY_LIMIT"
    assert scene.world.slots.held(KEY)[0].holder == holder


def take_and_die(scene: Scene) -> str:
    """The first job's consumer takes the slot and goes no further."""

    def die() -> None:
        raise Crash

    scene.meanwhile["before jobs.save"] = die
    with pytest.raises(Crash):
        scene.hint(scene.one)
    [slot] = scene.world.slots.held(KEY)
    return slot.holder


def start_of(row: Job) -> Any:
    from tests.factories import make_run  # noqa: PLC0415 - only here

    return make_run(started_by="start", holds=(f"{KEY}#0",), fence=row.fence + 1)


def test_a_renewal_between_looking_and_taking_over_wins() -> None:
    """The taker has found the holder given up · the holder renews · the taker names the old mark, and is refused."""
    scene = Scene(**LIMIT)
    take_and_die(scene)
    scene.later(200)
    renewed: list[str] = []

    def renews() -> None:
        renewed.append(scene.hint(scene.one))

    scene.meanwhile["before slots.take"] = renews
    scene.hint(scene.two)
    assert renewed == ["STARTED"]
    assert scene.most == 1
    scene.finishes()


def test_two_consumers_of_one_hint_use_one_slot_and_the_loser_gives_nothing_away() -> None:
    scene = Scene(**LIMIT)
    during: list[str | None] = []

    def other_wins() -> None:
        def call(invocation: Invocation) -> TargetAnswer:
            scene.running.append(invocation.execution_id)
            raise Crash  # still running, as far as anybody knows

        scene.world.targets.answers = [call]
        with pytest.raises(Crash):
            scene.hint(scene.one)
        scene.world.targets.answers = [scene.call]

    scene.meanwhile["before jobs.save"] = other_wins
    assert scene.hint(scene.one) == "NOT_WAITING"
    during.append(scene.holder())
    assert during == [scene.one], "the winner runs on the slot"
    assert scene.hint(scene.two) == "CONCURRENCY_LIMIT"
    assert len(scene.running) == 1


def test_a_newcomer_leaves_a_free_slot_to_who_waits() -> None:
    scene = Scene(**LIMIT)
    take_and_die(scene)
    assert scene.hint(scene.two) == "CONCURRENCY_LIMIT"
    third = scene.driver.create(schedule=ONCE, timeoutSeconds=20, **LIMIT).id
    scene.world.timetable.armed.clear()
    [slot] = scene.world.slots.held(KEY)
    scene.world.slots.free(KEY, 0, holder=slot.holder)
    scene.later(5)
    assert scene.hint(third) == "CONCURRENCY_LIMIT"
    assert scene.holder() == scene.two, "the newcomer's drain gave it to who waits longest"
    [hint] = scene.world.timetable.armed
    assert hint.hint.job_id == scene.two


def test_a_job_that_the_index_still_shows_as_waiting_is_granted_nothing_in_a_pause() -> None:
    scene = Scene(**LIMIT)
    take_and_die(scene)
    scene.hint(scene.two)
    scene.world.jobs.lagging = True
    row = scene.driver.row(scene.two)
    scene.world.jobs.save(row, replace(row, paused=True, write_id="pause"))
    [slot] = scene.world.slots.held(KEY)
    scene.world.slots.free(KEY, 0, holder=slot.holder)
    third = scene.driver.create(schedule=ONCE, timeoutSeconds=20, **LIMIT).id
    scene.world.timetable.armed.clear()
    scene.later(1)
    scene.hint(third)
    assert scene.holder() == third


def test_a_slot_with_the_name_of_an_attempt_that_runs_on_another_is_given_up() -> None:
    scene = Scene(concurrencyKey="database", maxConcurrency=2)
    row = scene.driver.row(scene.one)
    run = replace(start_of(row), lease_expires_at=NOW + 100)
    scene.world.jobs.put(replace(row, runs={SLOT: run}, next_slot=None, last_slot=NOW + 10))
    execution = f"{scene.one}-{SLOT}-0001"
    assert not is_given_up(scene.driver.executor, execution, f"{KEY}#0")
    assert is_given_up(scene.driver.executor, execution, f"{KEY}#1")
    assert not is_given_up(scene.driver.executor, execution)


def test_a_holder_that_is_gone_has_given_up() -> None:
    scene = Scene(**LIMIT)
    assert is_given_up(scene.driver.executor, f"7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f-{SLOT}-0001")
    assert is_given_up(scene.driver.executor, "no execution at all")


def test_the_probes_duplicate_renews_its_place_and_one_of_them_runs() -> None:
    scene = Scene(**BREAKER)
    half_open(scene)

    def other_wins() -> None:
        assert scene.hint(scene.one) == "STARTED"

    scene.meanwhile["before jobs.save"] = other_wins
    assert scene.hint(scene.one) in ("NOT_WAITING", "NOTHING_DUE")
    assert len(scene.running) == 1
    circuit = scene.world.circuits.get(CIRCUIT)
    assert (circuit.state(NOW + 11), circuit.probe) == (CircuitState.CLOSED, None)


def test_a_probe_that_is_written_down_and_runs_is_not_replaced_before_its_lease_is_over() -> None:
    scene = Scene(**BREAKER)
    half_open(scene)
    row = scene.driver.row(scene.one)
    run = replace(start_of(row), holds=(), lease_expires_at=NOW + 500)
    scene.world.jobs.put(replace(row, runs={SLOT: run}, next_slot=None, last_slot=NOW + 10))
    circuit = scene.world.circuits.rows[CIRCUIT]
    scene.world.circuits.rows[CIRCUIT] = with_probe(circuit, f"{scene.one}-{SLOT}-0001", until=NOW + 20)
    scene.later(100)
    assert scene.hint(scene.two) == "CIRCUIT_OPEN"
    scene.later(500)
    scene.world.timetable.armed.clear()
    assert scene.hint(scene.two) == "STARTED"


def test_many_threads_and_two_slots_show_two_at_once() -> None:
    """Sixteen consumers over the fakes, each delivering whatever is due until nothing is left."""
    driver = Driver(World(clock=FakeClock(NOW)), sweeps=False)
    jobs = [driver.create(schedule=ONCE, concurrencyKey="database", maxConcurrency=2).id for _ in range(24)]
    driver.world.clock.time = NOW + 10.0
    lock, running, most = threading.Lock(), [0], [0]

    def call(_: Invocation) -> TargetAnswer:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        threading.Event().wait(0.002)
        with lock:
            running[0] -= 1
        return OK

    driver.world.targets.answers = [call]

    def consume() -> None:
        for _ in range(400):
            with lock:
                due = driver.world.timetable.deliverable()[:1]
                for delivery in due:
                    driver.world.timetable.drop(delivery)
            for delivery in due:
                driver.deliver(delivery)
            if not due:
                threading.Event().wait(0.001)

    threads = [threading.Thread(target=consume) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] <= 2
    driver.sweeps = True
    driver.run(1500)
    assert all(driver.row(job).status is JobStatus.COMPLETED for job in jobs)
