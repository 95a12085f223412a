"""Whoever subscribes to the bus hears exactly what history tells, in order, each event once by its id."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from gnomon.client import Client
from tests.e2e.stack import job_body, once, until
from tests.e2e.subscriber import Subscriber
from tests.e2e.target import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.people import People
    from tests.e2e.stack import Aws, Stack

pytestmark = pytest.mark.e2e

FIXED = {"maxRetries": 3, "backoffStrategy": "fixed", "initialDelaySeconds": 1, "jitter": 0}
RETRIED = [
    ("job.scheduled", None),
    ("job.started", 1),
    ("job.failed", 1),
    ("job.retry_scheduled", 2),
    ("job.started", 2),
    ("job.failed", 2),
    ("job.retry_scheduled", 3),
    ("job.started", 3),
    ("job.completed", 3),
]


@pytest.fixture(scope="module")
def subscriber(stack: Stack, aws: Aws) -> Iterator[Subscriber]:
    subscriber = Subscriber(stack, aws)
    yield subscriber
    subscriber.close()


@pytest.fixture(scope="module")
def boss(stack: Stack, people: People) -> Iterator[Client]:
    """A member of the group that decides at gates, who sees every job."""
    with Client(stack.api_url, people.token("approver", "scheduler")) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def silent_job(subscriber: Subscriber, scheduler: Client) -> Iterator[str]:
    """A paused job, made before the other tests: a minute later it is silent."""
    job = scheduler.create_job(job_body(schedule={"type": "interval", "everySeconds": 30}, alertAfterSeconds=60))
    scheduler.pause_job(job["id"])
    yield job["id"]
    scheduler.delete_job(job["id"])


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["eventType"] for event in events]


def test_a_job_that_fails_twice_and_then_succeeds(
    subscriber: Subscriber, scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    job = create(
        schedule=once(0), target=endpoint.target("503-503-200"), payload={"secret": "pssst"}, retryConfig=FIXED
    )

    events = subscriber.story(job["id"], "job.completed", seconds=40)

    assert [(event["eventType"], event.get("attempt")) for event in events] == RETRIED
    third, second, first = scheduler.history(job["id"])
    told = {(event["eventType"], event.get("attempt")): event for event in events}
    for attempt, execution in enumerate((first, second, third), start=1):
        assert told["job.started", attempt]["executionId"] == execution["id"]
        assert told["job.started", attempt]["time"] == execution["startedAt"]
    for attempt, execution in enumerate((first, second), start=1):
        failed = told["job.failed", attempt]
        assert (failed["status"], failed["errorCode"], failed["time"]) == (
            "FAILED",
            "HTTP_503",
            execution["completedAt"],
        )
        assert told["job.retry_scheduled", attempt + 1]["nextRetryAt"] == execution["nextRetryAt"]
    assert told["job.completed", 3]["time"] == third["completedAt"]
    for copy in subscriber.copies(job["id"]):
        assert copy["source"] == "gnomon"
        assert copy["detail-type"] == copy["detail"]["eventType"]
        assert (copy["detail"]["jobName"], copy["detail"]["version"]) == (job["name"], "1.0")
        assert "pssst" not in str(copy)
        assert "answered" not in str(copy)


def test_a_pause_a_resume_and_a_cancel(
    subscriber: Subscriber, scheduler: Client, create: Callable[..., dict[str, Any]]
) -> None:
    job = create(schedule={"type": "interval", "everySeconds": 2}, enabled=False)
    time.sleep(5)
    scheduler.resume_job(job["id"])
    until(lambda: scheduler.get_job(job["id"])["lastRun"], seconds=20)
    scheduler.pause_job(job["id"])
    scheduler.cancel_job(job["id"])

    events = subscriber.story(job["id"], "job.cancelled")

    assert types(events)[:1] == ["job.scheduled"]
    assert events[0]["paused"] is True
    callers = [event["eventType"] for event in events if event["eventType"] in CALLERS]
    assert callers == ["job.resumed", "job.paused", "job.cancelled"]
    skipped = [event for event in events if event["eventType"] == "job.skipped"]
    history = [entry for entry in scheduler.history(job["id"]) if entry["status"] == "SKIPPED"]
    assert sum(event["count"] for event in skipped) == sum(entry["count"] for entry in history)
    assert skipped[0]["reason"] == "PAUSED"
    runs = [event for event in events if event["eventType"] in ("job.started", "job.completed", "job.run_cancelled")]
    assert types(runs)[:2] == ["job.started", "job.completed"]


CALLERS = ("job.resumed", "job.paused", "job.cancelled")


def test_a_run_that_fails_for_good(
    subscriber: Subscriber, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    job = create(schedule=once(0), target=endpoint.target("404"))

    events = subscriber.story(job["id"], "job.permanently_failed")

    assert types(events) == ["job.scheduled", "job.started", "job.permanently_failed"]
    assert (events[2]["errorCode"], events[2]["reason"]) == ("HTTP_404", "NOT_RETRYABLE")


@pytest.mark.timeout(200)
def test_a_paused_job_is_silent_and_recovers_by_a_run_by_hand(
    silent_job: str, subscriber: Subscriber, scheduler: Client
) -> None:
    events = subscriber.story(silent_job, "job.silent", seconds=140)

    assert types(events) == ["job.scheduled", "job.paused", "job.silent"]
    job = scheduler.get_job(silent_job)
    assert job["silentSince"] == events[-1]["silentSince"] == job["createdAt"]
    assert silent_job in [each["id"] for each in scheduler.list_jobs(silent=True)]

    scheduler.execute_job(silent_job)

    events = subscriber.story(silent_job, "job.recovered")
    assert types(events)[3:] == ["job.run_requested", "job.started", "job.completed", "job.recovered"]
    assert events[3]["by"]["kind"] == "person"
    assert scheduler.get_job(silent_job)["silentSince"] is None


def test_a_circuit_tells_that_it_opened(
    subscriber: Subscriber, admin: Client, create: Callable[..., dict[str, Any]]
) -> None:
    admin.put_retry_config("e2e-breaks-at-two", {"circuitBreaker": {"failureThreshold": 2, "openSeconds": 3600}})
    with Endpoint().listening() as target:  # a port of its own, and so a circuit of its own
        job = create(
            schedule=once(0),
            target=target.target("503"),
            retryConfig={**FIXED, "maxRetries": 2},
            type="e2e-breaks-at-two",
        )
        key = f"http:{target.url().split('/')[2]}~e2e-breaks-at-two@{job['owner']}"

        [event] = until(lambda: subscriber.of_circuit(key), seconds=30)

    assert (event["eventType"], event["owner"], event["failures"]) == ("circuit.opened", job["owner"], 2)


def test_a_diamond_of_which_one_fails(
    subscriber: Subscriber, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    """A, then B, which fails, and C; D, which needs both, is skipped: each hears why it waits and goes on."""

    def after(*parents: dict[str, Any], **changes: Any) -> dict[str, Any]:
        return create(**{"schedule": None, "dependsOn": [{"jobId": one["id"]} for one in parents], **changes})

    a = create(schedule=once(8))
    b, c = after(a, target=endpoint.target("404")), after(a)
    d = after(b, c)

    told = {
        "B": subscriber.story(b["id"], "job.permanently_failed", seconds=60),
        "C": subscriber.story(c["id"], "job.completed", seconds=60),
        "D": subscriber.story(d["id"], "job.skipped", seconds=60),
    }

    assert types(told["B"]) == [
        "job.scheduled",
        "job.blocked",
        "job.unblocked",
        "job.started",
        "job.permanently_failed",
    ]
    assert types(told["C"]) == ["job.scheduled", "job.blocked", "job.unblocked", "job.started", "job.completed"]
    assert types(told["D"]) == ["job.scheduled", "job.blocked", "job.skipped"]
    assert [told[name][1]["blockedBy"] for name in "BC"] == [a["id"]] * 2
    assert told["C"][2]["parents"] == [a["id"]]
    skipped = told["D"][-1]
    assert (skipped["reason"], skipped["count"], skipped["from"]) == ("UPSTREAM_FAILED", 1, skipped["to"])
    assert skipped["executionId"].startswith(skipped["runId"])


def gated(create: Callable[..., dict[str, Any]], client: Client, **gate: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A job with a gate, and its gate once its run waits there."""
    job = create(schedule=once(0), approval={"role": "approver", "timeoutSeconds": 600, **gate})
    [waiting] = until(lambda: client.get_job(job["id"])["gates"], seconds=30, hint="a run waits for approval")
    return job, dict(waiting)


