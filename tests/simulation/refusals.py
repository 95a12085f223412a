"""When a caller may be refused (docs/protocol.md, 1.5), and a row in a line of a trace."""

from __future__ import annotations

from functions.domain.job import Job
from functions.domain.run import Outcome, RunState
from tests.simulation.life import Life


def refuses(kind: str, row: Job, life: Life) -> bool:
    """Whether a request of this kind is a conflict for a job in this state."""
    # The policy of that state: a change in the same instant may have brought another.
    document = row.definition.document if row.definition is not None else life.period.document
    active = len(row.runs)
    full = active >= 10 or document.get("overlapPolicy", "skip") != "allow"
    if kind in ("pause", "resume"):
        return row.cancelled
    if kind in ("change", "touch", "same", "respread"):
        return row.cancelled or row.last_slot is not None or row.next_slot is None
    if kind == "execute":
        return row.cancelled or (active > 0 and full)
    if kind == "retry":
        waits = any(run.state is RunState.WAITING and run.attempt > 0 for run in row.runs.values())
        last = row.last_run
        failed = last is not None and last.outcome is Outcome.PERMANENTLY_FAILED
        return row.cancelled or not failed or (not waits and active > 0)
    if kind == "cancel":
        return not row.runs and row.next_slot is None
    return kind == "cancel execution"


def shown(row: Job) -> str:
    runs = {slot: f"{run.state}{run.attempt} {run.due_at or run.lease_expires_at}" for slot, run in row.runs.items()}
    flags = "".join(word[0] for word in ("paused", "cancelled") if getattr(row, word))
    return (
        f"seq {row.seq} next {row.next_slot} last {row.last_slot} runs {runs} gap {row.gap} att {row.attention_at} "
        f"wakes {row.wakes} {flags}"
    )
