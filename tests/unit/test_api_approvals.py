"""The routes of approval gates: what they take, what they answer, and whom they let decide."""

from __future__ import annotations

from typing import Any

import pytest

from functions.domain.hint import Hint
from functions.domain.ids import slot_id
from tests.api_client import Api, Reply, machine, make_body, user
from tests.driver import Driver
from tests.factories import NOW
from tests.flows import ONCE

AT = NOW + 10
SLOT = slot_id(AT)
GATE: dict[str, Any] = {"role": "approver", "timeoutSeconds": 3_600}
ALICE = user("alice", "scheduler", "team-a")
BOSS = user("boss", "approver", "team-a")


class Gated:
    """An API and an engine over one world, and a job whose run is at its gate."""

    def __init__(self, **changes: Any) -> None:
        self.driver = Driver()
        self.api = Api(self.driver.world, claims=ALICE)
        self.path = self.api.create(**{"schedule": ONCE, "approval": GATE, **changes})
        self.driver.run_until(NOW + 20)

    def approve(self, body: Any = None, **options: Any) -> Reply:
        return self.api.post(f"{self.path}/approve", body, **{"claims": BOSS, **options})

    def reject(self, body: Any = None, **options: Any) -> Reply:
        return self.api.post(f"{self.path}/reject", body, **{"claims": BOSS, **options})

    @property
    def run(self) -> str:
        return f"{self.path.rpartition('/')[2]}-{SLOT}"

    def history(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.api.get(f"{self.path}/history").json["data"]
        return entries


def test_the_job_shows_its_gate() -> None:
    gated = Gated()
    job = gated.api.get(gated.path).json
    assert job["status"] == "BLOCKED"
    assert job["approval"] == GATE
    assert job["gates"] == [
        {
            "runId": gated.run,
            "scheduledFor": "2027-01-15T08:00:10Z",
            "waitingSince": "2027-01-15T08:00:10Z",
            "decideBy": "2027-01-15T09:00:10Z",
            "role": "approver",
        }
    ]
    assert job["activeRuns"][0]["nextAttemptAt"] is None
    listed = gated.api.get("/v1/jobs", query="status=BLOCKED").json["data"]
    assert [one["gates"] for one in listed] == [job["gates"]]
    assert gated.api.get(gated.api.create()).json["gates"] == []


def test_an_approval_and_what_history_shows_of_it() -> None:
    gated = Gated()
    [waiting] = gated.history()
    assert (waiting["status"], waiting["reason"], waiting["approval"]) == ("QUEUED", "APPROVAL_NEEDED", None)
    reply = gated.approve({"runId": gated.run, "comment": "looks right"})
    assert reply.status == 200, reply.text
    assert (reply.json["status"], reply.json["gates"]) == ("SCHEDULED", [])
    assert reply.headers["ETag"] == f'"1.{gated.driver.row(reply.json["id"]).seq}"'
    decided = {"decision": "approved", "by": "boss", "at": "2027-01-15T08:00:20Z", "comment": "looks right"}
    assert gated.history()[0]["approval"] == decided
    gated.driver.run(3)
    [execution] = gated.history()
    assert (execution["status"], execution["approval"]) == ("COMPLETED", decided)
    assert gated.api.get(f"/v1/executions/{execution['id']}").json == execution


def test_a_rejection_and_what_history_shows_of_it() -> None:
    gated = Gated()
    assert gated.reject().status == 200
    gated.driver.run(3)
    [execution] = gated.history()
    assert (execution["status"], execution["reason"], execution["error"]) == ("CANCELLED", "REJECTED", None)
    assert execution["approval"] == {
        "decision": "rejected",
        "by": "boss",
        "at": "2027-01-15T08:00:20Z",
        "comment": None,
    }
    assert gated.api.get(gated.path).json["status"] == "CANCELLED"


def test_the_second_decision_is_a_conflict_that_says_who_was_first() -> None:
    gated = Gated()
    assert gated.approve().status == 200
    late = gated.reject(claims=user("carol", "approver", "team-a"))
    assert (late.status, late.code) == (409, "CONFLICT")
    assert "was approved by boss at 2027-01-15T08:00:20Z" in late.message
    assert gated.approve().status == 409, "the same request without a key"


def test_the_same_request_with_its_key() -> None:
    gated = Gated()
    key = {"idempotency-key": "k"}
    assert [gated.approve(headers=key).status for _ in range(2)] == [200, 200]
    gated.driver.run(3)
    assert gated.approve(headers=key).status == 200
    assert gated.approve({"comment": "x"}, headers=key).code == "IDEMPOTENCY_KEY_REUSED"
    assert gated.reject(headers=key).status == 409, "a key belongs to its path"


@pytest.mark.parametrize(
    ("claims", "status", "why"),
    [
        (ALICE, 403, "takes the role approver"),
        (user("alice", "approver", "scheduler", "team-a"), 403, "You created this job"),
        (user("bob", "scheduler"), 403, "takes the role approver"),
        (user("zoe", "approver"), 404, "There is no job"),
        (machine("ci", "gnomon/write"), 403, "takes the role approver"),
        (machine("ci", "gnomon/admin"), 403, "only where approvers names its client id"),
        (user("root", "admin"), 200, ""),
    ],
)
def test_who_may_decide(claims: dict[str, Any], status: int, why: str) -> None:
    reply = Gated().approve(claims=claims)
    assert reply.status == status
    assert not why or why in reply.message


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({}, 200),
        ({"sub": "x1"}, 200),
        ({"sub": "x1", "username": "x"}, 403),
        ({"sub": "x1", "username": "x", "email": "boss@example.com"}, 403),
        ({"sub": "x1", "username": "x", "email": "boss@example.com", "email_verified": "true"}, 200),
        ({"sub": "x1", "username": "x", "email": "boss@example.com", "email_verified": True}, 200),
        ({"sub": "x1", "username": "x", "email": "boss@example.com", "email_verified": "false"}, 403),
    ],
)
def test_approvers_by_id_username_and_verified_address(claims: dict[str, Any], status: int) -> None:
    gated = Gated(approval={**GATE, "approvers": ["boss", "boss@example.com"]})
    assert gated.approve(claims=BOSS | claims).status == status


