"""The model of AWS under load (bench/scaling), by numbers that were worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.scaling import page, quotas, work
from bench.scaling.cost import monthly, stored_a_month, total
from bench.scaling.limits import first, limits, longest_lead, ramp
from bench.scaling.settings import (
    api_concurrency,
    caller_rows,
    executor_concurrency,
    gateway_rate,
    owner_partitions,
    pollers,
    settings,
    shards,
)
from bench.scaling.work import BULK, PATHS, SINGLE
from functions.parallel import AT_ONCE
from functions.usecases.bulk import MAX_ITEMS
from infra.stage import LOCAL, PROD

PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"


def binding(name: str, path: work.Path, stage: object = PROD) -> float:
    (limit,) = [limit for limit in limits(stage) if limit.name.startswith(name)]  # type: ignore[arg-type]
    return limit.jobs(path)


def test_page_has_the_numbers_of_the_model() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page.rewritten(text) == text, "python -m bench.scaling --write"


def test_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="the page has no"):
        page.rewritten("# Scaling\n")


def test_paths_are_those_of_the_api() -> None:
    assert (SINGLE.jobs_a_call, BULK.jobs_a_call) == (1, MAX_ITEMS)
    assert work.PUTS_AT_ONCE == AT_ONCE


def test_what_a_job_asks() -> None:
    assert (SINGLE.writes, BULK.writes) == pytest.approx((7.1, 6.11))
    assert (SINGLE.sends, BULK.sends) == (1, 0.1)
    # 5 + 5 + 8 ms of waiting, 3.16 ms of CPU at 1024 of 1769 MB.
    assert SINGLE.api_seconds == pytest.approx(0.018 + 0.00316 * 1769 / 1024)
    # The limit, 7 rounds of 16 puts, 10 sends; 111 calls and 100 jobs.
    assert BULK.api_seconds == pytest.approx(0.005 + 0.035 + 0.080 + 0.127 * 1769 / 1024)
    assert work.batch_seconds() == pytest.approx(0.070 + 0.040 * 1769 / 512)


@pytest.mark.parametrize(
    ("name", "single", "bulk"),
    [
        ("a caller's creations a day", 1000 / 86_400, 1000 / 86_400),
        ("a caller's writes a minute", 100 / 60, 10_000 / 60),
        ("an owner's partition", 1_000, 1_000),
        ("a caller's row", 1_000, 100_000),
        ("the stage's rate at the gateway", 1_000, 100_000),
        ("the 32 partitions of the index `attention`", 16_000, 16_000),
        ("the one partition of the index of dead letters", 100_000, 100_000),
        ("requests of an account", 10_000, 1_000_000),
        ("invocations of an account", 10_000 / 1.1, 10_000 / 0.11),
        ("a new table Jobs", 4_000 / 3, 4_000 / 3),
        ("write units of the table Jobs", 40_000 / 3, 40_000 / 3),
        ("schedules fired", 1_000, 1_000),
        ("schedules made", 5_000, 5_000),
    ],
)
def test_where_limits_bind(name: str, single: float, bulk: float) -> None:
    assert binding(name, SINGLE) == pytest.approx(single)
    assert binding(name, BULK) == pytest.approx(bulk)


def test_stages_differ_in_their_own_limits_alone() -> None:
    assert binding("the stage's rate at the gateway", SINGLE, LOCAL) == LOCAL.gateway_rate
    ours = {limit.name for limit in limits(LOCAL) if limit.whose == "stage"}
    same = [
        (a.name, a.holds) for a, b in zip(limits(LOCAL), limits(PROD), strict=True) if a.name not in ours and a == b
    ]
    assert len(same) == len(limits(PROD)) - len(ours)


def test_what_binds_first() -> None:
    found = limits(PROD)
    single = first(found, SINGLE, scope="all", whose=("quota", "AWS"))
    bulk = first(found, BULK, scope="all", whose=("quota", "AWS"))
    assert single.name == "invocations of an account's functions"
    assert bulk.name == "write units of the table Jobs"
    assert first(found, BULK, scope="one caller", whose=("design",)).name.startswith("an owner's partition")


@pytest.mark.parametrize(("rate", "needed"), [(1, 1), (350, 1), (351, 2), (2_800, 8), (2_801, 16), (10_000, 32)])
def test_partitions_of_attention(rate: float, needed: int) -> None:
    assert shards(rate) == needed
    assert rate * work.ATTENTION_WRITES / needed <= quotas.PARTITION_WRITES.value * 0.7


def test_settings_for_ten_thousand() -> None:
    assert owner_partitions(10_000) == 16
    assert (caller_rows(10_000, SINGLE), caller_rows(10_000, BULK)) == (16, 1)
    assert pollers(10_000) == 143
    assert executor_concurrency(10_000) == 298
    assert (gateway_rate(10_000, SINGLE), gateway_rate(10_000, BULK)) == (14_286, 143)
    assert api_concurrency(10_000, SINGLE) == 1_429, "ten calls a second for each execution at once"
    assert api_concurrency(10_000, BULK) == 49


@pytest.mark.parametrize("path", PATHS)
def test_little_needs_nothing_changed(path: work.Path) -> None:
    changed = {one.what for one in settings(0.01, path, PROD) if not one.enough}
    assert changed == {"provisioned pollers of the run queue"}


def test_queue_in_standard_mode_keeps_up_only_after_a_while() -> None:
    assert ramp(100).seconds == 0
    assert ramp(100).waiting == 0
    steep = ramp(10_000)
    needed = 1_000 * work.batch_seconds()
    assert steep.seconds == pytest.approx((needed - 5) / 5)
    assert steep.lateness == pytest.approx(steep.seconds / 2 * (1 - 5 / needed), rel=1e-3)
    assert ramp(20_000).lateness > steep.lateness


def test_schedules_run_out() -> None:
    assert longest_lead(1_000) == 10_000


def test_bill() -> None:
    bulk = {row.what: row.dollars for row in monthly(10_000, BULK, provisioned=False)}
    jobs = 10_000 * 730 * 3600
    assert bulk["DynamoDB, writes"] == pytest.approx(jobs * 6.11 * 0.625e-6)
    assert bulk["HTTP API"] == pytest.approx(262.8), "below the tier"
    assert bulk["SQS"] == pytest.approx(jobs * 0.3 * 0.4e-6)
    single = {row.what: row.dollars for row in monthly(10_000, SINGLE, provisioned=False)}
    assert single["HTTP API"] == pytest.approx(300 + (jobs / 1e6 - 300) * 0.9)
    cheaper = total(monthly(10_000, BULK, provisioned=True))
    assert cheaper < sum(bulk.values()) < sum(single.values())


def test_bill_grows_with_the_rate() -> None:
    one, ten = (total(monthly(rate, BULK, provisioned=False)) for rate in (100, 1_000))
    assert ten == pytest.approx(10 * one, rel=0.02)
    assert stored_a_month(1_000) == pytest.approx(10 * stored_a_month(100))
