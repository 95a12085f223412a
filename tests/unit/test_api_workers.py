"""Workers over the API: they register, poll, keep what they hold, report, drain."""

from __future__ import annotations

from typing import Any

import pytest

from functions.domain.execution import ExecutionStatus
from functions.domain.ids import execution_id
from functions.domain.instants import rfc3339
from functions.domain.outcome import TargetAnswer
from tests.api_client import SCHEDULER, Api, machine, user
from tests.driver import Driver

WORKER = {"type": "worker", "queue": "reports"}
RETRY = {"maxRetries": 1, "initialDelaySeconds": 1, "jitter": 0}


class Stage:
    """The API and the engine behind it, over one world in virtual time."""

    def __init__(self) -> None:
        self.api = Api()
        self.driver = Driver(self.api.world)
        self.clock = self.api.world.clock
        self.other = Api(self.api.world)
        """Another process of the function, for what happens during a request."""

    def job(self, **changes: Any) -> str:
        """A job that waits for a worker now; returns its id."""
        at = {"type": "once", "at": "2027-01-15T08:00:00Z"}
        changes = {"schedule": at, "target": WORKER, "timeoutSeconds": 300, "retryConfig": RETRY, **changes}
        path = self.other.create(**changes)
        self.driver.run(1)
        return path.rpartition("/")[2]

    def register(self, **changes: Any) -> str:
        reply = self.api.post("/v1/workers", {"queues": ["reports"], **changes})
        assert reply.status == 201, reply.text
        return str(reply.json["id"])

    def poll(self, worker: str, **body: Any) -> list[dict[str, Any]]:
        reply = self.api.post(f"/v1/workers/{worker}/poll", body)
        assert reply.status == 200, reply.text
        data: list[dict[str, Any]] = reply.json["data"]
        return data

    def beat(self, worker: str, *held: dict[str, Any], **options: Any) -> Any:
        executions = [{"id": each["id"], "fence": each["fence"]} for each in held]
        return self.api.post(f"/v1/workers/{worker}/heartbeat", {"executions": executions}, **options)

    def report(self, verb: str, execution: dict[str, Any], worker: str, **body: Any) -> Any:
        given = {"workerId": worker, "fence": execution["fence"], **body}
        return self.api.post(f"/v1/executions/{execution['id']}/{verb}", given)

    def execution(self, execution: str) -> dict[str, Any]:
        document: dict[str, Any] = self.api.get(f"/v1/executions/{execution}").json
        return document


@pytest.fixture
def stage() -> Stage:
    return Stage()


BROKEN = {"error": {"code": "TARGET_ERROR", "message": "no disk"}}


def test_a_worker_is_registered(stage: Stage) -> None:
    reply = stage.api.post("/v1/workers", {"name": "eva", "queues": ["reports", "mail", "mail"], "maxItems": 4})

    assert reply.status == 201
    assert reply.headers["Location"] == f"/v1/workers/{reply.json['id']}"
    assert reply.json["status"] == "ACTIVE"
    assert (reply.json["queues"], reply.json["maxItems"]) == (["reports", "mail"], 4)
    assert stage.api.get(reply.headers["Location"]).json == reply.json
    assert stage.api.get("/v1/workers").json["data"] == [reply.json]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "queues"),
        ({"queues": []}, "queues"),
        ({"queues": [""]}, "queues.0"),
        ({"queues": ["b/reports"]}, "queues.0"),
        ({"queues": ["a"], "maxItems": 11}, "maxItems"),
        ({"queues": ["a"], "priority": 1}, "priority"),
    ],
)
def test_a_registration_is_checked(stage: Stage, body: dict[str, Any], field: str) -> None:
    reply = stage.api.post("/v1/workers", body)

    assert (reply.status, list(reply.fields)) == (400, [field])


