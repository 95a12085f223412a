"""Writes of several rows that happen together or not at all, and the conflicts that transactions bring to others.

DynamoDB refuses what meets a transaction in flight on one row: a transaction with the reason TransactionConflict, a
single write with TransactionConflictException (developer guide, "Transaction conflict handling"). The SDK repeats
neither, so it is done here: nothing was written then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from botocore.exceptions import ClientError

from functions.domain.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from functions.adapters.dynamodb_keys import Item

T = TypeVar("T")

ROUNDS = 5
PAUSE_SECONDS = 0.02
"""Before the second try, doubled before each further one: a transaction takes about so long."""

_REFUSED = "ConditionalCheckFailed"
_PASSING = frozenset({"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError"})
"""Reasons that pass by themselves (API reference of TransactWriteItems)."""


class Refusal(NamedTuple):
    """A write whose condition did not hold."""

    item: Item
    """What is stored, if the write asked for it; empty where nothing is."""


def write_together(
    client: DynamoDBClient, writes: Sequence[dict[str, Any]], *, sleep: Callable[[float], None]
) -> list[Refusal | None] | None:
    """None where all of it was written; else nothing was, and for each write, in order, whether its condition failed.

    The SDK sends one ClientRequestToken with all repeats of a call, so a repeat whose first answer was lost is answered
    as the first one for 10 minutes. Where nothing knows tokens, the refusals show the caller's own marks.
    Raises UnavailableError when other writers or a throttle are in the way each time.
    """
    for number in range(ROUNDS):
        if number:
            sleep(PAUSE_SECONDS * 2 ** (number - 1))
        try:
            client.transact_write_items(TransactItems=cast("Any", writes))
        except ClientError as error:
            reasons = _reasons(error)
            if any(reason.get("Code") in _PASSING for reason in reasons):
                continue
            return [_refusal(reason) for reason in reasons]
        return None
    raise UnavailableError


def past_transactions(call: Callable[[], T], *, sleep: Callable[[float], None]) -> T:
    """What a write of one row answers, repeated while a transaction is in its way; raises what it raises."""
    for number in range(ROUNDS - 1):
        try:
            return call()
        except ClientError as error:
            if error.response["Error"]["Code"] != "TransactionConflictException":
                raise
        sleep(PAUSE_SECONDS * 2**number)
    return call()


def _reasons(error: ClientError) -> Sequence[dict[str, Any]]:
    """One for each write; raises the error again where it is none of refused conditions and what passes by itself."""
    response = cast("dict[str, Any]", error.response)
    if response["Error"]["Code"] != "TransactionCanceledException":
        raise error
    reasons: list[dict[str, Any]] = response.get("CancellationReasons", [])
    known = {_REFUSED, "None", None, *_PASSING}
    codes = {reason.get("Code") for reason in reasons}
    if not codes <= known or codes <= {"None", None}:
        raise error
    return reasons


def _refusal(reason: dict[str, Any]) -> Refusal | None:
    return Refusal(reason.get("Item") or {}) if reason.get("Code") == _REFUSED else None
