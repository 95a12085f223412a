"""The threat table of docs/security.md names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_WORDS = 1_300
"""Two printed pages."""


def page() -> str:
    return (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_each_threat_names_tests_that_are_there() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (tests/[^|]+) \|$", page(), re.MULTILINE)
    assert len(rows) >= 15
    for threat, _, tests in rows:
        for path in tests.split(", "):
            assert (ROOT / path).is_file(), f"{threat}: {path}"
            assert "def test_" in (ROOT / path).read_text(encoding="utf-8")


def test_it_fits_two_pages() -> None:
    assert len(page().split()) <= MOST_WORDS
