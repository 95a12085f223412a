"""What stands in docs/ and README.md, for tests that compare it with the code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"`([^`]+)`")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def section(name: str, title: str) -> str:
    """What stands under a heading of a page, its sub-headings included."""
    level = re.search(rf"^(#+) {re.escape(title)}$", text(name), re.MULTILINE)
    assert level, f"{name} has no section {title!r}"
    rest = text(name)[level.end() :]
    return re.split(rf"^#{{1,{len(level[1])}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def rows(part: str) -> list[list[str]]:
    """The cells of the tables' rows, without their headings."""
    tables = re.findall(r"^\|[-| ]+\|\n((?:\|.*\|\n?)+)", part, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for table in tables for line in table.splitlines()]


def codes(part: str) -> list[str]:
    """What stands as code in the first cell of each row."""
    return [code for row in rows(part) for code in CODE.findall(row[0])]
