"""Row: how late one-time jobs start on the local stack (`make up`), by their history and at a real receiver."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gnomon.client import Client
from gnomon.errors import UsageError
from gnomon.local.receiver import Receiver
from gnomon.stack_file import Role, Stack, find_stack_file, read_stack

JOBS = 60
"""One due each second."""
LEAD_SECONDS = 20
"""From the first creation to the first slot: all are created by then."""
PATIENCE_SECONDS = 60
"""After the last slot; whoever has not arrived by then counts as lost."""
BUDGET = 1.5
"""Seconds, of the 99th percentile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """Seconds after their slots, in the order of slots. Empty with the reason where there was no stack to measure."""

    started: Sequence[float]
    """By the history's `startedAt`."""
    arrived: Sequence[float]
    """At the receiver."""
    lost: int = 0
    skipped: str = ""


def measure_lateness() -> list[Lateness]:
    path = find_stack_file(Path.cwd(), os.environ)
    if path is None:
        return [Lateness(started=(), arrived=(), skipped="no stack is up; `make up` starts one")]
    try:
        return [lateness(read_stack(path))]
    except UsageError as error:
        return [Lateness(started=(), arrived=(), skipped=str(error))]


def lateness(stack: Stack, *, jobs: int = JOBS, lead: int = LEAD_SECONDS) -> Lateness:
    """Create the jobs, wait for all, read their histories. Raises GnomonError where the stack does not answer."""
    with ExitStack() as held:
        client = held.enter_context(Client(stack.api_url, stack.tokens[Role.SCHEDULER.value]))
        receiver = held.enter_context(Receiver(stack.webhook_secret or ""))
        first = int(time.time()) + lead
        slots = {_create(client, receiver.url, first + index): first + index for index in range(jobs)}
        _until(lambda: len({each.job_id for each in receiver.deliveries} & slots.keys()) == jobs, max(slots.values()))
        arrivals: dict[str, float] = {}
        for each in receiver.deliveries:
            arrivals.setdefault(each.job_id, each.at)
        time.sleep(1)  # The last one's end is written after its call.
        starts = {job_id: _started(client, job_id) for job_id in slots}
        for job_id in slots:
            client.delete_job(job_id)
    return summary(slots, starts, arrivals)


def summary(slots: Mapping[str, int], starts: Mapping[str, float | None], arrivals: Mapping[str, float]) -> Lateness:
    """By job id: its slot, when it started if it did, when its call arrived."""
    ran = [(slot, starts[job_id], arrivals[job_id]) for job_id, slot in slots.items() if job_id in arrivals]
    ran = [each for each in ran if each[1] is not None]
    return Lateness(
        started=[start - slot for slot, start, _ in ran if start is not None],
        arrived=[arrival - slot for slot, _, arrival in ran],
        lost=len(slots) - len(ran),
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of all is not above (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def _create(client: Client, url: str, slot: int) -> str:
    job: Any = client.create_job(
        {
            "name": "lateness",
            "schedule": {"type": "once", "at": datetime.fromtimestamp(slot, UTC).isoformat()},
            "target": {"type": "http", "url": f"{url}/lateness"},
            "payload": {"text": "x" * 189},
        }
    )
    return str(job["id"])


def _started(client: Client, job_id: str) -> float | None:
    for each in client.history(job_id):
        execution: Any = each
        if execution.get("startedAt"):
            return datetime.fromisoformat(execution["startedAt"]).timestamp()
    return None


def _until(done: Callable[[], bool], last: int) -> None:
    while not done() and time.time() < last + PATIENCE_SECONDS:
        time.sleep(0.25)
