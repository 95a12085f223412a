"""After an outage of the executor, however long, every job goes on by its misfire policy, and says how late at most."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from functions.domain.definition import Priority
from functions.domain.execution import Execution
from functions.domain.ids import slot_instant
from functions.domain.instants import rfc3339
from functions.domain.job import Gap, Job, JobStatus
from functions.domain.visit import MAX_WAKES
from functions.usecases import sweep as sweep_module
from tests.driver import Driver
from tests.factories import NOW
from tests.fakes import Delivery, FakeClock, World
from tests.flows import FAILED, OK
from tests.outages import Outage, OutageDriver

pytestmark = pytest.mark.slow

HOUR = 3_600
BEGINS = NOW + 1_800
ENDS = BEGINS + 3 * HOUR
POLICIES = ("run_once", "skip", "run_all")
VISIBILITY, WAKE, TICK = 540, 900, 60


def late_at_most(jobs: int) -> int:
    """Seconds after the end of an outage by which each job has gone on: the longest back-off of a wake, a tick of the
    sweep, and another for each thousand of jobs that have to be woken (docs/architecture.md)."""
    return WAKE + TICK + TICK * (jobs // 1_000 + 1)


def policy_of(number: int) -> str:
    return POLICIES[number % 3]


def minute_of(number: int) -> int:
    """Of the hour at which job `number` is due: each misses three slots, none of them by less than the grace."""
    return number % 25


class Outcomes:
    """What became of the slots of all jobs."""

    def __init__(self, driver: Driver) -> None:
        self.ran: dict[str, dict[int, Execution]] = defaultdict(dict)
        self.gaps: dict[str, list[Gap]] = defaultdict(list)
        for (job_id, slot, _), execution in driver.world.history.executions.items():
            self.ran[job_id][slot_instant(slot)] = execution
        for (job_id, _), gap in driver.world.history.gaps.items():
            self.gaps[job_id].append(Gap(first=gap.first, last=gap.last, count=gap.count, reason=gap.reason))
        for row in driver.world.jobs.rows.values():
            if row.gap is not None:
                self.gaps[row.id].append(row.gap)

    def skipped(self, job_id: str, slot: int) -> bool:
        return any(gap.first <= slot <= gap.last for gap in self.gaps[job_id])


def check_went_on(driver: Driver, job: Job, missed: list[int], policy: str, outcomes: Outcomes, *, bound: int) -> None:
    """The slots that were missed have their outcomes by the job's misfire policy, in time, and the next is to come."""
    ran, row = outcomes.ran[job.id], driver.row(job.id)
    assert row.next_slot is not None
    assert row.next_slot > driver.clock.now() - TICK, "the schedule goes on"
    expected = {"run_once": missed[-1:], "skip": [], "run_all": missed}[policy]
    assert {slot: ran[slot].status.value for slot in missed if slot in ran} == dict.fromkeys(expected, "COMPLETED")
    assert all(outcomes.skipped(job.id, slot) for slot in missed if slot not in expected)
    starts = [ran[slot].started_at or 0.0 for slot in expected]
    assert starts == sorted(starts), "the oldest first"
    assert all(ENDS <= start <= ENDS + bound for start in starts)


def slow(count: int) -> Any:
    return pytest.param(count, marks=[pytest.mark.slow, pytest.mark.timeout(600)])


def nightly(count: int) -> Any:
    return pytest.param(count, marks=[pytest.mark.nightly, pytest.mark.timeout(1_800)])


each_kind = pytest.mark.parametrize("kind", Outage, ids=lambda kind: kind.name.lower())


@each_kind
@pytest.mark.parametrize("count", [1, 3, 20, 90, slow(1_500), nightly(5_000)])
def test_recurring_jobs_go_on_by_their_misfire_policy(kind: Outage, count: int) -> None:
    driver = OutageDriver(world=World(clock=FakeClock(NOW)))
    driver.services = replace(driver.services, recurring_jobs=count)
    jobs = [
        driver.create(
            schedule={"type": "cron", "expression": f"{minute_of(number)} * * * *"}, misfirePolicy=policy_of(number)
        )
        for number in range(count)
    ]
    driver.run_until(BEGINS)
    driver.outage(ENDS - BEGINS, kind)
    bound = late_at_most(count)
    driver.run(bound + TICK)
    outcomes = Outcomes(driver)
    for number, job in enumerate(jobs):
        missed = [NOW + hour * HOUR + 60 * minute_of(number) for hour in (1, 2, 3)]
        check_went_on(driver, job, missed, policy_of(number), outcomes, bound=bound)


