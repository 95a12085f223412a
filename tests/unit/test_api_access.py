"""Who may do what: every route, by every kind of caller, on what is its own and on what is another owner's.

What each kind of caller sees and changes is read from the table of docs/http-api.md; which of the rules an operation
follows is in RULES, and an operation that is not there fails the test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from functions.api.app import routes_without_services
from functions.api.route import Access
from functions.domain.circuit import Circuit
from functions.domain.circuit_key import CircuitKey
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.ids import execution_id, slot_id
from functions.domain.instants import rfc3339
from functions.domain.outcome import TargetAnswer
from tests.api_client import Api, Reply, machine, make_body, user
from tests.driver import Driver
from tests.factories import NOW

DOCS = Path(__file__).parents[2] / "docs" / "http-api.md"
ALL, OWN, NOTHING = "everything", "its own", "nothing"


def rights() -> dict[str, tuple[str, str]]:
    """What docs/http-api.md says a group or a scope sees and changes."""
    found: dict[str, tuple[str, str]] = {}
    text = DOCS.read_text(encoding="utf-8")
    table = text[text.index("| who | sees | changes |") :].split("\n\n", maxsplit=1)[0]
    for line in table.splitlines()[2:]:
        who, sees, changes = (cell.strip() for cell in line.strip("|").split("|"))
        assert sees in (ALL, OWN)
        assert changes in (ALL, OWN, NOTHING)
        found |= dict.fromkeys(re.findall(r"(?:group|scope) `([^`]+)`", who), (sees, changes))
        if "no group" in who:
            found[""] = (sees, changes)
    return found


@dataclass(frozen=True)
class Who:
    name: str
    """Group or scope that gives the rights; "" for none."""
    claims: Mapping[str, Any]
    maker: Mapping[str, Any]
    """Who may write, and has the same owner."""


def _user(name: str, right: str, *groups: str) -> Who:
    """One who has no team, or a colleague who makes what belongs to the team."""
    team = [group for group in groups if group.startswith("team-")]
    maker = user("maker" if team else name, "scheduler", *team)
    return Who(right, user(name, *groups), maker)


def _machine(right: str, *scopes: str) -> Who:
    return Who(right, machine("client", *scopes), machine("client", "gnomon/write"))


CALLERS = {
    "admin": _user("ann", "admin", "admin"),
    "admin-in-a-team": _user("ann", "admin", "admin", "team-x"),
    "scheduler": _user("sue", "scheduler", "scheduler"),
    "scheduler-in-a-team": _user("sue", "scheduler", "team-x", "scheduler"),
    "scheduler-and-viewer": _user("sue", "scheduler", "viewer", "scheduler"),
    "viewer": _user("vic", "viewer", "viewer"),
    "viewer-in-a-team": _user("vic", "viewer", "viewer", "team-x"),
    "in-a-team-only": _user("tim", "", "team-x"),
    "in-no-group": _user("nan", ""),
    "in-groups-that-are-no-role": _user("odd", "", "admins", "Scheduler", "gnomon/admin"),
    "user-with-scopes": replace(_user("eve", ""), claims=user("eve") | {"scope": "gnomon/admin gnomon/write"}),
    "machine-admin": _machine("gnomon/admin", "gnomon/admin"),
    "machine-write": _machine("gnomon/write", "gnomon/write"),
    "machine-read": _machine("gnomon/read", "gnomon/read"),
    "machine-read-and-write": _machine("gnomon/write", "gnomon/read", "gnomon/write"),
    "machine-without-scope": _machine("", "openid"),
    "scheduler-in-two-teams": Who(
        "scheduler", user("sue", "scheduler", "team-x", "team-y"), user("maker", "scheduler", "team-y")
    ),
    "viewer-in-two-teams": Who(
        "viewer", user("vic", "viewer", "team-y", "team-x"), user("maker", "scheduler", "team-x")
    ),
    "scheduler-before-it-joined-a-team": Who("scheduler", user("sue", "scheduler", "team-x"), user("sue", "scheduler")),
    "viewer-before-it-joined-two-teams": Who("viewer", user("vic", "team-x", "team-y"), user("vic", "scheduler")),
    "machine-of-a-team": Who(
        "gnomon/write", machine("billing-bot", "gnomon/write"), user("maker", "scheduler", "team-billing")
    ),
    "machine-of-another-team": Who(
        "gnomon/write", machine("reports-bot", "gnomon/write"), machine("reports-2-bot", "gnomon/write")
    ),
    "reading-machine-of-a-team": Who(
        "gnomon/read", machine("billing-bot", "gnomon/read"), user("maker", "scheduler", "team-billing")
    ),
}
MACHINE_TEAMS = {"billing-bot": "billing", "reports-bot": "reports", "reports-2-bot": "reports"}
ONE_OF_EACH = (
    "admin",
    "scheduler-in-two-teams",
    "viewer-in-a-team",
    "in-no-group",
    "machine-of-a-team",
    "machine-read",
)
"""Of these rights, and of each way to have an owner."""
STRANGER = user("oscar", "scheduler", "team-other")
ROOT = user("root", "admin", "team-root")


# --- the rules: what is answered, by what the caller sees and changes ---

Rule = Callable[[str, str, bool], int]
"""Sees, changes, whether it is its own, to the status: 200 for any success."""


def read(sees: str, _changes: str, own: bool) -> int:
    return 200 if own or sees == ALL else 404


def change(sees: str, changes: str, own: bool) -> int:
    if not own and sees != ALL:
        return 404
    return 200 if changes == ALL or (own and changes == OWN) else 403


def create(_sees: str, changes: str, _own: bool) -> int:
    return 403 if changes == NOTHING else 200


def list_of(sees: str, _changes: str, own: bool) -> int:
    return 200 if own or sees == ALL else 403


def work(_sees: str, changes: str, own: bool) -> int:
    """A worker is given what belongs to its owner, whoever asks (docs/workers.md)."""
    if changes == NOTHING:
        return 403
    return 200 if own else 404


def report_by_token(sees: str, changes: str, own: bool) -> int:
    """The token says whose report it is: its bearer may write, but need not own the job (docs/workers.md)."""
    if not own and sees != ALL:
        return 404
    return 403 if changes == NOTHING else 200


def decide_as_scheduler(sees: str, changes: str, own: bool) -> int:
    """A gate for the role `scheduler`: who has it and sees the job (docs/job-lifecycle.md)."""
    if not own and sees != ALL:
        return 404
    return 403 if changes == NOTHING else 200


def decide_as_admin(sees: str, changes: str, own: bool) -> int:
    if not own and sees != ALL:
        return 404
    return 200 if changes == ALL else 403


def administer(_sees: str, changes: str, _own: bool) -> int:
    return 200 if changes == ALL else 403


def key_of(sees: str, changes: str, own: bool) -> int:
    """Who has the secret can sign calls as its owner: callers who may change nothing are told nothing at all."""
    return 403 if changes == NOTHING else change(sees, changes, own)


def transfer(sees: str, changes: str, own: bool) -> int:
    if not own and sees != ALL:
        return 404
    return 200 if changes == ALL else 403


def everybody(_sees: str, _changes: str, _own: bool) -> int:
    return 200


# --- what there is to ask for ---

Asked = tuple[str, str, Any]
"""Method, path with query, body."""
WORKER_JOB = {"target": {"type": "worker", "queue": "reports"}, "timeoutSeconds": 300}
NAME = "kept from others"
"""No refusal has it."""
STEP = {"target": {"type": "http", "url": "https://example.com/hook"}, "name": NAME}
BROKEN = TargetAnswer(status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_503", message="no"))


class Scene:
    """A world in which `maker` has made what is asked for."""

    def __init__(self, maker: Mapping[str, Any]) -> None:
        self.driver = Driver()
        self.world = self.driver.world
        self.api = Api(self.world, claims=maker, machine_teams=MACHINE_TEAMS)
        self.owner = self.api.get(self.job()).json["owner"]

    def job(self, **changes: Any) -> str:
        return self.api.create(**{"name": NAME, "schedule": self.now(), **changes})

    def later(self) -> str:
        return self.job(schedule={"type": "cron", "expression": "0 0 1 1 *"})

    def cancelled(self) -> str:
        path = self.later()
        assert self.api.post(f"{path}/cancel").status == 200
        return path

    def now(self) -> dict[str, Any]:
        return {"type": "once", "at": rfc3339(int(self.driver.clock.now()))}

    def failed(self) -> str:
        self.world.targets.answers = [BROKEN] * 9
        path = self.job(retryConfig={"maxRetries": 0})
        self.driver.run(5)
        return path

    def execution(self, path: str) -> str:
        [entry] = self.api.get(f"{path}/history").json["data"]
        return f"/v1/executions/{entry['id']}"

    def ended(self) -> str:
        path = self.job()
        self.driver.run(5)
        return self.execution(path)

    def waiting(self) -> str:
        """An execution that waits for a worker."""
        path = self.job(**WORKER_JOB)
        self.driver.run(1)
        return self.execution(path)

    def worker(self) -> str:
        reply = self.api.post("/v1/workers", {"queues": ["reports"], "name": NAME})
        assert reply.status == 201
        return f"/v1/workers/{reply.json['id']}"

    def claimed(self) -> tuple[str, dict[str, Any]]:
        """An execution that a worker holds, and what the worker says so by."""
        self.waiting()
        worker = self.worker()
        [held] = self.api.post(f"{worker}/poll", {}).json["data"]
        return f"/v1/executions/{held['id']}", {"workerId": held["workerId"], "fence": held["fence"]}

    def called_back(self) -> tuple[str, dict[str, Any]]:
        """An execution whose target was sent a token, and the token."""
        path = self.job(completion="callback", timeoutSeconds=600)
        self.driver.run(1)
        token = self.world.targets.calls[-1].callback_token
        return f"/v1/executions/{execution_id(path.rpartition('/')[2], slot_id(NOW), 1)}", {"token": token}

    def at_gate(self, role: str) -> str:
        # Machines decide only where they are named.
        everybody = sorted({str(who.claims["sub"]) for who in CALLERS.values()})
        gate = {"role": role, "timeoutSeconds": 900, "fourEyes": False, "approvers": everybody}
        path = self.job(approval=gate)
        self.driver.run(1)
        return path

    def workflow(self) -> str:
        body = {"name": NAME, "jobs": {"a": STEP | {"schedule": self.now()}, "b": STEP | {"dependsOn": [{"job": "a"}]}}}
        reply = self.api.post("/v1/workflows", body)
        assert reply.status == 201, reply.text
        return f"/v1/workflows/{reply.json['id']}"

    def failed_workflow(self) -> str:
        self.world.targets.answers = [BROKEN] * 9
        path = self.workflow()
        self.driver.run(300)
        return path

    def circuit(self) -> str:
        return self._counted(Circuit(key=str(CircuitKey("http:example.com:443", owner=self.owner))))

    def shared_circuit(self) -> str:
        return self._counted(Circuit(key="http:example.com:443"))

    def _counted(self, circuit: Circuit) -> str:
        self.world.circuits.save(circuit, replace(circuit, failures=3), now=NOW)
        return f"/v1/circuits/{quote(circuit.key)}"

    def configured(self) -> str:
        assert self.api.put("/v1/retry-configs/billing", {"maxConcurrency": 3}, claims=ROOT).status == 200
        return "/v1/retry-configs/billing"

    def state(self) -> Any:
        """What there is, but for what each request counts."""
        world = self.world
        executions = dict(world.history.executions)
        return (
            dict(world.jobs.rows),
            executions,
            dict(world.workers.rows),
            dict(world.retry_configs.rows),
            [*world.circuits.rows.values()],
            dict(world.webhook_keys.rows),
            dict(world.limits.revoked),
        )


def job_body(scene: Scene) -> dict[str, Any]:
    return make_body(schedule={"type": "interval", "everySeconds": 900})


def with_report(found: tuple[str, dict[str, Any]], verb: str, body: dict[str, Any]) -> Asked:
    path, holder = found
    return "POST", f"{path}/{verb}", holder | body


FAILURE = {"error": {"code": "TARGET_ERROR", "message": "no disk"}}
SHUT_OUT = "/v1/admin/revocations/0b0e8400-e29b-41d4-a716-446655440000"
RULES: dict[str, list[tuple[Rule, Callable[[Scene], Asked]]]] = {
    "createJob": [(create, lambda scene: ("POST", "/v1/jobs", job_body(scene)))],
    "createJobs": [(create, lambda scene: ("POST", "/v1/jobs/bulk", {"items": [job_body(scene)]}))],
    "listJobs": [(list_of, lambda scene: ("GET", f"/v1/jobs?owner={scene.owner}", None))],
    "getJob": [(read, lambda scene: ("GET", scene.job(), None))],
    "replaceJob": [(change, lambda scene: ("PUT", scene.later(), job_body(scene)))],
    "patchJob": [(change, lambda scene: ("PATCH", scene.later(), {"description": "another"}))],
    "deleteJob": [(change, lambda scene: ("DELETE", scene.later(), None))],
    "pauseJob": [(change, lambda scene: ("POST", f"{scene.later()}/pause", None))],
    "resumeJob": [(change, lambda scene: ("POST", f"{scene.job(enabled=False)}/resume", None))],
    "transferJob": [(transfer, lambda scene: ("POST", f"{scene.later()}/transfer", {"owner": "team-new"}))],
    "executeJob": [(change, lambda scene: ("POST", f"{scene.later()}/execute", None))],
    "retryJob": [(change, lambda scene: ("POST", f"{scene.failed()}/retry", None))],
    "cancelJob": [(change, lambda scene: ("POST", f"{scene.later()}/cancel", None))],
    "approveRun": [
        (decide_as_scheduler, lambda scene: ("POST", f"{scene.at_gate('scheduler')}/approve", None)),
        (decide_as_admin, lambda scene: ("POST", f"{scene.at_gate('admin')}/approve", None)),
    ],
    "rejectRun": [
        (decide_as_scheduler, lambda scene: ("POST", f"{scene.at_gate('scheduler')}/reject", None)),
        (decide_as_admin, lambda scene: ("POST", f"{scene.at_gate('admin')}/reject", None)),
    ],
    "listJobHistory": [(read, lambda scene: ("GET", f"{scene.failed()}/history", None))],
    "createWorkflow": [
        (
            create,
            lambda scene: ("POST", "/v1/workflows", {"name": "w", "jobs": {"a": {**STEP, "schedule": scene.now()}}}),
        )
    ],
    "listWorkflows": [(list_of, lambda scene: ("GET", f"/v1/workflows?owner={scene.owner}", None))],
    "getWorkflow": [
        (read, lambda scene: ("GET", scene.workflow(), None)),
        (read, lambda scene: ("GET", f"{scene.workflow()}?format=mermaid", None)),
    ],
    "cancelWorkflow": [
        (change, lambda scene: ("POST", f"{scene.workflow()}/cancel", None)),
    ],
    "retryWorkflow": [
        (change, lambda scene: ("POST", f"{scene.failed_workflow()}/retry", None)),
    ],
    "getExecution": [
        (read, lambda scene: ("GET", scene.ended(), None)),
        (read, lambda scene: ("GET", scene.waiting(), None)),
        (read, lambda scene: ("GET", scene.execution(scene.failed()), None)),
        (read, lambda scene: ("GET", scene.claimed()[0], None)),
    ],
    "cancelExecution": [
        (change, lambda scene: ("POST", f"{scene.waiting()}/cancel", None)),
        (change, lambda scene: ("POST", f"{scene.claimed()[0]}/cancel", None)),
    ],
    "reportProgress": [
        (change, lambda scene: with_report(scene.claimed(), "progress", {"percent": 5})),
        (report_by_token, lambda scene: with_report(scene.called_back(), "progress", {"percent": 5})),
    ],
    "completeExecution": [
        (change, lambda scene: with_report(scene.claimed(), "complete", {"result": 1})),
        (report_by_token, lambda scene: with_report(scene.called_back(), "complete", {"result": 1})),
    ],
    "failExecution": [
        (change, lambda scene: with_report(scene.claimed(), "fail", FAILURE)),
        (report_by_token, lambda scene: with_report(scene.called_back(), "fail", FAILURE)),
    ],
    "registerWorker": [(create, lambda scene: ("POST", "/v1/workers", {"queues": ["reports"]}))],
    "listWorkers": [(list_of, lambda scene: ("GET", f"/v1/workers?owner={scene.owner}", None))],
    "getWorker": [(read, lambda scene: ("GET", scene.worker(), None))],
    "heartbeat": [(work, lambda scene: ("POST", f"{scene.worker()}/heartbeat", {"executions": []}))],
    "drainWorker": [(change, lambda scene: ("POST", f"{scene.worker()}/drain", None))],
    "pollWorker": [(work, lambda scene: ("POST", f"{scene.worker()}/poll", {"queues": ["reports"]}))],
    "listRetryConfigs": [(everybody, lambda scene: ("GET", "/v1/retry-configs", None))],
    "getRetryConfig": [(everybody, lambda scene: ("GET", scene.configured(), None))],
    "putRetryConfig": [(administer, lambda scene: ("PUT", "/v1/retry-configs/billing", {"maxConcurrency": 3}))],
    "deleteRetryConfig": [(administer, lambda scene: ("DELETE", scene.configured(), None))],
    "listCircuits": [(list_of, lambda scene: ("GET", f"/v1/circuits?owner={scene.owner}", None))],
    "getCircuit": [
        (read, lambda scene: ("GET", scene.circuit(), None)),
        (everybody, lambda scene: ("GET", scene.shared_circuit(), None)),
    ],
    "resetCircuit": [
        (change, lambda scene: ("POST", f"{scene.circuit()}/reset", None)),
        (administer, lambda scene: ("POST", f"{scene.shared_circuit()}/reset", None)),
    ],
    "getWebhookKey": [(key_of, lambda scene: ("GET", f"/v1/webhook-keys/{quote(scene.owner, safe='')}", None))],
    "rotateWebhookKey": [
        (key_of, lambda scene: ("POST", f"/v1/webhook-keys/{quote(scene.owner, safe='')}/rotate", None))
    ],
    "revokeSubject": [(administer, lambda scene: ("PUT", SHUT_OUT, None))],
    "restoreSubject": [(administer, lambda scene: ("DELETE", SHUT_OUT, None))],
    "previewSchedule": [(everybody, lambda scene: ("GET", "/v1/schedule/preview?expression=@daily", None))],
    **{
        name: [(everybody, lambda scene, path=path: ("GET", path, None))]
        for name, path in (
            ("health", "/health"),
            ("ready", "/ready"),
            ("live", "/live"),
            ("startup", "/startup"),
            ("openapi", "/openapi.json"),
            ("docs", "/docs"),
        )
    },
}
"""By operation: the rule, and a request that succeeds where the rule lets it. With several, each has its own."""
REFUSED_BY_STATE: dict[str, list[tuple[Rule, Callable[[Scene], Asked]]]] = {
    "replaceJob": [(change, lambda scene: ("PUT", scene.cancelled(), job_body(scene)))],
    "patchJob": [(change, lambda scene: ("PATCH", scene.cancelled(), {"description": "another"}))],
    "pauseJob": [(change, lambda scene: ("POST", f"{scene.cancelled()}/pause", None))],
    "resumeJob": [(change, lambda scene: ("POST", f"{scene.cancelled()}/resume", None))],
    "executeJob": [(change, lambda scene: ("POST", f"{scene.cancelled()}/execute", None))],
    "retryJob": [(change, lambda scene: ("POST", f"{scene.later()}/retry", None))],
    "cancelJob": [(change, lambda scene: ("POST", f"{scene.failed()}/cancel", None))],
    "approveRun": [(read, lambda scene: ("POST", f"{scene.later()}/approve", None))],
    "rejectRun": [(read, lambda scene: ("POST", f"{scene.later()}/reject", None))],
    "cancelWorkflow": [(change, lambda scene: ("POST", f"{scene.failed_workflow()}/cancel", None))],
    "retryWorkflow": [(change, lambda scene: ("POST", f"{scene.workflow()}/retry", None))],
    "cancelExecution": [(change, lambda scene: ("POST", f"{scene.ended()}/cancel", None))],
    "reportProgress": [
        (change, lambda scene: with_report((scene.ended(), {"workerId": "w", "fence": 1}), "progress", {"percent": 5})),
        (report_by_token, lambda scene: with_report((scene.ended(), {"token": "t"}), "progress", {"percent": 5})),
    ],
    "completeExecution": [
        (change, lambda scene: with_report((scene.ended(), {"workerId": "w", "fence": 1}), "complete", {"result": 1})),
        (report_by_token, lambda scene: with_report((scene.ended(), {"token": "t"}), "complete", {"result": 1})),
    ],
    "failExecution": [
        (change, lambda scene: with_report((scene.ended(), {"workerId": "w", "fence": 1}), "fail", FAILURE)),
        (report_by_token, lambda scene: with_report((scene.ended(), {"token": "t"}), "fail", FAILURE)),
    ],
}
"""The same for what its state refuses: 409, but only for who may know."""


def cases(table: dict[str, list[tuple[Rule, Callable[[Scene], Asked]]]]) -> list[Any]:
    return [
        pytest.param(rule, ask, id=f"{operation}-{number}")
        for operation, asked in table.items()
        for number, (rule, ask) in enumerate(asked)
    ]


LISTS = {
    "listJobs": "/v1/jobs",
    "listWorkflows": "/v1/workflows",
    "listWorkers": "/v1/workers",
    "listCircuits": "/v1/circuits",
}


def send(api: Api, asked: Asked, claims: Mapping[str, Any]) -> Reply:
    method, path, body = asked
    path, _, query = path.partition("?")
    headers = {"content-type": "application/merge-patch+json"} if method == "PATCH" else {}
    return api.call(method, path, body, query=query, headers=headers, claims=claims)


def test_no_route_is_forgotten() -> None:
    assert RULES.keys() == {route.operation for route in routes_without_services()}


def test_each_kind_of_caller_of_the_docs_asks() -> None:
    assert rights().keys() == {who.name for who in CALLERS.values()}


def test_routes_without_a_token_are_those_for_everybody() -> None:
    for route in routes_without_services():
        if route.access is Access.PUBLIC:
            assert [rule for rule, _ in RULES[route.operation]] == [everybody]
        else:
            assert Api().call(route.method, path_of(route.path), claims={"token_use": "id"}).status == 401


def path_of(template: str) -> str:
    known = {
        "executionId": execution_id(PATH_ID, slot_id(NOW), 1),
        "workerId": "a" * 16,
        "jobType": "t",
        "circuitKey": "k",
        "owner": "me",
    }
    return re.sub(r"\{(\w+)\}", lambda found: known.get(found[1], PATH_ID), template)


PATH_ID = "7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f"


SUCCESS = (200, 201, 204)


def answered_by_rights(
    rule: Rule, ask: Callable[[Scene], Asked], who: Who, *, own: bool, let: tuple[int, ...] = SUCCESS
) -> None:
    scene = Scene(who.maker if own else STRANGER)
    answered_in(scene, ask(scene), rule, who, own=own, let=let)


def answered_in(scene: Scene, asked: Asked, rule: Rule, who: Who, *, own: bool, let: tuple[int, ...] = SUCCESS) -> None:
    before = scene.state()

    reply = send(scene.api, asked, who.claims)

    expected = rule(*rights()[who.name], own)
    assert (200 if reply.status in let else reply.status) == expected, f"{who.claims}: {reply.text}"
    if expected != 200:
        assert reply.code == {403: "FORBIDDEN", 404: "NOT_FOUND"}[expected]
        assert scene.state() == before, "what is refused changes nothing"
        assert NAME not in (reply.text or "")


def all_answered_by_rights(rule: Rule, ask: Callable[[Scene], Asked], *, let: tuple[int, ...] = SUCCESS) -> None:
    """Have all callers ask about a stranger's and about their own. The refused share a scene: they change nothing."""
    scene = Scene(STRANGER)
    asked = ask(scene)
    for who in (CALLERS[name] for name in ONE_OF_EACH):
        if rule(*rights()[who.name], False) != 200 or asked[0] == "GET":
            answered_in(scene, asked, rule, who, own=False, let=let)
        else:
            answered_by_rights(rule, ask, who, own=False, let=let)
        answered_by_rights(rule, ask, who, own=True, let=let)


