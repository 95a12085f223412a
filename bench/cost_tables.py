"""The costs as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench import function_time, prices
from bench.costs import JOBS_A_DAY, ON_DEMAND_BUDGET, PROVISIONED_BUDGET, Costs, ShapeCost
from bench.prices import ALTERNATIVES, MILLION
from bench.shapes import AT_ONCE, FILLS
from bench.tables import Table, verdict
from bench.usage import Usage


def cost_tables(results: Sequence[Costs]) -> list[Table]:
    [costs] = results
    return [_shapes(costs), _units(costs), _beside(costs), _standing(costs), _alternatives(costs), _prices()]


def _shapes(costs: Costs) -> Table:
    return Table(
        "5. A million jobs, $ at list prices",
        (
            "shape",
            "fill",
            "API",
            "Lambda",
            "DynamoDB",
            "SQS",
            "Scheduler",
            "sweep",
            "on demand",
            "budget",
            "verdict",
            "DynamoDB provisioned",
            "all",
            "budget",
            "verdict",
        ),
        [_shape_row(cost) for cost in costs.shapes],
        [
            "worker job: without its worker's polls that find nothing and its heartbeats; a poll that waits 20 s costs "
            "$0.000075, a heartbeat as much as a report."
        ],
    )


def _shape_row(cost: ShapeCost) -> tuple[str, ...]:
    spent = cost.on_demand
    parts = (spent.api, spent.functions, spent.dynamodb, spent.sqs, spent.scheduler, cost.sweep, cost.total)
    return (
        cost.shape,
        str(cost.fill),
        *map(_money, parts),
        *_judged(cost, ON_DEMAND_BUDGET, cost.total),
        _money(cost.provisioned.dynamodb),
        _money(cost.provisioned_total),
        *_judged(cost, PROVISIONED_BUDGET, cost.provisioned_total),
    )


def _judged(cost: ShapeCost, budgets: Mapping[str, float], total: float) -> tuple[str, str]:
    budget = budgets.get(cost.shape)
    return ("", "") if budget is None else (f"≤ {_money(budget)}", verdict(total, budget))


def _units(costs: Costs) -> Table:
    times = costs.times
    batches = ", ".join(f"{1000 * spent:.1f} ms for {fill}" for fill, spent in times.hint_batches.items())
    return Table(
        "6. What one job uses",
        (
            "shape and step",
            "fill",
            "write units",
            "read units",
            "SQS requests",
            "Scheduler",
            "HTTP API",
            "Lambda requests",
            "GB-seconds",
        ),
        [
            (f"{cost.shape}: {what}", str(cost.fill), *_usage(usage))
            for cost in costs.shapes
            for what, usage in [*((step.what, step.usage) for step in cost.steps), ("all", cost.usage)]
            if what == "all" or (cost.fill == max(FILLS) and len(cost.steps) > 1)
        ],
        [
            f"CPU measured here: {1000 * times.bulk_request:.1f} ms for a request of 100 jobs, {batches} hints, "
            f"{1000 * times.aws_call:.2f} ms for a call by boto3; ports in memory",
            f"assumed: {1000 * function_time.CALL_SECONDS:.0f} ms until AWS answers a call, "
            f"{1000 * function_time.TARGET_SECONDS:.0f} ms until the target does (shared by the messages of a batch), "
            f"a processor there as fast as one here, of which {function_time.MB_OF_A_PROCESSOR} MB of memory get one",
        ],
    )


def _usage(usage: Usage) -> tuple[str, ...]:
    units = (
        usage.write_units,
        usage.read_units,
        usage.sqs_requests,
        usage.schedules,
        usage.http_requests,
        usage.lambda_requests,
    )
    return (*(f"{round(unit, 3):g}" for unit in units), f"{usage.gb_seconds:.4f}")


def _beside(costs: Costs) -> Table:
    return Table(
        "7. Outside the budget: a million one-time jobs at once, $",
        ("what", *(f"fill {fill}" for fill in FILLS), "counted"),
        [
            (
                one.what,
                *("not built" if one.by_fill is None else _money(one.by_fill[fill], 3) for fill in FILLS),
                one.counted,
            )
            for one in costs.beside
        ],
    )


def _standing(costs: Costs) -> Table:
    jobs = JOBS_A_DAY * prices.DAYS_A_MONTH / MILLION
    rows = [(one.what, one.month, one.counted) for one in costs.standing]
    rows.append(("all", sum(one.month for one in costs.standing), ""))
    return Table(
        "8. What stands idle, $",
        ("what", "a month", "a million jobs, at one million a day", "counted"),
        [(what, _money(month), _money(month / jobs, 3), counted) for what, month, counted in rows],
    )


def _alternatives(costs: Costs) -> Table:
    ours = [cost for cost in costs.shapes if cost.shape == AT_ONCE]
    rows = [
        (
            f"Gnomon, {cost.shape}, fill {cost.fill}",
            _money(cost.total),
            f"all of table 5; {_money(cost.provisioned_total)} provisioned",
            "",
            "counted",
        )
        for cost in ours
    ]
    rows += [(one.name, _money(one.dollars), one.counted, one.lacks, one.source) for one in ALTERNATIVES]
    return Table(
        "9. A million one-time jobs elsewhere, $ at list prices",
        ("where", "$", "counted", "what to know", "source"),
        sorted(rows, key=lambda row: float(row[1])),
        [f"prices read on {prices.READ_ON}, before any free tier; without one's own functions, tables and logs"],
    )


def _prices() -> Table:
    written = [one for one in vars(prices).values() if isinstance(one, prices.Price)]
    return Table(
        f"10. Prices, {prices.REGION}, before any free tier, read on {prices.READ_ON}",
        ("$", "for", "source"),
        [(f"{one.dollars:.10f}".rstrip("0").rstrip("."), one.counted, one.source) for one in written],
    )


def _money(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}"
