"""Claims, heartbeats and reports: what each means for the row."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from functions.domain.claims import (
    Held,
    Holder,
    decide_accept,
    decide_claim,
    decide_extend,
    is_same_report,
    no_longer_offered,
    no_report,
    report_mark,
)
from functions.domain.decision import Drop, Due, Overdue, Resend, Wait, Write
from functions.domain.dispatch import decide_hint
from functions.domain.ending import decide_end, judge
from functions.domain.execution import Execution, ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.ids import ExecutionKey, slot_id
from functions.domain.job import Job
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.run import RunState
from functions.jobs import Run
from tests.driver import middle
from tests.factories import JOB_ID, NOW, make_definition, make_execution, make_job, make_run

SLOT = slot_id(NOW)
KEY = ExecutionKey(JOB_ID, SLOT, 1)
WAITS = "worker:team-a/reports"
WORKER = {"target": {"type": "worker", "queue": "reports"}}
HOLDER = Holder(worker_id="w1", fence=4)


def offered(**changes: Any) -> Job:
    run = make_run(state=RunState.WAITING, waits_for=WAITS, deferrals=1, deferred_for="WAITS_FOR_WORKER", **changes)
    return make_job(document={"timeoutSeconds": 300, **WORKER}, runs=MappingProxyType({SLOT: run}), fence=3)


def claim(job: Job, *, key: ExecutionKey = KEY, now: float = NOW + 5.2, **changes: Any) -> Any:
    given = {"worker_id": "w1", "queues": ("reports",), "write_id": "mark"} | changes
    return decide_claim(job, key, now=now, **given)


def held(**changes: Any) -> Job:
    run = make_run(worker_id="w1", fence=4, lease_expires_at=NOW + 90, deadline_at=NOW + 300, **changes)
    return make_job(document={"timeoutSeconds": 300, **WORKER}, runs=MappingProxyType({SLOT: run}), fence=4)


def test_a_claim_starts_the_attempt_for_the_worker() -> None:
    decision = claim(offered())

    assert isinstance(decision, Write)
    run = decision.job.runs[SLOT]
    assert (run.state, run.attempt, run.fence, run.worker_id) == (RunState.RUNNING, 1, 4, "w1")
    assert (run.lease_expires_at, run.deadline_at) == (NOW + 6 + 90, NOW + 6 + 300)
    assert (run.started_by, run.started_at, run.waits_for) == ("mark", NOW + 5.2, None)
    assert (run.deferrals, run.deferred_for) == (1, "WAITS_FOR_WORKER")
    assert decision.job.fence == 4
    assert decision.hints == (Due(SLOT, 1, NOW + 6 + 300 + 4),), "the hint of its deadline, and of what follows it"
    assert decision.job.attention_at is not None
    assert decision.job.attention_at <= NOW + 96


def test_a_lease_ends_fifteen_seconds_after_the_deadline_at_the_latest() -> None:
    job = replace(offered(), definition=make_definition(timeoutSeconds=20, **WORKER))

    run = claim(job).job.runs[SLOT]

    assert (run.lease_expires_at, run.deadline_at) == (NOW + 6 + 35, NOW + 6 + 20)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"runs": MappingProxyType({})}, "GONE"),
        ({"cancelled": True}, "GONE"),
        ({"paused": True}, "PAUSED"),
        ({"definition": make_definition(target={"type": "worker", "queue": "other"})}, "NOT_OFFERED"),
        ({"definition": make_definition()}, "NOT_OFFERED"),
        ({"owner": "team-b"}, "NOT_OFFERED"),
        ({"brake_minute": NOW // 60, "brake_count": 300}, "BRAKE"),
    ],
)
def test_what_cannot_be_claimed_is_passed_over(change: dict[str, Any], reason: str) -> None:
    assert claim(replace(offered(), **change)) == Drop(reason)


@pytest.mark.parametrize("queues", [(), ("other",)])
def test_a_worker_claims_from_its_queues_only(queues: tuple[str, ...]) -> None:
    assert claim(offered(), queues=queues) == Drop("NOT_OFFERED")


def test_an_attempt_is_claimed_once() -> None:
    taken = claim(offered()).job

    assert claim(taken, worker_id="w2") == Drop("TAKEN")
    assert claim(taken) == Held(taken)
    assert claim(taken, queues=()) == Held(taken), "what a worker holds is its own, drained or not"
    assert claim(offered(), key=ExecutionKey(JOB_ID, SLOT, 2)) == Drop("TAKEN")


def test_a_waiting_run_of_another_kind_is_not_claimed() -> None:
    assert claim(make_job(document=WORKER, runs=MappingProxyType({SLOT: make_run(state=RunState.WAITING)}))) == Drop(
        "NOT_OFFERED"
    )


def test_a_retry_after_its_window_ends_the_run() -> None:
    definition = make_definition(retryConfig={"retryWindowSeconds": 60}, **WORKER)
    job = replace(offered(attempt=1), definition=definition)

    decision = claim(job, key=ExecutionKey(JOB_ID, SLOT, 2), now=NOW + 62)

    assert isinstance(decision, Write)
    assert (decision.starts, decision.ends) == (None, SLOT)


def test_a_heartbeat_prolongs_the_lease_and_leaves_attention_alone() -> None:
    job = replace(held(), attention_at=NOW + 90)

    decision = decide_extend(job, KEY, HOLDER, now=NOW + 30.5)

    assert isinstance(decision, Write)
    assert decision.job.runs[SLOT].lease_expires_at == NOW + 31 + 90
    assert decision.job.attention_at == NOW + 90
    assert decision.job.fence == 4


def test_no_heartbeat_holds_beyond_the_deadline() -> None:
    job = held()
    job = replace(job, runs=MappingProxyType({SLOT: replace(job.runs[SLOT], lease_expires_at=NOW + 300)}))

    extended = decide_extend(job, KEY, HOLDER, now=NOW + 290)
    assert isinstance(extended, Write)
    assert extended.job.runs[SLOT].lease_expires_at == NOW + 315
    assert decide_extend(extended.job, KEY, HOLDER, now=NOW + 301.9) == Held(extended.job)
    assert decide_extend(extended.job, KEY, HOLDER, now=NOW + 302) == Drop("TIMED_OUT")


@pytest.mark.parametrize(
    "holder", [Holder(worker_id="w2", fence=4), Holder(worker_id="w1", fence=3), Holder(token="own"), Holder()]
)
def test_only_the_holder_prolongs(holder: Holder) -> None:
    assert decide_extend(held(started_by="own"), KEY, holder, now=NOW + 30) == Drop("LOST")


def test_a_lease_that_is_over_stays_over() -> None:
    assert decide_extend(held(), KEY, HOLDER, now=NOW + 90) == Drop("LOST")


def test_a_token_is_in_no_line_that_shows_its_bearer() -> None:
    invocation = Invocation(
        job_id=JOB_ID,
        owner="team-a",
        slot_id=SLOT,
        run_id="r",
        execution_id="e",
        attempt=1,
        scheduled_for=NOW,
        payload="null",
        timeout_seconds=60,
        callback_token="one-time",
    )
    run = Run(job_id=JOB_ID, run_id="r", attempt=1, scheduled_for="", callback_token="one-time")

    assert "one-time" not in f"{Holder(token='one-time')} {invocation} {run}"


def test_a_token_is_for_callbacks_only() -> None:
    callback = make_run(started_by="own", deadline_at=NOW + 60)
    assert Holder(token="own").holds(callback)
    assert not Holder(token="other").holds(callback)
    assert not Holder(token="").holds(replace(callback, started_by=None))
    assert not Holder(token="own").holds(make_run(started_by="own")), "the answer of the call is its outcome"
    assert not Holder(worker_id=None, fence=1).holds(callback)


def test_the_same_report_is_known_again() -> None:
    answer = TargetAnswer(status=ExecutionStatus.COMPLETED, result="1")
    stored = make_execution(worker_id="w1", fence=4, result="1")
    assert is_same_report(stored, HOLDER, answer)
    assert not is_same_report(stored, Holder(worker_id="w2", fence=4), answer)
    assert not is_same_report(stored, Holder(worker_id="w1", fence=5), answer)
    assert not is_same_report(stored, HOLDER, replace(answer, result="2"))
    by_token = make_execution(result="1", write_id=report_mark("own"))
    assert is_same_report(by_token, Holder(token="own"), answer)
    assert not is_same_report(by_token, Holder(token="other"), answer)
    assert not is_same_report(make_execution(result="1", worker_id=None), Holder(), answer)


def test_the_end_of_an_attempt_takes_worker_and_deadline_from_the_run() -> None:
    failed = make_execution(status=ExecutionStatus.FAILED, final=False, next_retry_at=NOW + 40, fence=4)

    decision = decide_end(held(), failed, fence=4, now=NOW + 9)

    assert isinstance(decision, Write)
    run = decision.job.runs[SLOT]
    assert (run.worker_id, run.deadline_at, run.lease_expires_at) == (None, None, None)


def test_another_target_releases_what_waits_for_workers() -> None:
    job, hints = no_longer_offered(offered(), make_definition(), now=NOW + 9)
    assert hints == (Due(SLOT, 1, NOW + 9),)
    assert (job.runs[SLOT].waits_for, job.runs[SLOT].due_at) == (None, NOW + 9)
    other = make_definition(target={"type": "worker", "queue": "other"})
    assert no_longer_offered(offered(), other, now=NOW + 9)[1] == hints
    same = make_definition(name="another", **WORKER)
    waiting = offered()
    assert no_longer_offered(waiting, same, now=NOW + 9) == (waiting, ())
    assert no_longer_offered(replace(offered(), paused=True), other, now=NOW + 9)[1] == ()


CALLBACK = {"completion": "callback", "timeoutSeconds": 120}


def test_a_callback_attempt_starts_with_the_hint_of_its_deadline() -> None:
    job = make_job(document={"schedule": {"type": "once", "at": "2027-01-15T08:00:00Z"}, **CALLBACK}, next_slot=NOW)

    decision = decide_hint(job, Hint(JOB_ID, SLOT, 1), now=NOW + 0.5, write_id="mark")

    assert isinstance(decision, Write)
    run = decision.job.runs[SLOT]
    assert (run.deadline_at, run.worker_id) == (NOW + 121, None)
    assert run.lease_expires_at == NOW + 1 + 60 + 15, "for the call alone"
    assert decision.hints == (Due(SLOT, 1, NOW + 121 + 4),)


def test_a_waiting_callback_attempt_starts_with_it_too() -> None:
    job = make_job(document=CALLBACK, runs=MappingProxyType({SLOT: make_run(state=RunState.WAITING, attempt=1)}))

    decision = decide_hint(job, Hint(JOB_ID, SLOT, 2), now=NOW, write_id="mark")

    assert isinstance(decision, Write)
    assert decision.hints == (Due(SLOT, 2, NOW + 120 + 4),)


@pytest.mark.parametrize(("document", "worker_id"), [(CALLBACK, None), ({"timeoutSeconds": 120, **WORKER}, "w1")])
def test_the_deadline_ends_an_attempt_that_waits_for_a_report(document: dict[str, Any], worker_id: str | None) -> None:
    run = make_run(deadline_at=NOW + 120, worker_id=worker_id)
    job = make_job(document=document, runs=MappingProxyType({SLOT: run}))

    def hint(now: float, attempt: int = 1) -> Any:
        return decide_hint(job, Hint(JOB_ID, SLOT, attempt), now=now, write_id="mark")

    assert hint(NOW + 124) == Overdue(SLOT, job)
    assert hint(NOW + 123) == Wait(1)
    assert hint(NOW + 120) == Resend(NOW + 124), "as the release before sent it: at the deadline"
    assert hint(NOW + 124, attempt=2) == Drop("NOT_WAITING")


def test_the_hint_of_an_earlier_claim_ends_nothing() -> None:
    job = held(attempt=2)

    for attempt in (1, 3):
        assert decide_hint(job, Hint(JOB_ID, SLOT, attempt), now=NOW + 999, write_id="mark") == Drop("NOT_WAITING")


def test_the_hint_of_a_start_that_comes_twice_ends_nothing() -> None:
    job = make_job(runs=MappingProxyType({SLOT: make_run()}))

    assert decide_hint(job, Hint(JOB_ID, SLOT, 1), now=NOW + 60, write_id="mark") == Drop("NOT_WAITING")


def test_a_time_out_is_retried_by_the_rules() -> None:
    def ended(job: Job) -> Execution:
        return judge(job, SLOT, no_report(job), before=(), now=NOW + 301, write_id="m", uniform=middle)

    execution = ended(held())
    assert (execution.status, execution.final, execution.next_retry_at) == (ExecutionStatus.TIMED_OUT, False, NOW + 311)
    assert execution.error is not None
    assert (execution.error.code, execution.worker_id) == ("TIMEOUT", "w1")
    strict = make_definition(retryConfig={"nonRetryableErrors": ["TIMEOUT"]}, **WORKER)
    assert ended(replace(held(), definition=strict)).final


def called(**changes: Any) -> Job:
    """A callback attempt in its call."""
    given = {"fence": 4, "lease_expires_at": NOW + 75, "deadline_at": NOW + 7_200, "started_by": "own"}
    run = make_run(**given | changes)
    return make_job(document={**CALLBACK, "timeoutSeconds": 7_200}, runs=MappingProxyType({SLOT: run}), fence=4)


def accept(job: Job, *, fence: int = 4, attempt: int = 1, now: float = NOW + 3.5) -> Any:
    return decide_accept(job, ExecutionKey(JOB_ID, SLOT, attempt), fence=fence, now=now)


def test_an_acceptance_gives_the_target_until_the_deadline_and_leaves_attention_alone() -> None:
    job = replace(called(), attention_at=NOW + 30)

    decision = accept(job)

    assert isinstance(decision, Write)
    assert (decision.reason, decision.hints, decision.starts) == ("ACCEPTED", (), None)
    expected = replace(job.runs[SLOT], lease_expires_at=NOW + 7_215)
    assert decision.job == replace(job, runs=MappingProxyType({SLOT: expected}))
    assert accept(decision.job) == Held(decision.job), "once"


def test_an_acceptance_is_needed_where_the_lease_of_the_call_ends_first() -> None:
    job = called(deadline_at=NOW + 60)
    assert accept(job) == Held(job)
    assert isinstance(accept(called(deadline_at=NOW + 61)), Write)


@pytest.mark.parametrize(
    ("run", "about", "reason"),
    [
        ({}, {"fence": 3}, "LOST"),
        ({}, {"attempt": 2}, "LOST"),
        ({"state": RunState.WAITING}, {}, "LOST"),
        ({"deadline_at": None}, {}, "LOST"),
        ({}, {"now": NOW + 74.9}, None),
        ({}, {"now": NOW + 75}, "LOST"),
        ({"lease_expires_at": NOW + 75, "deadline_at": NOW + 61}, {"now": NOW + 63}, "TIMED_OUT"),
    ],
)
def test_only_what_is_held_under_this_start_is_accepted(
    run: dict[str, Any], about: dict[str, Any], reason: str | None
) -> None:
    decision = accept(called(**run), **about)
    assert isinstance(decision, Write) if reason is None else decision == Drop(reason)


def test_what_a_worker_held_is_not_claimed_again_once_its_lease_is_over() -> None:
    taken = claim(offered()).job
    lease = taken.runs[SLOT].lease_expires_at or 0

    assert claim(taken, now=lease - 0.1) == Held(taken)
    assert claim(taken, now=lease) == Drop("LOST")
    assert claim(taken, now=(taken.runs[SLOT].deadline_at or 0) + 2) == Drop("TIMED_OUT")