def began() -> OutageDriver:
    return OutageDriver(world=World(clock=FakeClock(NOW)))


def once(driver: Driver, at: int, **document: Any) -> Job:
    return driver.create(schedule={"type": "once", "at": rfc3339(at)}, **document)


def quarantines(driver: Driver) -> list[Execution]:
    return [one for one in driver.world.history.executions.values() if one.reason == "QUARANTINED"]


@each_kind
@pytest.mark.parametrize("count", [1, 40])
def test_one_time_jobs_that_came_due_in_it_run_after_it(kind: Outage, count: int) -> None:
    driver = began()
    jobs = [once(driver, BEGINS + 60 + 250 * number) for number in range(count)]
    driver.run_until(BEGINS)
    driver.outage(ENDS - BEGINS, kind)
    jobs.append(once(driver, int(driver.clock.now()) + 1))
    driver.run(late_at_most(count))
    assert {driver.row(job.id).status for job in jobs} == {JobStatus.COMPLETED}
    assert len(driver.world.targets.calls) == len(jobs)


@each_kind
def test_retries_that_waited_are_made_after_it(kind: Outage) -> None:
    """A recurring job's and a one-time job's; one whose window is over ends for that reason."""
    driver = began()
    driver.world.targets.answers = [FAILED, FAILED, FAILED, OK]
    waits = {"maxRetries": 2, "initialDelaySeconds": 600, "maxDelaySeconds": 600, "jitter": 0}
    recurring = driver.create(schedule={"type": "interval", "everySeconds": 86_400}, retryConfig=waits)
    driver.world.clock.time = NOW + 86_390
    first, late = (
        once(driver, NOW + 86_400, retryConfig=retry) for retry in (waits, waits | {"retryWindowSeconds": 3_600})
    )
    driver.run_until(NOW + 86_405)
    assert len(driver.world.targets.calls) == 3
    driver.outage(3 * HOUR, kind)
    driver.run(late_at_most(3))
    assert driver.row(first.id).status is JobStatus.COMPLETED
    assert driver.row(recurring.id).status is JobStatus.SCHEDULED
    assert [one.status.value for one in driver.world.history.of(recurring.id)] == ["FAILED", "COMPLETED"]
    assert [one.reason for one in driver.world.history.of(late.id)] == ["RETRY_SCHEDULED", "RETRY_WINDOW_OVER"]


@each_kind
@pytest.mark.parametrize("every", ["minute", "7 seconds"])
@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_of_every_minute_go_on(kind: Outage, every: str, policy: str) -> None:
    seconds = {"minute": 60, "7 seconds": 7}[every]
    driver = began()
    job = driver.create(
        schedule={"type": "interval", "everySeconds": seconds}, misfirePolicy=policy, retryConfig={"maxRetries": 0}
    )
    driver.run_until(BEGINS)
    before = len(driver.world.targets.calls)
    driver.outage(3 * HOUR, kind)
    driver.run(late_at_most(1) + 600)
    assert quarantines(driver) == []
    row = driver.row(job.id)
    assert row.next_slot is not None
    assert row.next_slot > driver.clock.now() - 1
    missed = [call for call in driver.world.targets.calls[before:] if call.scheduled_for < ENDS - 60 - seconds]
    # The hint that comes first finds slots that came due after the outage, too: up to those it passes over.
    most, least = {"run_once": (1, 0), "skip": (0, 0), "run_all": (100, 1)}[policy]
    assert least <= len(missed) <= most
    slots = [call.scheduled_for for call in driver.world.targets.calls]
    assert slots == sorted(set(slots)), "in order, each once"


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("days", [1, 5])
def test_it_may_last_for_days(kind: Outage, days: int) -> None:
    driver = began()
    jobs = [driver.create(schedule={"type": "interval", "everySeconds": HOUR}) for _ in range(5)]
    jobs.append(once(driver, BEGINS + 1))
    driver.run_until(BEGINS)
    driver.outage(days * 86_400, kind)
    assert quarantines(driver) == []
    driver.run(late_at_most(6))
    ran = {call.job_id for call in driver.world.targets.calls}
    assert ran == {job.id for job in jobs}
    assert all(driver.row(job.id).next_slot for job in jobs[:5])


