"""The routes of circuits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from functions.domain.circuit import Circuit, CircuitPolicy, Health, after_end, with_probe
from functions.domain.instants import rfc3339
from tests.api_client import Api, machine, user

ROOT = user("root", "admin")
ANN = user("ann", "scheduler", "team-a")
VIC = user("vic", "viewer", "team-a")
BOB = user("bob", "scheduler", "team-b")
VIEWER = user("val", "viewer", "team-b")
KEYS = tuple(
    f"{name}@team-a"
    for name in (
        "handler:echo",
        "handler:echo~billing",
        "http:2001:db8::1:443",
        "http:api.example.com:443",
        "lambda:gnomon-report",
        "sqs:gnomon-q~a:b%2Fc=d",
    )
)
SHARED = "http:shared.example.com:443"
OURS = KEYS[3]
ODD = "http:api.example.com:443@team-%C3%A9%2Fx@y~z"
"""Of the team `é/x@y~z`."""


@pytest.fixture
def api() -> Api:
    return Api(claims=ANN)


def opened(api: Api, key: str) -> Circuit:
    now = api.clock.now()
    circuit = Circuit(key=key)
    for _ in range(5):
        after = after_end(circuit, CircuitPolicy(), "e", Health.DOWN, started_at=now, now=now)
        assert after is not None
        circuit = api.world.circuits.save(circuit, after, now=now)
    return circuit


def path_of(key: str) -> str:
    return f"/v1/circuits/{quote(key, safe='')}"


def listed(api: Api, claims: dict[str, Any], owner: str | None = None, limit: int = 2) -> list[str]:
    found: list[str] = []
    query = f"limit={limit}" + ("" if owner is None else f"&owner={quote(owner)}")
    cursor = ""
    while True:
        reply = api.get("/v1/circuits", query=query + cursor, claims=claims)
        assert reply.status == 200, reply.text
        found += [each["key"] for each in reply.json["data"]]
        if "cursor" not in reply.json["pagination"]:
            return found
        cursor = f"&cursor={reply.json['pagination']['cursor']}"


def test_a_circuit_is_shown_as_it_stands(api: Api) -> None:
    circuit, now = opened(api, OURS), int(api.clock.now())
    shown = {
        "key": OURS,
        "owner": "team-a",
        "jobType": None,
        "target": "http:api.example.com:443",
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


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        (KEYS[1], ("team-a", "billing", "handler:echo")),
        (KEYS[5], ("team-a", "a:b/c=d", "sqs:gnomon-q")),
        (ODD, ("team-é/x@y~z", None, "http:api.example.com:443")),
        (SHARED, (None, None, SHARED)),
    ],
)
def test_a_key_names_target_type_and_owner(api: Api, key: str, parts: tuple[str | None, ...]) -> None:
    opened(api, key)
    found = api.get(path_of(key), claims=ROOT).json
    assert (found["key"], found["owner"], found["jobType"], found["target"]) == (key, *parts)


def test_callers_list_their_own_and_all_with_a_star(api: Api) -> None:
    for key in (*reversed(KEYS), SHARED, "handler:echo@team-b", "handler:echo@bare"):
        opened(api, key)
    for owner in ("team-b", "team-a", "bare", "without"):
        api.world.owners.register(owner)
    assert listed(api, ANN) == listed(api, VIC) == listed(api, BOB, "team-a") == list(KEYS)
    assert listed(api, BOB) == listed(api, VIEWER) == ["handler:echo@team-b"]
    everybodys = [SHARED, "handler:echo@bare", *KEYS, "handler:echo@team-b"]
    for limit in (1, 2, 7, 100):
        assert listed(api, ROOT, "*", limit) == listed(api, BOB, "*", limit) == everybodys
    for owner in ("*", "team-a"):
        assert api.get("/v1/circuits", query=f"owner={owner}", claims=VIEWER).status == 403
    assert api.get("/v1/circuits", query="cursor=AAAA").status == 400
    assert api.get("/v1/circuits", query="state=OPEN").status == 400


def test_a_cursor_is_of_one_owner_s_list(api: Api) -> None:
    for key in KEYS:
        opened(api, key)
    cursor = api.get("/v1/circuits", query="limit=2").json["pagination"]["cursor"]
    assert api.get("/v1/circuits", query=f"cursor={cursor}", claims=BOB).status == 400


@pytest.mark.parametrize("encoded", [True, False], ids=["encoded", "plain"])
@pytest.mark.parametrize("key", KEYS[:5])
def test_its_owner_resets_it(api: Api, key: str, encoded: bool) -> None:
    opened(api, key)
    reset = api.post(f"{path_of(key) if encoded else f'/v1/circuits/{key}'}/reset")
    assert (reset.status, reset.json["key"], reset.json["state"]) == (200, key, "CLOSED")
    assert (reset.json["failures"], reset.json["openUntil"]) == (0, None)
    assert api.world.circuits.get(key).open_until is None


@pytest.mark.parametrize(
    ("key", "claims", "read", "reset"),
    [
        (OURS, ANN, 200, 200),
        (OURS, ROOT, 200, 200),
        (OURS, VIC, 200, 403),
        (OURS, BOB, 200, 403),
        (OURS, machine("m", "gnomon/read"), 200, 403),
        (OURS, machine("m", "gnomon/write"), 200, 403),
        (OURS, VIEWER, 404, 404),
        (SHARED, ANN, 200, 403),
        (SHARED, VIEWER, 200, 403),
        (SHARED, ROOT, 200, 200),
    ],
)
def test_who_reads_and_resets_it(api: Api, key: str, claims: dict[str, Any], read: int, reset: int) -> None:
    opened(api, key)
    assert api.get(path_of(key), claims=claims).status == read
    assert api.post(f"{path_of(key)}/reset", claims=claims).status == reset
    assert (api.world.circuits.get(key).open_until is None) == (reset == 200)


def test_a_reset_gives_way_to_a_write_and_is_done_after_it(api: Api) -> None:
    stored = opened(api, KEYS[0])
    steps = iter([True])

    def write(when: str, _: str) -> None:
        if when == "before" and next(steps, False):
            api.world.circuits.rows[KEYS[0]] = replace(stored, seq=stored.seq + 1, failures=6)

    api.world.faults.on_step = write
    assert api.post(f"/v1/circuits/{KEYS[0]}/reset").json["failures"] == 0
    assert api.world.circuits.get(KEYS[0]).open_until is None


@pytest.mark.parametrize(
    "key",
    [
        "handler:none",
        "handler:none@team-a",
        "x" * 2_000,
        "x" * 2_000 + "@team-a",
        "handler:echo@" + "x" * 2_000,
        "handler:echo@" + "😀" * 320,
        "😀" * 320,
        "😀" * 320 + "@team-a",
        "handler:echo~" + "😀" * 320 + "@team-a",
        "@team-a",
        "~billing@team-a",
        "handler:echo@",
        "handler:echo~billing",
        "handler:echo~@team-a",
        "handler:echo@team%2Da",
        "%",
    ],
)
def test_a_circuit_that_is_not_there(api: Api, key: str) -> None:
    opened(api, "handler:echo@team-a")
    before = dict(api.world.circuits.rows)
    for claims in (ROOT, ANN, VIEWER):
        for reply in (api.get(path_of(key), claims=claims), api.post(f"{path_of(key)}/reset", claims=claims)):
            assert (reply.status, reply.code) == (404, "NOT_FOUND")
            assert len(reply.message) < 400
    assert api.world.circuits.rows == before


def test_a_path_that_arrives_decoded_is_no_circuit(api: Api) -> None:
    """As HTTP APIs do with all but `%25`."""
    for key in ("😀" * 320, "handler:echo@" + "😀" * 320):
        reply = api.get(f"/v1/circuits/{key}")
        assert (reply.status, reply.code) == (404, "NOT_FOUND")
    opened(api, ODD)
    assert api.get(f"/v1/circuits/{ODD.replace('%', '%25')}", claims=ROOT).json["key"] == ODD


def test_an_owner_of_too_many_bytes_is_refused_by_every_list(api: Api) -> None:
    for path in ("/v1/circuits", "/v1/jobs", "/v1/workflows", "/v1/workers"):
        for owner in ("x" * 3_000, quote("😀" * 320)):
            reply = api.get(path, query=f"owner={owner}")
            assert (reply.status, reply.json["error"]["details"][0]["field"]) == (400, "owner")
        assert api.get(path, query=f"owner={quote('é' * 128)}").status == 200


def test_a_body_with_fields_is_refused(api: Api) -> None:
    opened(api, KEYS[0])
    assert api.post(f"/v1/circuits/{KEYS[0]}/reset", {"force": True}).status == 400
