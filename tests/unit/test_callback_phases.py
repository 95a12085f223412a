"""A callback attempt has two owners, one after the other: the function that calls, then the target that accepted.

Each phase has its own lease, so what dies with the first is repaired within the lease of the call + 2 minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.claims import Holder
from functions.domain.errors import ConflictError
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus, SkippedSlots
from functions.domain.job import JobStatus
from functions.domain.lease import LEASE_MARGIN
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.progress import Progress
from functions.domain.run import ActiveRun, RunState
from functions.usecases.jobs import JobDraft, change_job
from functions.usecases.reports import end_execution, report_progress
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW, make_document
from tests.fakes import FakeClock, World
from tests.faults import Crash

ONCE = {"type": "once", "at": "2027-01-15T08:00:10Z"}
AT = NOW + 10
KEY: dict[str, Any] = {"concurrencyKey": "database", "maxConcurrency": 1}
OK = TargetAnswer(status=ExecutionStatus.COMPLETED, result="true")
BROKEN = TargetAnswer(status=ExecutionStatus.FAILED, error=ExecutionError(code="TARGET_ERROR", message="no"))
DOWN = TargetAnswer(status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_503", message="503"))
REPAIRED = 120
"""Seconds after the lease of the call within which another attempt has started."""

DEATHS = {
    "after the start": ("after", "jobs.save", 0),
    "before the call": ("before", "targets.call", 0),
    "after the call": ("after", "targets.call", 1),
    "before the write of the acceptance": ("before", "jobs.save", 1),
}
"""When the function dies, and how often its target was called by then."""


class Scene:
    """Callback jobs over the fakes. What was sent the token can report with it."""

    def __init__(self) -> None:
        self.driver = Driver(World(clock=FakeClock(NOW)))
        self.world = self.driver.world

    def create(self, **document: Any) -> str:
        given = {"schedule": ONCE, "completion": "callback", "timeoutSeconds": 7_200} | document
        return self.driver.create(**given).id

    def dies(self, when: str, job: str) -> None:
        """The function that starts the job's next attempt dies there."""
        moment, name, _ = DEATHS[when]

        def die(now: str, step: str) -> None:
            runs = self.world.jobs.rows[job].runs.values()
            started = any(run.state is RunState.RUNNING for run in runs)
            if (now, step) == (moment, name) and started:
                self.world.faults.disarm()
                raise Crash(when)

        self.world.faults.inject(on_step=die)

    def calls(self, job: str) -> list[Invocation]:
        return [call for call in self.world.targets.calls if call.job_id == job]

    def run_of(self, job: str) -> ActiveRun:
        [run] = self.driver.row(job).runs.values()
        return run

    def report(self, invocation: Invocation, answer: TargetAnswer = OK) -> bool:
        """Whether it counted."""
        holder = Holder(token=invocation.callback_token)
        try:
            end_execution(self.driver.services, SCHEDULER, invocation.execution_id, holder, answer)
        except ConflictError:
            return False
        return True

    def reports_each(self, after: float = 0.0) -> None:
        """Targets accept, and report when the call is over."""
        self.world.targets.answers = [lambda invocation: self._accept(invocation, after)]

    def _accept(self, invocation: Invocation, after: float) -> TargetAnswer:
        self.driver.run(after)
        assert self.report(invocation)
        return OK

    def ends(self, job: str) -> list[Execution]:
        return self.driver.executions(job)


def codes(executions: list[Execution]) -> list[str]:
    return [one.error.code if one.error else one.status.value for one in executions]


@pytest.mark.parametrize("when", DEATHS)
@pytest.mark.parametrize("timeout", [200, 7_200, 86_400])
def test_what_dies_before_the_acceptance_is_written_is_repeated_soon(when: str, timeout: int) -> None:
    scene = Scene()
    job = scene.create(timeoutSeconds=timeout)
    scene.dies(when, job)

    scene.driver.run_until(AT + 60 + LEASE_MARGIN + REPAIRED)

    [lost] = scene.ends(job)
    assert codes([lost]) == ["WORKER_LOST"]
    called = scene.calls(job)
    assert len(called) == DEATHS[when][2] + 1
    assert scene.run_of(job).attempt == 2
    assert scene.report(called[-1])
    assert scene.driver.row(job).status is JobStatus.COMPLETED