@each_kind
def test_an_outage_of_one_queue_alone(kind: Outage) -> None:
    """What runs from the others shows nothing of it."""
    driver = began()
    low = [driver.create(schedule={"type": "interval", "everySeconds": HOUR}, priority="low") for _ in range(3)]
    for _ in range(30):
        driver.create(schedule={"type": "interval", "everySeconds": 300})
    driver.run_until(BEGINS)
    driver.outage(4 * HOUR, kind, of=frozenset({Priority.LOW}))
    assert quarantines(driver) == []
    calls = len(driver.world.targets.calls)
    driver.run(late_at_most(3))
    assert {job.id for job in low} <= {call.job_id for call in driver.world.targets.calls[calls:]}


def test_a_release_that_fails_at_one_kind_of_target_alone() -> None:
    """Twenty of sixty jobs: the fault is not in their rows, though others run."""
    driver = began()
    bad = {driver.create(schedule={"type": "interval", "everySeconds": HOUR}).id for _ in range(20)}
    for _ in range(40):
        driver.create(schedule={"type": "interval", "everySeconds": 300})
    driver.run_until(BEGINS)
    driver.poison = lambda delivery: delivery.hint.job_id in bad
    driver.run(4 * HOUR)
    assert quarantines(driver) == []
    driver.poison = lambda _: False
    calls = len(driver.world.targets.calls)
    driver.run(late_at_most(20))
    assert bad <= {call.job_id for call in driver.world.targets.calls[calls:]}


def poisoned(driver: OutageDriver, **document: Any) -> str:
    """The id of a job at whose hints the executor fails."""
    job = driver.create(**document)
    driver.poison = lambda delivery: delivery.hint.job_id == job.id
    return job.id


HEALTHY = [
    pytest.param([{"type": "interval", "everySeconds": 60}], id="one of each minute"),
    pytest.param([{"type": "interval", "everySeconds": HOUR}] * 20, id="twenty of each hour"),
    pytest.param(
        [{"type": "cron", "expression": f"{number} * * * *"} for number in range(60)], id="spread over the hour"
    ),
    pytest.param([{"type": "once", "at": rfc3339(NOW + 600 * number)} for number in range(1, 40)], id="one-time jobs"),
]


@pytest.mark.parametrize("others", HEALTHY)
def test_one_row_that_the_executor_fails_at_is_quarantined(others: list[dict[str, Any]]) -> None:
    driver = began()
    healthy = [driver.create(schedule=schedule) for schedule in others]
    job_id = poisoned(driver, schedule={"type": "interval", "everySeconds": HOUR})
    due = NOW + HOUR
    driver.run_until(due + 105 * 60 - 60)
    assert quarantines(driver) == []
    driver.run_until(due + 105 * 60 + (MAX_WAKES + 2) * TICK)
    [execution] = quarantines(driver)
    assert (execution.job_id, slot_instant(execution.slot_id), execution.attempt) == (job_id, due, 1)
    assert execution.is_dead_letter
    row = driver.row(job_id)
    assert (row.next_slot, row.last_slot) == (due + HOUR, due), "the run ends, not the schedule"
    driver.poison = lambda _: False
    calls = len(driver.world.targets.calls)
    driver.run(late_at_most(1))
    assert job_id in {call.job_id for call in driver.world.targets.calls[calls:]}
    assert all(quarantined.job_id == job_id for quarantined in quarantines(driver))
    assert len(healthy) == len({job.id for job in healthy})


