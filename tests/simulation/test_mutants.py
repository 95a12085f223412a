"""The simulation and the tests can fail: each way of breaking the code is noticed."""

from __future__ import annotations

import pytest

from tests.simulation.mutant import Mutant
from tests.simulation.mutant_list import MUTANTS
from tests.simulation.mutants import SEEDS, in_a_process


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    assert in_a_process(mutant, SEEDS).by is not None, mutant.what


def test_mutants_have_names_of_their_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names) >= 25
