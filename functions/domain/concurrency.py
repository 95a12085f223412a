"""How many executions that share a key run at the same time (docs/protocol.md section 5).

A key has slots; who runs holds one. All instants are epoch seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from functions.domain.decision import Write, with_run
from functions.domain.definition import Priority
from functions.domain.ids import execution_id, is_scheduled, parse_execution_id, slot_instant
from functions.domain.job import Job
from functions.domain.run import ActiveRun, RunState

GRANT_SECONDS = 60
"""How long a slot is kept for a waiting run whose hint is under way; then it may be given to another."""
HOLD_MARGIN = 20
"""Seconds beyond an attempt's timeout after which its slot is looked into: its lease, and the sweep's grace."""
UNPROVEN_SECONDS = 30
"""Age of a slot at which the sweep looks whether its holder runs."""

PRIORITY_SECONDS = 3_600
"""How much longer than one of the priority above a run must have waited to come before it."""
_BEHIND = {Priority.HIGH: 0, Priority.NORMAL: PRIORITY_SECONDS, Priority.LOW: 2 * PRIORITY_SECONDS}
_KEYS = ("key:", "type:")


class Limit(NamedTuple):
    """At most `most` executions hold the slots 0 … most - 1 of `key`."""

    key: str
    """`key:<owner>|<concurrency key>` or `type:<job type>`."""
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One slot that is taken."""

    index: int
    holder: str
    """Execution id. Whether it runs, its job's row says."""
    mark: str
    """Of the last who took or renewed it."""
    at: int
    until: int
    """When anybody may look whether the holder runs."""


def limits_of(job: Job) -> tuple[Limit, ...]:
    """The limits of the job's runs, in the order in which they are asked: its key's, its type's."""
    definition, limits = job.defined, []
    if definition.concurrency is not None:
        limits.append(Limit(f"key:{job.owner}|{definition.concurrency.key}", definition.concurrency.most))
    if definition.bulkhead is not None:
        limits.append(Limit(f"type:{definition.type}", definition.bulkhead))
    return tuple(limits)


def place_of(priority: Priority, since: int) -> str:
    """Where a job stands among those that wait for the same: by priority, then who has waited longest.

    A place bears no comparison with the priority alone, so that who waits long enough comes first in the end. The
    releases before ordered by it: their places, `0#` to `2#`, are all before these, or beside them.
    """
    return f"2#{since + _BEHIND[priority]:010d}"


def is_limit(waits_for: str | None) -> bool:
    """Whether a run waits for a slot."""
    return waits_for is not None and waits_for.startswith(_KEYS)


def hold(key: str, index: int) -> str:
    """How a run's entry in its row names a slot that it holds."""
    return f"{key}#{index}"


def read_hold(held: str) -> tuple[str, int]:
    key, _, index = held.rpartition("#")
    return key, int(index)


def with_holds(write: Write, slot: str, holds: tuple[str, ...]) -> Write:
    """The start, with the slots that its attempt holds."""
    if not holds:
        return write
    run = replace(write.job.runs[slot], holds=holds)
    return replace(write, job=with_run(write.job, slot, run))


def is_unused(job: Job | None, execution: str, held: str) -> bool:
    """Whether the row shows that the execution will not start on this slot: it has started on others, or is over."""
    key = parse_execution_id(execution)
    if job is None or key is None:
        return False
    run = job.runs.get(key.slot_id)
    if run is None:
        return not is_scheduled(key.slot_id) or (
            job.last_slot is not None and slot_instant(key.slot_id) <= job.last_slot
        )
    return run.attempt > key.attempt or (run.attempt == key.attempt and held not in run.holds)


class Ended(NamedTuple):
    """An attempt that runs, or waits, no more."""

    execution_id: str
    holds: tuple[str, ...]
    waited_for: str | None
    """The key that may have granted it a slot."""


def ended(before: Job, after: Job) -> tuple[Ended, ...]:
    """The attempts that a write ended which held slots, or waited for one."""
    found = []
    for slot, run in before.runs.items():
        waited_for = run.waits_for if run.state is RunState.WAITING and is_limit(run.waits_for) else None
        if not run.holds and waited_for is None:
            continue
        now = after.runs.get(slot)
        if (
            now is None
            or now.verdict is not None
            or (run.holds and (now.state is not RunState.RUNNING or now.attempt != run.attempt))
        ):
            found.append(Ended(execution_id(before.id, slot, run.current_attempt), run.holds, waited_for))
    return tuple(found)


def waits_of(job: Job) -> dict[str, list[tuple[str, ActiveRun]]]:
    """The job's runs that wait for slots, by what they wait for, each oldest first; none that a pause holds."""
    waiting: dict[str, list[tuple[str, ActiveRun]]] = {}
    for slot, run in sorted(job.runs.items(), key=lambda entry: (entry[1].deferred_at or 0, entry[0])):
        if run.state is RunState.WAITING and is_limit(run.waits_for) and not job.holds(run):
            waiting.setdefault(str(run.waits_for), []).append((slot, run))
    return waiting


def limit_for(job: Job, key: str) -> int | None:
    """How many slots the job sees of `key`; None where its definition knows the key no more, or cannot be read."""
    return None if job.definition is None else dict(limits_of(job)).get(key)
