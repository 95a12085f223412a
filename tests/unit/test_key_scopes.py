"""A name that callers choose means what it means within its scope: a caller, an owner, a worker, or everybody."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pytest

from functions.api.app import routes_without_services
from functions.api.route import Access
from functions.domain.caller import Caller, Role
from functions.domain.circuit import target_key
from functions.domain.concurrency import limits_of
from functions.domain.definition import Definition
from functions.domain.execution import ExecutionStatus
from functions.domain.instants import rfc3339
from functions.domain.job import JobStatus
from functions.domain.job_type import TypeConfig
from functions.domain.outcome import TargetAnswer
from functions.limit_ports import Allowance
from tests.api_client import Api, Reply, machine, make_body, user
from tests.driver import Driver
from tests.factories import JOB_ID, NOW, make_document, make_job
from tests.fakes import InMemoryRateLimits
from tests.unit.test_api_access import RULES, Scene, send

ALICE = user("alice", "scheduler", "team-a")
ANN = user("ann", "scheduler", "team-a")
"""A colleague: what one of them makes belongs to both."""
BOB = user("bob", "scheduler", "team-b")
ROBOT = machine("robot", "gnomon/write")
CALLERS = {"alice": ALICE, "ann": ANN, "bob": BOB, "robot": ROBOT}
KEY = {"idempotency-key": "one and the same"}


# --- idempotency keys: caller, method and path ---


@pytest.mark.parametrize(("one", "other"), list(permutations(CALLERS, 2)))
def test_a_key_is_its_callers_own(one: str, other: str) -> None:
    """A colleague's, too: two people who count from 1 do not meet."""
    api = Api()
    first = api.post("/v1/jobs", make_body(name="first"), headers=KEY, claims=CALLERS[one])
    second = api.post("/v1/jobs", make_body(name="second"), headers=KEY, claims=CALLERS[other])
    assert (first.status, second.status) == (201, 201)
    assert first.json["id"] != second.json["id"]
    again = api.post("/v1/jobs", make_body(name="first"), headers=KEY, claims=CALLERS[one])
    assert (again.json["id"], again.headers["Idempotency-Replayed"]) == (first.json["id"], "true")
    changed = api.post("/v1/jobs", make_body(name="second"), headers=KEY, claims=CALLERS[one])
    assert (changed.status, changed.code) == (422, "IDEMPOTENCY_KEY_REUSED")


def test_a_key_is_of_one_path() -> None:
    api = Api(claims=ALICE)
    step = {"target": {"type": "http", "url": "https://example.com/hook"}, "schedule": make_body()["schedule"]}
    replies = [
        api.post("/v1/jobs", make_body(), headers=KEY),
        api.post("/v1/jobs/bulk", {"items": [make_body()]}, headers=KEY),
        api.post("/v1/workflows", {"name": "w", "jobs": {"a": step}}, headers=KEY),
    ]
    assert [reply.status for reply in replies] == [201, 200, 201]
    assert not any("Idempotency-Replayed" in reply.headers for reply in replies)
    assert len(api.world.jobs.rows) == 3


def test_a_key_is_of_one_job() -> None:
    driver = Driver()
    api = Api(driver.world, claims=ALICE)
    paths = [api.create(overlapPolicy="allow") for _ in range(2)]
    for path in (*paths, *paths):
        assert api.post(f"{path}/execute", headers=KEY).status == 200
    assert [len(driver.row(path.rpartition("/")[2]).runs) for path in paths] == [1, 1]


# --- limits of requests: a caller, and the kind of the route ---


class Recorded(InMemoryRateLimits):
    def __init__(self) -> None:
        super().__init__()
        self.taken: list[tuple[str, str, int]] = []

    def take(self, caller: str, kind: str, *, now: float, creations: int = 0) -> Allowance:
        self.taken.append((caller, kind, creations))
        return super().take(caller, kind, now=now, creations=creations)

    def create(self, caller: str, creations: int, *, now: float) -> None:
        """Counted once the body has said how many: with the request that has just been counted."""
        _, kind, before = self.taken[-1]
        self.taken[-1] = (caller, kind, before + creations)
        super().create(caller, creations, now=now)


CREATES = {"createJob": 1, "createJobs": 1, "createWorkflow": 1}
"""Of the requests in RULES; all other operations make no job."""


@pytest.mark.parametrize("operation", list(RULES))
def test_each_route_counts_for_its_caller_and_as_its_kind(operation: str) -> None:
    access = {route.operation: route.access for route in routes_without_services()}[operation]
    scene = Scene(ALICE)
    asked = RULES[operation][0][1](scene)
    limits = Recorded()
    send(Api(scene.world, limits=limits), asked, ALICE)
    expected = [] if access is Access.PUBLIC else [("alice", access.value, CREATES.get(operation, 0))]
    assert limits.taken == expected


