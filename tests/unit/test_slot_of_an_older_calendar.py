"""A stored next slot that the schedule no longer names, as after an update of the time zone database."""

from __future__ import annotations

import pytest

from functions.domain.decision import Write
from functions.domain.dispatch import decide_hint
from functions.domain.ids import slot_id
from tests.factories import NOW, make_hint, make_job

STORED = NOW + 30
"""Between two slots of the interval job."""


@pytest.mark.parametrize(("misfire", "late"), [("run_once", 95), ("run_all", 95), ("skip", 95), ("skip", 700)])
def test_it_is_started_or_skipped_like_any_other(misfire: str, late: int) -> None:
    job = make_job(next_slot=STORED, document={"misfirePolicy": misfire, "misfireGraceSeconds": 30})

    decided = decide_hint(job, make_hint(slot_id=slot_id(STORED)), now=STORED + late, write_id="w")

    assert isinstance(decided, Write)
    taken = decided.starts is not None and int(decided.starts) == STORED
    gap = decided.job.gap
    assert taken or (gap is not None and gap.first == STORED <= gap.last and gap.count >= 1)
    assert decided.job.next_slot is not None
    assert decided.job.next_slot > (decided.job.last_slot or 0) >= STORED
    assert (decided.job.next_slot - NOW) % 60 == 0
