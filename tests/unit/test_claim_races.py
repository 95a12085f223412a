"""Claims, heartbeats and reports with others between any two of their writes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from functions.domain.claims import Holder
from functions.domain.concurrency import Slot
from functions.domain.errors import GnomonError
from functions.domain.execution import ExecutionStatus
from functions.domain.ids import execution_id
from functions.domain.run import ActiveRun, RunState
from functions.usecases.actions import pause_job
from functions.usecases.cancelling import cancel_job
from functions.usecases.claiming import Claimed, Poll, poll
from functions.usecases.jobs import JobDraft, change_job
from functions.usecases.reports import end_execution
from functions.usecases.workers import drain_worker, heartbeat, register_worker
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW, make_document
from tests.fakes import FakeClock, World
from tests.faults import Crash
from tests.working import OK

TARGET = {"type": "worker", "queue": "reports"}


@dataclass
class Office:
    """Jobs that wait for workers, and workers; what is injected happens once, before the named step."""

    driver: Driver
    jobs: list[str]

    @classmethod
    def with_jobs(cls, count: int = 1, **changes: Any) -> Office:
        driver = Driver(World(clock=FakeClock(NOW)))
        given = {
            "schedule": {"type": "once", "at": "2027-01-15T08:00:00Z"},
            "target": TARGET,
            "timeoutSeconds": 300,
            **changes,
        }
        jobs = [driver.create(**given).id for _ in range(count)]
        driver.run(1)
        return cls(driver, jobs)

    def worker(self, *queues: str) -> str:
        return register_worker(self.driver.services, SCHEDULER, name="", queues=queues or ("reports",), max_items=1).id

    def poll(self, worker: str, *, most: int = 1, poll_id: str = "p") -> list[Claimed]:
        wanted = Poll(worker_id=worker, poll_id=poll_id, max_items=most)
        return poll(self.driver.services, SCHEDULER, wanted, shuffle=lambda _: None)

    def complete(self, worker: str, claimed: Claimed) -> bool:
        """Whether the report counted."""
        holder = Holder(worker_id=worker, fence=claimed.run.fence)
        try:
            end_execution(self.driver.services, SCHEDULER, id_of(claimed), holder, OK)
        except GnomonError:
            return False
        return True

    def beat(self, worker: str, claimed: Claimed) -> bool:
        """Whether the worker still holds it."""
        held = ((id_of(claimed), claimed.run.fence),)
        try:
            heartbeat(self.driver.services, SCHEDULER, worker, held)
        except GnomonError:
            return False
        return True

    def between(self, step: int, other: Callable[[], Any]) -> Callable[[], bool]:
        """Have `other` happen before the `step`-th write from now on; returns whether it has."""
        seen, done = itertools.count(1), [False]

        def on_step(when: str, _: str) -> None:
            if when == "before" and not done[0] and next(seen) == step:
                done[0] = True
                other()

        self.driver.world.faults.inject(on_step=on_step)
        return lambda: done[0]

    def held_by(self, worker: str) -> list[ActiveRun]:
        rows = self.driver.world.jobs.rows.values()
        return [run for row in rows for run in row.runs.values() if run.worker_id == worker]

    def completions(self, job: str) -> int:
        rows = self.driver.world.history.of(job)
        return sum(row.status is ExecutionStatus.COMPLETED for row in rows)


def id_of(claimed: Claimed) -> str:
    return execution_id(claimed.job.id, claimed.slot_id, claimed.run.attempt)


def each_step(check: Callable[[int], bool]) -> None:
    """`check` the 1st, 2nd, … step until it says that there was no such step."""
    for step in itertools.count(1):
        if not check(step):
            assert step > 1
            return


def test_two_polls_at_once_share_what_there_is() -> None:
    def check(step: int) -> bool:
        office = Office.with_jobs(3)
        a, b = office.worker(), office.worker()
        theirs: list[Claimed] = []
        done = office.between(step, lambda: theirs.extend(office.poll(b, most=2)))
        mine = office.poll(a, most=2)
        office.driver.world.faults.disarm()
        taken = [id_of(one) for one in mine + theirs]
        assert len(taken) == len(set(taken)), f"claimed twice, step {step}"
        assert all(one.run.worker_id == a for one in mine)
        left = office.poll(a, most=10, poll_id="q")
        assert len({*taken, *map(id_of, left)}) == 3, "nothing is lost"
        return done()

    each_step(check)


@pytest.mark.parametrize("when", ["crash_before", "crash_after"])
def test_a_poll_that_dies_is_repeated(when: str) -> None:
    """It gets what it had claimed and no more than it asks for; the others are left to other polls."""

    def check(step: int) -> bool:
        office = Office.with_jobs(5)
        a, b = office.worker(), office.worker()
        faults = office.driver.world.faults
        faults.inject(**{when: step})
        with contextlib.suppress(Crash):
            office.poll(a, most=3)
        crashed = faults.crashed
        faults.disarm()
        repeat = office.poll(a, most=3)
        held = [
            row for row in office.driver.world.jobs.rows.values() for run in row.runs.values() if run.worker_id == a
        ]
        assert len(repeat) == len(held) == 3, f"{when} {step}"
        assert [id_of(one) for one in office.poll(a, most=3)] == [id_of(one) for one in repeat]
        assert len(office.poll(b, most=10)) == 2
        return crashed

    each_step(check)


def test_the_same_poll_twice_at_once_claims_the_same() -> None:
    def check(step: int) -> bool:
        office = Office.with_jobs(4)
        a = office.worker()
        again: list[Claimed] = []
        done = office.between(step, lambda: again.extend(office.poll(a, most=2)))
        first = office.poll(a, most=2)
        office.driver.world.faults.disarm()
        assert not done() or {id_of(one) for one in first} == {id_of(one) for one in again}
        held = [
            run for row in office.driver.world.jobs.rows.values() for run in row.runs.values() if run.worker_id == a
        ]
        assert len(held) == 2
        return done()

    each_step(check)


@pytest.mark.case(18)
def test_cancel_and_claim_at_the_same_instant() -> None:
    def check(step: int) -> bool:
        office = Office.with_jobs()
        [job], a = office.jobs, office.worker()
        done = office.between(step, lambda: cancel_job(office.driver.services, SCHEDULER, job))
        claimed = office.poll(a)
        office.driver.world.faults.disarm()
        if done():
            assert office.driver.row(job).status == "CANCELLED"
            assert not any(office.complete(a, one) or office.beat(a, one) for one in claimed)
            assert [row.status for row in office.driver.world.history.of(job)] == ["CANCELLED"]
        return done()

    each_step(check)


@pytest.mark.case(18)
def test_claim_within_a_cancel() -> None:
    def check(step: int) -> bool:
        office = Office.with_jobs()
        [job], a = office.jobs, office.worker()
        claimed: list[Claimed] = []
        done = office.between(step, lambda: claimed.extend(office.poll(a)))
        cancel_job(office.driver.services, SCHEDULER, job)
        office.driver.world.faults.disarm()
        assert office.driver.row(job).status == "CANCELLED"
        assert not any(office.complete(a, one) for one in claimed)
        assert office.completions(job) == 0
        return done()

    each_step(check)


@pytest.mark.case(18)
def test_report_and_cancel_at_the_same_instant() -> None:
    """Exactly one side wins, whichever comes first."""

    def check(step: int) -> bool:
        office = Office.with_jobs()
        [job], a = office.jobs, office.worker()
        [claimed] = office.poll(a)
        refused: list[GnomonError] = []

        def cancel() -> None:
            try:
                cancel_job(office.driver.services, SCHEDULER, job)
            except GnomonError as error:
                refused.append(error)

        done = office.between(step, cancel)
        counted = office.complete(a, claimed)
        office.driver.world.faults.disarm()
        assert counted is not (done() and not refused)
        assert office.completions(job) == counted
        assert office.driver.row(job).status == ("COMPLETED" if counted else "CANCELLED")
        return done()

    each_step(check)


@pytest.mark.case(17)
def test_a_report_that_is_slow_and_the_sweep_at_the_same_instant() -> None:
    """It came before the lease was over; whichever of the two puts its row of history first decides."""

    def check(step: int) -> bool:
        office = Office.with_jobs(retryConfig={"maxRetries": 1})
        [job], a = office.jobs, office.worker()
        [claimed] = office.poll(a)
        office.driver.sweeps = False
        office.driver.run(89)
        done = office.between(step, lambda: (office.driver.run(10), office.driver.sweep_now()))
        counted = office.complete(a, claimed)
        office.driver.world.faults.disarm()
        [first] = office.driver.world.history.of(job)
        assert counted is (first.status is ExecutionStatus.COMPLETED)
        office.driver.run(10)
        office.driver.sweep_now()
        office.driver.run(5)
        again = office.poll(office.worker(), poll_id="q")
        assert [one.run.attempt for one in again] == ([] if counted else [2])
        assert not office.beat(a, claimed)
        return done()

    each_step(check)


@pytest.mark.case(17)
def test_a_late_heartbeat_and_the_sweep_at_the_same_instant() -> None:
    """A lease that is over stays over, and what the sweep took is not given back."""

    def check(step: int) -> bool:
        office = Office.with_jobs()
        [job], a = office.jobs, office.worker()
        [claimed] = office.poll(a)
        office.driver.sweeps = False
        office.driver.run(95)
        done = office.between(step, office.driver.sweep_now)
        assert not office.beat(a, claimed)
        office.driver.world.faults.disarm()
        office.driver.sweep_now()
        assert [row.error.code for row in office.driver.world.history.of(job) if row.error] == ["WORKER_LOST"]
        return done()

    each_step(check)


def test_a_heartbeat_that_is_slow_revives_no_lost_run() -> None:
    """It was decided while the lease held, and its write comes after the sweep's: history has decided by then."""
    office = Office.with_jobs()
    [job], a = office.jobs, office.worker()
    [claimed] = office.poll(a)
    office.driver.sweeps = False
    office.driver.run(60)

    def stall(when: str, name: str) -> None:
        if (when, name) == ("before", "jobs.save"):
            office.driver.world.faults.disarm()
            office.driver.run(40)
            office.driver.sweep_now()

    office.driver.world.faults.inject(on_step=stall)

    assert not office.beat(a, claimed)
    row = office.driver.row(job)
    assert all(run.state is not RunState.RUNNING for run in row.runs.values())


