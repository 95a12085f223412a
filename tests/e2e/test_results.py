"""Results of jobs on the stack: conditions over them, payloads that take from them, and what is too large."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from gnomon.work_client import WorkClient
from tests.e2e.stack import job_body, once, problem, unique, until
from tests.e2e.target import LARGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gnomon.client import Client
    from tests.e2e.stack import Api, Stack
    from tests.e2e.target import Endpoint

pytestmark = pytest.mark.e2e

Create = Callable[..., dict[str, Any]]
SOON = 40


@pytest.fixture
def work(stack: Stack) -> Iterator[WorkClient]:
    with WorkClient(stack.api_url, stack.tokens["scheduler"]) as client:
        yield client


@pytest.fixture
def child(create: Create) -> Create:
    """Makes a job that depends on these."""

    def make(*parents: dict[str, Any], when: str | None = None, **changes: Any) -> dict[str, Any]:
        condition = {} if when is None else {"when": when}
        depends = [{"jobId": parent["id"], **condition} for parent in parents]
        return create(**{"schedule": None, "dependsOn": depends, **changes})

    return make


def taking(parent: dict[str, Any], path: str) -> dict[str, str]:
    return {"$from": parent["id"], "path": path}


def ended(scheduler: Client, job: dict[str, Any]) -> dict[str, Any]:
    def last() -> dict[str, Any] | None:
        return next((dict(one) for one in scheduler.history(job["id"]) if one["final"] and one["completedAt"]), None)

    return until(last, seconds=SOON, hint=f"{job['name']} ends")


def called(endpoint: Endpoint, job: dict[str, Any]) -> Any:
    [call] = until(lambda: endpoint.calls(job["id"]), seconds=SOON, hint=f"{job['name']} is called")
    return json.loads(call.body)


def test_a_payload_takes_values_from_a_handlers_and_a_targets_result(
    create: Create, child: Create, endpoint: Endpoint, scheduler: Client
) -> None:
    numbers = {"r": 1.5, "n": 2**70, "rows": [{"id": 1}, {"id": 2}]}
    handler = create(schedule=once(8), payload=numbers)
    http = create(schedule=once(8), target=endpoint.target())
    payload = {
        "rows": taking(handler, "payload.rows[].id"),
        "deep": [{"n": taking(handler, "payload.n")}, taking(handler, "payload.r"), taking(handler, "payload.none")],
        "answer": {"$from": http["id"]},
        "own": 1.0,
    }
    wanted = {"rows": [1, 2], "deep": [{"n": 2**70}, 1.5, None], "answer": {"answered": True}, "own": 1.0}
    direct = child(handler, http, target=endpoint.target(), payload=payload)
    stepped = child(handler, http, target=endpoint.target(), payload=payload, orchestrated=True)
    to_handler = child(handler, http, payload=payload)
    for job in (direct, stepped):
        found = called(endpoint, job)
        assert found == wanted
        assert isinstance(found["own"], float)
    assert ended(scheduler, to_handler)["result"]["payload"] == wanted
    assert scheduler.get_job(direct["id"])["payload"] == payload, "the job shows what was sent"


def test_a_worker_is_given_the_values(create: Create, child: Create, work: WorkClient) -> None:
    queue = unique("queue")
    worker = work.register_worker([queue])
    parent = create(schedule=once(3), payload={"n": 7})
    job = child(parent, target={"type": "worker", "queue": queue}, payload=[taking(parent, "payload.n")])
    until(lambda: work.get_job(job["id"])["status"] == "SCHEDULED", seconds=SOON, hint="it waits for a worker")
    claimed: list[Any] = until(lambda: work.poll(worker["id"], poll_id="one", wait_seconds=10), seconds=SOON)
    assert [(each["jobId"], each["payload"]) for each in claimed] == [(job["id"], [7])]
    again = work.poll(worker["id"], poll_id="one")
    assert again[0]["payload"] == [7]
    # What is too large is refused, and the execution goes on until it is reported otherwise.
    holder = {"worker_id": worker["id"], "fence": claimed[0]["fence"]}
    with pytest.raises(Exception, match="32768"):
        work.complete_execution(claimed[0]["id"], "x" * 40_000, **holder)
    assert work.complete_execution(claimed[0]["id"], {"ok": 1}, **holder)["status"] == "COMPLETED"


def test_conditions_over_the_result(create: Create, child: Create, scheduler: Client) -> None:
    parent = create(schedule=once(6), payload={"rows": 3, "failed": []})
    jobs = {
        when: child(parent, when=when)
        for when in (
            "payload.rows > `2` && !(payload.failed)",
            "payload.rows > `3`",
            "payload.rows.length > `0`",
            "`0`",
        )
    }
    outcomes = {when: ended(scheduler, job) for when, job in jobs.items()}
    assert {when: one["status"] for when, one in outcomes.items()} == {
        "payload.rows > `2` && !(payload.failed)": "COMPLETED",
        "payload.rows > `3`": "SKIPPED",
        "payload.rows.length > `0`": "SKIPPED",
        "`0`": "COMPLETED",
    }
    assert outcomes["payload.rows > `3`"]["reason"] == "CONDITION_FALSE"


def test_what_is_too_large_is_refused_and_says_how_large(create: Create, child: Create, scheduler: Client) -> None:
    large = ended(scheduler, create(schedule=once(0), payload="x" * 40_000))
    assert (large["status"], large["error"]["code"], large["final"]) == ("FAILED", "HANDLER_ERROR:InvalidResult", True)
    assert "at most 32768" in large["error"]["message"]
    parent = create(schedule=once(3), payload="x" * 30_000)
    job = child(parent, payload=[{"$from": parent["id"]}] * 5)
    grown = ended(scheduler, job)
    assert (grown["error"]["code"], grown["reason"], grown["final"]) == ("PAYLOAD_ERROR", "NOT_RETRYABLE", True)
    assert "at most 131072" in grown["error"]["message"]


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ("large", "RESULT_TOO_LARGE", f"{len(LARGE)} bytes of JSON; at most 32768 are kept"),
        ("unreadable", "RESULT_UNREADABLE", "it is not JSON"),
    ],
)
def test_an_answer_that_is_not_kept_is_a_success_that_no_child_takes_for_null(
    create: Create, child: Create, endpoint: Endpoint, scheduler: Client, answer: str, code: str, said: str
) -> None:
    parent = create(schedule=once(8), target=endpoint.target(answer))
    asks = child(parent, when="rows == `null`", target=endpoint.target())
    takes = child(parent, payload={"rows": taking(parent, "rows")}, target=endpoint.target())
    after = child(parent)
    stepped = create(schedule=once(0), target=endpoint.target(answer), orchestrated=True)
    for job in (parent, stepped):
        done = ended(scheduler, job)
        assert (done["status"], done["final"], done["result"]) == ("COMPLETED", True, None)
        assert done["error"]["code"] == code
        assert said in done["error"]["message"]
        shown = scheduler.get_job(job["id"])
        assert (shown["status"], shown["lastRun"]["errorCode"]) == ("COMPLETED", code)
    skipped, failed = ended(scheduler, asks), ended(scheduler, takes)
    assert (skipped["status"], skipped["reason"]) == ("SKIPPED", f"UPSTREAM_{code}")
    assert (failed["status"], failed["error"]["code"], failed["reason"]) == ("FAILED", "PAYLOAD_ERROR", "NOT_RETRYABLE")
    assert parent["id"] in failed["error"]["message"]
    assert code in failed["error"]["message"]
    assert endpoint.calls(asks["id"]) + endpoint.calls(takes["id"]) == []
    assert ended(scheduler, after)["status"] == "COMPLETED"


def test_a_coded_answer_in_another_character_set_is_what_it_says(
    create: Create, child: Create, endpoint: Endpoint, scheduler: Client
) -> None:
    parent = create(schedule=once(5), target=endpoint.target("coded"))
    takes = child(parent, when="rows == 'Müller'", payload=taking(parent, "rows"), target=endpoint.target())
    assert ended(scheduler, parent)["result"] == {"rows": "Müller"}
    assert called(endpoint, takes) == "Müller"


def test_what_makes_no_sense_is_refused_with_its_place(api: Api, create: Create) -> None:
    parent = create()
    depends = [{"jobId": parent["id"], "when": "rows > "}]
    refused = api.post("/v1/jobs", job_body(schedule=None, dependsOn=depends))
    assert "at character 8" in problem(refused, 400, "VALIDATION_ERROR")["dependsOn[0].when"]
    depends = [{"jobId": parent["id"]}]
    for payload, field in (
        ({"a": [{"$from": "somebody"}]}, "payload.a[0].$from"),
        ({"a": {"$from": parent["id"], "path": "a."}}, "payload.a.path"),
    ):
        refused = api.post("/v1/jobs", job_body(schedule=None, dependsOn=depends, payload=payload))
        assert field in problem(refused, 400, "VALIDATION_ERROR")
    literal = create(payload={"$from": "somebody"}, schedule=once(0))
    assert literal["payload"] == {"$from": "somebody"}
