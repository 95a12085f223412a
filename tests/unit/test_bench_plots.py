"""The pictures are drawn from results and nothing else; without results there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench import plots
from bench.costs import Costs, beside, cost_of, standing
from bench.lateness import Lateness
from bench.shapes import AT_ONCE, FILLS
from bench.usage import Usage
from tests.unit.test_bench_costs import TIMES, shape

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "COST_PNG", tmp_path / "cost.png")
    monkeypatch.setattr(plots, "LATENESS_PNG", tmp_path / "lateness.png")


def test_the_picture_of_lateness_follows_the_numbers(tmp_path: Path) -> None:
    pictures = []
    for seconds in (0.5, 0.5, 0.9):
        plots.plot("lateness", [Lateness(started=[0.1, seconds], arrived=[0.2, seconds])])
        pictures.append((tmp_path / "lateness.png").read_bytes())

    assert pictures[0].startswith(PNG)
    assert pictures[0] == pictures[1]
    assert pictures[0] != pictures[2]


def test_without_a_stack_the_last_picture_stays(tmp_path: Path) -> None:
    plots.plot("lateness", [Lateness(started=(), arrived=(), skipped="no stack")])

    assert not (tmp_path / "lateness.png").exists()


@pytest.mark.slow
def test_the_picture_of_costs_is_drawn(tmp_path: Path) -> None:
    costs = [cost_of(shape(AT_ONCE, fill), TIMES, Usage()) for fill in FILLS]
    plots.plot("costs", [Costs(times=TIMES, shapes=costs, beside=beside(costs), standing=standing(Usage()))])

    assert (tmp_path / "cost.png").read_bytes().startswith(PNG)
