"""How many executions that share a key run at the same time (docs/protocol.md section 5).

A key has slots; who runs holds one. All instants are epoch seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from functions.domain.decision import Write, with_run
from functions.domain.definition import Definition, Priority
from functions.domain.ids import is_scheduled, parse_execution_id, slot_instant
from functions.domain.job import Job
from functions.domain.run import ActiveRun, RunState

GRANT_SECONDS = 60
"""How long a permit is kept for a run whose turn it is; then it may be given to another."""
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


def key_name(owner: str, key: str) -> str:
    """What a concurrency key of an owner is called where runs wait for it."""
    return f"key:{owner}|{key}"


def type_name(job_type: str) -> str:
    """What the limit of a job type is called where runs wait for it."""
    return f"type:{job_type}"


def limits_of(job: Job) -> tuple[Limit, ...]:
    """The limits of the job's runs, in the order in which they are asked: its key's, its type's."""
    definition, limits = job.defined, []
    if definition.concurrency is not None:
        limits.append(Limit(key_name(job.owner, definition.concurrency.key), definition.concurrency.most))
    if definition.bulkhead is not None:
        limits.append(Limit(type_name(str(definition.type)), definition.bulkhead))
    return tuple(limits)


def keys_of(owner: str, definition: Definition) -> frozenset[str]:
    """The keys whose permits the owner's job may need. Whether its type has a limit, the type's configuration says."""
    keys = set()
    if definition.concurrency is not None:
        keys.add(key_name(owner, definition.concurrency.key))
    if definition.type is not None:
        keys.add(type_name(definition.type))
    return frozenset(keys)


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


def with_holds(write: Write, slot: str, holds: tuple[str, ...], *, probes: str | None = None) -> Write:
    """The start, with the slots that its attempt holds, and the key of the circuit whose probe it is."""
    if not holds and probes is None:
        return write
    run = replace(write.job.runs[slot], holds=holds, probes=probes)
    return replace(write, job=with_run(write.job, slot, run))


def is_unused(job: Job | None, execution: str, held: str) -> bool:
    """Whether the row shows that the execution will not start on this slot: it has started on others, or is over."""
    key = parse_execution_id(execution)
    if job is None or key is None:
        return False
    run, call = job.runs.get(key.slot_id), job.cancelled_call(key.slot_id, key.attempt)
    if call is not None and held in call.holds:
        return False  # it was cancelled, and its call goes on
    if run is None:
        return not is_scheduled(key.slot_id) or (
            job.last_slot is not None and slot_instant(key.slot_id) <= job.last_slot
        )
    return run.attempt > key.attempt or (run.attempt == key.attempt and held not in run.holds)


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
