"""Circuits and workers tell of themselves: opened, closed, registered, and nothing in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.domain.circuit import Circuit, CircuitPolicy, Health, after_end, closed, with_probe
from functions.domain.event import EventType, LifecycleEvent
from functions.domain.target_events import CircuitChange, circuit_events
from tests.factories import NOW

POLICY = CircuitPolicy(failure_threshold=2, open_seconds=30)
KEY = "http:example.com:443@team-a"
NAMED = {"circuit": KEY, "owner": "team-a", "target": "http:example.com:443"}


def told(before: Circuit | None, after: Circuit | None) -> list[LifecycleEvent]:
    assert after is not None
    return list(circuit_events(CircuitChange(before=before, after=after)))


def ended(circuit: Circuit, health: Health, now: float, *, probe: str = "e") -> Circuit:
    after = after_end(circuit, POLICY, probe, health, started_at=now - 1, now=now)
    assert after is not None
    return replace(after, seq=circuit.seq + 1)


def test_a_circuit_tells_that_it_opened_and_that_it_closed() -> None:
    first = ended(Circuit(key=KEY), Health.DOWN, NOW)
    assert told(None, first) == []
    opened = ended(first, Health.DOWN, NOW + 1.5)

    [event] = told(first, opened)

    assert event.type is EventType.CIRCUIT_OPENED
    assert (event.time, event.id) == (NOW + 1.5, f"circuit:{KEY}:{(NOW + 1) * 1000 + 500}:0")
    assert event.facts == {**NAMED, "failures": 2, "open_until": NOW + 32}
    probing = with_probe(opened, "e", until=NOW + 60)
    [event] = told(probing, ended(probing, Health.UP, NOW + 40))
    assert (event.type, event.time, event.facts) == (EventType.CIRCUIT_CLOSED, NOW + 40, NAMED)


def test_a_circuit_that_opens_at_its_first_failure_is_told() -> None:
    opened = replace(Circuit(key=KEY), open_until=NOW + 30, since=NOW + 0.5)

    assert [event.type for event in told(None, opened)] == [EventType.CIRCUIT_OPENED]


def test_probes_that_come_and_fail_are_no_events() -> None:
    opened = Circuit(key=KEY, seq=2, failures=2, since=NOW, open_until=NOW + 30)
    probing = with_probe(opened, "e", until=NOW + 60)

    assert told(opened, probing) == []
    assert told(probing, ended(probing, Health.DOWN, NOW + 40)) == []


@pytest.mark.parametrize("seq", [1, 77])
def test_an_event_is_known_again_although_the_row_had_expired_and_counts_anew(seq: int) -> None:
    opened = Circuit(key=KEY, seq=seq, failures=2, since=NOW + 0.25, open_until=NOW + 30)

    [event] = told(None, opened)

    assert event.seq == NOW * 1000 + 250
    [later] = told(opened, closed(opened, now=NOW + 40))
    assert later.seq > event.seq
