"""Schemas of approval gates in the OpenAPI document."""

from __future__ import annotations

from functions.api.openapi_shapes import INSTANT, RUN_ID, Schema, enum_of, maybe, record
from functions.domain.approval import TIMEOUT
from functions.domain.run import Decision

GATES: dict[str, Schema] = {
    "Gate": record(
        {
            "runId": RUN_ID,
            "scheduledFor": INSTANT,
            "waitingSince": INSTANT,
            "decideBy": INSTANT | {"description": "When `onTimeout` decides."},
            "role": maybe({"type": "string", "description": "Who decides; null where the job cannot be read."}),
        },
        description="A run that waits for approval.",
    ),
    "ApprovalDecision": record(
        {
            "decision": enum_of(Decision),
            "by": {"type": "string", "description": f"Id of the caller, or `{TIMEOUT}` where nobody decided in time."},
            "at": INSTANT,
            "comment": maybe({"type": "string"}),
        },
        description="What was decided at the gate of the attempt's run.",
    ),
}
