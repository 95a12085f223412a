"""State rows that this release cannot read: put off by their index key alone, the rest is for whoever can read it.

`ur` is the row's `seq` as the write that put it off left it: any other write makes it stale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from functions.adapters.dynamodb_conditions import refusing_item
from functions.adapters.dynamodb_items import read_job
from functions.adapters.dynamodb_keys import Item, job_id_of, number, state_key, text
from functions.domain.errors import UnreadableRowError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_NO_SEQ = text("-")
"""`ur` of a row whose `seq` is what cannot be read."""


def is_set_aside(item: Item) -> bool:
    """Whether the last write of the row only put it off."""
    mark = item.get("ur")
    return mark is not None and mark in (_next_of(item, 0), _NO_SEQ)


def set_aside(client: DynamoDBClient, table: str, item: Item, *, until: int) -> bool | None:
    """As JobStore.set_aside, of the row that was read."""
    try:
        read_job(item)
    except UnreadableRowError:
        pass
    else:
        return None
    following = _next_of(item, 1)
    mark = following or _NO_SEQ
    guard = "seq" if following is not None else "at"
    sets = {"#at": number(until), "#ur": mark} | ({} if following is None else {"#seq": following})
    try:
        client.update_item(
            TableName=table,
            Key=state_key(job_id_of(item)),
            UpdateExpression="SET " + ", ".join(f"{name} = :{name[1:]}" for name in sets),
            ConditionExpression=f"#{guard} = :read",
            ExpressionAttributeNames={name: name[1:] for name in sets},
            ExpressionAttributeValues={f":{name[1:]}": value for name, value in sets.items()} | {":read": item[guard]},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    except ClientError as error:
        if (refusing_item(error) or {}).get("ur") != mark:
            return None
    return not is_set_aside(item)


def _next_of(item: Item, step: int) -> Item | None:
    """The row's `seq` so many writes later; None where it cannot be read."""
    try:
        return number(int(item["seq"]["N"]) + step)
    except (KeyError, ValueError):
        return None