def test_an_execution_from_poll_to_result(stage: Stage) -> None:
    job = stage.job(payload={"report": "revenue", "n": 2**127})
    waiting = stage.execution(execution_id(job, "1800000000", 1))
    assert (waiting["status"], waiting["reason"]) == ("QUEUED", "WAITS_FOR_WORKER")
    worker = stage.register()

    [execution] = stage.poll(worker)

    assert execution["payload"] == {"report": "revenue", "n": 2**127}
    assert (execution["status"], execution["attempt"], execution["workerId"]) == ("RUNNING", 1, worker)
    assert execution["leaseExpiresAt"] == "2027-01-15T08:01:31Z"
    assert execution["deadlineAt"] == "2027-01-15T08:05:01Z"
    assert stage.poll(worker) == []
    assert stage.report("progress", execution, worker, percent=40, message="half").json["recorded"] is True
    running = stage.execution(execution["id"])
    assert running["progress"] == {"percent": 40, "message": "half"}
    assert stage.api.get(f"/v1/jobs/{job}/history").json["data"][0]["progress"]["percent"] == 40
    done = stage.report("complete", execution, worker, result={"rows": 3})
    assert done.status == 200
    assert (done.json["status"], done.json["result"], done.json["workerId"]) == ("COMPLETED", {"rows": 3}, worker)
    assert stage.api.get(f"/v1/jobs/{job}").json["status"] == "COMPLETED"


def test_the_same_report_twice_answers_the_same(stage: Stage) -> None:
    stage.job()
    worker = stage.register()
    [execution] = stage.poll(worker)

    first = stage.report("complete", execution, worker, result=[1])
    again = stage.report("complete", execution, worker, result=[1])
    other = stage.report("fail", execution, worker, **BROKEN)

    assert (first.status, again.status, other.status) == (200, 200, 409)
    assert again.json == first.json
    assert other.message.startswith("COMPLETED")


def test_a_failure_is_retried_by_the_rules(stage: Stage) -> None:
    job = stage.job()
    worker = stage.register()
    [first] = stage.poll(worker)

    failed = stage.report("fail", first, worker, **BROKEN)

    assert (failed.json["status"], failed.json["final"], failed.json["reason"]) == ("FAILED", False, "RETRY_SCHEDULED")
    assert failed.json["error"] == BROKEN["error"]
    assert stage.report("fail", first, worker, **BROKEN).status == 200
    stage.driver.run(3)
    [second] = stage.poll(worker)
    assert (second["attempt"], second["fence"]) == (2, 2)
    assert stage.report("fail", first, worker, **BROKEN).status == 200, "the same report, however late"
    assert stage.report("complete", first, worker).status == 409
    assert stage.report("fail", second, worker, **BROKEN).json["reason"] == "RETRIES_EXHAUSTED"
    assert stage.api.get(f"/v1/jobs/{job}").json["status"] == "FAILED"


def test_a_failure_may_be_final_by_nature_or_wait_longer(stage: Stage) -> None:
    worker = stage.register()
    stage.job()
    [one] = stage.poll(worker)
    final = stage.report("fail", one, worker, error={"code": "HANDLER_ERROR:BadInput", "retryable": False})
    assert final.json["reason"] == "NOT_RETRYABLE"
    stage.job(retryConfig={"maxRetries": 1})
    [two] = stage.poll(worker)
    later = stage.report("fail", two, worker, error={"code": "TARGET_ERROR"}, retryAfterSeconds=100)
    assert later.json["nextRetryAt"] == "2027-01-15T08:01:42Z"


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("complete", {"fence": 1}, "workerId"),
        ("complete", {"workerId": "w"}, "fence"),
        ("complete", {"workerId": "w", "fence": 1, "token": "t"}, "token"),
        ("complete", {"workerId": "w", "fence": True}, "fence"),
        ("fail", {"workerId": "w", "fence": 1}, "error"),
        ("fail", {"workerId": "w", "fence": 1, "error": {"code": "lower"}}, "error.code"),
        ("progress", {"workerId": "w", "fence": 1}, "percent"),
        ("progress", {"workerId": "w", "fence": 1, "percent": 101}, "percent"),
        ("progress", {"workerId": "w", "fence": 1, "percent": 1, "message": "x" * 257}, "message"),
    ],
)
def test_reports_are_checked(stage: Stage, verb: str, body: dict[str, Any], field: str) -> None:
    path = f"/v1/executions/7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f-1800000000-0001/{verb}"
    reply = stage.api.post(path, body)

    assert (reply.status, list(reply.fields)) == (400, [field])


