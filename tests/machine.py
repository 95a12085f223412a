"""Walks the deployed state machine's own document in a test's time, with the real use cases behind its states.

What it knows of Amazon States Language is what infra/states.py uses: Task with Catch, Choice, Succeed. What
dies (Crash) is caught as a function that fails; a Task's timeout is for tests on an interpreter of the language.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from functions.domain.errors import GnomonError
from functions.domain.step import Step
from functions.usecases import steps
from functions.usecases.services import Attempts
from infra.states import definition
from tests.faults import Crash

MACHINE: Mapping[str, Any] = definition(partition="aws", function_arn="steps")


def walk(
    attempts: Attempts,
    step: Step,
    *,
    enter: Callable[[str], None] = lambda _state: None,
    fails: tuple[type[BaseException], ...] = (Crash, GnomonError),
) -> list[str]:
    """Run one execution; the names of its states. `enter` is called with each, and may raise Crash: its function dies.
    `fails` are what a function's failure is.

    A state whose function dies and that nothing catches ends the execution there: its retries are left out.
    """
    name, seen, circuit = MACHINE["StartAt"], [], steps.Checked("closed")
    while True:
        seen.append(name)
        state = MACHINE["States"][name]
        if state["Type"] == "Succeed":
            return seen
        if state["Type"] == "Choice":
            chosen = [rule["Next"] for rule in state["Choices"] if rule["StringEquals"] == circuit.state]
            name = chosen[0] if chosen else state["Default"]
            continue
        try:
            enter(name)
            done = _do(attempts, state["Parameters"]["Payload"]["step"], step, circuit)
        except fails:
            caught = [rule["Next"] for rule in state.get("Catch", ()) if rule["ErrorEquals"] == ["States.ALL"]]
            if not caught:
                return seen
            name = caught[0]
            continue
        if isinstance(done, steps.Checked):
            circuit = done
        if state.get("End"):
            return seen
        name = state["Next"]


def _do(attempts: Attempts, action: str, step: Step, circuit: steps.Checked) -> object:
    match action:
        case "checkCircuit":
            return steps.check_circuit(attempts, step)
        case "endAsCircuitOpen":
            return steps.end_as_circuit_open(attempts, step, until=circuit.until or 0)
        case "invoke":
            return steps.invoke(attempts, step)
        case "recordOutcome":
            return steps.record_outcome(attempts, step)
        case "recordFailure":
            return steps.record_failure(attempts, step)
        case "recordTimeout":
            return steps.record_timeout(attempts, step)
    raise AssertionError(f"no function does {action}")
