"""Consumes the run queues: each message is a hint about one job.

One that could not be handled just now is handed back for a second or some; one that cannot be handled waits for the
queue's visibility timeout, as often as it takes to the dead-letter queue.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.batch import AsyncBatchProcessor, EventType, async_process_partial_response

from functions import bootstrap, telemetry
from functions.adapters.aws_errors import is_transient
from functions.domain.errors import TRANSIENT
from functions.domain.hint import read_hint
from functions.usecases.executor import handle_hint

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
    from aws_lambda_powertools.utilities.typing import LambdaContext

BATCH_SIZE = 10


@cache
def _threads() -> ThreadPoolExecutor:
    """A thread for each message of a batch: a slow target holds up no other."""
    return ThreadPoolExecutor(max_workers=BATCH_SIZE)


async def _handle(record: SQSRecord) -> None:
    threads = asyncio.get_running_loop()
    try:
        hint = read_hint(record.body)
        handled = await threads.run_in_executor(_threads(), handle_hint, bootstrap.executor(), hint)
    except Exception as error:
        if isinstance(error, TRANSIENT) or is_transient(error):
            await threads.run_in_executor(_threads(), _hand_back, record, error)
        else:
            telemetry.logger().exception("hint failed", extra={"hint": record.body[:200]})
        raise
    telemetry.hint_handled(hint, handled)


def _hand_back(record: SQSRecord, error: Exception) -> None:
    receives = int(record.attributes.approximate_receive_count)
    seconds = bootstrap.taken_hints().hand_back(record.event_source_arn, record.receipt_handle, receives=receives)
    telemetry.hint_handed_back(record.body, error, receives=receives, seconds=seconds)


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    processor = AsyncBatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
    telemetry.begin(context)
    answer = async_process_partial_response(event, _handle, processor, context)
    telemetry.flush()
    return answer