def test_as_many_creations_as_there_are_jobs() -> None:
    step = {"target": {"type": "http", "url": "https://example.com/hook"}, "schedule": make_body()["schedule"]}
    limits = Recorded()
    api = Api(claims=ALICE, limits=limits)
    api.post("/v1/jobs/bulk", {"items": [make_body() for _ in range(7)]})
    api.post("/v1/workflows", {"name": "w", "jobs": dict.fromkeys("abcd", step)})
    assert [creations for _, _, creations in limits.taken] == [7, 4]


def test_one_callers_requests_leave_those_of_its_colleague_alone() -> None:
    api = Api(limits=InMemoryRateLimits(writes_per_minute=2))

    def status(claims: Mapping[str, Any]) -> int:
        return api.post("/v1/jobs", make_body(), claims=claims).status

    assert [status(ALICE) for _ in range(3)] == [201, 201, 429]
    assert [status(claims) for claims in (ANN, BOB, ROBOT)] == [201, 201, 201]


# --- concurrency keys: an owner; limits of types: everybody ---


def keys_of(owner: str, **document: Any) -> list[str]:
    read = Definition.read(make_document(**document), "{}", job_id=JOB_ID, created_at=NOW)
    job = make_job(definition=read.under(TypeConfig(max_concurrency=1)), owner=owner)
    return [limit.key for limit in limits_of(job)]


def test_a_concurrency_key_is_its_owners_and_a_types_limit_is_for_all() -> None:
    document = {"concurrencyKey": "db", "maxConcurrency": 1, "type": "billing"}
    (mine, our_type), (theirs, their_type) = keys_of("team-a", **document), keys_of("team-b", **document)
    assert mine != theirs
    assert our_type == their_type
    # No owner and key are taken for others that read the same.
    assert len({keys_of(owner, **{**document, "concurrencyKey": key})[0] for owner, key in SPELLINGS}) == len(SPELLINGS)


SPELLINGS = [("team-a", "b"), ("team", "a-b"), ("team-ab", "x"), ("team-a", "b-c"), ("team-a-b", "c")]


@pytest.mark.parametrize(("owner", "together"), [("team-a", 1), ("team-b", 2)])
def test_runs_of_another_owner_do_not_wait_for_a_key(owner: str, together: int) -> None:
    driver = Driver()
    at = {"type": "once", "at": rfc3339(int(driver.clock.now()))}
    for team in ("team-a", owner):
        caller = Caller(id=team, owner=team, roles=frozenset({Role.SCHEDULER}))
        driver.create(
            caller=caller,
            schedule=at,
            concurrencyKey="db",
            maxConcurrency=1,
            completion="callback",
            timeoutSeconds=600,
        )
    driver.world.targets.answers = [TargetAnswer(status=ExecutionStatus.COMPLETED)]
    driver.run(5)
    assert len(driver.world.targets.calls) == together


# --- workers' queues and polls ---


