"""Every call that concerns a running attempt, at every instant around the end of its lease and its deadline.

The owner's calls all get the same answer. Whoever would end the attempt or take what it holds gets the opposite one,
but for the seconds that clocks may differ by, in which neither acts (docs/protocol.md, section 7).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.circuit import Circuit, Probe
from functions.domain.claims import Holder
from functions.domain.errors import ConflictError, NotYoursError
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.ids import execution_id, parse_execution_id
from functions.domain.job import Job
from functions.domain.outcome import TargetAnswer
from functions.domain.progress import Progress
from functions.domain.run import ActiveRun, RunState
from functions.usecases.claiming import Poll, poll
from functions.usecases.executor import handle_hint
from functions.usecases.holders import is_given_up
from functions.usecases.reports import end_execution, report_progress
from functions.usecases.services import Executor
from functions.usecases.sweep import visit
from functions.usecases.workers import heartbeat, register_worker
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.faults import Crash

KEY: dict[str, Any] = {"concurrencyKey": "printer", "maxConcurrency": 1}
PERMIT = "key:team-a|printer"
WORKER: dict[str, Any] = {"target": {"type": "worker", "queue": "reports"}}
CALLBACK: dict[str, Any] = {"completion": "callback"}
CIRCUIT: dict[str, Any] = {"breaker": {"failureThreshold": 1, "openSeconds": 1}}
OK = TargetAnswer(status=ExecutionStatus.COMPLETED, result="true")
BAD = TargetAnswer(status=ExecutionStatus.FAILED, error=ExecutionError(code="TARGET_ERROR", message="no paper"))
START = NOW + 10


class SkewedClock(FakeClock):
    """The clock of one function, `seconds` ahead of the world's."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        super().__init__()
        self._clock, self._seconds = clock, seconds

    def now(self) -> float:
        return self._clock.now() + self._seconds

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)


@dataclass
class Attempt:
    """One attempt that runs since START, and everybody who has to do with it."""

    driver: Driver
    job: str
    slot: str
    worker: str = ""
    other: str = ""
    """A job of the same key that would run in its place."""

    @property
    def row(self) -> Job:
        return self.driver.row(self.job)

    @property
    def id(self) -> str:
        return execution_id(self.job, self.slot, 1)

    @property
    def run(self) -> ActiveRun:
        return self.row.runs[self.slot]

    @property
    def holder(self) -> Holder:
        if self.worker:
            return Holder(worker_id=self.worker, fence=1)
        return Holder(token=self.driver.world.targets.calls[0].callback_token)

    @property
    def is_running(self) -> bool:
        run = self.row.runs.get(self.slot)
        return run is not None and run.state is RunState.RUNNING and run.attempt == 1

    def executor(self, ahead: float = 0.0) -> Executor:
        return replace(self.driver.executor, clock=SkewedClock(self.driver.world.clock, ahead))

    def services(self, ahead: float = 0.0) -> Any:
        return replace(self.driver.services, clock=SkewedClock(self.driver.world.clock, ahead))


def by_worker(timeout: int) -> Callable[[], Attempt]:
    def make() -> Attempt:
        driver = Driver(World(clock=FakeClock(NOW)))
        at = {"type": "once", "at": "2027-01-15T08:00:10Z"}
        one, other = (driver.create(schedule=at, timeoutSeconds=timeout, **WORKER, **KEY).id for _ in range(2))
        worker = register_worker(driver.services, SCHEDULER, name="", queues=("reports",), max_items=1).id
        driver.run_until(START + 0.001)
        driver.world.clock.time = float(START)
        [claimed] = poll(driver.services, SCHEDULER, Poll(worker_id=worker, poll_id="p"), shuffle=lambda _: None)
        waits = other if claimed.job.id == one else one
        return Attempt(driver, claimed.job.id, claimed.slot_id, worker=worker, other=waits)

    return make


def by_callback(timeout: int, *, accepted: bool) -> Callable[[], Attempt]:
    def make() -> Attempt:
        driver = Driver(World(clock=FakeClock(NOW)))
        at = {"type": "once", "at": "2027-01-15T08:00:10Z"}
        one = driver.create(schedule=at, timeoutSeconds=timeout, **CALLBACK, **KEY, **CIRCUIT)

        def die(when: str, name: str) -> None:
            if not accepted and (when, name) == ("after", "targets.call"):
                driver.world.faults.disarm()
                raise Crash

        driver.world.faults.inject(on_step=die)
        driver.run_until(START + 0.001)
        later = {"type": "once", "at": "2027-01-15T08:00:11Z"}
        other = driver.create(schedule=later, timeoutSeconds=timeout, **CALLBACK, **KEY)
        [slot] = driver.row(one.id).runs
        return Attempt(driver, one.id, slot, other=other.id)

    return make


