"""Jobs whose target fails, through the real use cases: the circuit opens, holds runs back, probes, and lets them go."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from functions.domain.circuit import (
    Admission,
    Circuit,
    CircuitPolicy,
    CircuitState,
    Health,
    admission,
    after_end,
    look_again_at,
    with_probe,
)
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.job import JobStatus
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.run import RunState
from functions.usecases.actions import retry_job
from functions.usecases.cancelling import cancel_job
from functions.usecases.circuits import reset_circuit
from tests.consumers import BusyDriver
from tests.driver import ADMIN, SCHEDULER, Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.faults import Crash

KEY = "http:example.com:443@team-a"
BREAKER = {"failureThreshold": 5, "openSeconds": 30, "successThreshold": 1}
QUICK = {"maxRetries": 9, "initialDelaySeconds": 1, "backoffStrategy": "fixed", "jitter": 0}
ONCE = {"type": "once", "at": "2027-01-15T08:00:10Z"}
OK = TargetAnswer(status=ExecutionStatus.COMPLETED, result="true")
DOWN = TargetAnswer(status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_503", message="503"))
BAD = TargetAnswer(status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_400", message="400"), retryable=False)


class Outage:
    """A target that is down until an instant."""

    def __init__(self, driver: Driver, until: float) -> None:
        self.driver, self.until = driver, until
        self.calls: list[float] = []

    def __call__(self, _: Invocation) -> TargetAnswer:
        now = self.driver.clock.now()
        self.calls.append(now - NOW)
        return OK if now >= self.until else DOWN


def driver(until: float = NOW + 10**9) -> tuple[Driver, Outage]:
    made = Driver(World(clock=FakeClock(NOW)))
    outage = Outage(made, until)
    made.world.targets.answers = [outage]
    return made, outage


def create(driver: Driver, **document: Any) -> str:
    document = {"schedule": ONCE, "retryConfig": QUICK, "breaker": BREAKER} | document
    return driver.create(**document).id


def state(driver: Driver) -> CircuitState:
    return driver.world.circuits.get(KEY).state(driver.clock.now())


def test_after_five_failures_nothing_calls_the_target_until_one_probe_may() -> None:
    made, outage = driver()
    create(made)
    made.run_until(NOW + 43)
    assert len(outage.calls) == 5
    assert state(made) is CircuitState.OPEN
    made.run_until(NOW + 80)
    assert len(outage.calls) == 6, "one probe, which failed, and the circuit is open again"


def test_what_waits_spends_no_attempt_and_says_why() -> None:
    made, outage = driver(NOW + 60)
    job_id = create(made)
    made.run_until(NOW + 20)
    [run] = made.row(job_id).runs.values()
    assert (run.state, run.attempt, run.deferrals, run.deferred_for) == (RunState.WAITING, 5, 1, "CIRCUIT_OPEN")
    made.run_until(NOW + 300)
    row = made.row(job_id)
    assert row.status is JobStatus.COMPLETED
    last = made.world.history.of(job_id)[-1]
    assert (last.attempt, last.status, last.deferred_for) == (
        len(outage.calls),
        ExecutionStatus.COMPLETED,
        "CIRCUIT_OPEN",
    )
    assert last.deferrals > 0
    assert state(made) is CircuitState.CLOSED


def test_twenty_wait_and_one_probes() -> None:
    made, outage = driver()
    create(made)
    made.run_until(NOW + 20)
    for _ in range(20):
        create(made, schedule={"type": "once", "at": "2027-01-15T08:00:21Z"})
    made.run_until(NOW + 44)
    assert len(outage.calls) == 5
    made.run_until(NOW + 70)
    assert len(outage.calls) == 6


def test_a_probe_that_dies_in_its_call_is_replaced_though_its_attempt_waits_a_day_for_its_callback() -> None:
    made, _ = driver()

    def dies(_: Invocation) -> TargetAnswer:
        raise Crash

    made.world.targets.answers = [*[DOWN] * 5, dies, OK]
    create(made, completion="callback", timeoutSeconds=86_400)
    made.run_until(NOW + 120)
    assert made.world.circuits.get(KEY).probe is not None
    other = create(made, schedule={"type": "once", "at": "2027-01-15T08:02:30Z"})
    made.run_until(NOW + 300)
    assert made.row(other).status is JobStatus.COMPLETED
    assert state(made) is CircuitState.CLOSED


def test_a_success_of_an_attempt_that_started_before_does_not_close_it() -> None:
    slow: list[str] = []
    calls: list[str] = []

    def lasts(invocation: Invocation) -> float:
        calls.append(invocation.job_id)
        return 20 if invocation.job_id in slow else 0

    made = BusyDriver(
        lasts, answer=lambda invocation: OK if invocation.job_id in slow else DOWN, world=World(clock=FakeClock(NOW))
    )
    slow.append(create(made))
    failing = create(made)
    made.run_until(NOW + 40)
    assert made.row(slow[0]).status is JobStatus.COMPLETED
    assert calls.count(failing) == 5
    assert state(made) is CircuitState.OPEN


def test_a_target_that_blames_the_call_is_up() -> None:
    made, _ = driver()
    made.world.targets.answers = [DOWN, DOWN, DOWN, DOWN, BAD, DOWN]
    create(made)
    create(made, schedule={"type": "once", "at": "2027-01-15T08:00:14Z"})
    made.run_until(NOW + 16)
    assert state(made) is CircuitState.CLOSED


@pytest.mark.case(34)
def test_each_look_of_a_run_that_waits_is_rarer_than_the_one_before() -> None:
    """A probe that hangs keeps the circuit half open: only the jitter, drawn at its highest, puts the looks apart."""
    made, outage = driver()
    made.executor = replace(made.executor, uniform=lambda _, high: high)
    made.sweeps = False
    made.world.circuits.rows[KEY] = with_probe(opened(for_seconds=0), "another", until=NOW + 10**6)
    job_id = create(made)
    looks = [NOW + 10]
    for _ in range(7):
        made.run_until(looks[-1] + 1)
        [run] = made.row(job_id).runs.values()
        looks.append(run.due_at or 0)
    apart = [later - earlier for earlier, later in pairwise(looks)]
    assert apart == [15, 30, 60, 120, 240, 480, 900]
    assert outage.calls == []


def test_a_target_that_accepts_a_call_is_up_whatever_it_reports_later() -> None:
    made, _ = driver(NOW)
    made.world.circuits.rows[KEY] = replace(opened(for_seconds=5), failures=5)
    job_id = create(made, completion="callback", timeoutSeconds=600)
    made.run_until(NOW + 12)
    assert made.row(job_id).status is JobStatus.RUNNING, "accepted is not done"
    assert state(made) is CircuitState.CLOSED


def test_jobs_without_a_circuit_neither_ask_nor_tell() -> None:
    made, outage = driver()
    create(made, breaker=None, retryConfig=QUICK)
    made.run_until(NOW + 60)
    assert len(outage.calls) == 10
    assert made.world.circuits.calls == []
    assert made.world.slots.calls == []


class TestTheWaitEnds:
    def test_of_a_one_time_job_after_a_day(self) -> None:
        made, outage = driver()
        made.world.circuits.rows[KEY] = opened(for_seconds=10**6)
        job_id = create(made)
        made.run_until(NOW + 10 + 86_400 - 5)
        assert made.row(job_id).runs
        made.run_until(NOW + 10 + 86_400 + 120)
        [end] = made.world.history.of(job_id)
        assert (end.attempt, end.status, end.final, end.reason) == (1, ExecutionStatus.FAILED, True, "CIRCUIT_OPEN")
        assert end.error is not None
        assert (end.error.code, end.started_at, end.deferred_for) == ("CIRCUIT_OPEN", None, "CIRCUIT_OPEN")
        assert made.row(job_id).status is JobStatus.FAILED
        assert made.world.history.dead_letters == [end]
        assert outage.calls == []

    def test_of_a_recurring_job_before_its_next_slot(self) -> None:
        made, _ = driver()
        made.world.circuits.rows[KEY] = opened(for_seconds=10**6)
        job_id = create(made, schedule={"type": "interval", "everySeconds": 300})
        made.run_until(NOW + 300 + 299)
        [end] = made.world.history.of(job_id)
        assert (end.reason, end.attempt) == ("CIRCUIT_OPEN", 1)
        assert made.row(job_id).runs == {}
        made.run_until(NOW + 4 * 300)
        slots = {execution.slot_id for execution in made.world.history.of(job_id)}
        assert slots == {f"{NOW + 300 * n}" for n in (1, 2, 3)}, "each slot has its end, none is skipped"

    def test_with_the_retry_window(self) -> None:
        made, outage = driver()
        job_id = create(made, retryConfig={**QUICK, "retryWindowSeconds": 20})
        made.run_until(NOW + 200)
        *_, end = made.world.history.of(job_id)
        assert (end.attempt, end.reason, end.error.code) == (6, "CIRCUIT_OPEN", "CIRCUIT_OPEN")
        assert len(outage.calls) == 5

    def test_of_a_forced_retry_after_a_day(self) -> None:
        made, _ = driver()
        job_id = create(made, retryConfig={**QUICK, "retryWindowSeconds": 20})
        made.run_until(NOW + 40)
        retry_job(made.services, SCHEDULER, job_id)
        made.world.circuits.rows[KEY] = opened(for_seconds=10**6)
        made.run_until(NOW + 3600)
        [run] = made.row(job_id).runs.values()
        assert run.deferred_for == "CIRCUIT_OPEN"


def opened(*, for_seconds: int) -> Circuit:
    return Circuit(key=KEY, seq=1, failures=5, since=NOW, open_until=NOW + for_seconds)


class TestProbes:
    def test_one_that_dies_lets_the_next_go_when_its_lease_is_over(self) -> None:
        made, outage = driver(NOW + 45)
        create(made)
        made.run_until(NOW + 20)
        second = create(made, schedule={"type": "once", "at": "2027-01-15T08:00:21Z"})

        def die(_: Invocation) -> TargetAnswer:
            made.world.targets.answers = [outage]
            outage.calls.append(made.clock.now() - NOW)
            raise Crash

        made.world.targets.answers = [die]
        made.run_until(NOW + 100)
        assert len(outage.calls) == 6
        assert state(made) is CircuitState.HALF_OPEN
        made.run_until(NOW + 600)
        assert state(made) is CircuitState.CLOSED
        assert made.row(second).status is JobStatus.COMPLETED

    def test_one_whose_start_is_refused_gives_its_place_back(self) -> None:
        made, outage = driver()
        job_id = create(made)
        made.run_until(NOW + 20)

        def cancel(when: str, name: str) -> None:
            if (when, name) == ("after", "circuits.save"):
                made.world.faults.disarm()
                cancel_job(made.services, SCHEDULER, job_id)

        made.world.faults.on_step = cancel
        made.run_until(NOW + 100)
        assert len(outage.calls) == 5
        assert made.world.circuits.get(KEY).probe is None

    def test_a_reset_lets_everybody_go(self) -> None:
        made, _ = driver(NOW + 18)
        job_id = create(made)
        made.run_until(NOW + 20)
        reset_circuit(made.services, ADMIN, KEY)
        other = create(made, schedule={"type": "once", "at": "2027-01-15T08:00:21Z"})
        made.run_until(NOW + 22)
        assert made.row(other).status is JobStatus.COMPLETED
        assert made.row(job_id).runs, "who waits comes back at its time"
        made.run_until(NOW + 120)
        assert made.row(job_id).status is JobStatus.COMPLETED


@pytest.mark.slow
@pytest.mark.case(34)
def test_ten_thousand_wait_and_look_ever_more_rarely_and_come_back_without_a_stampede() -> None:
    """The target is down for two hours; ten thousand one-time jobs come due in its first minute."""
    waiting = Waiting(10_000, down_until=NOW + 7200)
    waiting.run(until=NOW + 4 * 3600)

    assert waiting.most_probes == 1
    looks = [waiting.looks[minute] for minute in range(120)]
    for earlier, later in ((10, 30), (30, 60), (60, 110)):
        assert sum(looks[earlier : earlier + 10]) > sum(looks[later : later + 10])
    assert max(looks[60:]) < 1_500, "looks of ten thousand, a minute, after an hour"
    assert sum(waiting.started.values()) == 10_000
    released = {minute: count for minute, count in waiting.started.items() if minute >= 120}
    assert max(released.values()) < 1_500, "none come back together"
    assert max(released) < 120 + 16


class Waiting:
    """Many runs of one target in virtual time, over the rules that the executor uses: each look is a read of the row,
    as `Admission` and `report` do it. The use cases themselves would need minutes for so many."""

    def __init__(self, count: int, *, down_until: float) -> None:
        self.policy = CircuitPolicy().under(BREAKER)
        self.circuit = Circuit(key=KEY)
        self.down_until = down_until
        self.draw = random.Random(34)
        self.looks: Counter[int] = Counter()
        self.started: Counter[int] = Counter()
        """Starts of runs that completed."""
        self.most_probes = 0
        self.probing: set[str] = set()
        self.events = [(NOW + self.draw.uniform(0, 60), f"e{n}", 0, "look") for n in range(count)]

    def run(self, *, until: float) -> None:

        heapq.heapify(self.events)
        while self.events and self.events[0][0] < until:
            now, name, deferrals, what = heapq.heappop(self.events)
            minute = int(now - NOW) // 60
            if what == "look":
                self.looks[minute] += 1
                said = admission(self.circuit, name, now=now)
                if said is Admission.BLOCKED:
                    at = look_again_at(
                        self.circuit,
                        self.policy,
                        deferrals=deferrals,
                        limit=NOW + 86_400,
                        now=now,
                        uniform=self.draw.uniform,
                    )
                    heapq.heappush(self.events, (at + self.draw.random(), name, deferrals + 1, "look"))
                    continue
                if said is Admission.PROBE:
                    self.circuit = with_probe(self.circuit, name, until=int(now) + 80)
                    self.probing.add(name)
                    self.most_probes = max(self.most_probes, len(self.probing))
                heapq.heappush(self.events, (now + 0.2, name, deferrals, f"end {now}"))
                continue
            started = float(what.split()[1])
            health = Health.UP if started >= self.down_until else Health.DOWN
            self.circuit = (
                after_end(self.circuit, self.policy, name, health, started_at=started, now=now) or self.circuit
            )
            self.probing.discard(name)
            if health is Health.UP:
                self.started[int(started - NOW) // 60] += 1
            else:
                heapq.heappush(self.events, (now + 10, name, 0, "look"))
