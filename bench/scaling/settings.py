"""The right settings for so many submissions a second."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.scaling import quotas, work
from bench.scaling.limits import DAY
from bench.scaling.work import HINTS_A_BATCH, Path
from functions.adapters.dynamodb_keys import SHARDS
from infra.stage import Stage

UTILISATION = 0.7
"""Of anything that is bounded: the rest is for what is uneven."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    what: str
    where: str
    """Who sets it: the stage's object, a quota to be raised, a change of the code."""
    now: str
    needed: str
    enough: bool
    """Whether the present value does."""


def shards(rate: float) -> int:
    """Partitions of the index `attention`: a power of two, each used to `UTILISATION`."""
    return _power_of_two(rate * work.ATTENTION_WRITES / (quotas.PARTITION_WRITES.value * UTILISATION))


def owner_partitions(rate: float) -> int:
    """Partitions of one owner in the index `owner`, if all jobs are one owner's."""
    return _power_of_two(rate * work.OWNER_WRITES / (quotas.PARTITION_WRITES.value * UTILISATION))


def caller_rows(rate: float, path: Path) -> int:
    """Rows for one caller's limits, if all calls are one caller's."""
    calls = rate * path.calls * work.LIMIT_WRITES
    return _power_of_two(calls / (quotas.PARTITION_WRITES.value * UTILISATION))


def pollers(rate: float) -> int:
    """Provisioned pollers of the queue: by messages and by batches at once."""
    by_polls = rate / (quotas.PROVISIONED_POLLS.value * HINTS_A_BATCH)
    by_batches = rate / HINTS_A_BATCH * work.batch_seconds() / quotas.PROVISIONED_CONCURRENCY.value
    return math.ceil(max(by_polls, by_batches) / UTILISATION)


def executor_concurrency(rate: float) -> int:
    """Batches at once, with room."""
    return math.ceil(rate / HINTS_A_BATCH * work.batch_seconds() / UTILISATION)


def api_concurrency(rate: float, path: Path) -> int:
    """Calls at once, with room; never fewer than their number a second needs."""
    calls = rate * path.calls
    by_number = calls / quotas.LAMBDA_REQUESTS_A_CONCURRENCY.value
    return math.ceil(max(calls * path.api_seconds, by_number) / UTILISATION)


def gateway_rate(rate: float, path: Path) -> int:
    return math.ceil(rate * path.calls / UTILISATION)


def settings(rate: float, path: Path, stage: Stage) -> Sequence[Setting]:
    """What must be set, and what it is now."""
    gateway, executor, api = gateway_rate(rate, path), executor_concurrency(rate), api_concurrency(rate, path)
    limits = stage.caller_limits
    stage_of = f"stage `{stage.name}`"

    def numbers(what: str, where: str, now: float, needed: float) -> Setting:
        return Setting(what=what, where=where, now=f"{now:,.0f}", needed=f"{math.ceil(needed):,}", enough=now >= needed)

    def warm(what: str, units: float) -> Setting:
        return Setting(
            what=f"warm throughput of {what}, write units/s",
            where="code (storage)",
            now=f"none: {quotas.NEW_TABLE_WRITES.value:,.0f}",
            needed=f"{rate * units:,.0f}",
            enough=quotas.NEW_TABLE_WRITES.value >= rate * units,
        )

    return [
        numbers("`caller_limits`, writes a minute", stage_of, limits.writes_per_minute, rate * path.calls * 60),
        numbers("`caller_limits`, creations a day", stage_of, limits.creations_per_day, rate * DAY),
        numbers("`gateway_rate`", stage_of, stage.gateway_rate, gateway),
        numbers("requests/s of an account at API Gateway", "quota", quotas.GATEWAY_REQUESTS.value, gateway),
        numbers("executions at once of an account", "quota", quotas.LAMBDA_CONCURRENCY.value, executor + api),
        numbers("of these for the executor, `run_concurrency`", stage_of, stage.run_concurrency.normal, executor),
        numbers("provisioned pollers of the run queue", "code (event source)", 0, pollers(rate)),
        warm("Jobs", work.JOBS_WRITES),
        warm("its index `attention`", work.ATTENTION_WRITES),
        warm("its index `owner`", work.OWNER_WRITES),
        warm("Executions", work.EXECUTIONS_WRITES),
        numbers("write units/s of the table Jobs", "quota", quotas.TABLE_WRITES.value, rate * work.JOBS_WRITES),
        numbers("partitions of the index `attention`", "code (`SHARDS`)", SHARDS, shards(rate)),
        numbers("partitions of one owner in the index `owner`", "code", 1, owner_partitions(rate)),
        numbers("rows for one caller's limits", "code", 1, caller_rows(rate, path)),
    ]


def _power_of_two(least: float) -> int:
    return 1 << max(0, math.ceil(math.log2(least))) if least > 1 else 1
