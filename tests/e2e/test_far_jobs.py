"""What is due beyond the reach of a queue's delay waits as one schedule of EventBridge, and in no queue."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.stack import COUNTERS, RUN_QUEUES, instant, job_body, once, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from gnomon.client import Client
    from tests.e2e.stack import Aws, Stack
    from tests.e2e.target import Endpoint

pytestmark = pytest.mark.e2e

MINUTE = 60
EXPRESSION = "at(%Y-%m-%dT%H:%M:%S)"


def schedules_of(aws: Aws, stack: Stack, job_id: str) -> list[dict[str, Any]]:
    group, prefix = stack.outputs["ScheduleGroup"], job_id.replace("-", "")
    found = aws.scheduler.list_schedules(GroupName=group, NamePrefix=prefix)["Schedules"]
    return [aws.scheduler.get_schedule(GroupName=group, Name=each["Name"]) for each in found]


def messages(aws: Aws, stack: Stack) -> dict[str, int]:
    """Of each run queue, all counters together: a message may move from one to the other meanwhile."""
    found = {}
    for name in RUN_QUEUES:
        attributes = aws.sqs.get_queue_attributes(QueueUrl=stack.outputs[name], AttributeNames=list(COUNTERS))
        found[name] = sum(int(attributes["Attributes"][counter]) for counter in COUNTERS)
    return found


def test_far_job_is_one_schedule_and_no_message(stack: Stack, aws: Aws, scheduler: Client) -> None:
    # Nothing on a fresh stack; on one that was used, what its jobs and runs left.
    before = messages(aws, stack)
    job = scheduler.create_job(job_body(schedule=once(20 * MINUTE)))
    due = instant(job["nextRunAt"])

    (schedule,) = schedules_of(aws, stack, job["id"])
    assert schedule["ScheduleExpressionTimezone"] == "UTC"
    fires = datetime.strptime(schedule["ScheduleExpression"], EXPRESSION).replace(tzinfo=UTC).timestamp()
    assert due - 13 * MINUTE <= fires <= due - 3 * MINUTE
    assert schedule["ActionAfterCompletion"] == "DELETE"
    assert json.loads(schedule["Target"]["Input"])["jobId"] == job["id"]
    assert messages(aws, stack) == before

    scheduler.delete_job(job["id"])
    until(lambda: not schedules_of(aws, stack, job["id"]), seconds=5, hint="the deleted job's schedule is gone")
    assert messages(aws, stack) == before


def test_near_job_is_one_message_and_no_schedule(stack: Stack, aws: Aws, create: Callable[..., dict[str, Any]]) -> None:
    before = messages(aws, stack)
    job = create(schedule=once(10 * MINUTE), priority="low")
    assert schedules_of(aws, stack, job["id"]) == []
    assert messages(aws, stack) == before | {"RunQueueLowUrl": before["RunQueueLowUrl"] + 1}


@pytest.mark.parametrize("action", ["cancel_job", "update_job"])
def test_schedule_goes_with_what_it_was_for(
    stack: Stack, aws: Aws, scheduler: Client, create: Callable[..., dict[str, Any]], action: str
) -> None:
    job = create(schedule=once(20 * MINUTE))
    (old,) = schedules_of(aws, stack, job["id"])
    if action == "cancel_job":
        scheduler.cancel_job(job["id"])
        left = 0
    else:
        scheduler.update_job(job["id"], {"schedule": once(40 * MINUTE)})
        left = 1
    until(
        lambda: old["Name"] not in [each["Name"] for each in schedules_of(aws, stack, job["id"])],
        seconds=5,
        hint="the old schedule is gone",
    )
    assert len(schedules_of(aws, stack, job["id"])) == left


@pytest.mark.case(14)
def test_cancel_takes_back_the_schedule_of_a_waiting_retry(
    stack: Stack, aws: Aws, scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    job = create(
        schedule=once(0),
        target=endpoint.target("503"),
        retryConfig={"maxRetries": 3, "backoffStrategy": "fixed", "initialDelaySeconds": 1200, "maxDelaySeconds": 1200},
    )
    until(lambda: scheduler.get_job(job["id"])["status"] == "RETRYING", seconds=40)
    (waiting,) = until(lambda: schedules_of(aws, stack, job["id"]), seconds=5)
    assert waiting["Name"].split("-")[1] == "r"
    scheduler.cancel_job(job["id"])
    until(lambda: not schedules_of(aws, stack, job["id"]), seconds=5)
    # A hint that comes all the same finds nothing to do.
    history = list(scheduler.history(job["id"]))
    aws.sqs.send_message(QueueUrl=stack.outputs["RunQueueNormalUrl"], MessageBody=waiting["Target"]["Input"])
    time.sleep(2)
    assert list(scheduler.history(job["id"])) == history
    assert len(endpoint.calls(job["id"])) == 1
    assert scheduler.get_job(job["id"])["status"] == "CANCELLED"
