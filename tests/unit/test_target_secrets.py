from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from functions.adapters.secret_values import SecretError, SecretValues

NAME = "gnomon-test-team-a--hook"


class TickingClock:
    def __init__(self) -> None:
        self.time = 1_000_000.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


class Client:
    """Answers as Secrets Manager would, from a list."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    def get_secret_value(self, *, SecretId: str) -> dict[str, Any]:  # noqa: N803 - the name of the API
        assert SecretId == NAME
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"SecretString": answer} if answer is not None else {"SecretBinary": b"x"}


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "the value is s3cret"}}, "GetSecretValue")


def test_a_value_is_read_once_a_minute() -> None:
    clock = TickingClock()
    secrets = SecretValues(Client("one", "two"), clock=clock)
    assert secrets.get(NAME) == "one"
    clock.time += 59.9
    assert secrets.get(NAME) == "one"
    clock.time += 0.2
    assert secrets.get(NAME) == "two"


@pytest.mark.parametrize(
    ("answer", "retryable"),
    [
        (refused("ResourceNotFoundException"), False),
        (refused("AccessDeniedException"), False),
        (refused("InternalServiceError"), True),
        (refused("ThrottlingException"), True),
        (EndpointConnectionError(endpoint_url="https://secrets"), True),
        (None, False),
    ],
)
def test_failures_say_whether_to_try_again_and_are_not_kept(answer: Any, retryable: bool) -> None:
    secrets = SecretValues(Client(answer, "value"), clock=TickingClock())
    with pytest.raises(SecretError, match=NAME) as caught:
        secrets.get(NAME)
    assert caught.value.retryable is retryable
    assert "s3cret" not in str(caught.value)
    assert secrets.get(NAME) == "value"
