"""Errors of AWS that pass by themselves."""

from __future__ import annotations

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


def is_throttled(error: Exception) -> bool:
    """Whether AWS refused a call for a while."""
    return isinstance(error, ClientError) and error.response.get("Error", {}).get("Code") in THROTTLES
