"""The silence alarm: told once when a job has had no success for `alertAfterSeconds`, whatever the reason."""

from __future__ import annotations

from typing import Any

import pytest

from functions.adapters.dynamodb_items import read_job, state_attributes
from functions.adapters.dynamodb_keys import state_key
from functions.domain.event import EventType
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.job import Job
from functions.domain.outcome import TargetAnswer
from functions.usecases.actions import execute_job, pause_job, resume_job
from functions.usecases.cancelling import cancel_job, delete_job
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW
from tests.fakes import FakeClock, InMemoryJobs, World
from tests.telling import Heard

MINUTELY = {"type": "interval", "everySeconds": 60}
SWEEPS = 120
"""Two minutes of the sweep: as late as an alarm may be."""
OK = TargetAnswer(status=ExecutionStatus.COMPLETED, result="1")
FAILED = TargetAnswer(
    status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_404", message="gone"), retryable=False
)


class HeardJobs(InMemoryJobs):
    def __init__(self, world: World) -> None:
        super().__init__(faults=world.faults)
        self.world, self.heard = world, Heard()

    def _store(self, job: Job) -> None:
        before = self.rows.get(job.id)
        super()._store(job)
        now = self.world.clock.now()
        self.heard.hear(before, job, now, lambda slot, attempt: self.world.history.get(job.id, slot, attempt))


@pytest.fixture
def driver() -> Driver:
    world = World(FakeClock(NOW))
    world.jobs = HeardJobs(world)
    return Driver(world)


def told(driver: Driver, *types: EventType) -> list[tuple[EventType, float]]:
    """Type and second after NOW of what was told of silence."""
    wanted = types or (EventType.SILENT, EventType.RECOVERED)
    assert isinstance(driver.world.jobs, HeardJobs)
    return [(event.type, event.time - NOW) for event in driver.world.jobs.heard.of(*wanted)]


def silences(driver: Driver) -> list[float]:
    return [at for _, at in told(driver, EventType.SILENT)]


def only_in_time(driver: Driver, due: float) -> None:
    """One alarm, at most two minutes of the sweep after it was due."""
    [at] = silences(driver)
    assert due <= at <= due + SWEEPS


def change(driver: Driver, job_id: str, **fields: Any) -> None:
    def patched(row: Job) -> JobDraft:
        document = {**row.defined.document, **fields}
        return JobDraft(document={k: v for k, v in document.items() if v is not None}, payload="1")

    change_job(driver.services, SCHEDULER, job_id, change=patched)


def test_a_job_that_succeeds_is_never_silent(driver: Driver) -> None:
    driver.create(schedule=MINUTELY, alertAfterSeconds=90)
    driver.run(3_600)
    assert told(driver) == []


@pytest.mark.parametrize("max_runs", [None, 3])
def test_a_failing_job_is_silent_once(driver: Driver, max_runs: int | None) -> None:
    """Also one that has ended: its runs are used up."""
    driver.world.targets.answers = [FAILED]
    job = driver.create(schedule=MINUTELY, alertAfterSeconds=600, maxRuns=max_runs)
    driver.run(3_600)
    only_in_time(driver, 600)
    assert driver.row(job.id).is_silent


def test_a_job_that_has_ended_well_is_silent_in_the_end(driver: Driver) -> None:
    driver.create(schedule=MINUTELY, alertAfterSeconds=600, maxRuns=3)
    driver.run(3_600)
    only_in_time(driver, 180 + 600)


def test_a_paused_job_is_silent(driver: Driver) -> None:
    job = driver.create(schedule=MINUTELY, alertAfterSeconds=600)
    driver.run(70)
    pause_job(driver.services, SCHEDULER, job.id)
    driver.run(3_600)
    only_in_time(driver, 60 + 600)
    assert driver.row(job.id).attention_at is None, "told, it is at rest"


def test_a_job_whose_slots_are_all_skipped_is_silent(driver: Driver) -> None:
    """A run that hangs for ever, and under it every slot is skipped."""

    def hangs(_: Any) -> TargetAnswer:
        driver.run(1_000)
        return OK

    driver.world.targets.answers = [hangs, OK]
    driver.create(schedule=MINUTELY, alertAfterSeconds=600, timeoutSeconds=840)
    driver.run(1_900)
    assert silences(driver)[0] <= 600 + SWEEPS


def test_a_success_ends_the_silence_and_arms_the_next_alarm(driver: Driver) -> None:
    driver.world.targets.answers = [FAILED]
    job = driver.create(schedule=MINUTELY, alertAfterSeconds=300)
    driver.run(700)
    driver.world.targets.answers = [OK, FAILED]
    driver.run(1_000)
    kinds = [kind for kind, _ in told(driver)]
    assert kinds == [EventType.SILENT, EventType.RECOVERED, EventType.SILENT]
    (_, first), (_, recovered), (_, second) = told(driver)
    assert 300 <= first <= 300 + SWEEPS
    assert recovered + 300 <= second <= recovered + 300 + SWEEPS
    silence = driver.row(job.id).silence
    assert silence is not None
    assert silence.since == silence.last_success_at == NOW + recovered


def test_a_success_by_hand_counts(driver: Driver) -> None:
    job = driver.create(schedule=MINUTELY, alertAfterSeconds=300, enabled=False)
    driver.run(450)
    execute_job(driver.services, SCHEDULER, job.id)
    driver.run(10)
    assert [kind for kind, _ in told(driver)] == [EventType.SILENT, EventType.RECOVERED]


