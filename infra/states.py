"""The state machine's document, in Amazon States Language: which state follows which, and what each may take.

docs/architecture.md shows its picture, tests walk it. It stands apart from the CDK, whose import takes a second.
"""

from __future__ import annotations

from typing import Any

LONGEST_SECONDS = 1_200
"""An execution that still runs after so long has lost its attempt to the lease."""
_STEP_SECONDS = 30
"""For a state that reads and writes rows only."""
_IDS = ("v", "jobId", "slot", "attempt", "fence", "timeoutSeconds")
_NOT_RUN = ["Lambda.TooManyRequestsException"]
"""Says for certain that the function was not run."""
_REPEAT = {
    "ErrorEquals": ["States.ALL"],
    "IntervalSeconds": 1,
    "BackoffRate": 2,
    "MaxAttempts": 6,
    "JitterStrategy": "FULL",
}
"""For steps that may be repeated: each puts what is absent and follows what is there. The last try comes half a minute
after the first, on average: a table that throttles for so long costs no attempt its outcome."""


def definition(*, partition: str, function_arn: str) -> dict[str, Any]:
    """The machine, in Amazon States Language. Only ids and the timeout go through it."""

    def task(step: str, **more: Any) -> dict[str, Any]:
        payload = {"step": step} | {f"{name}.$": f"$.{name}" for name in _IDS} | more.pop("payload", {})
        timeout = {} if "TimeoutSecondsPath" in more else {"TimeoutSeconds": _STEP_SECONDS}
        return {
            "Type": "Task",
            "Resource": f"arn:{partition}:states:::lambda:invoke",
            "Parameters": {"FunctionName": function_arn, "Payload": payload},
            **timeout,
            **more,
        }

    return {
        "Comment": "One attempt of a run: is the circuit closed, then the call, then what came of it",
        "StartAt": "CheckCircuit",
        "TimeoutSeconds": LONGEST_SECONDS,
        "States": {
            "CheckCircuit": task(
                "checkCircuit",
                ResultSelector={"state.$": "$.Payload.state", "until.$": "$.Payload.until"},
                ResultPath="$.circuit",
                Retry=[_REPEAT | {"MaxAttempts": 1}],
                # What cannot be checked is called: the check spares calls, it does not guard anything.
                Catch=[{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Invoke"}],
                Next="CircuitOpen?",
            ),
            "CircuitOpen?": {
                "Type": "Choice",
                "Choices": [
                    {"Variable": "$.circuit.state", "StringEquals": "open", "Next": "EndAsCircuitOpen"},
                    {"Variable": "$.circuit.state", "StringEquals": "stopped", "Next": "NothingToDo"},
                ],
                "Default": "Invoke",
            },
            "EndAsCircuitOpen": task(
                "endAsCircuitOpen", payload={"until.$": "$.circuit.until"}, Retry=[_REPEAT], End=True
            ),
            "NothingToDo": {"Type": "Succeed", "Comment": "The run is no longer this execution's"},
            "Invoke": task(
                "invoke",
                TimeoutSecondsPath="$.timeoutSeconds",
                ResultSelector={"status.$": "$.Payload.status"},
                ResultPath="$.outcome",
                Retry=[_REPEAT | {"ErrorEquals": _NOT_RUN}],
                Catch=[
                    {"ErrorEquals": ["States.Timeout"], "ResultPath": "$.error", "Next": "RecordTimeout"},
                    {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "RecordFailure"},
                ],
                Next="RecordOutcome",
            ),
            "RecordOutcome": task("recordOutcome", Retry=[_REPEAT], End=True),
            "RecordFailure": task("recordFailure", Retry=[_REPEAT], End=True),
            "RecordTimeout": task("recordTimeout", Retry=[_REPEAT], End=True),
        },
    }
