"""Errors of AWS: their codes, and which of them pass by themselves."""

from __future__ import annotations

from botocore import exceptions
from botocore.exceptions import ClientError

THROTTLES = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
        "InternalServerError",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
"""Codes by which DynamoDB asks to come again (developer guide, error handling), after the SDK has repeated the call."""
_TOO_MANY_REQUESTS, _SERVER_ERRORS = 429, range(500, 600)


def error_code(error: ClientError) -> str:
    """The code by which AWS names the error."""
    return str(error.response.get("Error", {}).get("Code", "unknown"))


def is_transient(error: Exception) -> bool:
    """Whether AWS refused a call for a while, did not answer it, or could not be reached."""
    if isinstance(error, (exceptions.ConnectionError, exceptions.HTTPClientError)):
        return True
    if not isinstance(error, ClientError):
        return False
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    throttled = error_code(error) in THROTTLES or status == _TOO_MANY_REQUESTS
    return throttled or status in _SERVER_ERRORS
