"""A job's hints go to the queue of its priority."""

from __future__ import annotations

from functions.domain.commands import decide_change, new_job
from functions.domain.definition import Priority
from tests.factories import JOB_ID, NOW, make_definition


def test_priority_of_a_new_and_of_a_changed_job() -> None:
    high = make_definition(priority="high")
    job = new_job(JOB_ID, high, owner="team-a", created_by="alice", enabled=True, now=NOW, write_id="w1")
    assert job.priority is Priority.HIGH
    changed = decide_change(job, make_definition(priority="low"), enabled=None, now=NOW, write_id="w2")
    assert changed.job.priority is Priority.LOW
    back = decide_change(changed.job, make_definition(), enabled=None, now=NOW, write_id="w3")
    assert back.job.priority is Priority.NORMAL
