"""Who gets in, and what they may see and do."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import TYPE_CHECKING, Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt import PyJWK

from tests.e2e.stack import job_body, problem, unique

if TYPE_CHECKING:
    from collections.abc import Callable

    from gnomon.client import Client
    from tests.e2e.people import People
    from tests.e2e.stack import Api, Aws, Stack

pytestmark = pytest.mark.e2e

READ = "/v1/jobs?limit=1"


def encoded(value: bytes | dict[str, Any]) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def parts(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Header, claims and signature of a token."""
    header, claims, signature = token.split(".")

    def decoded(text: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return found

    return decoded(header), decoded(claims), signature


def refused(api: Api, token: str) -> None:
    for method, path in (("GET", READ), ("POST", "/v1/jobs")):
        answer = api.call(method, path, job_body() if method == "POST" else None, token=token)
        assert answer.status_code == 401, f"{method} {path}: {answer.status_code} {answer.text}"


def test_no_token(api: Api) -> None:
    refused(api, "")
    refused(api, "not-a-token")


@pytest.mark.case(28)
def test_id_token(api: Api, people: People) -> None:
    refused(api, str(people.tokens("admin")["IdToken"]))


@pytest.mark.case(28)
def test_token_of_another_client(api: Api, stack: Stack, aws: Aws, people: People) -> None:
    pool = stack.outputs["UserPoolId"]
    client = aws.cognito.create_user_pool_client(
        UserPoolId=pool, ClientName=unique("other"), ExplicitAuthFlows=["ALLOW_USER_PASSWORD_AUTH"]
    )["UserPoolClient"]["ClientId"]
    refused(api, str(people.tokens("admin", client=client)["AccessToken"]))
    aws.cognito.delete_user_pool_client(UserPoolId=pool, ClientId=client)


@pytest.mark.case(28)
def test_token_of_another_pool(api: Api, aws: Aws, people: People) -> None:
    pool = aws.cognito.create_user_pool(PoolName=unique("other"))["UserPool"]["Id"]
    client = aws.cognito.create_user_pool_client(
        UserPoolId=pool, ClientName="other", ExplicitAuthFlows=["ALLOW_USER_PASSWORD_AUTH"]
    )["UserPoolClient"]["ClientId"]
    refused(api, str(people.tokens("admin", pool=pool, client=client)["AccessToken"]))
    aws.cognito.delete_user_pool(UserPoolId=pool)


@pytest.mark.case(28)
def test_expired_token(api: Api, stack: Stack, aws: Aws, people: People) -> None:
    of_pool = {"UserPoolId": stack.outputs["UserPoolId"], "ClientId": stack.outputs["UserClientId"]}
    client = aws.cognito.describe_user_pool_client(**of_pool)["UserPoolClient"]
    kept = {
        name: client[name]
        for name in ("ExplicitAuthFlows", "IdTokenValidity", "RefreshTokenValidity", "PreventUserExistenceErrors")
        if name in client
    }
    units = client.get("TokenValidityUnits") or {}
    try:
        aws.cognito.update_user_pool_client(
            **of_pool, **kept, AccessTokenValidity=1, TokenValidityUnits={**units, "AccessToken": "seconds"}
        )
        token = people.token("admin")
    finally:
        aws.cognito.update_user_pool_client(
            **of_pool, **kept, AccessTokenValidity=client["AccessTokenValidity"], TokenValidityUnits=units
        )
    time.sleep(1.5)
    refused(api, token)


@pytest.mark.case(28)
def test_forged_tokens(api: Api, stack: Stack) -> None:
    header, claims, signature = parts(stack.tokens["viewer"])
    claims["cognito:groups"] = ["admin"]
    body = encoded(claims)
    # Changed claims under the old signature.
    refused(api, f"{encoded(header)}.{body}.{signature}")
    for algorithm in ("none", "None"):
        refused(api, f"{encoded({**header, 'alg': algorithm})}.{body}.")
    # The public key, which everybody knows, as the secret of a symmetric signature.
    pool = stack.outputs["UserPoolId"]
    keys = httpx.get(f"{stack.endpoint}/{pool}/.well-known/jwks.json", trust_env=False).json()["keys"]
    key = PyJWK(next(each for each in keys if each["kid"] == header["kid"])).key
    secrets = [
        key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    ]
    for secret in secrets:
        signed = f"{encoded({**header, 'alg': 'HS256'})}.{body}"
        mac = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
        refused(api, f"{signed}.{encoded(mac)}")


def test_viewer_changes_nothing(api: Api, create: Callable[..., dict[str, Any]]) -> None:
    problem(api.post("/v1/jobs", job_body(), role="viewer"), 403, "FORBIDDEN")
    path = f"/v1/jobs/{create()['id']}"
    # Another owner's job is not even there for a viewer.
    problem(api.get(path, role="viewer"), 404, "NOT_FOUND")
    problem(api.get(f"{path}/history", role="viewer"), 404, "NOT_FOUND")
    problem(api.call("DELETE", path, role="viewer"), 404, "NOT_FOUND")
    problem(api.call("PUT", path, job_body(), role="viewer"), 404, "NOT_FOUND")
    for action in ("pause", "resume", "execute", "retry", "cancel"):
        problem(api.post(f"{path}/{action}", role="viewer"), 404, "NOT_FOUND")
    assert api.get("/v1/jobs", role="viewer").status_code == 200
    problem(api.get("/v1/jobs?owner=*", role="viewer"), 403, "FORBIDDEN")


def test_scheduler_reads_all_and_changes_its_own(api: Api, scheduler: Client) -> None:
    tag = unique("access")
    created = api.post("/v1/jobs", job_body(tags=[tag]), role="admin")
    path = f"/v1/jobs/{created.json()['id']}"
    assert api.get(path).status_code == 200
    assert api.get(f"{path}/history").status_code == 200
    problem(api.call("DELETE", path), 403, "FORBIDDEN")
    problem(api.call("PUT", path, job_body()), 403, "FORBIDDEN")
    patch = {"Content-Type": "application/merge-patch+json"}
    problem(api.call("PATCH", path, {"tags": []}, headers=patch), 403, "FORBIDDEN")
    for action in ("pause", "resume", "execute", "retry", "cancel"):
        problem(api.post(f"{path}/{action}"), 403, "FORBIDDEN")
    assert [job["id"] for job in scheduler.list_jobs(owner="*", tag=tag, page_size=100)] == [created.json()["id"]]
    assert list(scheduler.list_jobs(tag=tag, page_size=100)) == []
    assert api.call("DELETE", path, role="admin").status_code == 204


def test_admin_changes_all(api: Api, create: Callable[..., dict[str, Any]]) -> None:
    path = f"/v1/jobs/{create()['id']}"
    assert api.post(f"{path}/pause", role="admin").status_code == 200
    assert api.call("DELETE", path, role="admin").status_code == 204
    problem(api.get(path), 404, "NOT_FOUND")


def test_team_shares_its_jobs(api: Api, people: People) -> None:
    team = unique("team")
    maker, colleague, stranger = (people.token("scheduler", group) for group in (team, team, unique("team")))
    created = api.post("/v1/jobs", job_body(), token=maker).json()
    path = f"/v1/jobs/{created['id']}"
    assert created["owner"] == team
    assert created["createdBy"] != team
    assert created["id"] in [job["id"] for job in api.get("/v1/jobs", token=colleague).json()["data"]]
    problem(api.call("DELETE", path, token=stranger), 403, "FORBIDDEN")
    problem(api.call("DELETE", path, token=people.token("viewer", team)), 403, "FORBIDDEN")
    assert api.call("DELETE", path, token=colleague).status_code == 204


@pytest.mark.case(27)
def test_groups_give_roles_by_their_whole_name(api: Api, people: People) -> None:
    for groups, writes in (
        ((), False),
        (("administrators",), False),
        (("admin", "ops"), True),
        (("ops", "viewer"), False),
        (("scheduler", "viewer"), True),
    ):
        token = people.token(*groups)
        answer = api.post("/v1/jobs", job_body(), token=token)
        assert answer.status_code == (201 if writes else 403), f"{groups}: {answer.text}"
        if writes:
            assert api.call("DELETE", answer.headers["Location"], token=token).status_code == 204
        everybody = api.get("/v1/jobs?owner=*&limit=1", token=token)
        assert everybody.status_code == (200 if writes else 403)


@pytest.mark.parametrize("name", ["reader", "scheduler", "reporter", "billing"])
def test_a_machine_gets_no_scope_of_another_role(people: People, name: str) -> None:
    """Nor does a token that is asked for without a scope."""
    own = {"reader": "read", "reporter": "report"}.get(name, "write")
    claims = jwt.decode(people.machine(name), options={"verify_signature": False})
    assert claims["scope"].split() == [f"gnomon/{own}"]
    for other in {"read", "write", "admin", "report"} - {own}:
        assert people.ask_for_token(name, f"gnomon/{other}").status_code == 400


def test_machines_of_two_teams_are_two_callers(api: Api, people: People) -> None:
    billing, reports = people.machine("billing"), people.machine("reports")
    job = api.post("/v1/jobs", job_body(), token=billing).json()
    path = f"/v1/jobs/{job['id']}"
    assert (job["owner"], job["createdBy"]) == ("team-billing", people.machine_id("billing"))
    problem(api.post(f"{path}/pause", {}, token=reports), 403, "FORBIDDEN")
    assert api.post(f"{path}/pause", {}, token=people.token("scheduler", "team-billing")).status_code == 200
    assert api.call("DELETE", path, token=billing).status_code == 204


def test_a_reporter_reports_and_nothing_else(api: Api, people: People, create: Callable[..., dict[str, Any]]) -> None:
    reporter = people.machine("reporter")
    path = f"/v1/jobs/{create()['id']}"
    for method, where in (("GET", path), ("GET", "/v1/jobs"), ("POST", "/v1/jobs"), ("DELETE", path)):
        problem(api.call(method, where, token=reporter), 403, "FORBIDDEN")


def test_machines(api: Api, people: People, create: Callable[..., dict[str, Any]]) -> None:
    path = f"/v1/jobs/{create()['id']}"
    reader = people.machine("reader")
    assert api.get(path, token=reader).status_code == 200
    problem(api.post("/v1/jobs", job_body(), token=reader), 403, "FORBIDDEN")
    writer = people.machine("scheduler")
    created = api.post("/v1/jobs", job_body(), token=writer)
    assert created.status_code == 201
    assert created.json()["owner"] == people.machine_id("scheduler")
    problem(api.call("DELETE", path, token=writer), 403, "FORBIDDEN")
    assert api.call("DELETE", f"/v1/jobs/{created.json()['id']}", token=writer).status_code == 204
    assert api.call("DELETE", path, token=people.machine("admin")).status_code == 204
