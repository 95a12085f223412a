"""Everything Gnomon does to a job, as short flows with known ends: run whole, or stopped after any single step."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from functions.domain.errors import GnomonError
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus, SkippedSlots
from functions.domain.idempotency import IdempotencyKey
from functions.domain.ids import is_dependent, is_manual, is_scheduled, run_id, slot_id, slot_instant
from functions.domain.job import JobStatus
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.run import Decision, RunState
from functions.usecases.actions import execute_job, pause_job, resume_job, retry_job
from functions.usecases.approvals import GateDecision, decide_run
from functions.usecases.cancelling import cancel_execution, cancel_job, delete_job
from functions.usecases.jobs import JobDraft, change_job, create_job
from tests.driver import ADMIN, SCHEDULER, Driver
from tests.factories import NOW, make_document
from tests.working import FlowWorker, LateReports

LEASE = 60 + 15
PROMISE = LEASE + 120
"""Seconds by which a lost thing is late at most: lease + 2 minutes (docs/architecture.md)."""
SETTLE = 900
"""Seconds after which nothing of a flow is under way any more, whatever died in it."""
ONCE = {"type": "once", "at": "2027-01-15T08:00:10Z"}
AT = NOW + 10
MINUTELY = {"type": "cron", "expression": "* * * * *"}
NO_JITTER = {"initialDelaySeconds": 10, "backoffStrategy": "fixed", "jitter": 0}

OK = TargetAnswer(status=ExecutionStatus.COMPLETED, result="true")
LONG = TargetAnswer(status=ExecutionStatus.COMPLETED, result=f'"{"x" * 200}"')
"""Too long for the job's row."""
FAILED = TargetAnswer(
    status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_503", message="503 Service Unavailable")
)


@dataclass(frozen=True)
class Flow:
    name: str
    run: Callable[[Driver], str]
    """Does it all and returns the job's id; every request is repeated once if its function died."""
    status: JobStatus
    outcomes: dict[int, str] = field(default_factory=dict)
    """Scheduled slot, in seconds after NOW, to its final status or SKIPPED."""
    manual: tuple[str, ...] = ()
    """Final statuses of the manual runs."""
    dependent: tuple[str, ...] = ()
    """Final statuses of the runs that were made for those of other jobs, oldest first."""
    begins: int = 0
    """Seconds after the end of its parent's run at which the job begins to depend on it."""

    after_a_death: str = ""
    """Another status a slot may end with when something died: its run was still active when the job was cancelled."""

    @property
    def recurring(self) -> bool:
        return set(self.outcomes) - {10, 2400} != set()


def repeated(driver: Driver, request: Callable[[], Any]) -> Any:
    """A caller who got no answer asks again; that the first request had done it is no failure."""
    crashes = driver.crashes
    answer = driver.call(request)
    if driver.crashes > crashes:
        try:
            return request()
        except GnomonError:
            return None
    return answer


def made(driver: Driver, *, enabled: bool = True, after: tuple[str, ...] = (), key: str = "k", **document: Any) -> str:
    """The id of a job that was created, by a request with an idempotency key; one `after` others depends on them."""
    if after:
        document |= {"schedule": None, "dependsOn": [{"jobId": parent} for parent in after]}
    draft = JobDraft(document=make_document(**document), payload="{}", enabled=enabled)
    idempotency = IdempotencyKey("alice POST /v1/jobs", key, "hash")
    created = repeated(driver, lambda: create_job(driver.services, SCHEDULER, draft, key=idempotency))
    return str(created.job.id)


def _answers(driver: Driver, *answers: Any) -> None:
    driver.world.targets.answers = list(answers)


def once_succeeds(driver: Driver) -> str:
    job_id = made(driver, schedule=ONCE)
    driver.run_until(NOW + 20)
    return job_id


def once_with_a_long_result(driver: Driver) -> str:
    _answers(driver, LONG)
    return once_succeeds(driver)


