"""What the model of docs/scaling.md takes a job to cost is what the real code is counted to do."""

from __future__ import annotations

import pytest

from bench.aws_calls import count_calls
from bench.scaling import work
from bench.scaling.work import SINGLE


@pytest.mark.slow
def test_units_of_a_one_time_job() -> None:
    counted = {one.what: one for one in count_calls()}
    whole = counted["one-time job: both"]
    alone = 1 - work.SHARE_WRITES  # its batch has no other start
    assert whole.write_units == pytest.approx(SINGLE.writes + alone)
    assert whole.read_units == work.READS
    assert len([call for call in whole.calls if "SendMessage" in str(call)]) == SINGLE.sends
    run = counted["one-time job: started and ended"]
    assert len(run.calls) == work.CALLS, "the calls of an attempt that batch_seconds() waits for"
