"""Consumes the streams of jobs and of circuits and workers: puts lifecycle events on the stage's bus, in order per job.

A record that cannot be read goes to a queue of its own and holds nobody up; what the bus refuses comes again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from functions import bootstrap, telemetry
from functions.adapters.change_stream import read_change
from functions.domain.errors import CorruptDefinitionError
from functions.usecases.lifecycle import Record, tell

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

_MARGIN_MS = 10_000
"""Left of the function's time for what is under way."""


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    telemetry.begin(context)
    announcer, unreadable = bootstrap.lifecycle()
    left = (context.get_remaining_time_in_millis() - _MARGIN_MS) / 1000
    records: list[Record] = []
    for record in event["Records"]:
        try:
            change = read_change(record)
        except (CorruptDefinitionError, KeyError, ValueError) as error:
            telemetry.logger().error("a record cannot be read", extra={"eventId": record.get("eventID")})
            unreadable.announce([{"error": str(error), "keys": record.get("dynamodb", {}).get("Keys", {})}])
            continue
        if change is not None:
            records.append(Record(record["dynamodb"]["SequenceNumber"], change))
    told = tell(announcer, records, deadline=time.time() + left)
    telemetry.told(told)
    telemetry.flush()
    return {"batchItemFailures": [{"itemIdentifier": record} for record in told.unsent]}
