"""Owners' webhook keys: made once, replaced on condition of what was read."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from itertools import combinations
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from functions.adapters.webhook_keys import NEXT, SecretsManagerWebhookKeys
from functions.domain.errors import UnavailableError
from functions.domain.webhook_key import WebhookKeys
from tests.conftest import Aws
from tests.contract.conftest import at_once
from tests.factories import NOW
from tests.fakes import InMemoryWebhookKeys

PREFIX = "gnomon/test/webhook/"
A = "team-a"


def keys(number: int) -> WebhookKeys:
    return WebhookKeys(secret="whsec_" + base64.b64encode(bytes([number]) * 32).decode(), created_at=NOW + number)


class Dying:
    """A client whose process dies before or after one of its calls."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.dies: tuple[str, str] | None = None
        self.lost: str | None = None
        """The call whose answer is lost once, after which the SDK repeats it."""
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**arguments: Any) -> Any:
            self.calls.append(name)
            if self.dies == ("before", name):
                raise ConnectionError(name)
            answer = getattr(self._client, name)(**arguments)
            if self.dies == ("after", name):
                raise ConnectionError(name)
            if self.lost == name:
                self.lost = None
                return getattr(self._client, name)(**arguments)
            return answer

        return call


@pytest.fixture
def client(aws: Aws) -> Dying:
    return Dying(boto3.client("secretsmanager", region_name="eu-central-1"))


@pytest.fixture
def secrets(client: Dying) -> SecretsManagerWebhookKeys:
    return SecretsManagerWebhookKeys(lambda: client, prefix=PREFIX, kms_key="alias/gnomon")  # type: ignore[arg-type,return-value]


@pytest.fixture(params=["memory", "aws"])
def store(request: pytest.FixtureRequest) -> Any:
    return InMemoryWebhookKeys() if request.param == "memory" else request.getfixturevalue("secrets")


def test_what_was_made_is_read(store: Any) -> None:
    assert store.get(A) is None
    made = store.create(A, keys(1))
    assert made.keys == keys(1)
    assert store.get(A) == made
    assert store.get("team-b") is None


def test_of_several_makers_one_is_first(store: Any) -> None:
    found = at_once(6, lambda number: store.create(A, keys(number + 1)))
    assert len({one.keys.secret for one in found}) == 1
    assert store.get(A) == found[0]


def test_a_rotation_replaces_what_it_read(store: Any) -> None:
    first = store.create(A, keys(1))
    wanted = keys(1).rotated(keys(2).secret, keep_seconds=60, now=NOW)
    second = store.replace(A, first, wanted)
    assert (second.keys, store.get(A)) == (wanted, second)
    third = store.replace(A, second, keys(3))
    assert store.get(A) == third
    assert len({first.version, second.version, third.version}) == 3


def test_of_two_rotations_at_once_one_counts(store: Any) -> None:
    read = store.create(A, keys(1))
    found = at_once(4, lambda number: store.replace(A, read, keys(number + 2)))
    assert len({one.keys.secret for one in found}) == 1
    assert store.get(A) == found[0]
    assert found[0].keys != keys(1)
    late = store.replace(A, read, keys(9))
    assert late == found[0] == store.get(A)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["put_secret_value", "update_secret_version_stage"])
def test_a_rotation_that_dies_has_changed_nothing_or_all(
    client: Dying, secrets: SecretsManagerWebhookKeys, step: str, when: str
) -> None:
    read = secrets.create(A, keys(1))
    client.dies = (when, step)
    with pytest.raises(ConnectionError):
        secrets.replace(A, read, keys(2))
    client.dies = None
    done = (step, when) == ("update_secret_version_stage", "after")
    found = secrets.get(A)
    assert found is not None
    assert found.keys == keys(2 if done else 1)
    again = secrets.replace(A, found, keys(3))
    assert again.keys == keys(3)
    assert secrets.get(A) == again


@pytest.mark.parametrize("step", ["put_secret_value", "update_secret_version_stage"])
def test_a_rotation_whose_answer_was_lost_is_a_success(
    client: Dying, secrets: SecretsManagerWebhookKeys, step: str
) -> None:
    read = secrets.create(A, keys(1))
    client.lost = step
    assert secrets.replace(A, read, keys(2)).keys == keys(2)
    assert secrets.get(A) == secrets.replace(A, read, keys(3))


def test_a_sender_that_dies_as_it_makes_the_key(client: Dying, secrets: SecretsManagerWebhookKeys) -> None:
    for when, left in (("before", None), ("after", keys(1))):
        client.dies = (when, "create_secret")
        with pytest.raises(ConnectionError):
            secrets.create(A, keys(1))
        found = secrets.get(A)
        assert (found and found.keys) == left
    client.dies = None
    assert secrets.create(A, keys(2)).keys == keys(1)


def test_a_version_that_was_put_and_not_made_current_signs_nothing(
    client: Dying, secrets: SecretsManagerWebhookKeys
) -> None:
    read = secrets.create(A, keys(1))
    client.dies = ("before", "update_secret_version_stage")
    with pytest.raises(ConnectionError):
        secrets.replace(A, read, keys(2))
    pending = client.get_secret_value(SecretId=secrets.name_of(A), VersionStage=NEXT)
    assert json.loads(pending["SecretString"])["secret"] == keys(2).secret
    assert secrets.get(A) == read


OWNERS = [
    "team-a",
    "team-A",
    "team=a",
    "team/a",
    "team-é",
    "team=C3=A9",
    "team-" + "é" * 123,
    "team-" + "é" * 122,
    "x" * 400,
]


def test_each_owner_has_a_name_of_its_own_that_secrets_take(secrets: SecretsManagerWebhookKeys) -> None:
    names = {owner: secrets.name_of(owner) for owner in OWNERS}
    assert all(names[one] != names[other] for one, other in combinations(OWNERS, 2))
    for name in names.values():
        assert re.fullmatch(r"[A-Za-z0-9/_+=.@-]{1,512}", name)
        assert name.startswith(PREFIX)
    for number, owner in enumerate(OWNERS):
        secrets.create(owner, keys(number + 1))
    assert [secrets.get(owner).keys for owner in OWNERS] == [keys(number + 1) for number in range(len(OWNERS))]  # type: ignore[union-attr]


NOTHING = '"createdAt": 1, "previous": []}'


@pytest.mark.parametrize(
    "text", [" ", "no json", "[]", "{}", '{"secret": "whsec_", ' + NOTHING, '{"secret": "whsec_?", ' + NOTHING]
)
def test_what_cannot_be_read_is_told_without_the_secret(
    client: Dying, secrets: SecretsManagerWebhookKeys, text: str
) -> None:
    secrets.create(A, keys(1))
    client.put_secret_value(SecretId=secrets.name_of(A), SecretString=text)
    with pytest.raises(UnavailableError) as caught:
        secrets.get(A)
    assert "whsec" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_secret_that_is_marked_for_deletion_says_what_to_do(
    client: Dying, secrets: SecretsManagerWebhookKeys
) -> None:
    secrets.create(A, keys(1))
    client.delete_secret(SecretId=secrets.name_of(A))
    for ask in (lambda: secrets.get(A), lambda: secrets.create(A, keys(2))):
        with pytest.raises((UnavailableError, ClientError)):
            ask()
    client.restore_secret(SecretId=secrets.name_of(A))
    assert secrets.get(A) is not None
