"""An owner that has used its share waits, and delays nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from functions.domain.caller import Caller, Role
from functions.domain.definition import Priority
from functions.domain.job import Job
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.shares import Share
from functions.domain.waiting import job_waits
from functions.usecases.jobs import JobDraft, create_job
from functions.usecases.writing import ruled
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW, make_document
from tests.faults import Crash
from tests.flows import FAILED, OK

OTHER = Caller(id="bob", owner="team-b", roles=frozenset({Role.SCHEDULER}))
MINUTE = NOW - NOW % 60


def driver(processes: int = 1, starts_per_minute: int = 1_000) -> Driver:
    made = Driver()
    made.world.shares.share = Share(processes, starts_per_minute)
    return made


def create(driver: Driver, caller: Caller = SCHEDULER, **fields: Any) -> Job:
    fields = {"schedule": {"type": "once", "at": "2027-01-15T08:00:01Z"}, **fields}
    draft = JobDraft(document=make_document(**fields), payload="{}")
    return create_job(driver.services, caller, draft).job


def hold(driver: Driver, owner: str = "team-a", priority: Priority = Priority.NORMAL, lasts: float = 40) -> Any:
    """A process that is at work for the owner."""
    return driver.world.shares.enter(owner, priority, lasts=lasts)


def called(driver: Driver) -> list[str]:
    return [call.job_id for call in driver.world.targets.calls]


def waits(driver: Driver, job: Job) -> str | None:
    found = job_waits(ruled(driver.services, driver.row(job.id)))
    return None if found is None else found.kind.value


def test_a_job_beyond_its_owner_s_share_waits_and_says_so() -> None:
    world = driver()
    entry = hold(world)
    job = create(world)

    world.run(5)

    assert called(world) == []
    assert waits(world, job) == "owner_limit"
    entry.leave()
    world.run(20)
    assert called(world) == [job.id]


def test_another_owner_s_job_starts_meanwhile() -> None:
    world = driver()
    hold(world)
    create(world)
    other = create(world, OTHER)

    world.run(2)

    assert called(world) == [other.id]


def test_another_priority_starts_meanwhile() -> None:
    world = driver()
    hold(world)
    other = create(world, priority="high")

    world.run(2)

    assert called(world) == [other.id]


def test_an_attempt_leaves_when_its_call_is_over() -> None:
    world = driver()
    seen: list[int] = []

    def answer(_: Invocation) -> TargetAnswer:
        seen.append(world.world.shares.at_work("team-a", Priority.NORMAL))
        return OK

    world.world.targets.answers = [answer]
    create(world)
    world.run(5)

    assert seen == [1]
    assert world.world.shares.at_work("team-a", Priority.NORMAL) == 0


@pytest.mark.parametrize("outcome", [FAILED, OK])
def test_retries_and_runs_by_hand_leave_too(outcome: TargetAnswer) -> None:
    world = driver()
    world.world.targets.answers = [FAILED, outcome]
    create(world, retryConfig={"maxRetries": 1, "initialDelaySeconds": 1, "jitter": 0})

    world.run(30)

    assert len(called(world)) == 2
    assert world.world.shares.at_work("team-a", Priority.NORMAL) == 0


def test_a_process_that_dies_is_counted_until_its_call_must_be_over() -> None:
    world = driver()

    def die(_: Invocation) -> TargetAnswer:
        raise Crash

    world.world.targets.answers = [die, OK]
    create(world, timeoutSeconds=20)
    world.world.shares.rows.leave = lambda *_, **__: None  # type: ignore[method-assign]  # a dead process says nothing
    world.run(3)
    assert world.world.shares.at_work("team-a", Priority.NORMAL) == 1

    world.world.clock.advance(36)
    assert world.world.shares.at_work("team-a", Priority.NORMAL) == 0


def test_a_long_attempt_is_the_machine_s_once_it_is_handed_over() -> None:
    world = driver()
    create(world, timeoutSeconds=600)

    world.run(3)

    assert world.world.shares.at_work("team-a", Priority.NORMAL) == 0


def test_a_minute_s_starts_over_the_limit_come_in_the_next() -> None:
    world = driver(processes=100, starts_per_minute=3)
    jobs = [create(world) for _ in range(5)]

    world.run(10)
    assert len(called(world)) == 3
    assert sorted(filter(None, (waits(world, job) for job in jobs))) == ["owner_limit"] * 2

    world.run(MINUTE + 60 - world.clock.now() - 1)
    assert len(called(world)) == 3
    world.run(20)
    assert len(called(world)) == 5


def test_a_worker_s_job_uses_no_share() -> None:
    world = driver()
    hold(world)
    job = create(world, target={"type": "worker", "queue": "q"})

    world.run(2)

    assert waits(world, job) == "worker"


def test_a_hint_that_comes_twice_enters_once() -> None:
    world = driver(processes=5)
    create(world)
    (delivery,) = world.world.timetable.armed
    world.run(3)
    before = list(world.world.shares.rows.calls)

    world.deliver(delivery)

    assert called(world)
    assert before == ["enter", "leave"] == world.world.shares.rows.calls


def test_it_is_tried_again_ever_more_seldom_and_never_counted_as_poison() -> None:
    """The sweep quarantines what was woken in vain; what its owner's limit holds back is not that."""
    world = driver()
    hold(world, lasts=3_000)
    job = create(world)

    world.run(1_200)

    entered = world.world.shares.rows.calls.count("enter") - 1
    assert 60 < entered < 160
    assert waits(world, job) == "owner_limit"
    assert world.row(job.id).wakes == 0
    world.run(2_000)
    assert called(world) == [job.id]
