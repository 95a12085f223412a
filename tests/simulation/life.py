"""What the judge knows of one job: its versions, its slots, its faults."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from functions.domain.execution import Execution, SkippedSlots
from functions.domain.ids import slot_id
from functions.domain.job import Job
from functions.domain.run import ActiveRun, RunState
from tests.simulation.kinds import rules_of
from tests.simulation.slots import slots_between
from tests.telling import Heard

if TYPE_CHECKING:
    from tests.simulation.actors import Actor

HORIZON = 5 * 86_400
"""How far beyond the creation of a job its slots are worked out."""


class Violation(BaseException):
    """A promise was broken. `rule` names it."""

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(rule, detail)
        self.rule, self.detail = rule, detail

    def __str__(self) -> str:
        return f"{self.rule}: {self.detail}"


class Due(NamedTuple):
    """Something that waits for its hint."""

    slot_id: str
    attempt: int
    due_at: int


class Since(NamedTuple):
    due: float
    """Since when it could have been started."""
    known: float
    """Since when it was known that it would be: faults before have nothing to do with it."""


@dataclass
class Period:
    """A schedule in force. The change to it was decided in [earliest, latest] by the changer's clock."""

    document: Mapping[str, Any]
    anchor: int
    earliest: float
    latest: float
    slots: list[int]
    spread: int = 0
    """Seconds after its slot that each run is due."""

    def between(self, first: int, last: int) -> list[int]:
        """Slots in [first, last]."""
        return self.slots[bisect.bisect_left(self.slots, first) : bisect.bisect_right(self.slots, last)]

    def after(self, instant: float) -> int | None:
        """The first slot strictly after an instant."""
        place = bisect.bisect_right(self.slots, instant)
        return self.slots[place] if place < len(self.slots) else None


@dataclass
class Wake:
    at: float
    keys: set[tuple[str, int]]
    until: float
    """When the sweep looks again at the earliest."""
    backoff: int
    disturbed: bool
    """Whether its sweep met a fault, so that it wrote long after it had read its clock."""


@dataclass
class Life:
    label: str
    row: Job
    periods: list[Period] = field(default_factory=list)
    history: dict[tuple[str, int], Execution] = field(default_factory=dict)
    recorded_at: dict[tuple[str, int], float] = field(default_factory=dict)
    """When each came into history, by the world's clock."""
    gaps: dict[int, SkippedSlots] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)
    """Slot id to its first start."""
    attempts: set[tuple[str, int]] = field(default_factory=set)
    limits: dict[str, int] = field(default_factory=dict)
    forced: set[tuple[str, int]] = field(default_factory=set)
    """Attempts that a caller asked for."""
    called: set[tuple[str, int]] = field(default_factory=set)
    succeeded: set[tuple[str, int]] = field(default_factory=set)
    leases: dict[tuple[str, int], int] = field(default_factory=dict)
    since: dict[Due, Since] = field(default_factory=dict)
    faults: list[float] = field(default_factory=list)
    wakes: list[Wake] = field(default_factory=list)
    versions: list[tuple[float, Job]] = field(default_factory=list)
    kept: dict[tuple[str, int], Execution] = field(default_factory=dict)
    """Executions that ended in the row alone."""
    ended: dict[str, Execution] = field(default_factory=dict)
    """Slot to the final execution that the row followed or will."""
    quarantined: bool = False
    heard: Heard = field(default_factory=Heard)
    """What its writes told the world."""

    @property
    def period(self) -> Period:
        return self.periods[-1]

    def skipped(self, slot: int) -> bool:
        """Whether history, or the row's outbox, says that the slot was skipped."""
        gaps = [(gap.first, gap.last) for gap in self.gaps.values()]
        if self.row.gap is not None:
            gaps.append((self.row.gap.first, self.row.gap.last))
        return any(first <= slot <= last for first, last in gaps)

    def is_slot(self, slot: int) -> bool:
        return any(period.between(slot, slot) for period in self.periods)


def new_period(document: Mapping[str, Any], anchor: int, earliest: float, latest: float, *, spread: int) -> Period:
    begins = min(anchor, int(earliest)) - 3_600
    slots = slots_between(document, anchor, begins, begins + HORIZON)
    return Period(document, anchor, earliest, latest, slots, spread)


def is_wake(before: Job | None, row: Job, actor: Actor) -> bool:
    """Whether this write of the sweep woke the row: it counted that, or moved attention on, and nothing that waits
    there. Attention stays where a lease that is over, and not yet long enough for the sweep, holds it."""
    if before is None or actor.kind != "sweep" or not row.wakes:
        return False
    same = (before.runs.keys(), before.next_slot, before.silence) == (row.runs.keys(), row.next_slot, row.silence)
    return same and (row.wakes > before.wakes or (row.attention_at or 0) > (before.attention_at or 0))


def holds(row: Job, run: ActiveRun) -> bool:
    return row.paused and not run.manual


def stands(row: Job, run: ActiveRun) -> bool:
    """Whether the run waits for as long as the pause lasts."""
    return run.state is RunState.WAITING and holds(row, run)


def is_active(run: ActiveRun) -> bool:
    return run.state is not RunState.QUEUED


def next_waits(row: Job) -> bool:
    """A missed slot of `run_all` waits for the run before it (docs/architecture.md)."""
    return (
        row.next_slot is not None
        and row.catch_up_to is not None
        and row.next_slot <= row.catch_up_to
        and any(is_active(run) for run in row.runs.values())
    )


def startable(row: Job) -> set[Due]:
    """What a hint is needed for."""
    if row.cancelled:
        return set()
    found = {
        Due(slot, run.attempt + 1, run.due_at or 0)
        for slot, run in row.runs.items()
        if run.state is RunState.WAITING and not holds(row, run)
    }
    if row.next_slot is not None and not row.paused and not next_waits(row):
        found.add(Due(slot_id(row.next_slot), 1, row.next_slot + row.spread))
    return found


def bounds(row: Job) -> list[int]:
    """docs/protocol.md 1.2: the instants by which somebody must look at the row, the gap's left out."""
    leases = [run.lease_expires_at or 0 for run in row.runs.values() if run.state is RunState.RUNNING]
    return leases + [due.due_at + 30 for due in startable(row)]


def delays(document: Mapping[str, Any], retry: int, retry_after: int | None) -> tuple[float, float]:
    """docs/architecture.md: the least and the most seconds before retry `retry`."""
    config = rules_of(document)
    initial, cap = config.get("initialDelaySeconds", 10), config.get("maxDelaySeconds", 300)
    strategy, jitter = config.get("backoffStrategy", "exponential"), config.get("jitter", 0.2)
    base = {"fixed": initial, "linear": initial * retry}.get(
        strategy, initial * config.get("multiplier", 2.0) ** (retry - 1)
    )
    base = min(base, cap)

    def clamped(factor: float) -> float:
        return max(1.0, min(max(base * factor, retry_after or 0), cap))

    return clamped(1 - jitter), math.ceil(clamped(1 + jitter))


def decided(actor: Actor, now: float) -> tuple[float, float]:
    """Earliest and latest instant, by its own clock, at which this actor may have read the time."""
    return actor.began + actor.skew, now + actor.skew