@pytest.mark.parametrize("kind", ["http", "lambda", "handler", "sqs"])
def test_targets_of_every_kind_have_the_two_phases(kind: str) -> None:
    targets = {
        "http": {"url": "https://example.com/hook"},
        "lambda": {"functionName": "gnomon-test-team-a--report"},
        "handler": {"name": "hello"},
        "sqs": {"queueUrl": "https://sqs.eu-central-1.amazonaws.com/123456789012/gnomon-test-team-a--q"},
    }
    scene = Scene()
    job = scene.create(timeoutSeconds=840, target={"type": kind, **targets[kind]})
    scene.dies("before the call", job)

    scene.driver.run_until(AT + 60 + LEASE_MARGIN + REPAIRED)

    assert codes(scene.ends(job)) == ["WORKER_LOST"]
    assert len(scene.calls(job)) == 1


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 86_400), st.sampled_from(sorted(DEATHS)), st.integers(0, 59))
def test_repair_is_bound_by_the_call_and_not_by_the_timeout(timeout: int, when: str, second: int) -> None:
    scene = Scene()
    job = scene.create(timeoutSeconds=timeout, schedule={"type": "once", "at": f"2027-01-15T08:02:{second:02d}Z"})
    scene.dies(when, job)

    scene.driver.run_until(NOW + 120 + second + min(timeout, 60) + LEASE_MARGIN + REPAIRED)

    assert len(scene.ends(job)) >= (timeout > 60 or when != "before the write of the acceptance")
    assert len(scene.calls(job)) >= DEATHS[when][2] + (timeout > 60)


def test_a_run_is_not_lost_to_its_retry_window_by_a_death() -> None:
    scene = Scene()
    job = scene.create(retryConfig={"maxRetries": 3, "retryWindowSeconds": 3_000})
    scene.dies("before the call", job)
    scene.reports_each()

    scene.driver.run(9_000)

    assert codes(scene.ends(job)) == ["WORKER_LOST", "COMPLETED"]


def test_an_hourly_job_loses_no_run_to_a_death_in_one_of_them() -> None:
    scene = Scene()
    hourly = {"type": "cron", "expression": "0 * * * *"}
    job = scene.create(schedule=hourly, timeoutSeconds=86_400, overlapPolicy="skip", maxRuns=24)
    scene.reports_each()
    scene.dies("before the call", job)

    scene.driver.run(25 * 3_600)

    history = scene.driver.history(job)
    assert not [entry for entry in history if isinstance(entry, SkippedSlots)]
    assert codes(scene.ends(job)) == ["WORKER_LOST", *["COMPLETED"] * 24]


@pytest.mark.parametrize("when", DEATHS)
def test_a_dead_attempt_keeps_nobody_from_its_key_for_long(when: str) -> None:
    scene = Scene()
    dead = scene.create(**KEY, timeoutSeconds=86_400, retryConfig={"maxRetries": 0})
    scene.reports_each()
    if DEATHS[when][2]:
        scene.world.targets.answers = [OK, *scene.world.targets.answers]
    scene.dies(when, dead)
    scene.driver.run_until(AT + 1)
    waits = scene.create(**KEY, schedule={"type": "once", "at": "2027-01-15T08:00:12Z"})

    scene.driver.run_until(AT + 60 + LEASE_MARGIN + REPAIRED)

    assert codes(scene.ends(dead)) == ["WORKER_LOST"]
    assert codes(scene.ends(waits)) == ["COMPLETED"]


def test_the_acceptance_gives_the_target_until_the_deadline() -> None:
    scene = Scene()
    job = scene.create()
    scene.driver.run_until(AT + 1)

    run = scene.run_of(job)
    assert (run.deadline_at, run.lease_expires_at) == (AT + 7_200, AT + 7_200 + LEASE_MARGIN)
    scene.driver.run_until(AT + 7_199)
    assert scene.run_of(job).attempt == 1
    assert scene.report(scene.calls(job)[0])
    assert len(scene.calls(job)) == 1


@pytest.mark.parametrize(
    ("document", "answer", "writes"),
    [
        ({"timeoutSeconds": 61}, OK, 2),
        ({"timeoutSeconds": 60}, OK, 1),
        ({"timeoutSeconds": 5}, OK, 1),
        ({"timeoutSeconds": 7_200}, DOWN, 2),
        ({"timeoutSeconds": 60, "completion": "response"}, OK, 2),
    ],
    ids=["accepted", "lasts as long as its call", "short", "refused: its end", "no callback: its end"],
)
def test_only_an_acceptance_that_lasts_beyond_its_call_is_written(
    document: dict[str, Any], answer: TargetAnswer, writes: int
) -> None:
    """The start, and what follows the call."""
    scene = Scene()
    scene.create(**document)
    scene.world.targets.answers = [answer]
    scene.world.faults.steps.clear()

    scene.driver.run_until(AT + 1)

    assert scene.world.faults.steps.count("jobs.save") == writes


def test_a_report_before_the_acceptance_is_written_counts() -> None:
    scene = Scene()
    job = scene.create()
    reported: list[bool] = []

    def hasty(step: str, name: str) -> None:
        if (step, name) == ("after", "targets.call"):
            scene.world.faults.disarm()
            reported.append(scene.report(scene.calls(job)[0]))

    scene.world.faults.inject(on_step=hasty)
    scene.driver.run(9_000)

    assert reported == [True]
    assert codes(scene.ends(job)) == ["COMPLETED"]
    assert len(scene.calls(job)) == 1


