"""The diagram of docs/job-lifecycle.md has every transition that random lives of jobs go through."""

from __future__ import annotations

import contextlib
import random
import re
from pathlib import Path

import pytest

from functions.domain.waiting import WaitKind
from tests.architecture.test_docs import codes, section
from tests.faults import Crash
from tests.unit.test_state_row import Story

PAGE = Path(__file__).parents[2] / "docs" / "job-lifecycle.md"
RARE = 10
"""Transitions that so few lives may miss: each takes a quarantine, or a change at the right moment."""


class Watched(Story):
    """A random life that tells each change of the job's status."""

    def __init__(self, choose: random.Random, seen: set[tuple[str, str]]) -> None:
        self.seen = seen
        self.statuses: dict[str, str] = {}
        super().__init__(choose)

    def after(self, when: str, name: str) -> None:
        if when == "after" and name in ("jobs.save", "jobs.create"):
            for row in self.world.jobs.rows.values():
                before = self.statuses.get(row.id, "[*]")
                if row.status.value != before:
                    self.seen.add((before, row.status.value))
                    self.statuses[row.id] = row.status.value
        super().after(when, name)


@pytest.mark.slow
def test_every_transition_that_happens_is_drawn_and_no_other() -> None:
    drawn = set(re.findall(r"^    (\S+) --> (\S+):", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    seen: set[tuple[str, str]] = set()
    for number in range(400):
        with contextlib.suppress(Crash):
            story = Watched(random.Random(number), seen)
            for _ in range(40):
                story.step()
    assert seen <= drawn
    assert len(drawn - seen) <= RARE, drawn - seen


def test_what_a_run_may_wait_for_is_on_the_page() -> None:
    assert codes(section("docs/job-lifecycle.md", "What a run waits for")) == [kind.value for kind in WaitKind]
