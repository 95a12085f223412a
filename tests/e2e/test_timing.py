"""A run starts within a second and a half of its slot, and never before it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.stack import LATE, instant, once, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from gnomon.client import Client
    from tests.e2e.stories import MinuteJob
    from tests.e2e.target import Call, Endpoint

pytestmark = pytest.mark.e2e

SLOTS = 3


def must_be_on_time(executions: list[Any], calls: list[Call], record: Callable[[str, object], None]) -> None:
    """By the history's start, and by the arrival at the target."""
    by_slot = {call.headers["gnomon-scheduled-for"]: call for call in calls}
    for execution in executions:
        slot = instant(execution["scheduledFor"])
        started = instant(execution["startedAt"]) - slot
        arrived = by_slot[execution["scheduledFor"]].at - slot
        record("lateness", f"{execution['scheduledFor']}: started {started:.3f} s, at the target {arrived:.3f} s")
        print(f"{execution['scheduledFor']}: started {started:+.3f} s, at the target {arrived:+.3f} s")
        assert 0 <= started <= LATE, f"started {started:.3f} s after its slot"
        assert 0 <= arrived <= LATE, f"arrived {arrived:.3f} s after its slot"


def test_one_time_job_is_on_time(
    scheduler: Client,
    endpoint: Endpoint,
    create: Callable[..., dict[str, Any]],
    record_property: Callable[[str, object], None],
) -> None:
    jobs = []
    for _ in range(5):
        job = create(schedule=once(3), target=endpoint.target())
        until(lambda job=job: scheduler.get_job(job["id"])["status"] == "COMPLETED", seconds=40)
        jobs.append(job["id"])
    executions = [execution for job_id in jobs for execution in scheduler.history(job_id)]
    assert len(executions) == len(jobs)
    for job_id in jobs:
        (call,) = endpoint.calls(job_id)
        must_be_on_time([each for each in executions if each["jobId"] == job_id], [call], record_property)


@pytest.mark.timeout(300)
def test_minute_cron_is_on_time(
    scheduler: Client, endpoint: Endpoint, minute_job: MinuteJob, record_property: Callable[[str, object], None]
) -> None:
    def done() -> list[Any]:
        return [each for each in scheduler.history(minute_job.job_id) if each["status"] == "COMPLETED"]

    until(lambda: len(done()) >= SLOTS, seconds=(SLOTS + 1) * 60 - (time.time() - minute_job.begun) + 10, every=1)
    executions = done()
    calls = endpoint.calls(minute_job.job_id)
    slots = sorted(instant(execution["scheduledFor"]) for execution in executions)
    assert slots == [slots[0] + 60 * minute for minute in range(len(slots))]
    assert slots[0] - minute_job.begun <= 60
    assert len(calls) == len(slots)
    must_be_on_time(executions, calls, record_property)
    assert instant(scheduler.get_job(minute_job.job_id)["nextRunAt"]) == slots[-1] + 60