def test_a_report_between_the_decision_and_the_write_of_the_acceptance_counts() -> None:
    scene = Scene()
    job = scene.create()

    def hasty(step: str, name: str) -> None:
        if (step, name) == ("before", "jobs.save") and scene.calls(job):
            scene.world.faults.disarm()
            assert scene.report(scene.calls(job)[0], BROKEN)

    scene.world.faults.inject(on_step=hasty)
    scene.driver.run_until(AT + 1)

    [end] = scene.ends(job)
    assert (end.error, end.final) == (BROKEN.error, False)
    run = scene.run_of(job)
    assert (run.state, run.lease_expires_at) == (RunState.WAITING, None), "the acceptance prolongs nothing that is over"


@pytest.mark.parametrize(
    ("after", "counts"), [(1, True), (74, True), (75, False), (79, False), (80, False), (140, False)]
)
def test_a_report_on_a_call_whose_function_died_counts_while_the_lease_of_the_call_holds(
    after: int, counts: bool
) -> None:
    scene = Scene()
    job = scene.create()
    scene.dies("after the call", job)
    scene.driver.run_until(AT)
    scene.driver.sweeps = False
    scene.driver.run_until(AT + after)
    [invocation] = scene.calls(job)
    holder = Holder(token=invocation.callback_token)

    def progress() -> bool:
        try:
            services = scene.driver.services
            return report_progress(services, SCHEDULER, invocation.execution_id, holder, Progress(percent=1))
        except ConflictError:
            return False

    assert (progress(), scene.report(invocation)) == (counts, counts)
    scene.driver.sweeps = True
    scene.driver.run_until(AT + after + REPAIRED)
    assert codes(scene.ends(job)) == (["COMPLETED"] if counts else ["WORKER_LOST"])


def stalled(scene: Scene, at: tuple[str, str], seconds: float, *, also: Callable[[], object] = lambda: None) -> None:
    """The function that runs stands still there once; the sweep works meanwhile."""

    def stall(step: str, name: str) -> None:
        running = [run for row in scene.world.jobs.rows.values() for run in row.runs.values()]
        if (step, name) == at and any(run.state is RunState.RUNNING for run in running):
            scene.world.faults.disarm()
            scene.driver.run(seconds)
            also()

    scene.world.faults.inject(on_step=stall)


def test_an_acceptance_that_comes_too_late_revives_nothing() -> None:
    scene = Scene()
    job = scene.create()
    stalled(scene, ("before", "jobs.save"), 60 + LEASE_MARGIN + 70)
    scene.driver.run_until(AT + 60 + LEASE_MARGIN + REPAIRED)

    assert codes(scene.ends(job)) == ["WORKER_LOST"]
    run = scene.run_of(job)
    assert (run.attempt, run.lease_expires_at) == (2, (run.deadline_at or 0) + LEASE_MARGIN)
    first, second = scene.calls(job)
    assert (scene.report(first), scene.report(second)) == (False, True)


@pytest.mark.parametrize("seconds", [69, 70, 74, 76, 200])
@pytest.mark.parametrize("completion", ["callback", "response"])
def test_a_start_that_was_slow_calls_no_target_beyond_its_lease(seconds: float, completion: str) -> None:
    scene = Scene()
    timeout = 7_200 if completion == "callback" else 60
    job = scene.create(completion=completion, timeoutSeconds=timeout, retryConfig={"maxRetries": 1})
    scene.driver.sweeps = False
    stalled(scene, ("after", "jobs.save"), seconds)
    scene.driver.run_until(AT + 201)

    assert [call.timeout_seconds for call in scene.calls(job)] == ([1] if seconds == 69 else [])
    scene.driver.sweeps = True
    scene.driver.run(REPAIRED)
    assert [call.attempt for call in scene.calls(job)] == ([1] if seconds == 69 else [2])


def test_an_attempt_keeps_the_completion_it_was_started_with() -> None:
    """A change between the start and the call of the state machine gives no token to what waits for no report."""
    scene = Scene()
    job = scene.create(completion="response", timeoutSeconds=600)
    changed = make_document(schedule=ONCE, completion="callback", timeoutSeconds=600)

    def change(step: str, name: str) -> None:
        if (step, name) == ("after", "machine.start"):
            scene.world.faults.disarm()
            draft = JobDraft(document=changed, payload="{}")
            change_job(scene.driver.services, SCHEDULER, job, change=lambda _: draft)

    scene.world.faults.inject(on_step=change)
    scene.driver.run_until(AT + 5)
    assert [call.callback_token for call in scene.calls(job)] == [None]
    assert codes(scene.ends(job)) == ["COMPLETED"]