def test_a_sweep_that_is_slow_takes_nothing_that_was_prolonged_meanwhile() -> None:
    """It has ended one attempt, stalls, and goes on with the row that it wrote then: the other's worker beat since."""
    office = Office.with_jobs(schedule={"type": "interval", "everySeconds": 60}, overlapPolicy="allow")
    [job], a, b = office.jobs, office.worker(), office.worker()
    office.driver.sweeps = False
    office.driver.run(60)
    [lost] = office.poll(a)
    office.driver.run(60)
    [kept] = office.poll(b, poll_id="q")
    office.driver.run(40)

    def stall(when: str, name: str) -> None:
        if (when, name) == ("after", "jobs.save"):
            office.driver.world.faults.disarm()
            for _ in range(3):
                office.driver.run(40)
                assert office.beat(b, kept)

    office.driver.world.faults.inject(on_step=stall)
    office.driver.sweep_now()

    assert [row.id for row in office.driver.world.history.of(job)] == [id_of(lost)]
    assert office.complete(b, kept)


def test_the_index_may_name_what_is_gone_and_miss_what_is_there() -> None:
    office = Office.with_jobs()
    [job], a, b = office.jobs, office.worker(), office.worker()
    office.driver.world.jobs.lagging = True
    [claimed] = office.poll(a)
    assert office.poll(b) == [], "the row is the truth"
    office.complete(a, claimed)
    office.driver.world.jobs.catch_up()
    assert office.poll(b) == []
    assert office.completions(job) == 1


