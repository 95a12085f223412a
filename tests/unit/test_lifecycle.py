"""No write of any story leaves the table of transitions, and nothing in the table is made up."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functions.domain.commands import decide_change, decide_execute, decide_resume
from functions.domain.decision import Write
from functions.domain.ending import decide_end
from functions.domain.ids import slot_id
from functions.domain.job import Job, JobStatus, Upstream
from functions.domain.lifecycle import RUN_TRANSITIONS, TRANSITIONS, diagram, may_become, run_may_become
from functions.domain.quarantine import quarantined
from functions.domain.run import LastRun, Outcome, RunState
from functions.domain.upstream import Parent
from functions.domain.visit import MAX_WAKES, decide_visit
from tests.factories import NOW, make_definition, make_job, make_run, new_id
from tests.faults import Crash
from tests.unit.test_state_row import Story

PAGE = Path(__file__).parents[2] / "docs" / "job-lifecycle.md"
Seen = set[tuple[JobStatus | None, JobStatus]]
RunsSeen = set[tuple[RunState | None, RunState | None]]


class Watched(Story):
    """A random life that remembers every change of a status or of a run's state."""

    def __init__(self, choose: random.Random, seen: Seen, runs_seen: RunsSeen) -> None:
        self.seen, self.runs_seen = seen, runs_seen
        self.known: dict[str, Job] = {}
        super().__init__(choose)

    def after(self, when: str, name: str) -> None:
        if when == "after" and name in ("jobs.save", "jobs.create"):
            for row in self.world.jobs.rows.values():
                self.compare(self.known.get(row.id), row)
                self.known[row.id] = row
        super().after(when, name)

    def compare(self, before: Job | None, after: Job) -> None:
        old = None if before is None else before.status
        assert may_become(old, after.status), f"{old} to {after.status}"
        if old is not after.status:
            self.seen.add((old, after.status))
        runs = {} if before is None else before.runs
        for slot in {*runs, *after.runs}:
            states = tuple(None if slot not in each else each[slot].state for each in (runs, after.runs))
            assert run_may_become(*states), f"{states[0]} to {states[1]}"
            if states[0] is not states[1]:
                self.runs_seen.add((states[0], states[1]))


def live(seed: int, steps: int, seen: Seen, runs_seen: RunsSeen) -> None:
    try:
        story = Watched(random.Random(seed), seen, runs_seen)
    except Crash:
        return
    for number in range(steps):
        if number == steps // 2 and seed % 5 == 0:  # nobody can read it any more: it ends in quarantine
            story.world.jobs.lose_definition(story.job.id)
            for _ in range(14):
                story.world.clock.advance(901)
                story.driver.sweep_now()
        story.step()


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(min_value=0, max_value=2**48), steps=st.integers(min_value=2, max_value=60))
def test_no_write_leaves_the_table(seed: int, steps: int) -> None:
    live(seed, steps, set(), set())


QUARANTINED_RETRY = make_job(
    next_slot=None,
    wakes=MAX_WAKES,
    runs={slot_id(NOW): make_run(state=RunState.WAITING, attempt=1, due_at=NOW)},
)
ENDED = LastRun(slot_id=slot_id(NOW), attempt=1, outcome=Outcome.COMPLETED, fence=1, ended_at=NOW)
NOTHING_LEFT = make_definition(maxRuns=1)


def _quarantine(job: Job) -> Job:
    write = decide_visit(job, now=NOW + 90, read_at=NOW + 90, feeding=True)
    assert isinstance(write, Write)
    [slot] = [slot for slot, run in write.job.runs.items() if run.verdict is not None]
    execution = quarantined(write.job, slot, wakes=MAX_WAKES, now=NOW + 90, write_id="w")
    end = decide_end(write.job, execution, fence=write.job.runs[slot].fence, now=NOW + 90)
    assert isinstance(end, Write)
    return end.job


def _nothing_left(job: Job) -> Job:
    return decide_change(job, NOTHING_LEFT, enabled=None, now=NOW, write_id="w").job


