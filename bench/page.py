"""docs/benchmarks.md: the part between the markers is written here, the rest by hand."""

from __future__ import annotations

from collections.abc import Sequence

from bench.tables import Table

BEGIN = "<!-- results: written by `make bench ARGS=--write` -->"
END = "<!-- end of results -->"


def markdown(intro: str, tables: Sequence[Table]) -> str:
    return "\n\n".join([intro, *map(_table, tables)])


def rewritten(page: str, results: str) -> str:
    """The page with new results between its markers; raises ValueError where it has not both."""
    before, begun, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not (begun and ended):
        raise ValueError(f"the page has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{results}\n\n{END}{after}"


def _table(table: Table) -> str:
    lines = [table.columns, ["---", *["---"] * (len(table.columns) - 1)], *table.rows]
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    details = "\n".join(f"- {line}" for line in table.details)
    return f"### {table.title}\n\n{rows}" + (f"\n\n{details}" if details else "")