def test_a_drained_worker_claims_nothing_even_in_the_middle() -> None:
    def check(step: int) -> bool:
        office = Office.with_jobs(3)
        a = office.worker()
        done = office.between(step, lambda: drain_worker(office.driver.services, SCHEDULER, a))
        claimed = office.poll(a, most=2)
        office.driver.world.faults.disarm()
        held = [
            run for row in office.driver.world.jobs.rows.values() for run in row.runs.values() if run.worker_id == a
        ]
        assert len(held) == len(claimed), "what it holds it was given"
        assert not done() or office.poll(a, most=2, poll_id="q") == []
        return done()

    each_step(check)


def test_a_run_that_waits_follows_a_change_of_its_target() -> None:
    office = Office.with_jobs()
    [job], a = office.jobs, office.worker("reports", "mail")
    draft = JobDraft(document=make_document(target={"type": "worker", "queue": "mail"}), payload="2")
    document = {**draft.document, "schedule": {"type": "once", "at": "2027-01-15T08:00:00Z"}}

    change_job(office.driver.services, SCHEDULER, job, change=lambda _: replace(draft, document=document))
    office.driver.run(1)

    [run] = office.driver.row(job).runs.values()
    assert run.waits_for == "worker:team-a/mail"
    [claimed] = office.poll(a)
    assert claimed.job.defined.payload == "2"
    call = {**document, "target": {"type": "http", "url": "https://example.com/hook"}}
    other = Office.with_jobs()
    change_job(other.driver.services, SCHEDULER, other.jobs[0], change=lambda _: replace(draft, document=call))
    other.driver.run(2)
    assert len(other.driver.world.targets.calls) == 1


