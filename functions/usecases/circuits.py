"""Circuits of targets: who may call, what came of it, and what people do to them (docs/protocol.md, section 4)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from functions.domain.caller import Caller
from functions.domain.circuit import (
    Admission,
    Circuit,
    admission,
    after_end,
    circuit_of,
    closed,
    with_probe,
    without_probe,
)
from functions.domain.circuit_key import CircuitKey
from functions.domain.cursor import owners_scope
from functions.domain.errors import NotFoundError, UnavailableError
from functions.domain.ids import execution_id
from functions.domain.job import Job
from functions.domain.outcome import TargetAnswer, health_of
from functions.domain.permits import probes_ended
from functions.ports import Page
from functions.usecases.holders import is_given_up
from functions.usecases.owners import EVERYBODY, list_everybodys
from functions.usecases.services import Attempts, Engine, Services
from functions.usecases.writing import Applied, ruled

_TRIES = 5
_REPORT_TRIES = 20
"""Writes of others that a report gives way to. An open circuit takes no more of them, so they are few."""

_SHOWN = 320
"""Characters of a key that an error repeats."""


@dataclass(frozen=True, slots=True)
class Taken:
    """An attempt is written down as its circuit's probe."""

    circuit: Circuit
    """The row as that write left it."""
    anew: bool
    """Nobody had written this attempt down before."""


def take_probe(attempts: Attempts, circuit: Circuit, execution: str, *, until: int) -> Taken | Circuit | None:
    """Have the circuit let the attempt through: None where it is closed, Taken as its probe; the circuit that blocks
    it where it may not."""
    for _ in range(_TRIES):
        now = attempts.clock.now()
        said = admission(circuit, execution, now=now)
        if said is Admission.GO:
            return None
        if said is Admission.BLOCKED:
            return circuit
        probe = circuit.probe
        if said is Admission.TAKE_OVER and probe is not None and not is_given_up(attempts, probe.execution_id):
            return circuit
        mark = attempts.new_write_id()
        wanted = replace(with_probe(circuit, execution, until=until), write_id=mark)
        anew = probe is None or probe.execution_id != execution
        circuit = attempts.circuits.save(circuit, wanted, now=now)
        if circuit.write_id == mark:
            return Taken(circuit, anew)
    return circuit


def give_back(attempts: Attempts, taken: Taken) -> None:
    """The probe that was written down does not start: the next one may, unless the circuit moved since."""
    free = replace(taken.circuit, probe=None, write_id=attempts.new_write_id())
    attempts.circuits.save(taken.circuit, free, now=attempts.clock.now())


def blocks(attempts: Attempts, job: Job, slot: str) -> int | None:
    """When to try again, where the circuit opened between the attempt's start and its call; None: call now.

    Its probe is let through.
    """
    job = ruled(attempts, job)
    if job.defined.circuit is None:
        return None
    run, circuit, now = job.runs[slot], attempts.circuits.get(circuit_of(job)), attempts.clock.now()
    probe = circuit.probe
    if circuit.open_until is None:
        return None
    if probe is not None and probe.execution_id == execution_id(job.id, slot, run.attempt):
        return None
    return max(circuit.open_until, math.ceil(now) + 1)


class Answered(NamedTuple):
    """What a target said, and to which attempt."""

    job: Job
    """The row under which it was called."""
    slot: str
    answer: TargetAnswer


def report(engine: Engine, answered: Answered) -> None:
    """Tell the circuit what the attempt's answer says of the target.

    Comes after the history row, from whoever called the target, once. A report that dies before its write costs a
    count, or a probe its time; nothing else rests on it.
    """
    job, slot, answer = answered
    job = ruled(engine, job)
    policy, run = job.defined.circuit, job.runs[slot]
    if policy is None:
        return
    execution, health, started_at = execution_id(job.id, slot, run.attempt), health_of(answer), run.started_at or 0.0

    def decide(circuit: Circuit) -> Circuit | None:
        now = engine.clock.now()
        return after_end(circuit, policy, execution, health, started_at=started_at, now=now)

    _change(engine, circuit_of(job), decide)


def after_write(engine: Engine, applied: Applied, answered: Answered | None = None) -> None:
    """Tell the circuits of the attempts that this write ended: the target's answer, where the writer has called it, and
    no news of each probe that ended without one. So the next attempt may probe at once, whoever ends this one.

    Comes after all else that follows from the write.
    """
    if answered is not None:
        report(engine, answered)
    for execution, key in probes_ended(applied.before, applied.job):
        _change(engine, key, functools.partial(without_probe, execution_id=execution))


def _change(engine: Engine, key: str, decide: Callable[[Circuit], Circuit | None]) -> None:
    circuit = engine.circuits.get(key)
    for _ in range(_REPORT_TRIES):
        after = decide(circuit)
        if after is None:
            return
        mark = engine.new_write_id()
        circuit = engine.circuits.save(circuit, replace(after, write_id=mark), now=engine.clock.now())
        if circuit.write_id == mark:
            return


def list_circuits(
    services: Services, caller: Caller, *, owner: str | None = None, limit: int, cursor: str | None
) -> Page[Circuit]:
    """Circuits of an owner, or of all that the caller acts for, that something was ever counted for, by key.

    With owner `*` those that all owners share, then everybody's, owner by owner.
    """
    wanted = caller.must_list(owner, "circuits")

    def of(one: str, limit: int, cursor: str | None) -> Page[Circuit]:
        return services.circuits.list(one or None, limit=limit, cursor=cursor)

    if len(wanted) == 1 and wanted != (EVERYBODY,):
        return of(wanted[0], limit, cursor)
    if wanted == (EVERYBODY,):
        return list_everybodys(("", *services.owners.all()), of, limit=limit, cursor=cursor)
    return list_everybodys(wanted, of, limit=limit, cursor=cursor, scope=owners_scope("circuits", wanted))


def get_circuit(services: Services, caller: Caller, key: str) -> Circuit:
    """Raises NotFoundError for one that there is not, and for another owner's where the caller reads its own only. The
    circuits that all owners share are for every caller."""
    owner = _parse(key).owner
    try:
        caller.must_read(caller.owner if owner is None else owner)
    except NotFoundError:
        raise _none(key) from None
    circuit = services.circuits.get(key)
    if circuit.seq == 0:
        raise _none(key)
    return circuit


def reset_circuit(services: Services, caller: Caller, key: str) -> Circuit:
    """Close the circuit: attempts that started before count no more.

    Raises NotFoundError as `get_circuit`, and ForbiddenError for all but its owner's schedulers and admins; one that
    all owners share takes an admin.
    """
    circuit = get_circuit(services, caller, key)
    owner = _parse(key).owner
    if owner is None:
        caller.must_administer("a circuit that all owners share")
    else:
        caller.must_change(owner)
    for _ in range(_REPORT_TRIES):
        if circuit.seq == 0:
            raise _none(key)
        mark, now = services.new_write_id(), services.clock.now()
        circuit = services.circuits.save(
            circuit, replace(closed(circuit, now=now), write_id=mark, reset_by=caller.actor), now=now
        )
        if circuit.write_id == mark:
            return circuit
    raise UnavailableError("The circuit changed while it was being reset: try again.")


def _parse(key: str) -> CircuitKey:
    try:
        return CircuitKey.parse(key)
    except ValueError:
        raise _none(key) from None


def _none(key: str) -> NotFoundError:
    # A path that is not UTF-8 may come as text that cannot be sent back.
    known = key.encode(errors="replace").decode()
    return NotFoundError(f"There is no circuit {known if len(known) <= _SHOWN else known[:_SHOWN] + '…'}.")
