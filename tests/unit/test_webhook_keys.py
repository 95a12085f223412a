"""An owner's keys, and the routes that read and rotate them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from standardwebhooks.webhooks import Webhook

from functions.adapters.webhook_signature import WebhookSignature
from functions.domain.errors import ConflictError
from functions.domain.ids import new_webhook_secret
from functions.domain.instants import rfc3339
from functions.domain.webhook_key import KEEP_SECONDS, MOST_PREVIOUS, PreviousKey, StoredKeys, WebhookKeys
from tests.api_client import Api, machine, make_body, user
from tests.factories import NOW

ROOT = user("root", "admin")
ANN = user("ann", "scheduler", "team-a")
VIC = user("vic", "viewer", "team-a")
BOB = user("bob", "scheduler", "team-b")
VIEWER = user("val", "viewer", "team-b")
DAY = 24 * 3_600
OWN = "/v1/webhook-keys/me"
TEAM = "/v1/webhook-keys/team-a"


@pytest.fixture
def api() -> Api:
    api = Api(claims=ANN)
    api.create()
    return api


def key_of(api: Api, path: str = OWN, **options: Any) -> dict[str, Any]:
    reply = api.get(path, **options)
    assert reply.status == 200, reply.text
    return dict(reply.json)


def test_a_key_is_made_when_it_is_read_first(api: Api) -> None:
    key = key_of(api)
    now = int(api.clock.now())
    assert key == {
        "owner": "team-a",
        "secret": api.world.webhook_keys.rows["team-a"].keys.secret,
        "createdAt": rfc3339(now),
        "signsFrom": rfc3339(now + 60),
        "previous": [],
    }
    assert key_of(api) == key_of(api, TEAM) == key_of(api, TEAM, claims=ROOT) == key
    assert api.get(OWN).headers["Cache-Control"] == "no-store"
    assert key_of(api, OWN, claims=BOB)["secret"] != key["secret"]


def test_a_colleague_reads_the_same_key_and_a_machine_its_own(api: Api) -> None:
    assert key_of(api, claims=user("bea", "scheduler", "team-a")) == key_of(api)
    assert key_of(api, claims=machine("m", "gnomon/write"))["owner"] == "m"


def test_a_member_of_two_teams_reads_and_rotates_the_keys_of_both(api: Api) -> None:
    both = user("amy", "scheduler", "team-a", "team-new")
    assert key_of(api, TEAM, claims=both) == key_of(api)
    other = key_of(api, "/v1/webhook-keys/team-new", claims=both)
    assert other["owner"] == "team-new"
    assert other["secret"] != key_of(api)["secret"]
    assert api.post("/v1/webhook-keys/team-new/rotate", claims=both).status == 200
    assert api.get("/v1/webhook-keys/team-new").status == 403


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        (ANN, 200),
        (ROOT, 200),
        (VIC, 403),
        (BOB, 403),
        (VIEWER, 403),
        (machine("m", "gnomon/read"), 403),
        (machine("m", "gnomon/write"), 403),
        (machine("m", "gnomon/report"), 403),
    ],
)
def test_who_may_change_what_an_owner_owns_reads_and_rotates_its_key(
    api: Api, claims: dict[str, Any], status: int
) -> None:
    secret = key_of(api)["secret"]
    read = api.get(TEAM, claims=claims)
    rotated = api.post(f"{TEAM}/rotate", claims=claims)
    assert (read.status, rotated.status) == (status, status)
    if status != 200:
        assert secret not in read.text + rotated.text
        assert api.world.webhook_keys.rows["team-a"].keys.secret == secret


@pytest.mark.parametrize("owner", ["team-none", "x" * 3_000, "😀" * 600, "*", "."])
def test_nothing_is_made_for_what_owns_no_jobs(api: Api, owner: str) -> None:
    for reply in (
        api.get(f"/v1/webhook-keys/{quote(owner, safe='')}", claims=ROOT),
        api.post(f"/v1/webhook-keys/{quote(owner, safe='')}/rotate", claims=ROOT),
    ):
        assert (reply.status, reply.code) == (404, "NOT_FOUND")
    assert api.world.webhook_keys.rows == {}


def test_for_a_day_both_sign_then_the_new_one_alone(api: Api) -> None:
    old = key_of(api)["secret"]
    rotated = api.post(f"{OWN}/rotate").json
    until = int(api.clock.now()) + DAY
    assert rotated["previous"] == [{"validUntil": rfc3339(until)}]
    assert key_of(api) == rotated
    new = rotated["secret"]
    assert new != old
    for seconds, both in ((0, True), (DAY - 1, True), (DAY, False)):
        signs = WebhookSignature(api.world.webhook_keys, clock=FixedClock(until - DAY + seconds))
        headers = signs.headers("team-a", "msg-1", b"{}")
        stamped = headers | {"webhook-timestamp": headers["webhook-timestamp"]}
        assert len(headers["webhook-signature"].split(" ")) == (2 if both else 1)
        assert signed_by(new, stamped)
        assert signed_by(old, stamped) == both
    api.clock.advance(DAY)
    assert key_of(api)["previous"] == []


def signed_by(secret: str, headers: dict[str, str]) -> bool:
    """Whatever the time of the call."""
    at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    return Webhook(secret).sign(headers["webhook-id"], at, "{}") in headers["webhook-signature"].split(" ")


class FixedClock:
    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


def test_after_a_leak_the_keys_before_end_at_once(api: Api) -> None:
    key_of(api)
    api.post(f"{OWN}/rotate")
    rotated = api.post(f"{OWN}/rotate", {"keepPreviousSeconds": 0}).json
    assert rotated["previous"] == []
    assert api.world.webhook_keys.rows["team-a"].keys.signing(api.clock.now()) == [rotated["secret"]]


def test_no_key_is_dropped_before_its_day_by_one_rotation_too_many(api: Api) -> None:
    secrets = [key_of(api)["secret"]]
    for _ in range(MOST_PREVIOUS):
        secrets.insert(0, api.post(f"{OWN}/rotate").json["secret"])
        api.clock.advance(3_600)
    refused = api.post(f"{OWN}/rotate")
    assert (refused.status, refused.code) == (409, "CONFLICT")
    assert api.world.webhook_keys.rows["team-a"].keys.signing(api.clock.now()) == secrets
    api.clock.advance(DAY - MOST_PREVIOUS * 3_600)
    assert api.post(f"{OWN}/rotate").status == 200


def test_of_two_rotations_at_once_one_is_refused_and_both_agree(api: Api) -> None:
    old = key_of(api)["secret"]
    store, others = api.world.webhook_keys, new_webhook_secret()

    def meanwhile(when: str, name: str) -> None:
        if (when, name) == ("before", "webhook_keys.replace"):
            stored = store.rows["team-a"]
            keys = stored.keys.rotated(others, keep_seconds=DAY, now=api.clock.now())
            store.rows["team-a"] = StoredKeys(keys, "another")

    api.world.faults.on_step = meanwhile
    refused = api.post(f"{OWN}/rotate")
    api.world.faults.on_step = None
    assert (refused.status, refused.code) == (409, "CONFLICT")
    assert store.rows["team-a"].keys.signing(api.clock.now()) == [others, old]
    assert key_of(api)["secret"] == others


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"keepPreviousSeconds": -1}, "keepPreviousSeconds"),
        ({"keepPreviousSeconds": DAY + 1}, "keepPreviousSeconds"),
        ({"keepPreviousSeconds": "1"}, "keepPreviousSeconds"),
        ({"secret": "whsec_mine"}, "secret"),
    ],
)
def test_a_body_that_is_not_valid(api: Api, body: dict[str, Any], field: str) -> None:
    reply = api.post(f"{OWN}/rotate", body)
    assert (reply.status, reply.json["error"]["details"][0]["field"]) == (400, field)
    assert "whsec" not in reply.text
    assert api.world.webhook_keys.rows == {}


class TestKeys:
    KEYS = WebhookKeys(secret=new_webhook_secret(), created_at=NOW)

    def test_they_are_kept_as_they_are(self) -> None:
        keys = self.KEYS.rotated(new_webhook_secret(), keep_seconds=60, now=NOW + 0.5)
        assert WebhookKeys.read(keys.to_document()) == keys
        assert (keys.created_at, keys.previous) == (NOW, (PreviousKey(self.KEYS.secret, NOW + 60),))

    def test_a_later_rotation_prolongs_no_key(self) -> None:
        first = self.KEYS.rotated("whsec_1", keep_seconds=60, now=NOW)
        second = first.rotated("whsec_2", keep_seconds=DAY, now=NOW + 30)
        assert second.previous == (PreviousKey("whsec_1", NOW + 30 + DAY), PreviousKey(self.KEYS.secret, NOW + 60))
        third = second.rotated("whsec_3", keep_seconds=10, now=NOW + 60)
        assert third.previous == (PreviousKey("whsec_2", NOW + 70), PreviousKey("whsec_1", NOW + 70))

    def test_secrets_are_in_no_text_of_them(self) -> None:
        keys = replace(self.KEYS, previous=(PreviousKey(new_webhook_secret(), NOW),))
        assert "whsec" not in f"{keys} {keys!r}"

    def test_too_many(self) -> None:
        keys = self.KEYS
        for number in range(MOST_PREVIOUS):
            keys = keys.rotated(f"whsec_{number}", keep_seconds=KEEP_SECONDS, now=NOW)
        with pytest.raises(ConflictError, match="keepPreviousSeconds 0"):
            keys.rotated("whsec_x", keep_seconds=KEEP_SECONDS, now=NOW)


@pytest.mark.parametrize(
    "secret",
    [
        "gnomon/local/webhook/team-a",
        "gnomon/prod/webhook/team-a",
        "arn:aws:secretsmanager:eu-central-1:123456789012:secret:gnomon/local/webhook/team-a-AbCdEf",
    ],
)
def test_a_webhook_key_is_never_a_targets_secret(api: Api, secret: str) -> None:
    target = {"type": "http", "url": "https://example.com/", "headers": {"X-Leak": {"secretArn": secret}}}
    for claims in (ANN, ROOT):
        reply = api.post("/v1/jobs", make_body(target=target), claims=claims)
        assert reply.status == 400
        assert reply.json["error"]["details"][0]["field"] == "target.headers.X-Leak.secretArn"