def test_it_makes_no_storm() -> None:
    """The executor fails at a job of each minute: one dead letter in an hour and three quarters, for ten messages."""
    driver = began()
    driver.create(schedule={"type": "interval", "everySeconds": 60})
    job_id = poisoned(driver, schedule={"type": "interval", "everySeconds": 60})
    driver.run_until(NOW + 24 * HOUR)
    ended = [slot_instant(one.slot_id) for one in quarantines(driver)]
    assert ended == [NOW + 60 * number for number in range(1, len(ended) + 1)], "one after the other"
    assert 12 <= len(ended) <= 14
    sent = [one for one in driver.world.timetable.sent if one.hint.job_id == job_id]
    assert len(sent) <= 11 * (len(ended) + 1)
    driver.poison = lambda _: False
    calls = len(driver.world.targets.calls)
    driver.run(late_at_most(1))
    of_it = [call.scheduled_for for call in driver.world.targets.calls[calls:] if call.job_id == job_id]
    assert of_it[0] > NOW + 24 * HOUR - 3 * TICK, "by its misfire policy: the latest that is too late"
    assert driver.row(job_id).next_slot == max(of_it) + 60


def test_rows_that_an_outage_under_the_release_before_has_brought_to_the_edge() -> None:
    """It counted wakes whatever the executor did for others: all of these are one visit before their quarantine."""
    driver = began()
    jobs = [driver.create(schedule={"type": "interval", "everySeconds": HOUR}) for _ in range(30)]
    driver.world.timetable.armed.clear()
    driver.world.clock.time = NOW + 3 * HOUR
    for job in jobs:
        driver.world.jobs.put(replace(driver.row(job.id), wakes=MAX_WAKES, attention_at=NOW + 3 * HOUR - 30))
    driver.run(late_at_most(30))
    assert quarantines(driver) == []
    assert {call.job_id for call in driver.world.targets.calls} == {job.id for job in jobs}


@each_kind
def test_outages_that_come_again_and_again(kind: Outage) -> None:
    """What was counted before the executor stopped, or while it works for a moment, brings nobody into quarantine."""
    driver = began()
    jobs = [driver.create(schedule={"type": "cron", "expression": f"{number} * * * *"}) for number in range(0, 60, 3)]
    driver.run_until(BEGINS)
    for _ in range(6):
        driver.outage(100 * 60, kind)
        driver.run(20)
    driver.run(late_at_most(len(jobs)))
    assert quarantines(driver) == []
    assert all((driver.row(job.id).next_slot or 0) > driver.clock.now() - TICK for job in jobs)


@each_kind
def test_callers_go_on_in_it(kind: Outage) -> None:
    """What is created, paused and resumed meanwhile is as if nothing had been."""
    driver = began()
    kept = [driver.create(schedule={"type": "interval", "everySeconds": 900}) for _ in range(6)]
    driver.run_until(BEGINS)
    driver.outage(HOUR, kind)
    made = [driver.create(schedule={"type": "interval", "everySeconds": 900}) for _ in range(6)]
    driver.outage(2 * HOUR, kind)
    driver.run(late_at_most(12))
    driver.run(900)
    assert quarantines(driver) == []
    calls = {call.job_id for call in driver.world.targets.calls if call.scheduled_for > ENDS}
    assert calls == {job.id for job in kept + made}


def test_messages_in_flight_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQS has at most 120 000 in flight. The sweep adds none where so many wait; what comes by itself is one a job."""
    monkeypatch.setattr(sweep_module, "MAX_BACKLOG", 100)
    driver = began()
    for _ in range(300):
        driver.create(schedule={"type": "interval", "everySeconds": HOUR})
    driver.run_until(NOW + 60)
    waiting = []
    for _ in range(40):
        driver.outage(300, Outage.FAILING)
        waiting.append(len([one for one in driver.world.timetable.armed if one.receives > 1]))
    assert max(waiting) == 300
    assert max(waiting[24:]) <= 100, "once their own hints are given up"


@pytest.mark.parametrize("what", ["next slot", "retry"])
def test_a_delivery_that_fails_now_and_then_counts_for_nobody(what: str) -> None:
    """Half of all messages fail: everything runs, late."""
    driver = began()
    flip = [0]

    def every_other(_: Delivery) -> bool:
        flip[0] += 1
        return flip[0] % 2 == 0

    driver.poison = every_other
    if what == "retry":
        driver.world.targets.answers = [FAILED, OK]
    jobs = [driver.create(schedule={"type": "interval", "everySeconds": 600}) for _ in range(12)]
    driver.run(6 * HOUR)
    assert quarantines(driver) == []
    assert all((driver.row(job.id).next_slot or 0) > driver.clock.now() - 1_200 for job in jobs)
