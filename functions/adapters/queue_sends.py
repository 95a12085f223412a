"""Messages that threads of one process send to a queue at the same time share requests, which SQS bills by the request.

Nobody waits for company: who comes while no request to the queue is under way sends at once, and who comes meanwhile
goes with the next one, together with all others who came.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

BATCH_MESSAGES = 10
"""Messages in one SendMessageBatch (SQS quotas)."""


def batch_entry(index: int, body: str, *, delay: int, group: str | None) -> SendMessageBatchRequestEntryTypeDef:
    """An entry of SendMessageBatch. `group`: MessageGroupId."""
    entry: SendMessageBatchRequestEntryTypeDef = {"Id": str(index), "MessageBody": body, "DelaySeconds": delay}
    if group is not None:
        entry["MessageGroupId"] = group
    return entry


@dataclass(eq=False, slots=True)
class _Message:
    body: str
    delay: Callable[[], int]
    group: str | None
    done: bool = False
    refused: bool = False
    """SQS took its batch, but not it."""
    error: BaseException | None = None


@dataclass(eq=False, slots=True)
class _Line:
    """Who waits for a queue."""

    waiting: list[_Message] = field(default_factory=list)
    busy: bool = False
    """Whether a request is under way."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    """Held for no longer than it takes to change these."""


class QueueSends:
    """Each message is its sender's own until it is sent: nothing is left to another thread that may die."""

    def __init__(self, sqs: SQSClient) -> None:
        self._sqs = sqs
        self._lines: dict[str, _Line] = {}

    def send(self, url: str, body: str, *, delay: Callable[[], int], group: str | None = None) -> None:
        """Send a message; returns once SQS has it. `delay` gives its DelaySeconds at the instant of the request.

        `group` is its MessageGroupId.

        Raises what boto3 raises, of the request that carried the message.
        """
        line, message = self._lines.setdefault(url, _Line()), _Message(body, delay, group)
        with line.changed:
            line.waiting.append(message)
        while not message.done:
            self._take_part(url, line, message)
        if message.refused:
            self._alone(url, message)  # by itself, since boto3 repeats requests, but no entries of a batch
        if message.error is not None:
            raise message.error

    def _take_part(self, url: str, line: _Line, message: _Message) -> None:
        """Wait until the message is sent, or until it is this thread's turn to send for all who wait."""
        with line.changed:
            line.changed.wait_for(lambda: message.done or not line.busy)
            if message.done:
                return
            line.busy = True
            together, line.waiting = line.waiting[:BATCH_MESSAGES], line.waiting[BATCH_MESSAGES:]
        self._request(url, together)
        with line.changed:
            for one in together:
                one.done = True
            line.busy = False
            line.changed.notify_all()

    def _request(self, url: str, messages: Sequence[_Message]) -> None:
        try:
            if len(messages) == 1:
                self._alone(url, messages[0])
            else:
                self._together(url, messages)
        except BaseException as error:  # noqa: BLE001 - each message's own thread raises it
            for message in messages:
                message.error = error

    def _alone(self, url: str, message: _Message) -> None:
        if message.group is None:
            self._sqs.send_message(QueueUrl=url, MessageBody=message.body, DelaySeconds=message.delay())
        else:
            self._sqs.send_message(
                QueueUrl=url, MessageBody=message.body, DelaySeconds=message.delay(), MessageGroupId=message.group
            )

    def _together(self, url: str, messages: Sequence[_Message]) -> None:
        answer = self._sqs.send_message_batch(
            QueueUrl=url,
            Entries=[
                batch_entry(index, message.body, delay=message.delay(), group=message.group)
                for index, message in enumerate(messages)
            ],
        )
        for entry in answer.get("Failed", []):
            messages[int(entry["Id"])].refused = True
