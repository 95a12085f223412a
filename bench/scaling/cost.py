"""What so many one-time jobs a second cost a month, by list prices, without the targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench import prices
from bench.prices import Price
from bench.scaling import work
from bench.scaling.settings import pollers
from bench.scaling.work import HINTS_A_BATCH, Path

SECONDS_A_MONTH = prices.HOURS_A_MONTH * 3600
GB = 1_000_000_000

CHEAPER_GATEWAY = Price(
    dollars=0.90,
    per=prices.MILLION,
    unit="HTTP API requests above 300 million a month",
    source=prices.HTTP_API.source,
)
GATEWAY_TIER = 300_000_000
POLLER_HOUR = Price(
    dollars=0.00925, per=1, unit="hour of a provisioned poller", source="AWS Price List, quoted 2026-09-19"
)
BACKUP = Price(
    dollars=0.20, per=1, unit="GB-month of point-in-time recovery", source="AWS Price List, quoted 2026-09-06"
)

LOG_BYTES_A_CALL = 700
"""The gateway's access line and Lambda's own lines. An assumption."""
LOG_BYTES_A_BATCH = 1_200
"""The executor's metrics and Lambda's own lines. An assumption."""
TRACED = 0.05
"""Share of invocations that X-Ray samples by its default rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    what: str
    dollars: float


def monthly(rate: float, path: Path, *, provisioned: bool) -> Sequence[Cost]:
    """Every row of the bill of a month at this rate, all day. DynamoDB on demand, or provisioned and used to 70 %."""
    jobs = rate * SECONDS_A_MONTH
    calls, batches = jobs * path.calls, jobs / HINTS_A_BATCH
    write, read = prices.WRITE_UNIT, prices.READ_UNIT
    if provisioned:
        write, read = (prices.provisioned(hour) for hour in (prices.WRITE_CAPACITY_HOUR, prices.READ_CAPACITY_HOUR))
    seconds = calls * path.api_seconds * work.API_MB / 1024 + batches * work.batch_seconds() * work.EXECUTOR_MB / 1024
    stored = jobs * (work.STATE_ROW_BYTES + work.KEPT_BYTES + work.ENTRY_BYTES) / GB
    logged = (calls * LOG_BYTES_A_CALL + batches * LOG_BYTES_A_BATCH) / GB
    return [
        Cost(
            what="HTTP API",
            dollars=prices.HTTP_API.of(min(calls, GATEWAY_TIER)) + CHEAPER_GATEWAY.of(max(0, calls - GATEWAY_TIER)),
        ),
        Cost(
            what="Lambda",
            dollars=prices.LAMBDA_REQUEST.of(calls + batches) + prices.LAMBDA_GB_SECOND.of(seconds),
        ),
        Cost(what="DynamoDB, writes", dollars=write.of(jobs * path.writes)),
        Cost(what="DynamoDB, reads", dollars=read.of(jobs * work.READS)),
        Cost(
            what="SQS",
            dollars=prices.SQS_REQUEST.of(jobs * path.sends + 2 * batches),
        ),
        Cost(what="provisioned pollers", dollars=POLLER_HOUR.of(pollers(rate) * prices.HOURS_A_MONTH)),
        Cost(what="logs", dollars=prices.LOGS.of(logged)),
        Cost(what="X-Ray", dollars=prices.TRACES.of((calls + batches) * TRACED)),
        Cost(
            what="a month's rows kept for a month, with recovery",
            dollars=prices.STORAGE.of(stored) + BACKUP.of(stored),
        ),
    ]


def total(costs: Sequence[Cost]) -> float:
    return sum(cost.dollars for cost in costs)


def stored_a_month(rate: float) -> float:
    """Gigabytes of state rows that a month adds, which no expiry takes away until their jobs are deleted."""
    return rate * SECONDS_A_MONTH * (work.STATE_ROW_BYTES + work.ENTRY_BYTES) / GB
