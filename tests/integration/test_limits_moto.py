"""Many consumers at the same time, over the DynamoDB adapters: one probe, and never more than the limit."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from functions.adapters.dynamodb_circuits import DynamoDbCircuits
from functions.adapters.dynamodb_history import DynamoDbHistory
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.adapters.dynamodb_slots import DynamoDbSlots
from functions.domain.circuit import Circuit
from functions.domain.execution import ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.ids import slot_id
from functions.domain.job import JobStatus
from functions.domain.outcome import Invocation, TargetAnswer
from functions.usecases.executor import handle_hint
from tests.driver import Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World

if TYPE_CHECKING:
    from tests.conftest import Aws

ONCE = {"type": "once", "at": "2027-01-15T08:00:10Z"}
SLOT = slot_id(NOW + 10)
OK = TargetAnswer(status=ExecutionStatus.COMPLETED, result="true")
DOWN = TargetAnswer(status=ExecutionStatus.FAILED)
COUNT = 8


def driver_over(aws: Aws) -> Driver:
    return Driver(
        World(clock=FakeClock(NOW)),
        sweeps=False,
        jobs=DynamoDbJobs(aws.dynamodb, aws.jobs_table, graphs=aws.coordination_table),
        history=DynamoDbHistory(aws.dynamodb, aws.executions_table, retention_days=30),
        circuits=DynamoDbCircuits(aws.dynamodb, aws.coordination_table),
        slots=DynamoDbSlots(aws.dynamodb, aws.coordination_table),
    )


class Crowd:
    """The target, and how many call it at the same time."""

    def __init__(self, answer: TargetAnswer) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._now = self.most = self.calls = 0

    def __call__(self, _: Invocation) -> TargetAnswer:
        with self._lock:
            self.calls += 1
            self._now += 1
            self.most = max(self.most, self._now)
        threading.Event().wait(0.2)
        with self._lock:
            self._now -= 1
        return self._answer


def start_all(driver: Driver, jobs: list[str]) -> None:
    driver.world.timetable.armed.clear()
    driver.world.clock.time = NOW + 10.0
    with ThreadPoolExecutor(len(jobs)) as threads:
        list(threads.map(lambda job: handle_hint(driver.executor, Hint(job, SLOT, 1)), jobs))


def test_of_many_attempts_one_is_the_probe(aws: Aws) -> None:
    driver, crowd = driver_over(aws), Crowd(DOWN)
    driver.world.targets.answers = [crowd]
    jobs = [driver.create(schedule=ONCE, breaker={"openSeconds": 5}).id for _ in range(COUNT)]
    circuits, key = driver.executor.circuits, "http:example.com:443@team-a"
    circuits.save(Circuit(key=key), Circuit(key=key, write_id="w", failures=5, since=NOW, open_until=NOW + 5), now=NOW)

    start_all(driver, jobs)

    assert crowd.calls == 1
    assert circuits.get(key).open_until == NOW + 15, "its failure has opened the circuit again"
    assert sum(run.deferred_for == "CIRCUIT_OPEN" for job in jobs for run in driver.row(job).runs.values()) == COUNT - 1


def test_of_many_failures_the_fifth_opens_the_circuit(aws: Aws) -> None:
    driver, crowd = driver_over(aws), Crowd(DOWN)
    driver.world.targets.answers = [crowd]
    jobs = [driver.create(schedule=ONCE, circuitBreaker={}, retryConfig={"maxRetries": 0}).id for _ in range(COUNT)]

    start_all(driver, jobs)

    circuit = driver.executor.circuits.get("http:example.com:443@team-a")
    assert (circuit.failures, circuit.open_until) == (5, NOW + 40), "what ends once it is open is not counted"


def test_of_many_attempts_two_hold_the_slots_and_all_run_in_the_end(aws: Aws) -> None:
    driver, crowd = driver_over(aws), Crowd(OK)
    driver.world.targets.answers = [crowd]
    jobs = [driver.create(schedule=ONCE, concurrencyKey="database", maxConcurrency=2).id for _ in range(COUNT)]

    start_all(driver, jobs)
    while due := driver.world.timetable.take_due():
        with ThreadPoolExecutor(len(due)) as threads:
            list(threads.map(lambda delivery: handle_hint(driver.executor, delivery.hint), due))

    assert crowd.most == 2
    driver.sweeps = True
    driver.run(300)
    assert [driver.row(job).status for job in jobs] == [JobStatus.COMPLETED] * COUNT
    left = driver.executor.slots.held("key:team-a|database")
    assert all(slot.until < NOW + 300 for slot in left), "a grant to who was faster is anybody's once its time is over"