def test_gates_that_are_passed_rejected_and_left_alone(
    subscriber: Subscriber, scheduler: Client, boss: Client, create: Callable[..., dict[str, Any]]
) -> None:
    left, left_gate = gated(create, scheduler, timeoutSeconds=6)
    passed, passed_gate = gated(create, scheduler)
    stopped, stopped_gate = gated(create, scheduler)
    boss.approve_job(passed["id"], comment="checked")
    boss.reject_job(stopped["id"], comment="not today")

    told = [
        (passed_gate, subscriber.story(passed["id"], "job.completed"), "approved"),
        (stopped_gate, subscriber.story(stopped["id"], "job.run_cancelled"), "rejected"),
        (left_gate, subscriber.story(left["id"], "job.run_cancelled", seconds=40), "rejected"),
    ]

    ends = {"approved": ["job.started", "job.completed"], "rejected": ["job.run_cancelled"]}
    for gate, events, decision in told:
        assert types(events) == ["job.scheduled", "job.approval_needed", f"job.{decision}", *ends[decision]]
        _, needed, decided, *_, end = events
        assert (needed["runId"], needed["decideBy"], needed["role"]) == (gate["runId"], gate["decideBy"], "approver")
        [execution] = scheduler.history(end["jobId"])
        said = execution["approval"]
        assert said is not None
        by = decided["by"]["id"]
        assert (said["decision"], said["by"], said["comment"]) == (decision, by, decided.get("comment"))
        assert decided["runId"] == execution["runId"] == gate["runId"]
        assert (end["executionId"], end["time"]) == (execution["id"], execution["completedAt"])
        assert end.get("reason") == execution["reason"]
    assert [events[-1].get("reason") for _, events, _ in told] == [None, "REJECTED", "APPROVAL_TIMEOUT"]
    assert [events[2]["by"]["kind"] for _, events, _ in told] == ["person", "person", "system"]