@dataclass(frozen=True)
class Kind:
    make: Callable[[], Attempt]
    held_until: int
    """Seconds after the start from which on the owner is refused."""
    free_from: int
    """… and from which on others may act."""
    by: str
    """What ends it: TIMED_OUT at its deadline, else LOST."""


KINDS = {
    "a silent worker": Kind(by_worker(300), 90, 95, "LOST"),
    "a silent worker whose lease outlives its deadline": Kind(by_worker(30), 32, 34, "TIMED_OUT"),
    "a silent worker whose lease ends on its deadline": Kind(by_worker(90), 90, 94, "LOST"),
    "a silent worker whose lease ends with the grace": Kind(by_worker(88), 90, 92, "TIMED_OUT"),
    "a target that accepted": Kind(by_callback(600, accepted=True), 602, 604, "TIMED_OUT"),
    "a target whose call was not seen to its end": Kind(by_callback(600, accepted=False), 75, 80, "LOST"),
    "a short callback, accepted": Kind(by_callback(20, accepted=True), 22, 24, "TIMED_OUT"),
    "a short callback, not seen to its end": Kind(by_callback(20, accepted=False), 22, 24, "TIMED_OUT"),
}


# --- what the owner does: each says whether it counted ---


def counts(ask: Callable[[], Any]) -> bool:
    try:
        ask()
    except (ConflictError, NotYoursError):
        return False
    return True


def beats(attempt: Attempt, ahead: float = 0.0) -> bool:
    held = ((attempt.id, 1),)
    return counts(lambda: heartbeat(attempt.services(ahead), SCHEDULER, attempt.worker, held))


def shows_progress(attempt: Attempt, ahead: float = 0.0) -> bool:
    progress = Progress(percent=50)
    services = attempt.services(ahead)
    return counts(lambda: report_progress(services, SCHEDULER, attempt.id, attempt.holder, progress))


def completes(attempt: Attempt, ahead: float = 0.0) -> bool:
    services = attempt.services(ahead)
    return counts(lambda: end_execution(services, SCHEDULER, attempt.id, attempt.holder, OK))


def fails(attempt: Attempt, ahead: float = 0.0) -> bool:
    services = attempt.services(ahead)
    return counts(lambda: end_execution(services, SCHEDULER, attempt.id, attempt.holder, BAD))


def polls_again(attempt: Attempt, ahead: float = 0.0) -> bool:
    """The same poll is given what it holds."""
    wanted = Poll(worker_id=attempt.worker, poll_id="p")
    found = poll(attempt.services(ahead), SCHEDULER, wanted, shuffle=lambda _: None)
    return attempt.id in [execution_id(one.job.id, one.slot_id, one.run.attempt) for one in found]


OWNERS = {"progress": shows_progress, "complete": completes, "fail": fails}
WORKERS = {**OWNERS, "heartbeat": beats, "the same poll again": polls_again}


# --- what others do: each says whether it has ended the attempt, or taken what it holds ---


def is_swept(attempt: Attempt, ahead: float = 0.0) -> bool:
    visit(attempt.executor(ahead), attempt.job)
    return not attempt.is_running


def loses_its_permit(attempt: Attempt, ahead: float = 0.0) -> bool:
    return is_given_up(attempt.executor(ahead), attempt.id, attempt.run.holds[0])


def loses_its_place_as_a_probe(attempt: Attempt, ahead: float = 0.0) -> bool:
    """Asked only when the time of its call is over."""
    return is_given_up(attempt.executor(ahead), attempt.id)


OTHERS = {"the sweep": is_swept, "a taker of its permit": loses_its_permit}


def times_out(attempt: Attempt, ahead: float = 0.0) -> bool:
    """The hint for its deadline, whenever it comes."""
    key = parse_execution_id(attempt.id)
    assert key is not None
    handle_hint(attempt.executor(ahead), Hint(*key))
    return not attempt.is_running


def at(kind: Kind, seconds: float) -> Attempt:
    attempt = kind.make()
    attempt.driver.sweeps = False
    attempt.driver.world.timetable.armed.clear()
    attempt.driver.world.clock.time = START + seconds
    return attempt


def around(kind: Kind) -> list[float]:
    edges = (kind.held_until, kind.free_from)
    return sorted({edge + by for edge in edges for by in (-1.1, -0.1, 0, 1.1)} | {kind.free_from + 60.0})


ROWS = [
    pytest.param(kind, call, seconds, id=f"{name}, {call}, {seconds:g} s")
    for name, kind in KINDS.items()
    for call in (WORKERS if "worker" in name else OWNERS)
    for seconds in around(kind)
]


