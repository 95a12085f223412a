"""How the benchmark sums up starts and arrivals, and says that it measured nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from bench.lateness import Lateness, measure_lateness, percentile, summary
from bench.tables import lateness_table

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (0.995, 100), (1.0, 100), (0.01, 1), (0.001, 1)])
def test_percentiles_are_values_by_nearest_rank(share: float, value: int) -> None:
    assert percentile([*range(100, 0, -1)], share) == value


def test_of_sixty_jobs_the_slowest_is_the_99th_percentile() -> None:
    assert percentile([*range(60)], 0.99) == 59


def test_a_job_that_did_not_arrive_is_lost_and_the_row_over() -> None:
    measured = summary({"a": 100, "b": 101, "c": 102}, {"a": 100.2, "b": None, "c": 102.1}, {"a": 100.4, "b": 101.5})

    assert measured.started == pytest.approx([0.2])
    assert measured.arrived == pytest.approx([0.4])
    assert measured.lost == 2
    assert [row[-1] for row in lateness_table([measured]).rows] == ["OVER", "OVER"]


def test_both_clocks_are_judged_by_the_99th_percentile() -> None:
    table = lateness_table([Lateness(started=[0.1] * 59 + [1.5], arrived=[0.1] * 59 + [1.51])])

    assert [(row[2], row[3], row[-1]) for row in table.rows] == [("0.100", "1.500", "kept"), ("0.100", "1.510", "OVER")]


def test_without_a_stack_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GNOMON_STACK", raising=False)
    (skipped,) = measure_lateness()

    assert skipped.skipped == "no stack is up; `make up` starts one"
    assert lateness_table([skipped]).rows[0][0] == "skipped: no stack is up; `make up` starts one"

    (tmp_path / "stack.json").write_text(json.dumps({"tokens": {}}), encoding="utf-8")
    monkeypatch.setenv("GNOMON_STACK", str(tmp_path / "stack.json"))
    (broken,) = measure_lateness()
    assert "lacks apiUrl or tokens" in broken.skipped


def test_when_nothing_started_the_row_is_over() -> None:
    assert lateness_table([Lateness(started=(), arrived=(), lost=3)]).rows[0][-1] == "OVER"
