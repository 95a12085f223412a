"""Who may act on an attempt when: the part of the judge of workers and callbacks that is about leases and deadlines.

Written from docs/protocol.md, section 7, with arithmetic of its own. Instants are the world's; a function's clock is
`skew` ahead of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from functions.domain.execution import Execution, ExecutionStatus
from functions.domain.run import ActiveRun
from tests.simulation.life import Violation

if TYPE_CHECKING:
    from functions.domain.claims import Holder
    from tests.simulation.actors import Actor
    from tests.simulation.world import World

SKEW = 2
"""Seconds that two clocks differ by."""
MARGIN, GRACE, LEASE, CALL, REPORT = 15, 5, 90, 60, 2
SWEPT = GRACE + 60 + 15
"""Seconds from the end of a lease to the end of its attempt, by a sweep that meets no fault."""
LONGEST_STALL = 400


def must(holds: object, rule: str, detail: object) -> None:
    if not holds:
        raise Violation(rule, str(detail))


@dataclass
class Attempt:
    """One start of a run."""

    run: ActiveRun
    token: str | None = None
    versions: list[tuple[float, ActiveRun | None]] = field(default_factory=list)
    """The run as each write left it; None once it was over."""

    @property
    def last(self) -> ActiveRun:
        """The run as the last write left it that left it running."""
        return next((run for _, run in reversed(self.versions) if run is not None), self.run)

    @property
    def is_over(self) -> bool:
        return self.versions[-1][1] is None

    def since(self, began: float) -> list[ActiveRun | None]:
        """What may have been read since then."""
        before = [run for at, run in self.versions if at <= began][-1:]
        return before + [run for at, run in self.versions if at > began]


def held_until(run: ActiveRun) -> int:
    """When its owner is refused, by the clock of whoever refuses it."""
    lease = run.lease_expires_at or 0
    return lease if run.deadline_at is None else min(lease, run.deadline_at + REPORT)


def is_for_lateness(execution: Execution) -> bool:
    """Whether somebody else ended the attempt because it was late."""
    error = execution.error
    return error is not None and (error.code == "WORKER_LOST" or error.message.startswith("no report"))


class Holds:
    """Of all attempts of a story, by execution id."""

    world: World

    def __init__(self) -> None:
        self.attempts: dict[str, Attempt] = {}
        self.accepted: set[str] = set()
        """Whose targets have accepted."""
        self.faults: list[tuple[float, str | None, str]] = []
        """When, the label of the job that they met (None where that could be any), and the kind of who met them."""

    @property
    def now(self) -> float:
        return self.world.scheduler.now

    def started(self, key: str, run: ActiveRun, timeout: int) -> None:
        """A call has a lease of its own, and no permit is taken from one that may still act."""
        if run.worker_id is None:
            most = (run.started_at or 0.0) + 1 + min(timeout, CALL) + MARGIN
            must((run.lease_expires_at or 0) <= most, "a start holds for its call", (key, run.lease_expires_at, most))
        for name in run.holds:
            for other in self._on(name, but=key):
                # Its owner's clock may be behind by half of what two clocks differ by.
                must(held_until(other) + SKEW / 2 <= self.now, "no permit is taken from its owner", (key, name, other))

    def prolonged(self, key: str, old: ActiveRun, new: ActiveRun, actor: Actor, ended: Execution | None) -> None:
        lease, deadline = new.lease_expires_at or 0, new.deadline_at or 0
        if actor.kind == "consumer":
            must(key in self.accepted, "only an acceptance gives a target time", (key, actor.key))
            must(lease == deadline + MARGIN, "an acceptance lasts until the deadline", (key, lease, deadline))
        else:
            must(actor.kind == "worker", "its owner alone keeps an execution", (key, actor.key))
        must((old.worker_id, old.fence) == (new.worker_id, new.fence), "what prolongs moves the lease only", key)
        must(lease > (old.lease_expires_at or 0), "a lease is never shortened", (key, old, new))
        must(lease <= deadline + MARGIN, "nothing is held beyond its deadline", (key, lease, deadline))
        must(
            (old.lease_expires_at or 0) > actor.began + actor.skew, "a lease that is over stays over", (key, actor.key)
        )
        lost = ended is not None and ended.error is not None and ended.error.code == "WORKER_LOST"
        must(not lost, "what is lost is not prolonged", (key, ended))
        for name in new.holds:
            later = [other for other in self._on(name, but=key) if (other.started_at or 0) > (new.started_at or 0)]
            must(not later, "what lost its permit is not prolonged", (key, name, later))

    def _on(self, name: str, *, but: str) -> list[ActiveRun]:
        """The other attempts whose rows say that they run with this permit."""
        others = [attempt for key, attempt in self.attempts.items() if key != but and not attempt.is_over]
        return [attempt.last for attempt in others if name in attempt.last.holds]

    # --- what an owner was answered ---

    def heard(self, key: str, holder: Holder, began: float, *, skew: float, refused: bool) -> None:
        """A heartbeat or progress, or an execution that a poll was given: every one of them has the same answer."""
        if refused:
            must(not self.in_time(key, holder, began, skew), "what comes in time is taken", (key, holder))
        else:
            must(self._may_count(key, holder, began, skew), "what counts was held", (key, holder))

    def in_time(self, key: str, holder: Holder, began: float, skew: float) -> bool:
        """Whether the holder held it from then to now, by the clock of the function that was asked."""
        attempt = self.attempts.get(key)
        if attempt is None:
            return False
        runs = attempt.since(began)
        held = bool(runs) and all(run is not None and holder.holds(run) for run in runs)
        return held and self.now + skew < held_until(attempt.last)

    def _may_count(self, key: str, holder: Holder, began: float, skew: float) -> bool:
        """Whether the holder held it at some instant since then."""
        attempt = self.attempts.get(key)
        runs = [] if attempt is None else attempt.since(began)
        return any(run is not None and holder.holds(run) and began + skew < held_until(run) for run in runs)

    # --- how it ended ---

    def ended(self, key: str, execution: Execution, actor: Actor) -> None:
        attempt = self.attempts[key]
        run = attempt.last
        if actor.kind == "worker" and not is_for_lateness(execution):
            reads = [one for one in attempt.since(actor.began) if one is not None]
            held = any(actor.began + actor.skew < held_until(one) for one in reads)
            must(held or execution.status is ExecutionStatus.CANCELLED, "a report counts while it is held", (key, run))
        if is_for_lateness(execution):
            late = self.now + SKEW / 2 >= min(
                (run.lease_expires_at or 0) + GRACE,
                (run.deadline_at or run.lease_expires_at or 0) + REPORT + SKEW,
            )
            must(late, "nobody ends for lateness what a report may come for", (key, self.now, run))
        if execution.error is not None and execution.error.code == "WORKER_LOST" and run.worker_id is None:
            label = self.world.label(key[:36])
            since = (run.started_at or 0.0) - 6
            explained = any(at >= since and whose in (None, label) for at, whose, _ in self.faults)
            must(explained, "what is called is lost by a fault only", (key, run))
        self.is_swept(key)

    def is_swept(self, key: str) -> None:
        """Whoever is silent beyond its lease is ended by the next sweep, unless that met a fault."""
        lease = self.attempts[key].last.lease_expires_at or 0
        if self.now <= lease + SWEPT:
            return
        explained = any(at >= lease - LONGEST_STALL and kind == "sweep" for at, _, kind in self.faults)
        must(explained, "a lease that is over ends its attempt within two minutes", (key, self.now - lease))