def test_a_result_is_at_most_32_kb(stage: Stage) -> None:
    stage.job()
    worker = stage.register()
    [execution] = stage.poll(worker)

    refused = stage.report("complete", execution, worker, result="x" * 32_767)

    assert (refused.status, refused.code) == (413, "PAYLOAD_TOO_LARGE")
    assert "32768" in refused.message
    assert stage.report("complete", execution, worker, result="x" * 32_766).status == 200


@pytest.mark.parametrize("verb", ["complete", "fail", "progress"])
def test_reports_need_worker_and_fence(stage: Stage, verb: str) -> None:
    stage.job()
    worker = stage.register()
    [execution] = stage.poll(worker)
    body = {"complete": {}, "fail": BROKEN, "progress": {"percent": 1}}[verb]

    assert stage.report(verb, {**execution, "fence": 2}, worker, **body).status == 409
    assert stage.report(verb, execution, stage.register(), **body).status == 409
    absent = {**execution, "id": execution["id"][:-1] + "2"}
    assert stage.report(verb, absent, worker, **body).status == 409
    assert stage.report(verb, execution, worker, **body).status == 200


def test_progress_is_kept_once_a_second(stage: Stage) -> None:
    stage.job()
    worker = stage.register()
    [execution] = stage.poll(worker)

    assert stage.report("progress", execution, worker, percent=1).json["recorded"] is True
    stage.clock.advance(0.5)
    assert stage.report("progress", execution, worker, percent=2).json["recorded"] is False
    assert stage.execution(execution["id"])["progress"] == {"percent": 1, "message": ""}


def test_a_heartbeat_keeps_what_is_held(stage: Stage) -> None:
    stage.job()
    worker = stage.register()
    [execution] = stage.poll(worker)
    stage.clock.advance(60)

    reply = stage.beat(worker, execution)

    assert reply.status == 200
    assert reply.json["executions"] == [{"id": execution["id"], "leaseExpiresAt": "2027-01-15T08:02:31Z"}]
    stage.driver.run(80)
    assert stage.execution(execution["id"])["status"] == "RUNNING"
    stage.driver.run(80)
    lost = stage.execution(execution["id"])
    assert (lost["error"]["code"], lost["workerId"]) == ("WORKER_LOST", worker)


@pytest.mark.case(17)
def test_the_worker_that_lost_an_execution_learns_it_three_times(stage: Stage) -> None:
    job = stage.job()
    a, b = stage.register(), stage.register()
    [first] = stage.poll(a)
    stage.driver.run(160)
    [second] = stage.poll(b)
    assert second["attempt"] == 2

    replies = [
        stage.beat(a, first),
        stage.report("progress", first, a, percent=50),
        stage.report("complete", first, a, result=1),
    ]

    assert [reply.status for reply in replies] == [409, 409, 409]
    assert replies[0].fields == {first["id"]: "LOST"}
    assert stage.execution(second["id"])["status"] == "RUNNING"
    assert stage.report("complete", second, b, result=2).status == 200
    attempts = stage.api.get(f"/v1/jobs/{job}/history").json["data"]
    assert [(each["status"], each["result"]) for each in attempts] == [("COMPLETED", 2), ("FAILED", None)]
    assert stage.api.get(f"/v1/workers/{a}").json["status"] == "ACTIVE", "it is heard of again"