@pytest.mark.parametrize(("kind", "call", "seconds"), ROWS)
def test_every_call_of_the_owner_counts_until_the_same_instant(kind: Kind, call: str, seconds: float) -> None:
    assert WORKERS[call](at(kind, seconds)) is (seconds < kind.held_until)


@pytest.mark.parametrize(
    ("kind", "call", "seconds"),
    [
        pytest.param(kind, call, seconds, id=f"{name}, {call}, {seconds:g} s")
        for name, kind in KINDS.items()
        for call in OTHERS
        for seconds in around(kind)
    ],
)
def test_others_act_from_the_same_instant_on(kind: Kind, call: str, seconds: float) -> None:
    assert OTHERS[call](at(kind, seconds)) is (seconds >= kind.free_from)


@pytest.mark.parametrize("name", [name for name in KINDS if "worker" not in name])
def test_a_probe_that_waits_for_its_callback_has_no_place_to_lose(name: str) -> None:
    """Its call is over by the time anybody asks: after the lease of the call."""
    kind = KINDS[name]
    assert loses_its_place_as_a_probe(at(kind, max(kind.free_from, 80)))


@pytest.mark.parametrize(
    ("name", "seconds"), [(name, seconds) for name, kind in KINDS.items() for seconds in around(kind)]
)
def test_the_hint_for_the_deadline_ends_what_nobody_may_report_on(name: str, seconds: float) -> None:
    kind = KINDS[name]
    attempt = at(kind, seconds)
    deadline = attempt.run.deadline_at
    assert deadline is not None
    # A hint that is 2 s early at most waits for its time.
    assert times_out(attempt) is (START + seconds >= deadline + 2)
    assert attempt.driver.clock.now() >= deadline + 4 or attempt.is_running


@pytest.mark.parametrize(("name", "call"), [(name, call) for name in KINDS for call in OWNERS])
def test_the_refusal_says_what_has_become_of_it(name: str, call: str) -> None:
    kind = KINDS[name]
    attempt = at(kind, kind.free_from - 0.1)
    asks: dict[str, Callable[[], Any]] = {
        "progress": lambda: report_progress(
            attempt.services(), SCHEDULER, attempt.id, attempt.holder, Progress(percent=1)
        ),
        "complete": lambda: end_execution(attempt.services(), SCHEDULER, attempt.id, attempt.holder, OK),
        "fail": lambda: end_execution(attempt.services(), SCHEDULER, attempt.id, attempt.holder, BAD),
    }
    became = "TIMED_OUT" if kind.free_from - 0.1 >= (attempt.run.deadline_at or 0) + 2 - START else "LOST"
    with pytest.raises(ConflictError, match=f"^{became}:"):
        asks[call]()
    assert attempt.is_running, "whoever is refused ends nothing that another clock may take a report on"
    if attempt.worker:
        with pytest.raises(NotYoursError) as gone:
            heartbeat(attempt.services(), SCHEDULER, attempt.worker, ((attempt.id, 1),))
        assert gone.value.gone == {attempt.id: became}
        assert attempt.is_running


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(sorted(KINDS)),
    ahead=st.floats(-2, 2),
    behind=st.floats(-2, 2),
    offset=st.floats(-4, 8),
    data=st.data(),
)
def test_no_clocks_let_the_owner_and_another_act(
    name: str, ahead: float, behind: float, offset: float, data: st.DataObject
) -> None:
    """Another acts first; then the owner's call comes, at the same instant, by a clock that differs by 2 s at most."""
    if abs(ahead - behind) > 2:
        return
    kind = KINDS[name]
    acts = data.draw(st.sampled_from([*OTHERS.values(), times_out]))
    asks = data.draw(st.sampled_from(list((WORKERS if "worker" in name else OWNERS).values())))
    attempt = at(kind, kind.held_until + offset)
    acted = acts(attempt, ahead)
    in_time = attempt.driver.clock.now() + behind < START + kind.held_until
    assert not (acted and in_time)
    assert asks(attempt, behind) is (in_time and not acted)


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.0, 1.9])
@pytest.mark.parametrize("ahead", [-2.0, 0.0, 2.0])
@pytest.mark.parametrize("name", ["a target that accepted", "a silent worker whose lease outlives its deadline"])
def test_a_report_within_the_grace_is_taken_whatever_clock_a_consumer_has(
    name: str, ahead: float, seconds: float
) -> None:
    kind = KINDS[name]
    attempt = kind.make()
    attempt.driver.sweeps = False
    deadline = attempt.run.deadline_at or 0
    attempt.driver.executor = attempt.executor(ahead)

    attempt.driver.run_until(deadline + seconds)
    visit(attempt.executor(ahead), attempt.job)

    assert completes(attempt)
    assert [end.status for end in attempt.driver.executions(attempt.job)] == [ExecutionStatus.COMPLETED]


