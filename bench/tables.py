"""The results as tables: the same ones for the terminal and for docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.aws_calls import Counted
from bench.cold_start import ColdStart
from bench.import_times import ImportTime
from bench.lateness import BUDGET as LATENESS_BUDGET
from bench.lateness import Lateness, percentile
from bench.measuring import Spread
from bench.request_time import RequestTime
from bench.sweep_reads import SweepReads

REQUEST_BUDGET = 1.3
COLD_START_BUDGET = 1.25
PACKAGES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: Sequence[str]
    """The first is text, the others are numbers or short words."""
    rows: Sequence[Sequence[str]]
    details: Sequence[str] = ()
    """Lines below the table."""


def verdict(value: float, budget: float) -> str:
    return "kept" if value <= budget else "OVER"


def request_table(results: Sequence[RequestTime]) -> Table:
    return Table(
        "1. The API's own time a request, µs of CPU",
        ("request", "ours", "floor", "ratio", "budget", "verdict", "leanest", "ratio to it"),
        [
            (
                one.request,
                f"{one.own.median:.0f}",
                f"{one.by_powertools.median:.0f}",
                _spread(one.ratio, 2),
                f"≤ {REQUEST_BUDGET}",
                verdict(one.ratio.median, REQUEST_BUDGET),
                f"{one.by_hand.median:.0f}",
                _spread(one.ratio_by_hand, 2),
            )
            for one in results
        ],
    )


def cold_start_table(results: Sequence[ColdStart]) -> Table:
    return Table(
        "2. Cold start: import and init, ms of CPU",
        ("handler", "ours", "floor", "ratio", "budget", "verdict", "modules of others", "clients"),
        [
            (
                one.handler,
                f"{one.ours.median:.0f}",
                "none" if one.floor is None else f"{one.floor.median:.0f}",
                "" if one.ratio is None else _spread(one.ratio, 2),
                f"≤ {COLD_START_BUDGET}",
                "nothing but Python" if one.ratio is None else verdict(one.ratio.median, COLD_START_BUDGET),
                str(one.modules),
                " ".join(one.clients),
            )
            for one in results
        ],
    )


def import_table(results: Sequence[ImportTime]) -> Table:
    return Table(
        "3. Import time by package, ms (with importtime's own cost)",
        ("handler", "others' in full", "standard library", "ours"),
        [
            (
                one.handler,
                f"{one.third_party:.0f}",
                f"{one.standard:.0f}",
                f"{one.ours:.0f}",
            )
            for one in results
        ],
        [
            f"{one.handler}: {', '.join(f'{name} {spent:.0f}' for name, spent in slowest(one)) or 'none'}"
            for one in results
        ],
    )


def slowest(one: ImportTime) -> list[tuple[str, float]]:
    """The slowest packages; what takes no half millisecond was mostly looked for and not found."""
    return [(name, spent) for name, spent in one.packages.items() if spent >= 0.5][:PACKAGES_SHOWN]


def call_table(results: Sequence[Counted]) -> Table:
    return Table(
        "4. AWS calls, and capacity units by DynamoDB's rules",
        ("what", "calls", "budget", "verdict", "read units", "write units"),
        [
            (
                one.what,
                str(len(one.calls)),
                "" if one.budget is None else f"≤ {one.budget}",
                "" if one.budget is None else verdict(len(one.calls), one.budget),
                f"{one.read_units:g}",
                str(one.write_units),
            )
            for one in results
        ],
        [f"{one.what}: {', '.join(map(str, one.calls))}" for one in results],
    )


def sweep_table(results: Sequence[SweepReads]) -> Table:
    return Table(
        "11. A tick of the sweep",
        ("store", "jobs scheduled", "overdue", "index entries read", "rows read", "woken", "read units", "verdict"),
        [
            (
                one.store,
                str(one.scheduled),
                str(one.overdue),
                str(one.entries_read),
                str(one.rows_read),
                str(one.woken),
                "" if one.read_units is None else f"{one.read_units:g}",
                verdict(max(one.rows_read, one.entries_read), one.overdue),
            )
            for one in results
        ],
    )


def lateness_table(results: Sequence[Lateness]) -> Table:
    """Both clocks beside the one budget; a line without numbers where there was no stack."""
    [one] = results
    title, columns = (
        "12. Start lateness on the local stack, s",
        ("by", "jobs", "p50", "p99", "most", "budget", "verdict"),
    )
    if one.skipped:
        return Table(title, columns, [(f"skipped: {one.skipped}", "", "", "", "", f"≤ {LATENESS_BUDGET}", "")])
    if not one.started:
        return Table(title, columns, [("no job started", str(one.lost), "", "", "", f"≤ {LATENESS_BUDGET}", "OVER")])
    return Table(
        title,
        columns,
        [
            (
                by,
                str(len(values)),
                f"{percentile(values, 0.5):.3f}",
                f"{percentile(values, 0.99):.3f}",
                f"{max(values):.3f}",
                f"≤ {LATENESS_BUDGET}",
                verdict(percentile(values, 0.99), LATENESS_BUDGET) if one.lost == 0 else "OVER",
            )
            for by, values in (("history's startedAt", one.started), ("arrival at the target", one.arrived))
        ],
        [f"{one.lost} jobs did not start"] if one.lost else [],
    )


def _spread(spread: Spread, digits: int) -> str:
    return f"{spread.median:.{digits}f} ({spread.low:.{digits}f}–{spread.high:.{digits}f})"
