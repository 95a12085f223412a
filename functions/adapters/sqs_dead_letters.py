"""Announces dead letters on a queue."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from functions.domain.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mypy_boto3_sqs import SQSClient


class SqsDeadLetters:
    """DeadLetters over one queue. One call a message: they are few, and the emulator has no batches for our grant."""

    def __init__(self, client: SQSClient, queue_url: str) -> None:
        self._client = client
        self._queue_url = queue_url

    def announce(self, messages: Iterable[dict[str, object]]) -> None:
        for message in messages:
            # Escaped to ASCII: SQS refuses some characters (U+FFFE, U+FFFF) that a job's name may hold.
            body = json.dumps(message, separators=(",", ":"))
            try:
                self._client.send_message(QueueUrl=self._queue_url, MessageBody=body)
            except (ClientError, BotoCoreError) as error:
                raise UnavailableError from error
