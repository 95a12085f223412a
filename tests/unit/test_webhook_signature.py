"""How calls are signed: by the keys of the job's owner, and by no others."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, tzinfo
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from functions.adapters.secret_values import SecretError
from functions.adapters.webhook_signature import REMEMBERED_OWNERS, RETRY_SECONDS, STALE_SECONDS, WebhookSignature
from functions.domain.errors import UnavailableError
from functions.domain.webhook_key import REMEMBERED_SECONDS, PreviousKey, StoredKeys, WebhookKeys, signing_bytes
from tests.fakes import FakeClock, InMemoryWebhookKeys

OLD, NEW, OTHER = ("whsec_" + base64.b64encode(bytes([byte]) * 32).decode() for byte in (1, 2, 3))
A, B = "team-a", "team-b"
NOW = 1_800_000_000


class _Now(datetime):
    """The clock of the library that verifies, which has no argument for it."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime.fromtimestamp(NOW, tz)


@pytest.fixture(autouse=True)
def _receivers_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("standardwebhooks.webhooks.datetime", _Now)


def store_of(**keys: WebhookKeys) -> InMemoryWebhookKeys:
    store = InMemoryWebhookKeys()
    for owner, one in keys.items():
        store.create(owner.replace("_", "-"), one)
    return store


def keys(secret: str, *previous: PreviousKey) -> WebhookKeys:
    return WebhookKeys(secret=secret, created_at=NOW, previous=previous)


def signature(store: Any, now: float = NOW) -> WebhookSignature:
    return WebhookSignature(store, clock=FakeClock(now))


def test_the_signature_is_that_of_the_standards_own_library() -> None:
    now = 1_614_265_330.9
    body = '{"text":"é"}'.encode()
    headers = signature(store_of(team_a=keys(NEW)), now).headers(A, "msg-1", body)
    assert headers == {
        "webhook-id": "msg-1",
        "webhook-timestamp": "1614265330",
        "webhook-signature": Webhook(NEW).sign("msg-1", datetime.fromtimestamp(now, UTC), body.decode()),
        "Gnomon-Owner": A,
    }


@pytest.mark.parametrize("body", [b"", b"{}", '{"a":"é"}'.encode()])
def test_receivers_verify_it(body: bytes) -> None:
    Webhook(NEW).verify(body, signature(store_of(team_a=keys(NEW))).headers(A, "msg-1", body), json_parse=False)