def test_a_heartbeat_keeps_the_rest_where_one_is_gone(stage: Stage) -> None:
    gone, kept = stage.job(), stage.job()
    worker = stage.register()
    executions = stage.poll(worker, maxItems=2)
    stage.api.post(f"/v1/jobs/{gone}/cancel")
    stage.clock.advance(60)

    reply = stage.beat(worker, *executions)

    assert reply.status == 409
    assert list(reply.fields.values()) == ["CANCELLED"]
    [run] = stage.driver.row(kept).runs.values()
    assert run.lease_expires_at == 1_800_000_002 + 60 + 90


@pytest.mark.case(18)
def test_cancelled_while_running(stage: Stage) -> None:
    job = stage.job()
    worker = stage.register()
    [execution] = stage.poll(worker)
    assert stage.api.post(f"/v1/jobs/{job}/cancel").status == 200

    replies = [
        stage.beat(worker, execution),
        stage.report("progress", execution, worker, percent=1),
        stage.report("complete", execution, worker, result=1),
        stage.report("fail", execution, worker, **BROKEN),
    ]

    assert [reply.status for reply in replies] == [409] * 4
    assert all("CANCELLED" in reply.message for reply in replies)
    assert stage.execution(execution["id"])["status"] == "CANCELLED"
    stage.driver.run(400)
    assert len(stage.api.get(f"/v1/jobs/{job}/history").json["data"]) == 1


@pytest.mark.case(18)
def test_cancel_before_and_after(stage: Stage) -> None:
    first, second = stage.job(), stage.job()
    worker = stage.register()
    stage.api.post(f"/v1/jobs/{first}/cancel")
    [execution] = stage.poll(worker, maxItems=5)
    assert execution["jobId"] == second
    stage.report("complete", execution, worker)
    assert stage.api.post(f"/v1/jobs/{second}/cancel").status == 409
    assert stage.api.post(f"/v1/executions/{execution['id']}/cancel").status == 409


def test_a_report_after_the_deadline_is_too_late(stage: Stage) -> None:
    stage.job(timeoutSeconds=30)
    worker = stage.register()
    [execution] = stage.poll(worker)
    stage.clock.advance(33)

    late = stage.report("complete", execution, worker, result=1)

    assert (late.status, late.message[:9]) == (409, "TIMED_OUT")
    assert stage.execution(execution["id"])["status"] == "RUNNING", "a function whose clock is behind may take one"
    stage.clock.advance(2)
    later = stage.report("complete", execution, worker, result=1)
    assert (later.status, later.message[:9]) == (409, "TIMED_OUT")
    ended = stage.execution(execution["id"])
    assert (ended["status"], ended["error"]["code"], ended["final"]) == ("TIMED_OUT", "TIMEOUT", False)


def test_a_heartbeat_after_the_deadline_ends_the_attempt(stage: Stage) -> None:
    late_one, other = stage.job(timeoutSeconds=30), stage.job()
    worker = stage.register()
    executions = {each["jobId"]: each for each in stage.poll(worker, maxItems=2)}
    stage.driver.sweeps = False
    late = executions[late_one]["id"]
    stage.clock.advance(33)
    early = stage.beat(worker, *executions.values())
    assert (early.status, early.fields) == (409, {late: "TIMED_OUT"})
    assert stage.execution(late)["status"] == "RUNNING", "a function whose clock is behind may take a report"
    stage.clock.advance(2)

    beat = stage.beat(worker, *executions.values())

    assert (beat.status, beat.fields) == (409, {late: "TIMED_OUT"})
    ended = stage.execution(late)
    assert (ended["status"], ended["error"]["code"], ended["reason"]) == ("TIMED_OUT", "TIMEOUT", "RETRY_SCHEDULED")
    assert stage.execution(executions[other]["id"])["status"] == "RUNNING"
    stage.driver.run(3)
    [again] = stage.poll(worker)
    assert (again["jobId"], again["attempt"]) == (late_one, 2)


