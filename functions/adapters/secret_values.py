"""Values of secrets in AWS Secrets Manager, kept in memory for a minute. No value is ever part of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from functions.adapters.aws_errors import error_code

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

    from functions.ports import Clock

CACHE_SECONDS = 60.0
"""How long a value that was read is used."""

_FINAL = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "DecryptionFailure",
        "InvalidParameterException",
        "InvalidRequestException",
        "ResourceNotFoundException",
        "ValidationException",
    }
)


class SecretError(Exception):
    """A secret could not be read."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable
        """Whether reading it later may work; False where it does not exist or may not be read."""


class SecretValues:
    def __init__(self, client: SecretsManagerClient, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._cache: dict[str, tuple[float, str]] = {}

    def get(self, secret: str) -> str:
        """The text of a secret, by name or ARN, at most 60 s old. Raises SecretError."""
        now = self._clock.now()
        read_at, value = self._cache.get(secret, (0.0, ""))
        if 0 <= now - read_at < CACHE_SECONDS:
            return value
        value = self._read(secret)
        self._cache[secret] = (now, value)
        return value

    def _read(self, secret: str) -> str:
        try:
            answer = self._client.get_secret_value(SecretId=secret)
        except ClientError as error:
            code = error_code(error)
            raise SecretError(f"secret {secret} could not be read: {code}", retryable=code not in _FINAL) from error
        except BotoCoreError as error:
            raise SecretError(f"secret {secret} could not be read: {type(error).__name__}", retryable=True) from error
        text = answer.get("SecretString")
        if text is None:
            raise SecretError(f"secret {secret} has no text", retryable=False)
        return text
