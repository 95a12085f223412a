"""A table that throttles: the caller is told to come again, and nothing of the platform."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from functions.adapters.aws_errors import is_transient
from tests.api_client import Api


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "arn:aws:dynamodb:…"}}, "GetItem")


@pytest.mark.parametrize(
    ("code", "status"), [("ProvisionedThroughputExceededException", 503), ("AccessDeniedException", 500)]
)
def test_a_throttled_call_is_503_and_says_when_to_come_again(code: str, status: int) -> None:
    api = Api(is_transient=is_transient)

    def get(*_: object, **__: object) -> None:
        raise refused(code)

    api.world.jobs.get = get  # type: ignore[method-assign]  # the table refuses every read
    reply = api.call("GET", "/v1/jobs/00000000-0000-4000-8000-000000000000")
    assert reply.status == status
    assert ("Retry-After" in reply.headers) == (status == 503)
    assert "arn" not in str(reply.text)


def test_only_errors_of_aws_that_pass_are_throttles() -> None:
    assert is_transient(refused("ThrottlingException"))
    assert not is_transient(refused("ResourceNotFoundException"))
    assert not is_transient(ValueError("ThrottlingException"))