def test_a_definition_that_cannot_be_read_keeps_nothing_quiet(driver: Driver) -> None:
    """Nothing can start it: it is quarantined, and told of long before."""
    job = driver.create(schedule=MINUTELY, alertAfterSeconds=600)
    driver.world.jobs.lose_definition(job.id)
    driver.run(4 * 3_600)
    only_in_time(driver, 600)
    row = driver.row(job.id)
    assert row.last_run is not None
    assert row.last_run.error_code == "QUARANTINED"


def test_a_backlog_keeps_nothing_quiet(driver: Driver) -> None:
    driver.create(schedule=MINUTELY, alertAfterSeconds=600)
    driver.world.timetable.armed.clear()
    driver.world.timetable.strangers = 5_000
    driver.run(1_200)
    only_in_time(driver, 600)
    assert driver.world.targets.calls == []


@pytest.mark.slow
def test_lost_hints_and_sweeps_that_wake_in_vain_keep_nothing_quiet(driver: Driver) -> None:
    """The wake's back-off of 15 minutes does not hold back the alarm in it."""
    driver.create(schedule=MINUTELY, alertAfterSeconds=1_300)
    driver.world.timetable.failing = True
    driver.world.timetable.armed.clear()
    driver.run(3 * 3_600)
    only_in_time(driver, 1_300)


@pytest.mark.parametrize("end", [cancel_job, delete_job])
def test_a_cancelled_or_deleted_job_is_not_silent(driver: Driver, end: Any) -> None:
    job = driver.create(schedule=MINUTELY, alertAfterSeconds=600)
    driver.run(70)
    end(driver.services, SCHEDULER, job.id)
    driver.run(3_600)
    assert told(driver) == []


def test_a_job_that_is_over_and_deleted_is_not_silent(driver: Driver) -> None:
    job = driver.create(schedule=MINUTELY, alertAfterSeconds=600, maxRuns=1)
    driver.run(70)
    delete_job(driver.services, SCHEDULER, job.id)
    driver.run(3_600)
    assert told(driver) == []
    assert driver.row(job.id).attention_at is None


def test_a_one_time_job_that_succeeded_is_not_silent(driver: Driver) -> None:
    job = driver.create(schedule={"type": "once", "at": "2027-01-15T08:00:30Z"}, alertAfterSeconds=60)
    driver.run(600)
    assert told(driver) == []
    change(driver, job.id, alertAfterSeconds=90)
    driver.run(600)
    assert told(driver) == []
    assert driver.row(job.id).attention_at is None


def test_a_one_time_job_is_silent_from_its_slot_on(driver: Driver) -> None:
    driver.world.targets.answers = [FAILED]
    driver.create(schedule={"type": "once", "at": "2027-01-15T08:30:00Z"}, alertAfterSeconds=600)
    driver.run(3 * 3_600)
    only_in_time(driver, 1_800 + 600)


def test_a_changed_alarm_begins_anew_and_other_changes_do_not(driver: Driver) -> None:
    job = driver.create(schedule=MINUTELY, alertAfterSeconds=600, enabled=False)
    driver.run(300)
    change(driver, job.id, description="another")
    driver.run(200)
    change(driver, job.id, alertAfterSeconds=700)
    driver.run(3_600)
    only_in_time(driver, 500 + 700)
    change(driver, job.id, alertAfterSeconds=None)
    row = driver.row(job.id)
    assert (row.silence, row.attention_at) == (None, None)
    assert [kind for kind, _ in told(driver)] == [EventType.SILENT], "nobody succeeded: it has not recovered"


def test_a_new_schedule_puts_off_what_would_be_told_before_its_first_run(driver: Driver) -> None:
    job = driver.create(schedule={"type": "once", "at": "2027-01-15T08:10:00Z"}, alertAfterSeconds=300)
    change(driver, job.id, schedule={"type": "once", "at": "2027-01-15T10:00:00Z"})
    driver.world.targets.answers = [FAILED]
    driver.run(3 * 3_600)
    only_in_time(driver, 2 * 3_600 + 300)


def test_a_resume_does_not_begin_anew(driver: Driver) -> None:
    job = driver.create(schedule=MINUTELY, alertAfterSeconds=600, enabled=False)
    driver.world.targets.answers = [FAILED]
    driver.run(500)
    resume_job(driver.services, SCHEDULER, job.id)
    driver.run(1_000)
    only_in_time(driver, 600)


def test_a_job_without_an_alarm_pays_nothing(driver: Driver) -> None:
    job = driver.create(schedule=MINUTELY)
    driver.run(200)
    row = driver.row(job.id)
    assert row.silence is None
    assert "si" not in state_attributes(row)
    pause_job(driver.services, SCHEDULER, job.id)
    assert driver.row(job.id).attention_at is None


def test_the_row_keeps_its_alarm(driver: Driver) -> None:
    job = driver.create(schedule=MINUTELY, alertAfterSeconds=600)
    driver.world.targets.answers = [OK, FAILED]
    driver.run(1_000)
    row = driver.row(job.id)
    assert row.is_silent
    assert read_job(state_key(job.id) | state_attributes(row)).silence == row.silence
