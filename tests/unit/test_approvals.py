"""Approval gates: nothing runs before somebody lets it, of two decisions one is stored, and nobody waits for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.domain.caller import Caller, Role
from functions.domain.decision import Resend, Wait
from functions.domain.dispatch import decide_hint
from functions.domain.errors import (
    ConflictError,
    ForbiddenError,
    IdempotencyKeyReusedError,
    InvalidFieldError,
    NotFoundError,
    PreconditionFailedError,
)
from functions.domain.execution import ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.idempotency import IdempotencyKey
from functions.domain.ids import run_id, slot_id
from functions.domain.job import Job, JobStatus
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.run import Approval, Decision, Outcome, RunState
from functions.usecases.actions import execute_job, pause_job, resume_job, retry_job
from functions.usecases.approvals import GateDecision, decide_run
from functions.usecases.cancelling import cancel_execution, cancel_job
from functions.usecases.history import job_history
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import ADMIN, SCHEDULER, VIEWER, Driver
from tests.factories import NOW, make_document
from tests.fakes import World
from tests.faults import Faults
from tests.flows import FAILED, NO_JITTER, OK, ONCE

AT = NOW + 10
SLOT = slot_id(AT)
GATE: dict[str, Any] = {"role": "approver", "timeoutSeconds": 3_600}
NO_RETRY = {"maxRetries": 0}
MINUTELY = {"type": "cron", "expression": "* * * * *"}
BOSS = Caller(
    id="boss",
    owner="team-a",
    roles=frozenset({Role.VIEWER}),
    groups=frozenset({"team-a", "approver"}),
    names=frozenset({"boss", "boss@example.com"}),
)
COLLEAGUE = replace(BOSS, id="carol", names=frozenset({"carol"}))


def waiting(driver: Driver, *, until: int = 20, **document: Any) -> Job:
    """A job whose first run is at its gate."""
    gate = document.pop("approval", GATE)
    job = driver.create(**{"schedule": ONCE, "approval": gate, **document})
    driver.run_until(NOW + until)
    return driver.row(job.id)


def decide(
    driver: Driver, job: Job, decision: Decision = Decision.APPROVED, *, by: Caller = BOSS, **options: Any
) -> Job:
    verdict = GateDecision(decision=decision, run=options.pop("run", None), comment=options.pop("comment", None))
    return decide_run(driver.services, by, job.id, verdict, **options)


def approve(driver: Driver, job: Job, **options: Any) -> Job:
    return decide(driver, job, **options)


def reject(driver: Driver, job: Job, **options: Any) -> Job:
    return decide(driver, job, Decision.REJECTED, **options)


def calls(driver: Driver) -> list[tuple[str, int]]:
    return [(call.slot_id, call.attempt) for call in driver.world.targets.calls]


class TestWaiting:
    def test_a_run_that_is_due_waits_in_its_row_with_a_hint_for_the_deadline(self) -> None:
        driver = Driver()
        job = waiting(driver)
        run = job.runs[SLOT]
        assert (run.state, run.attempt, run.due_at, run.deferred_for) == (
            RunState.WAITING,
            0,
            AT + 3_600,
            "APPROVAL_NEEDED",
        )
        assert (job.status, job.attention_at) == (JobStatus.BLOCKED, AT + 3_600 + 30)
        assert job.next_slot is None
        assert [(hint.slot_id, hint.attempt) for hint in driver.world.timetable.hints(job.id)] == [(SLOT, 1)]
        assert calls(driver) == []
        assert driver.world.history.of(job.id) == []

    def test_nothing_happens_while_it_waits(self) -> None:
        driver = Driver()
        job = waiting(driver)
        driver.run_until(AT + 2_700)
        assert driver.row(job.id) == job, "no write, no sweep"

    def test_a_copy_of_the_hint_that_brought_it_there_does_nothing(self) -> None:
        driver = Driver()
        job = waiting(driver)
        handled = driver.deliver_hint(Hint(job.id, SLOT, 1))
        assert handled is not None
        assert handled.reason == "APPROVAL_NEEDED"
        assert driver.row(job.id) == job
        assert len(driver.world.timetable.hints(job.id)) == 1, "and sends nothing"

    def test_history_shows_why(self) -> None:
        driver = Driver()
        job = waiting(driver)
        [entry] = job_history(driver.services, SCHEDULER, job.id).items
        assert (entry.status, entry.reason) == (ExecutionStatus.QUEUED, "APPROVAL_NEEDED")  # type: ignore[union-attr]  # an ActiveExecution

    def test_a_lost_hint_for_the_deadline_is_brought_by_the_sweep(self) -> None:
        driver = Driver()
        job = waiting(driver)
        for delivery in list(driver.world.timetable.armed):
            driver.world.timetable.drop(delivery)
        driver.run_until(AT + 3_600 + 200)
        assert driver.row(job.id).status is JobStatus.CANCELLED

    @pytest.mark.parametrize("changes", [{"concurrencyKey": "k", "maxConcurrency": 1}, {"circuitBreaker": {}}])
    def test_it_is_asked_before_circuits_and_limits(self, changes: dict[str, Any]) -> None:
        driver = Driver()
        job = waiting(driver, **changes)
        assert job.runs[SLOT].at_gate
        assert driver.world.slots.rows == {}
        approve(driver, job)
        driver.run(20)
        assert calls(driver) == [(SLOT, 1)]


class TestDecisions:
    def test_an_approved_run_starts_at_once(self) -> None:
        driver = Driver()
        job = waiting(driver)
        decided = approve(driver, job, comment="go")
        assert decided.runs[SLOT].due_at == NOW + 20
        assert driver.world.timetable.hints(job.id) == [Hint(job.id, SLOT, 1)] * len(
            driver.world.timetable.hints(job.id)
        )
        driver.run(2)
        [execution] = driver.executions(job.id)
        assert execution.status is ExecutionStatus.COMPLETED
        assert execution.deferrals == 0
        shown = execution.approval
        assert shown is not None
        assert (shown.decision, shown.by, shown.at, shown.comment) == (Decision.APPROVED, "boss", NOW + 20, "go")
        assert driver.row(job.id).status is JobStatus.COMPLETED
        driver.run(4_000)
        assert calls(driver) == [(SLOT, 1)], "the deadline's hint comes in vain"

    def test_a_rejected_run_ends_without_a_call(self) -> None:
        driver = Driver()
        job = waiting(driver)
        reject(driver, job, comment="no")
        driver.run(2)
        [execution] = driver.executions(job.id)
        assert (execution.status, execution.reason, execution.final) == (ExecutionStatus.CANCELLED, "REJECTED", True)
        assert not execution.is_dead_letter
        assert execution.approval == Approval(decision=Decision.REJECTED, by="boss", at=NOW + 20, comment="no")
        assert (calls(driver), driver.row(job.id).status) == ([], JobStatus.CANCELLED)

    @pytest.mark.parametrize(
        ("on_timeout", "status", "called"),
        [("reject", JobStatus.CANCELLED, []), ("approve", JobStatus.COMPLETED, [(SLOT, 1)]), (None, "", [])],
    )
    def test_nobody_decides_in_time(self, on_timeout: str | None, status: Any, called: Any) -> None:
        driver = Driver()
        gate = GATE if on_timeout is None else {**GATE, "onTimeout": on_timeout}
        job = waiting(driver, approval=gate)
        driver.run_until(AT + 3_603)
        [execution] = driver.executions(job.id)
        assert execution.approval is not None
        assert (execution.approval.by, execution.approval.at) == ("timeout", AT + 3_602)
        assert calls(driver) == called
        assert driver.row(job.id).status is (status or JobStatus.CANCELLED)
        if not called:
            assert (execution.status, execution.reason) == (ExecutionStatus.CANCELLED, "APPROVAL_TIMEOUT")

    @pytest.mark.parametrize("ahead", [-2.0, 0.0, 2.0])
    def test_a_decision_in_time_counts_whatever_clock_a_consumer_has(self, ahead: float) -> None:
        driver = Driver()
        job = waiting(driver)
        row = driver.row(job.id)

        decision = decide_hint(row, Hint(job.id, SLOT, 1), now=AT + 3_600 - 0.001 + ahead, write_id="m")

        assert isinstance(decision, (Wait, Resend)), "the gate's time is over when no clock takes a decision any more"
        driver.world.clock.time = AT + 3_600 - 0.001
        assert approve(driver, job).runs[SLOT].approval is not None

    def test_the_second_of_two_is_told_who_decided_what_and_when(self) -> None:
        driver = Driver()
        job = waiting(driver)
        approve(driver, job)
        with pytest.raises(ConflictError, match=r"was approved by boss at 2027-01-15T08:00:20Z"):
            reject(driver, job, by=COLLEAGUE)
        with pytest.raises(ConflictError, match="was approved by boss"):
            approve(driver, job)
        driver.run(5)
        with pytest.raises(ConflictError, match=r"was approved by boss .* ended as COMPLETED"):
            reject(driver, job, by=COLLEAGUE)

    def test_the_same_request_with_its_key_is_answered_alike(self) -> None:
        driver = Driver()
        job = waiting(driver)
        key = IdempotencyKey("boss POST approve", "k", "hash")
        for seconds in (0, 0, 5, 600):
            driver.run(seconds)
            assert approve(driver, job, key=key).id == job.id
        assert calls(driver) == [(SLOT, 1)]
        with pytest.raises(IdempotencyKeyReusedError):
            approve(driver, job, key=key._replace(body_hash="other"))
        with pytest.raises(ConflictError):
            approve(driver, job, key=key._replace(key="another"))

    def test_a_key_does_not_decide_about_another_run_later(self) -> None:
        driver = Driver()
        job = waiting(driver, approval={**GATE, "timeoutSeconds": 300})
        key = IdempotencyKey("boss POST approve", "k", "hash")
        driver.world.idempotency.claim(
            key.scope, key.key, body_hash="hash", ids=[f"{job.id}-{SLOT}-0001"], now=driver.clock.now()
        )
        driver.run_until(AT + 310)
        execute_job(driver.services, SCHEDULER, job.id)
        driver.run(5)
        with pytest.raises(ConflictError, match="was rejected by timeout"):
            approve(driver, driver.row(job.id), key=key)
        assert any(run.at_gate for run in driver.row(job.id).runs.values())

    def test_a_refused_request_keeps_nothing_under_its_key(self) -> None:
        driver = Driver()
        job = driver.create(schedule=ONCE, approval=GATE)
        key = IdempotencyKey("boss POST approve", "k", "hash")
        with pytest.raises(ConflictError, match="SCHEDULED"):
            approve(driver, job, key=key)
        driver.run(20)
        approve(driver, job, key=key)
        driver.run(5)
        assert calls(driver) == [(SLOT, 1)]

    def test_after_the_deadline_it_is_too_late(self) -> None:
        driver = Driver(sweeps=False)
        job = waiting(driver)
        driver.world.clock.time = AT + 3_600
        with pytest.raises(ConflictError, match=r"time was over at 2027-01-15T09:00:10Z"):
            approve(driver, job)

    def test_a_job_without_a_gate(self) -> None:
        driver = Driver()
        job = driver.create(schedule=ONCE)
        with pytest.raises(ConflictError, match="no approval gate"):
            approve(driver, job)

    def test_the_revision_is_compared(self) -> None:
        driver = Driver()
        job = waiting(driver)
        with pytest.raises(PreconditionFailedError):
            approve(driver, job, if_match=7)
        approve(driver, job, if_match=1)

    def test_a_run_that_history_has_ended_is_not_approved(self) -> None:
        """A cancel that died after its history row: the attempt must not start any more."""
        faults = Faults()
        driver = Driver(World(faults=faults))
        job = waiting(driver)
        faults.crash_before = len(faults.steps) + 2
        driver.call(lambda: cancel_execution(driver.services, SCHEDULER, f"{job.id}-{SLOT}-0001"))
        faults.disarm()
        assert SLOT in driver.row(job.id).runs
        assert driver.world.history.get(job.id, SLOT, 1) is not None
        with pytest.raises(ConflictError, match="ended as CANCELLED"):
            approve(driver, job)
        driver.run(4_000)
        assert calls(driver) == []

    def test_a_gate_that_opens_by_itself_after_days_leaves_the_circuit_its_time(self) -> None:
        driver = Driver()
        gate = {**GATE, "timeoutSeconds": 200_000, "onTimeout": "approve"}
        breaker = {"failureThreshold": 1, "openSeconds": 600}
        job = waiting(driver, approval=gate, breaker=breaker)
        driver.run_until(AT + 199_900)
        driver.world.targets.answers = [FAILED, OK]
        driver.create(
            schedule={"type": "interval", "everySeconds": 90}, maxRuns=1, breaker=breaker, retryConfig=NO_RETRY
        )
        driver.run_until(AT + 200_010)
        run = driver.row(job.id).runs[SLOT]
        assert (run.deferred_for, run.approval and run.approval.by) == ("CIRCUIT_OPEN", "timeout")
        driver.run(1_000)
        assert driver.row(job.id).status is JobStatus.COMPLETED


class TestNaming:
    def test_runs_of_a_recurring_job_are_named(self) -> None:
        driver = Driver()
        job = waiting(driver, until=130, schedule=MINUTELY, overlapPolicy="allow")
        first, second = slot_id(NOW + 60), slot_id(NOW + 120)
        assert [run.at_gate for run in job.runs.values()] == [True, True]
        with pytest.raises(InvalidFieldError, match=f"runId is required.*{run_id(job.id, first)}") as caught:
            approve(driver, job)
        assert caught.value.field == "runId"
        approve(driver, job, run=run_id(job.id, second))
        reject(driver, job, run=run_id(job.id, first))
        driver.run(5)
        assert calls(driver) == [(second, 1)]
        ended = {execution.slot_id: execution.status.value for execution in driver.executions(job.id)}
        assert ended == {first: "CANCELLED", second: "COMPLETED"}

    def test_a_waiting_run_is_active_for_the_overlap_policy(self) -> None:
        driver = Driver()
        job = waiting(driver, until=190, schedule=MINUTELY)
        assert list(job.runs) == [slot_id(NOW + 60)]
        assert job.gap is not None
        assert (job.gap.reason.value, job.gap.count) == ("OVERLAP", 2)
        queued = waiting(driver, until=400, schedule=MINUTELY, overlapPolicy="queue")
        assert sorted(run.state.value for run in queued.runs.values()) == ["Q", "W"]
        [first] = [slot for slot, run in queued.runs.items() if run.at_gate]
        reject(driver, queued, run=run_id(queued.id, first))
        driver.run(3)
        [released] = [run for run in driver.row(queued.id).runs.values() if run.state is RunState.WAITING]
        assert released.at_gate, "the queued one comes to the gate next"

    @pytest.mark.parametrize("name", ["", "x", "7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f-1800000010"])
    def test_a_run_that_is_not_there(self, name: str) -> None:
        driver = Driver()
        job = waiting(driver)
        with pytest.raises(NotFoundError):
            approve(driver, job, run=name)
        with pytest.raises(NotFoundError):
            approve(driver, job, run=run_id(job.id, slot_id(AT + 60)))

    def test_a_run_that_does_not_wait(self) -> None:
        driver = Driver()
        job = driver.create(schedule=MINUTELY, approval=GATE)
        first = run_id(job.id, slot_id(NOW + 60))
        with pytest.raises(ConflictError, match="not due before"):
            approve(driver, job, run=first)
        driver.world.targets.answers = [FAILED, OK, OK]
        driver.run_until(NOW + 61)
        approve(driver, job, run=first)
        driver.run(1)
        with pytest.raises(ConflictError, match="was approved by boss"):
            approve(driver, job, run=first)
        driver.run_until(NOW + 125)
        approve(driver, job, run=run_id(job.id, slot_id(NOW + 120)))
        driver.run(2)
        with pytest.raises(ConflictError, match=r"has ended.*was approved by boss"):
            reject(driver, job, run=first)


class TestWhoMay:
    @pytest.mark.parametrize(
        ("caller", "why"),
        [
            (replace(BOSS, groups=frozenset({"team-a"})), "takes the role approver"),
            (replace(SCHEDULER, id="sam"), "takes the role approver"),
            (replace(BOSS, id="alice"), "You created this job"),
            (replace(ADMIN, id="alice"), "You created this job"),
        ],
    )
    def test_not_allowed(self, caller: Caller, why: str) -> None:
        driver = Driver()
        job = waiting(driver)
        with pytest.raises(ForbiddenError, match=why):
            approve(driver, job, by=caller)
        assert driver.row(job.id) == job

    def test_who_does_not_see_the_job_is_not_told_of_it(self) -> None:
        driver = Driver()
        job = waiting(driver)
        with pytest.raises(NotFoundError, match="There is no job"):
            approve(driver, job, by=replace(VIEWER, groups=frozenset({"approver"})))

    @pytest.mark.parametrize(
        ("role", "caller"),
        [
            ("approver", BOSS),
            ("approver", ADMIN),
            ("admin", ADMIN),
            ("scheduler", replace(SCHEDULER, id="sam")),
            ("viewer", replace(BOSS, groups=frozenset({"viewer"}))),
        ],
    )
    def test_allowed(self, role: str, caller: Caller) -> None:
        driver = Driver()
        job = waiting(driver, approval={**GATE, "role": role})
        approve(driver, job, by=caller)

    def test_approvers_are_named_by_id_or_address(self) -> None:
        driver = Driver()
        for names in (["boss"], ["x", "boss@example.com"]):
            job = waiting(driver, until=0, schedule={"type": "once", "at": "2027-01-15T07:59:50Z"})
            driver.run(1)
            change = {**driver.row(job.id).defined.document, "approval": {**GATE, "approvers": names}}
            change_job(
                driver.services, ADMIN, job.id, change=lambda _, new=change: JobDraft(document=new, payload="{}")
            )
            with pytest.raises(ForbiddenError, match="not among the approvers"):
                approve(driver, job, by=COLLEAGUE)
            approve(driver, job)

    def test_who_changed_it_last_or_asked_for_the_run(self) -> None:
        driver = Driver()
        job = waiting(driver)
        boss = replace(BOSS, roles=frozenset({Role.SCHEDULER}))
        carol = replace(COLLEAGUE, roles=frozenset({Role.SCHEDULER}))

        def change(by: Caller, payload: str, tag: str) -> None:
            changed = {**driver.row(job.id).defined.document, "tags": [tag]}
            change_job(driver.services, by, job.id, change=lambda _: JobDraft(document=changed, payload=payload))

        change(boss, "1", "a")
        change(carol, "1", "b")  # a tag: what is called is still another's
        with pytest.raises(ForbiddenError, match="changed what this job calls last"):
            approve(driver, job)
        approve(driver, job, by=COLLEAGUE)
        driver.run(5)
        execute_job(driver.services, carol, job.id)
        driver.run(5)
        with pytest.raises(ForbiddenError, match="asked for this run"):
            approve(driver, job, by=carol)
        approve(driver, job, by=ADMIN)

    def test_without_four_eyes_the_creator_may(self) -> None:
        driver = Driver()
        job = waiting(driver, approval={**GATE, "role": "scheduler", "fourEyes": False})
        approve(driver, job, by=SCHEDULER)

    def test_who_may_not_decide_does_not_take_the_gate_away_while_a_run_waits(self) -> None:
        driver = Driver()
        job = waiting(driver)
        open_ = JobDraft(document=make_document(schedule=ONCE), payload="{}")
        with pytest.raises(ForbiddenError, match="whoever may decide may change it"):
            change_job(driver.services, SCHEDULER, job.id, change=lambda _: open_)
        assert driver.row(job.id) == job
        change_job(driver.services, ADMIN, job.id, change=lambda _: open_)
        driver.run(2)
        assert calls(driver) == [(SLOT, 1)], "the run is due at once"
        assert driver.executions(job.id)[0].approval is None

    def test_of_jobs_without_a_gate_it_is_kept_who_asked_and_who_changed(self) -> None:
        driver = Driver()
        job = driver.create(schedule=MINUTELY)
        execute_job(driver.services, SCHEDULER, job.id)
        changed = change_job(
            driver.services, ADMIN, job.id, change=lambda row: JobDraft(document=row.defined.document, payload="1")
        )
        assert changed.changed_by == ADMIN.id
        assert changed.updated_by == ADMIN.id
        assert [run.asked_by for run in changed.runs.values()] == [SCHEDULER.id], "a gate may come before it starts"


class TestWhatIsApproved:
    def change(self, driver: Driver, job: Job, *, payload: str = "{}", **document: Any) -> None:
        new = {**driver.row(job.id).defined.document, **document}
        change_job(driver.services, ADMIN, job.id, change=lambda _: JobDraft(document=new, payload=payload))

    def test_retries_of_an_approved_run_need_no_second_approval(self) -> None:
        driver = Driver()
        driver.world.targets.answers = [FAILED, FAILED, OK]
        job = waiting(driver, retryConfig={**NO_JITTER, "maxRetries": 1})
        approve(driver, job)
        driver.run(5)
        self.change(driver, job, tags=["urgent"])
        driver.run(20)
        assert driver.row(job.id).status is JobStatus.FAILED
        retry_job(driver.services, SCHEDULER, job.id)
        driver.run(5)
        assert calls(driver) == [(SLOT, 1), (SLOT, 2), (SLOT, 3)]
        assert [execution.approval and execution.approval.by for execution in driver.executions(job.id)] == ["boss"] * 3

    def test_another_payload_needs_another_approval_also_for_a_retry(self) -> None:
        driver = Driver()
        driver.world.targets.answers = [FAILED, OK]
        job = waiting(driver, retryConfig={**NO_JITTER, "maxRetries": 1})
        approve(driver, job)
        driver.run(2)
        self.change(driver, job, payload='{"amount":1000000}')
        driver.run(20)
        assert calls(driver) == [(SLOT, 1)]
        run = driver.row(job.id).runs[SLOT]
        assert (run.at_gate, run.attempt, run.approval) == (True, 1, None)
        approve(driver, job, by=COLLEAGUE)
        driver.run(2)
        assert calls(driver) == [(SLOT, 1), (SLOT, 2)]
        assert [execution.approval and execution.approval.by for execution in driver.executions(job.id)] == [
            "boss",
            "carol",
        ]

    @pytest.mark.parametrize("hours", [0, 2])
    def test_a_retry_at_its_gate_is_not_let_through_by_a_hint(self, hours: int) -> None:
        driver = Driver()
        driver.world.targets.answers = [FAILED, OK]
        job = waiting(driver, retryConfig=NO_JITTER)
        approve(driver, job)
        driver.run(2)
        self.change(driver, job, payload="1")
        driver.run(20)
        driver.deliver_hint(Hint(job.id, SLOT, 2))
        driver.run(hours * 3_600)
        driver.deliver_hint(Hint(job.id, SLOT, 2))
        assert calls(driver) == [(SLOT, 1)]
        assert driver.row(job.id).status is (JobStatus.CANCELLED if hours else JobStatus.BLOCKED)

    def test_a_change_while_the_attempt_runs(self) -> None:
        driver = Driver()

        def changed_meanwhile(_: Invocation) -> TargetAnswer:
            self.change(driver, job, target={"type": "http", "url": "https://example.com/other"})
            return FAILED

        driver.world.targets.answers = [changed_meanwhile, OK]
        job = waiting(driver, retryConfig=NO_JITTER)
        approve(driver, job)
        driver.run(30)
        assert calls(driver) == [(SLOT, 1)]
        assert driver.executions(job.id)[0].approval is not None
        assert driver.row(job.id).runs[SLOT].at_gate

    def test_a_forced_retry_of_a_run_that_nobody_approved_comes_to_the_gate(self) -> None:
        driver = Driver()
        driver.world.targets.answers = [FAILED]
        job = driver.create(schedule=ONCE, retryConfig={"maxRetries": 0})
        driver.run(20)
        self.change(driver, job, approval=GATE)
        retry_job(driver.services, SCHEDULER, job.id)
        driver.run(5)
        row = driver.row(job.id)
        assert (row.status, row.runs[SLOT].at_gate) == (JobStatus.BLOCKED, True)
        with pytest.raises(ForbiddenError):
            approve(driver, job, by=replace(ADMIN, id="alice"))

    def test_an_own_retry_of_a_run_that_began_without_a_gate_does_not(self) -> None:
        driver = Driver()
        driver.world.targets.answers = [FAILED, OK]
        job = driver.create(schedule=ONCE, retryConfig=NO_JITTER)
        driver.run(12)
        self.change(driver, job, approval=GATE)
        driver.run(30)
        assert calls(driver) == [(SLOT, 1), (SLOT, 2)]

    def test_a_gate_added_before_the_start_holds(self) -> None:
        driver = Driver()
        job = driver.create(schedule=ONCE)
        self.change(driver, job, approval=GATE)
        driver.run(20)
        assert driver.row(job.id).runs[SLOT].at_gate

    def test_a_run_offered_to_workers_is_taken_back_when_it_needs_an_approval(self) -> None:
        driver = Driver()
        job = waiting(driver, target={"type": "worker", "queue": "reports"})
        approve(driver, job)
        driver.run(2)
        assert driver.row(job.id).runs[SLOT].waits_for == "worker:team-a/reports"
        self.change(driver, job, payload="2")
        driver.run(2)
        assert driver.row(job.id).runs[SLOT].at_gate
        approve(driver, job)
        driver.run(2)
        assert driver.row(job.id).runs[SLOT].waits_for == "worker:team-a/reports"


class TestPauseAndCancel:
    def test_a_pause_holds_the_run_and_its_deadline_stands(self) -> None:
        driver = Driver()
        job = waiting(driver)
        pause_job(driver.services, SCHEDULER, job.id)
        driver.run_until(AT + 4_000)
        row = driver.row(job.id)
        assert (row.status, row.runs[SLOT].at_gate, row.attention_at) == (JobStatus.PAUSED, True, None)
        with pytest.raises(ConflictError, match="onTimeout decides at resume"):
            approve(driver, job)
        resume_job(driver.services, SCHEDULER, job.id)
        driver.run(3)
        assert driver.row(job.id).status is JobStatus.CANCELLED

    def test_approved_in_a_pause_it_runs_at_resume(self) -> None:
        driver = Driver()
        job = waiting(driver)
        pause_job(driver.services, SCHEDULER, job.id)
        approve(driver, job)
        driver.run(600)
        assert calls(driver) == []
        resume_job(driver.services, SCHEDULER, job.id)
        driver.run(3)
        assert calls(driver) == [(SLOT, 1)]

    def test_rejected_in_a_pause_it_ends_at_once(self) -> None:
        driver = Driver()
        job = waiting(driver)
        pause_job(driver.services, SCHEDULER, job.id)
        reject(driver, job)
        driver.run(3)
        row = driver.row(job.id)
        assert row.runs == {}
        assert row.last_run is not None
        assert (row.last_run.outcome, row.last_run.reason) == (Outcome.CANCELLED, "REJECTED")

    @pytest.mark.parametrize("whole", [True, False])
    def test_a_cancel_ends_it(self, whole: bool) -> None:
        driver = Driver()
        job = waiting(driver)
        if whole:
            cancel_job(driver.services, SCHEDULER, job.id)
        else:
            cancel_execution(driver.services, SCHEDULER, f"{job.id}-{SLOT}-0001")
        with pytest.raises(ConflictError, match="ended as CANCELLED"):
            approve(driver, job)
        driver.run(4_000)
        assert calls(driver) == []
        [execution] = driver.executions(job.id)
        assert execution.reason == ("JOB_CANCELLED" if whole else "EXECUTION_CANCELLED")

    def test_a_run_by_hand_on_a_paused_job_waits_like_any_other(self) -> None:
        driver = Driver()
        job = driver.create(schedule=MINUTELY, approval=GATE, enabled=False)
        execute_job(driver.services, ADMIN, job.id)
        driver.run(5)
        [(slot, run)] = driver.row(job.id).runs.items()
        assert run.at_gate
        approve(driver, job, run=run_id(job.id, slot))
        driver.run(5)
        assert calls(driver) == [(slot, 1)]