def test_a_worker_that_lives_on_does_not_hold_an_attempt_beyond_its_deadline(stage: Stage) -> None:
    stage.job(timeoutSeconds=100)
    worker = stage.register()
    [execution] = stage.poll(worker)
    for _ in range(6):
        stage.driver.run(30)
        last = stage.beat(worker, execution)

    assert last.status == 409
    assert last.fields == {execution["id"]: "TIMED_OUT"}
    assert stage.execution(execution["id"])["status"] == "TIMED_OUT"
    stage.driver.run(3)
    [again] = stage.poll(worker)
    assert again["attempt"] == 2


@pytest.mark.parametrize(("timeout", "beats"), [(5, False), (75, False), (60, True), (1_000, True)])
def test_a_worker_that_does_not_report_is_timed_out_at_its_deadline(stage: Stage, timeout: int, beats: bool) -> None:
    """A silent one, too, where its lease outlives the deadline."""
    stage.driver.sweeps = False
    stage.job(timeoutSeconds=timeout)
    worker = stage.register()
    [execution] = stage.poll(worker)
    [run] = stage.driver.row(execution["jobId"]).runs.values()
    assert run.deadline_at is not None
    while beats and stage.clock.now() + 30 < run.deadline_at:
        stage.driver.run(30)
        assert stage.beat(worker, execution).status == 200

    stage.driver.run_until(run.deadline_at + 3.9)
    assert stage.execution(execution["id"])["status"] == "RUNNING"
    stage.driver.run_until(run.deadline_at + 5.1)

    ended = stage.execution(execution["id"])
    assert (ended["status"], ended["error"]["code"], ended["reason"]) == ("TIMED_OUT", "TIMEOUT", "RETRY_SCHEDULED")
    assert rfc3339(run.deadline_at + 4) <= ended["completedAt"] < rfc3339(run.deadline_at + 5)
    late = stage.report("complete", execution, worker, result=1)
    assert (late.status, late.message[:9]) == (409, "TIMED_OUT")
    stage.driver.run(3)
    [again] = stage.poll(worker)
    assert again["attempt"] == 2


def test_the_hint_of_a_deadline_ends_no_later_attempt(stage: Stage) -> None:
    stage.job(timeoutSeconds=60)
    worker = stage.register()
    [first] = stage.poll(worker)
    assert stage.report("fail", first, worker, **BROKEN).status == 200
    stage.driver.run(40)
    [second] = stage.poll(worker)

    stage.driver.run(30)

    assert stage.execution(second["id"])["status"] == "RUNNING"
    assert stage.report("complete", second, worker).status == 200
    stage.driver.run(60)
    assert stage.execution(second["id"])["status"] == "COMPLETED"


