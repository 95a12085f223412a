"""The simulation and the tests can fail: each way of breaking the code is noticed.

CI plays the mutants that break a rule of docs/protocol.md. `make nightly` plays the others.
"""

from __future__ import annotations

import re

import pytest

from tests.simulation.mutant import GRAPHS, SIMULATION, Mutant, m
from tests.simulation.mutant_list import EXCLUDED, MUTANTS
from tests.simulation.mutants import ROOT, SEEDS, compile_edited, edits_by_module, in_a_process

NIGHTLY = (pytest.mark.nightly, pytest.mark.timeout(1_200))
"""The simulation may need all its stories."""
PLACES = re.compile(r"^#+ (\d(?:\.\d)?)\.? ", re.M)


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(one, id=one.name, marks=pytest.mark.slow if one.rule else NIGHTLY) for one in MUTANTS],
)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    assert in_a_process(mutant, SEEDS).by is not None, mutant.what


def test_each_mutant_fits_the_code_of_today() -> None:
    """The texts to replace are there, once, and what comes of it compiles."""
    out_of_date = []
    for mutant in MUTANTS:
        try:
            for module, edits in edits_by_module(mutant).items():
                compile_edited(module, edits)
        except (OSError, SyntaxError, ValueError) as error:
            out_of_date.append(f"{mutant.name}: {error}")
        if mutant.by not in (SIMULATION, GRAPHS) and not _is_there(mutant.by):
            out_of_date.append(f"{mutant.name}: there is no {mutant.by}")
    assert not out_of_date, "\n".join(out_of_date)


def _is_there(test: str) -> bool:
    """Whether there is this file of tests, and in it the classes and functions that `test` names."""
    file, *names = test.split("::")
    source = (ROOT / file).read_text("utf-8") if (ROOT / file).is_file() else ""
    return bool(source) and all(re.search(rf"^ *(def|class) {name}\b", source, re.M) for name in names)


@pytest.mark.parametrize(
    ("text", "replacement", "error"),
    [
        ("no such text", "", ValueError),
        ("return", "pass", ValueError),  # it is there more than once
        ("LEASE_GRACE = 5\n", "LEASE_GRACE = (5\n", SyntaxError),
    ],
)
def test_a_mutant_that_does_not_fit_is_an_error(text: str, replacement: str, error: type[Exception]) -> None:
    broken = m("broken", "does not apply", ("domain/lease.py", text, replacement))
    for module, edits in edits_by_module(broken).items():
        with pytest.raises(error):
            compile_edited(module, edits)


def test_mutants_have_names_of_their_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names) >= 25
    assert not set(names) & set(EXCLUDED)


def test_each_rule_that_ci_breaks_is_in_the_protocol() -> None:
    """A place, such as 1.3, and words of it, or the number of a form that was not right, such as V4."""
    protocol = (ROOT / "docs/protocol.md").read_text("utf-8").replace("**", "")
    _, *parts = PLACES.split(protocol)
    sections = {place: " ".join(text.split()) for place, text in zip(parts[::2], parts[1::2], strict=True)}
    rules = [mutant.rule for mutant in MUTANTS if mutant.rule]
    assert len(set(rules)) == len(rules)
    assert 50 <= len(rules) <= 70
    for rule in rules:
        place, _, words = rule.partition(" ")
        assert words in sections[place] if words else f"- {place} " in protocol, rule