def once_and_by_hand(driver: Driver) -> str:
    """The run by hand takes the place in which the row keeps the first run's execution."""
    job_id = once_succeeds(driver)
    key = IdempotencyKey("alice POST execute", "k2", "hash")
    driver.run_until(NOW + 300)
    repeated(driver, lambda: execute_job(driver.services, SCHEDULER, job_id, key=key))
    driver.run_until(NOW + 330)
    return job_id


def once_retries(driver: Driver) -> str:
    _answers(driver, FAILED, FAILED, OK)
    job_id = made(driver, schedule=ONCE, retryConfig=NO_JITTER)
    driver.run_until(NOW + 60)
    return job_id


def once_fails(driver: Driver) -> str:
    _answers(driver, FAILED)
    job_id = made(driver, schedule=ONCE, retryConfig={**NO_JITTER, "maxRetries": 1})
    driver.run_until(NOW + 60)
    return job_id


def orchestrated(driver: Driver) -> str:
    job_id = made(driver, schedule=ONCE, orchestrated=True)
    driver.run_until(NOW + 20)
    return job_id


def orchestrated_retries(driver: Driver) -> str:
    _answers(driver, FAILED, OK)
    job_id = made(driver, schedule=ONCE, retryConfig=NO_JITTER, orchestrated=True)
    driver.run_until(NOW + 60)
    return job_id


def big_definition(driver: Driver) -> str:
    job_id = made(driver, schedule=ONCE, description="x" * 900)
    driver.run_until(NOW + 20)
    return job_id


def three_minutes(driver: Driver) -> str:
    job_id = made(driver, schedule=MINUTELY, maxRuns=3)
    driver.run_until(NOW + 200)
    return job_id


def far_away(driver: Driver) -> str:
    """Beyond the queue's delay: a schedule brings the hint, which is sent once more for the residue."""
    job_id = made(driver, schedule={"type": "once", "at": "2027-01-15T08:40:00Z"})
    driver.run_until(NOW + 2410)
    return job_id


def _long_call(driver: Driver, seconds: int) -> Callable[[Invocation], TargetAnswer]:
    """A call in which time goes on and other consumers work."""
    calls = iter([True])

    def answer(_: Invocation) -> TargetAnswer:
        if next(calls, False):
            driver.run(seconds)
        return OK

    return answer


def overlapping(policy: str) -> Callable[[Driver], str]:
    def run(driver: Driver) -> str:
        _answers(driver, _long_call(driver, 62))
        job_id = made(driver, schedule=MINUTELY, maxRuns=3, overlapPolicy=policy, timeoutSeconds=60)
        driver.run_until(NOW + 300)
        return job_id

    return run


def circuit_opens(driver: Driver) -> str:
    """Two failures, then a probe that succeeds."""
    _answers(driver, lambda invocation: FAILED if invocation.attempt < 3 else OK)
    driver.world.types.set_circuits(failureThreshold=2, openSeconds=20)
    job_id = made(driver, schedule=ONCE, retryConfig=NO_JITTER, circuitBreaker={})
    driver.run_until(NOW + 80)
    return job_id


def concurrency_waits(driver: Driver) -> str:
    """Another job holds the one slot of the key while this one comes due."""
    key = {"concurrencyKey": "database", "maxConcurrency": 1}
    earlier = make_document(schedule={"type": "once", "at": "2027-01-15T08:00:05Z"}, **key)
    draft = JobDraft(document=earlier, payload="{}", enabled=True)
    idempotency = IdempotencyKey("alice POST /v1/jobs", "holder", "hash")
    repeated(driver, lambda: create_job(driver.services, SCHEDULER, draft, key=idempotency))
    _answers(driver, _long_call(driver, 20))
    job_id = made(driver, schedule=ONCE, **key)
    driver.run_until(NOW + 60)
    return job_id


