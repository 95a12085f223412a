"""Consumes the history's stream: announces runs that failed for good.

It never raises for one record: a record that cannot be read goes to a queue of its own and holds nobody up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functions import bootstrap, telemetry
from functions.adapters.dynamodb_history_items import read_history
from functions.adapters.dynamodb_keys import is_end
from functions.domain.errors import CorruptDefinitionError
from functions.domain.execution import Execution
from functions.usecases.dead_letters import announce_dead_letters

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    telemetry.begin(context)
    jobs, letters, unreadable = bootstrap.dead_letters()
    executions: list[Execution] = []
    for record in event["Records"]:
        try:
            if is_end(record["dynamodb"]["Keys"]):
                continue
            row = read_history(record["dynamodb"]["NewImage"])
        except (CorruptDefinitionError, KeyError) as error:
            telemetry.logger().error("a record cannot be read", extra={"eventId": record.get("eventID")})
            unreadable.announce([{"error": str(error), "keys": record.get("dynamodb", {}).get("Keys", {})}])
            continue
        if isinstance(row, Execution):
            executions.append(row)
    telemetry.announced(announce_dead_letters(jobs, letters, executions))
    telemetry.flush()
    return {"batchItemFailures": []}