def test_recurring_jobs_name_the_run() -> None:
    gated = Gated(schedule={"type": "interval", "everySeconds": 15})
    reply = gated.approve()
    assert (reply.status, list(reply.fields)) == (400, ["runId"])
    assert f"Waiting: {gated.path.rpartition('/')[2]}-{slot_id(NOW + 15)}." in reply.message
    assert gated.approve({"runId": "no-such-run"}).status == 404


@pytest.mark.parametrize(
    "body",
    [{"comment": "x" * 501}, {"comment": ""}, {"runId": ""}, {"runId": "x" * 129}, {"run": "x"}, {"comment": 1}, []],
)
def test_what_is_refused(body: Any) -> None:
    gated = Gated()
    assert gated.approve(body).status == 400
    assert gated.api.get(gated.path).json["status"] == "BLOCKED"


def test_the_etag_is_honoured() -> None:
    gated = Gated()
    assert gated.approve(headers={"if-match": '"2.9"'}).status == 412
    assert gated.approve(headers={"if-match": '"1.1"'}).status == 200


def test_a_job_without_a_gate_and_none() -> None:
    gated = Gated(approval=None)
    assert "no approval gate" in gated.approve().message
    assert gated.api.post("/v1/jobs/7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f/approve").status == 404


@pytest.mark.parametrize(
    ("approval", "field"),
    [
        ({"role": "approver"}, "approval.timeoutSeconds"),
        ({"timeoutSeconds": 60}, "approval.role"),
        ({**GATE, "timeoutSeconds": 0}, "approval.timeoutSeconds"),
        ({**GATE, "timeoutSeconds": 2_592_001}, "approval.timeoutSeconds"),
        ({**GATE, "timeoutSeconds": 60.5}, "approval.timeoutSeconds"),
        ({**GATE, "role": ""}, "approval.role"),
        ({**GATE, "role": "a b"}, "approval.role"),
        ({**GATE, "role": "[a"}, "approval.role"),
        ({**GATE, "approvers": []}, "approval.approvers"),
        ({**GATE, "approvers": ["x"] * 51}, "approval.approvers"),
        ({**GATE, "approvers": [1]}, "approval.approvers.0"),
        ({**GATE, "onTimeout": "ask"}, "approval.onTimeout"),
        ({**GATE, "fourEyes": "yes"}, "approval.fourEyes"),
        ({**GATE, "what": 1}, "approval.what"),
        (None, "approval"),
        ("approver", "approval"),
    ],
)
def test_what_a_gate_may_not_say(approval: Any, field: str) -> None:
    reply = Api().post("/v1/jobs", make_body() | {"approval": approval})
    assert (reply.status, list(reply.fields)) == (400, [field])


