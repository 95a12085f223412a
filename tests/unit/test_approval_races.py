"""Two act on one gate in the same instant: at every step of the first, the second does all of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from functions.domain.errors import ConflictError, GnomonError
from functions.domain.execution import Execution, ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.ids import slot_id
from functions.domain.job import Job, JobStatus
from functions.domain.run import Decision, Outcome, RunState
from functions.usecases.actions import pause_job, resume_job
from functions.usecases.approvals import GateDecision, decide_run
from functions.usecases.cancelling import cancel_execution, cancel_job
from functions.usecases.jobs import JobDraft, change_job
from tests.api_client import user
from tests.driver import ADMIN, SCHEDULER, Driver
from tests.factories import NOW, make_document
from tests.fakes import World
from tests.faults import Faults
from tests.flows import ONCE
from tests.unit.test_approvals import BOSS, COLLEAGUE, GATE
from tests.workflows import NEVER, TARGET, Played
from tests.working import LateReports

AT = NOW + 10
SLOT = slot_id(AT)
Act = Callable[[Driver, Job], Any]


def approve(driver: Driver, job: Job) -> Job:
    return decide_run(driver.services, BOSS, job.id, GateDecision(decision=Decision.APPROVED))


def reject(driver: Driver, job: Job) -> Job:
    return decide_run(driver.services, COLLEAGUE, job.id, GateDecision(decision=Decision.REJECTED))


def cancel(driver: Driver, job: Job) -> Job:
    return cancel_job(driver.services, SCHEDULER, job.id)


def cancel_one(driver: Driver, job: Job) -> Execution:
    return cancel_execution(driver.services, SCHEDULER, f"{job.id}-{SLOT}-0001")


def pause(driver: Driver, job: Job) -> Job:
    return pause_job(driver.services, SCHEDULER, job.id)


def time_out(driver: Driver, job: Job) -> None:
    """The deadline's hint, by a clock that is two seconds ahead of the caller's."""
    clock = driver.world.clock
    now = clock.time
    clock.time = AT + 3_600
    driver.deliver_hint(Hint(job.id, SLOT, 1))
    clock.time = now


def other_payload(driver: Driver, job: Job) -> Job:
    draft = JobDraft(document=driver.row(job.id).defined.document, payload='{"changed":true}')
    return change_job(driver.services, ADMIN, job.id, change=lambda _: draft)


def open_gate(driver: Driver, job: Job) -> Job:
    draft = JobDraft(document=make_document(schedule=ONCE), payload="{}")
    return change_job(driver.services, ADMIN, job.id, change=lambda _: draft)


class Race:
    """`second` happens before the `step`-th mutation of `first`."""

    def __init__(self, first: Act, second: Act, step: int) -> None:
        self.faults = Faults()
        self.driver = Driver(World(faults=self.faults))
        self.job = self.driver.create(schedule=ONCE, approval=GATE)
        self.driver.run_until(AT + 3_595)
        self.met = False
        self.second, self.step = second, step
        self.answers: dict[str, Any] = {}
        self.faults.on_step = self.after
        self.count = 0
        self.answers["first"] = self.answer(first)
        self.faults.on_step = None

    def after(self, when: str, _: str) -> None:
        if when != "before" or self.met:
            return
        self.count += 1
        if self.count == self.step:
            self.met = True
            clock = self.driver.world.clock
            now = clock.time
            clock.time = min(now, AT + 3_599)  # a caller's clock is behind that of the deadline's consumer
            self.answers["second"] = self.answer(self.second)
            clock.time = now

    def answer(self, act: Act) -> Any:
        try:
            return act(self.driver, self.job) or True
        except GnomonError as error:
            return error

    @property
    def said_yes(self) -> list[bool]:
        return [not isinstance(self.answers[which], GnomonError) for which in ("first", "second")]

    def settle(self) -> None:
        self.driver.run(8_000)

    @property
    def calls(self) -> int:
        return len(self.driver.world.targets.calls)

    @property
    def last(self) -> Execution:
        return self.driver.executions(self.job.id)[-1]


def races(first: Act, second: Act) -> Iterator[Race]:
    for step in itertools.count(1):
        race = Race(first, second, step)
        if not race.met:
            assert step > 1
            return
        yield race


@pytest.mark.parametrize(("first", "second"), [(approve, reject), (reject, approve)])
def test_of_two_decisions_one_is_stored_and_the_other_told_so(first: Act, second: Act) -> None:
    for race in races(first, second):
        assert sorted(race.said_yes) == [False, True], race.step
        [refused] = [answer for answer in race.answers.values() if isinstance(answer, GnomonError)]
        assert isinstance(refused, ConflictError)
        race.settle()
        winner = (first, second)[race.said_yes.index(True)]
        stored = race.last.approval
        assert stored is not None
        assert f"{stored.decision.value} by {stored.by} at 2027" in refused.message
        assert stored.decision is (Decision.APPROVED if winner is approve else Decision.REJECTED)
        assert race.calls == (1 if winner is approve else 0)


@pytest.mark.parametrize("first", [approve, reject])
def test_a_decision_and_the_deadline(first: Act) -> None:
    """Whichever is written first holds; the other one changes nothing."""
    for race in races(first, time_out):
        row = race.driver.row(race.job.id)
        stored = row.runs[SLOT].approval if SLOT in row.runs else race.last.approval
        assert stored is not None
        assert (stored.by == "timeout") == isinstance(race.answers["first"], ConflictError), race.step
        race.settle()
        assert race.last.approval == stored
        assert race.calls == int(stored.decision is Decision.APPROVED)
        assert race.driver.row(race.job.id).status is (
            JobStatus.COMPLETED if stored.decision is Decision.APPROVED else JobStatus.CANCELLED
        )


@pytest.mark.parametrize("second", [approve, reject])
def test_the_deadline_and_a_decision(second: Act) -> None:
    for race in races(time_out, second):
        race.settle()
        stored = race.last.approval
        assert stored is not None
        late = isinstance(race.answers["second"], ConflictError)
        assert late == (stored.by == "timeout"), race.step
        assert race.calls == int(stored.decision is Decision.APPROVED)


@pytest.mark.parametrize("decision", [approve, reject])
@pytest.mark.parametrize("stop", [cancel, cancel_one])
@pytest.mark.parametrize("decided_first", [True, False])
def test_a_decision_and_a_cancel(decision: Act, stop: Act, decided_first: bool) -> None:
    pair = (decision, stop) if decided_first else (stop, decision)
    for race in races(*pair):
        race.settle()
        assert race.driver.row(race.job.id).runs == {}
        statuses = {execution.status for execution in race.driver.executions(race.job.id)}
        stopped = race.said_yes[1 if decided_first else 0]
        assert len(statuses) == 1
        if stopped:
            assert statuses == {ExecutionStatus.CANCELLED}, race.step
            assert race.driver.row(race.job.id).status is JobStatus.CANCELLED
        assert race.calls <= int(decision is approve)


@pytest.mark.parametrize("decision", [approve, reject])
def test_a_decision_and_a_pause(decision: Act) -> None:
    for pair in ((decision, pause), (pause, decision)):
        for race in races(*pair):
            assert race.said_yes == [True, True]
            race.driver.run(600)
            row = race.driver.row(race.job.id)
            if decision is approve:
                assert race.calls == 0
                assert row.runs[SLOT].state is RunState.WAITING
                resume_job(race.driver.services, SCHEDULER, race.job.id)
                race.driver.run(5)
                assert race.calls == 1
            else:
                assert row.last_run is not None
                assert row.last_run.outcome is Outcome.CANCELLED


def test_a_change_of_the_payload_beside_the_approval_does_not_slip_through() -> None:
    """Approved before the change: it waits at its gate again. After it: what is approved is the new one."""
    for race in races(approve, other_payload):
        assert race.said_yes[1]
        race.driver.run(5)
        run = race.driver.row(race.job.id).runs.get(SLOT)
        if run is None:
            approved_after = race.job.seq < race.driver.row(race.job.id).seq
            assert approved_after
            assert [call.payload for call in race.driver.world.targets.calls] == ['{"changed":true}']
        else:
            assert run.at_gate
            assert race.calls == 0


def test_the_gate_goes_away_beside_its_decision() -> None:
    for race in races(reject, open_gate):
        race.driver.run(20)
        rejected = race.said_yes[0]
        assert race.calls == (0 if rejected else 1), race.step
    for race in races(open_gate, reject):
        race.driver.run(20)
        assert race.calls == (0 if race.said_yes[1] else 1), race.step


def test_a_callback_is_sent_after_the_approval() -> None:
    driver = Driver()
    target = LateReports(driver, lambda _, request: request(), [])
    driver.world.targets.answers = [target.accept]
    job = driver.create(schedule=ONCE, approval=GATE, completion="callback", retryConfig={"maxRetries": 0})
    driver.run_until(NOW + 100)
    assert driver.world.targets.calls == []
    approve(driver, job)
    driver.run(200)
    assert len(driver.world.targets.calls) == 1
    [execution] = driver.executions(job.id)
    assert execution.status is ExecutionStatus.TIMED_OUT
    assert execution.approval is not None


def test_a_run_of_the_state_machine_is_handed_over_after_the_approval() -> None:
    driver = Driver()
    job = driver.create(schedule=ONCE, approval=GATE, orchestrated=True)
    driver.run_until(NOW + 100)
    assert driver.states == []
    approve(driver, job)
    driver.run(10)
    assert driver.states != []
    [execution] = driver.executions(job.id)
    assert (execution.status, execution.approval and execution.approval.by) == (ExecutionStatus.COMPLETED, "boss")


@pytest.mark.parametrize("how", ["by hand", "retried"])
def test_whoever_asked_for_a_run_before_there_was_a_gate_does_not_approve_it(how: str) -> None:
    """The run was asked for without a gate; the job is given one while it waits for its start."""
    boss, colleague = user("boss", "admin"), user("colleague", "admin")
    played = Played()
    body = {"name": "x", "target": TARGET, "schedule": {"type": "once", "at": "2027-01-15T08:00:00Z"}, **NEVER}
    played.failing = {"x"} if how == "retried" else set()
    path = f"/v1/jobs/{played.api.post('/v1/jobs', body).json['id']}"
    played.run(30)
    action = "retry" if how == "retried" else "execute"
    assert played.api.post(f"{path}/{action}", claims=boss).status in (200, 202)
    gate = {"role": "admin", "timeoutSeconds": 600}
    assert played.api.patch(path, {"approval": gate}).status == 200
    calls = len(played.called)
    played.run(10)
    [run] = [slot for slot, run in played.driver.row(path.rpartition("/")[2]).runs.items() if run.at_gate]
    named = {"runId": f"{path.rpartition('/')[2]}-{run}"}
    refused = played.api.post(f"{path}/approve", named, claims=boss)
    assert (refused.status, "You asked for this run" in refused.text) == (403, True)
    assert len(played.called) == calls
    assert played.api.post(f"{path}/approve", named, claims=colleague).status == 200
    played.run(10)
    assert len(played.called) == calls + 1
