"""What each shape of job uses, counted on the real handlers: it does not grow unnoticed (docs/benchmarks.md)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from bench.shapes import AT_ONCE, CRON, FILLS, IN_TWO_HOURS, WITH_RETRIES, WORKER, Shape, count_shapes, idle_tick
from bench.sweep_reads import measure_sweep
from bench.usage import Usage, usage_of
from functions.adapters.dynamodb_keys import SHARDS

LIMITS = 0.02
"""Two write units a request of 100 jobs: one counts the request, one the jobs."""


@cache
def counted() -> Mapping[tuple[str, int], Shape]:
    return {(shape.name, shape.fill): shape for shape in count_shapes()}


def usage(name: str, fill: int = 10) -> Usage:
    return counted()[name, fill].usage()


@pytest.mark.parametrize(
    ("name", "write_units", "read_units", "batches"),
    [
        (AT_ONCE, 3 + LIMITS + 3, 1, 1),
        (IN_TWO_HOURS, 3 + LIMITS + 3, 2, 1),  # The hint sent on reads the row once more.
        (WITH_RETRIES, 3 + LIMITS + 3 * 5 + 4, 4, 4),
        (CRON, 5, 1, 1),
        # Put, offered 2; claim 1, intention 1, report 1 and 2, and both requests' limits.
        # The hint of its deadline reads the row once more.
        (WORKER, 3 + LIMITS + 2 + 4 + 4, 6 + 1, 0),
    ],
)
def test_capacity_units_of_a_job(name: str, write_units: float, read_units: float, batches: int) -> None:
    """Put 3 (row, owner and attention index); start 1; end 2 (row, attention index), or history 1 and end 2, or 3 where
    the attention moves. Each batch that starts attempts counts its share once, or twice where its starts are
    seconds apart, or those of the batch before were not counted to their end."""
    for fill in FILLS:
        shape = counted()[name, fill]
        most = write_units + batches * min(1, 2 / fill)
        assert shape.usage().write_units <= most + 1e-9, [step.what for step in shape.steps]
        assert shape.usage().read_units <= read_units + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "fill", "requests"),
    [
        (AT_ONCE, 1, 0.1 + 2),
        (AT_ONCE, 10, 0.1 + 0.2),
        (IN_TWO_HOURS, 1, 1 + 2 + 1 + 2),  # Scheduler's message and the one sent on, each received and deleted.
        (IN_TWO_HOURS, 10, 1 + 0.2 + 1 + 0.2),
        (WITH_RETRIES, 1, 0.1 + 4 * 2 + 3),
        (CRON, 1, 2 + 1),
        (CRON, 10, 0.2 + 1),
        (WORKER, 1, 0.1 + 2 + 1 + 2),  # The hint that offers it, and the one of its deadline.
        (WORKER, 10, 0.1 + 0.2 + 0.1 + 0.2),
    ],
)
def test_queue_requests_of_a_job(name: str, fill: int, requests: float) -> None:
    assert usage(name, fill).sqs_requests <= requests + 1e-9


def test_only_far_jobs_are_fired_by_the_scheduler() -> None:
    assert {name: usage(name).schedules for name in (AT_ONCE, IN_TWO_HOURS, WITH_RETRIES, CRON)} == {
        AT_ONCE: 0,
        IN_TWO_HOURS: 1,
        WITH_RETRIES: 0,
        CRON: 0,
    }


def test_success_is_not_logged_job_by_job() -> None:
    """One line of metrics a batch; ten jobs of it are not ten times one."""
    one, ten = (len(counted()[AT_ONCE, fill].steps[-1].log) for fill in FILLS)

    assert 0 < one < 400
    assert ten < 2 * one


def test_an_idle_tick_reads_the_index_and_counts_the_queues() -> None:
    tick = usage_of(idle_tick())

    assert tick.write_units == 0
    assert tick.read_units <= SHARDS / 2  # Half a unit each.
    assert tick.sqs_requests <= 3


@pytest.mark.slow
def test_the_sweep_reads_only_what_needs_attention() -> None:
    """A hundred of these jobs are overdue; in memory of ten thousand, by DynamoDB's adapter of a thousand."""
    in_memory, on_moto = measure_sweep(scheduled=10_000)

    assert (in_memory.overdue, in_memory.rows_read, in_memory.entries_read, in_memory.woken) == (10, 10, 10, 10)
    assert (on_moto.overdue, on_moto.rows_read, on_moto.entries_read, on_moto.woken) == (100, 100, 100, 100)