def test_a_gate_is_kept_as_it_was_sent_and_goes_by_a_patch() -> None:
    api = Api()
    gate = {**GATE, "approvers": ["boss"], "onTimeout": "approve", "fourEyes": False}
    path = api.create(approval=gate)
    assert api.get(path).json["approval"] == gate
    assert api.patch(path, {"approval": {"role": "admin"}}).json["approval"] == {**gate, "role": "admin"}
    assert "approval" not in api.patch(path, {"approval": None}).json


def test_a_hint_for_another_attempt_does_nothing() -> None:
    gated = Gated()
    gated.driver.deliver_hint(Hint(gated.path.rpartition("/")[2], SLOT, 2))
    assert gated.api.get(gated.path).json["status"] == "BLOCKED"


def test_machines_decide_only_where_approvers_name_them() -> None:
    bot = machine("deploy-bot", "gnomon/admin")
    unnamed = Gated()
    refused = unnamed.approve(claims=bot)
    assert (refused.status, refused.code) == (403, "FORBIDDEN")
    assert "only where approvers names its client id" in refused.message
    named = Gated(approval={**GATE, "approvers": ["boss", "deploy-bot"]})
    assert named.approve(claims=machine("other-bot", "gnomon/admin")).status == 403
    assert named.approve(claims=bot).status == 200


@pytest.mark.parametrize("creator", ["alice", "bob"])
def test_who_wrote_the_payload_before_there_was_a_gate_does_not_approve_it(creator: str) -> None:
    people = {name: user(name, "scheduler", "approver", "team-a") for name in ("alice", "bob", "carol")}
    author = "bob" if creator == "alice" else "alice"
    driver = Driver()
    api = Api(driver.world, claims=people[creator])
    path = api.create(schedule=ONCE)
    assert api.patch(path, {"payload": {"charge": "all"}}, claims=people[author]).status == 200
    assert api.patch(path, {"tags": ["a"], "approval": GATE}, claims=people[creator]).status == 200
    driver.run_until(NOW + 20)
    for name in (creator, author):
        assert api.post(f"{path}/approve", claims=people[name]).status == 403
    assert api.post(f"{path}/approve", claims=people["carol"]).status == 200


PROTECTED = {**GATE, "protected": True}


@pytest.mark.parametrize(
    "approval", [None, {**GATE, "timeoutSeconds": 60}, {**PROTECTED, "role": "admin"}, {**GATE, "protected": False}]
)
@pytest.mark.parametrize("four_eyes", [True, False])
def test_a_protected_gate_is_changed_by_a_second_person_only(approval: Any, four_eyes: bool) -> None:
    people = {name: user(name, "scheduler", "approver", "team-a") for name in ("alice", "bob", "carol")}
    api = Api(Driver().world, claims=people["alice"])
    path = api.create(schedule=ONCE, approval={**PROTECTED, "fourEyes": four_eyes})
    assert api.patch(path, {"payload": 1}, claims=people["bob"]).status == 200
    before = api.get(path).json
    refused = [
        people["alice"],
        people["bob"],
        user("dan", "scheduler", "team-a"),
        machine("bot", "gnomon/admin"),
        user("alice", "admin"),
    ]
    for claims in refused:
        reply = api.patch(path, {"approval": approval}, claims=claims)
        assert (reply.status, reply.code) == (403, "FORBIDDEN")
        assert "protected" in reply.message
    assert api.get(path).json == before
    assert api.patch(path, {"tags": ["other"]}).status == 200, "the rest of the job is free"
    assert api.patch(path, {"approval": approval}, claims=people["carol"]).status == 200


def test_jobs_show_who_changed_them_last() -> None:
    api = Api(Driver().world, claims=user("alice", "scheduler", "team-a"))
    bob = user("bob", "scheduler", "team-a")
    path = api.create(schedule={"type": "interval", "everySeconds": 60})
    assert api.post(f"{path}/execute", claims=bob).status == 200
    assert api.get(path).json["updatedBy"] == "alice", "a run by hand is no change of the job"
    for act in (
        lambda who: api.post(f"{path}/pause", claims=who),
        lambda who: api.patch(path, {"tags": ["a"]}, claims=who),
        lambda who: api.post(f"{path}/cancel", claims=who),
    ):
        assert act(bob).json["updatedBy"] == "bob"
        api.post(f"{path}/resume")
    assert [one["updatedBy"] for one in api.get("/v1/jobs").json["data"]] == ["bob"]
