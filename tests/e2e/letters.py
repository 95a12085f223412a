"""Reads the queue of dead letters, as the one consumer it has."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from typing import Any


class Letters:
    def __init__(self, sqs: Any, queue_url: str) -> None:
        self._sqs = sqs
        self._queue_url = queue_url
        self._read: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def of(self, job_id: str, *, wait: float) -> list[dict[str, Any]]:
        """The job's dead letters, after `wait` seconds in which more of them may come."""
        ends = time.monotonic() + wait
        while True:
            messages = self._sqs.receive_message(
                QueueUrl=self._queue_url, MaxNumberOfMessages=10, WaitTimeSeconds=1
            ).get("Messages", [])
            for message in messages:
                letter = json.loads(message["Body"])
                self._read[letter["jobId"]].append(letter)
                self._sqs.delete_message(QueueUrl=self._queue_url, ReceiptHandle=message["ReceiptHandle"])
            if not messages and time.monotonic() > ends:
                return self._read[job_id]
