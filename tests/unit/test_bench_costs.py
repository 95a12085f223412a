"""How the benchmark turns counted calls into dollars, by hand on small numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import prices
from bench.call_log import Call
from bench.cost_tables import cost_tables
from bench.costs import METRICS, PLATFORM_LINES, Costs, beside, cost_of, standing
from bench.event_costs import told_of_a_success
from bench.function_time import CALL_SECONDS, MB_OF_A_PROCESSOR, TARGET_SECONDS, FunctionTimes
from bench.page import markdown
from bench.prices import ALTERNATIVES, MILLION, Price
from bench.shapes import AT_ONCE, CRON, IN_TWO_HOURS, Shape, Step
from bench.usage import Usage, dollars, polled, scheduled, usage_of
from functions import telemetry

PUT = Call("dynamodb", "PutItem", "jobs", write_units=3)
GET = Call("dynamodb", "GetItem", "jobs", read_units=1)
SEND = Call("sqs", "SendMessageBatch", "run-normal")
TIMES = FunctionTimes(bulk_request=0.01, one_request=0.001, hint_batches={1: 0.001, 10: 0.002}, aws_call=0.0005)


def shape(name: str = AT_ONCE, fill: int = 10) -> Shape:
    return Shape(
        name=name,
        fill=fill,
        steps=[
            Step(what="created", function="api", calls=[PUT] * 100 + [SEND] * 10, jobs=100),
            Step(what="attempt", function="executor", calls=[GET] * fill, jobs=fill, calls_target=True, log="x" * 50),
        ],
    )


def test_calls_become_units_and_requests() -> None:
    calls = [PUT, GET, SEND, Call("scheduler", "CreateSchedule", "hints")]

    assert usage_of(calls) == Usage(write_units=3, read_units=1, sqs_requests=1)


def test_a_call_whose_price_is_not_written_down_is_refused() -> None:
    with pytest.raises(ValueError, match="lambda Invoke"):
        usage_of([Call("lambda", "Invoke", "jobs")])


def test_a_message_shares_its_batch_of_the_poller() -> None:
    assert polled(1) == Usage(sqs_requests=2, lambda_requests=1)
    assert polled(10) == Usage(sqs_requests=0.2, lambda_requests=0.1)


def test_a_schedule_pays_for_its_message_too() -> None:
    assert scheduled() == Usage(schedules=1, sqs_requests=1)


def test_dollars_on_demand() -> None:
    """The prices of November 2026, written out once more: a changed price is meant to be seen here."""
    million = (
        Usage(http_requests=1, lambda_requests=1, write_units=7, read_units=1, sqs_requests=1, schedules=1) * MILLION
    )
    spent = dollars(million)

    assert (spent.api, spent.functions, spent.sqs, spent.scheduler) == pytest.approx((1.00, 0.20, 0.40, 1.00))
    assert spent.dynamodb == pytest.approx(7 * 0.625 + 0.125)
    assert spent.total == pytest.approx(1 + 0.2 + 0.4 + 1 + 4.5)
    assert dollars(Usage(gb_seconds=1000)).functions == pytest.approx(0.0133334)


def test_provisioned_capacity_is_paid_whether_it_is_used_or_not() -> None:
    """A unit a second for an hour is 3 600 units, 70 % of them used: $0.258 and $0.0516 a million."""
    spent = dollars(Usage(write_units=MILLION, http_requests=MILLION), provisioned=True)

    assert spent.dynamodb == pytest.approx(0.00065 / 3600 / 0.7 * MILLION)
    assert spent.dynamodb == pytest.approx(0.258, abs=0.001)
    assert dollars(Usage(read_units=MILLION), provisioned=True).dynamodb == pytest.approx(0.0516, abs=0.0001)
    assert spent.api == 1.00


def test_a_job_pays_its_share_of_what_it_went_through_with_others() -> None:
    usage = shape().usage()

    assert usage.write_units == 3
    assert usage.read_units == pytest.approx(1)
    assert usage.http_requests == pytest.approx(0.01)
    assert usage.lambda_requests == pytest.approx(0.01 + 0.1)
    assert usage.sqs_requests == pytest.approx(0.1 + 0.2)
    assert usage.gb_seconds == 0


def test_a_batch_waits_for_its_targets_together_and_computes_one_after_the_other() -> None:
    """Two calls a message, ten messages, half a GB: 512/1769 of a processor."""
    seconds = TIMES.executor([GET] * 20, fill=10, calls_target=True) / 0.5
    computing = (0.002 + 20 * 0.0005) * MB_OF_A_PROCESSOR / 512

    assert seconds == pytest.approx(2 * CALL_SECONDS + TARGET_SECONDS + computing)
    assert TIMES.executor([GET], fill=1, calls_target=False) < TIMES.executor([GET], fill=1, calls_target=True)


def test_a_bulk_request_puts_sixteen_at_a_time_and_sends_one_after_the_other() -> None:
    seconds = TIMES.api([PUT] * 100 + [SEND] * 10)  # 1 GB
    computing = (0.01 + 110 * 0.0005) * MB_OF_A_PROCESSOR / 1024

    assert seconds == pytest.approx((7 + 10) * CALL_SECONDS + computing)


def test_the_sweep_is_shared_by_the_jobs_of_a_day() -> None:
    tick = Usage(schedules=1)
    cost = cost_of(shape(), TIMES, tick)

    assert cost.sweep == pytest.approx(1440 / MILLION)
    assert cost.total == pytest.approx(cost.on_demand.total + cost.sweep)
    assert cost.provisioned_total < cost.total


def test_logs_count_what_the_function_and_what_lambda_writes() -> None:
    cost = cost_of(shape(), TIMES, Usage())

    assert cost.log_bytes == pytest.approx(len(PLATFORM_LINES) / 100 + (50 + len(PLATFORM_LINES)) / 10)
    logs = next(one for one in beside([cost]) if one.what == "logs")
    assert logs.by_fill == {10: pytest.approx(cost.log_bytes * MILLION / 1e9 * 0.50)}


def test_what_is_not_built_has_no_price() -> None:
    unbuilt = {one.what for one in beside([cost_of(shape(), TIMES, Usage())]) if one.by_fill is None}

    assert unbuilt == {"audit"}


def test_events_are_counted_on_the_real_code() -> None:
    told = told_of_a_success()

    assert told == (3, 3, 0), "scheduled, started, completed; how it ended is in the row"
    assert 3.0 < told.dollars(10) < told.dollars(1) < 5.0


def test_a_tick_a_minute_stands_for_a_month() -> None:
    sweep = next(one for one in standing(Usage(sqs_requests=3)) if one.what == "minute sweep")

    assert sweep.month == pytest.approx(3 * 60 * 730 * 0.40 / MILLION)


def test_all_metrics_stand_idle() -> None:
    names = {name for name, value in vars(telemetry).items() if name.isupper() and isinstance(value, str)}

    assert len(names) == METRICS


def test_what_stands_idle_is_summed_up_as_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    table = page.partition("### 8. What stands idle, $")[2].partition("###")[0]
    rows = {cells[1].strip(): cells[2].strip() for line in table.splitlines() if len(cells := line.split("|")) > 4}
    shown = {one.what: f"{one.month:.2f}" for one in standing(Usage()) if one.what != "minute sweep"}

    assert rows | shown == rows
    every = [float(rows[one.what]) for one in standing(Usage())]
    assert float(rows["all"]) == pytest.approx(sum(every), abs=0.02)
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert f"about ${float(rows['all']):.0f} a month" in readme


def test_the_readme_names_the_range_of_each_shape() -> None:
    page = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    costs: dict[str, list[float]] = {}
    for line in page.partition("### 5. A million jobs")[2].partition("###")[0].splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 10 and cells[2].isdigit():
            costs.setdefault(cells[1], []).append(float(cells[9]))

    for shape in (AT_ONCE, IN_TWO_HOURS, CRON):
        assert f"${min(costs[shape]):.1f} to ${max(costs[shape]):.1f}" in readme, shape


def test_shapes_over_their_budget_show() -> None:
    nine_units = Step(what="run", function="executor", calls=[PUT] * 30, jobs=10)
    dear = [Shape(name=name, fill=10, steps=[nine_units]) for name in (AT_ONCE, CRON)]
    costs = [cost_of(one, TIMES, Usage()) for one in (shape(fill=1), shape(), *dear)]
    report = Costs(times=TIMES, shapes=costs, beside=beside(costs), standing=standing(Usage()))
    table, units, *_, elsewhere, listed = cost_tables([report])

    assert [(row[0], row[10], row[14]) for row in table.rows] == [
        (AT_ONCE, "kept", "kept"),
        (AT_ONCE, "kept", "kept"),
        (AT_ONCE, "OVER", "kept"),
        (CRON, "OVER", ""),
    ]
    assert (f"{AT_ONCE}: created", "10", "3", "0", "0.1") in [row[:5] for row in units.rows]
    assert [float(row[1]) for row in elsewhere.rows] == sorted(float(row[1]) for row in elsewhere.rows)
    assert len(elsewhere.rows) == len(ALTERNATIVES) + 3
    assert markdown("", [listed]) in (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert ("0.0000133334", "1 Lambda GB-second on arm64") in [row[:2] for row in listed.rows]


def test_every_price_says_where_it_was_read() -> None:
    written = [one for one in vars(prices).values() if isinstance(one, Price)]

    assert len(written) >= 15
    assert all(one.source and one.unit and one.dollars > 0 for one in written)
    assert all(one.source and one.counted and one.dollars > 0 for one in ALTERNATIVES)
    assert prices.STEP_FUNCTIONS.counted == "1 000 000 Step Functions state transitions, Standard"


def test_raw_scheduler_and_queue_cost_what_they_are_made_of() -> None:
    raw = next(one for one in ALTERNATIVES if "raw" in one.name)

    assert raw.dollars == pytest.approx(1.00 + 0.40 + 0.08)
