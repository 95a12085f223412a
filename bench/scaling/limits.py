"""At how many submissions a second each limit binds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.scaling import quotas, work
from bench.scaling.quotas import Quota
from bench.scaling.work import HINTS_A_BATCH, PATHS, Path
from functions.adapters.dynamodb_keys import SHARDS
from infra.stage import Stage

DAY = 86_400

Whose = Literal["stage", "design", "quota", "AWS"]
"""Who can move a limit: a value of the stage, a change of Gnomon, a quota that AWS raises, or nobody."""
Scope = Literal["one caller", "all", "far jobs"]
"""Whom it binds; far jobs are those due in over 15 minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    name: str
    whose: Whose
    scope: Scope
    holds: float
    """Units a second."""
    single: float
    bulk: float
    """Units a job, by the two paths."""

    def jobs(self, path: Path) -> float:
        """Submissions a second at which it binds."""
        return self.holds / (self.single if path.jobs_a_call == 1 else self.bulk)


def _whose(quota: Quota) -> Whose:
    return "quota" if quota.raisable else "AWS"


def limits(stage: Stage) -> Sequence[Limit]:
    """Every limit of this stage, of the present design and of an account with AWS's default quotas."""
    return [*_of_a_caller(stage), *_of_all(stage), *_of_far_jobs()]


def _of_a_caller(stage: Stage) -> list[Limit]:
    single, bulk = (path.calls for path in PATHS)
    limits, partition = stage.caller_limits, quotas.PARTITION_WRITES.value
    return [
        Limit(
            name="a caller's creations a day",
            whose="stage",
            scope="one caller",
            holds=limits.creations_per_day / DAY,
            single=1,
            bulk=1,
        ),
        Limit(
            name="a caller's writes a minute",
            whose="stage",
            scope="one caller",
            holds=limits.writes_per_minute / 60,
            single=single,
            bulk=bulk,
        ),
        Limit(
            name="an owner's partition of the index `owner`",
            whose="design",
            scope="one caller",
            holds=partition,
            single=work.OWNER_WRITES,
            bulk=work.OWNER_WRITES,
        ),
        Limit(
            name="a caller's row in Coordination",
            whose="design",
            scope="one caller",
            holds=partition,
            single=work.LIMIT_WRITES * single,
            bulk=work.LIMIT_WRITES * bulk,
        ),
    ]


def _of_all(stage: Stage) -> list[Limit]:
    single, bulk = PATHS
    partition = quotas.PARTITION_WRITES.value
    batch = work.batch_seconds() / HINTS_A_BATCH
    invocations = quotas.LAMBDA_CONCURRENCY.value * quotas.LAMBDA_REQUESTS_A_CONCURRENCY.value

    def everywhere(name: str, whose: Whose, holds: float, use: float) -> Limit:
        return Limit(name=name, whose=whose, scope="all", holds=holds, single=use, bulk=use)

    def by_call(name: str, whose: Whose, holds: float, use: float = 1, beside: float = 0) -> Limit:
        return Limit(
            name=name,
            whose=whose,
            scope="all",
            holds=holds,
            single=use * single.calls + beside,
            bulk=use * bulk.calls + beside,
        )

    return [
        by_call("the stage's rate at the gateway", "stage", stage.gateway_rate),
        everywhere("the stage's batches of normal priority at once", "stage", stage.run_concurrency.normal, batch),
        everywhere(
            f"the {SHARDS} partitions of the index `attention`",
            "design",
            SHARDS * partition,
            work.ATTENTION_WRITES,
        ),
        by_call(
            "the one partition key of all callers' rows, until DynamoDB splits it",
            "design",
            partition,
            work.LIMIT_WRITES,
        ),
        everywhere(
            f"the one partition of the index of dead letters, {work.FAILING:.0%} failing",
            "design",
            partition,
            work.FAILING,
        ),
        by_call("requests of an account", _whose(quotas.GATEWAY_REQUESTS), quotas.GATEWAY_REQUESTS.value),
        by_call("invocations of an account's functions", "quota", invocations, beside=1 / HINTS_A_BATCH),
        Limit(
            name="executions at once of an account's functions",
            whose=_whose(quotas.LAMBDA_CONCURRENCY),
            scope="all",
            holds=quotas.LAMBDA_CONCURRENCY.value,
            single=single.api_seconds * single.calls + batch,
            bulk=bulk.api_seconds * bulk.calls + batch,
        ),
        everywhere(
            "a new table Jobs without warm throughput", "stage", quotas.NEW_TABLE_WRITES.value, work.JOBS_WRITES
        ),
        everywhere("write units of the table Jobs", "quota", quotas.TABLE_WRITES.value, work.JOBS_WRITES),
        everywhere("write units of the index `attention`", "quota", quotas.TABLE_WRITES.value, work.ATTENTION_WRITES),
        everywhere("write units of the table Executions", "quota", quotas.TABLE_WRITES.value, work.EXECUTIONS_WRITES),
        everywhere("a queue's pollers in standard mode", "AWS", quotas.POLLER_CONCURRENCY.value, batch),
        everywhere("a queue's messages in flight", "quota", quotas.QUEUE_IN_FLIGHT.value, work.batch_seconds()),
    ]


def _of_far_jobs() -> list[Limit]:
    def far(name: str, quota: Quota) -> Limit:
        return Limit(name=name, whose=_whose(quota), scope="far jobs", holds=quota.value, single=1, bulk=1)

    return [
        far("schedules fired", quotas.SCHEDULE_INVOCATIONS),
        far("schedules made", quotas.SCHEDULE_CREATIONS),
    ]


def first(found: Sequence[Limit], path: Path, *, scope: Scope, whose: Sequence[Whose]) -> Limit:
    """Which of them binds first on this path."""
    return min(
        (limit for limit in found if limit.scope == scope and limit.whose in whose), key=lambda limit: limit.jobs(path)
    )


def longest_lead(rate: float) -> float:
    """Seconds ahead, on average, that so many far jobs a second can be due before schedules run out."""
    return quotas.SCHEDULES.value / rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """What a queue in standard mode does when traffic comes at once after a quiet time."""

    seconds: float
    """Until its pollers keep up."""
    waiting: int
    """Hints that wait by then."""
    lateness: float
    """Seconds that the last of them waits beyond its due instant."""


def ramp(rate: float) -> Ramp:
    """From its start concurrency, so much more a minute, to what the rate needs; linear between."""
    needed = rate / HINTS_A_BATCH * work.batch_seconds()
    start = quotas.POLLER_START.value
    seconds = max(0.0, (needed - start) / (quotas.POLLER_RAMP.value / 60))
    waiting = rate * seconds / 2 * (1 - start / needed) if seconds else 0.0
    return Ramp(seconds=seconds, waiting=math.ceil(waiting), lateness=waiting / rate)