def cancelled_call(**path: Any) -> Callable[[Driver], str]:
    """Another job that holds the one permit of the key is cancelled in its call while this one waits for it."""

    def run(driver: Driver) -> str:
        key = {"concurrencyKey": "database", "maxConcurrency": 1}
        earlier = ""

        def answer(invocation: Invocation) -> TargetAnswer:
            if invocation.job_id == earlier:
                calls = len(driver.world.targets.calls)
                driver.run_until(NOW + 15)
                repeated(driver, lambda: cancel_job(driver.services, SCHEDULER, earlier))
                driver.run(10)
                assert len(driver.world.targets.calls) == calls, "the call goes on, and the other waits"
            return OK

        _answers(driver, answer)
        document = {"schedule": {"type": "once", "at": "2027-01-15T08:00:05Z"}, "timeoutSeconds": 25, **key, **path}
        earlier = made(driver, key="holder", **document)
        job_id = made(driver, schedule=ONCE, **key)
        driver.run_until(NOW + 60)
        return job_id

    return run


def pause_and_resume(driver: Driver) -> str:
    job_id = made(driver, schedule=MINUTELY, maxRuns=2)
    driver.run_until(NOW + 70)
    repeated(driver, lambda: pause_job(driver.services, SCHEDULER, job_id))
    driver.run_until(NOW + 200)
    repeated(driver, lambda: resume_job(driver.services, SCHEDULER, job_id))
    driver.run_until(NOW + 260)
    return job_id


def new_schedule(driver: Driver) -> str:
    job_id = made(driver, enabled=False, schedule=MINUTELY)
    driver.run_until(NOW + 130)
    draft = JobDraft(
        document=make_document(schedule={"type": "interval", "everySeconds": 100}, maxRuns=1), payload="1", enabled=True
    )
    repeated(driver, lambda: change_job(driver.services, SCHEDULER, job_id, change=lambda _: draft))
    driver.run_until(NOW + 260)
    return job_id


def by_hand(driver: Driver) -> str:
    job_id = made(driver, enabled=False, schedule=ONCE)
    key = IdempotencyKey("alice POST execute", "k", "hash")
    repeated(driver, lambda: execute_job(driver.services, SCHEDULER, job_id, key=key))
    driver.run_until(NOW + 30)
    return job_id


def retry_by_force(driver: Driver) -> str:
    _answers(driver, lambda invocation: FAILED if invocation.attempt < 3 else OK)
    job_id = made(driver, schedule=ONCE, retryConfig={**NO_JITTER, "maxRetries": 1})
    driver.run_until(NOW + PROMISE + 60)
    repeated(driver, lambda: retry_job(driver.services, SCHEDULER, job_id))
    driver.run_until(NOW + PROMISE + 90)
    return job_id


def cancel_waiting(driver: Driver) -> str:
    _answers(driver, FAILED)
    job_id = made(driver, schedule=ONCE, retryConfig={**NO_JITTER, "initialDelaySeconds": 300})
    driver.run_until(NOW + PROMISE + 60)
    repeated(driver, lambda: cancel_job(driver.services, SCHEDULER, job_id))
    driver.run_until(NOW + 900)
    return job_id


def cancel_running(driver: Driver) -> str:
    job_id = ""

    def answer(_: Invocation) -> TargetAnswer:
        repeated(driver, lambda: cancel_job(driver.services, SCHEDULER, job_id))
        return OK

    _answers(driver, answer)
    job_id = made(driver, schedule=ONCE)
    driver.run_until(NOW + 30)
    return job_id


def cancel_one_execution(driver: Driver) -> str:
    job_id = ""

    def answer(invocation: Invocation) -> TargetAnswer:
        repeated(driver, lambda: cancel_execution(driver.services, SCHEDULER, invocation.execution_id))
        return OK

    _answers(driver, answer, OK)
    job_id = made(driver, schedule=MINUTELY, maxRuns=2)
    driver.run_until(NOW + 130)
    return job_id


def cancel_the_only_execution(driver: Driver) -> str:
    def answer(invocation: Invocation) -> TargetAnswer:
        repeated(driver, lambda: cancel_execution(driver.services, SCHEDULER, invocation.execution_id))
        return OK

    _answers(driver, answer, OK)
    return once_succeeds(driver)


def delete_scheduled(driver: Driver) -> str:
    job_id = made(driver, schedule=MINUTELY)
    driver.run_until(NOW + 70)
    repeated(driver, lambda: delete_job(driver.services, SCHEDULER, job_id))
    driver.run_until(NOW + 300)
    return job_id


