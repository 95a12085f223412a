"""Records of the stream of the table Jobs, as changes of a job's row."""

from __future__ import annotations

from typing import Any

from functions.adapters.dynamodb_items import read_job
from functions.adapters.dynamodb_keys import row_of
from functions.domain.events import Change

STATE = "S"


def read_change(record: dict[str, Any]) -> Change | None:
    """The change; None for a record of a definition's row, or of a row that its time to live removed.

    Raises CorruptDefinitionError or KeyError for one that cannot be read.
    """
    images = record["dynamodb"]
    if row_of(images["Keys"]) != STATE or record["eventName"] == "REMOVE":
        return None
    old = images.get("OldImage")
    return Change(
        before=None if old is None else read_job(old),
        after=read_job(images["NewImage"]),
        at=float(images["ApproximateCreationDateTime"]),
    )
