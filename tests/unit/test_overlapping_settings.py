"""Two settings that speak of the same thing, both set: which one counts (docs/job-lifecycle.md, docs/http-api.md)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.circuit import CircuitPolicy
from functions.domain.concurrency import limits_of, place_of
from functions.domain.decision import Drop, Write
from functions.domain.definition import Definition, MisfirePolicy, OverlapPolicy, Priority
from functions.domain.dispatch import decide_hint
from functions.domain.ids import slot_id
from functions.domain.job_type import TypeConfig
from functions.domain.retry import Failure, RetryPolicy
from functions.domain.run import RunState
from functions.domain.schedule import Schedule
from tests.driver import middle
from tests.factories import JOB_ID, NOW, make_definition, make_document, make_hint, make_job, make_run

# --- which errors are retried ---

A, B, ANY = "HANDLER_ERROR:A", "HANDLER_ERROR:B", "HANDLER_ERROR"


@pytest.mark.parametrize(
    ("retryable", "never", "retried"),
    [
        # The list of what is never retried counts more, whichever of the two is more exact.
        ([A], [A], {A: False, B: False, "TIMEOUT": False}),
        ([ANY], [A], {A: False, B: True, "TIMEOUT": False}),
        ([A], [ANY], {A: False, B: False, "TIMEOUT": False}),
        ([A, "TIMEOUT"], [A], {A: False, B: False, "TIMEOUT": True}),
        ([A, B], [], {A: True, B: True, "TIMEOUT": False}),
        ([], [A], {A: False, B: True, "TIMEOUT": True}),
        ([], [], {A: True, B: True, "TIMEOUT": True}),
    ],
)
def test_what_is_never_retried_counts_more(retryable: list[str], never: list[str], retried: dict[str, bool]) -> None:
    policy = RetryPolicy.read({"retryableErrors": retryable, "nonRetryableErrors": never})
    assert {code: policy.allows(code) for code in retried} == retried


@pytest.mark.parametrize("listed", [[], ["HTTP_404"]])
def test_what_is_final_by_nature_is_not_made_retryable(listed: list[str]) -> None:
    policy = RetryPolicy.read({"retryableErrors": listed})
    assert decided(policy, Failure("HTTP_404", retryable=False)) == (None, "NOT_RETRYABLE")


# --- when a retry starts ---


def decided(policy: RetryPolicy, failure: Failure, *, attempt: int = 1, limit: int = 4, late: int = 0) -> Any:
    """Seconds from the failure to the retry, and the reason."""
    now = NOW + late
    at, reason = policy.decide(failure, attempt=attempt, attempt_limit=limit, slot=NOW, now=now, uniform=middle)
    return (None if at is None else at - now), reason


FIXED = {"backoffStrategy": "fixed", "jitter": 0}


@pytest.mark.parametrize(
    ("config", "retry_after", "expected"),
    [
        # Retry-After against the delay, the maximum and the window.
        ({"initialDelaySeconds": 10, "maxDelaySeconds": 300}, 5, (10, "RETRY_SCHEDULED")),
        ({"initialDelaySeconds": 10, "maxDelaySeconds": 300}, 200, (200, "RETRY_SCHEDULED")),
        ({"initialDelaySeconds": 10, "maxDelaySeconds": 30}, 200, (30, "RETRY_SCHEDULED")),
        ({"initialDelaySeconds": 50, "maxDelaySeconds": 30}, 5, (30, "RETRY_SCHEDULED")),
        ({"initialDelaySeconds": 10, "retryWindowSeconds": 100}, 200, (None, "RETRY_WINDOW_OVER")),
        # The maximum keeps the retry within the window.
        ({"initialDelaySeconds": 10, "maxDelaySeconds": 30, "retryWindowSeconds": 100}, 200, (30, "RETRY_SCHEDULED")),
        ({"initialDelaySeconds": 10, "retryWindowSeconds": 10}, 0, (10, "RETRY_SCHEDULED")),
        ({"initialDelaySeconds": 11, "retryWindowSeconds": 10}, 0, (None, "RETRY_WINDOW_OVER")),
    ],
)
def test_what_a_target_asks_for_stays_within_the_jobs_limits(
    config: dict[str, Any], retry_after: int, expected: tuple[int | None, str]
) -> None:
    policy = RetryPolicy.read({**FIXED, **config})
    assert decided(policy, Failure("HTTP_503", retry_after=retry_after)) == expected


@pytest.mark.parametrize(
    ("attempt", "late", "expected"),
    [
        (3, 50, (10, "RETRY_SCHEDULED")),
        (4, 50, (None, "RETRIES_EXHAUSTED")),
        (3, 95, (None, "RETRY_WINDOW_OVER")),
        (4, 95, (None, "RETRIES_EXHAUSTED")),
    ],
)
def test_retries_end_by_their_number_or_their_window(attempt: int, late: int, expected: tuple[int | None, str]) -> None:
    """Whatever is reached first; the number is named where both are."""
    policy = RetryPolicy.read({**FIXED, "maxRetries": 3, "retryWindowSeconds": 100})
    assert decided(policy, Failure("TIMEOUT"), attempt=attempt, late=late) == expected


@given(
    st.floats(0, 1),
    st.integers(0, 400),
    st.integers(1, 400),
    st.none() | st.integers(0, 400),
    st.floats(0, 1),
)
def test_jitter_and_retry_after_stay_below_the_maximum(
    jitter: float, initial: int, most: int, asked: int | None, place: float
) -> None:
    policy = RetryPolicy(
        initial_delay_seconds=initial, max_delay_seconds=most, jitter=jitter, max_retries=5, multiplier=2.0
    )
    for retry in range(1, 6):
        delay = policy.delay(retry, uniform=lambda low, high: low + (high - low) * place, retry_after=asked)
        assert 1 <= delay <= most
        assert delay >= min(asked or 0, most)


# --- the job's settings, its type's, the stage's ---

FIELDS: dict[str, tuple[Any, Any, Any]] = {
    "maxRetries": (1, 2, 3),
    "backoffStrategy": ("fixed", "linear", "exponential"),
    "initialDelaySeconds": (11, 12, 13),
    "maxDelaySeconds": (21, 22, 23),
    "multiplier": (1.5, 2.5, 3.5),
    "jitter": (0.1, 0.3, 0.5),
    "retryableErrors": (["A"], ["B"], ["C"]),
    "nonRetryableErrors": (["D"], ["E"], ["F"]),
    "retryWindowSeconds": (31, 32, 33),
    "poisonDetection": (True, False, True),
}
"""By field: what the job says, its type, the stage; no two alike where there are three values."""


def under(job: dict[str, Any], kind: dict[str, Any], stage: dict[str, Any]) -> RetryPolicy:
    """The policy of a job whose type has the configuration `kind`, over the defaults of the stage."""
    document = make_document(**({"retryConfig": job} if job else {}))
    definition = Definition.read(document, "{}", job_id=JOB_ID, created_at=NOW)
    return definition.under(TypeConfig(retry=kind).over(TypeConfig(retry=stage))).retry


@pytest.mark.parametrize("field", list(FIELDS))
@pytest.mark.parametrize(("has_job", "has_type"), list(product([True, False], repeat=2)))
def test_each_field_of_retries_is_the_jobs_else_its_types_else_the_stages(
    field: str, has_job: bool, has_type: bool
) -> None:
    job, kind, stage = FIELDS[field]
    expected = job if has_job else kind if has_type else stage
    found = under({field: job} if has_job else {}, {field: kind} if has_type else {}, {field: stage})
    assert found == RetryPolicy.read({field: expected})


@pytest.mark.parametrize("field", list(FIELDS))
def test_a_field_that_the_job_sets_leaves_the_others_to_its_type(field: str) -> None:
    kind = {name: values[1] for name, values in FIELDS.items()}
    assert under({field: FIELDS[field][0]}, kind, {}) == RetryPolicy.read({**kind, field: FIELDS[field][0]})


STAGE_CIRCUIT = CircuitPolicy(failure_threshold=3, open_seconds=40, success_threshold=2)
HOST = "http:example.com:443"


def circuit_under(mine: dict[str, Any] | None, kind: dict[str, int] | None, *shared: str) -> CircuitPolicy | None:
    definition = Definition.read(make_document(circuitBreaker=mine), "{}", job_id=JOB_ID, created_at=NOW)
    stage = TypeConfig(stage_circuit=STAGE_CIRCUIT, shared_circuits=frozenset(shared))
    return definition.under(TypeConfig(circuit_breaker=kind).over(stage)).circuit


@pytest.mark.parametrize("mine", [None, {}, {"enabled": True}, {"failureThreshold": 7, "openSeconds": 1}])
@pytest.mark.parametrize("kind", [{}, {"failureThreshold": 9}, {"openSeconds": 90, "failureThreshold": 9}])
def test_each_threshold_of_a_circuit_is_its_types_else_the_stages(
    mine: dict[str, Any] | None, kind: dict[str, int]
) -> None:
    """Thresholds that the release before kept in jobs count no more."""
    expected = {"failureThreshold": 3, "openSeconds": 40, "successThreshold": 2} | kind
    circuit = circuit_under(mine, kind)
    assert circuit is not None
    assert (circuit.failure_threshold, circuit.open_seconds, circuit.success_threshold) == tuple(expected.values())
    assert not circuit.shared


@pytest.mark.parametrize("kind", [None, {}, {"openSeconds": 90}])
@pytest.mark.parametrize(
    ("mine", "has_one"), [(None, None), ({}, True), ({"enabled": True}, True), ({"enabled": False}, False)]
)
def test_a_job_says_whether_it_has_a_circuit_else_its_type(
    mine: dict[str, Any] | None, has_one: bool | None, kind: dict[str, int] | None
) -> None:
    expected = kind is not None if has_one is None else has_one
    assert (circuit_under(mine, kind) is not None) == expected
    assert (circuit_under(mine, kind, HOST) is not None) == expected, "the stage shares circuits, it asks for none"


@pytest.mark.parametrize("kind", [None, {"openSeconds": 90}])
def test_a_shared_circuit_follows_the_stage_whatever_the_type_says(kind: dict[str, int] | None) -> None:
    assert circuit_under({}, kind, "http:other.example.com:443", HOST) == replace(STAGE_CIRCUIT, shared=True)


# --- where a schedule begins and ends ---


def slots(**document: Any) -> list[int]:
    schedule = Schedule.read(make_document(**document), job_id=JOB_ID, created_at=NOW)
    found, at = [], NOW - 1
    while (slot := schedule.next_after(at)) is not None and len(found) < 20:
        found.append(slot)
        at = slot
    assert schedule.count(NOW, NOW + 100_000) >= len(found)
    return [slot - NOW for slot in found]


FROM, UNTIL = "2027-01-15T08:02:00Z", "2027-01-15T08:05:00Z"
MINUTELY = {"schedule": {"type": "cron", "expression": "* * * * *"}}
EVERY_50 = {"schedule": {"type": "interval", "everySeconds": 50}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({**MINUTELY, "startAt": FROM, "endAt": UNTIL}, [120, 180, 240, 300]),
        ({**MINUTELY, "startAt": FROM, "endAt": FROM}, [120]),
        ({**EVERY_50, "startAt": FROM, "endAt": UNTIL}, [120, 170, 220, 270]),
        ({**EVERY_50, "endAt": UNTIL}, [50, 100, 150, 200, 250, 300]),
        # The spread moves starts, and no slot: the end is one of slots.
        ({**MINUTELY, "startAt": FROM, "endAt": UNTIL, "spreadSeconds": 60}, [120, 180, 240, 300]),
    ],
)
def test_slots_lie_between_start_and_end(document: dict[str, Any], expected: list[int]) -> None:
    assert slots(**document) == expected


@pytest.mark.parametrize(("most", "starts"), [(2, 2), (4, 4), (9, 4)])
def test_a_job_ends_by_its_number_of_runs_or_its_end(most: int, starts: int) -> None:
    document = {**MINUTELY, "startAt": FROM, "endAt": UNTIL, "maxRuns": most, "overlapPolicy": "allow"}
    job, begun = make_job(document=document, next_slot=NOW + 120), 0
    while job.next_slot is not None:
        found = decide_hint(job, make_hint(slot_id=slot_id(job.next_slot)), now=job.next_slot, write_id="w")
        assert isinstance(found, Write)
        job, begun = found.job, begun + 1
    assert (begun, job.starts) == (starts, starts)


def test_a_slot_that_is_skipped_is_no_run() -> None:
    document = {**MINUTELY, "maxRuns": 2, "misfirePolicy": "skip"}
    job = make_job(document=document, next_slot=NOW)
    found = decide_hint(job, make_hint(), now=NOW + 200, write_id="w")
    assert isinstance(found, Write)
    assert (found.reason, found.job.starts, found.job.next_slot is not None) == ("MISFIRE", 0, True)


# --- late, and beside another run ---


@pytest.mark.parametrize(("overlap", "misfire"), list(product(OverlapPolicy, MisfirePolicy)))
@pytest.mark.parametrize("late", [0, 3_000])
def test_beside_another_run_the_overlap_policy_decides_alone(
    overlap: OverlapPolicy, misfire: MisfirePolicy, late: int
) -> None:
    """However late the slot is; without another run the misfire policy decides alone (docs/job-lifecycle.md)."""
    document = {"overlapPolicy": overlap.value, "misfirePolicy": misfire.value}
    active = {slot_id(NOW - 60): make_run(lease_expires_at=NOW + 9_000)}
    beside = make_job(document=document, next_slot=NOW, runs=active, fence=1)
    found = decide_hint(beside, make_hint(), now=NOW + late, write_id="w")
    assert isinstance(found, Write)
    reasons = {OverlapPolicy.SKIP: "OVERLAP", OverlapPolicy.QUEUE: "QUEUED", OverlapPolicy.ALLOW: "STARTED"}
    assert found.reason == reasons[overlap]
    assert found.job.next_slot == NOW + 60, "slot by slot"

    alone = decide_hint(make_job(document=document, next_slot=NOW), make_hint(), now=NOW + late, write_id="w")
    assert isinstance(alone, Write)
    assert alone.reason == ("MISFIRE" if late and misfire is MisfirePolicy.SKIP else "STARTED")


@pytest.mark.parametrize(("paused", "manual"), list(product([True, False], repeat=2)))
def test_a_pause_holds_what_no_caller_asked_for(paused: bool, manual: bool) -> None:
    run = make_run(state=RunState.WAITING, manual=manual, due_at=NOW)
    job = make_job(next_slot=None, paused=paused, runs={slot_id(NOW): run})
    found = decide_hint(job, make_hint(), now=NOW, write_id="w")
    assert isinstance(found, Drop) == (paused and not manual)


# --- limits ---


def test_a_jobs_key_and_its_types_limit_both_count() -> None:
    document = make_document(concurrencyKey="db", maxConcurrency=2, type="billing")
    definition = Definition.read(document, "{}", job_id=JOB_ID, created_at=NOW).under(TypeConfig(max_concurrency=3))
    job = make_job(definition=definition)
    assert [(limit.key, limit.most) for limit in limits_of(job)] == [("key:team-a|db", 2), ("type:billing", 3)]
    alone = make_job(definition=make_definition(concurrencyKey="db", maxConcurrency=2))
    assert [limit.key for limit in limits_of(alone)] == ["key:team-a|db"]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((Priority.HIGH, NOW + 3_599), (Priority.NORMAL, NOW)),
        ((Priority.NORMAL, NOW), (Priority.HIGH, NOW + 3_601)),
        ((Priority.NORMAL, NOW + 3_599), (Priority.LOW, NOW)),
        ((Priority.LOW, NOW), (Priority.HIGH, NOW + 7_201)),
        ((Priority.LOW, NOW), (Priority.LOW, NOW + 1)),
    ],
)
def test_priority_counts_until_another_has_waited_an_hour_longer(
    first: tuple[Priority, int], then: tuple[Priority, int]
) -> None:
    assert place_of(*first) < place_of(*then)