def test_a_pause_holds_what_waits_for_a_worker() -> None:
    office = Office.with_jobs()
    [job], a = office.jobs, office.worker()
    pause_job(office.driver.services, SCHEDULER, job)

    assert office.poll(a) == []


def test_attempts_that_nobody_claims_are_looked_at_and_never_quarantined() -> None:
    office = Office.with_jobs()
    [job] = office.jobs

    office.driver.run(6 * 3600)

    [run] = office.driver.row(job).runs.values()
    assert run.state is RunState.WAITING
    assert [claimed.job.id for claimed in office.poll(office.worker())] == [job]


def test_runs_of_one_job_are_claimed_oldest_first() -> None:
    cron = {"type": "cron", "expression": "* * * * *"}
    office = Office.with_jobs(schedule=cron, overlapPolicy="allow", maxRuns=3)
    office.driver.run(200)
    a = office.worker()

    assert [one.slot_id for one in office.poll(a, most=2)] == ["1800000060", "1800000120"]
    assert [one.slot_id for one in office.poll(a, most=2, poll_id="q")] == ["1800000180"]


LIMITED = {"concurrencyKey": "printer", "maxConcurrency": 2}


def test_workers_keep_the_limit_of_a_key() -> None:
    office = Office.with_jobs(5, **LIMITED)
    a, b = office.worker(), office.worker()

    first = office.poll(a, most=10)
    assert len(first) == 2
    assert office.poll(b, most=10) == []
    assert office.complete(a, first[0])
    assert len(office.poll(b, most=10, poll_id="q")) == 1
    assert office.poll(a, most=10, poll_id="q") == []


def test_what_is_limited_holds_up_nobody_behind_it() -> None:
    office = Office.with_jobs(8, **LIMITED)
    once = {"type": "once", "at": "2027-01-15T08:00:00Z"}
    free = office.driver.create(schedule=once, target=TARGET, timeoutSeconds=300).id
    office.driver.run(2)
    a = office.worker()
    assert len(office.poll(a, most=2)) == 2

    assert [one.job.id for one in office.poll(a, poll_id="q")] == [free]


def test_a_dead_worker_s_slot_is_freed_by_its_lease() -> None:
    office = Office.with_jobs(3, **LIMITED, retryConfig={"maxRetries": 0})
    a, b = office.worker(), office.worker()
    dead = office.poll(a, most=2)
    [third] = {*office.jobs} - {one.job.id for one in dead}

    office.driver.run(170)

    assert [one.job.id for one in office.poll(b, most=5)] == [third]


def test_a_look_asks_for_no_holder_while_there_is_a_free_slot() -> None:
    office = Office.with_jobs(1, **LIMITED)
    other = office.driver.create(schedule={"type": "once", "at": "2027-02-15T08:00:00Z"}).id
    gone = Slot(index=1, holder=execution_id(other, "1802678400", 1), mark="m", at=NOW - 200, until=NOW - 100)
    assert office.driver.world.slots.take("key:team-a|printer", gone, instead_of=None)
    before = office.driver.row(other).seq

    assert len(office.poll(office.worker())) == 1

    assert office.driver.row(other).seq == before


def test_claims_that_come_to_nothing_keep_no_slot() -> None:
    def check(step: int) -> bool:
        office = Office.with_jobs(1, **LIMITED)
        [job], a = office.jobs, office.worker()
        done = office.between(step, lambda: cancel_job(office.driver.services, SCHEDULER, job))
        office.poll(a)
        office.driver.world.faults.disarm()
        claimed_before = office.driver.row(job).cancelled_calls  # its worker may work until it hears of the cancel
        assert not done() or claimed_before or office.driver.world.slots.held("key:team-a|printer") == []
        office.driver.run(240)
        assert not done() or office.driver.world.slots.held("key:team-a|printer") == []
        return done()

    each_step(check)


def test_a_poll_that_died_holding_a_slot_gives_it_to_its_repeat() -> None:
    def check(step: int) -> bool:
        office = Office.with_jobs(3, **{**LIMITED, "maxConcurrency": 1})
        a = office.worker()
        office.driver.world.faults.inject(crash_after=step)
        with contextlib.suppress(Crash):
            office.poll(a, most=2)
        crashed = office.driver.world.faults.crashed
        office.driver.world.faults.disarm()
        assert len(office.poll(a, most=2)) == 1, step
        return crashed

    each_step(check)
