"""Prints the model: `python -m bench.scaling`; `--write` puts it into docs/scaling.md."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from bench.__main__ import show
from bench.scaling import page

PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__)
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        PAGE.write_text(page.rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    for table in page.tables():
        show(Console(), table)


if __name__ == "__main__":
    main()
