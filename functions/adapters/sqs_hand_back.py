"""Messages that a consumer has taken and could not handle just now become visible again soon."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from functions.domain.timing import hand_back_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_sqs import SQSClient

    from functions.domain.retry import Uniform

logger = logging.getLogger(__name__)


class SqsHandBack:
    """`urls` are the queues' by their ARN: a message says the one, SQS asks for the other."""

    def __init__(self, client: SQSClient, urls: Mapping[str, str], *, uniform: Uniform) -> None:
        self._client = client
        self._urls = urls
        self._uniform = uniform

    def hand_back(self, queue_arn: str, receipt_handle: str, *, receives: int) -> int | None:
        """Let the message come again after so many seconds, which are returned; it has been taken `receives` times.

        Best effort: None where SQS refused it, and the message waits for the queue's visibility timeout.
        """
        seconds = hand_back_seconds(receives, uniform=self._uniform)
        try:
            self._client.change_message_visibility(
                QueueUrl=self._urls[queue_arn], ReceiptHandle=receipt_handle, VisibilityTimeout=seconds
            )
        except (ClientError, BotoCoreError, KeyError):
            logger.warning("a message of %s could not be handed back", queue_arn, exc_info=True)
            return None
        return seconds
