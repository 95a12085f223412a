"""Answers the HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functions import bootstrap, telemetry

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    telemetry.begin(context)
    answer = bootstrap.api()(event, context)
    telemetry.flush()
    return answer
