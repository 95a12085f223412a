"""Keys with limits, through the real use cases: never more at a time, oldest first, none lost, whatever dies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.domain.concurrency import GRANT_SECONDS, Slot
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.instants import rfc3339
from functions.domain.job import JobStatus
from functions.domain.job_type import StoredTypeConfig
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.run import RunState
from functions.usecases.actions import pause_job, resume_job
from functions.usecases.cancelling import cancel_execution, cancel_job
from tests.consumers import BusyDriver
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW
from tests.fakes import FakeClock, World
from tests.faults import Crash

KEY = "key:team-a|database"
ONCE = {"type": "once", "at": "2027-01-15T08:00:10Z"}
OK = TargetAnswer(status=ExecutionStatus.COMPLETED, result="true")
DOWN = TargetAnswer(status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_503", message="503"))


class Target:
    """What was called, in which order, and how many at the same time."""

    def __init__(self) -> None:
        self.driver: BusyDriver
        self.order: list[str] = []
        self.answers: list[TargetAnswer | None] = []
        """Of the first calls; None for a process that dies in the call. The others succeed."""

    @property
    def most(self) -> int:
        return self.driver.most_calling

    def answer(self, _: Invocation) -> TargetAnswer:
        answer = self.answers.pop(0) if self.answers else OK
        if answer is None:
            raise Crash
        return answer


def driver(seconds: float = 20) -> tuple[BusyDriver, Target]:
    target = Target()

    def lasts(invocation: Invocation) -> float:
        target.order.append(invocation.job_id)
        return seconds

    target.driver = BusyDriver(lasts, answer=target.answer, world=World(clock=FakeClock(NOW)))
    return target.driver, target


def create(driver: Driver, most: int = 1, **document: Any) -> str:
    document = {"schedule": ONCE, "concurrencyKey": "database", "maxConcurrency": most} | document
    return driver.create(**document).id


def held(driver: Driver) -> list[str]:
    return [slot.holder for slot in driver.world.slots.held(KEY)]


def test_never_more_than_the_limit_and_all_of_them_run() -> None:
    made, busy = driver()
    jobs = [create(made, 3) for _ in range(12)]
    made.run_until(NOW + 600)
    assert busy.most == 3
    assert [made.row(job).status for job in jobs] == [JobStatus.COMPLETED] * 12
    assert held(made) == []


def test_a_free_slot_sends_one_hint() -> None:
    made, _ = driver()
    for _ in range(12):
        create(made)
    made.run_until(NOW + 600)
    starts = sum(handled.reason == "STARTED" for handled in made.handled)
    others = [handled.reason for handled in made.handled if handled.reason != "STARTED"]
    assert starts == 12
    assert others == ["CONCURRENCY_LIMIT"] * 11, "each waits once, and comes back when it is its turn"


def test_oldest_first_and_high_priority_before() -> None:
    made, busy = driver()
    first = create(made)
    late = [create(made, schedule=at(second)) for second in (15, 13, 11, 14)]
    low, high = create(made, schedule=at(12), priority="low"), create(made, schedule=at(16), priority="high")
    made.run_until(NOW + 400)
    assert busy.order == [first, high, late[2], late[1], late[3], late[0], low]


@pytest.mark.parametrize(("priority", "hours"), [("normal", 1), ("low", 2)])
def test_a_key_that_is_always_full_of_high_priority_starves_none(priority: str, hours: int) -> None:
    made, busy = driver(seconds=300)
    for _ in range(2):
        create(made, priority="high")
    waits = create(made, priority=priority)
    made.run_until(NOW + 60)
    while waits not in busy.order and made.clock.now() < NOW + 4 * 3600:
        # As many come as are done: one of high priority waits always.
        create(made, priority="high", schedule={"type": "once", "at": rfc3339(int(made.clock.now()))})
        made.run(300)
    assert waits in busy.order
    assert busy.order.index(waits) >= hours * 11, "high comes first until then"


def at(second: int) -> dict[str, str]:
    return {"type": "once", "at": f"2027-01-15T08:00:{second}Z"}


def test_what_waits_says_why_and_is_queued() -> None:
    made, _ = driver()
    create(made)
    waiting = create(made, schedule=at(12))
    made.run_until(NOW + 20)
    [run] = made.row(waiting).runs.values()
    assert (run.state, run.waits_for, run.deferred_for, run.deferrals) == (
        RunState.WAITING,
        KEY,
        "CONCURRENCY_LIMIT",
        1,
    )
    made.run_until(NOW + 100)
    [done] = made.world.history.of(waiting)
    assert (done.attempt, done.deferrals, done.deferred_for) == (1, 1, "CONCURRENCY_LIMIT")


def test_keys_and_owners_do_not_meet() -> None:
    made, busy = driver()
    create(made)
    create(made, concurrencyKey="other")
    made.run_until(NOW + 15)
    assert busy.most == 2


def test_each_job_sees_the_first_slots_of_its_own_limit() -> None:
    made, busy = driver(40)
    wide = [create(made, 3) for _ in range(2)]
    narrow = create(made, 1, schedule=at(12))
    third = create(made, 3, schedule=at(14), priority="high")
    made.run_until(NOW + 40)
    assert set(busy.order) == {*wide, third}
    made.run_until(NOW + 200)
    assert busy.order[-1] == narrow


class TestJobTypes:
    """The bulkhead: a limit for all jobs of a type."""

    def test_all_jobs_of_a_type_share_it(self) -> None:
        made, busy = driver()
        configure(made, "report", 2)
        jobs = [create(made, type="report", concurrencyKey=None, maxConcurrency=None) for _ in range(6)]
        free = create(made, type="other", concurrencyKey=None, maxConcurrency=None)
        made.run_until(NOW + 15)
        assert busy.most == 3
        made.run_until(NOW + 300)
        assert all(made.row(job).status is JobStatus.COMPLETED for job in (*jobs, free))
        assert made.world.slots.held("type:report") == []

    def test_a_job_under_both_limits_waits_for_both(self) -> None:
        made, busy = driver()
        configure(made, "report", 2)
        for _ in range(4):
            create(made, 1, type="report")
        for _ in range(4):
            create(made, type="report", concurrencyKey=None, maxConcurrency=None)
        running = watch(made)
        made.run_until(NOW + 900)
        assert busy.most == 2
        assert max(running[KEY]) == 1
        assert len(busy.order) == 8
        assert held(made) == []
        assert made.world.slots.held("type:report") == []


def configure(driver: Driver, job_type: str, most: int) -> None:
    config = StoredTypeConfig(job_type=job_type, document={"maxConcurrency": most}, updated_at=NOW, updated_by="root")
    driver.world.retry_configs.put(config)


def watch(driver: Driver) -> dict[str, list[int]]:
    """How many running attempts held a slot of each key, write by write."""
    seen: dict[str, list[int]] = {}
    store = driver.world.jobs._store

    def stored(job: Any) -> None:
        store(job)
        now = driver.clock.now()
        count: dict[str, int] = {}
        for row in driver.world.jobs.rows.values():
            for run in row.runs.values():
                if run.state is RunState.RUNNING and (run.lease_expires_at or 0) > now:
                    for each in run.holds:
                        count[each.rpartition("#")[0]] = count.get(each.rpartition("#")[0], 0) + 1
        for key, number in count.items():
            seen.setdefault(key, []).append(number)

    driver.world.jobs._store = stored  # type: ignore[method-assign]
    return seen


class TestCallers:
    def test_waiting_runs_of_paused_and_cancelled_jobs_are_passed_over(self) -> None:
        made, busy = driver()
        first, paused, cancelled, last = (create(made, schedule=at(10 + n)) for n in range(4))
        made.run_until(NOW + 20)
        pause_job(made.services, SCHEDULER, paused)
        cancel_job(made.services, SCHEDULER, cancelled)
        made.run_until(NOW + 60)
        assert busy.order == [first, last]
        resume_job(made.services, SCHEDULER, paused)
        made.run_until(NOW + 120)
        assert busy.order == [first, last, paused]
        assert held(made) == []

    def test_a_cancelled_attempt_gives_its_slot_once_its_call_has_ended(self) -> None:
        made, busy = driver(30)
        first, second = create(made), create(made, schedule=at(11))
        made.run_until(NOW + 12)
        cancel_job(made.services, SCHEDULER, first)
        made.run_until(NOW + 39)
        assert busy.order == [first]
        made.run_until(NOW + 42)
        assert busy.order == [first, second]
        assert busy.most == 1

    def test_a_cancelled_execution_too(self) -> None:
        made, busy = driver(30)
        first, second = create(made), create(made, schedule=at(11))
        made.run_until(NOW + 12)
        cancel_execution(made.services, SCHEDULER, f"{first}-{NOW + 10}-0001")
        made.run_until(NOW + 39)
        assert busy.order == [first]
        made.run_until(NOW + 42)
        assert busy.order == [first, second]
        assert busy.most == 1

    def test_a_job_cancelled_with_its_grant_gives_it_to_the_next(self) -> None:
        made, busy = driver()
        first, second, third = (create(made, schedule=at(10 + n)) for n in range(3))
        made.run_until(NOW + 20)
        lost = next(take_hints_of(made, second))
        made.run_until(NOW + 31)
        assert held(made) == [f"{second}-{NOW + 11}-0001"]
        lost()
        cancel_job(made.services, SCHEDULER, second)
        made.run_until(NOW + 35)
        assert busy.order == [first, third]

    def test_a_limit_that_is_raised_counts_from_the_next_drain(self) -> None:
        made, busy = driver(30)
        jobs = [create(made, schedule=at(10 + n)) for n in range(4)]
        made.run_until(NOW + 20)
        for job in jobs:
            row = made.row(job)
            document = {**row.defined.document, "maxConcurrency": 3}
            definition = type(row.defined).read(document, "{}", job_id=job, created_at=row.created_at)
            made.world.jobs.put(replace(row, definition=definition))
        made.run_until(NOW + 120)
        assert busy.most == 3


def take_hints_of(driver: Driver, job_id: str) -> Any:
    """Loses the hints of a job from here on; calling what it yields ends that."""
    arm = driver.world.timetable.arm

    def lose(hint: Any, *, due_at: int, priority: Any) -> None:
        if hint.job_id != job_id:
            arm(hint, due_at=due_at, priority=priority)

    def end() -> None:
        driver.world.timetable.arm = arm  # type: ignore[method-assign]

    driver.world.timetable.arm = lose  # type: ignore[method-assign]
    yield end


class TestTrouble:
    def test_a_grant_whose_hint_is_lost_is_taken_back(self) -> None:
        made, busy = driver()
        first, second, third = (create(made, schedule=at(10 + n)) for n in range(3))
        made.run_until(NOW + 20)
        end = next(take_hints_of(made, second))
        made.run_until(NOW + 32)
        end()
        assert busy.order == [first]
        made.run_until(NOW + 31 + GRANT_SECONDS + 130)
        assert busy.order == [first, second, third]

    def test_a_holder_that_dies_in_the_call_keeps_its_slot_until_its_lease_is_over(self) -> None:
        made, busy = driver()
        busy.answers = [None]
        first, second = create(made), create(made, schedule=at(11))
        made.run_until(NOW + 10 + 75)
        assert busy.order == [first]
        assert held(made) == [f"{first}-{NOW + 10}-0001"]
        made.run_until(NOW + 10 + 75 + 130)
        assert sorted(busy.order) == sorted([first, first, second])
        assert busy.most == 1

    def test_a_holder_that_dies_before_its_start_is_looked_into(self) -> None:
        made, busy = driver()
        first, second = create(made), create(made, schedule=at(11))
        die_once(made, "after", "slots.take")
        made.run_until(NOW + 12)
        assert busy.order == []
        made.run_until(NOW + 300)
        assert sorted(busy.order) == sorted([first, second])

    @pytest.mark.parametrize("step", ["slots.free", "slots.take", "timetable.arm", "jobs.save", "history.record"])
    @pytest.mark.parametrize("when", ["before", "after"])
    def test_none_is_lost_by_a_death_between_end_and_the_next_start(self, when: str, step: str) -> None:
        made, busy = driver()
        jobs = [create(made, schedule=at(10 + n)) for n in range(4)]
        made.run_until(NOW + 29)
        die_once(made, when, step)
        made.run_until(NOW + 900)
        assert busy.most == 1
        assert [made.row(job).status for job in jobs] == [JobStatus.COMPLETED] * 4
        assert held(made) == []

    def test_an_index_that_stands_still_loses_nobody(self) -> None:
        made, busy = driver()
        jobs = [create(made, schedule=at(10 + n)) for n in range(4)]
        made.world.jobs.lagging = True
        made.run_until(NOW + 300)
        made.world.jobs.catch_up()
        made.run_until(NOW + 900)
        assert busy.most == 1
        assert [made.row(job).status for job in jobs] == [JobStatus.COMPLETED] * 4

    def test_a_slot_that_is_freed_while_a_run_is_put_off_is_given_to_it_at_once(self) -> None:
        """Its holder ended after the look and before the write, and found nobody waiting."""
        made, busy = driver()
        made.sweeps = False
        made.world.slots.take(KEY, Slot(index=0, holder="other", mark="m", at=NOW, until=NOW + 10**6), instead_of=None)
        job = create(made)

        def ends(when: str, name: str) -> None:
            if (when, name) == ("before", "jobs.save"):
                made.world.faults.disarm()
                made.world.slots.free(KEY, 0, holder="other")

        made.world.faults.on_step = ends
        made.run_until(NOW + 12)
        assert busy.order == [job]

    def test_a_retry_waits_in_its_turn(self) -> None:
        made, busy = driver()
        busy.answers = [DOWN]
        retry = {"maxRetries": 1, "initialDelaySeconds": 5, "backoffStrategy": "fixed", "jitter": 0}
        first, second, third = (create(made, schedule=at(10 + n), retryConfig=retry) for n in range(3))
        made.run_until(NOW + 300)
        assert busy.order == [first, second, third, first]
        assert busy.most == 1


def die_once(driver: Driver, when: str, step: str) -> None:
    def die(moment: str, name: str) -> None:
        if (moment, name) == (when, step):
            driver.world.faults.disarm()
            raise Crash

    driver.world.faults.on_step = die


def test_jobs_without_a_key_pay_nothing() -> None:
    made, _ = driver()
    create(made, concurrencyKey=None, maxConcurrency=None)
    made.run_until(NOW + 60)
    assert made.world.slots.calls == []
    assert "waiting_for" not in made.world.jobs.calls