def outage(misfire: str, max_runs: int) -> Callable[[Driver], str]:
    """No consumer and no sweep for four minutes."""

    def run(driver: Driver) -> str:
        job_id = made(driver, schedule=MINUTELY, misfirePolicy=misfire, maxRuns=max_runs)
        driver.world.clock.time = NOW + 250
        driver.run_until(NOW + 600)
        return job_id

    return run


def worker(driver: Driver) -> str:
    job_id = made(driver, schedule=ONCE, retryConfig=NO_JITTER, target={"type": "worker", "queue": "reports"})
    FlowWorker(driver, repeated, [FAILED, OK]).work_until(NOW + 600)
    return job_id


def callback(driver: Driver, **document: Any) -> str:
    target = LateReports(driver, repeated, [FAILED, OK])
    _answers(driver, target.accept)
    job_id = made(driver, schedule=ONCE, retryConfig=NO_JITTER, completion="callback", **document)
    target.report_until(NOW + 600)
    return job_id


def callback_of_hours(driver: Driver) -> str:
    """It has a lease for its call, and another one for its report."""
    return callback(driver, timeoutSeconds=7_200)


def callback_that_never_comes(driver: Driver) -> str:
    job_id = made(driver, schedule=ONCE, retryConfig={**NO_JITTER, "maxRetries": 1}, completion="callback")
    driver.run_until(NOW + 200)
    return job_id


def gated(decision: Decision | None, **gate: Any) -> Callable[[Driver], str]:
    """Ten minutes after the start somebody decides, by a request with an idempotency key; or nobody does."""

    def run(driver: Driver) -> str:
        job_id = made(driver, schedule=ONCE, approval={"role": "admin", "timeoutSeconds": 1_200, **gate})
        driver.run_until(NOW + 600)
        if decision is not None:
            key = IdempotencyKey("root POST decide", "k", "hash")
            verdict = GateDecision(decision=decision)
            repeated(driver, lambda: decide_run(driver.services, ADMIN, job_id, verdict, key=key))
        driver.run_until(NOW + 1_300)
        return job_id

    return run


def gates_of_a_cron(driver: Driver) -> str:
    """Three runs beside each other: one is approved, one rejected, about one nobody decides."""
    gate = {"role": "admin", "timeoutSeconds": 400}
    job_id = made(driver, schedule=MINUTELY, maxRuns=3, overlapPolicy="allow", approval=gate)
    driver.run_until(NOW + 400)
    for second, decision in ((60, Decision.REJECTED), (120, Decision.APPROVED)):
        verdict = GateDecision(decision=decision, run=run_id(job_id, slot_id(NOW + second)))
        repeated(driver, lambda verdict=verdict: decide_run(driver.services, ADMIN, job_id, verdict))
    driver.run_until(NOW + 700)
    return job_id


def child_of_a_one_time_job(driver: Driver) -> str:
    parent = made(driver, schedule=ONCE)
    job_id = made(driver, after=(parent,), key="child")
    driver.run_until(NOW + 20)
    return job_id


def child_that_comes_late(driver: Driver) -> str:
    """Its parent is over by then, and counts at once."""
    parent = once_succeeds(driver)
    driver.run_until(NOW + SETTLE)
    job_id = made(driver, after=(parent,), key="child")
    driver.run(20)
    return job_id


def diamond(driver: Driver) -> str:
    top = made(driver, schedule=ONCE)
    left, right = made(driver, after=(top,), key="left"), made(driver, after=(top,), key="right")
    job_id = made(driver, after=(left, right), key="bottom")
    driver.run_until(NOW + 30)
    return job_id


def child_of_a_failing_job(driver: Driver) -> str:
    """It is skipped, and so is what depends on it."""
    _answers(driver, FAILED)
    parent = made(driver, schedule=ONCE, retryConfig={"maxRetries": 0})
    child = made(driver, after=(parent,), key="child")
    job_id = made(driver, after=(child,), key="grandchild")
    driver.run_until(NOW + 30)
    return job_id


