"""Whether a wait that is over is noticed in time: `upstreamTimeoutSeconds` by docs/workflows.md, of the rows alone.

The plans let nobody's time be over before the last fault was repaired, so nothing explains a delay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from functions.domain.ids import slot_instant
from functions.domain.job import Job
from functions.domain.run import RunState
from functions.domain.upstream import ABSORBED
from tests.simulation.life import Violation

if TYPE_CHECKING:
    from tests.simulation.graph_judge import GraphJudge

NOTICED = 160
"""Seconds: the sweep looks at what was due for half a minute, once a minute, and somebody then at its message."""


class Patience:
    def __init__(self, judge: GraphJudge) -> None:
        self._judge = judge
        self._documents: dict[str, Mapping[str, Any]] = {}
        self._children: dict[str, set[str]] = {}
        self._over: dict[str, float] = {}
        """Since when a wait is over, or when it will be, by the job that waits."""

    def wrote(self, row: Job) -> None:
        if row.definition is not None:
            self._documents[row.id] = row.definition.document
            for parent in _parents(row.definition.document):
                self._children.setdefault(parent, set()).add(row.id)
        for one in {row.id, *self._children.get(row.id, ())}:
            self._watch(one)

    def closed(self) -> None:
        for job_id in self._over:
            self._in_time(job_id)

    def _watch(self, job_id: str) -> None:
        row, now = self._judge.rows.get(job_id), self._judge.now
        until = None if row is None else self._until(row)
        if job_id in self._over:
            self._in_time(job_id)
        if until is None:
            self._over.pop(job_id, None)
            return
        known = self._over.get(job_id, now)
        self._over[job_id] = until if until > now else min(known, now) if known <= now else now

    def _in_time(self, job_id: str) -> None:
        late = self._judge.now - self._over[job_id]
        if late > NOTICED:
            label, row = self._judge.label(job_id), self._judge.rows[job_id]
            raise Violation("a wait that is over is noticed in time", f"{label} {late} {row.upstream}")

    def _until(self, row: Job) -> float | None:
        """When the wait of the job is over, as things are; None while it does not wait, or as long as it takes."""
        up, document = row.upstream, self._documents[row.id]
        if up is None or up.look_at is None or up.since is None or not _is_free(row):
            return None
        missing = [
            self._judge.rows[parent]
            for parent, mark in zip(_parents(document), up.marks, strict=True)
            if parent in self._judge.rows and mark != ABSORBED and len(self._judge.ends.get(parent, ())) <= mark
        ]
        missing = [one for one in missing if not one.is_over]
        if not missing or any(_waits(one) for one in missing):
            return None
        return max([up.since] + [_begins(one) for one in missing]) + document.get("upstreamTimeoutSeconds", 7 * 86_400)


def _parents(document: Mapping[str, Any]) -> list[str]:
    return [edge["jobId"] for edge in document.get("dependsOn", ())]


def _is_free(row: Job) -> bool:
    return not row.runs and not row.paused and not row.cancelled and row.deleted_at is None


def _waits(row: Job) -> bool:
    up = row.upstream
    return up is not None and up.look_at is not None and up.since is not None and _is_free(row)


def _begins(row: Job) -> int:
    """When what is to come of the job begins, or began, at the latest; 0 for nothing."""
    found = [0]
    if row.paused:
        return 0
    if row.next_slot is not None:
        found.append(row.next_slot + row.spread)
    for slot, run in row.runs.items():
        found.append(slot_instant(slot))
        if run.state is RunState.WAITING and run.attempt == 0:
            found.append(run.due_at or 0)
        if run.state is RunState.RUNNING and run.attempt == 1:
            found.append(int(run.started_at or 0))
        if run.approval is not None:
            found.append(run.approval.at)
    return max(found)
