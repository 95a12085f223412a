"""Approval gates on the stack: runs wait with nothing running, and one decision about each is stored."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gnomon.client import Client
from gnomon.errors import GnomonApiError
from tests.e2e.people import People
from tests.e2e.stack import Aws, Stack, job_body, once, until
from tests.e2e.target import Endpoint

pytestmark = pytest.mark.e2e

Create = Callable[..., dict[str, Any]]
GATE = {"role": "approver", "timeoutSeconds": 600}


@pytest.fixture(scope="module")
def boss(stack: Stack, people: People) -> Iterator[Client]:
    """A member of the group that decides, who sees every job."""
    yield from _member(stack, people)


@pytest.fixture(scope="module")
def carol(stack: Stack, people: People) -> Iterator[Client]:
    yield from _member(stack, people)


def _member(stack: Stack, people: People) -> Iterator[Client]:
    with Client(stack.api_url, people.token("approver", "scheduler")) as client:
        yield client


def at_gate(client: Client, job_id: str) -> list[dict[str, Any]]:
    """The job's gates, once a run waits."""
    return until(  # type: ignore[no-any-return]  # what the API answers
        lambda: client.get_job(job_id)["gates"], seconds=30, hint="a run waits for approval"
    )


def ended(client: Client, job_id: str, *, seconds: float = 30) -> list[dict[str, Any]]:
    """The job's history, newest first, once nothing of it is active."""
    until(
        lambda: client.get_job(job_id)["status"] in ("COMPLETED", "CANCELLED", "FAILED"),
        seconds=seconds,
        hint="the job comes to rest",
    )
    return [dict(execution) for execution in client.history(job_id)]


def refusal(decide: Callable[[str], Any], job_id: str) -> GnomonApiError | None:
    """Why the decision was refused; None where it was stored."""
    try:
        decide(job_id)
    except GnomonApiError as error:
        return error
    return None


def test_an_approved_run_is_called_and_says_who_let_it(
    scheduler: Client, boss: Client, create: Create, endpoint: Endpoint
) -> None:
    job = create(schedule=once(0), target=endpoint.target(), approval=GATE)
    [gate] = at_gate(scheduler, job["id"])
    assert (gate["role"], scheduler.get_job(job["id"])["status"]) == ("approver", "BLOCKED")
    [waiting] = scheduler.history(job["id"])
    assert (waiting["status"], waiting["reason"]) == ("QUEUED", "APPROVAL_NEEDED")
    decided = boss.approve_job(job["id"], run_id=gate["runId"], comment="checked")
    assert decided["gates"] == []
    [execution] = ended(scheduler, job["id"])
    assert execution["status"] == "COMPLETED"
    assert (execution["approval"]["decision"], execution["approval"]["comment"]) == ("approved", "checked")


def test_a_rejected_run_is_not_called(scheduler: Client, boss: Client, create: Create, endpoint: Endpoint) -> None:
    job = create(schedule=once(0), target=endpoint.target(), approval=GATE)
    at_gate(scheduler, job["id"])
    boss.reject_job(job["id"], comment="not today")
    [execution] = ended(scheduler, job["id"])
    assert (execution["status"], execution["reason"], execution["final"]) == ("CANCELLED", "REJECTED", True)
    assert execution["approval"]["comment"] == "not today"
    assert endpoint.calls(job["id"]) == []


@pytest.mark.parametrize(("on_timeout", "status"), [("reject", "CANCELLED"), ("approve", "COMPLETED")])
def test_nobody_decides_in_time(
    scheduler: Client, create: Create, endpoint: Endpoint, on_timeout: str, status: str
) -> None:
    gate = {"role": "admin", "timeoutSeconds": 6, "onTimeout": on_timeout}
    job = create(schedule=once(0), target=endpoint.target(), approval=gate)
    [waiting] = at_gate(scheduler, job["id"])
    [execution] = ended(scheduler, job["id"], seconds=40)
    assert execution["status"] == status
    assert (execution["approval"]["by"], execution["approval"]["at"]) >= ("timeout", waiting["decideBy"])
    assert execution["reason"] == ("APPROVAL_TIMEOUT" if status == "CANCELLED" else None)
    assert len(endpoint.calls(job["id"])) == (status == "COMPLETED")


