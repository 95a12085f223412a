"""What a refused condition says."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from functions.adapters.dynamodb_keys import Item


def refusing_item(error: ClientError) -> Item | None:
    """The item that refused a write made with `ReturnValuesOnConditionCheckFailure=ALL_OLD`; None if there is none.

    Raises the error again when it is no refused condition.
    """
    response = cast("dict[str, Any]", error.response)
    if response["Error"]["Code"] != "ConditionalCheckFailedException":
        raise error
    return cast("Item | None", response.get("Item") or None)


@contextmanager
def unless_refused() -> Iterator[None]:
    """For a write whose refused condition means that there is nothing to write. Other errors are raised."""
    try:
        yield
    except ClientError as error:
        refusing_item(error)
