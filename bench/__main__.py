"""Prints the first four budgets of the design beside their floors: `make bench`, `make bench ARGS=--write`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from bench import page
from bench.aws_calls import count_calls
from bench.cold_start import measure_cold_starts
from bench.import_times import measure_imports
from bench.machine import machine
from bench.request_time import measure_requests
from bench.tables import Table, call_table, cold_start_table, import_table, request_table

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / ".local" / "bench.json"
PAGE = ROOT / "docs" / "benchmarks.md"

ROWS: dict[str, tuple[Callable[[], list[Any]], Callable[[Any], Table]]] = {
    "requests": (measure_requests, request_table),
    "coldStarts": (measure_cold_starts, cold_start_table),
    "imports": (measure_imports, import_table),
    "calls": (count_calls, call_table),
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
    tables = []
    for name, (measure, table_of) in ROWS.items():
        if options.only in (None, name):
            with console.status(f"measuring {name}"):
                measured = measure()
            results[name] = [dataclasses.asdict(one) for one in measured]
            tables.append(table_of(measured))
            show(console, tables[-1])
    console.print("Median (quartiles) of interleaved rounds; ratios are taken round by round.", style="dim")
    if options.only is None:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1), encoding="utf-8")
    if options.write:
        text = page.rewritten(PAGE.read_text(encoding="utf-8"), page.markdown(machine(), tables))
        PAGE.write_text(text, encoding="utf-8")


def show(console: Console, table: Table) -> None:
    shown = RichTable(title=table.title, title_justify="left", title_style="bold")
    for number, column in enumerate(table.columns):
        text = number == 0 or column == "clients"
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
