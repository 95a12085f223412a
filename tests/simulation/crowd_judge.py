"""The judge of crowds: limits, circuits, and that nobody who waits is forgotten (docs/protocol.md, 4 and 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functions.domain.circuit import Circuit
from functions.domain.definition import Priority
from functions.domain.ids import execution_id
from functions.domain.job import Job
from functions.domain.run import ActiveRun, RunState
from tests.simulation.crowd import TYPE, TYPE_LIMIT, StageRules
from tests.simulation.life import Violation

if TYPE_CHECKING:
    from functions.domain.concurrency import Slot
    from functions.domain.execution import Execution
    from functions.domain.outcome import Invocation
    from tests.simulation.actors import Actor, Weather
    from tests.simulation.world import World

LEFT_BEHIND = 600
"""Seconds after the last fault by which everything that waits for a slot was looked after."""
IDLE = 2 * 60 + 30 + 10
"""Seconds for which a permit may be kept for a run that does not start: its hint is sent again within 90 s, and the
permit passed on a minute later."""
_RANKS = {Priority.HIGH: 0, Priority.NORMAL: 1, Priority.LOW: 2}


class CrowdJudge:
    """Raises Violation at the first promise that is broken."""

    world: World

    def __init__(self, rules: StageRules) -> None:
        self.rules = rules
        self.lives: dict[str, Any] = {}
        self.rows: dict[str, Job] = {}
        self.circuits: dict[str, list[tuple[float, Circuit]]] = {}
        """All versions of each, with the instants of their writes."""
        self.probes: dict[str, set[str]] = {}
        """Executions that started as probes since the circuit was closed last."""
        self.holds: dict[str, dict[str, Slot | None]] = {}
        """What each execution held when it started, by name."""
        self.limits: dict[str, list[tuple[str, int]]] = {}
        """The limits that counted for each execution when it started."""
        self.leases: dict[str, int] = {}
        """Of each execution, as its row said last."""
        self.over: set[str] = set()
        """Executions that history has: their circuits may have been told before their rows follow."""
        self.calls: dict[str, str] = {}
        """Calls under way: execution to the key of the actor that makes it."""
        self.started_as: dict[str, tuple[str, int]] = {}
        """Probes: execution to its circuit, with the `seq` that it had when the probe started."""
        self.idle: dict[str, tuple[str, float]] = {}
        """By name of a permit: who has it without running on it, and since when somebody waits for it."""
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
        self._attention(row)
        self._idle()
        for slot, run in row.runs.items():
            old = None if before is None else before.runs.get(slot)
            execution = execution_id(row.id, slot, run.attempt)
            if run.state is RunState.RUNNING:
                self.leases[execution] = run.lease_expires_at or 0
            if run.state is RunState.RUNNING and (old is None or old.state is not RunState.RUNNING):
                self.runs += 1
                self.holds[execution] = {name: self._slot(name) for name in run.holds}
                self.limits[execution] = _limits_of(row)
                if run.probes is not None:
                    self.started_as[execution] = (run.probes, self.world.circuits.rows[run.probes].seq)
                self._started(row, slot, run, actor)
        for slot, run in {} if before is None else row.runs.items():
            self._held_back(before or row, row, slot, run, actor)
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
                for key, most in self.limits[execution]:
                    mine = [name for name in run.holds if name.rpartition("#")[0] == key]
                    must(len(mine) == 1, "who runs holds a slot of each key", (execution, key, run.holds))
                    must(int(mine[0].rpartition("#")[2]) < most, "a job sees its own limit", (execution, mine, most))

    def _attention(self, row: Job) -> None:
        """Who is due, runs, or was cancelled in its call, is looked after in time (docs/protocol.md, 1.2)."""
        looks = [run.lease_expires_at or 0 for run in row.cancelled_calls.values()]
        for run in row.runs.values():
            if run.state is RunState.RUNNING:
                looks.append(run.lease_expires_at or 0)
            elif run.state is RunState.WAITING and run.waits_for is None and not row.holds(run):
                looks.append((run.due_at or 0) + 30)
        if looks and not row.wakes:
            must(row.attention_at is not None, "what is due is looked after", row)
            must((row.attention_at or 0) <= min(looks), "what is due is looked after", (row.attention_at, looks))

    def _idle(self) -> None:
        """No permit is kept for long for a run that does not start while others wait for it (docs/architecture.md)."""
        waits = {
            run.waits_for
            for row in self.rows.values()
            for run in row.runs.values()
            if run.waits_for is not None and not row.holds(run)
        }
        busy = {
            (execution_id(row.id, slot, run.attempt), name)
            for row in self.rows.values()
            for slot, run in (*row.runs.items(), *row.cancelled_calls.items())
            for name in run.holds
        }
        for key, slots in self.world.slots.rows.items():
            for index, slot in slots.items():
                name = f"{key}#{index}"
                holder, since = self.idle.get(name, ("", self.now))
                if key not in waits or (slot.holder, name) in busy or holder != slot.holder:
                    since = self.now
                self.idle[name] = (slot.holder, since)
                late = self.now - since > IDLE and not self._hampered
                must(not late, "a permit that nobody uses is passed on", (name, slot, since))

    @property
    def _hampered(self) -> bool:
        """Whether this story has faults besides lost messages, or weather: then permits idle for longer."""
        nature = self.world.nature
        return bool(nature.faults or nature.stalls or self.world.weather)

    def _leased(self, run: ActiveRun) -> bool:
        return run.state is RunState.RUNNING and self.now < (run.lease_expires_at or 0)

    # --- circuits ---

    def changed(self, circuit: Circuit, actor: Actor) -> None:
        self.world.note(f"    {actor.key} circuit {circuit}")
        self._its_owners(circuit, actor)
        self.circuits.setdefault(circuit.key, []).append((self.now, circuit))
        if circuit.open_until is None:
            self.probes.pop(circuit.key, None)

    def _its_owners(self, circuit: Circuit, actor: Actor) -> None:
        """A circuit is moved by what becomes of its owner's jobs, and reset by its owner or an administrator."""
        owner = circuit.key.partition("@")[2]
        if not owner:
            must(circuit.key in self.rules.shared, "a circuit without an owner is one that the stage shares", circuit)
            must(actor.action != "reset" or not actor.team, "only an administrator resets a shared circuit", actor.key)
        elif actor.action == "reset":
            must(actor.team in ("", owner), "no foreigner resets a circuit", (actor.key, actor.team, circuit))
        elif actor.job is not None:
            mover = next(row for row in self.rows.values() if self.world.label(row.id) == actor.job)
            must(mover.owner == owner, "no job of another team moves a circuit", (actor.key, mover.owner, circuit))

    def _circuit_of(self, row: Job) -> str | None:
        """The key of the circuit that the job has to ask, by the rules of docs/job-lifecycle.md; None: it has none."""
        document, kind = row.defined.document, row.defined.document.get("type")
        asks = kind == TYPE and self.rules.type_breaker is not None
        if not document.get("circuitBreaker", {"enabled": asks}).get("enabled", True):
            return None
        target = f"http:{document['target']['url'].split('/')[2]}:443"
        if target in self.rules.shared:
            return target
        return f"{target}@{row.owner}" if kind is None else f"{target}~{kind}@{row.owner}"

    def _held_back(self, before: Job, row: Job, slot: str, run: ActiveRun, actor: Actor) -> None:
        """A run waits for what is its team's, or what the stage shares, and for nothing of another team's."""
        if run.waits_for is not None:
            mine = run.waits_for.startswith((f"key:{row.owner}|", "type:"))
            must(mine, "no run waits for a permit of another team", (slot, run))
        old = before.runs.get(slot)
        if run.deferred_for != "CIRCUIT_OPEN" or run.deferrals == (0 if old is None else old.deferrals):
            return
        key = self._circuit_of(before)
        versions = [] if key is None else self._seen(key, actor)
        opened = any(version.open_until is not None for version in versions)
        must(opened, "a run is held back by its own team's circuit alone", (slot, key, run, versions))

    def _started(self, row: Job, slot: str, run: ActiveRun, actor: Actor) -> None:
        key = self._circuit_of(row)
        if key is None:
            return
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
        running = [each for each in others if self._runs(each) and each not in self.over]
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
                must(not left or self._goes_on(execution), "an end frees its slot", (execution, held))
            self._told(execution)

    def _goes_on(self, execution: str) -> bool:
        """Whether it was cancelled, and its row keeps its permits for its call."""
        row = self.rows[execution[:36]]
        call = row.cancelled_calls.get(execution[37:].rpartition("-")[0])
        return call is not None and call.attempt == int(execution[-4:])

    def _told(self, execution: str) -> None:
        """Whoever ended a probe has told its circuit. A late copy of its hint may have taken the place once more."""
        key, seq = self.started_as.get(execution, ("", 0))
        circuit = self.world.circuits.rows.get(key)
        left = circuit is not None and circuit.seq == seq and circuit.probe is not None
        must(not left, "an end tells its circuit", (execution, circuit))

    def _slot(self, name: str) -> Slot | None:
        key, _, index = name.rpartition("#")
        return self.world.slots.rows.get(key, {}).get(int(index))

    def close(self) -> None:
        for row in self.rows.values():
            for slot, run in row.runs.items():
                due = (run.due_at or 0) + LEFT_BEHIND < self.now and not row.paused and not row.cancelled
                lost = run.state is RunState.WAITING and due and not self._outranked(row, run) and not self._moves(run)
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

    def _moves(self, run: ActiveRun) -> bool:
        """Whether a permit that the run waits for has passed to another lately: attempts of five minutes fill a key for
        longer than `LEFT_BEHIND`."""
        slots = self.world.slots.rows.get(run.waits_for or "", {})
        patient = (run.due_at or 0) + 2 * LEFT_BEHIND > self.now
        return patient and any(slot.at > self.now - LEFT_BEHIND for slot in slots.values())

    # --- what only other stories are about ---

    def recorded(self, execution: Execution, actor: Actor) -> None:
        self.world.note(f"    {actor.key} recorded {execution.id} {execution.status} {execution.reason}")
        self.over.add(execution.id)
        if execution.reason == "CIRCUIT_OPEN" and execution.final and not self._hampered:
            self._given_up(execution)

    def _given_up(self, execution: Execution) -> None:
        """A run waits in vain for a circuit only while that is open, or another attempt probes."""
        row = self.rows[execution.job_id]
        circuit = self.world.circuits.rows.get(self._circuit_of(row) or "")
        if circuit is None or circuit.open_until is None or circuit.open_until > self.now - 5:
            return
        since = max(at for at, version in self.circuits[circuit.key] if version.seq == circuit.seq)
        probes = circuit.probe is not None and (self._runs(circuit.probe.execution_id) or since > self.now - 5)
        must(probes or since > self.now - 5, "a run is not ended by a probe that is over", (execution, circuit))

    def called(self, invocation: Invocation, actor: Actor) -> None:
        """No two calls are made on one permit, whatever became of their attempts, as long as they have leases."""
        mine = invocation.execution_id
        names = self.holds.get(mine, {}).keys()
        for other in self.calls:
            shared = names & self.holds.get(other, {}).keys()
            leased = self.now < min(self.leases[mine], self.leases[other])
            must(not shared or not leased, "no call is made beside one on the same permit", (mine, other, shared))
        self.calls[mine] = actor.key

    def answered(self, invocation: Invocation, *_: object) -> None:
        self.calls.pop(invocation.execution_id, None)

    def sends(self, *_: object) -> None: ...

    def skipped(self, *_: object) -> None: ...

    def replied(self, *_: object) -> None: ...

    def hampered(self, weather: Weather) -> None: ...

    def fault(self, name: str, label: str | None, actor: Actor | None) -> None:
        self.faults += 1
        if actor is not None and name.endswith(("died", "dies in the call")):
            self.calls = {one: by for one, by in self.calls.items() if by != actor.key}


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
