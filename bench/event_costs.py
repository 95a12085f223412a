"""What a job's lifecycle events cost: counted on the real code, from its rows to the calls of who tells them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from bench.function_time import CALL_SECONDS
from bench.prices import EVENTS, LAMBDA_GB_SECOND, LAMBDA_REQUEST, MILLION, READ_UNIT
from functions.domain.commands import new_job
from functions.domain.definition import Definition
from functions.domain.dispatch import decide_hint
from functions.domain.ending import judge
from functions.domain.event import Change
from functions.domain.events import events_of, in_history
from functions.domain.execution import ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.ids import slot_id
from functions.domain.instants import rfc3339
from functions.domain.job_type import TypeConfig
from functions.domain.lean import decide_lean_end
from functions.domain.outcome import TargetAnswer

if TYPE_CHECKING:
    from functions.domain.job import Job

NOW = 1_800_000_000
MEMORY_GB = 0.5
"""Of the function `lifecycle`."""


class Told(NamedTuple):
    """What a one-time job that succeeds at once tells."""

    writes: int
    """Of its row: records of the stream."""
    events: int
    reads: int
    """Of history, for how an attempt ended."""

    def dollars(self, fill: int) -> float:
        """For a million jobs, where an invocation gets so many records."""
        invocations = self.writes / fill
        # A call to the bus carries an event of each job of the batch, ten at most; reads are one by one.
        waits = CALL_SECONDS * (self.events / min(fill, 10) + self.reads)
        return MILLION * (
            EVENTS.of(self.events)
            + READ_UNIT.of(self.reads)
            + LAMBDA_REQUEST.of(invocations)
            + LAMBDA_GB_SECOND.of(MEMORY_GB * waits)
        )


def told_of_a_success() -> Told:
    """Counted: a job is made, starts and ends; each write is told."""
    rows: list[Job] = []
    document = {
        "name": "invoice",
        "schedule": {"type": "once", "at": rfc3339(NOW)},
        "target": {"type": "http", "url": "https://example.com/hook"},
    }
    definition = Definition.read(document, json.dumps({}), job_id="job", created_at=NOW).under(TypeConfig())
    rows.append(new_job("job", definition, owner="o", created_by="c", enabled=True, now=NOW, write_id="w1"))
    slot = slot_id(NOW)
    start = decide_hint(rows[0], Hint("job", slot, 1), now=NOW, write_id="w2")
    rows.append(replace(start.job, seq=2))  # type: ignore[union-attr]  # due now: it starts
    answer = TargetAnswer(status=ExecutionStatus.COMPLETED)
    execution = judge(rows[1], slot, answer, before=(), now=NOW + 1, write_id="w3", uniform=lambda low, _: low)
    end = decide_lean_end(rows[1], execution, now=NOW + 1, write_id="w3")
    rows.append(replace(end.job, seq=3))  # type: ignore[union-attr]  # its own leave: it ends
    changes = [Change(before=old, after=new, at=NOW) for old, new in zip([None, *rows], rows, strict=False)]
    return Told(
        writes=len(changes),
        events=sum(len(events_of(change, {})) for change in changes),
        reads=sum(len(in_history(change)) for change in changes),
    )
