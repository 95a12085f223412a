"""The circuit of a target: what an end means for it, who is let through, and when the others look again."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from functions.domain.circuit import (
    JITTER_MAX,
    Admission,
    Circuit,
    CircuitPolicy,
    CircuitState,
    Health,
    Probe,
    admission,
    after_end,
    closed,
    look_again_at,
    target_key,
    with_probe,
)
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.outcome import TargetAnswer, health_of
from tests.factories import NOW

KEY = "http:example.com:443"
POLICY = CircuitPolicy(failure_threshold=3, open_seconds=30, success_threshold=1)
CLOSED = Circuit(key=KEY, seq=1, since=NOW - 100)
OPEN = Circuit(key=KEY, seq=4, failures=3, since=NOW - 20, open_until=NOW + 10)
HALF_OPEN = replace(OPEN, open_until=NOW)
PROBED = with_probe(HALF_OPEN, "probe", until=NOW + 80)


def end(
    circuit: Circuit, health: Health, *, execution: str = "other", started_at: float = NOW - 1, policy=POLICY
) -> Circuit | None:
    return after_end(circuit, policy, execution, health, started_at=started_at, now=NOW + 0.25)


class TestClosed:
    def test_failures_one_after_another_open_it(self) -> None:
        once = end(CLOSED, Health.DOWN)
        assert once == replace(CLOSED, failures=1)
        twice = end(once, Health.DOWN)
        assert twice == replace(CLOSED, failures=2)
        assert twice.state(NOW + 1) is CircuitState.CLOSED
        opened = end(twice, Health.DOWN)
        assert opened == replace(CLOSED, failures=3, since=NOW + 0.25, open_until=NOW + 31)

    def test_a_success_between_them_begins_anew(self) -> None:
        assert end(replace(CLOSED, failures=2), Health.UP) == CLOSED

    def test_a_success_of_a_healthy_target_writes_nothing(self) -> None:
        assert end(CLOSED, Health.UP) is None

    def test_what_says_nothing_changes_nothing(self) -> None:
        assert end(replace(CLOSED, failures=2), Health.UNKNOWN) is None

    @pytest.mark.parametrize("health", Health)
    def test_an_attempt_that_started_before_it_closed_does_not_count(self, health: Health) -> None:
        assert end(replace(CLOSED, failures=2), health, started_at=NOW - 101) is None

    def test_a_threshold_of_one_opens_at_the_first(self) -> None:
        opened = end(CLOSED, Health.DOWN, policy=replace(POLICY, failure_threshold=1))
        assert opened is not None
        assert opened.state(NOW + 1) is CircuitState.OPEN


class TestOpen:
    @pytest.mark.parametrize("circuit", [OPEN, HALF_OPEN, PROBED])
    @pytest.mark.parametrize("health", Health)
    def test_ends_of_attempts_from_before_change_nothing(self, circuit: Circuit, health: Health) -> None:
        assert end(circuit, health) is None

    def test_it_is_half_open_once_its_time_is_over(self) -> None:
        assert [OPEN.state(NOW + at) for at in (0, 9.9, 10, 1000)] == [CircuitState.OPEN] * 2 + [
            CircuitState.HALF_OPEN
        ] * 2

    def test_the_probes_success_closes_it(self) -> None:
        assert end(PROBED, Health.UP, execution="probe") == Circuit(key=KEY, seq=4, since=NOW + 0.25)

    def test_as_many_probes_as_the_policy_asks_for(self) -> None:
        policy = replace(POLICY, success_threshold=2)
        first = end(PROBED, Health.UP, execution="probe", policy=policy)
        assert first == replace(HALF_OPEN, successes=1)
        second = end(with_probe(first, "next", until=NOW + 80), Health.UP, execution="next", policy=policy)
        assert second == Circuit(key=KEY, seq=4, since=NOW + 0.25)

    def test_the_probes_failure_opens_it_again(self) -> None:
        again = end(replace(PROBED, successes=1), Health.DOWN, execution="probe")
        assert again == replace(HALF_OPEN, failures=4, open_until=NOW + 31)

    def test_a_probe_that_says_nothing_gives_its_place_away(self) -> None:
        assert end(PROBED, Health.UNKNOWN, execution="probe") == HALF_OPEN

    def test_a_reset_closes_it_for_what_starts_from_then_on(self) -> None:
        reset = closed(PROBED, now=NOW)
        assert reset.state(NOW) is CircuitState.CLOSED
        assert end(reset, Health.DOWN, execution="probe", started_at=NOW - 5) is None


class TestAdmission:
    @pytest.mark.parametrize(
        ("circuit", "execution", "now", "said"),
        [
            (CLOSED, "a", NOW, Admission.GO),
            (OPEN, "a", NOW, Admission.BLOCKED),
            (HALF_OPEN, "a", NOW, Admission.PROBE),
            (PROBED, "a", NOW, Admission.BLOCKED),
            (PROBED, "probe", NOW, Admission.PROBE),
            (PROBED, "a", NOW + 79.9, Admission.BLOCKED),
            (PROBED, "a", NOW + 80, Admission.TAKE_OVER),
            (replace(PROBED, open_until=NOW + 10), "probe", NOW, Admission.BLOCKED),
        ],
    )
    def test_who_is_let_through(self, circuit: Circuit, execution: str, now: float, said: Admission) -> None:
        assert admission(circuit, execution, now=now) is said

    def test_a_probe_is_written_down_with_its_time(self) -> None:
        assert PROBED.probe == Probe(execution_id="probe", until=NOW + 80)


class TestLooks:
    def test_they_come_after_the_opening_and_ever_more_rarely(self) -> None:
        waits = [
            look_again_at(OPEN, POLICY, deferrals=n, limit=NOW + 10**6, now=NOW, uniform=lambda _, high: high) - NOW
            for n in range(9)
        ]
        assert waits == [25, 40, 70, 130, 250, 490, 910, 910, 910]
        assert max(waits) == 10 + JITTER_MAX

    def test_never_before_the_opening_is_over(self) -> None:
        at = look_again_at(OPEN, POLICY, deferrals=9, limit=NOW + 10**6, now=NOW, uniform=lambda low, _: low)
        assert at == NOW + 10

    def test_they_are_spread(self) -> None:
        draw = random.Random(1).uniform
        looks = {look_again_at(OPEN, POLICY, deferrals=3, limit=NOW + 10**6, now=NOW, uniform=draw) for _ in range(500)}
        assert len(looks) > 100

    def test_the_limit_ends_the_wait(self) -> None:
        at = look_again_at(OPEN, POLICY, deferrals=9, limit=NOW + 40, now=NOW, uniform=lambda _, high: high)
        assert at == NOW + 40

    def test_but_there_is_always_another_look(self) -> None:
        at = look_again_at(OPEN, POLICY, deferrals=0, limit=NOW - 40, now=NOW + 0.5, uniform=lambda _, high: high)
        assert at == NOW + 2


@pytest.mark.parametrize(
    ("target", "key"),
    [
        ({"type": "http", "url": "https://API.Example.com/a?b=c"}, "http:api.example.com:443"),
        ({"type": "http", "url": "http://example.com/"}, "http:example.com:80"),
        ({"type": "http", "url": "https://example.com:8443/x"}, "http:example.com:8443"),
        ({"type": "http", "url": "https://[2001:db8::1]/x"}, "http:2001:db8::1:443"),
        ({"type": "lambda", "functionName": "gnomon-report"}, "lambda:gnomon-report"),
        ({"type": "lambda", "functionName": "gnomon-report:live"}, "lambda:gnomon-report"),
        (
            {"type": "lambda", "functionName": "arn:aws:lambda:eu-central-1:123456789012:function:gnomon-report:live"},
            "lambda:gnomon-report",
        ),
        ({"type": "sqs", "queueUrl": "https://sqs.eu-central-1.amazonaws.com/123456789012/gnomon-q"}, "sqs:gnomon-q"),
        ({"type": "handler", "name": "echo"}, "handler:echo"),
    ],
)
def test_what_shares_a_circuit(target: dict[str, str], key: str) -> None:
    assert target_key(target) == key


def failed(code: str, *, retryable: bool = True) -> TargetAnswer:
    error = ExecutionError(code=code, message="no")
    return TargetAnswer(status=ExecutionStatus.FAILED, error=error, retryable=retryable)


@pytest.mark.parametrize(
    ("answer", "health"),
    [
        (TargetAnswer(status=ExecutionStatus.COMPLETED), Health.UP),
        (TargetAnswer(status=ExecutionStatus.TIMED_OUT), Health.DOWN),
        (failed("HTTP_503"), Health.DOWN),
        (failed("HTTP_429"), Health.DOWN),
        (failed("NETWORK_ERROR"), Health.DOWN),
        (failed("HANDLER_ERROR:ValueError"), Health.DOWN),
        (failed("HTTP_404", retryable=False), Health.UP),
        (failed("HANDLER_ERROR:NonRetryable", retryable=False), Health.UP),
        (failed("PAYLOAD_ERROR", retryable=False), Health.UNKNOWN),
    ],
)
def test_what_counts_as_a_failure_of_the_target(answer: TargetAnswer, health: Health) -> None:
    assert health_of(answer) is health
