"""Prints the budgets beside what they are measured against: `make bench`, `make bench ARGS=--write`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from bench import page
from bench.aws_calls import count_calls
from bench.cold_start import measure_cold_starts
from bench.cost_tables import cost_tables
from bench.costs import measure_costs
from bench.import_times import measure_imports
from bench.lateness import measure_lateness
from bench.machine import machine
from bench.plots import plot
from bench.request_time import measure_requests
from bench.sweep_reads import measure_sweep
from bench.tables import (
    Table,
    call_table,
    cold_start_table,
    import_table,
    lateness_table,
    request_table,
    sweep_table,
)

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / ".local" / "bench.json"
PAGE = ROOT / "docs" / "benchmarks.md"

ROWS: dict[str, tuple[Callable[[], list[Any]], Callable[[Any], Sequence[Table]]]] = {
    "requests": (measure_requests, lambda results: [request_table(results)]),
    "coldStarts": (measure_cold_starts, lambda results: [cold_start_table(results)]),
    "imports": (measure_imports, lambda results: [import_table(results)]),
    "calls": (count_calls, lambda results: [call_table(results)]),
    "costs": (measure_costs, cost_tables),
    "sweep": (measure_sweep, lambda results: [sweep_table(results)]),
    "lateness": (measure_lateness, lambda results: [lateness_table(results)]),
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"also write the tables into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--only", choices=sorted(ROWS), help="one row of the budgets")
    options = parser.parse_args(arguments)
    if options.write and options.only:
        parser.error("--write takes all rows")
    console = Console()
    console.print(machine(), highlight=False)
    results: dict[str, Any] = {"machine": machine()}
    tables: list[Table] = []
    for name, (measure, table_of) in ROWS.items():
        if options.only in (None, name):
            with console.status(f"measuring {name}"):
                measured = measure()
            results[name] = [dataclasses.asdict(one) for one in measured]
            made = table_of(measured)
            tables += made
            for table in made:
                show(console, table)
            if options.write:
                plot(name, measured)
    console.print("Median (quartiles) of interleaved rounds; ratios are taken round by round.", style="dim")
    if options.only is None:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1), encoding="utf-8")
    if options.write:
        text = page.rewritten(PAGE.read_text(encoding="utf-8"), page.markdown(machine(), tables))
        PAGE.write_text(text, encoding="utf-8")


WORDS = frozenset({"clients", "counted", "for", "what to know", "source"})
"""Columns of text."""


def show(console: Console, table: Table) -> None:
    shown = RichTable(title=table.title, title_justify="left", title_style="bold")
    for number, column in enumerate(table.columns):
        text = number == 0 or column in WORDS
        shown.add_column(column, justify="left" if text else "right", overflow="fold")
    for row in table.rows:
        style = "red" if "OVER" in row else None
        shown.add_row(*row, style=style)
    console.print(shown, highlight=False)
    for line in table.details:
        console.print(f"  {line}", style="dim", highlight=False)
    console.print()


if __name__ == "__main__":
    main(sys.argv[1:])
