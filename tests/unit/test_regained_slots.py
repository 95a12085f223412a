"""A recurring job that has no next slot although its schedule has one: callers' actions set it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.commands import decide_change, decide_resume, decide_retry
from functions.domain.decision import Drop, Due, Write
from functions.domain.ids import slot_id
from functions.domain.job import Job, JobStatus
from functions.domain.rescheduling import regained_slot
from functions.domain.run import LastRun, Outcome
from functions.usecases.actions import pause_job, resume_job, retry_job
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW, make_definition, make_job, new_id
from tests.fakes import FakeClock, World

QUARANTINED = LastRun(
    slot_id=slot_id(NOW),
    attempt=1,
    outcome=Outcome.PERMANENTLY_FAILED,
    fence=0,
    ended_at=NOW + 6_500,
    error_code="QUARANTINED",
)
LATER = NOW + 10_000


def at_rest(**changes: Any) -> Job:
    """As a quarantine left it whose definition nobody could read."""
    return make_job(**{"next_slot": None, "last_slot": NOW, "last_run": QUARANTINED, **changes})


def resume(job: Job) -> Write | Drop:
    return decide_resume(job, now=LATER + 5, write_id="w")


def retry(job: Job) -> Write:
    return decide_retry(job, delay=0, now=LATER + 5, write_id="w")


def put_the_same(job: Job) -> Write:
    return decide_change(job, job.defined, enabled=None, now=LATER + 5, write_id="w")


def put_another(job: Job) -> Write:
    return decide_change(job, replace(job.defined, alert_after=600), enabled=None, now=LATER + 5, write_id="w")


ACTIONS: list[Callable[[Job], Any]] = [resume, retry, put_the_same, put_another]
by_action = pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__)


@by_action
def test_the_next_slot_is_set_again_and_armed(action: Callable[[Job], Any]) -> None:
    write = action(at_rest())
    assert isinstance(write, Write)
    following = LATER + 20  # of each minute from NOW on
    assert write.job.next_slot == following
    assert Due(slot_id(following), 1, following) in write.hints
    assert write.job.attention_at is not None
    assert write.job.attention_at <= following + 30
    assert (write.job.last_slot, write.job.gap, write.flush) == (NOW, None, None), "nothing was due meanwhile"


@pytest.mark.parametrize("action", [retry, put_the_same, put_another], ids=lambda action: action.__name__)
def test_of_a_paused_job_too_but_it_stays_paused(action: Callable[[Job], Any]) -> None:
    write = action(at_rest(paused=True))
    assert (write.job.next_slot, write.job.paused) == (LATER + 20, True)
    assert [hint for hint in write.hints if hint.slot_id == slot_id(LATER + 20)] == []


def test_a_resume_of_a_paused_one_lets_it_go_on() -> None:
    write = resume(at_rest(paused=True))
    assert isinstance(write, Write)
    assert (write.job.next_slot, write.job.paused, write.job.status) == (LATER + 20, False, JobStatus.SCHEDULED)


ENDED = {
    "maxRuns reached": at_rest(document={"maxRuns": 3}, starts=3),
    "endAt past": at_rest(document={"endAt": "2027-01-15T08:30:00Z"}),
    "one-time": at_rest(document={"schedule": {"type": "once", "at": "2027-01-15T08:00:00Z"}}),
}


@by_action
@pytest.mark.parametrize("name", ENDED)
def test_a_schedule_that_has_ended_stays_so(action: Callable[[Job], Any], name: str) -> None:
    decision = action(ENDED[name])
    assert isinstance(decision, Drop) or decision.job.next_slot is None
    assert isinstance(decision, Drop) is (action is not retry)


@pytest.mark.parametrize(
    "job",
    [
        at_rest(cancelled=True),
        at_rest(deleted_at=NOW),
        at_rest(next_slot=NOW + 60),
        at_rest(document={"schedule": None, "dependsOn": [{"jobId": new_id()}]}),
        *ENDED.values(),
    ],
)
def test_no_other_job_has_one_to_regain(job: Job) -> None:
    assert regained_slot(job, job.defined, now=LATER) is None


@settings(max_examples=200, deadline=None)
@given(
    every=st.integers(1, 100_000),
    last=st.integers(NOW, NOW + 200_000) | st.none(),
    now=st.integers(NOW, NOW + 200_000),
    spread=st.integers(0, 30),
)
def test_it_is_the_first_of_the_schedule_after_now_and_after_the_last(
    every: int, last: int | None, now: int, spread: int
) -> None:
    definition = make_definition(schedule={"type": "interval", "everySeconds": every})
    job = at_rest(definition=definition, last_slot=last, spread=spread)
    slot = regained_slot(job, definition, now=now)
    assert slot is not None
    assert slot > (last or 0)
    assert slot + spread > now
    assert (slot - NOW) % every == 0
    assert slot == NOW + every or slot - every <= max(now - spread, last or 0)


def quarantined(driver: Driver, **document: Any) -> str:
    """The id of a job whose definition could not be read for hours, and can be again."""
    job = driver.create(schedule={"type": "interval", "everySeconds": 60}, **document)
    definition = driver.row(job.id).definition
    driver.world.jobs.lose_definition(job.id)
    driver.run(2 * 3_600)
    row = driver.row(job.id)
    assert (row.status, row.next_slot, row.attention_at) == (JobStatus.FAILED, None, None)
    driver.world.jobs.put(replace(row, definition=definition))
    return job.id


def same(row: Job) -> JobDraft:
    return JobDraft(document=dict(row.defined.document), payload=row.defined.payload)


@pytest.mark.parametrize(
    "act",
    [
        lambda driver, job_id: resume_job(driver.services, SCHEDULER, job_id),
        lambda driver, job_id: retry_job(driver.services, SCHEDULER, job_id),
        lambda driver, job_id: change_job(driver.services, SCHEDULER, job_id, change=same),
        lambda driver, job_id: (
            pause_job(driver.services, SCHEDULER, job_id),
            resume_job(driver.services, SCHEDULER, job_id),
        ),
    ],
    ids=["resume", "retry", "the same PUT", "pause and resume"],
)
def test_after_a_quarantine_the_schedule_goes_on(act: Callable[[Driver, str], Any]) -> None:
    driver = Driver(World(clock=FakeClock(NOW)))
    job_id = quarantined(driver)
    calls = len(driver.world.targets.calls)
    act(driver, job_id)
    driver.run(301)
    scheduled = [call.scheduled_for for call in driver.world.targets.calls[calls:]]
    assert len([slot for slot in scheduled if slot > NOW + 7_200 - 60]) == 5, "one a minute"
    row = driver.row(job_id)
    assert row.next_slot is not None
    assert row.next_slot > driver.clock.now()
    before = driver.row(job_id).seq
    resume_job(driver.services, SCHEDULER, job_id)
    assert driver.row(job_id).seq == before, "a job that runs and has its next slot is not written"
