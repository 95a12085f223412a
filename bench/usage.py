"""What a job uses of AWS, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from bench import prices
from bench.call_log import Call

FREE = frozenset({("scheduler", "CreateSchedule"), ("scheduler", "DeleteSchedule")})
"""Calls that no price list charges: EventBridge Scheduler counts invocations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Units; a job's are fractions where several share one."""

    http_requests: float = 0
    lambda_requests: float = 0
    gb_seconds: float = 0
    write_units: float = 0
    read_units: float = 0
    sqs_requests: float = 0
    schedules: float = 0
    """Invocations by EventBridge Scheduler."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})

    def __mul__(self, times: float) -> Usage:
        return Usage(**{each.name: getattr(self, each.name) * times for each in fields(self)})

    def __truediv__(self, jobs: float) -> Usage:
        return self * (1 / jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dollars:
    """By service."""

    api: float
    functions: float
    dynamodb: float
    sqs: float
    scheduler: float

    @property
    def total(self) -> float:
        return self.api + self.functions + self.dynamodb + self.sqs + self.scheduler


def usage_of(calls: Iterable[Call]) -> Usage:
    """What calls of ours cost; raises ValueError for one whose price is not written down."""
    total = Usage()
    for call in calls:
        if call.service == "dynamodb":
            total += Usage(write_units=call.write_units, read_units=call.read_units)
        elif call.service == "sqs":
            total += Usage(sqs_requests=1)
        elif (call.service, call.operation) not in FREE:
            raise ValueError(f"the price of {call.service} {call.operation} is not written down here")
    return total


def polled(fill: int) -> Usage:
    """A message's share of what Lambda's poller does for a batch: receive it, call the function, delete it."""
    return Usage(sqs_requests=2, lambda_requests=1) / fill


def scheduled() -> Usage:
    """EventBridge Scheduler fires once and sends one message, which SQS counts as any other."""
    return Usage(schedules=1, sqs_requests=1)


def dollars(usage: Usage, *, provisioned: bool = False) -> Dollars:
    """At list price; DynamoDB on demand, or from provisioned capacity."""
    write, read = prices.WRITE_UNIT, prices.READ_UNIT
    if provisioned:
        write, read = map(prices.provisioned, (prices.WRITE_CAPACITY_HOUR, prices.READ_CAPACITY_HOUR))
    return Dollars(
        api=prices.HTTP_API.of(usage.http_requests),
        functions=prices.LAMBDA_REQUEST.of(usage.lambda_requests) + prices.LAMBDA_GB_SECOND.of(usage.gb_seconds),
        dynamodb=write.of(usage.write_units) + read.of(usage.read_units),
        sqs=prices.SQS_REQUEST.of(usage.sqs_requests),
        scheduler=prices.SCHEDULE.of(usage.schedules),
    )
