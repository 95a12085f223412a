"""When a target that keeps failing is left alone (docs/job-lifecycle.md, docs/protocol.md section 4).

A circuit is closed; opens after so many failures one after another; after its time lets one probe through at a time;
and closes when enough of these succeeded. Everything here is pure; `now` and instants are epoch seconds.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from functions.domain.actor import Actor
from functions.domain.circuit_key import CircuitKey
from functions.domain.retry import Uniform

if TYPE_CHECKING:
    from functions.domain.job import Job

JITTER_MAX = 900
"""Longest jitter behind the end of an opening: looks that come back grow rarer up to this."""
_DOUBLINGS = 12
"""Doublings after which every jitter is at its longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitPolicy:
    """When a circuit opens and closes: what the job's type says, else the stage. Jobs have no say in it, so that two
    that share a circuit never disagree. Field names are the contract's, in snake case."""

    failure_threshold: int = 5
    """Failures one after another that open the circuit."""
    open_seconds: int = 30
    """How long it stays open before one probe is let through."""
    success_threshold: int = 1
    """Probes that must succeed one after another to close it."""
    shared: bool = False
    """Whether the jobs of all owners share the circuit, because the stage lists its target."""

    def under(self, config: Mapping[str, Any]) -> CircuitPolicy:
        """The policy of a type with this `circuitBreaker`; what it leaves out is this policy's."""
        return replace(
            self,
            failure_threshold=int(config.get("failureThreshold", self.failure_threshold)),
            open_seconds=int(config.get("openSeconds", self.open_seconds)),
            success_threshold=int(config.get("successThreshold", self.success_threshold)),
        )


class CircuitState(enum.StrEnum):
    CLOSED = "CLOSED"
    OPEN = "OPEN"
    """Nobody calls the target."""
    HALF_OPEN = "HALF_OPEN"
    """One attempt at a time may call it, to see whether it answers again."""


class Health(enum.Enum):
    """What an attempt says of its target."""

    UP = "up"
    DOWN = "down"
    UNKNOWN = "unknown"
    """Nothing: it was not called, or nobody knows what it answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The one attempt that may call a target whose circuit is half open."""

    execution_id: str
    until: int
    """When somebody else may take its place, if it does not run by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """One row, for an owner's jobs of one type that call one target. Without a row it is closed, with `seq` 0."""

    key: str
    """A `circuit_key.CircuitKey` as text."""
    seq: int = 0
    """All writes. A write names the `seq` it read."""
    write_id: str = ""
    failures: int = 0
    """Failures one after another, as far as they are known."""
    since: float = 0.0
    """When it was closed, or opened, last."""
    open_until: int | None = None
    """None while it is closed; half open once this is past."""
    successes: int = 0
    """Probes that succeeded one after another."""
    probe: Probe | None = None
    reset_by: Actor | None = None
    """The caller who closed it; None where its target did."""

    def state(self, now: float) -> CircuitState:
        if self.open_until is None:
            return CircuitState.CLOSED
        return CircuitState.OPEN if now < self.open_until else CircuitState.HALF_OPEN


class Admission(enum.Enum):
    """What a circuit says to an attempt that is about to start."""

    GO = "go"
    PROBE = "probe"
    """Go as the probe, once you are written down as it."""
    TAKE_OVER = "take over"
    """The same, once the probe that is written down is known not to run."""
    BLOCKED = "blocked"


def admission(circuit: Circuit, execution_id: str, *, now: float) -> Admission:
    state, probe = circuit.state(now), circuit.probe
    if state is CircuitState.CLOSED:
        return Admission.GO
    if state is CircuitState.OPEN:
        return Admission.BLOCKED
    if probe is None or probe.execution_id == execution_id:
        return Admission.PROBE
    return Admission.TAKE_OVER if probe.until <= now else Admission.BLOCKED


def with_probe(circuit: Circuit, execution_id: str, *, until: int) -> Circuit:
    return replace(circuit, probe=Probe(execution_id=execution_id, until=until))


