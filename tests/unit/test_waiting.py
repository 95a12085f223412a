"""What a run that is due waits for, and since when: in the job, its list, its active runs and its history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.domain.errors import NotStartedError
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.instants import rfc3339
from functions.domain.outcome import TargetAnswer
from functions.domain.run import RunState
from functions.domain.waiting import WaitKind, job_waits, run_waits
from tests.api_client import Api, make_body, user
from tests.driver import Driver
from tests.factories import NOW, make_job, make_run
from tests.fakes import FakeClock, World

TEAM = user("alice", "scheduler", "team-a")
ONCE = {"type": "once", "at": rfc3339(NOW + 10)}
EVERY = {"type": "interval", "everySeconds": 60}
LONG = {"type": "worker", "queue": "reports"}
DOWN = TargetAnswer(status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_503", message="503"))


class Story:
    """One world, with its API and its engine."""

    def __init__(self) -> None:
        self.driver = Driver(World(clock=FakeClock(NOW)))
        self.api = Api(self.driver.world, claims=TEAM)

    def create(self, **changes: Any) -> str:
        reply = self.api.post("/v1/jobs", make_body(**changes))
        assert reply.status == 201, reply.text
        return str(reply.json["id"])

    def run_to(self, second: float) -> None:
        self.driver.run_until(NOW + second)

    def waits(self, job: str) -> dict[str, Any] | None:
        """What the job says, which all answers that show it say alike."""
        shown = self.api.get(f"/v1/jobs/{job}").json
        listed = {one["id"]: one for one in self.api.get("/v1/jobs").json["data"]}[job]
        assert listed["waitingFor"] == shown["waitingFor"]
        assert listed["activeRuns"] == shown["activeRuns"]
        active = {
            entry["runId"]: entry["waitingFor"]
            for entry in self.api.get(f"/v1/jobs/{job}/history").json["data"]
            if entry["status"] in ("RUNNING", "QUEUED")
        }
        assert active == {run["runId"]: run["waitingFor"] for run in shown["activeRuns"]}
        for execution in self.api.get(f"/v1/jobs/{job}/history").json["data"]:
            if "waitingFor" in execution:
                one = self.api.get(f"/v1/executions/{execution['id']}").json
                assert one["waitingFor"] == execution["waitingFor"]
        found: dict[str, Any] | None = shown["waitingFor"]
        if active:
            assert found is None or found in active.values()
        return found


def waiting(kind: str, name: str | None, second: float) -> dict[str, Any]:
    return {"kind": kind, "name": name, "since": rfc3339(NOW + second)}


@pytest.fixture
def story() -> Story:
    return Story()


def test_nothing_before_its_time_while_it_runs_and_afterwards(story: Story) -> None:
    job = story.create(schedule=ONCE)
    assert story.waits(job) is None
    story.run_to(60)
    assert story.waits(job) is None


def test_a_worker(story: Story) -> None:
    job = story.create(schedule=ONCE, target=LONG)
    story.run_to(500)
    assert story.waits(job) == waiting("worker", "reports", 10)
    assert story.api.get(f"/v1/jobs/{job}").json["status"] == "SCHEDULED"


def test_a_permit_of_its_key(story: Story) -> None:
    limit = {"concurrencyKey": "team/db", "maxConcurrency": 1}
    holder = story.create(schedule=ONCE, orchestrated=True, **limit)
    story.driver.world.machine.take = list  # type: ignore[method-assign]  # it never ends
    story.run_to(15)
    job = story.create(schedule={"type": "once", "at": rfc3339(NOW + 20)}, **limit)
    story.run_to(40)
    assert story.waits(holder) is None
    assert story.waits(job) == waiting("concurrency", "team/db", 20)


def test_a_permit_of_its_type(story: Story) -> None:
    assert story.api.put("/v1/retry-configs/billing", {"maxConcurrency": 1}, claims=user("root", "admin")).status == 200
    story.create(schedule=ONCE, orchestrated=True, type="billing")
    story.driver.world.machine.take = list  # type: ignore[method-assign]  # it never ends
    story.run_to(15)
    job = story.create(schedule={"type": "once", "at": rfc3339(NOW + 20)}, type="billing")
    story.run_to(40)
    assert story.waits(job) == waiting("job_type", "billing", 20)


@pytest.mark.parametrize("attempts", [1, 4])
def test_the_circuit_of_its_target(story: Story, attempts: int) -> None:
    story.driver.world.targets.answers = [DOWN]
    breaker = {"failureThreshold": attempts, "openSeconds": 600}
    quick = {"maxRetries": 9, "initialDelaySeconds": 1, "backoffStrategy": "fixed", "jitter": 0}
    story.driver.world.types.set_circuits(**breaker)
    job = story.create(schedule=ONCE, circuitBreaker={}, retryConfig=quick)
    story.run_to(60)
    found = story.waits(job)
    assert found is not None
    assert (found["kind"], found["name"]) == ("circuit", "http:example.com:443")
    assert rfc3339(NOW + 10) < found["since"] < rfc3339(NOW + 20)
    assert story.api.get(f"/v1/jobs/{job}").json["status"] == "RETRYING"


def test_room_in_the_state_machine(story: Story) -> None:
    story.driver.world.machine.refusal = NotStartedError("throttled", busy=True)
    job = story.create(schedule=ONCE, orchestrated=True)
    story.run_to(11)
    assert story.waits(job) == waiting("state_machine", None, 10)
    story.driver.world.machine.refusal = None
    story.run_to(200)
    assert story.waits(job) is None
    assert story.api.get(f"/v1/jobs/{job}").json["status"] == "COMPLETED"


def test_nothing_once_it_runs_whatever_it_waited_for(story: Story) -> None:
    story.driver.world.machine.refusal = NotStartedError("throttled", busy=True)
    job = story.create(schedule=ONCE, orchestrated=True)
    story.run_to(11)
    assert story.waits(job) == waiting("state_machine", None, 10)
    story.driver.world.machine.refusal = None
    story.driver.world.machine.take = list  # type: ignore[method-assign]  # it never ends
    story.run_to(100)
    assert [run["status"] for run in story.api.get(f"/v1/jobs/{job}").json["activeRuns"]] == ["RUNNING"]
    assert story.waits(job) is None


def test_an_approval(story: Story) -> None:
    job = story.create(schedule=ONCE, approval={"role": "release-managers", "timeoutSeconds": 600})
    story.run_to(30)
    assert story.waits(job) == waiting("approval", "release-managers", 10)


def test_the_run_before_it(story: Story) -> None:
    job = story.create(schedule=EVERY, target=LONG, overlapPolicy="queue", timeoutSeconds=3600)
    story.run_to(170)
    runs = story.api.get(f"/v1/jobs/{job}").json["activeRuns"]
    assert [run["status"] for run in runs] == ["WAITING", "QUEUED"]
    assert runs[1]["waitingFor"] == waiting("previous_run", runs[0]["runId"], 120)
    assert story.waits(job) == waiting("worker", "reports", 60), "the one that has waited longest"


def test_the_jobs_it_depends_on(story: Story) -> None:
    parent = story.create(schedule={"type": "once", "at": rfc3339(NOW + 5000)})
    job = story.create(schedule=None, dependsOn=[{"jobId": parent}])
    story.run_to(30)
    assert story.waits(job) == waiting("dependencies", parent, 0)
    assert story.waits(parent) is None


def test_the_next_minute_of_a_job_that_starts_too_often(story: Story) -> None:
    job = story.create(schedule={"type": "interval", "everySeconds": 1})
    story.run_to(61)
    row = story.driver.row(job)
    story.driver.world.jobs.put(replace(row, brake_minute=int(NOW + 61) // 60, brake_count=300))
    story.run_to(70)
    found = story.waits(job)
    assert found is not None
    assert (found["kind"], found["name"]) == ("start_rate", None)


def test_a_retry_waits_for_its_time_alone(story: Story) -> None:
    story.driver.world.targets.answers = [DOWN]
    job = story.create(schedule=ONCE, retryConfig={"initialDelaySeconds": 300})
    story.run_to(60)
    assert story.waits(job) is None
    assert story.api.get(f"/v1/jobs/{job}").json["activeRuns"][0]["nextAttemptAt"] is not None


def test_no_answer_costs_a_read_more(story: Story) -> None:
    job = story.create(schedule=ONCE, target=LONG)
    story.run_to(30)
    calls = story.driver.world.jobs.calls
    for path, reads in ((f"/v1/jobs/{job}", ["get"]), ("/v1/jobs", ["list_by_owners", "get_many"])):
        calls.clear()
        assert story.api.get(path).status == 200
        assert calls == reads


@pytest.mark.parametrize("waits_for", ["worker:team-b/q", "key:team-b|x", "worker:", "other:team-a/q", "key:team-a"])
def test_what_others_wrote_names_nothing(waits_for: str) -> None:
    run = make_run(state=RunState.WAITING, waits_for=waits_for, deferred_at=NOW)
    assert run_waits(make_job(runs={"1800000000": run}), "1800000000", run) is None


def test_a_job_whose_definition_cannot_be_read_still_says_what_it_waits_for() -> None:
    gate = make_run(state=RunState.WAITING, waits_for="approval", deferred_at=NOW)
    held = make_run(state=RunState.WAITING, deferred_for="CIRCUIT_OPEN", deferrals=1, deferred_at=NOW + 1)
    job = make_job(definition=None, runs={"1800000000": held, "1800000060": gate})
    assert [tuple(run_waits(job, slot, run) or ()) for slot, run in job.runs.items()] == [
        (WaitKind.CIRCUIT, None, NOW + 1),
        (WaitKind.APPROVAL, None, NOW),
    ]
    assert job_waits(job) == (WaitKind.APPROVAL, None, NOW)
