"""Whatever a caller changes, each scheduled time that has come is run, still to be run, or skipped for a reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.cancellation import decide_cancel
from functions.domain.commands import decide_change, decide_pause, decide_resume
from functions.domain.decision import Write
from functions.domain.errors import ConflictError, InvalidFieldError
from functions.domain.ids import slot_id
from functions.domain.instants import rfc3339
from functions.domain.job import Gap, Job, SkipReason
from functions.domain.run import RunState
from functions.usecases.actions import pause_job, resume_job
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW, make_definition, make_job, make_run
from tests.fakes import FakeClock, World

SCHEDULES: list[dict[str, Any]] = [
    {"type": "interval", "everySeconds": 60},
    {"type": "interval", "everySeconds": 90},
    {"type": "interval", "everySeconds": 600},
    {"type": "cron", "expression": "* * * * *"},
    {"type": "cron", "expression": "*/2 * * * *"},
    {"type": "cron", "expression": "3 * * * *"},
    {"type": "cron", "expression": "3 8 * * *", "timezone": "Europe/Berlin"},
    {"type": "once", "at": rfc3339(NOW + 120)},
    {"type": "once", "at": rfc3339(NOW + 300)},
]


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    schedule = draw(st.sampled_from(SCHEDULES))
    document: dict[str, Any] = {"schedule": schedule, "spreadSeconds": draw(st.sampled_from([0, 2, 30, 60]))}
    if schedule["type"] != "once":
        document |= {
            "endAt": draw(st.sampled_from([None, rfc3339(NOW + 200), rfc3339(NOW + 900)])),
            "maxRuns": draw(st.sampled_from([None, 1, 3])),
        }
    document["misfirePolicy"] = draw(st.sampled_from(["run_once", "skip", "run_all"]))
    document["tags"] = [draw(st.sampled_from("ab"))]
    return document


def at_first(document: dict[str, Any], taken: int, *, starts: int, paused: bool, gap: Gap | None) -> Job | None:
    """A job under this definition of which everything up to `taken` was started or skipped."""
    definition = make_definition(**document)
    schedule = definition.schedule
    following = schedule.next_after(NOW + taken)
    last = schedule.last_at_or_before(NOW + taken)
    if following is None:
        return None
    return make_job(
        starts=starts,
        definition=definition,
        spread=schedule.spread_offset,
        next_slot=following,
        last_slot=last,
        paused=paused,
        gap=gap,
    )


def outcomes(job: Job, write: Write) -> list[tuple[int, int]]:
    """What is skipped, as ranges: in the row, or in history by this write."""
    assert write.flush in (None, job.gap), "history is told of what is in the row, and of nothing else"
    return [(gap.first, gap.last) for gap in (write.job.gap, job.gap) if gap is not None]


def check(job: Job, write: Write, now: float) -> None:
    """The slots of the schedule in force that have come since the last one taken."""
    row, ranges = write.job, outcomes(job, write)
    first, schedule = job.next_slot, job.defined.schedule
    slot = first
    while slot is not None and slot <= now:
        to_come = row.next_slot is not None and row.next_slot <= slot
        skipped = any(low <= slot <= high for low, high in ranges)
        moved = row.defined.schedule.at is not None and row.next_slot is not None and row.next_slot < slot
        assert skipped or to_come or moved, (slot - NOW, ranges, row.next_slot)
        assert not (skipped and row.next_slot == slot)
        slot = schedule.next_after(slot)
    if row.next_slot is not None:
        assert row.last_slot is None or row.last_slot < row.next_slot
        assert all(high < row.next_slot for _, high in ranges)
        assert row.defined.schedule.next_after(row.next_slot - 1) == row.next_slot
    if row.gap is not None and row.gap != job.gap:
        assert row.gap.first >= (first or 0) or job.gap is not None


gaps = st.sampled_from([None, Gap(first=NOW - 60, last=NOW - 60, count=1, reason=SkipReason.SCHEDULE_CHANGED)])


@pytest.mark.slow
@given(
    documents(),
    documents(),
    st.fixed_dictionaries({"starts": st.integers(0, 3), "paused": st.booleans(), "gap": gaps}),
    st.integers(-60, 400),
    st.integers(0, 700),
    st.sampled_from([None, True, False]),
    st.sampled_from(["change", "spread", "resume", "cancel", "pause, change, resume"]),
)
@settings(max_examples=600, deadline=None)
def test_each_scheduled_time_that_has_come_has_an_outcome(
    old: dict[str, Any], new: dict[str, Any], row: Any, taken: int, later: int, enabled: bool | None, act: str
) -> None:
    job = at_first(old, taken, **row)
    if job is None:
        return
    now = NOW + max(taken, 0) + later + 0.25
    if act == "spread":
        new = {**old, "spreadSeconds": new["spreadSeconds"]}
    try:
        if act == "cancel":
            write: Any = decide_cancel(job, deleted=False, now=now, write_id="w")
        elif act == "resume":
            write = decide_resume(job, now=now, write_id="w")
        else:
            if act == "pause, change, resume" and isinstance(held := decide_pause(job, now=now, write_id="p"), Write):
                job = held.job
            write = decide_change(job, make_definition(**new), enabled=enabled, now=now, write_id="w")
            if act == "pause, change, resume" and isinstance(write, Write):
                check(job, write, now)
                job, write = write.job, decide_resume(write.job, now=now + 1, write_id="r")
    except (ConflictError, InvalidFieldError):
        return
    if isinstance(write, Write):
        check(job, write, now)


DAILY = {"type": "cron", "expression": "30 8 * * *"}
SPREAD = {"schedule": DAILY, "spreadSeconds": 3_600}
EIGHT_THIRTY = NOW + 1_800


def spread_out() -> tuple[Driver, str]:
    driver = Driver(World(clock=FakeClock(NOW)))
    for _ in range(50):
        job = driver.create(**SPREAD)
        if 900 < job.spread < 3_000:
            driver.run_until(EIGHT_THIRTY + job.spread / 2)
            assert driver.executions(job.id) == []
            return driver, job.id
    raise AssertionError


def change(driver: Driver, job_id: str, *, enabled: bool | None = None, **changes: Any) -> Job:
    def made(row: Job) -> JobDraft:
        document = {**row.defined.document, **changes}
        return JobDraft(document={k: v for k, v in document.items() if v is not None}, payload="{}", enabled=enabled)

    return change_job(driver.services, SCHEDULER, job_id, change=made)


def started_at(driver: Driver, job_id: str) -> float | None:
    return next((one.started_at for one in driver.executions(job_id) if one.slot_id == slot_id(EIGHT_THIRTY)), None)


@pytest.mark.parametrize(
    "changes",
    [
        {"spreadSeconds": 2},
        {"spreadSeconds": None},
        {"spreadSeconds": 2, "maxRuns": 5},
        {"spreadSeconds": 2, "endAt": rfc3339(NOW + 864_000)},
        {"spreadSeconds": 2, "schedule": {**DAILY, "expression": "30 8 * * 0-6"}},
    ],
)
def test_a_smaller_spread_between_the_scheduled_time_and_the_start_starts_the_run(changes: dict[str, Any]) -> None:
    driver, job_id = spread_out()
    now = driver.clock.now()
    change(driver, job_id, **changes)
    driver.run(5)
    began = started_at(driver, job_id)
    assert began is not None
    assert began - now < 2
    assert driver.row(job_id).next_slot == EIGHT_THIRTY + 86_400
    assert driver.row(job_id).gap is None


def test_a_larger_spread_starts_it_later() -> None:
    driver, job_id = spread_out()
    row = change(driver, job_id, spreadSeconds=80_000)
    assert row.next_slot == EIGHT_THIRTY
    driver.run_until(EIGHT_THIRTY + row.spread + 2)
    began = started_at(driver, job_id)
    assert began is not None
    assert 0 <= began - EIGHT_THIRTY - row.spread < 2


def test_misfire_policy_skip_says_so_in_history() -> None:
    driver, job_id = spread_out()
    change(driver, job_id, spreadSeconds=2, misfirePolicy="skip")
    driver.run(5)
    row = driver.row(job_id)
    assert row.gap == Gap(first=EIGHT_THIRTY, last=EIGHT_THIRTY, count=1, reason=SkipReason.MISFIRE)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schedule": {"type": "cron", "expression": "45 9 * * *"}}, SkipReason.SCHEDULE_CHANGED),
        ({"schedule": {**DAILY, "timezone": "Europe/Berlin"}}, SkipReason.SCHEDULE_CHANGED),
        ({"schedule": {"type": "interval", "everySeconds": 3_600}, "spreadSeconds": 0}, SkipReason.SCHEDULE_CHANGED),
    ],
)
def test_another_schedule_skips_what_had_come(changes: dict[str, Any], reason: SkipReason) -> None:
    driver, job_id = spread_out()
    row = change(driver, job_id, **changes)
    assert row.gap == Gap(first=EIGHT_THIRTY, last=EIGHT_THIRTY, count=1, reason=reason)
    assert row.next_slot is not None
    assert row.next_slot > EIGHT_THIRTY


def test_a_pause_a_change_and_a_resume_skip_what_came_due_by_then() -> None:
    driver, job_id = spread_out()
    pause_job(driver.services, SCHEDULER, job_id)
    assert change(driver, job_id, spreadSeconds=2).next_slot == EIGHT_THIRTY
    row = resume_job(driver.services, SCHEDULER, job_id)
    assert row.gap == Gap(first=EIGHT_THIRTY, last=EIGHT_THIRTY, count=1, reason=SkipReason.PAUSED)


def test_a_change_that_resumes_skips_what_had_come() -> None:
    driver, job_id = spread_out()
    pause_job(driver.services, SCHEDULER, job_id)
    row = change(driver, job_id, spreadSeconds=2, enabled=True)
    assert row.gap is not None
    assert (row.gap.first, row.gap.count) == (EIGHT_THIRTY, 1)
    assert row.next_slot == EIGHT_THIRTY + 86_400


def test_a_cancel_between_the_scheduled_time_and_the_start_is_in_history() -> None:
    driver, job_id = spread_out()
    now = driver.clock.now()
    job = driver.row(job_id)
    write = decide_cancel(job, deleted=False, now=now, write_id="w")
    assert isinstance(write, Write)
    assert write.job.gap == Gap(first=EIGHT_THIRTY, last=EIGHT_THIRTY, count=1, reason=SkipReason.JOB_CANCELLED)


def test_a_slot_that_is_due_is_not_lost_to_a_change_of_the_end() -> None:
    """Its hint is under way: a burst of changes must not skip a slot for each."""
    driver = Driver(World(clock=FakeClock(NOW)))
    job = driver.create(schedule={"type": "interval", "everySeconds": 60})
    driver.world.clock.time = NOW + 60.2
    for number in range(5):
        change(driver, job.id, maxRuns=100 + number, endAt=rfc3339(NOW + 100_000 + number))
    assert driver.row(job.id).next_slot == NOW + 60
    driver.run(5)
    assert [int(one.slot_id) - NOW for one in driver.executions(job.id)] == [60]


def test_a_one_time_job_that_is_moved_later_says_so_and_one_that_is_moved_earlier_is_just_earlier() -> None:
    at = NOW + 300
    for moved, gap in ((NOW + 900, True), (NOW + 290, False)):
        definition = make_definition(schedule={"type": "once", "at": rfc3339(at)}, spreadSeconds=3_600)
        job = make_job(definition=definition, spread=1_000, next_slot=at)
        other = make_definition(schedule={"type": "once", "at": rfc3339(moved)})
        write = decide_change(job, other, enabled=None, now=at + 20, write_id="w")
        assert isinstance(write, Write)
        assert (write.job.next_slot, write.job.gap is not None) == (moved, gap)


def test_what_runs_under_the_old_schedule_goes_on() -> None:
    job = make_job(runs={slot_id(NOW): make_run()}, next_slot=NOW + 60)
    write = decide_change(job, make_definition(spreadSeconds=30), enabled=None, now=NOW + 10, write_id="w")
    assert isinstance(write, Write)
    assert write.job.runs[slot_id(NOW)].state is RunState.RUNNING