@pytest.mark.parametrize(("rule", "ask"), cases(RULES))
def test_each_caller_is_answered_by_its_rights(rule: Rule, ask: Callable[[Scene], Asked]) -> None:
    all_answered_by_rights(rule, ask)


@pytest.mark.parametrize(("rule", "ask"), cases(REFUSED_BY_STATE))
def test_what_a_state_refuses_is_told_by_rights(rule: Rule, ask: Callable[[Scene], Asked]) -> None:
    all_answered_by_rights(rule, ask, let=(409,))


@pytest.mark.parametrize(("rule", "ask"), cases(RULES))
def test_a_reporter_reports_by_token_and_does_nothing_else(rule: Rule, ask: Callable[[Scene], Asked]) -> None:
    scene = Scene(STRANGER)
    method, path, body = asked = ask(scene)
    access = next(
        route.access
        for route in routes_without_services()
        if route.method == method and matches(route.path, path.partition("?")[0])
    )
    before = scene.state()
    reply = send(scene.api, asked, machine("reporter", "gnomon/report"))
    if access is Access.PUBLIC or rule is report_by_token:
        assert reply.status == 200, reply.text
    else:
        assert (reply.status, reply.code) == (403, "FORBIDDEN"), body
        assert scene.state() == before


def matches(template: str, path: str) -> bool:
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path) is not None


