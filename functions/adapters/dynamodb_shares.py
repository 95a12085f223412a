"""How much of its share each owner uses, in the table Coordination: one row an owner and priority."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from functions.adapters.dynamodb_conditions import refusing_item, unless_refused
from functions.adapters.dynamodb_keys import number, share_row
from functions.domain.shares import ShareUse, minute_of, refusal

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from functions.adapters.dynamodb_keys import Item
    from functions.domain.definition import Priority
    from functions.domain.shares import Refusal, Share

TRIES = 5
KEEP_SECONDS = 86_400
"""After its last use, a row is removed."""
REMEMBERED = 1_000
"""Owners whose row is remembered as it was last seen."""


class DynamoDbShareRows:
    """ShareRows over one table. A write is decided from the row as it was last seen, and is conditional on what the
    decision rests on. Its answer, or its refusal, brings the row as it is."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table
        self._seen: dict[tuple[str, Priority], ShareUse | None] = {}

    def enter(
        self, owner: str, priority: Priority, share: Share, process: str, *, starts: int, until: float, now: float
    ) -> Refusal | None:
        use = self._seen.get((owner, priority))
        for _ in range(TRIES):
            use, is_written = self._try(owner, priority, share, process, use, starts=starts, until=until, now=now)
            self._remember(owner, priority, use)
            if is_written:
                return None
            refused = None if use is None else refusal(use, share, process, now=now)
            if refused is not None:
                return refused
        return None  # others write at the same time each time: a limit that cannot be read holds up nothing

    def at_work(self, owner: str, priority: Priority, *, now: float) -> int:
        use = self._seen.get((owner, priority))
        return 0 if use is None else use.at_work(now)

    def stay(self, owner: str, priority: Priority, process: str, *, until: float, now: float) -> None:
        with unless_refused():
            self._client.update_item(
                TableName=self._table,
                Key=share_row(owner, priority),
                UpdateExpression="SET pr.#p = :until, #ttl = :ttl",
                ConditionExpression="attribute_exists(pr)",
                ExpressionAttributeNames={"#p": process, "#ttl": "ttl"},
                ExpressionAttributeValues={":until": number(until), ":ttl": _ttl(now)},
            )

    def leave(self, owner: str, priority: Priority, process: str, *, now: float) -> None:
        with unless_refused():
            self._client.update_item(
                TableName=self._table,
                Key=share_row(owner, priority),
                UpdateExpression="SET #ttl = :ttl REMOVE pr.#p",
                ConditionExpression="attribute_exists(pr.#p)",
                ExpressionAttributeNames={"#p": process, "#ttl": "ttl"},
                ExpressionAttributeValues={":ttl": _ttl(now)},
            )

    def _try(
        self,
        owner: str,
        priority: Priority,
        share: Share,
        process: str,
        use: ShareUse | None,
        *,
        starts: int,
        until: float,
        now: float,
    ) -> tuple[ShareUse | None, bool]:
        """The row after the write, or the one that refused it, and whether it was written."""
        minute, names = minute_of(now), {"#ttl": "ttl"}
        values = {":until": number(until), ":starts": number(starts), ":ttl": _ttl(now)}
        sets, removes = ["#ttl = :ttl"], []
        if use is None:
            conditions = ["attribute_not_exists(mi)"]
            sets += ["mi = :minute", "n = :starts", "pr = :processes"]
            values |= {":minute": number(minute), ":processes": {"M": {process: values.pop(":until")}}}
        else:
            lapsed = sorted(use.lapsed(now) - {process})
            names |= {"#p": process} | {f"#l{index}": name for index, name in enumerate(lapsed)}
            values |= {f":l{index}": number(use.processes[name]) for index, name in enumerate(lapsed)}
            values |= {":seen": number(use.minute), ":room": number(share.processes + len(lapsed))}
            removes = [f"pr.#l{index}" for index in range(len(lapsed))]
            conditions = ["mi = :seen", "(attribute_exists(pr.#p) OR size(pr) < :room)"]
            conditions += [f"pr.#l{index} = :l{index}" for index in range(len(lapsed))]
            sets.append("pr.#p = :until")
            if use.minute >= minute:
                conditions.append("n < :most")
                sets.append("n = n + :starts")
                values[":most"] = number(share.starts_per_minute)
            else:
                sets += ["mi = :minute", "n = :starts"]
                values[":minute"] = number(minute)
        try:
            answer = self._client.update_item(
                TableName=self._table,
                Key=share_row(owner, priority),
                UpdateExpression=f"SET {', '.join(sets)}" + (f" REMOVE {', '.join(removes)}" if removes else ""),
                ConditionExpression=" AND ".join(conditions),
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=values,
                ReturnValues="ALL_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            return _read(refusing_item(error)), False
        return _read(answer["Attributes"]), True

    def _remember(self, owner: str, priority: Priority, use: ShareUse | None) -> None:
        if len(self._seen) >= REMEMBERED:
            self._seen.clear()
        self._seen[owner, priority] = use


def _ttl(now: float) -> dict[str, Any]:
    return number(int(now) + KEEP_SECONDS)


def _read(item: Item | None) -> ShareUse | None:
    if item is None:
        return None
    return ShareUse(
        minute=int(item["mi"]["N"]),
        starts=int(item["n"]["N"]),
        processes=MappingProxyType({name: float(value["N"]) for name, value in item["pr"]["M"].items()}),
    )