def child_of_a_recurring_job(driver: Driver) -> str:
    parent = made(driver, schedule=MINUTELY, maxRuns=2)
    job_id = made(driver, after=(parent,), key="child")
    driver.run_until(NOW + 200)
    return job_id


def child_of_a_cancelled_job(driver: Driver) -> str:
    parent = made(driver, schedule=MINUTELY)
    job_id = made(driver, after=(parent,), key="child", onUpstreamFailure="fail")
    driver.run_until(NOW + 30)
    repeated(driver, lambda: cancel_job(driver.services, SCHEDULER, parent))
    driver.run_until(NOW + 60)
    return job_id


def given_parents(driver: Driver) -> str:
    """A scheduled job is given a parent that is over, in place of its schedule."""
    parent = once_succeeds(driver)
    job_id = made(driver, schedule={"type": "once", "at": "2027-02-01T00:00:00Z"}, key="child")
    driver.run_until(NOW + SETTLE)
    document = make_document(schedule=None, dependsOn=[{"jobId": parent}])
    draft = JobDraft(document=document, payload="1")
    repeated(driver, lambda: change_job(driver.services, SCHEDULER, job_id, change=lambda _: draft))
    driver.run(20)
    return job_id


DONE, DEAD, OFF, SKIPPED = "COMPLETED", "FAILED", "CANCELLED", "SKIPPED"

FLOWS = [
    Flow("once", once_succeeds, JobStatus.COMPLETED, {10: DONE}),
    Flow("once-with-a-long-result", once_with_a_long_result, JobStatus.COMPLETED, {10: DONE}),
    Flow("once-and-by-hand", once_and_by_hand, JobStatus.COMPLETED, {10: DONE}, manual=(DONE,)),
    Flow("orchestrated", orchestrated, JobStatus.COMPLETED, {10: DONE}),
    Flow("orchestrated-retried", orchestrated_retries, JobStatus.COMPLETED, {10: DONE}),
    Flow("worker", worker, JobStatus.COMPLETED, {10: DONE}),
    Flow("callback", callback, JobStatus.COMPLETED, {10: DONE}),
    Flow("callback-of-hours", callback_of_hours, JobStatus.COMPLETED, {10: DONE}),
    Flow("callback-that-never-comes", callback_that_never_comes, JobStatus.FAILED, {10: "TIMED_OUT"}),
    Flow("once-with-a-big-definition", big_definition, JobStatus.COMPLETED, {10: DONE}),
    Flow("once-retried-twice", once_retries, JobStatus.COMPLETED, {10: DONE}),
    Flow("once-failed-for-good", once_fails, JobStatus.FAILED, {10: DEAD}),
    Flow("cron-three-minutes", three_minutes, JobStatus.COMPLETED, {60: DONE, 120: DONE, 180: DONE}),
    Flow("beyond-the-queues-delay", far_away, JobStatus.COMPLETED, {2400: DONE}),
    Flow("overlap-skip", overlapping("skip"), JobStatus.COMPLETED, {60: DONE, 120: SKIPPED, 180: DONE, 240: DONE}),
    Flow("overlap-allow", overlapping("allow"), JobStatus.COMPLETED, {60: DONE, 120: DONE, 180: DONE}),
    Flow("overlap-queue", overlapping("queue"), JobStatus.COMPLETED, {60: DONE, 120: DONE, 180: DONE}),
    Flow("circuit-opens", circuit_opens, JobStatus.COMPLETED, {10: DONE}),
    Flow("concurrency-waits", concurrency_waits, JobStatus.COMPLETED, {10: DONE}),
    Flow("cancelled-call", cancelled_call(), JobStatus.COMPLETED, {10: DONE}),
    Flow("cancelled-call-in-the-machine", cancelled_call(orchestrated=True), JobStatus.COMPLETED, {10: DONE}),
    Flow("pause-and-resume", pause_and_resume, JobStatus.COMPLETED, {60: DONE, 120: SKIPPED, 180: SKIPPED, 240: DONE}),
    Flow("new-schedule", new_schedule, JobStatus.COMPLETED, {60: SKIPPED, 120: SKIPPED, 200: DONE}),
    Flow("manual-run", by_hand, JobStatus.PAUSED, manual=(DONE,)),
    Flow("forced-retry", retry_by_force, JobStatus.COMPLETED, {10: DONE}),
    Flow("approved", gated(Decision.APPROVED), JobStatus.COMPLETED, {10: DONE}),
    Flow("rejected", gated(Decision.REJECTED), JobStatus.CANCELLED, {10: OFF}),
    Flow("gate-times-out", gated(None), JobStatus.CANCELLED, {10: OFF}),
    Flow("gate-opens-by-itself", gated(None, onTimeout="approve"), JobStatus.COMPLETED, {10: DONE}),
    Flow("gates-of-a-cron", gates_of_a_cron, JobStatus.CANCELLED, {60: OFF, 120: DONE, 180: OFF}),
    Flow("cancel-waiting", cancel_waiting, JobStatus.CANCELLED, {10: OFF}),
    Flow("cancel-running", cancel_running, JobStatus.CANCELLED, {10: OFF}),
    Flow("cancel-one-execution", cancel_one_execution, JobStatus.COMPLETED, {60: OFF, 120: DONE}),
    Flow("cancel-the-only-execution", cancel_the_only_execution, JobStatus.CANCELLED, {10: OFF}),
    Flow("delete", delete_scheduled, JobStatus.CANCELLED, {60: DONE}, after_a_death=OFF),
    Flow(
        "misfire-run-once",
        outage("run_once", 2),
        JobStatus.COMPLETED,
        {60: SKIPPED, 120: SKIPPED, 180: DONE, 240: DONE},
    ),
    Flow("misfire-skip", outage("skip", 1), JobStatus.COMPLETED, {60: SKIPPED, 120: SKIPPED, 180: SKIPPED, 240: DONE}),
    Flow("child", child_of_a_one_time_job, JobStatus.COMPLETED, dependent=(DONE,)),
    Flow("child-of-a-job-that-is-over", child_that_comes_late, JobStatus.COMPLETED, dependent=(DONE,), begins=SETTLE),
    Flow("diamond", diamond, JobStatus.COMPLETED, dependent=(DONE,)),
    Flow("child-of-a-failing-job", child_of_a_failing_job, JobStatus.SKIPPED, dependent=(SKIPPED,)),
    Flow("child-of-a-recurring-job", child_of_a_recurring_job, JobStatus.COMPLETED, dependent=(DONE, DONE)),
    Flow("child-of-a-cancelled-job", child_of_a_cancelled_job, JobStatus.FAILED, dependent=(DEAD,)),
    Flow("given-parents", given_parents, JobStatus.COMPLETED, dependent=(DONE,), begins=SETTLE),
    Flow("misfire-run-all", outage("run_all", 4), JobStatus.COMPLETED, {60: DONE, 120: DONE, 180: DONE, 240: DONE}),
]