def test_of_two_who_decide_at_once_one_is_told_of_the_other(
    scheduler: Client, boss: Client, carol: Client, create: Create, endpoint: Endpoint
) -> None:
    for _ in range(3):
        job = create(schedule=once(0), target=endpoint.target(), approval=GATE)
        at_gate(scheduler, job["id"])

        with ThreadPoolExecutor(2) as pool:
            approved, rejected = pool.map(refusal, (boss.approve_job, carol.reject_job), [job["id"]] * 2)
        assert (approved is None) != (rejected is None)
        [refused] = [error for error in (approved, rejected) if error is not None]
        assert refused.status == 409
        word = "approved" if approved is None else "rejected"
        assert f"was {word} by " in str(refused)
        [execution] = ended(scheduler, job["id"])
        assert execution["approval"]["decision"] == word
        assert len(endpoint.calls(job["id"])) == (word == "approved")


def test_the_creator_does_not_decide(scheduler: Client, boss: Client, carol: Client, endpoint: Endpoint) -> None:
    job = boss.create_job(job_body(schedule=once(0), target=endpoint.target(), approval=GATE))
    try:
        at_gate(boss, job["id"])
        with pytest.raises(GnomonApiError, match="You created this job") as refused:
            boss.approve_job(job["id"])
        assert refused.value.status == 403
        with pytest.raises(GnomonApiError, match="takes the role approver"):
            scheduler.approve_job(job["id"])
        with pytest.raises(GnomonApiError, match="whoever may decide may change it"):
            boss.update_job(job["id"], {"approval": None})
        assert carol.approve_job(job["id"])["gates"] == []
        ended(boss, job["id"])
    finally:
        boss.delete_job(job["id"])


def test_runs_of_a_recurring_job_are_named(scheduler: Client, boss: Client, create: Create, endpoint: Endpoint) -> None:
    job = create(
        schedule={"type": "interval", "everySeconds": 3},
        target=endpoint.target(),
        overlapPolicy="allow",
        maxRuns=2,
        approval=GATE,
    )
    gates = until(
        lambda: len(found := scheduler.get_job(job["id"])["gates"]) == 2 and found, seconds=30, hint="both runs wait"
    )
    with pytest.raises(GnomonApiError, match="runId is required") as refused:
        boss.approve_job(job["id"])
    assert refused.value.status == 400
    boss.approve_job(job["id"], run_id=gates[1]["runId"])
    boss.reject_job(job["id"], run_id=gates[0]["runId"])
    history = ended(scheduler, job["id"])
    assert {each["runId"]: each["status"] for each in history} == {
        gates[0]["runId"]: "CANCELLED",
        gates[1]["runId"]: "COMPLETED",
    }


def test_nothing_runs_while_a_gate_waits(
    stack: Stack, aws: Aws, scheduler: Client, boss: Client, create: Create, endpoint: Endpoint
) -> None:
    """A row and a hint: no message in sight, no execution of the state machine, no write of the row."""
    gate = {"role": "approver", "timeoutSeconds": 3_600}
    job = create(schedule=once(0), target=endpoint.target(), orchestrated=True, approval=gate)
    at_gate(scheduler, job["id"])
    key = {"jobId": {"S": job["id"]}, "S": {"S": "S"}}
    table = stack.outputs["JobsTable"]

    def row() -> str:
        return json.dumps(aws.dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True)["Item"], sort_keys=True)

    before = row()
    time.sleep(70)  # beyond due + 30 s and a round of the sweep
    assert row() == before
    schedules = aws.scheduler.list_schedules(NamePrefix=job["id"].replace("-", ""))["Schedules"]
    assert len(schedules) == 1, "its deadline is an hour away: a schedule"
    boss.approve_job(job["id"])
    [execution] = ended(scheduler, job["id"])
    assert execution["status"] == "COMPLETED"
    left = aws.scheduler.list_schedules(NamePrefix=job["id"].replace("-", ""))["Schedules"]
    assert left == [], "it is taken back"