def test_the_hints_of_a_poll_are_sent_together(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        stage.job()
    worker = stage.register()
    requests: list[int] = []
    timetable = stage.api.world.timetable
    monkeypatch.setattr(timetable, "arm_all", lambda hints: requests.append(len(hints)) or 0)

    assert len(stage.poll(worker, maxItems=3, pollId="one")) == 3
    assert len(stage.poll(worker, maxItems=3, pollId="one")) == 3, "held already: their hints were sent"

    assert requests == [3]


def test_polls_take_the_oldest_of_the_highest_priority(stage: Stage) -> None:
    low = stage.job(priority="low")
    stage.driver.run(2)
    old = stage.job()
    stage.driver.run(2)
    young, high = stage.job(), stage.job(priority="high")
    worker = stage.register()

    assert [each["jobId"] for each in stage.poll(worker, maxItems=2)] == [high, old]
    assert [each["jobId"] for each in stage.poll(worker, maxItems=10)] == [young, low]


def test_polls_take_from_the_workers_queues(stage: Stage) -> None:
    stage.job(target={"type": "worker", "queue": "mail"})
    mail, both = stage.register(queues=["mail"]), stage.register(queues=["reports", "mail"])

    refused = stage.api.post(f"/v1/workers/{mail}/poll", {"queues": ["reports"]})
    assert (refused.status, list(refused.fields)) == (400, ["queues"])
    assert stage.poll(both, queues=["reports"]) == []
    assert len(stage.poll(both)) == 1


@pytest.mark.parametrize("body", [{"maxItems": 0}, {"maxItems": 11}, {"waitSeconds": 21}, {"pollId": ""}])
def test_a_poll_is_checked(stage: Stage, body: dict[str, Any]) -> None:
    assert stage.api.post(f"/v1/workers/{stage.register()}/poll", body).status == 400


def test_a_poll_waits_as_long_as_it_was_told(stage: Stage) -> None:
    worker = stage.register()
    before = stage.clock.now()

    assert stage.poll(worker, waitSeconds=5) == []
    assert stage.clock.now() - before == 5
    assert stage.poll(worker) == []
    assert stage.clock.now() - before == 5


def test_a_poll_finds_what_comes_while_it_waits(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = stage.register()
    sleep = stage.clock.sleep

    def later(seconds: float) -> None:
        sleep(seconds)
        if stage.clock.slept == [1.0, 1.0]:
            stage.job()

    monkeypatch.setattr(stage.clock, "sleep", later)

    assert len(stage.poll(worker, waitSeconds=20)) == 1
    assert stage.clock.slept == [1.0, 1.0]


def test_a_drained_worker_is_given_nothing_more(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.job()
    worker = stage.register()
    [execution] = stage.poll(worker, pollId="one")
    stage.job()

    drained = stage.api.post(f"/v1/workers/{worker}/drain")

    assert (drained.status, drained.json["status"]) == (200, "DRAINING")
    assert stage.api.post(f"/v1/workers/{worker}/drain").status == 200
    assert stage.poll(worker, waitSeconds=20) == []
    assert stage.clock.slept == [], "a poll that would wait is answered at once"
    assert [each["id"] for each in stage.poll(worker, pollId="one")] == [execution["id"]], "it is its worker's"
    assert stage.beat(worker, execution).status == 200
    assert stage.report("complete", execution, worker).status == 200


def test_a_poll_that_waits_ends_when_its_worker_drains(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = stage.register()
    sleep = stage.clock.sleep

    def drain(seconds: float) -> None:
        sleep(seconds)
        stage.other.post(f"/v1/workers/{worker}/drain")

    monkeypatch.setattr(stage.clock, "sleep", drain)

    assert stage.poll(worker, waitSeconds=20) == []
    assert stage.clock.slept == [1.0]


def test_the_same_poll_again_is_given_the_same(stage: Stage) -> None:
    for _ in range(5):
        stage.job()
    worker = stage.register()

    first = stage.poll(worker, pollId="one", maxItems=2)
    again = stage.poll(worker, pollId="one", maxItems=2)
    other = stage.poll(worker, pollId="two", maxItems=2)

    assert again == first
    assert not {each["id"] for each in first} & {each["id"] for each in other}


def test_a_worker_that_is_not_heard_of_is_offline(stage: Stage) -> None:
    worker = stage.register()
    stage.clock.advance(91)
    assert stage.api.get(f"/v1/workers/{worker}").json["status"] == "OFFLINE"
    assert stage.beat(worker).json["status"] == "ACTIVE"
    stage.clock.advance(91)
    stage.poll(worker)
    assert stage.api.get(f"/v1/workers/{worker}").json["status"] == "ACTIVE"


OTHER = user("bob", "scheduler")
VIEWER = user("alice", "viewer")


def test_payloads_of_other_owners_are_not_given(stage: Stage) -> None:
    job = stage.job()
    theirs = str(stage.api.post("/v1/workers", {"queues": ["reports"]}, claims=OTHER).json["id"])
    mine = stage.register()

    assert stage.api.post(f"/v1/workers/{theirs}/poll", {}, claims=OTHER).json["data"] == []
    for path in ("poll", "heartbeat"):
        assert stage.api.post(f"/v1/workers/{mine}/{path}", {}, claims=OTHER).status == 404
    assert stage.api.post(f"/v1/workers/{mine}/drain", claims=OTHER).status == 403
    [execution] = stage.poll(mine)
    assert execution["jobId"] == job
    report = {"workerId": mine, "fence": execution["fence"]}
    assert stage.api.post(f"/v1/executions/{execution['id']}/complete", report, claims=OTHER).status == 403
    assert [each["id"] for each in stage.api.get("/v1/workers", claims=OTHER).json["data"]] == [theirs]
    assert len(stage.api.get("/v1/workers", query="owner=*", claims=OTHER).json["data"]) == 2


@pytest.mark.parametrize(
    "path", ["/v1/workers", "/v1/workers/{w}/poll", "/v1/workers/{w}/heartbeat", "/v1/workers/{w}/drain"]
)
@pytest.mark.parametrize("claims", [user("eve", "viewer"), machine("m", "gnomon/read")])
def test_workers_are_for_those_who_may_write(stage: Stage, path: str, claims: dict[str, Any]) -> None:
    worker = stage.register()
    body = {"queues": ["reports"]} if path == "/v1/workers" else {}
    reply = stage.api.post(path.format(w=worker), body, claims=claims)

    assert reply.status in (403, 404)


def test_unknown_workers_are_not_found(stage: Stage) -> None:
    for path in ("aaaabbbbccccdddd", "no-worker"):
        assert stage.api.get(f"/v1/workers/{path}").status == 404
        assert stage.api.post(f"/v1/workers/{path}/poll", {}).status == 404
        assert stage.api.post(f"/v1/workers/{path}/heartbeat", {}).status == 404
        assert stage.api.post(f"/v1/workers/{path}/drain").status == 404


def test_a_payload_that_cannot_be_read_fails_its_attempt_and_no_other(stage: Stage) -> None:
    broken, fine = stage.job(), stage.job()
    row = stage.driver.row(broken)
    definition = row.defined
    object.__setattr__(definition, "payload", '{"torn": ')
    worker = stage.register()

    [execution] = stage.poll(worker, maxItems=5)

    assert execution["jobId"] == fine
    assert stage.execution(execution_id(broken, "1800000000", 1))["error"]["code"] == "PAYLOAD_ERROR"


CALLBACK = {"target": {"type": "http", "url": "https://example.com/hook"}, "completion": "callback"}


def started(stage: Stage, **changes: Any) -> tuple[str, str]:
    """A callback attempt whose target accepted: its execution's id, and its token."""
    job = stage.job(**{**CALLBACK, **changes})
    token = stage.api.world.targets.calls[-1].callback_token
    assert token is not None
    return execution_id(job, "1800000000", 1), token


def test_a_callback_completes_what_its_target_accepted(stage: Stage) -> None:
    execution, token = started(stage)
    running = stage.execution(execution)
    assert running["status"] == "RUNNING"
    assert token not in str(running)

    progress = stage.api.post(f"/v1/executions/{execution}/progress", {"token": token, "percent": 10})
    done = stage.api.post(f"/v1/executions/{execution}/complete", {"token": token, "result": {"ok": True}})
    again = stage.api.post(f"/v1/executions/{execution}/complete", {"token": token, "result": {"ok": True}})
    other = stage.api.post(f"/v1/executions/{execution}/complete", {"token": token, "result": {"ok": False}})

    assert progress.status == 200
    assert (done.status, done.json["status"], done.json["result"]) == (200, "COMPLETED", {"ok": True})
    assert (again.status, again.json) == (200, done.json)
    assert other.status == 409
    stage.driver.run(400)
    assert stage.execution(execution)["status"] == "COMPLETED"
    assert len(stage.api.world.targets.calls) == 1


def test_a_callback_fails_and_is_retried(stage: Stage) -> None:
    execution, token = started(stage)

    failed = stage.api.post(f"/v1/executions/{execution}/fail", {"token": token, **BROKEN})

    assert (failed.status, failed.json["final"]) == (200, False)
    stage.driver.run(3)
    second = stage.api.world.targets.calls[-1]
    assert (second.attempt, second.callback_token != token) == (2, True)
    stale = stage.api.post(f"/v1/executions/{execution[:-1]}2/complete", {"token": token})
    assert stale.status == 409
    assert stage.api.post(f"/v1/executions/{execution[:-1]}2/complete", {"token": second.callback_token}).status == 200


def test_without_a_callback_the_attempt_times_out_at_its_deadline(stage: Stage) -> None:
    execution, token = started(stage, timeoutSeconds=120)
    stage.driver.sweeps = False

    stage.driver.run(127)

    ended = stage.execution(execution)
    assert (ended["status"], ended["final"]) == ("TIMED_OUT", False)
    assert ended["completedAt"] == "2027-01-15T08:02:04Z"
    late = stage.api.post(f"/v1/executions/{execution}/complete", {"token": token})
    assert (late.status, late.message[:9]) == (409, "TIMED_OUT")
    assert [call.attempt for call in stage.api.world.targets.calls] == [1, 2]


def test_the_sweep_times_out_where_the_hint_was_lost(stage: Stage) -> None:
    execution, _ = started(stage, timeoutSeconds=120)
    stage.api.world.timetable.armed.clear()

    stage.driver.run(240)

    ended = stage.execution(execution)
    assert (ended["status"], ended["error"]["code"]) == ("TIMED_OUT", "TIMEOUT")


def test_a_call_that_is_not_accepted_ends_the_attempt(stage: Stage) -> None:
    stage.api.world.targets.answers = [TargetAnswer(status=ExecutionStatus.TIMED_OUT)]
    execution, _ = started(stage, retryConfig={"maxRetries": 0})

    assert stage.execution(execution)["status"] == "TIMED_OUT"


def test_a_callback_that_is_faster_than_its_call_counts(stage: Stage) -> None:
    replies = []

    def hasty(invocation: Any) -> TargetAnswer:
        body = {"token": invocation.callback_token, "result": 1}
        replies.append(stage.other.post(f"/v1/executions/{invocation.execution_id}/complete", body))
        return TargetAnswer(status=ExecutionStatus.COMPLETED, result='"accepted"')

    stage.api.world.targets.answers = [hasty]
    execution, _ = started(stage)

    assert replies[0].status == 200
    assert stage.execution(execution)["result"] == 1
    stage.driver.run(600)
    assert stage.execution(execution)["result"] == 1


def test_a_callback_before_a_call_that_fails_counts(stage: Stage) -> None:
    def hasty(invocation: Any) -> TargetAnswer:
        body = {"token": invocation.callback_token, "result": 1}
        stage.other.post(f"/v1/executions/{invocation.execution_id}/complete", body)
        return TargetAnswer(status=ExecutionStatus.TIMED_OUT)

    stage.api.world.targets.answers = [hasty]
    execution, _ = started(stage)

    assert stage.execution(execution)["status"] == "COMPLETED"


def test_a_token_is_its_bearers_right(stage: Stage) -> None:
    execution, token = started(stage)
    path = f"/v1/executions/{execution}/complete"

    assert stage.api.post(path, {"token": token}, claims=user("eve", "viewer")).status in (403, 404)
    assert stage.api.post(path, {"token": "guess"}, claims=OTHER).status == 409
    assert stage.api.post(path, {"token": "raté"}, claims=OTHER).status == 409
    assert stage.api.post(path, {"token": token}, claims=OTHER).status == 200


def test_the_target_has_a_minute_to_accept(stage: Stage) -> None:
    started(stage, timeoutSeconds=7200)

    assert stage.api.world.targets.calls[-1].timeout_seconds == 60


def test_workers_have_a_limit_of_their_own(stage: Stage) -> None:
    worker = stage.register()

    assert stage.beat(worker).headers["RateLimit-Limit"] == "6000"
    assert stage.api.get("/v1/workers", claims=SCHEDULER).headers["RateLimit-Limit"] == "500"
