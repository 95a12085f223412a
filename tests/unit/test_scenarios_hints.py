"""Hints twice, late, early, in any order, for paused, changed, deleted jobs: the same life as without them."""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functions.domain.errors import GnomonError
from functions.domain.hint import Hint
from functions.domain.ids import slot_id, slot_instant
from functions.domain.job import JobStatus
from functions.domain.outcome import Invocation, TargetAnswer
from functions.usecases.actions import pause_job, resume_job
from functions.usecases.cancelling import cancel_job, delete_job
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import ADMIN, SCHEDULER, Driver
from tests.factories import NOW, make_document
from tests.flows import FAILED, MINUTELY, OK, ONCE

LENGTH = 900
SCHEDULES: list[dict[str, Any]] = [
    {"schedule": MINUTELY},
    {"schedule": {"type": "interval", "everySeconds": 45}, "overlapPolicy": "queue"},
    {"schedule": ONCE},
    {"schedule": {"type": "interval", "everySeconds": 100}, "overlapPolicy": "allow", "misfirePolicy": "run_all"},
]


def answer(invocation: Invocation) -> TargetAnswer:
    """Every third slot fails at first."""
    return FAILED if invocation.scheduled_for % 3 == 0 and invocation.attempt < 3 else OK


@dataclass
class Life:
    row: Any
    history: list[Any]
    calls: list[tuple[str, int]]
    armed: list[tuple[str, int, int]]
    sent: int
    most_armed: int


def live(seed: int, noise: random.Random | None) -> tuple[Life, int]:
    """A random life of one job, and how many early copies of its hints were delivered."""
    script = random.Random(seed)
    driver = Driver()
    timetable = driver.world.timetable
    driver.world.targets.answers = [answer]
    retry = {"initialDelaySeconds": 70, "backoffStrategy": "fixed", "jitter": 0}
    job_id = driver.create(**script.choice(SCHEDULES), retryConfig=retry).id

    def change() -> None:
        document = make_document(**script.choice(SCHEDULES), retryConfig=retry)
        change_job(driver.services, ADMIN, job_id, change=lambda _: JobDraft(document=document, payload="{}"))

    actions = [
        lambda: pause_job(driver.services, ADMIN, job_id),
        lambda: resume_job(driver.services, ADMIN, job_id),
        change,
        lambda: resume_job(driver.services, ADMIN, job_id),
    ]
    times = sorted(script.sample(range(1, LENGTH), 6))
    ends = [lambda: cancel_job(driver.services, ADMIN, job_id), lambda: delete_job(driver.services, ADMIN, job_id)]
    plan = [(at, script.choice(actions)) for at in times]
    if script.random() < 0.5:
        plan.append((script.randrange(times[-1], LENGTH), script.choice(ends)))
    early, most, step = 0, 0, 0
    for second in range(0, LENGTH + 300, 5):
        while step < len(plan) and plan[step][0] <= second:
            driver.run_until(NOW + plan[step][0])
            with contextlib.suppress(GnomonError):
                plan[step][1]()
            step += 1
        driver.run_until(NOW + second + 0.5)
        if noise is not None and second < LENGTH:
            for hint, due_at in noise.sample([(one.hint, one.due_at) for one in timetable.sent], 1) * noise.choice(
                [0, 1, 1, 2]
            ):
                if not 0 < due_at - driver.clock.now() <= 2.5:  # those wait, and time goes on
                    early += due_at > driver.clock.now()
                    driver.deliver_hint(hint)
        most = max(most, len(timetable.armed))
    row = driver.row(job_id)
    history = [replace(one, job_id="", write_id="") for one in driver.executions(job_id)]
    gaps = [replace(gap, job_id="") for gap in driver.world.history.gaps.values()]
    same = {"id": "", "write_id": "", "revised_by": "", "seq": 0, "definition": None, "definition_row": None}
    runs = {slot: replace(run, started_by=None) for slot, run in row.runs.items()}
    last_run = None if row.last_run is None else replace(row.last_run, ended_by="")
    found = Life(
        row=replace(row, runs=runs, last_run=last_run, **same),
        history=[*history, *gaps],
        calls=[(call.slot_id, call.attempt) for call in driver.world.targets.calls],
        armed=sorted((one.hint.slot_id, one.hint.attempt, one.due_at) for one in timetable.armed),
        sent=len(timetable.sent),
        most_armed=most,
    )
    return found, early


@pytest.mark.slow
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(min_value=0, max_value=2**48))
def test_copies_of_hints_change_nothing(seed: int) -> None:
    plain, _ = live(seed, None)
    noisy, early = live(seed, random.Random(seed + 1))
    assert noisy.row == plain.row
    assert noisy.history == plain.history
    assert noisy.calls == plain.calls
    assert set(noisy.armed) == set(plain.armed)
    # An early copy is sent once more for the rest of its delay, and is gone when that is over.
    assert noisy.sent - plain.sent <= early
    assert noisy.most_armed <= plain.most_armed + early


@pytest.mark.case(15)
@pytest.mark.case(33)
def test_early_copies_do_not_multiply() -> None:
    """Each early delivery is one message for one message; at its instant all but one find nothing to do."""
    driver = Driver()
    job = driver.create(schedule=MINUTELY)
    [first] = driver.world.timetable.armed
    for _ in range(20):
        driver.deliver_hint(first.hint)
    assert len(driver.world.timetable.hints(job.id)) == 21
    driver.run_until(NOW + 61)
    assert driver.world.timetable.hints(job.id) == [Hint(job.id, slot_id(NOW + 120), 1)]
    assert len(driver.world.targets.calls) == 1


@pytest.mark.parametrize("end", ["paused", "cancelled", "deleted", "changed"])
def test_hints_of_a_life_that_is_over_start_nothing(end: str) -> None:
    driver = Driver()
    driver.world.targets.answers = [answer]
    job = driver.create(schedule={"type": "interval", "everySeconds": 100}, retryConfig={"jitter": 0})
    driver.run(450)
    if end == "paused":
        pause_job(driver.services, SCHEDULER, job.id)
    elif end == "cancelled":
        cancel_job(driver.services, SCHEDULER, job.id)
    elif end == "deleted":
        delete_job(driver.services, SCHEDULER, job.id)
    else:
        draft = JobDraft(document=make_document(schedule={"type": "interval", "everySeconds": 86_400}), payload="1")
        change_job(driver.services, SCHEDULER, job.id, change=lambda _: draft)
    row, calls = driver.row(job.id), len(driver.world.targets.calls)
    hints = {delivery.hint for delivery in driver.world.timetable.sent if delivery.due_at < NOW + 1_000}
    armed = len(driver.world.timetable.armed)
    driver.clock.sleep(1_000)
    for hint in sorted(hints, key=lambda one: random.Random(one.slot_id).random()) * 2:
        handled = driver.deliver_hint(hint)
        assert handled is not None
        assert handled.execution is None, (end, slot_instant(hint.slot_id) - NOW)
    assert driver.row(job.id) == row
    assert len(driver.world.targets.calls) == calls
    assert len(driver.world.timetable.armed) == armed
    if end == "paused":
        resume_job(driver.services, SCHEDULER, job.id)
        assert driver.row(job.id).status is JobStatus.SCHEDULED
