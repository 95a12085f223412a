"""Following a job: what is new since the last look, and when there is nothing left to see."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gnomon.display import fields

if TYPE_CHECKING:
    from gnomon.client import Client
    from gnomon.shapes import Gate, HistoryEntry, Job

_ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "SKIPPED"})
_MANUAL_RUN = re.compile(r"-[0-9]{10}m[a-z2-7]{8}$")
"""How the id of a run ends that somebody asked for: it starts although the job is paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at a job."""

    job: Job
    executions: list[HistoryEntry]
    """Oldest first, at most the newest `shown`."""

    @property
    def at_rest(self) -> bool:
        """Whether nothing more happens by itself: the job ended, or is paused with nothing running."""
        status = self.job.get("status")
        if status in _ENDED:
            return True
        return status == "PAUSED" and not any(_goes_on(execution) for execution in self.executions)


def _goes_on(execution: HistoryEntry) -> bool:
    """Whether a pause does not hold the attempt: it runs, or was asked for by hand."""
    status = execution.get("status")
    return status == "RUNNING" or (status == "QUEUED" and _MANUAL_RUN.search(execution.get("runId", "")) is not None)


def look(client: Client, job_id: str, *, shown: int = 20) -> Look:
    """Read the job, then its history: a job at rest has all of it by then."""
    job = client.get_job(job_id)
    newest = list(itertools.islice(client.history(job_id, page_size=shown), shown))
    return Look(job=job, executions=newest[::-1])


@dataclass(slots=True)
class ChangeLog:
    """Remembers what was shown, so that each change is told once."""

    _seen: dict[str, tuple[object, ...]] = field(default_factory=dict)
    _gates: set[str] = field(default_factory=set)

    def new_gates(self, job: Job) -> list[Gate]:
        """The runs that wait for approval and were not told of; one that waits again later is told again."""
        gates = job.get("gates", [])
        new = [gate for gate in gates if f"{gate['runId']} {gate['decideBy']}" not in self._gates]
        self._gates.update(f"{gate['runId']} {gate['decideBy']}" for gate in new)
        return new

    def changes(self, executions: list[HistoryEntry]) -> list[HistoryEntry]:
        """Those that are new, or whose status, extent or progress changed since they were told."""
        changed = []
        for execution in executions:
            entry = fields(execution)
            key = entry.get("id") or f"{entry.get('from')}"
            progress = entry.get("progress")
            told = (progress["percent"], progress["message"]) if progress else None
            approval = entry.get("approval")
            decided = approval["decision"] if approval else None
            state = (entry.get("status"), entry.get("final"), entry.get("count"), told, decided)
            if self._seen.get(key) != state:
                self._seen[key] = state
                changed.append(execution)
        return changed
