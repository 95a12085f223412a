from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.api.caller import caller_of
from functions.api.problems import UnauthorizedError
from functions.domain.caller import Role
from tests.api_client import Api, machine, sample_event, user


@pytest.mark.case(27)
@pytest.mark.parametrize(
    ("groups", "roles"),
    [
        (None, {Role.VIEWER}),
        ("[admin ops]", {Role.ADMIN}),
        (["admin", "ops"], {Role.ADMIN}),
        ("[scheduler admin]", {Role.SCHEDULER, Role.ADMIN}),
        ("[administrators]", {Role.VIEWER}),
        ("[viewer]", {Role.VIEWER}),
        ("admin", {Role.ADMIN}),
        ("[]", {Role.VIEWER}),
        ("[Admin]", {Role.VIEWER}),
        ("[[admin]]", {Role.VIEWER}),
        (7, {Role.VIEWER}),
    ],
)
def test_groups_are_roles(groups: Any, roles: set[Role]) -> None:
    claims = user("alice") | ({} if groups is None else {"cognito:groups": groups})
    assert caller_of(claims).roles == roles


@pytest.mark.parametrize(
    ("groups", "owner"),
    [
        ("[team-a scheduler]", "team-a"),
        ("[team-b scheduler team-a]", "alice"),
        ("[scheduler]", "alice"),
        ("[team-]", "alice"),
        ("[teams-a]", "alice"),
    ],
)
def test_the_default_owner_is_the_only_team_or_else_the_user(groups: str, owner: str) -> None:
    assert caller_of(user("alice") | {"cognito:groups": groups}).owner == owner


@given(st.sets(st.sampled_from(["team-a", "team-b", "team-c", "team-", "admin", "viewer", "x"])))
def test_a_user_acts_for_itself_and_each_of_its_teams(groups: set[str]) -> None:
    caller = caller_of(user("alice", *groups))
    teams = {one for one in groups if one.startswith("team-") and one != "team-"}
    assert set(caller.owners) == {"alice", *teams}
    assert all(caller.acts_for(owner) for owner in caller.owners)
    assert not any(caller.acts_for(other) for other in ("team-d", "team-", "bob", "*", ""))


@pytest.mark.parametrize(
    ("scopes", "role"),
    [
        (("gnomon/read",), Role.READER),
        (("gnomon/write",), Role.SCHEDULER),
        (("other/x", "gnomon/admin"), Role.ADMIN),
        (("other/write",), Role.VIEWER),
        (("gnomon/report",), Role.REPORTER),
        ((), Role.VIEWER),
    ],
)
def test_scopes_are_the_roles_of_machines(scopes: tuple[str, ...], role: Role) -> None:
    caller = caller_of(machine("build", *scopes))
    assert (caller.id, caller.owner, caller.roles) == ("build", "build", {role})


def test_a_machine_of_a_team_acts_for_it() -> None:
    teams = {"build": "billing"}
    assert caller_of(machine("build", "gnomon/write"), teams).owner == "team-billing"
    assert caller_of(machine("build", "gnomon/write"), teams).id == "build"
    assert caller_of(machine("other", "gnomon/write"), teams).owner == "other"
    assert caller_of(user("build"), teams).owner == "build"


def test_a_machines_team_decides_what_it_may_change() -> None:
    api = Api(claims=user("alice", "scheduler", "team-billing"), machine_teams={"ci": "billing", "etl": "data"})
    job = api.create()
    assert api.post(f"{job}/pause", claims=machine("ci", "gnomon/write")).status == 200
    assert api.post(f"{job}/resume", claims=machine("etl", "gnomon/write")).status == 403


def test_a_users_scopes_are_no_roles() -> None:
    assert caller_of(user("alice") | {"scope": "gnomon/admin"}).roles == {Role.VIEWER}


@pytest.mark.case(28)
@pytest.mark.parametrize(
    "claims",
    [user("alice", "admin") | {"token_use": "id"}, {"sub": "alice"}, {"token_use": "access"}, {}, None],
)
def test_anything_but_an_access_token_is_refused(claims: dict[str, Any] | None) -> None:
    with pytest.raises(UnauthorizedError):
        caller_of(claims)


@pytest.mark.parametrize("authorizer", [None, {}, {"jwt": None}, {"jwt": {"claims": None}}])
def test_no_token_is_401(authorizer: Any) -> None:
    event = sample_event("api-list-jobs")
    event["requestContext"]["authorizer"] = authorizer
    reply = Api().answer(event)
    assert (reply.status, reply.code) == (401, "UNAUTHORIZED")
    assert reply.headers["WWW-Authenticate"] == "Bearer"


def test_who_may_read_and_change_what() -> None:
    api = Api(claims=user("alice", "scheduler"))
    job = api.create()
    viewer, other, admin = user("bob"), user("carol", "scheduler"), user("dave", "admin")
    reader = machine("build", "gnomon/read")

    assert api.get(job, claims=viewer).status == 404
    assert api.patch(job, {"tags": ["x"]}, claims=viewer).status == 404
    assert api.get(job, claims=other).status == 200
    assert api.patch(job, {"tags": ["x"]}, claims=other).status == 403
    assert api.get(job, claims=reader).status == 200
    assert api.delete(job, claims=reader).status == 403
    assert api.post(f"{job}/pause", claims=admin).status == 200
    for claims in (viewer, reader):
        assert api.post("/v1/jobs", {"name": 1}, claims=claims).status == 403


def test_a_viewer_writes_nothing_and_reads_its_own() -> None:
    api = Api()
    event = sample_event("api-create-job")
    event["requestContext"]["authorizer"]["jwt"]["claims"]["cognito:groups"] = "[team-billing]"
    refused = api.answer(event)
    assert (refused.status, refused.code) == (403, "FORBIDDEN")
    job = api.answer(sample_event("api-create-job")).json
    assert (job["owner"], job["createdBy"]) == ("team-billing", "d2c4a6e8-1020-4304-8506-0708090a0b0c")
    assert api.get(f"/v1/jobs/{job['id']}", claims=user("colleague", "team-billing")).status == 200
    assert api.get("/v1/jobs", query="owner=team-billing", claims=user("bob")).status == 403


def test_a_machine_owns_what_it_makes() -> None:
    job = Api().answer(sample_event("api-create-job-machine")).json
    assert job["owner"] == job["createdBy"] == "7q8r9s0t1u2v3w4x5y6z7a8b9c"


def test_groups_and_names_are_kept_for_approval_gates() -> None:
    caller = caller_of(user("alice") | {"cognito:groups": "[team-a release-managers]", "username": "al"})
    assert caller.groups == {"team-a", "release-managers"}
    assert caller.names == {"alice", "al"}
    assert caller_of(machine("ci", "gnomon/write")).groups == frozenset()
    assert caller_of(machine("ci", "gnomon/write")).names == {"ci"}


@pytest.mark.parametrize("verified", [None, False, "false", "no", 1])
def test_an_address_that_was_not_verified_names_nobody(verified: Any) -> None:
    claims = user("alice") | {"email": "boss@example.com", "email_verified": verified}
    assert "boss@example.com" not in caller_of(claims).names
    assert "boss@example.com" in caller_of(claims | {"email_verified": "true"}).names
