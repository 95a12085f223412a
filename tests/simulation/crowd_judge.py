"""The judge of crowds: limits, circuits, and that nobody who waits is forgotten (docs/protocol.md, 4 and 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functions.domain.circuit import Circuit
from functions.domain.definition import Priority
from functions.domain.ids import execution_id
from functions.domain.job import Job
from functions.domain.run import ActiveRun, RunState
from tests.simulation.crowd import TYPE, TYPE_LIMIT
from tests.simulation.life import Violation

if TYPE_CHECKING:
    from functions.domain.concurrency import Slot
    from functions.domain.execution import Execution
    from tests.simulation.actors import Actor, Weather
    from tests.simulation.world import World

LEFT_BEHIND = 600
"""Seconds after the last fault by which everything that waits for a slot was looked after."""
_RANKS = {Priority.HIGH: 0, Priority.NORMAL: 1, Priority.LOW: 2}


class CrowdJudge:
    """Raises Violation at the first promise that is broken."""

    world: World

    def __init__(self) -> None:
        self.lives: dict[str, Any] = {}
        self.rows: dict[str, Job] = {}
        self.circuits: dict[str, list[tuple[float, Circuit]]] = {}
        """All versions of each, with the instants of their writes."""
        self.probes: dict[str, set[str]] = {}
        """Executions that started as probes since the circuit was closed last."""
        self.holds: dict[str, dict[str, Slot | None]] = {}
        """What each execution held when it started, by name."""
        self.ended: dict[str, list[str]] = {}
        """Executions that an actor's writes ended."""
        self.writes = self.runs = 0
        self.faults = 0

    @property
    def now(self) -> float:
        return self.world.scheduler.now

    # --- rows ---

    def wrote(self, before: Job | None, row: Job, actor: Actor) -> None:
        self.writes += 1
        self.world.note(f"    {actor.key} wrote {self.world.label(row.id)} {_shown(row)}")
        self.rows[row.id] = row
        for slot, run in row.runs.items():
            old = None if before is None else before.runs.get(slot)
            if run.state is RunState.RUNNING and (old is None or old.state is not RunState.RUNNING):
                self.runs += 1
                self.holds[execution_id(row.id, slot, run.attempt)] = {name: self._slot(name) for name in run.holds}
                self._started(row, slot, run, actor)
        for slot, run in {} if before is None else before.runs.items():
            new = row.runs.get(slot)
            if run.state is RunState.RUNNING and (new is None or new.state is not RunState.RUNNING):
                self.ended.setdefault(actor.key, []).append(execution_id(row.id, slot, run.attempt))
        self._limits()

    def _limits(self) -> None:
        """No two attempts under a lease hold the same slot, and each holds one that its own limit shows."""
        held: dict[str, str] = {}
        for row in self.rows.values():
            for slot, run in row.runs.items():
                if not self._leased(run):
                    continue
                execution = execution_id(row.id, slot, run.attempt)
                for name in run.holds:
                    must(name not in held, "never more than the limit", (name, held.get(name), execution))
                    held[name] = execution
                for key, most in _limits_of(row):
                    mine = [name for name in run.holds if name.rpartition("#")[0] == key]
                    must(len(mine) == 1, "who runs holds a slot of each key", (execution, key, run.holds))
                    must(int(mine[0].rpartition("#")[2]) < most, "a job sees its own limit", (execution, mine, most))

    def _leased(self, run: ActiveRun) -> bool:
        return run.state is RunState.RUNNING and self.now < (run.lease_expires_at or 0)

    # --- circuits ---

    def changed(self, circuit: Circuit, actor: Actor) -> None:
        self.world.note(f"    {actor.key} circuit {circuit}")
        self.circuits.setdefault(circuit.key, []).append((self.now, circuit))
        if circuit.open_until is None:
            self.probes.pop(circuit.key, None)

    def _started(self, row: Job, slot: str, run: ActiveRun, actor: Actor) -> None:
        document = row.defined.document
        if "circuitBreaker" not in document:
            return
        key = f"http:{document['target']['url'].split('/')[2]}:443"
        execution = execution_id(row.id, slot, run.attempt)
        versions = self._seen(key, actor)
        if any(version.open_until is None for version in versions):
            return
        probe = any(
            version.probe is not None and version.probe.execution_id == execution and actor_time_over(version, self.now)
            for version in versions
        )
        must(probe, "an open circuit lets none through but its probe", (execution, versions))
        others = self.probes.setdefault(key, set())
        running = [each for each in others if self._runs(each)]
        must(not running, "one probe at a time", (execution, running))
        others.add(execution)

    def _seen(self, key: str, actor: Actor) -> list[Circuit]:
        """What the actor may have read: all versions in force since it began."""
        found = [Circuit(key=key)]
        for at, circuit in self.circuits.get(key, []):
            if at < actor.began:
                found.clear()
            found.append(circuit)
        return found

    def _runs(self, execution: str) -> bool:
        job_id, slot, attempt = execution[:36], execution[37:].rpartition("-")[0], int(execution[-4:])
        run = self.rows[job_id].runs.get(slot)
        return run is not None and run.attempt == attempt and self._leased(run)

    # --- the end ---

    def finished(self, actor: Actor) -> None:
        """Who came to its end without a fault has freed what its writes ended."""
        if actor.disturbed:
            return
        for execution in self.ended.pop(actor.key, ()):
            for name, held in self.holds.get(execution, {}).items():
                # A late duplicate of its hint may have taken it once more, and gives it back itself.
                left = held is not None and self._slot(name) == held and not self._runs(execution)
                must(not left, "an end frees its slot", (execution, held))

    def _slot(self, name: str) -> Slot | None:
        key, _, index = name.rpartition("#")
        return self.world.slots.rows.get(key, {}).get(int(index))

    def close(self) -> None:
        for row in self.rows.values():
            for slot, run in row.runs.items():
                due = (run.due_at or 0) + LEFT_BEHIND < self.now and not row.paused and not row.cancelled
                lost = run.state is RunState.WAITING and due and not self._outranked(row, run)
                must(not lost, "nobody who waits is forgotten", (self.world.label(row.id), slot, run))
            overdue = row.next_due is not None and row.next_due + LEFT_BEHIND < self.now and not row.paused
            must(not overdue, "nobody who waits is forgotten", (self.world.label(row.id), row))

    def _outranked(self, row: Job, run: ActiveRun) -> bool:
        """Whether others of a higher priority still wait for the same: a key that is overloaded starves the low."""
        return any(
            other.waiting is not None
            and other.waiting[1].waits_for == run.waits_for
            and _RANKS[other.priority] < _RANKS[row.priority]
            for other in self.rows.values()
        )

    # --- what only other stories are about ---

    def recorded(self, execution: Execution, actor: Actor) -> None:
        self.world.note(f"    {actor.key} recorded {execution.id} {execution.status} {execution.reason}")

    def called(self, *_: object) -> None: ...

    def sends(self, *_: object) -> None: ...

    def skipped(self, *_: object) -> None: ...

    def answered(self, *_: object) -> None: ...

    def replied(self, *_: object) -> None: ...

    def hampered(self, weather: Weather) -> None: ...

    def fault(self, name: str, label: str | None, actor: Actor | None) -> None:
        self.faults += 1


def must(fits: object, rule: str, detail: object) -> None:
    if not fits:
        raise Violation(rule, str(detail))


def actor_time_over(circuit: Circuit, now: float) -> bool:
    """Whether the opening is over by some function's clock."""
    return circuit.open_until is not None and circuit.open_until <= now + 2


def _limits_of(row: Job) -> list[tuple[str, int]]:
    document = row.defined.document
    found = []
    if "concurrencyKey" in document:
        found.append((f"key:{row.owner}|{document['concurrencyKey']}", document["maxConcurrency"]))
    if document.get("type") == TYPE:
        found.append((f"type:{TYPE}", TYPE_LIMIT))
    return found


def _shown(row: Job) -> str:
    runs = ", ".join(
        f"{slot}:{run.state}{run.attempt} due {run.due_at} lease {run.lease_expires_at} {run.waits_for or ''}"
        f"{run.deferred_for or ''} {' '.join(run.holds)}"
        for slot, run in row.runs.items()
    )
    return f"seq {row.seq} next {row.next_slot} at {row.attention_at} [{runs}]"
