"""What goes through the state machine: which attempt, under which fence, and how long it may take. Ids, no payload.

Its form is JSON, `{"v":1,"jobId":…,"slot":…,"attempt":…,"fence":…,"timeoutSeconds":…}`; events/step-v1.json keeps a
sample.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from functions.domain.ids import execution_id, parse_execution_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from functions.domain.run import ActiveRun

VERSION = 1
MACHINE_GRACE = 5
"""Seconds by which the machine's timeout comes after the job's: the function that calls the target keeps the job's own,
and has to start, read the row and record what came of it besides."""


class Step(NamedTuple):
    job_id: str
    slot_id: str
    attempt: int
    fence: int
    timeout_seconds: int
    """The machine's, MACHINE_GRACE more than the job's."""

    @property
    def execution_name(self) -> str:
        """Name of the machine's execution, at most 80 characters (Step Functions quotas).

        Step Functions refuses a name for 90 days after its execution has ended: the fence makes it another one for
        each start of an attempt.
        """
        return f"{execution_id(self.job_id, self.slot_id, self.attempt)}-f{self.fence}"


def step_of(job_id: str, slot: str, run: ActiveRun, *, timeout_seconds: int) -> Step:
    """The step of a running attempt with the job's timeout."""
    return Step(job_id, slot, run.attempt, run.fence, timeout_seconds + MACHINE_GRACE)


def write_step(step: Step) -> str:
    """Input of the machine's execution."""
    body = {
        "v": VERSION,
        "jobId": step.job_id,
        "slot": step.slot_id,
        "attempt": step.attempt,
        "fence": step.fence,
        "timeoutSeconds": step.timeout_seconds,
    }
    return json.dumps(body, separators=(",", ":"))


def read_step(message: Mapping[str, Any]) -> Step:
    """The step that a function of the machine is given; keys it does not know are ignored.

    Raises ValueError that names what is wrong.
    """
    version, numbers = message.get("v"), [message.get(name) for name in ("attempt", "fence", "timeoutSeconds")]
    if type(version) is not int or version != VERSION:
        raise ValueError(f"v is {version!r:.64}, this release reads {VERSION}")
    if not all(type(number) is int and number >= 1 for number in numbers):
        raise ValueError(f"attempt, fence and timeoutSeconds are {numbers!r:.64}, no numbers from 1")
    attempt, fence, seconds = (int(number or 0) for number in numbers)
    key = parse_execution_id(f"{message.get('jobId')}-{message.get('slot')}-{attempt:04d}")
    if key is None:
        raise ValueError(f"jobId and slot are {message.get('jobId')!r:.64} and {message.get('slot')!r:.64}, no ids")
    return Step(key.job_id, key.slot_id, attempt, fence, seconds)