@pytest.mark.parametrize("name", CALLERS)
@pytest.mark.parametrize("operation", ["getJob", "patchJob", "createJob", "putRetryConfig", "pollWorker"])
def test_the_rights_of_each_kind_of_caller(operation: str, name: str) -> None:
    [(rule, ask)] = RULES[operation]
    for own in (True, False):
        answered_by_rights(rule, ask, CALLERS[name], own=own)


@pytest.mark.parametrize("name", CALLERS)
@pytest.mark.parametrize("operation", LISTS)
def test_lists_are_of_the_callers_own_unless_it_asks_for_more(operation: str, name: str) -> None:
    who = CALLERS[name]
    sees, _ = rights()[who.name]
    scene = Scene(who.maker)
    made = {
        "listJobs": scene.later,
        "listWorkflows": scene.workflow,
        "listWorkers": scene.worker,
        "listCircuits": scene.circuit,
    }[operation]
    own = unquote(made().rpartition("/")[2])
    scene.api.claims = STRANGER
    scene.owner = scene.api.get(scene.job()).json["owner"]
    others = unquote(made().rpartition("/")[2])

    def listed(query: str) -> tuple[int, set[str]]:
        reply = scene.api.get(LISTS[operation], query=query, claims=who.claims)
        return reply.status, {one.get("id") or one["key"] for one in reply.json.get("data", ())}

    status, found = listed("")
    assert status == 200
    assert own in found
    assert others not in found
    if operation != "listWorkflows":
        status, found = listed("owner=*")
        assert status == (200 if sees == ALL else 403)
        assert {own, others} <= found if sees == ALL else not found
    status, found = listed("owner=team-other")
    assert status == (200 if sees == ALL else 403)
    assert (others in found) == (sees == ALL)
    assert own not in found