class Office:
    """Workers' jobs of two owners, by queues of the same name."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.api = Api(self.driver.world)

    def job(self, claims: Mapping[str, Any], queue: str = "q") -> None:
        at = {"type": "once", "at": rfc3339(int(self.driver.clock.now()))}
        body = make_body(schedule=at, target={"type": "worker", "queue": queue}, timeoutSeconds=300)
        assert self.api.post("/v1/jobs", body, claims=claims).status == 201
        self.driver.run(1)

    def worker(self, claims: Mapping[str, Any], *queues: str) -> str:
        reply = self.api.post("/v1/workers", {"queues": list(queues) or ["q"]}, claims=claims)
        return str(reply.json["id"])

    def poll(self, worker: str, claims: Mapping[str, Any], **body: Any) -> Reply:
        return self.api.post(f"/v1/workers/{worker}/poll", body, claims=claims)

    def given(self, worker: str, claims: Mapping[str, Any], **body: Any) -> list[str]:
        return [one["id"] for one in self.poll(worker, claims, **body).json["data"]]


def test_a_queue_is_its_owners() -> None:
    office = Office()
    office.job(ALICE)
    theirs, ours = office.worker(BOB), office.worker(ANN)
    assert office.given(theirs, BOB) == []
    assert len(office.given(ours, ANN)) == 1


def test_a_worker_is_given_what_its_queues_have() -> None:
    office = Office()
    office.job(ALICE, "mail")
    assert office.given(office.worker(ALICE, "reports"), ALICE) == []
    assert len(office.given(office.worker(ALICE, "reports", "mail"), ALICE)) == 1


@pytest.mark.parametrize("claims", [ALICE, ANN])
def test_the_same_poll_of_another_worker_is_another_poll(claims: Mapping[str, Any]) -> None:
    office = Office()
    for _ in range(2):
        office.job(ALICE)
    first, second = office.worker(ALICE), office.worker(claims)
    held = office.given(first, ALICE, pollId="p", maxItems=1)
    others = office.given(second, claims, pollId="p", maxItems=1)
    assert (len(held), len(others)) == (1, 1)
    assert held != others
    assert office.given(first, ALICE, pollId="p", maxItems=1) == held
    assert office.given(second, claims, pollId="p", maxItems=1) == others


# --- circuits: an owner's, unless the stage shares one ---


def test_a_target_is_the_same_however_it_is_spelled() -> None:
    urls = ["https://example.com/a", "https://example.com:443/b?c", "https://EXAMPLE.com"]
    assert {target_key({"type": "http", "url": url}) for url in urls} == {"http:example.com:443"}
    others = [
        {"type": "http", "url": "https://example.com:8443/a"},
        {"type": "http", "url": "https://www.example.com/a"},
        {"type": "handler", "name": "example.com:443"},
        {"type": "lambda", "functionName": "example"},
        {"type": "sqs", "queueUrl": "https://sqs.eu-central-1.amazonaws.com/1/example"},
    ]
    assert len({target_key(target) for target in others} | {"http:example.com:443"}) == len(others) + 1


def failing(driver: Driver, team: str, **document: Any) -> str:
    """A job of the team that fails once, for good."""
    caller = Caller(id=team, owner=team, roles=frozenset({Role.SCHEDULER}))
    at = {"type": "once", "at": rfc3339(int(driver.clock.now()) + 1)}
    driver.world.targets.answers = [TargetAnswer(status=ExecutionStatus.FAILED)]
    job = driver.create(caller=caller, schedule=at, retryConfig={"maxRetries": 0}, circuitBreaker={}, **document)
    driver.run(3)
    return job.id


def starts(driver: Driver, team: str, **document: Any) -> bool:
    """Whether a job of the team starts at once."""
    caller = Caller(id=team, owner=team, roles=frozenset({Role.SCHEDULER}))
    at = {"type": "once", "at": rfc3339(int(driver.clock.now()) + 1)}
    driver.world.targets.answers = [TargetAnswer(status=ExecutionStatus.COMPLETED)]
    job = driver.create(caller=caller, schedule=at, circuitBreaker={}, **document)
    driver.run(3)
    return driver.row(job.id).status is JobStatus.COMPLETED


def breaks_at_once(*shared: str) -> Driver:
    driver = Driver()
    driver.world.types.set_circuits(*shared, failureThreshold=1, openSeconds=3_600)
    for kind in ("eager", "patient"):
        driver.world.types.put(kind, circuitBreaker={"failureThreshold": 1 if kind == "eager" else 50})
    return driver


def test_a_team_s_failing_job_opens_no_circuit_of_another_team() -> None:
    driver = breaks_at_once()
    failing(driver, "team-a")
    assert not starts(driver, "team-a")
    assert starts(driver, "team-b")
    assert set(driver.world.circuits.rows) == {"http:example.com:443@team-a"}


def test_types_with_other_thresholds_have_circuits_of_their_own() -> None:
    driver = breaks_at_once()
    failing(driver, "team-a", type="eager")
    assert not starts(driver, "team-a", type="eager")
    assert starts(driver, "team-a", type="patient")
    assert starts(driver, "team-a")
    assert starts(driver, "team-b", type="eager")


@pytest.mark.parametrize("kind", [None, "eager", "patient"])
def test_a_circuit_that_the_stage_shares_is_everybody_s(kind: str | None) -> None:
    driver = breaks_at_once("http:example.com:443")
    failing(driver, "team-a", type="patient")
    assert not starts(driver, "team-b", **({} if kind is None else {"type": kind}))
    assert set(driver.world.circuits.rows) == {"http:example.com:443"}
    elsewhere = {"type": "http", "url": "https://other.example.com/"}
    failing(driver, "team-a", target=elsewhere)
    assert starts(driver, "team-b", target=elsewhere)


def test_a_job_without_a_circuit_is_held_back_by_none() -> None:
    driver = breaks_at_once()
    failing(driver, "team-a")
    caller = Caller(id="team-a", owner="team-a", roles=frozenset({Role.SCHEDULER}))
    driver.world.targets.answers = [TargetAnswer(status=ExecutionStatus.COMPLETED)]
    at = {"type": "once", "at": rfc3339(int(driver.clock.now()) + 1)}
    job = driver.create(caller=caller, schedule=at, type="eager", circuitBreaker={"enabled": False})
    driver.run(3)
    assert driver.row(job.id).status is JobStatus.COMPLETED


# --- pages ---


def test_a_cursor_is_of_one_list_and_its_owner() -> None:
    api = Api(claims=ALICE)
    for _ in range(2):
        api.create()
        api.post("/v1/workers", {"queues": ["q"]})
    cursors = {
        path: api.get(path, query="limit=1").json["pagination"]["cursor"] for path in ("/v1/jobs", "/v1/workers")
    }
    assert api.get("/v1/jobs", query=f"cursor={cursors['/v1/workers']}").status == 400
    assert api.get("/v1/workers", query=f"cursor={cursors['/v1/jobs']}").status == 400
    stolen = api.get("/v1/jobs", query=f"cursor={cursors['/v1/jobs']}", claims=BOB)
    assert stolen.status == 400 or stolen.json["data"] == []
