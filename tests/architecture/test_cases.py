"""Every case in tests/cases/ is proven by a test that names it, or is listed here as not built yet."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit import test_cron

TESTS = Path(__file__).parents[1]
CASES = TESTS / "cases"
NOT_BUILT = {
    30: "bulk cancel",
}
"""Number of a scenario to what of Gnomon it waits for."""
IN_PART = {
    8: "its notification: notifications are not built",
}
"""Scenarios whose tests leave a part out, and why."""


def scenarios() -> dict[int, str]:
    lines = (CASES / "scenarios.md").read_text(encoding="utf-8").splitlines()
    return {int(match[1]): match[2] for line in lines if (match := re.match(r"(\d+)\. (.+)", line))}


def marks(source: str) -> set[int]:
    """The numbers of the `pytest.mark.case(…)` decorators in a module."""
    return {
        decorator.args[0].value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.case"
        if isinstance(decorator.args[0], ast.Constant) and isinstance(decorator.args[0].value, int)
    }


def proven() -> set[int]:
    return {number for path in TESTS.rglob("test_*.py") for number in marks(path.read_text(encoding="utf-8"))}


def test_the_scenarios_are_numbered_without_a_hole() -> None:
    assert list(scenarios()) == list(range(1, len(scenarios()) + 1))


@pytest.mark.slow
def test_every_scenario_has_a_test_or_a_reason() -> None:
    assert set(scenarios()) - proven() == set(NOT_BUILT)


@pytest.mark.slow
def test_no_test_names_a_scenario_that_is_not_there() -> None:
    assert proven() <= set(scenarios())


@pytest.mark.slow
def test_what_is_proven_in_part_is_proven() -> None:
    assert set(IN_PART) <= proven()
    assert all({**NOT_BUILT, **IN_PART}.values())


def test_a_mark_is_seen_on_functions_and_classes() -> None:
    source = "@pytest.mark.case(3)\nclass A:\n  @pytest.mark.slow\n  @pytest.mark.case(4)\n  def b(self): ...\n"
    assert marks(source) == {3, 4}


CRON: dict[str, Any] = json.loads((CASES / "cron.json").read_text(encoding="utf-8"))
TABLES = {
    "slots": (test_cron.TestCases.test_slots, "cron-{}"),
    "refused": (test_cron.TestCases.test_refused, "cron-refused-{}"),
    "zones_refused": (test_cron.TestCases.test_zone_refused, None),
    "zones_accepted": (test_cron.TestCases.test_zone_accepted, None),
}


@pytest.mark.parametrize("table", TABLES)
def test_every_line_of_the_cron_cases_is_a_test_of_its_own(table: str) -> None:
    function, form = TABLES[table]
    [parametrized] = [mark for mark in function.pytestmark if mark.name == "parametrize"]
    assert parametrized.args[1] == CRON[table]
    if form is not None:
        assert parametrized.kwargs["ids"] == [form.format(number) for number in range(len(CRON[table]))]


def test_no_table_of_the_cron_cases_is_left_out() -> None:
    assert set(CRON) - {"about"} == set(TABLES)
