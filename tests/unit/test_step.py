"""What goes through the state machine, both ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from functions.domain.ids import MAX_ATTEMPTS
from functions.domain.run import RunState
from functions.domain.step import MACHINE_GRACE, Step, read_step, step_of, write_step
from tests.factories import JOB_ID, make_run

EVENTS = Path(__file__).parents[2] / "events"
STEP = Step(JOB_ID, "1800000000", 1, 1, 125)
GOOD: dict[str, Any] = json.loads(write_step(STEP))


def test_the_sample_of_version_1_is_read() -> None:
    assert read_step(json.loads((EVENTS / "step-v1.json").read_text())) == STEP


@pytest.mark.parametrize("step", [STEP, Step(JOB_ID, "1800000000mabcdefgh", MAX_ATTEMPTS, 10**12, 845)])
def test_a_step_is_read_as_it_was_written_and_its_name_fits(step: Step) -> None:
    assert read_step(json.loads(write_step(step))) == step
    assert len(step.execution_name) <= 80
    assert step.execution_name == f"{step.job_id}-{step.slot_id}-{step.attempt:04d}-f{step.fence}"


def test_the_machines_timeout_comes_after_the_jobs() -> None:
    run = make_run(state=RunState.RUNNING, attempt=2, fence=7)

    assert step_of(JOB_ID, "1800000000", run, timeout_seconds=120) == Step(
        JOB_ID, "1800000000", 2, 7, 120 + MACHINE_GRACE
    )


def test_keys_of_a_newer_release_are_ignored() -> None:
    assert read_step(GOOD | {"step": "invoke", "trace": {}}) == STEP


@pytest.mark.parametrize(
    "changes",
    [
        {"v": 2},
        {"v": True},
        {"jobId": "x"},
        {"jobId": None},
        {"slot": "soon"},
        {"attempt": 0},
        {"attempt": "1"},
        {"attempt": MAX_ATTEMPTS + 1},
        {"fence": -1},
        {"fence": True},
        {"timeoutSeconds": 1.5},
        {"timeoutSeconds": None},
    ],
)
def test_what_is_no_step_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r" (is|are) "):
        read_step(GOOD | changes)
