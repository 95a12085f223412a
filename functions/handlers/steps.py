"""Does the work of the state machine's states: `{"step": "checkCircuit" | "invoke" | …, …}`, one attempt each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functions import bootstrap, telemetry
from functions.domain.step import read_step
from functions.usecases import steps

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

_CONCLUDING = {
    "recordOutcome": steps.record_outcome,
    "recordFailure": steps.record_failure,
    "recordTimeout": steps.record_timeout,
}


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """What the machine reads of the answer: `state` and `until` of a circuit, `status` of an attempt or `null`."""
    telemetry.begin(context)
    step, name, attempts = read_step(event), event.get("step"), bootstrap.steps()
    if name == "checkCircuit":
        checked = steps.check_circuit(attempts, step)
        return {"state": checked.state, "until": checked.until}
    if name == "invoke":
        execution = steps.invoke(attempts, step)
        return {"status": None if execution is None else execution.status.value}
    if name == "endAsCircuitOpen":
        execution = steps.end_as_circuit_open(attempts, step, until=int(event["until"]))
    else:
        execution = _CONCLUDING[str(name)](attempts, step)
    telemetry.flush()
    return {"status": None if execution is None else execution.status.value}