def rows_of(driver: Driver, job_id: str) -> list[Execution | SkippedSlots]:
    return driver.history(job_id)


def final_statuses(driver: Driver, job_id: str) -> dict[str, list[str]]:
    """Slot id to the statuses of its final rows, oldest first;
    SKIPPED for slots of a gap, in history or still in the row."""
    found: dict[str, list[str]] = {}
    row = driver.row(job_id)
    gaps = [(entry.first, entry.last) for entry in rows_of(driver, job_id) if isinstance(entry, SkippedSlots)]
    if row.gap is not None and (row.gap.first, row.gap.last) not in gaps:
        gaps.append((row.gap.first, row.gap.last))
    for entry in reversed(rows_of(driver, job_id)):
        if isinstance(entry, Execution) and entry.final:
            found.setdefault(entry.slot_id, []).append(entry.status.value)
    for first, last in gaps:
        for slot in range(first, last + 1, 60):
            found.setdefault(slot_id(slot), []).append(SKIPPED)
    return found


def check_settled(driver: Driver, job_id: str) -> None:
    """What holds of any story once nothing is under way: attempts in order, one outcome a slot, the row at rest."""
    row = driver.row(job_id)
    attempts: dict[str, list[Execution]] = {}
    for entry in rows_of(driver, job_id):
        if isinstance(entry, Execution):
            attempts.setdefault(entry.slot_id, []).insert(0, entry)
    for slot, executions in attempts.items():
        assert [execution.attempt for execution in executions] == list(range(1, len(executions) + 1)), slot
        assert sum(execution.status is ExecutionStatus.COMPLETED for execution in executions) <= 1
        for before, after in itertools.pairwise(executions):
            if before.next_retry_at is not None and after.started_at is not None:
                assert before.next_retry_at <= after.started_at <= before.next_retry_at + PROMISE
    assert not any(run.state is RunState.RUNNING for run in row.runs.values())


