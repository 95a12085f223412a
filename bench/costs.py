"""Row 5: what a million jobs cost at AWS's list prices, and what stands beside the budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench import prices
from bench.event_costs import told_of_a_success
from bench.function_time import FunctionTimes, measure_functions
from bench.prices import MILLION
from bench.shapes import AT_ONCE, CRON, FILLS, IN_TWO_HOURS, Shape, count_shapes, idle_tick
from bench.usage import Dollars, Usage, dollars, usage_of

JOBS_A_DAY = MILLION
"""At which what stands idle is shared by the jobs."""
TICKS_A_DAY = 24 * 60
ON_DEMAND_BUDGET: Mapping[str, float] = {AT_ONCE: 4.50, IN_TWO_HOURS: 4.50, CRON: 3.60}
PROVISIONED_BUDGET: Mapping[str, float] = {AT_ONCE: 2.50, IN_TWO_HOURS: 2.50}

_REQUEST = "RequestId: 5f1d2c3b-4a59-4687-9a0b-1c2d3e4f5061"
PLATFORM_LINES = (
    f"START {_REQUEST} Version: $LATEST\n"
    f"END {_REQUEST}\n"
    f"REPORT {_REQUEST}\tDuration: 131.25 ms\tBilled Duration: 132 ms\tMemory Size: 512 MB\tMax Memory Used: 104 MB\t"
    "XRAY TraceId: 1-67891233-abcdef012345678912345678\tSegmentId: 1a2b3c4d5e6f7a8b\tSampled: true\n"
)
"""What Lambda itself writes for an invocation, in its text form."""
SAMPLED = 0.05
"""Of invocations are traced (X-Ray's default rule, beyond the first request each second)."""
POLLERS = 5
"""Long polls of 20 s that Lambda keeps open on a quiet queue (Lambda developer guide; from memory, unverified)."""
QUEUES = 3
METRICS = 9
"""Names in functions/telemetry.py, each with the dimension `service`."""
ALARMS = 20
"""Of infra/observability.py."""
MACHINE_CLIENTS = 1
"""A stage that lists one (`machine_clients` in infra/stage.py); none is listed by default."""
KEY_REQUESTS_A_DAY = 4 * 4 * 288
"""DynamoDB asks KMS for a table's key every five minutes at most for each caller: four tables, the four
functions that a one-time job passes."""
BYTES_OUT = 1500
"""To an https target: request with headers and signature, and the client's side of a TLS handshake; assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    what: str
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeCost:
    """Of a million jobs; usage is one job's."""

    shape: str
    fill: int
    steps: Sequence[StepCost]
    usage: Usage
    on_demand: Dollars
    provisioned: Dollars
    sweep: float
    """Dollars: its share of the minute sweep's ticks at `JOBS_A_DAY`."""
    log_bytes: float
    """A job's."""

    @property
    def total(self) -> float:
        return self.on_demand.total + self.sweep

    @property
    def provisioned_total(self) -> float:
        return self.provisioned.total + self.sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What is not in the budget, in dollars for a million one-time jobs at once, by fill; None: not built."""

    what: str
    counted: str
    by_fill: Mapping[int, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What costs the same however many jobs there are."""

    what: str
    counted: str
    month: float
    """Dollars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    times: FunctionTimes
    shapes: Sequence[ShapeCost]
    beside: Sequence[Beside]
    standing: Sequence[Standing]


def measure_costs() -> list[Costs]:
    """One report."""
    times, shapes = measure_functions(FILLS), count_shapes()
    tick = tick_usage(times)
    costs = [cost_of(shape, times, tick) for shape in shapes]
    return [Costs(times=times, shapes=costs, beside=beside(costs), standing=standing(tick))]


def tick_usage(times: FunctionTimes) -> Usage:
    """A tick of the sweep that finds nothing to do."""
    calls = idle_tick()
    return usage_of(calls) + Usage(schedules=1, lambda_requests=1, gb_seconds=times.sweep(calls))


def cost_of(shape: Shape, times: FunctionTimes, tick: Usage) -> ShapeCost:
    usage = shape.usage(times)
    return ShapeCost(
        shape=shape.name,
        fill=shape.fill,
        steps=[StepCost(what=step.what, usage=step.usage(times)) for step in shape.steps],
        usage=usage,
        on_demand=dollars(usage * MILLION),
        provisioned=dollars(usage * MILLION, provisioned=True),
        sweep=dollars(tick * TICKS_A_DAY).total * MILLION / JOBS_A_DAY,
        log_bytes=sum((len(step.log.encode()) + len(PLATFORM_LINES)) / step.jobs for step in shape.steps),
    )


def beside(costs: Sequence[ShapeCost]) -> list[Beside]:
    at_once = {cost.fill: cost for cost in costs if cost.shape == AT_ONCE}
    keys = prices.KMS_REQUEST.of(KEY_REQUESTS_A_DAY) * MILLION / JOBS_A_DAY

    told = told_of_a_success()

    def each(price: prices.Price, units: Mapping[int, float]) -> dict[int, float]:
        return {fill: price.of(one * MILLION) for fill, one in units.items()}

    return [
        Beside(
            what="lifecycle events",
            counted=f"{told.events} events, {told.reads} reads of history, {told.writes} records of the stream a job; "
            "an invocation gets as many records as the fill",
            by_fill={fill: told.dollars(fill) for fill in at_once},
        ),
        Beside(
            what="audit", counted=f"not built yet: {prices.WRITE_UNIT.of(MILLION):.3f} for one row a job", by_fill=None
        ),
        Beside(
            what="logs",
            counted=", ".join(f"{cost.log_bytes:.0f} B a job at fill {fill}" for fill, cost in at_once.items())
            + ", Lambda's own lines included",
            by_fill=each(prices.LOGS, {fill: cost.log_bytes / 1e9 for fill, cost in at_once.items()}),
        ),
        Beside(
            what="X-Ray",
            counted=f"{SAMPLED:.0%} of invocations traced",
            by_fill=each(prices.TRACES, {fill: SAMPLED * cost.usage.lambda_requests for fill, cost in at_once.items()}),
        ),
        Beside(
            what="KMS",
            counted=f"{KEY_REQUESTS_A_DAY} requests a day for the tables' keys, by rule",
            by_fill=dict.fromkeys(at_once, keys),
        ),
        Beside(
            what="traffic out",
            counted=f"{BYTES_OUT} B to an https target, assumed",
            by_fill=each(prices.TRAFFIC, dict.fromkeys(at_once, BYTES_OUT / 1e9)),
        ),
    ]


def standing(tick: Usage) -> list[Standing]:
    days = prices.DAYS_A_MONTH
    polls = QUEUES * POLLERS * 3 * TICKS_A_DAY * days
    return [
        Standing(
            what="minute sweep",
            counted=f"{TICKS_A_DAY} ticks a day, {tick.read_units:g} read units and {tick.sqs_requests:g} queue "
            "requests each",
            month=dollars(tick * (TICKS_A_DAY * days)).total,
        ),
        Standing(
            what="empty receives",
            counted=f"{QUEUES} queues, {POLLERS} long polls of 20 s each, by rule",
            month=prices.SQS_REQUEST.of(polls),
        ),
        Standing(what="customer key", counted="1", month=prices.KMS_KEY.of(1)),
        Standing(what="webhook key of an owner", counted="1", month=prices.SECRET.of(1)),
        Standing(what="custom metrics", counted=str(METRICS), month=prices.METRIC.of(METRICS)),
        Standing(what="alarms", counted=str(ALARMS), month=prices.ALARM.of(ALARMS)),
        Standing(
            what="Cognito client for machines",
            counted=f"{MACHINE_CLIENTS}; each machine that asks for a token an hour costs "
            f"{prices.MACHINE_TOKEN.of(prices.HOURS_A_MONTH):.2f} besides",
            month=prices.MACHINE_CLIENT.of(MACHINE_CLIENTS),
        ),
    ]