def _failed(job: Job) -> Job:
    return replace(job, last_run=replace(ENDED, outcome=Outcome.PERMANENTLY_FAILED))


def _ended(outcome: Outcome, **changes: Any) -> Job:
    return make_job(next_slot=None, last_run=replace(ENDED, outcome=outcome), **changes)


def _executed(job: Job) -> tuple[Job, Job]:
    return job, decide_execute(job, f"{NOW}mabcdefgh", now=NOW, write_id="w").job


def _given_parents(job: Job) -> tuple[Job, Job]:
    definition = make_definition(schedule=None, dependsOn=[{"jobId": new_id()}])
    parents = {definition.depends_on[0].job_id: Parent(over=False)}
    return job, decide_change(job, definition, enabled=None, now=NOW, write_id="w", parents=parents).job


def _skipped(**changes: Any) -> Job:
    """A job that was skipped, and whose parents are over."""
    waits = {"schedule": None, "dependsOn": [{"jobId": new_id()}]}
    return _ended(Outcome.SKIPPED, document=waits, upstream=Upstream(marks=(1,)), **changes)


LEFT = [
    make_job(starts=1, last_run=ENDED),
    make_job(starts=1, last_run=ENDED, paused=True),
    _failed(make_job(starts=1, paused=True)),
]
OUTCOMES = (Outcome.COMPLETED, Outcome.PERMANENTLY_FAILED, Outcome.CANCELLED)
AT_REST = [_skipped(), *(_ended(outcome) for outcome in OUTCOMES)]
PAUSED = [_skipped(paused=True), *(_ended(outcome, paused=True) for outcome in OUTCOMES)]
ONE_TIME = {"schedule": {"type": "once", "at": "2027-01-15T08:01:00Z"}}
RARE = [
    *((job, _quarantine(job)) for job in (QUARANTINED_RETRY, make_job(wakes=MAX_WAKES, document=ONE_TIME))),
    *((job, _nothing_left(job)) for job in (*LEFT, _skipped(starts=1))),
    *(_given_parents(job) for job in AT_REST),
    *(_executed(job) for job in (*AT_REST, *PAUSED)),
]
"""Rows before and after a write that a story seldom comes to."""


@pytest.mark.slow
def test_everything_in_the_table_happens() -> None:
    seen: Seen = {(before.status, after.status) for before, after in RARE}
    runs_seen: RunsSeen = set()
    assert all(may_become(before.status, after.status) for before, after in RARE)
    for seed in range(350):
        live(seed, 45, seen, runs_seen)
    assert {(one.before, one.after) for one in TRANSITIONS} - seen == set()
    assert {(one.before, one.after) for one in RUN_TRANSITIONS} - runs_seen == set()


def test_the_end_of_a_schedule_in_a_pause() -> None:
    job = make_job(paused=True, last_run=ENDED, document={"endAt": "2027-01-15T08:02:00Z"})
    write = decide_resume(job, now=NOW + 500, write_id="w")
    assert isinstance(write, Write)
    assert (job.status, write.job.status) == (JobStatus.PAUSED, JobStatus.COMPLETED)
    assert write.job.gap is not None
    assert write.job.gap.count == 2


def test_each_line_is_there_once() -> None:
    pairs = [(one.before, one.after) for one in TRANSITIONS]
    assert len(pairs) == len(set(pairs))
    assert all(one.before is not one.after for one in TRANSITIONS)
    assert {one.after for one in TRANSITIONS} == set(JobStatus)
    assert not may_become(JobStatus.COMPLETED, JobStatus.RUNNING)
    assert not may_become(None, JobStatus.RUNNING)
    assert not run_may_become(RunState.QUEUED, RunState.RUNNING)


def test_the_page_draws_this_table() -> None:
    [drawn] = re.findall(r"```mermaid\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert drawn == diagram(), 'python -c "from functions.domain.lifecycle import diagram; print(diagram())"'
