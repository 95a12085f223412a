"""Schemas of approval gates, and of whatever else a run waits for, in the OpenAPI document."""

from __future__ import annotations

from functions.api.openapi_shapes import INSTANT, JOB_ID, RUN_ID, Schema, enum_of, maybe, record, ref
from functions.domain.run import TIMEOUT, Decision
from functions.domain.waiting import WaitKind

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

WAITING: Schema = maybe(ref("WaitingFor"))

WAITS: dict[str, Schema] = {
    "WaitingFor": record(
        {
            "kind": enum_of(WaitKind),
            "name": maybe(
                {
                    "type": "string",
                    "description": "Queue of the worker, concurrency key, job type, key of the circuit, role, id of "
                    "the run or job; null for a kind that has none, or where it is not known.",
                }
            ),
            "since": maybe(INSTANT | {"description": "When the attempt was first held up."}),
        },
        description="What a run that is due waits for.",
    ),
    "Upstream": record(
        {
            "waitingFor": maybe(JOB_ID | {"description": "The first job that is not yet as this one needs it."}),
            "since": maybe(INSTANT | {"description": "Since when it has waited in this round."}),
            "nextLookAt": maybe(INSTANT | {"description": "null: nothing can come of them any more."}),
        },
        description="How a job with dependsOn stands to those it depends on.",
    ),
}
