"""The routes of circuits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from functions.domain.circuit import Circuit, CircuitPolicy, Health, after_end, with_probe
from functions.domain.instants import rfc3339
from tests.api_client import Api, machine, user

ADMIN = user("root", "admin")
KEYS = ("handler:echo", "http:2001:db8::1:443", "http:api.example.com:443", "lambda:gnomon-report", "sqs:gnomon-q")


@pytest.fixture
def api() -> Api:
    return Api(claims=ADMIN)


def opened(api: Api, key: str) -> Circuit:
    now = api.clock.now()
    circuit = Circuit(key=key)
    for _ in range(5):
        after = after_end(circuit, CircuitPolicy(), "e", Health.DOWN, started_at=now, now=now)
        assert after is not None
        circuit = api.world.circuits.save(circuit, after, now=now)
    return circuit


def test_a_circuit_is_shown_as_it_stands(api: Api) -> None:
    circuit, now = opened(api, KEYS[2]), int(api.clock.now())
    shown = {
        "key": KEYS[2],
        "state": "OPEN",
        "failures": 5,
        "since": rfc3339(now),
        "openUntil": rfc3339(now + 30),
        "probe": None,
    }
    assert api.get("/v1/circuits").json == {"data": [shown], "pagination": {}}
    api.clock.advance(30)
    api.world.circuits.save(circuit, with_probe(circuit, "job-1-0001", until=now + 99), now=now)
    half_open = shown | {"state": "HALF_OPEN", "probe": "job-1-0001"}
    assert api.get("/v1/circuits").json["data"] == [half_open]


def test_they_are_listed_by_key_a_page_at_a_time(api: Api) -> None:
    for key in reversed(KEYS):
        opened(api, key)
    first = api.get("/v1/circuits", query="limit=3").json
    second = api.get("/v1/circuits", query=f"limit=3&cursor={first['pagination']['cursor']}").json
    assert [each["key"] for each in first["data"] + second["data"]] == list(KEYS)
    assert second["pagination"] == {}
    assert api.get("/v1/circuits", query="cursor=AAAA").status == 400
    assert api.get("/v1/circuits", query="state=OPEN").status == 400


@pytest.mark.parametrize("encoded", [True, False], ids=["encoded", "plain"])
@pytest.mark.parametrize("key", KEYS)
def test_an_admin_resets_it(api: Api, key: str, encoded: bool) -> None:
    opened(api, key)
    reset = api.post(f"/v1/circuits/{quote(key, safe='') if encoded else key}/reset")
    assert (reset.status, reset.json["key"], reset.json["state"]) == (200, key, "CLOSED")
    assert (reset.json["failures"], reset.json["openUntil"]) == (0, None)
    assert api.world.circuits.get(key).open_until is None


def test_a_reset_gives_way_to_a_write_and_is_done_after_it(api: Api) -> None:
    stored = opened(api, KEYS[0])
    steps = iter([True])

    def write(when: str, _: str) -> None:
        if when == "before" and next(steps, False):
            api.world.circuits.rows[KEYS[0]] = replace(stored, seq=stored.seq + 1, failures=6)

    api.world.faults.on_step = write
    assert api.post(f"/v1/circuits/{KEYS[0]}/reset").json["failures"] == 0
    assert api.world.circuits.get(KEYS[0]).open_until is None


def test_a_circuit_that_is_not_there(api: Api) -> None:
    missing = api.post("/v1/circuits/handler:none/reset")
    assert (missing.status, missing.code, missing.message) == (404, "NOT_FOUND", "There is no circuit handler:none.")
    assert api.post(f"/v1/circuits/{'x' * 2000}/reset").status == 404
    assert api.world.circuits.rows == {}


@pytest.mark.parametrize(
    "claims",
    [user("alice", "scheduler"), user("victor", "viewer"), user("nobody"), machine("m", "gnomon/read", "gnomon/write")],
    ids=["scheduler", "viewer", "no group", "machine"],
)
def test_everybody_reads_one_and_only_admins_reset(api: Api, claims: dict[str, Any]) -> None:
    opened(api, KEYS[0])
    assert api.get(f"/v1/circuits/{KEYS[0]}", claims=claims).json["key"] == KEYS[0]
    refused = api.post(f"/v1/circuits/{KEYS[0]}/reset", claims=claims)
    assert (refused.status, refused.code) == (403, "FORBIDDEN")
    assert api.world.circuits.get(KEYS[0]).open_until is not None


def test_a_body_with_fields_is_refused(api: Api) -> None:
    opened(api, KEYS[0])
    assert api.post(f"/v1/circuits/{KEYS[0]}/reset", {"force": True}).status == 400


def test_who_sees_its_own_only_reads_a_circuit_by_its_key(api: Api) -> None:
    opened(api, KEYS[2])
    shown = api.get("/v1/circuits").json["data"][0]
    readers = (user("s", "scheduler"), machine("m", "gnomon/read"), ADMIN)
    assert [api.get("/v1/circuits", claims=one).status for one in readers] == [200, 200, 200]
    viewer = user("v", "viewer")
    refused = api.get("/v1/circuits", claims=viewer)
    assert (refused.status, refused.json["error"]["code"]) == (403, "FORBIDDEN")
    assert KEYS[2] not in str(refused.json)
    assert api.get(f"/v1/circuits/{quote(KEYS[2], safe='')}", claims=viewer).json == shown
    assert api.get("/v1/circuits/handler:none", claims=viewer).status == 404
    assert api.get(f"/v1/circuits/{'x' * 2000}", claims=viewer).status == 404
