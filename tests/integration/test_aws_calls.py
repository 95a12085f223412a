"""The budgets of calls to AWS (docs/benchmarks.md), as `make bench` counts them on the real adapters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from bench.aws_calls import Counted, count_calls

BUDGETS = {
    "POST /v1/jobs": 3,
    "POST /v1/jobs with idempotency key": 4,
    "GET /v1/jobs/{jobId}": 2,
    "GET /v1/jobs": 3,
    "GET /v1/jobs of two owners": 4,
}
APART = ", definition apart"


@cache
def counted() -> Mapping[str, Counted]:
    return {one.what: one for one in count_calls()}


@pytest.mark.parametrize(("request_", "most"), list(BUDGETS.items()))
def test_a_request_makes_no_more_calls_than_its_budget(request_: str, most: int) -> None:
    inline, apart = counted()[request_], counted()[request_ + APART]

    assert 1 <= len(inline.calls) <= most, [str(call) for call in inline.calls]
    assert len(inline.calls) < len(apart.calls) <= most + 1, [str(call) for call in apart.calls]
    assert (inline.budget, apart.budget) == (most, most + 1)


def test_only_an_owners_first_job_in_a_process_registers_the_owner() -> None:
    first = counted()["POST /v1/jobs, its owner's first in a process"]

    assert len(first.calls) == len(counted()["POST /v1/jobs"].calls) + 1


def test_a_one_time_job_that_succeeds_at_once_costs_eight_write_units() -> None:
    """Limits 1; put 3 (row, owner and attention index); the owner's share 1 (for each batch), start 1, end 2 (it leaves
    the attention index)."""
    assert counted()["one-time job: created"].write_units <= 4
    run = counted()["one-time job: started and ended"]
    assert len(run.calls) <= 4, run.calls
    assert run.write_units <= 4, run.calls
    assert run.read_units <= 1, run.calls


@pytest.mark.slow
def test_a_run_of_a_cron_job_costs_six_write_units() -> None:
    """Share of the owner 1 (for each batch), start 1, history 1, end 3 (its attention moves); its next hint is one
    message."""
    run = counted()["cron job: one run"]

    assert len(run.calls) <= 6, run.calls
    assert run.write_units <= 6, run.calls
    assert run.read_units <= 1, run.calls
    assert [call.service for call in run.calls].count("sqs") == 1


def test_only_a_callback_that_may_outlast_its_call_costs_a_write_more() -> None:
    """Its start, and one by which its target has until the deadline."""
    short, long = (counted()[f"callback within {time}: started and accepted"] for time in ("a minute", "two hours"))

    assert (short.write_units, long.write_units) == (2, 3), long.calls
    assert short.read_units == long.read_units