@pytest.mark.parametrize("name", CALLERS)
def test_what_is_made_belongs_to_an_owner_that_the_caller_acts_for(name: str) -> None:
    who = CALLERS[name]
    if rights()[who.name][1] == NOTHING:
        pytest.skip("it makes nothing")
    scene = Scene(who.maker)
    teams = re.findall(r"team-\w+", str(who.claims.get("cognito:groups")))
    teams += [f"team-{team}" for client, team in MACHINE_TEAMS.items() if client == who.claims["sub"]]
    default = teams[0] if len(teams) == 1 else who.claims["sub"]
    step = {**STEP, "schedule": scene.now()}
    for path, body in (
        ("/v1/jobs", make_body()),
        ("/v1/workers", {"queues": ["a"]}),
        ("/v1/workflows", {"name": "w", "jobs": {"a": step}}),
    ):
        reply = scene.api.post(path, body, claims=who.claims)
        assert (reply.status, reply.json["owner"], reply.json["createdBy"]) == (201, default, who.claims["sub"])
        for owner in (*teams, who.claims["sub"], scene.owner):
            reply = scene.api.post(path, body | {"owner": owner}, claims=who.claims)
            assert (reply.status, reply.json["owner"]) == (201, owner)
        before = scene.state()
        refused = scene.api.post(path, body | {"owner": "team-other"}, claims=who.claims)
        assert (refused.status, refused.code) == (403, "FORBIDDEN")
        assert '"team-other"' in refused.message
        assert scene.state() == before
    items = [make_body(owner=owner) for owner in (*teams, "team-other")]
    results = scene.api.post("/v1/jobs/bulk", {"items": items}, claims=who.claims).json["data"]
    assert [one["status"] for one in results] == [201] * len(teams) + [403]
    assert [one["job"]["owner"] for one in results[:-1]] == teams


