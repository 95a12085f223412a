"""Delayed hints: SQS carries the near ones, EventBridge Scheduler the far ones, into the same run queues."""

from __future__ import annotations

import hashlib
import logging
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from functions.adapters.queue_sends import BATCH_MESSAGES, QueueSends, batch_entry
from functions.domain.errors import HintNotSentError
from functions.domain.hint import Hint, write_hint
from functions.domain.timing import (
    OneTimeSchedule,
    QueueDelay,
    one_time_schedule,
    route,
    schedule_expression,
    seconds_until,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mypy_boto3_scheduler import EventBridgeSchedulerClient
    from mypy_boto3_sqs import SQSClient

    from functions.domain.definition import Priority
    from functions.ports import ArmedHint, Clock


logger = logging.getLogger(__name__)

DELIVERY_TRIES = 3
DELIVERY_SECONDS = 600
"""How long EventBridge Scheduler tries to put a hint into its queue; later the sweep brings it."""

_VISIBLE: Final = "ApproximateNumberOfMessages"
_IN_FLIGHT: Final = "ApproximateNumberOfMessagesNotVisible"


_GROUP = re.compile(r"[!-~]{1,128}")
"""What SQS takes as a MessageGroupId."""


def _tenant(owner: str | None) -> str | None:
    """The owner as the tenant of a fair queue: while one has a backlog, SQS delivers the others' messages first."""
    if owner is None or _GROUP.fullmatch(owner):
        return owner
    return hashlib.sha256(owner.encode()).hexdigest()


class RunQueue(NamedTuple):
    url: str
    arn: str
    capacity: int = 0
    """Messages that its consumers may have in hand at once."""


class SqsTimetable:
    """Timetable over a queue for each priority and one schedule group.

    `role_arn` is the role with which EventBridge Scheduler sends to the queues.
    """

    def __init__(
        self,
        sqs: SQSClient,
        scheduler: EventBridgeSchedulerClient,
        *,
        queues: Mapping[Priority, RunQueue],
        group: str,
        role_arn: str,
        clock: Clock,
    ) -> None:
        self._sqs = sqs
        self._sends = QueueSends(sqs)
        self._scheduler = scheduler
        self._queues = queues
        self._group = group
        self._role_arn = role_arn
        self._clock = clock

    def arm(self, hint: Hint, *, due_at: int, priority: Priority, owner: str | None = None) -> None:
        """Arm one hint. Raises HintNotSentError."""
        queue = self._queues[priority]
        way = route(hint, due_at=due_at, now=self._clock.now())
        try:
            if isinstance(way, QueueDelay):
                self._sends.send(
                    queue.url,
                    write_hint(hint),
                    delay=lambda: seconds_until(due_at, now=self._clock.now()),
                    group=_tenant(owner),
                )
            else:
                self._schedule(hint, way, queue)
        except (ClientError, BotoCoreError) as error:
            raise HintNotSentError from error

    def arm_all(self, hints: Sequence[ArmedHint]) -> int:
        if len(hints) == 1:
            return self._arm_one(hints[0])
        now = self._clock.now()
        near: dict[Priority, list[tuple[Hint, int, str]]] = {}
        failed = 0
        for hint, due_at, priority, owner in hints:
            way = route(hint, due_at=due_at, now=now)
            if isinstance(way, QueueDelay):
                near.setdefault(priority, []).append((hint, way.seconds, owner))
                continue
            try:
                self._schedule(hint, way, self._queues[priority])
            except (ClientError, BotoCoreError):
                failed += 1
        for priority, delayed in near.items():
            for start in range(0, len(delayed), BATCH_MESSAGES):
                failed += self._send_batch(self._queues[priority], delayed[start : start + BATCH_MESSAGES])
        return failed

    def _arm_one(self, armed: ArmedHint) -> int:
        try:
            self.arm(armed.hint, due_at=armed.due_at, priority=armed.priority, owner=armed.owner)
        except HintNotSentError:
            logger.warning("%s hints were not sent", 1, exc_info=True)
            return 1
        return 0

    def _send_batch(self, queue: RunQueue, delayed: Sequence[tuple[Hint, int, str]]) -> int:
        """Send up to 10 messages in one request; returns how many were not taken."""
        try:
            answer = self._sqs.send_message_batch(
                QueueUrl=queue.url,
                Entries=[
                    batch_entry(index, write_hint(hint), delay=seconds, group=_tenant(owner))
                    for index, (hint, seconds, owner) in enumerate(delayed)
                ],
            )
        except (ClientError, BotoCoreError):
            logger.warning("%s hints were not sent", len(delayed), exc_info=True)
            return len(delayed)
        return len(answer.get("Failed", []))

    def disarm(self, hint: Hint, *, due_at: int) -> None:
        schedule = one_time_schedule(hint, due_at=due_at)
        if schedule.fires_at <= self._clock.now():
            return  # Fired, or never made: the hint is in a queue, from where nothing takes it back.
        try:
            self._scheduler.delete_schedule(Name=schedule.name, GroupName=self._group)
        except self._scheduler.exceptions.ResourceNotFoundException:
            return
        except (ClientError, BotoCoreError):
            logger.warning("schedule %s was left behind; its hint will be dropped", schedule.name, exc_info=True)

    def backlog(self) -> int:
        return sum(self._waiting(queue) for queue in self._queues.values())

    def _waiting(self, queue: RunQueue) -> int:
        """What is visible, and what is in flight beyond what consumers have in hand: those failed, and come again."""
        answer = self._sqs.get_queue_attributes(QueueUrl=queue.url, AttributeNames=[_VISIBLE, _IN_FLIGHT])
        visible, in_flight = (int(answer["Attributes"][name]) for name in (_VISIBLE, _IN_FLIGHT))
        return visible + max(0, in_flight - queue.capacity)

    # A schedule's message has no tenant: EventBridge Scheduler documents MessageGroupId for FIFO queues only. It comes
    # minutes early, and the executor sends it on with one.
    def _schedule(self, hint: Hint, schedule: OneTimeSchedule, queue: RunQueue) -> None:
        try:
            self._scheduler.create_schedule(
                Name=schedule.name,
                GroupName=self._group,
                ScheduleExpression=schedule_expression(schedule.fires_at),
                ScheduleExpressionTimezone="UTC",
                FlexibleTimeWindow={"Mode": "OFF"},
                ActionAfterCompletion="DELETE",
                Target={
                    "Arn": queue.arn,
                    "RoleArn": self._role_arn,
                    "Input": write_hint(hint),
                    "RetryPolicy": {
                        "MaximumRetryAttempts": DELIVERY_TRIES,
                        "MaximumEventAgeInSeconds": DELIVERY_SECONDS,
                    },
                },
            )
        except self._scheduler.exceptions.ConflictException:
            return  # The name is derived from the hint: it is armed already.
