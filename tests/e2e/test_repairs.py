"""What dies or gets lost on the way is brought back by the sweep."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.stack import instant, until

if TYPE_CHECKING:
    from gnomon.client import Client
    from tests.e2e.stories import KilledRun, LostHint
    from tests.e2e.target import Endpoint

pytestmark = pytest.mark.e2e

LEASE_MARGIN = 15
"""Seconds an attempt's lease outlives its timeout."""
SWEPT = 120
"""Seconds after the lease within which the sweep has repaired what was lost."""
UNTOLD = 30
"""Seconds after which somebody must look at a due job."""
MINUTE = 60
"""Seconds between two sweeps."""
GRACE = 15
"""Seconds for the sweep's own way: the emulator's schedules tick every ten."""


@pytest.mark.timeout(240)
def test_killed_process_loses_no_run(scheduler: Client, endpoint: Endpoint, killed_run: KilledRun) -> None:
    latest = killed_run.killed + killed_run.timeout_seconds + LEASE_MARGIN + SWEPT
    until(
        lambda: scheduler.get_job(killed_run.job_id)["status"] == "COMPLETED",
        seconds=max(1.0, latest - time.time()),
        every=1,
        hint="the killed run is repeated",
    )
    second, first = scheduler.history(killed_run.job_id)
    assert (first["attempt"], first["status"], first["final"]) == (1, "FAILED", False)
    assert first["error"]["code"] == "WORKER_LOST"
    assert (second["attempt"], second["status"], second["final"]) == (2, "COMPLETED", True)
    assert instant(second["completedAt"]) <= latest
    assert first["runId"] == second["runId"]
    assert second["fence"] > first["fence"]
    assert [call.headers["gnomon-attempt"] for call in endpoint.calls(killed_run.job_id)] == ["1", "2"]


@pytest.mark.timeout(150)
def test_lost_hint_is_brought_by_the_sweep(scheduler: Client, endpoint: Endpoint, lost_hint: LostHint) -> None:
    latest = lost_hint.due + UNTOLD + MINUTE + GRACE
    (execution,) = until(
        lambda: [each for each in scheduler.history(lost_hint.job_id) if each["status"] == "COMPLETED"],
        seconds=max(1.0, latest - time.time()),
        every=1,
        hint="the job that nobody was told of runs",
    )
    assert instant(execution["scheduledFor"]) == lost_hint.due
    assert lost_hint.due + UNTOLD <= instant(execution["startedAt"]) <= latest
    assert len(endpoint.calls(lost_hint.job_id)) == 1