def first_start(driver: Driver, job_id: str, slot: str) -> float | None:
    return next((one.started_at for one in driver.executions(job_id) if (one.slot_id, one.attempt) == (slot, 1)), None)


def scheduled_lateness(driver: Driver, job_id: str) -> dict[int, float]:
    """Scheduled slot to the seconds by which its first attempt started late."""
    late = {}
    for slot in {entry.slot_id for entry in rows_of(driver, job_id) if isinstance(entry, Execution)}:
        start = first_start(driver, job_id, slot)
        if start is not None and is_scheduled(slot):
            late[slot_instant(slot) - NOW] = start - slot_instant(slot)
    return late


def dependent_lateness(driver: Driver, job_id: str) -> dict[str, float]:
    """Slot of a run that was made for others' to the seconds between their end and its first start."""
    slots = {one.slot_id for one in driver.executions(job_id)}
    starts = {slot: first_start(driver, job_id, slot) for slot in slots if is_dependent(slot)}
    return {slot: start - slot_instant(slot) for slot, start in starts.items() if start is not None}


def check_graph_settled(driver: Driver) -> None:
    """What holds of all jobs once nothing is under way: no dependent is left to be told, none runs twice for an end."""
    for row in driver.all_rows():
        check_settled(driver, row.id)
        assert row.followed is None or row.followed.told == row.followed.ends
        if row.upstream is not None:
            assert not row.waits_for_parents or row.attention_at is not None


class Ended(NamedTuple):
    """Final statuses of a job's runs."""

    scheduled: dict[int, list[str]]
    """By the slot, in seconds after NOW."""
    manual: tuple[str, ...]
    dependent: tuple[str, ...]


def by_kind(driver: Driver, job_id: str) -> Ended:
    ended: dict[str, list[str]] = {"manual": [], "dependent": []}
    scheduled: dict[int, list[str]] = {}
    for slot, statuses in sorted(final_statuses(driver, job_id).items()):
        if is_scheduled(slot):
            scheduled[slot_instant(slot) - NOW] = statuses
        else:
            ended["manual" if is_manual(slot) else "dependent"] += statuses
    return Ended(scheduled, tuple(ended["manual"]), tuple(ended["dependent"]))


def check_repaired(driver: Driver, flow: Flow, job_id: str, *, starts: dict[int, float], where: str) -> None:
    """What the crash table promises of a flow in which something died; `starts`: lateness of the flow undisturbed."""
    check_graph_settled(driver)
    scheduled, manual, dependent = by_kind(driver, job_id)
    assert all(statuses.count("COMPLETED") <= 1 for statuses in scheduled.values()), where
    assert all(slot in scheduled for slot in flow.outcomes), f"{where}: a slot is without outcome"
    for slot, outcome in flow.outcomes.items():
        # While a dead owner holds its lease, its run is active: the overlap policy may skip what comes due in it.
        allowed = {outcome, flow.after_a_death} | ({SKIPPED} if flow.recurring else set())
        assert scheduled[slot][-1] in allowed, f"{where}: {slot}"
    assert len(manual) == len(flow.manual), where
    assert dependent == flow.dependent, where
    for slot, late in dependent_lateness(driver, job_id).items():
        assert 0 <= late <= flow.begins + PROMISE, f"{where}: slot {slot} started {late} s late"
    for slot, late in scheduled_lateness(driver, job_id).items():
        assert 0 <= late <= starts.get(slot, 0) + PROMISE, f"{where}: slot {slot} started {late} s late"
