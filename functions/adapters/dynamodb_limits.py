"""Callers' token buckets in the table Coordination: one item a caller, one conditional update a request."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from functions.adapters.dynamodb_conditions import refusing_item, unless_refused
from functions.adapters.dynamodb_keys import Item, bucket_key, number, text
from functions.domain.errors import RateLimitedError, RevokedError, UnavailableError
from functions.domain.ids import new_write_id
from functions.domain.limits import MICROSECONDS, Bucket, microseconds
from functions.limit_ports import Allowance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_dynamodb import DynamoDBClient

logger = logging.getLogger(__name__)

TRIES = 5
REMEMBERED_CALLERS = 1000
REFUSED_SECONDS = 1
"""For which a caller that was over its limit is refused from memory: its row is not written for it."""
KEEP_SECONDS = 2 * 86_400
"""A row nobody used for longer than any bucket's period says nothing: it may expire."""

_REVOKED = "rv"
"""Since when the caller is refused; a row that has it never expires."""
_ATTRIBUTES = {"read": "r", "write": "w", "work": "k", "creation": "c"}


class _Wanted(NamedTuple):
    attribute: str
    bucket: Bucket
    tokens: int


class DynamoDbRateLimits:
    """RateLimits over one table.

    An update cannot say `max(arrival, now)`, so it is tried for the branch (bucket full, or not) that this process saw
    last; its condition decides, and a refusal brings the item from which the other branch, or the end, follows.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        *,
        reads_per_minute: int,
        writes_per_minute: int,
        work_per_minute: int,
        creations_per_day: int,
    ) -> None:
        self._client = client
        self._table = table
        self._buckets = {
            "read": Bucket(limit=reads_per_minute, period_seconds=60),
            "write": Bucket(limit=writes_per_minute, period_seconds=60),
            "work": Bucket(limit=work_per_minute, period_seconds=60),
            "creation": Bucket(limit=creations_per_day, period_seconds=86_400),
        }
        self._seen: dict[str, Mapping[str, int]] = {}
        self._refused: dict[str, int] = {}
        """When each caller was last over a limit, in microseconds."""

    def take(self, caller: str, kind: str, *, now: float, creations: int = 0) -> Allowance:
        wanted = [self._wanted(kind, 1)]
        if creations:
            wanted.append(self._wanted("creation", creations))
        return self._take(caller, wanted, now=now)

    def create(self, caller: str, creations: int, *, now: float) -> None:
        self._take(caller, [self._wanted("creation", creations)], now=now)

    def _take(self, caller: str, wanted: list[_Wanted], *, now: float) -> Allowance:
        """Take all of them in one conditional write; returns what is left of the first."""
        at, mark = microseconds(now), new_write_id()
        for one in wanted:
            _must_hold(one, 0, now=at)  # More than a full bucket holds.
        arrivals = self._seen.get(caller, {})
        refused_at = self._refused.get(caller)
        if refused_at is not None and at < refused_at + REFUSED_SECONDS * MICROSECONDS:
            for one in wanted:
                _must_hold(one, arrivals.get(one.attribute, 0), now=at)
        for _ in range(TRIES):
            stored, taken = self._try(caller, wanted, arrivals, now=at, mark=mark)
            arrivals = self._remember(caller, stored)
            if taken:
                return _allowance(wanted[0], arrivals, now=at)
            self._refused[caller] = at
            if _REVOKED in stored:
                raise RevokedError
            for one in wanted:
                _must_hold(one, arrivals.get(one.attribute, 0), now=at)
        raise UnavailableError

    def revoke(self, subject: str, *, now: float) -> float:
        # The row that each request of the caller writes; without a time to live, since nothing else remembers.
        answer = self._client.update_item(
            TableName=self._table,
            Key=bucket_key(subject),
            UpdateExpression="SET #revoked = if_not_exists(#revoked, :now) REMOVE #ttl",
            ExpressionAttributeNames={"#revoked": _REVOKED, "#ttl": "ttl"},
            ExpressionAttributeValues={":now": number(round(now, 3))},
            ReturnValues="ALL_NEW",
        )
        return float(answer["Attributes"][_REVOKED]["N"])

    def restore(self, subject: str, *, now: float) -> None:
        with unless_refused():
            self._client.update_item(
                TableName=self._table,
                Key=bucket_key(subject),
                UpdateExpression="SET #ttl = :ttl REMOVE #revoked",
                ConditionExpression="attribute_exists(#revoked)",
                ExpressionAttributeNames={"#revoked": _REVOKED, "#ttl": "ttl"},
                ExpressionAttributeValues={":ttl": number(int(now) + KEEP_SECONDS)},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )

    def give_back(self, caller: str, *, creations: int) -> None:
        mark = new_write_id()
        try:
            self._client.update_item(
                TableName=self._table,
                Key=bucket_key(caller),
                UpdateExpression="SET #c = #c - :cost, #wid = :wid",
                # As in `_try`: an update that the SDK repeats gives back once. A row that has expired is a full bucket.
                ConditionExpression="attribute_exists(#c) AND (attribute_not_exists(#wid) OR #wid <> :wid)",
                ExpressionAttributeNames={"#c": _ATTRIBUTES["creation"], "#wid": "wid"},
                ExpressionAttributeValues={
                    ":cost": number(self._buckets["creation"].cost(creations)),
                    ":wid": text(mark),
                },
            )
        except (ClientError, BotoCoreError) as error:
            logger.warning("%s creations were not given back: %s", creations, error)

    def _wanted(self, kind: str, tokens: int) -> _Wanted:
        return _Wanted(_ATTRIBUTES[kind], self._buckets[kind], tokens)

    def _try(
        self, caller: str, wanted: list[_Wanted], arrivals: Mapping[str, int], *, now: int, mark: str
    ) -> tuple[Item, bool]:
        """The item after the update, or the one that refused it, and whether the tokens are taken."""
        ttl = now // 1_000_000 + KEEP_SECONDS
        sets, values = ["#ttl = :ttl", "#wid = :wid"], {":ttl": number(ttl), ":wid": text(mark), ":now": number(now)}
        # An update that the SDK repeats after a lost answer must not take the tokens twice.
        conditions = ["(attribute_not_exists(#wid) OR #wid <> :wid)", "attribute_not_exists(#revoked)"]
        names = {"#ttl": "ttl", "#wid": "wid", "#revoked": _REVOKED}
        for one in wanted:
            name, cost = one.attribute, one.bucket.cost(one.tokens)
            names[f"#{name}"] = name
            if arrivals.get(name, 0) > now:
                sets.append(f"#{name} = #{name} + :{name}")
                conditions.append(f"#{name} > :now AND #{name} <= :{name}max")
                values[f":{name}"] = number(cost)
                values[f":{name}max"] = number(one.bucket.latest(one.tokens, now=now))
            else:
                conditions.append(f"(attribute_not_exists(#{name}) OR #{name} <= :now)")
                sets.append(f"#{name} = :{name}")
                values[f":{name}"] = number(now + cost)
        try:
            answer = self._client.update_item(
                TableName=self._table,
                Key=bucket_key(caller),
                UpdateExpression="SET " + ", ".join(sets),
                ConditionExpression=" AND ".join(conditions),
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=values,
                ReturnValues="ALL_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            item = refusing_item(error) or {}
            return item, item.get("wid") == text(mark)
        return answer["Attributes"], True

    def _remember(self, caller: str, item: Item) -> Mapping[str, int]:
        arrivals = {name: int(item[name]["N"]) for name in _ATTRIBUTES.values() if name in item}
        if len(self._seen) >= REMEMBERED_CALLERS:
            self._seen.clear()
            self._refused.clear()
        self._seen[caller] = arrivals
        return arrivals


def _must_hold(wanted: _Wanted, arrival: int, *, now: int) -> None:
    """Raises RateLimitedError when the bucket holds too few tokens."""
    if wanted.bucket.take(arrival, wanted.tokens, now=now) is None:
        wait = wanted.bucket.seconds_until(arrival, wanted.tokens, now=now)
        raise RateLimitedError(retry_after=wait, limit=wanted.bucket.limit)


def _allowance(wanted: _Wanted, arrivals: Mapping[str, Any], *, now: int) -> Allowance:
    bucket, arrival = wanted.bucket, arrivals[wanted.attribute]
    return Allowance(
        limit=bucket.limit,
        remaining=bucket.remaining(arrival, now=now),
        reset_seconds=bucket.reset_seconds(arrival, now=now),
    )
