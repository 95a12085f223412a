"""Owners' webhook keys in AWS Secrets Manager: a secret for each owner, made at first use.

A version is never changed. The label `AWSCURRENT` says which one counts, and moves on condition of the version that it
is taken from: of two rotations at once, one moves it.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from functions.adapters.aws_errors import error_code
from functions.domain.errors import UnavailableError
from functions.domain.webhook_key import StoredKeys, WebhookKeys

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

NEXT = "GNOMONNEXT"
"""Label of a version that a rotation has put and not made the current one yet."""
_CURRENT = "AWSCURRENT"
_LONGEST = 200
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@+")
"""What names of secrets take, but for `/` and `=`, which mean something here."""


class SecretsManagerWebhookKeys:
    """Keys below one prefix of names, `gnomon/<stage>/webhook/`, encrypted with the stage's key."""

    def __init__(self, client: Callable[[], SecretsManagerClient], *, prefix: str, kms_key: str) -> None:
        self._client = client
        self._prefix = prefix
        self._kms_key = kms_key

    def get(self, owner: str) -> StoredKeys | None:
        try:
            answer: Any = self._client().get_secret_value(SecretId=self.name_of(owner), VersionStage=_CURRENT)
        except ClientError as error:
            if error_code(error) == "ResourceNotFoundException":
                return None
            raise _told(error, owner) from error
        try:
            return StoredKeys(WebhookKeys.read(json.loads(answer["SecretString"])), answer["VersionId"])
        except (ValueError, TypeError, KeyError, AttributeError):
            # The cause is left out on purpose: it may quote the secret.
            raise UnavailableError(f"The webhook key of {owner} is not in its form.") from None

    def create(self, owner: str, keys: WebhookKeys) -> StoredKeys:
        try:
            made = self._client().create_secret(
                Name=self.name_of(owner),
                Description=f"Gnomon: signs the http calls of the jobs of {owner}"[:2_048],
                KmsKeyId=self._kms_key,
                SecretString=json.dumps(keys.to_document()),
            )
        except ClientError as error:
            if error_code(error) != "ResourceExistsException":
                raise _told(error, owner) from error
            stored = self.get(owner)
            if stored is None:
                raise UnavailableError(f"The webhook key of {owner} is being made.") from None
            return stored
        return StoredKeys(keys, made["VersionId"])

    def replace(self, owner: str, read: StoredKeys, keys: WebhookKeys) -> StoredKeys:
        name, version, client = self.name_of(owner), str(uuid.uuid4()), self._client()
        text = json.dumps(keys.to_document())
        client.put_secret_value(SecretId=name, ClientRequestToken=version, SecretString=text, VersionStages=[NEXT])
        try:
            client.update_secret_version_stage(
                SecretId=name, VersionStage=_CURRENT, MoveToVersionId=version, RemoveFromVersionId=read.version
            )
        except ClientError as error:
            if error_code(error) not in ("InvalidParameterException", "ResourceNotFoundException"):
                raise
            # Another rotation came first; or this one did, its answer was lost, and the SDK has repeated it.
            return self.get(owner) or read
        return StoredKeys(keys, version)

    def name_of(self, owner: str) -> str:
        """Letters, digits and `-_.@+` of the owner, and `=XX` for each other byte; a hash of one that is too long."""
        plain = "".join(
            chr(byte) if chr(byte) in _PLAIN else f"={byte:02X}" for byte in owner.encode(errors="surrogatepass")
        )
        if len(plain) > _LONGEST:
            plain = "==" + hashlib.sha256(plain.encode()).hexdigest()
        return self._prefix + plain


def _told(error: ClientError, owner: str) -> Exception:
    """A deleted secret is kept for days, and its name with it."""
    if error_code(error) == "InvalidRequestException":
        return UnavailableError(f"The webhook key of {owner} is marked for deletion: restore its secret.")
    return error
