"""Every minute: look after jobs that nobody looked at in time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from functions import bootstrap, telemetry
from functions.usecases.sweep import sweep

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

_MARGIN_MS = 8_000
"""Left of the function's time for the visits under way."""


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:  # noqa: ARG001 - Lambda passes both
    telemetry.begin(context)
    left = (context.get_remaining_time_in_millis() - _MARGIN_MS) / 1000
    swept = sweep(bootstrap.sweeper(), deadline=time.time() + left)
    telemetry.swept(swept)
    telemetry.flush()
    return {"lookedAt": swept.looked_at, "reasons": swept.reasons, "failed": len(swept.failed)}
