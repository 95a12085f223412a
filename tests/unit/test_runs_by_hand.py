"""Runs that a caller asks for beside the job's own: neither takes the other away, and one waits for the other."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.claims import decide_claim
from functions.domain.commands import decide_execute, decide_pause, decide_retry
from functions.domain.decision import Drop, Due, Write
from functions.domain.definition import OverlapPolicy
from functions.domain.dispatch import decide_hint, worker_queue
from functions.domain.ending import released
from functions.domain.errors import ConflictError, GnomonError
from functions.domain.execution import ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.ids import ExecutionKey, is_manual, slot_id
from functions.domain.instants import rfc3339
from functions.domain.job import Gap, Job, JobStatus, SkipReason
from functions.domain.run import APPROVAL, LastRun, Outcome, RunState
from functions.usecases.actions import execute_job, pause_job, resume_job, retry_job
from functions.usecases.cancelling import cancel_execution
from tests.consumers import BusyDriver
from tests.driver import SCHEDULER
from tests.factories import JOB_ID, NOW, make_job, make_run
from tests.fakes import FakeClock, World
from tests.flows import FAILED, OK

OWN = NOW + 60
SLOT = slot_id(OWN)
MANUAL = f"{NOW}mabcdefgh"
LAST: dict[str, dict[str, Any]] = {
    "one-time": {"schedule": {"type": "once", "at": rfc3339(OWN)}},
    "its last by endAt": {"schedule": {"type": "interval", "everySeconds": 60}, "endAt": rfc3339(OWN)},
    "its last by maxRuns": {"schedule": {"type": "interval", "everySeconds": 60}, "maxRuns": 1},
}


def driven(seconds: float, *, own: float = 1.0, **options: Any) -> BusyDriver:
    """A driver whose runs by hand last `seconds`, and the others `own`."""
    return BusyDriver(
        lambda invocation: seconds if is_manual(invocation.slot_id) else own,
        world=World(clock=FakeClock(NOW)),
        **options,
    )


def execute(driver: BusyDriver, job: Job) -> Job:
    return execute_job(driver.services, SCHEDULER, job.id)


@pytest.mark.parametrize("misfire", ["run_once", "skip", "run_all"])
@pytest.mark.parametrize("policy", ["skip", "queue", "allow"])
@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize(("before", "lasts"), [(1, 20), (30, 100), (55, 280)])
def test_the_last_time_of_a_job_is_not_lost_to_a_run_by_hand(
    last: str, policy: str, misfire: str, before: int, lasts: int
) -> None:
    driver = driven(lasts)
    job = driver.create(**LAST[last], overlapPolicy=policy, misfirePolicy=misfire, timeoutSeconds=300)
    driver.run_until(OWN - before)
    execute(driver, job)
    driver.run_until(OWN + 400)
    ended = {one.slot_id: one for one in driver.executions(job.id)}
    assert {one.status for one in ended.values()} == {ExecutionStatus.COMPLETED}
    (manual,) = [slot for slot in ended if is_manual(slot)]
    assert set(ended) == {manual, SLOT}
    assert driver.row(job.id).status is JobStatus.COMPLETED
    assert driver.row(job.id).gap is None
    began, over = ended[SLOT].started_at or 0, ended[manual].completed_at
    if policy == "allow":
        assert began - OWN < 3
    else:
        assert driver.most_calling == 1
        assert 0 <= began - over < 3


def test_it_waits_behind_two_runs_by_hand() -> None:
    driver = driven(50)
    job = driver.create(**LAST["one-time"], overlapPolicy="queue")
    driver.run_until(OWN - 10)
    execute(driver, job)
    execute(driver, job)
    driver.run_until(OWN + 300)
    assert [one.status for one in driver.executions(job.id)] == [ExecutionStatus.COMPLETED] * 3
    assert driver.most_calling == 1
    assert driver.row(job.id).gap is None


def test_it_waits_for_the_retries_of_a_run_by_hand_too() -> None:
    answers = [FAILED, FAILED, OK]
    driver = driven(5, answer=lambda call: answers.pop(0) if is_manual(call.slot_id) else OK)
    job = driver.create(
        **LAST["one-time"], retryConfig={"initialDelaySeconds": 40, "jitter": 0, "backoffStrategy": "fixed"}
    )
    driver.run_until(OWN - 10)
    execute(driver, job)
    driver.run_until(OWN + 30)
    waiting = driver.row(job.id)
    assert (waiting.next_slot, waiting.next_waits) == (OWN, True)
    driver.run_until(OWN + 300)
    row = driver.row(job.id)
    assert (row.status, row.last_run and row.last_run.slot_id) == (JobStatus.COMPLETED, SLOT)


def test_a_run_by_hand_that_is_cancelled_lets_it_start() -> None:
    driver = driven(300)
    job = driver.create(**LAST["one-time"], timeoutSeconds=400)
    driver.run_until(OWN - 10)
    execute(driver, job)
    driver.run_until(OWN + 20)
    ((slot, run),) = driver.row(job.id).runs.items()
    cancel_execution(driver.services, SCHEDULER, f"{job.id}-{slot}-{run.attempt:04d}")
    driver.run(5)
    assert [one.slot_id for one in driver.executions(job.id)][-1] == SLOT


def test_a_time_that_is_not_the_last_is_the_overlap_policys() -> None:
    driver = driven(30)
    job = driver.create(schedule={"type": "interval", "everySeconds": 60})
    driver.run_until(OWN - 10)
    execute(driver, job)
    driver.run_until(OWN + 10)
    assert driver.row(job.id).gap == Gap(first=OWN, last=OWN, count=1, reason=SkipReason.OVERLAP)


@pytest.mark.parametrize("policy", ["skip", "queue", "allow"])
def test_the_last_time_is_skipped_where_the_policy_has_no_place_beside_the_jobs_own_runs(policy: str) -> None:
    mine = make_run(fence=2, attempt=1)
    runs = {slot_id(NOW - 60 * number): make_run(fence=number) for number in range(1, 11 if policy == "allow" else 2)}
    if policy == "queue":
        runs[slot_id(NOW)] = make_run(state=RunState.QUEUED, due_at=None)
    job = make_job(
        document={**LAST["its last by endAt"], "overlapPolicy": policy},
        runs={**runs, MANUAL: make_run(manual=True, fence=mine.fence + 50)} if policy != "allow" else runs,
        next_slot=OWN,
    )
    write = decide_hint(job, Hint(JOB_ID, SLOT, 1), now=OWN + 1, write_id="w")
    assert isinstance(write, Write)
    assert (write.reason, write.job.next_slot) == ("OVERLAP", None)


# --- what a pause holds ---

RETRY = {"initialDelaySeconds": 30, "jitter": 0, "backoffStrategy": "fixed"}


def held_retry(policy: str, *, lasts: float = 20, **options: Any) -> tuple[BusyDriver, Job]:
    """A paused job with a run that has failed once and waits for its retry."""
    answers = {0: FAILED}
    driver = driven(lasts, own=10, answer=lambda call: OK if is_manual(call.slot_id) else answers.pop(0, OK), **options)
    job = driver.create(schedule={"type": "interval", "everySeconds": 600}, overlapPolicy=policy, retryConfig=RETRY)
    driver.run_until(NOW + 615)
    assert driver.row(job.id).status is JobStatus.RETRYING
    pause_job(driver.services, SCHEDULER, job.id)
    return driver, job


@pytest.mark.parametrize("policy", ["skip", "queue", "allow"])
def test_a_run_by_hand_starts_at_once_beside_a_retry_that_the_pause_holds(policy: str) -> None:
    driver, job = held_retry(policy)
    execute(driver, job)
    driver.run(25)
    (manual,) = [one for one in driver.executions(job.id) if is_manual(one.slot_id)]
    assert manual.status is ExecutionStatus.COMPLETED
    row = driver.row(job.id)
    assert (row.status, [run.state for run in row.runs.values()]) == (JobStatus.PAUSED, [RunState.WAITING])
    resume_job(driver.services, SCHEDULER, job.id)
    driver.run(60)
    assert driver.row(job.id).runs == {}
    assert [one.status for one in driver.executions(job.id) if one.slot_id == slot_id(NOW + 600)] == [
        ExecutionStatus.FAILED,
        ExecutionStatus.COMPLETED,
    ]


@pytest.mark.parametrize("policy", ["skip", "queue"])
@pytest.mark.parametrize("way", ["resume", "retry"])
def test_the_held_retry_waits_for_the_run_by_hand_when_it_is_let_go_before(policy: str, way: str) -> None:
    driver, job = held_retry(policy, lasts=40)
    execute(driver, job)
    driver.run(15)
    if way == "resume":
        resume_job(driver.services, SCHEDULER, job.id)
    else:
        retry_job(driver.services, SCHEDULER, job.id)
    driver.run(100)
    assert driver.most_calling == 1
    ended = driver.executions(job.id)
    assert [one.status for one in ended if one.final] == [ExecutionStatus.COMPLETED] * 2
    manual, mine = sorted((one for one in ended if one.final), key=lambda one: not is_manual(one.slot_id))
    assert (mine.started_at or 0) - manual.completed_at < 2
    assert driver.row(job.id).runs == {}


def test_a_run_by_hand_that_queued_before_the_pause_starts_with_it() -> None:
    answers = {0: FAILED}
    driver = driven(5, own=10, answer=lambda call: OK if is_manual(call.slot_id) else answers.pop(0, OK))
    job = driver.create(
        schedule={"type": "interval", "everySeconds": 600},
        overlapPolicy="queue",
        retryConfig=RETRY | {"initialDelaySeconds": 300},
    )
    driver.run_until(NOW + 615)
    execute(driver, job)
    assert sorted(run.state for run in driver.row(job.id).runs.values()) == [RunState.QUEUED, RunState.WAITING]
    pause_job(driver.services, SCHEDULER, job.id)
    driver.run(10)
    assert [one.status for one in driver.executions(job.id) if is_manual(one.slot_id)] == [ExecutionStatus.COMPLETED]


def test_a_scheduled_run_that_queues_stays_behind_the_retry_that_the_pause_holds() -> None:
    """Else it would come before the run that it waits for."""
    job = make_job(
        document={"overlapPolicy": "queue"},
        runs={
            slot_id(NOW): make_run(state=RunState.WAITING, attempt=1, due_at=NOW + 500),
            slot_id(NOW + 60): make_run(state=RunState.QUEUED, due_at=None),
        },
    )
    write = decide_pause(job, now=NOW + 70, write_id="w")
    assert isinstance(write, Write)
    assert dict(write.job.runs) == dict(job.runs)
    assert write.hints == ()


def test_who_queues_is_let_go_in_the_order_of_the_slots() -> None:
    runs = {
        slot_id(NOW + 60): make_run(state=RunState.QUEUED, due_at=None),
        slot_id(NOW): make_run(state=RunState.QUEUED, attempt=2, due_at=NOW + 900),
    }
    after = released(make_job(runs=runs), NOW + 100)
    assert (after.runs[slot_id(NOW)].state, after.runs[slot_id(NOW)].due_at) == (RunState.WAITING, NOW + 900)
    assert after.runs[slot_id(NOW + 60)].state is RunState.QUEUED


@pytest.mark.parametrize("policy", list(OverlapPolicy))
def test_a_run_steps_back_while_another_attempt_runs(policy: OverlapPolicy) -> None:
    waiting = make_run(state=RunState.WAITING, attempt=1, due_at=NOW, deferrals=2, deferred_for="BRAKE")
    job = make_job(document={"overlapPolicy": policy}, runs={SLOT: waiting, MANUAL: make_run(manual=True)})
    write = decide_hint(job, Hint(JOB_ID, SLOT, 2), now=NOW + 1, write_id="w")
    assert isinstance(write, Write)
    if policy is OverlapPolicy.ALLOW:
        assert write.starts == SLOT
        return
    assert (write.reason, write.starts, write.hints) == ("QUEUED", None, ())
    assert write.job.runs[SLOT].state is RunState.QUEUED
    assert write.job.attention_at is not None


def test_a_worker_is_not_given_it_either() -> None:
    target = {"target": {"type": "worker", "queue": "q"}}
    offered = make_run(state=RunState.WAITING, attempt=1, due_at=NOW, waits_for=worker_queue("team-a", "q"))
    job = make_job(document=target, runs={SLOT: offered, MANUAL: make_run(manual=True, worker_id="w")})
    claim = {"worker_id": "w", "queues": ("q",), "now": NOW + 1.0, "write_id": "m"}
    assert decide_claim(job, ExecutionKey(JOB_ID, SLOT, 2), **claim) == Drop("NOT_OFFERED")  # type: ignore[arg-type]  # they fit
    alone = make_job(document=target, runs={SLOT: offered})
    assert isinstance(decide_claim(alone, ExecutionKey(JOB_ID, SLOT, 2), **claim), Write)  # type: ignore[arg-type]  # they fit


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (make_run(), "is in its attempt 1: wait for its end, or cancel its execution"),
        (
            make_run(state=RunState.WAITING, attempt=2, due_at=NOW + 500),
            "waits for its retry at 2027-01-15T08:08:20Z: retry the job to start it now",
        ),
        (make_run(state=RunState.WAITING, waits_for=APPROVAL, due_at=NOW + 9), "approve or reject it"),
        (make_run(state=RunState.WAITING, deferrals=1, deferred_for="BRAKE"), "is about to start: wait for its end"),
    ],
    ids=["runs", "retry", "gate", "deferred"],
)
@pytest.mark.parametrize("policy", ["skip", "queue"])
def test_a_refusal_says_what_to_do(run: Any, says: str, policy: str) -> None:
    runs = {SLOT: run} | ({MANUAL: make_run(state=RunState.QUEUED, due_at=None)} if policy == "queue" else {})
    job = make_job(document={"overlapPolicy": policy}, runs=runs)
    with pytest.raises(ConflictError, match=says) as refused:
        decide_execute(job, f"{NOW}mabcdefgi", now=NOW + 10, write_id="w")
    assert f"{JOB_ID}-{SLOT}" in str(refused.value)
    assert f"overlapPolicy {policy}" in str(refused.value) or f"overlapPolicy is {policy}" in str(refused.value)
    job = make_job(
        document={"overlapPolicy": policy},
        runs={SLOT: make_run()},
        last_run=LastRun(
            slot_id=slot_id(NOW - 60), attempt=4, outcome=Outcome.PERMANENTLY_FAILED, fence=1, ended_at=NOW
        ),
    )
    with pytest.raises(ConflictError, match="is in its attempt 1"):
        decide_retry(job, delay=0, now=NOW + 10, write_id="w")


@pytest.mark.parametrize("state", ["retry", "gate", "offered", "deferred"])
@pytest.mark.parametrize("policy", ["skip", "queue"])
def test_nothing_that_the_pause_holds_is_in_the_way(state: str, policy: str) -> None:
    run = {
        "retry": make_run(state=RunState.WAITING, attempt=2, due_at=NOW + 500),
        "gate": make_run(state=RunState.WAITING, waits_for=APPROVAL, due_at=NOW + 9),
        "offered": make_run(state=RunState.WAITING, waits_for="worker:team-a/q"),
        "deferred": make_run(state=RunState.WAITING, deferrals=1, deferred_for="BRAKE"),
    }[state]
    job = make_job(document={"overlapPolicy": policy}, runs={SLOT: run}, paused=True)
    write = decide_execute(job, MANUAL, now=NOW + 10, write_id="w")
    assert write.hints == (Due(MANUAL, 1, NOW + 10),)
    assert write.job.runs[MANUAL].state is RunState.WAITING


@pytest.mark.slow
@given(
    st.sampled_from(["skip", "queue"]),
    st.lists(st.sampled_from(["execute", "pause", "resume", "retry", "wait"]), max_size=12),
    st.lists(st.sampled_from([OK, FAILED]), max_size=12),
    st.integers(1, 25),
)
@settings(max_examples=60, deadline=None)
def test_one_attempt_runs_at_a_time_whatever_is_asked_for(
    policy: str, acts: list[str], answers: list[Any], lasts: int
) -> None:
    driver = BusyDriver(
        lambda _: lasts, answer=lambda _: answers.pop(0) if answers else OK, world=World(clock=FakeClock(NOW))
    )
    job = driver.create(
        schedule={"type": "interval", "everySeconds": 45},
        overlapPolicy=policy,
        retryConfig=RETRY | {"initialDelaySeconds": 20},
    )
    driver.run(50)
    for act in acts:
        with contextlib.suppress(GnomonError):
            {
                "execute": execute_job,
                "pause": pause_job,
                "resume": resume_job,
                "retry": retry_job,
                "wait": lambda *_: None,
            }[act](driver.services, SCHEDULER, job.id)
        driver.run(7)
    driver.run(900)
    assert driver.most_calling <= 1
    row = driver.row(job.id)
    assert all(row.holds(run) or run.state is not RunState.QUEUED for run in row.runs.values()) or row.goes_on