def test_a_job_that_waits_for_another_goes_on_and_then_is_skipped(
    subscriber: Subscriber, scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    """One parent, twice: its first run succeeds and lets the job run, its second fails, and the job is skipped."""
    parent = create(schedule=once(8), target=endpoint.target("200-404"))
    job = create(schedule=None, dependsOn=[{"jobId": parent["id"]}])
    subscriber.story(job["id"], "job.completed", seconds=60)
    scheduler.execute_job(parent["id"])

    events = subscriber.story(job["id"], "job.skipped", seconds=60)

    heard = [kind for kind in types(events) if kind != "job.blocked"]
    assert heard == ["job.scheduled", "job.unblocked", "job.started", "job.completed", "job.skipped"]
    assert types(events)[:3] == ["job.scheduled", "job.blocked", "job.unblocked"]
    assert (events[1]["blockedBy"], events[2]["parents"]) == (parent["id"], [parent["id"]])
    skipped, ran = scheduler.history(job["id"])
    told = {event["eventType"]: event for event in events}
    assert told["job.started"]["executionId"] == told["job.completed"]["executionId"] == ran["id"]
    assert (told["job.started"]["time"], told["job.completed"]["time"]) == (ran["startedAt"], ran["completedAt"])
    assert told["job.unblocked"]["runId"] == ran["runId"]
    assert (told["job.skipped"]["executionId"], told["job.skipped"]["reason"]) == (skipped["id"], skipped["reason"])
    assert (skipped["status"], skipped["reason"]) == ("SKIPPED", "UPSTREAM_FAILED")