def test_an_owner_is_not_changed_by_put_and_patch() -> None:
    scene = Scene(user("sue", "scheduler", "team-x", "team-y"))
    path = scene.job(owner="team-x", schedule={"type": "interval", "everySeconds": 900})
    shown = scene.api.get(path).json
    kept = {"description": "another", "owner": "team-x"}
    assert scene.api.patch(path, kept).json["owner"] == "team-x"
    assert scene.api.put(path, job_body(scene) | {"owner": "team-x"}).status == 200
    for reply in (
        scene.api.patch(path, {"owner": "team-y"}),
        scene.api.put(path, job_body(scene) | {"owner": "team-y"}),
    ):
        assert (reply.status, reply.fields.keys()) == (400, {"owner"})
    assert scene.api.get(path).json["owner"] == shown["owner"]


def test_jobs_of_a_workflow_have_its_owner() -> None:
    scene = Scene(user("sue", "scheduler", "team-x"))
    step = {**STEP, "schedule": scene.now(), "owner": "team-x"}
    reply = scene.api.post("/v1/workflows", {"name": "w", "jobs": {"a": step}})
    assert (reply.status, reply.fields.keys()) == (400, {"jobs.a.owner"})


@pytest.mark.parametrize("limit", [1, 2, 100])
@pytest.mark.parametrize("kind", ["listJobs", "listWorkflows", "listWorkers"])
def test_lists_without_an_owner_are_of_all_that_the_caller_acts_for(kind: str, limit: int) -> None:
    scene = Scene(user("sue", "viewer", "scheduler", "team-x", "team-y"))
    made = {"listJobs": scene.later, "listWorkflows": scene.workflow, "listWorkers": scene.worker}[kind]
    mine = set() if kind != "listJobs" else {one["id"] for one in scene.api.get("/v1/jobs").json["data"]}
    for maker, is_mine in (("sue", True), ("team-x", True), ("oscar", False), ("team-y", True), ("team-z", False)):
        scene.api.claims = user(maker if maker in ("sue", "oscar") else "maker", "scheduler", *[maker][: "-" in maker])
        ids = {made().rpartition("/")[2] for _ in range(2)}
        mine |= ids if is_mine else set()
    found: list[str] = []
    query = f"limit={limit}"
    while True:
        page = scene.api.get(LISTS[kind], query=query, claims=user("sue", "viewer", "team-x", "team-y")).json
        found += [one["id"] for one in page["data"]]
        if (cursor := page["pagination"].get("cursor")) is None:
            break
        query = f"limit={limit}&cursor={cursor}"
    assert len(found) == len(set(found))
    assert kind == "listJobs" or set(found) == mine
    assert mine <= set(found)


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("owner", ["x" * 3_000, "😀" * 300, ""])
def test_an_owner_that_no_key_can_hold_is_a_bad_request(kind: str, owner: str) -> None:
    reply = Api(claims=ROOT).get(LISTS[kind], query=f"owner={quote(owner)}")
    assert (reply.status, reply.fields.keys()) == (400, {"owner"})


@pytest.mark.parametrize("path", ["/v1/circuits/{0}", "/v1/retry-configs/{0}"])
@pytest.mark.parametrize("key", ["😀" * 320, "k" * 1_025, "k" * 3_000])
def test_a_key_that_no_row_can_have_is_refused(path: str, key: str) -> None:
    assert Api(claims=ROOT).get(path.format(quote(key))).status in (400, 404)
