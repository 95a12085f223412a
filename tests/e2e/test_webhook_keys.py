"""Webhook keys on the stack: a key for each owner, made at first use, rotated by its owner."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from tests.e2e.people import People
from tests.e2e.stack import Api, Aws, job_body, once, problem, unique, until
from tests.e2e.target import Call, Endpoint

pytestmark = pytest.mark.e2e

OWN = "/v1/webhook-keys/me"


def called(api: Api, endpoint: Endpoint, token: str) -> Call:
    """The call of a new job of the token's owner."""
    answer = api.post("/v1/jobs", job_body(schedule=once(0), target=endpoint.target()), token=token)
    assert answer.status_code == 201, answer.text
    return until(lambda: next(iter(endpoint.calls(answer.json()["id"])), None), seconds=20, hint="the job is called")


def accepts(secret: str, call: Call) -> bool:
    try:
        Webhook(secret).verify(call.body, dict(call.headers))
    except WebhookVerificationError:
        return False
    return True


def read_key(api: Api, token: str) -> dict[str, Any]:
    answer = api.get(OWN, token=token)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    return dict(answer.json())


def test_a_receiver_of_one_team_refuses_the_calls_of_another(api: Api, people: People, endpoint: Endpoint) -> None:
    ours, theirs = (people.token("scheduler", f"team-{unique(name)}") for name in ("a", "b"))
    mine, other = called(api, endpoint, ours), called(api, endpoint, theirs)
    key, foreign = read_key(api, ours), read_key(api, theirs)
    assert mine.headers["gnomon-owner"] == key["owner"] != other.headers["gnomon-owner"]
    assert accepts(key["secret"], mine)
    assert accepts(foreign["secret"], other)
    assert not accepts(key["secret"], other)
    assert not accepts(foreign["secret"], mine)


def test_calls_at_once_at_first_use_are_signed_by_one_key(api: Api, people: People, endpoint: Endpoint) -> None:
    token = people.token("scheduler", f"team-{unique('first')}")
    with ThreadPoolExecutor(5) as threads:
        calls = [threads.submit(called, api, endpoint, token) for _ in range(4)]
        read = threads.submit(read_key, api, token)
    secret = read_key(api, token)["secret"]
    assert read.result()["secret"] == secret
    assert all(accepts(secret, call.result()) for call in calls)


@pytest.mark.parametrize("keeps", [True, False])
def test_after_a_rotation_both_keys_sign_unless_the_old_one_leaked(
    api: Api, people: People, endpoint: Endpoint, keeps: bool
) -> None:
    token = people.token("scheduler", f"team-{unique('rotates')}")
    old = read_key(api, token)["secret"]
    rotated = api.post(f"{OWN}/rotate", {} if keeps else {"keepPreviousSeconds": 0}, token=token).json()
    assert rotated["secret"] != old
    assert len(rotated["previous"]) == keeps
    assert read_key(api, token) == rotated
    call = called(api, endpoint, token)
    assert accepts(rotated["secret"], call)
    assert accepts(old, call) == keeps


def test_rotations_at_once_leave_one_key_that_all_read(api: Api, people: People) -> None:
    token = people.token("scheduler", f"team-{unique('races')}")
    read_key(api, token)
    with ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(lambda _: api.post(f"{OWN}/rotate", {}, token=token), range(3)))
    assert {answer.status_code for answer in answers} <= {200, 409}
    secrets = [answer.json()["secret"] for answer in answers if answer.status_code == 200]
    key = read_key(api, token)
    assert key["secret"] in secrets
    assert len(key["previous"]) == len(secrets)


def test_others_neither_read_nor_rotate_nor_send_a_key(api: Api, aws: Aws, people: People, endpoint: Endpoint) -> None:
    team = f"team-{unique('alone')}"
    secret = read_key(api, people.token("scheduler", team))["secret"]
    path = f"/v1/webhook-keys/{team}"
    for role in ("scheduler", "viewer"):
        for answer in (api.get(path, role=role), api.post(f"{path}/rotate", {}, role=role)):
            problem(answer, 403, "FORBIDDEN")
            assert secret not in answer.text
    problem(api.get(path, role="admin"), 404, "NOT_FOUND")
    [name] = [
        one["Name"]
        for page in aws.secrets.get_paginator("list_secrets").paginate()
        for one in page["SecretList"]
        if one["Name"].endswith(f"/webhook/{team}")
    ]
    target = endpoint.target() | {"headers": {"X-Leak": {"secretArn": name}}}
    problem(api.post("/v1/jobs", job_body(target=target), role="scheduler"), 400, "VALIDATION_ERROR")
