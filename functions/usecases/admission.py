"""What a start must pass before it is claimed: its owner's share, the circuit of its target, the limits of its keys.

Circuit and limits are asked by reads, for each try of the start's write anew (V12): a job that has neither pays
nothing for them.
"""

from __future__ import annotations

import math
from dataclasses import replace

from functions.domain.circuit import Circuit, CircuitPolicy, CircuitState, circuit_of
from functions.domain.circuit_deferral import held_back
from functions.domain.concurrency import HOLD_MARGIN, Limit, is_unused, limits_of, with_holds
from functions.domain.decision import Deferral, HintDecision, Write
from functions.domain.dispatch import decide_hint
from functions.domain.hint import Hint
from functions.domain.ids import execution_id
from functions.domain.job import Job
from functions.domain.lease import LEASE_MARGIN
from functions.domain.path import call_seconds
from functions.domain.run import ActiveRun
from functions.domain.shares import Refusal
from functions.limit_ports import Entry
from functions.usecases import circuits, concurrency
from functions.usecases.circuits import Taken
from functions.usecases.concurrency import Hold
from functions.usecases.services import Executor
from functions.usecases.writing import Applied

LIMITED = "CONCURRENCY_LIMIT"
OWNER_LIMIT = "OWNER_LIMIT"


class Admission:
    """One hint's way through them. `decide` decides about a row; `settle` gives back what was not needed."""

    def __init__(self, executor: Executor, hint: Hint) -> None:
        self._executor = executor
        self._hint = hint
        self._holds: dict[str, Hold] = {}
        """By name of the slot: what was written down for the attempt, with the mark of the last time."""
        self._anew: set[str] = set()
        """Names of those that nobody else has written down for it."""
        self._probe: Taken | None = None
        self._refused_by: Limit | None = None
        self._seen: Job | None = None
        self._entry: Entry | None = None

    def decide(self, row: Job, mark: str) -> HintDecision:
        """As `decide_hint`, but what it would start has passed, or is put off."""
        now = self._executor.clock.now()
        decision = decide_hint(row, self._hint, now=now, write_id=mark)
        self._refused_by, self._seen = None, row
        if not isinstance(decision, Write) or decision.starts is None:
            return decision
        refused = self._enter(row, decision.job.runs[decision.starts], now)
        if refused is not None:
            return decide_hint(row, self._hint, now=now, write_id=mark, deferral=refused)
        if row.defined.circuit is None and not limits_of(row):
            return decision
        passed = self._ask(row, decision, decision.starts, now)
        if isinstance(passed, tuple):
            probes = None if self._probe is None else self._probe.circuit.key
            return with_holds(decision, decision.starts, passed, probes=probes)
        if isinstance(passed, Write):
            return passed
        return decide_hint(row, self._hint, now=now, write_id=mark, deferral=passed)

    def _enter(self, row: Job, attempt: ActiveRun, now: float) -> Deferral | None:
        """Take a place in the owner's share, once; why the start is put off, where there is none."""
        if self._entry is not None:
            return None
        executor = self._executor
        entered = executor.shares.enter(row.owner, row.priority, lasts=call_seconds(row.defined) + LEASE_MARGIN)
        if isinstance(entered, Refusal):
            until = entered.try_again_at(now, attempt.deferrals, executor.uniform(0.0, 1.0))
            return Deferral(reason=OWNER_LIMIT, until=until)
        self._entry = entered
        return None

    def leave(self) -> None:
        """The attempt, if one was started, does not run in this process any more."""
        if self._entry is not None:
            self._entry.leave()

    def settle(self, decision: object) -> None:
        """Comes after the hints of the write, if there was one.

        What this process wrote down first is given back unless somebody else renewed it. What it renewed only, where
        nobody can be about to start on it: a write of its own has changed the row since, so that start is refused and
        asks again; or the row shows that the attempt has started, on another slot, or is over.
        """
        applied = decision if isinstance(decision, Applied) else None
        row = self._seen if applied is None else applied.job
        started = applied is not None and applied.write.starts is not None
        if self._probe is not None and not started and (applied is not None or self._probe.anew):
            circuits.give_back(self._executor, self._probe)
        for name, held in self._holds.items():
            unused = is_unused(row, held.slot.holder, name)
            if unused or (not started and (applied is not None or name in self._anew)):
                concurrency.give_back(self._executor, held)
                concurrency.drain(self._executor, held.key, room=held.slot.index + 1)
        if applied is not None:
            concurrency.after_write(self._executor, applied)
        if self._refused_by is not None:
            also = None if applied is None else applied.job
            concurrency.drain(self._executor, self._refused_by.key, also=also, room=self._refused_by.most)

    def _ask(self, row: Job, decision: Write, slot: str, now: float) -> tuple[str, ...] | Deferral | Write:
        """The slots that the start holds, or why it does not come to it."""
        executor, definition = self._executor, row.defined
        attempt = decision.job.runs[slot]
        execution = execution_id(row.id, slot, attempt.attempt)
        # Not for as long as a callback may take: one whose call was not made would keep others from the key.
        until = math.ceil(now) + call_seconds(definition) + HOLD_MARGIN
        policy, circuit = definition.circuit, None
        if policy is not None:
            circuit = executor.circuits.get(circuit_of(row))
            if circuit.state(now) is CircuitState.OPEN:
                return self._blocked(row, slot, circuit, policy, now)
        names = []
        for limit in limits_of(row):
            since = attempt.deferred_at if attempt.deferred_at is not None else int(now)
            held = concurrency.take(executor, limit, row, execution, since=since, until=until)
            if held is None:
                self._refused_by = limit
                return Deferral(reason=LIMITED, until=int(now), waits_for=limit.key)
            self._keep(held)
            names.append(held.name)
        if policy is not None and circuit is not None and circuit.open_until is not None:
            probe = circuits.take_probe(executor, circuit, execution, until=until)
            if isinstance(probe, Circuit):
                return self._blocked(row, slot, probe, policy, now)
            mine = self._probe
            if probe is not None and mine is not None and mine.anew and probe.circuit.seq == mine.circuit.seq + 1:
                probe = replace(probe, anew=True)
            self._probe = probe
        return tuple(names)

    def _keep(self, held: Hold) -> None:
        mine = self._holds.get(held.name)
        if held.renewed is None or (held.name in self._anew and mine is not None and mine.slot.mark == held.renewed):
            self._anew.add(held.name)
        else:
            self._anew.discard(held.name)
        self._holds[held.name] = held

    def _blocked(self, row: Job, slot: str, circuit: Circuit, policy: CircuitPolicy, now: float) -> Deferral | Write:
        return held_back(row, slot, circuit, policy, now=now, uniform=self._executor.uniform)
