"""Hints that come twice, early, late, or for what is no more change nothing, and breed no second chain."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from functions.domain.hint import Hint, write_hint
from tests.e2e.stack import COUNTERS, instant, once, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from gnomon.client import Client
    from tests.e2e.stack import Aws, Stack
    from tests.e2e.target import Endpoint

pytestmark = pytest.mark.e2e


def told(aws: Aws, stack: Stack, job: dict[str, Any], slot: float, attempt: int = 1) -> None:
    """Send one more hint about this slot."""
    body = write_hint(Hint(job["id"], f"{int(slot):010d}", attempt))
    aws.sqs.send_message(QueueUrl=stack.outputs["RunQueueLowUrl"], MessageBody=body)


def messages(aws: Aws, stack: Stack) -> int:
    attributes = aws.sqs.get_queue_attributes(QueueUrl=stack.outputs["RunQueueLowUrl"], AttributeNames=list(COUNTERS))
    return sum(int(attributes["Attributes"][counter]) for counter in COUNTERS)


@pytest.mark.case(15)
@pytest.mark.case(33)
def test_duplicates_breed_no_second_chain(
    stack: Stack, aws: Aws, scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    before = messages(aws, stack)
    job = create(schedule={"type": "interval", "everySeconds": 3}, target=endpoint.target(), priority="low", maxRuns=50)
    first = instant(job["nextRunAt"])
    for _ in range(2):
        told(aws, stack, job, first)  # early, and at once
    until(lambda: endpoint.calls(job["id"]), seconds=40, every=0.05)
    told(aws, stack, job, first)  # late
    told(aws, stack, job, first, attempt=2)  # never asked for
    until(lambda: len(endpoint.calls(job["id"])) >= 3, seconds=40, every=0.05)
    # One hint is on its way, for the next slot.
    until(lambda: messages(aws, stack) == before + 1, seconds=40, hint="the duplicates are gone")
    slots = Counter(call.headers["gnomon-scheduled-for"] for call in endpoint.calls(job["id"]))
    assert set(slots.values()) == {1}
    assert sorted(map(instant, slots)) == [first + 3 * index for index in range(len(slots))]
    assert {each["attempt"] for each in scheduler.history(job["id"])} == {1}


@pytest.mark.parametrize("action", ["pause_job", "cancel_job", "delete_job"])
def test_hint_for_what_is_not_due(
    stack: Stack,
    aws: Aws,
    scheduler: Client,
    endpoint: Endpoint,
    create: Callable[..., dict[str, Any]],
    action: str,
) -> None:
    job = create(schedule=once(2), target=endpoint.target(), priority="low")
    getattr(scheduler, action)(job["id"])
    time.sleep(2.5)
    told(aws, stack, job, instant(job["schedule"]["at"]))
    time.sleep(2)
    assert endpoint.calls(job["id"]) == []


def test_hint_for_a_moved_slot(
    stack: Stack, aws: Aws, scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    job = create(schedule=once(2), target=endpoint.target(), priority="low")
    moved = scheduler.update_job(job["id"], {"schedule": once(5)})
    until(lambda: endpoint.calls(job["id"]), seconds=40, every=0.05)
    told(aws, stack, job, instant(job["schedule"]["at"]))
    told(aws, stack, job, instant(moved["schedule"]["at"]))
    time.sleep(2)
    (call,) = endpoint.calls(job["id"])
    assert call.headers["gnomon-scheduled-for"] == moved["schedule"]["at"]