def test_a_receiver_of_one_owner_refuses_the_calls_of_another() -> None:
    signs = signature(store_of(team_a=keys(NEW), team_b=keys(OTHER)))
    for owner, own, foreign in ((A, NEW, OTHER), (B, OTHER, NEW)):
        headers = signs.headers(owner, "msg-1", b'{"charge":"all"}')
        Webhook(own).verify(b'{"charge":"all"}', headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(foreign).verify(b'{"charge":"all"}', headers)


def test_a_receiver_of_several_owners_refuses_a_header_that_does_not_agree() -> None:
    """It takes the key by `Gnomon-Owner`: who writes another owner there is verified by that owner's key."""
    secrets = {A: NEW, B: OTHER}
    headers = signature(store_of(team_a=keys(NEW), team_b=keys(OTHER))).headers(A, "msg-1", b"{}")
    Webhook(secrets[headers["Gnomon-Owner"]]).verify(b"{}", headers)
    forged = headers | {"Gnomon-Owner": B}
    with pytest.raises(WebhookVerificationError):
        Webhook(secrets[forged["Gnomon-Owner"]]).verify(b"{}", forged)


@pytest.mark.parametrize(("left", "valid"), [(24 * 3_600, True), (1, True), (0, False), (-60, False)])
def test_the_key_before_signs_until_its_time_is_over(left: int, valid: bool) -> None:
    headers = signature(store_of(team_a=keys(NEW, PreviousKey(OLD, NOW + left)))).headers(A, "msg-1", b"{}")
    Webhook(NEW).verify(b"{}", headers)
    assert len(headers["webhook-signature"].split(" ")) == (2 if valid else 1)
    if valid:
        Webhook(OLD).verify(b"{}", headers)
    else:
        with pytest.raises(WebhookVerificationError):
            Webhook(OLD).verify(b"{}", headers)


@pytest.mark.parametrize(
    ("owner", "shown"),
    [("team-é/x", "team-%C3%A9%2Fx"), ("a\r\nX: y", "a%0D%0AX%3A%20y"), ("a%2Fb", "a%252Fb")],
)
def test_any_owner_can_stand_in_a_header(owner: str, shown: str) -> None:
    assert signature(InMemoryWebhookKeys()).headers(owner, "msg-1", b"{}")["Gnomon-Owner"] == shown


class TestFirstUse:
    def test_an_owner_without_a_key_is_given_one(self) -> None:
        store = InMemoryWebhookKeys()
        headers = signature(store).headers(A, "msg-1", b"{}")
        made = store.rows[A].keys
        Webhook(made.secret).verify(b"{}", headers)
        assert len(signing_bytes(made.secret)) == 32
        assert (made.created_at, made.previous) == (NOW, ())
        signature(store).headers(B, "msg-1", b"{}")
        assert store.rows[B].keys.secret != made.secret

    def test_two_senders_at_first_use_sign_by_one_key(self) -> None:
        class Meanwhile(InMemoryWebhookKeys):
            """Another sender makes the key between this one's look and its write."""

            def create(self, owner: str, keys: WebhookKeys) -> StoredKeys:
                self.rows.setdefault(owner, StoredKeys(WebhookKeys(secret=OTHER, created_at=NOW), "v1"))
                return super().create(owner, keys)

        store = Meanwhile()
        Webhook(OTHER).verify(b"{}", signature(store).headers(A, "msg-1", b"{}"))
        assert store.rows[A].keys.secret == OTHER

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_a_sender_that_dies_as_it_makes_the_key_leaves_none_or_the_one_that_counts(self, when: str) -> None:
        store = InMemoryWebhookKeys()

        def dies(at: str, name: str) -> None:
            if (at, name) == (when, "webhook_keys.create"):
                store.faults.on_step = None
                raise ConnectionError

        store.faults.on_step = dies
        with pytest.raises(ConnectionError):
            signature(store).headers(A, "msg-1", b"{}")
        assert (A in store.rows) == (when == "after")
        Webhook(signature(store, NOW).headers(A, "msg-1", b"{}") and store.rows[A].keys.secret).verify(
            b"{}", signature(store).headers(A, "msg-1", b"{}")
        )


class TestRemembering:
    def test_a_key_is_read_once_a_minute(self) -> None:
        store, clock = store_of(team_a=keys(OLD)), FakeClock(NOW)
        signs = WebhookSignature(store, clock=clock)
        for _ in range(5):
            signs.headers(A, "msg-1", b"{}")
            clock.advance(REMEMBERED_SECONDS / 5)
        assert store.calls == [f"get {A}"]
        store.replace(A, store.rows[A], keys(NEW))
        Webhook(NEW).verify(b"{}", signs.headers(A, "msg-1", b"{}"))
        assert store.calls == [f"get {A}"] * 2

    def test_a_clock_that_goes_back_is_no_reason_to_keep_a_key(self) -> None:
        store, clock = store_of(team_a=keys(OLD)), FakeClock(NOW)
        signs = WebhookSignature(store, clock=clock)
        signs.headers(A, "msg-1", b"{}")
        clock.advance(-100)
        signs.headers(A, "msg-1", b"{}")
        assert len(store.calls) == 2

    def test_memory_is_bounded(self) -> None:
        store = InMemoryWebhookKeys()
        signs = signature(store)
        for number in range(REMEMBERED_OWNERS + 5):
            signs.headers(f"team-{number}", "msg-1", b"{}")
        assert len(signs._known) <= REMEMBERED_OWNERS


DENIED = ClientError({"Error": {"Code": "AccessDeniedException", "Message": NEW}}, "GetSecretValue")


@pytest.mark.parametrize("step", ["get", "create"])
@pytest.mark.parametrize(
    "error", [DENIED, EndpointConnectionError(endpoint_url="https://x"), UnavailableError("not in its form")]
)
def test_a_key_that_cannot_be_had_is_no_fault_of_the_job(step: str, error: Exception) -> None:
    class Fails(InMemoryWebhookKeys):
        def get(self, owner: str) -> StoredKeys | None:
            if step == "get":
                raise error
            return None

        def create(self, owner: str, keys: WebhookKeys) -> StoredKeys:
            raise error

    with pytest.raises(SecretError, match="webhook key of team-a") as caught:
        signature(Fails()).headers(A, "msg-1", b"{}")
    assert caught.value.retryable
    assert NEW not in str(caught.value)


@pytest.mark.parametrize(
    "error", [DENIED, EndpointConnectionError(endpoint_url="https://x"), UnavailableError("not in its form")]
)
class TestWhileKeysCannotBeRead:
    class Store(InMemoryWebhookKeys):
        error: Exception | None = None

        def get(self, owner: str) -> StoredKeys | None:
            stored = super().get(owner)
            if self.error is not None:
                raise self.error
            return stored

    def store(self) -> Store:
        store = self.Store()
        store.create(A, keys(NEW, PreviousKey(OLD, NOW + 300)))
        store.calls.clear()
        return store

    def test_those_read_before_sign_for_a_quarter_of_an_hour(self, error: Exception) -> None:
        store, clock = self.store(), FakeClock(NOW)
        signs = WebhookSignature(store, clock=clock)
        signs.headers(A, "msg-1", b"{}")
        store.error = error
        for at, signatures in ((REMEMBERED_SECONDS, 2), (299, 2), (300, 1), (STALE_SECONDS - 1, 1)):
            clock.advance(NOW + at - clock.now())
            assert len(signs.headers(A, "msg-1", b"{}")["webhook-signature"].split(" ")) == signatures
        clock.advance(1)
        with pytest.raises(SecretError, match="webhook key of team-a"):
            signs.headers(A, "msg-1", b"{}")

    def test_it_is_tried_again_now_and_then_and_a_new_key_is_taken_at_once(self, error: Exception) -> None:
        store, clock = self.store(), FakeClock(NOW)
        signs = WebhookSignature(store, clock=clock)
        signs.headers(A, "msg-1", b"{}")
        store.error = error
        clock.advance(REMEMBERED_SECONDS)
        for _ in range(2 * RETRY_SECONDS):
            signs.headers(A, "msg-1", b"{}")
            clock.advance(1)
        assert len(store.calls) == 3
        store.error = None
        store.replace(A, store.rows[A], keys(OTHER))
        now = signs.headers(A, "msg-1", b"{}")["webhook-signature"]
        assert now == signature(store, clock.now()).headers(A, "msg-1", b"{}")["webhook-signature"]

    def test_those_of_another_owner_sign_nothing(self, error: Exception) -> None:
        store = self.store()
        signs = WebhookSignature(store, clock=FakeClock(NOW))
        signs.headers(A, "msg-1", b"{}")
        store.error = error
        with pytest.raises(SecretError, match="webhook key of team-b"):
            signs.headers(B, "msg-1", b"{}")
