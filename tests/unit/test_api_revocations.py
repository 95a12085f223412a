"""A caller that an administrator shuts out is refused at once, by the write that counts its request."""

from __future__ import annotations

import pytest

from tests.api_client import Api, machine, make_body, user

ROOT = user("00000000-0000-4000-8000-000000000001", "admin")
SCENES = {
    "person": user("0b0e8400-e29b-41d4-a716-446655440000", "scheduler"),
    "admin": user("0b0e8400-e29b-41d4-a716-446655440001", "admin"),
    "machine": machine("1h57kf5cpq17m0eml12EXAMPLE", "gnomon/write"),
    "reporter": machine("2h57kf5cpq17m0eml12EXAMPLE", "gnomon/report"),
}


@pytest.mark.parametrize("name", SCENES)
def test_a_revoked_caller_is_refused_until_it_is_restored(name: str) -> None:
    claims = SCENES[name]
    api = Api(claims=claims)
    path = f"/v1/admin/revocations/{claims['sub']}"
    before = api.get("/v1/jobs").status
    revoked = api.put(path, claims=ROOT)
    assert (revoked.status, revoked.json["subject"]) == (200, claims["sub"])
    jobs = dict(api.world.jobs.rows)
    for reply in (api.get("/v1/jobs"), api.post("/v1/jobs", make_body()), api.post("/v1/workers", {"queues": ["a"]})):
        assert (reply.status, reply.code) == (401, "UNAUTHORIZED")
        assert "revoked" in reply.message
    assert api.world.jobs.rows == jobs
    assert api.get("/v1/jobs", claims=user("other", "scheduler")).status == 200
    assert api.put(path, claims=ROOT).json == revoked.json, "since when does not change"
    assert [api.delete(path, claims=ROOT).status for _ in range(2)] == [204, 204]
    assert api.get("/v1/jobs").status == before


def test_nobody_shuts_itself_out() -> None:
    api = Api(claims=ROOT)
    assert api.put(f"/v1/admin/revocations/{ROOT['sub']}").status == 409
    assert api.get("/v1/jobs").status == 200


NO_SUBJECTS = ["a%20b", "%F0%9F%98%80", "x" * 129, "sue", "sue@example.com", "0B0E8400-E29B-41D4-A716-446655440000"]


@pytest.mark.parametrize("subject", NO_SUBJECTS)
def test_what_can_be_no_subject_is_refused(subject: str) -> None:
    assert Api(claims=ROOT).put(f"/v1/admin/revocations/{subject}").status == 400