# --- permits: two never run where one may ---


def test_a_worker_that_is_late_is_refused_everything_once_another_has_its_permit() -> None:
    """No sweep comes: the permit is taken by whoever polls next."""
    attempt = at(KINDS["a silent worker"], 111)
    b = register_worker(attempt.driver.services, SCHEDULER, name="", queues=("reports",), max_items=1).id
    [second] = poll(
        attempt.driver.services, SCHEDULER, Poll(worker_id=b, poll_id="q", max_items=2), shuffle=lambda _: None
    )
    assert second.job.id == attempt.other
    assert attempt.is_running, "as far as its row says"

    assert [ask(attempt) for ask in WORKERS.values()] == [False] * len(WORKERS)
    execution = execution_id(second.job.id, second.slot_id, 1)
    holder = Holder(worker_id=b, fence=second.run.fence)
    ended = end_execution(attempt.driver.services, SCHEDULER, execution, holder, OK)
    assert ended.status is ExecutionStatus.COMPLETED
    attempt.driver.sweeps = True
    attempt.driver.run(70)
    [lost] = attempt.driver.executions(attempt.job)
    assert lost.error is not None
    assert lost.error.code == "WORKER_LOST"


def test_a_heartbeat_that_was_slow_does_not_revive_what_lost_its_permit() -> None:
    """It was decided while the lease held, and its write comes once the permit is another's."""
    attempt = at(KINDS["a silent worker"], 89)
    b = register_worker(attempt.driver.services, SCHEDULER, name="", queues=("reports",), max_items=1).id
    taken: list[int] = []

    def stall(when: str, name: str) -> None:
        if (when, name) == ("before", "jobs.save"):
            attempt.driver.world.faults.disarm()
            attempt.driver.world.clock.advance(22)
            wanted = Poll(worker_id=b, poll_id="q", max_items=2)
            taken.append(len(poll(attempt.driver.services, SCHEDULER, wanted, shuffle=lambda _: None)))

    attempt.driver.world.faults.inject(on_step=stall)

    assert not beats(attempt)
    assert taken == [1]
    assert not completes(attempt)


def test_a_heartbeat_that_was_slow_does_not_revive_what_the_sweep_is_about_to_end() -> None:
    """Its write comes between the sweep's row of history and the sweep's row of the job."""
    attempt = at(KINDS["a silent worker"], 89)
    kept: list[bool] = []

    def die_after_history(when: str, name: str) -> None:
        if (when, name) == ("after", "history.record"):
            raise Crash("before the row of the job")

    def stall(when: str, name: str) -> None:
        if (when, name) != ("before", "jobs.save"):
            return
        attempt.driver.world.clock.advance(10)
        attempt.driver.world.faults.inject(on_step=die_after_history)
        with pytest.raises(Crash):
            visit(attempt.executor(), attempt.job)
        attempt.driver.world.faults.disarm()

    attempt.driver.world.faults.inject(on_step=stall)
    kept.append(beats(attempt))

    assert [row.error.code for row in attempt.driver.world.history.of(attempt.job) if row.error] == ["WORKER_LOST"]
    assert kept == [False]


def test_a_dead_probe_gives_its_place_to_the_next_once_its_call_is_over() -> None:
    driver = Driver(World(clock=FakeClock(NOW)), sweeps=False)
    make: dict[str, Any] = {**CALLBACK, **CIRCUIT, "timeoutSeconds": 7_200}
    one = driver.create(schedule={"type": "once", "at": "2027-01-15T08:00:10Z"}, **make).id
    circuit = "http:example.com:443@team-a"
    driver.world.circuits.rows[circuit] = Circuit(key=circuit, seq=1, failures=1, since=NOW, open_until=NOW + 5)

    def die(when: str, name: str) -> None:
        if (when, name) == ("before", "targets.call"):
            driver.world.faults.disarm()
            raise Crash

    driver.world.faults.inject(on_step=die)
    driver.run_until(START + 1)
    probe = driver.world.circuits.rows[circuit].probe
    assert probe == Probe(execution_id=execution_id(one, str(START), 1), until=START + 80)
    driver.world.clock.time = START + 79.0
    waits = driver.create(schedule={"type": "once", "at": "2027-01-15T08:01:29Z"}, **make).id
    driver.run_until(START + 79.5)
    assert driver.row(waits).runs[str(START + 79)].deferred_for == "CIRCUIT_OPEN"
    driver.run_until(START + 140)
    assert [call.job_id for call in driver.world.targets.calls] == [waits]
