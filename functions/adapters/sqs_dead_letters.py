"""Announces dead letters on a queue."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from functions.domain.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mypy_boto3_sqs import SQSClient


BATCH_MESSAGES = 10
BATCH_BYTES = 240_000
"""Below the 256 KiB that every version of SQS takes in one batch (SQS quotas)."""


class SqsDeadLetters:
    """DeadLetters over one queue."""

    def __init__(self, client: SQSClient, queue_url: str) -> None:
        self._client = client
        self._queue_url = queue_url

    def announce(self, messages: Iterable[dict[str, object]]) -> None:
        for batch in _batches(json.dumps(message, separators=(",", ":"), ensure_ascii=False) for message in messages):
            try:
                answer = self._client.send_message_batch(
                    QueueUrl=self._queue_url,
                    Entries=[{"Id": str(index), "MessageBody": body} for index, body in enumerate(batch)],
                )
            except (ClientError, BotoCoreError) as error:
                raise UnavailableError from error
            if answer.get("Failed"):
                raise UnavailableError


def _batches(bodies: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for body in bodies:
        length = len(body.encode())
        if batch and (len(batch) == BATCH_MESSAGES or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(body)
        size += length
    if batch:
        yield batch
