"""The pictures of docs/benchmarks.md: what a million jobs cost, and how late jobs start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.costs import ON_DEMAND_BUDGET, Costs
from bench.lateness import BUDGET, Lateness, percentile
from bench.prices import ALTERNATIVES
from bench.shapes import AT_ONCE

DOCS = Path(__file__).parents[1] / "docs"
COST_PNG = DOCS / "benchmarks-cost.png"
LATENESS_PNG = DOCS / "benchmarks-lateness.png"

_SERVICES = (
    ("DynamoDB", "#3b6ea8"),
    ("SQS", "#e0a030"),
    ("Lambda", "#5a9a68"),
    ("Scheduler", "#b05a7a"),
    ("API and sweep", "#888888"),
)


def plot(name: str, results: Sequence[Any]) -> None:
    """Draw the picture of this row into docs/, where it has one and was measured."""
    if name == "costs":
        plot_costs(results[0], COST_PNG)
    elif name == "lateness" and results[0].started:
        plot_lateness(results[0], LATENESS_PNG)


def plot_costs(costs: Costs, path: Path) -> None:
    plt = _pyplot()
    figure, (ours, others) = plt.subplots(1, 2, figsize=(12, 4.6), width_ratios=(3, 2), layout="constrained")
    labels = [f"{cost.shape}\n{cost.fill} a batch" for cost in costs.shapes]
    left = [0.0] * len(labels)
    for service, colour in _SERVICES:
        widths = [_parts(cost)[service] for cost in costs.shapes]
        ours.barh(labels, widths, left=left, color=colour, label=service)
        left = [one + more for one, more in zip(left, widths, strict=True)]
    for row, cost in enumerate(costs.shapes):
        ours.text(cost.total + 0.15, row, f"{cost.total:.2f}", va="center", fontsize=9)
        if cost.shape in ON_DEMAND_BUDGET:
            budget = ON_DEMAND_BUDGET[cost.shape]
            ours.plot([budget, budget], [row - 0.45, row + 0.45], color="black", linewidth=1.6)
    ours.plot([], [], color="black", linewidth=1.6, label="budget")
    ours.invert_yaxis()
    ours.set_xlim(0, max(cost.total for cost in costs.shapes) * 1.12)
    ours.set_xlabel("$ a million, on demand, us-east-1 list prices")
    ours.set_title("A million jobs on Gnomon")
    ours.legend(fontsize=8, loc="lower right")

    bars = [(f"Gnomon, {cost.fill} a batch", cost.total, True) for cost in costs.shapes if cost.shape == AT_ONCE]
    bars += [(one.name, one.dollars, False) for one in ALTERNATIVES]
    bars.sort(key=lambda bar: bar[1])
    others.barh(
        [name for name, _, _ in bars],
        [value for _, value, _ in bars],
        color=["#3b6ea8" if own else "#bbbbbb" for _, _, own in bars],
    )
    for row, (_, value, _) in enumerate(bars):
        others.text(value * 1.1, row, f"{value:.2f}", va="center", fontsize=9)
    others.set_xscale("log")
    others.set_xlim(0.3, 800)
    others.invert_yaxis()
    others.set_xlabel("$ a million, logarithmic")
    others.set_title("One-time jobs at once, elsewhere")
    _save(figure, path)


def plot_lateness(measured: Lateness, path: Path) -> None:
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(7.5, 4), layout="constrained")
    for label, values, colour in (
        ("started (history)", measured.started, "#3b6ea8"),
        ("arrived at the target", measured.arrived, "#e0a030"),
    ):
        ordered = sorted(values)
        shares = [(index + 1) / len(ordered) for index in range(len(ordered))]
        p50, p99 = percentile(ordered, 0.5), percentile(ordered, 0.99)
        axes.step(ordered, shares, where="post", color=colour, label=f"{label}: p50 {p50:.2f} s, p99 {p99:.2f} s")
    axes.axvline(BUDGET, color="black", linewidth=1.6, label=f"budget of p99: {BUDGET} s")
    axes.set_xlim(0, 1.05 * max(BUDGET * 1.1, *measured.started, *measured.arrived))
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("seconds after the slot")
    axes.set_ylabel("share of jobs")
    axes.set_title(f"Start lateness on the local stack, {len(measured.started)} one-time jobs in as many seconds")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9, loc="lower right")
    _save(figure, path)


def _parts(cost: Any) -> dict[str, float]:
    spent = cost.on_demand
    return {
        "DynamoDB": spent.dynamodb,
        "SQS": spent.sqs,
        "Lambda": spent.functions,
        "Scheduler": spent.scheduler,
        "API and sweep": spent.api + cost.sweep,
    }


def _pyplot() -> Any:
    import matplotlib as mpl  # noqa: PLC0415 - half a second that only pictures need

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - as above

    return plt


def _save(figure: Any, path: Path) -> None:
    """Without the version that drew it: the same numbers are the same file."""
    figure.savefig(path, dpi=110, metadata={"Software": None})
    _pyplot().close(figure)