def without_probe(circuit: Circuit, execution_id: str) -> Circuit | None:
    """The circuit after its probe ended without news of the target, so that the next attempt may probe; None where the
    attempt is not its probe, or is no longer."""
    if circuit.open_until is None or circuit.probe is None or circuit.probe.execution_id != execution_id:
        return None
    return replace(circuit, probe=None)


def after_end(
    circuit: Circuit, policy: CircuitPolicy, execution_id: str, health: Health, *, started_at: float, now: float
) -> Circuit | None:
    """The circuit after an attempt's end; None where that changes nothing.

    A closed one counts what started since it closed. One that opened is moved by its probe's end alone: what else
    comes back was called before the opening, and says nothing of the target since.
    """
    if circuit.open_until is None:
        return _counted(circuit, policy, health, started_at=started_at, now=now)
    if circuit.probe is None or circuit.probe.execution_id != execution_id:
        return None
    if health is Health.UNKNOWN:
        return without_probe(circuit, execution_id)
    if health is Health.DOWN:
        return replace(_opened(circuit, policy, now=now), since=circuit.since)
    if circuit.successes + 1 < policy.success_threshold:
        return replace(circuit, probe=None, successes=circuit.successes + 1)
    return closed(circuit, now=now)


def closed(circuit: Circuit, *, now: float) -> Circuit:
    """The circuit closed now: as if nothing had failed."""
    return Circuit(key=circuit.key, seq=circuit.seq, since=round(now, 3))


def _counted(
    circuit: Circuit, policy: CircuitPolicy, health: Health, *, started_at: float, now: float
) -> Circuit | None:
    if health is Health.UNKNOWN or started_at < circuit.since:
        return None
    if health is Health.UP:
        return replace(circuit, failures=0) if circuit.failures else None
    if circuit.failures + 1 < policy.failure_threshold:
        return replace(circuit, failures=circuit.failures + 1)
    return _opened(circuit, policy, now=now)


def _opened(circuit: Circuit, policy: CircuitPolicy, *, now: float) -> Circuit:
    return replace(
        circuit,
        failures=circuit.failures + 1,
        since=round(now, 3),
        open_until=math.ceil(now) + policy.open_seconds,
        successes=0,
        probe=None,
    )


def look_again_at(
    circuit: Circuit, policy: CircuitPolicy, *, deferrals: int, limit: int, now: float, uniform: Uniform
) -> int:
    """When an attempt that the circuit held back `deferrals` times looks again: after the opening and a jitter that
    doubles, so that those who wait come back spread over time and ever more rarely; at `limit` at the latest."""
    spread = min(JITTER_MAX, max(2.0, policy.open_seconds / 2) * 2 ** min(deferrals, _DOUBLINGS))
    opened = max(circuit.open_until or 0, math.ceil(now))
    return max(math.ceil(now) + 1, min(limit, opened + math.ceil(uniform(0.0, spread))))


def target_key(target: Mapping[str, Any]) -> str:
    """How circuits' keys name a target: `http:<host>:<port>`, `lambda:<function>`, `handler:<name>`, `sqs:<queue>`."""
    kind = str(target["type"])
    if kind == "http":
        url = urlsplit(str(target["url"]))
        port = url.port or (80 if url.scheme == "http" else 443)
        return f"http:{(url.hostname or '').lower()}:{port}"
    if kind == "lambda":
        parts = str(target["functionName"]).split(":")
        return f"lambda:{parts[6] if parts[0] == 'arn' else parts[0]}"
    if kind == "sqs":
        return f"sqs:{urlsplit(str(target['queueUrl'])).path.rsplit('/', 1)[-1]}"
    return f"{kind}:{target.get('name', '')}"


def circuit_of(job: Job) -> str:
    """The key of the job's circuit. The job is under its type, and has a circuit."""
    definition = job.defined
    target = target_key(definition.target)
    if definition.circuit is not None and definition.circuit.shared:
        return str(CircuitKey(target))
    return str(CircuitKey(target, definition.type, job.owner))
