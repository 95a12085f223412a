"""The rules of rows after every single write, and that nobody waits for ever, in small graphs reached at random."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from functions.domain.errors import GnomonError
from functions.domain.execution import ExecutionStatus
from functions.domain.hint import LOOK_SLOT, Hint
from functions.domain.job import Job
from functions.domain.outcome import Invocation, TargetAnswer
from functions.usecases.actions import execute_job, pause_job, resume_job, retry_job
from functions.usecases.cancelling import cancel_job, delete_job
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import ADMIN, Driver
from tests.fakes import World
from tests.faults import Crash, Faults
from tests.graphs import BUSY, ONCE, REFUSED
from tests.seeded import ids_of
from tests.unit.test_state_row import StepsBack, check_history, check_row

ROOTS: list[dict[str, Any]] = [
    {"schedule": ONCE},
    {"schedule": {"type": "interval", "everySeconds": 60}, "maxRuns": 4},
    {"schedule": {"type": "interval", "everySeconds": 20}, "maxRuns": 2, "overlapPolicy": "allow"},
]
RETRY = {"maxRetries": 1, "initialDelaySeconds": 5, "jitter": 0}
SETTLE = 3 * 3_600


class GraphLife:
    """A random life of four jobs, of which each may depend on those before it."""

    def __init__(self, choose: random.Random) -> None:
        self.choose, self.world, self.nested = choose, World(faults=Faults()), 0
        self.driver = Driver(self.world)
        self.world.targets.answers = [self.answer]
        self.world.faults.on_step = self.after
        self.before: dict[str, Job] = {}
        self.steps_back = StepsBack()
        self.ids: list[str] = []
        for _ in range(4):
            parents = choose.sample(self.ids, choose.randint(0, min(2, len(self.ids))))
            with contextlib.suppress(Crash, GnomonError):
                self.ids.append(self.driver.create(caller=ADMIN, retryConfig=RETRY, **self.document(parents)).id)

    def document(self, parents: list[str]) -> dict[str, Any]:
        if not parents:
            return self.choose.choice(ROOTS)
        edges = [{"jobId": one, "on": self.choose.choice(["success", "completion", "failure"])} for one in parents]
        return {
            "schedule": None,
            "dependsOn": edges,
            "join": self.choose.choice(["all", "any"]),
            "onUpstreamFailure": self.choose.choice(["skip", "fail", "run"]),
            "upstreamTimeoutSeconds": self.choose.choice([120, 86_400]),
        }

    def answer(self, _: Invocation) -> TargetAnswer:
        if self.nested < 2 and self.choose.random() < 0.3:
            self.nested += 1
            self.step()
            self.nested -= 1
        if self.choose.random() < 0.1:
            raise Crash("the owner dies in the call")
        good = TargetAnswer(status=ExecutionStatus.COMPLETED, result="1")
        return self.choose.choice([good, good, BUSY, REFUSED])

    def after(self, when: str, name: str) -> None:
        if when == "after" and name in ("jobs.save", "jobs.create"):
            for row in self.world.jobs.rows.values():
                check_row(self.driver, row, self.steps_back)
                self.check_ends(row)
                self.before[row.id] = row
        if when == "before" and name == "jobs.save" and self.nested < 2 and self.choose.random() < 0.15:
            self.nested += 1
            self.step()
            self.nested -= 1
        if self.choose.random() < 0.03:
            raise Crash(f"{when} {name}")

    def check_ends(self, row: Job) -> None:
        """Each end has the next number; those that are the row's last run no more are kept."""
        before = self.before.get(row.id)
        if row.followed is None or before is None or before.followed is None or before.seq == row.seq:
            return
        ended = row.followed.ends - before.followed.ends
        assert ended == (row.last_run != before.last_run)
        kept = self.world.history.ends
        assert all((row.id, number) in kept for number in range(max(1, before.followed.ends), row.followed.ends))
        if row.upstream is not None and before.upstream is not None and len(row.upstream.marks) == 1:
            assert row.revision > before.revision or row.upstream.marks >= before.upstream.marks

    def step(self) -> None:
        with contextlib.suppress(GnomonError, Crash):
            self.choose.choice([self.deliveries] * 6 + [self.sweep, self.request, self.request])()

    def deliveries(self) -> None:
        timetable, clock = self.world.timetable, self.world.clock
        clock.advance(self.choose.choice([0, 0, 1, 10, 31, 65, 400]))
        due = timetable.take_due()
        self.choose.shuffle(due)
        for delivery in due:
            if self.choose.random() < 0.1:
                continue  # lost
            self.driver.deliver(delivery)
            if self.choose.random() < 0.1:
                self.driver.deliver(delivery)
        if self.choose.random() < 0.2:
            self.driver.deliver_hint(Hint(self.choose.choice(self.ids), LOOK_SLOT, 0))

    def sweep(self) -> None:
        self.world.clock.advance(self.choose.choice([0, 30, 60]))
        self.driver.sweep_now()

    def request(self) -> None:
        services, one = self.driver.services, self.choose.choice(self.ids)
        kinds = [
            pause_job,
            resume_job,
            resume_job,
            execute_job,
            *([cancel_job, delete_job] * (self.choose.random() < 0.2)),
        ]
        kinds.append(lambda *who: retry_job(*who, delay_seconds=0))
        kinds.append(self.rewire)
        self.choose.choice(kinds)(services, ADMIN, one)

    def rewire(self, services: Any, caller: Any, job_id: str) -> None:
        """On any of the others: some of these would close a cycle."""
        parents = self.choose.sample([one for one in self.ids if one != job_id], min(2, len(self.ids) - 1))

        def change(row: Job) -> JobDraft:
            kept = row.defined.document
            if "dependsOn" not in kept or not parents:
                return JobDraft(document=dict(kept), payload="{}")
            return JobDraft(document={**kept, "dependsOn": [{"jobId": one} for one in parents]}, payload="{}")

        change_job(services, caller, job_id, change=change)


@contextlib.contextmanager
def _life(seed: int, steps: int) -> Iterator[GraphLife]:
    with ids_of(seed):
        life = GraphLife(random.Random(seed))
        for _ in range(steps if life.ids else 0):
            life.step()
            check_history(life.driver)
        yield life


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(min_value=0, max_value=2**48), steps=st.integers(min_value=1, max_value=50))
@example(seed=980, steps=50)  # a retry waits for the end of a run that a caller asked for
def test_every_write_in_a_graph_keeps_the_rules_of_the_row(seed: int, steps: int) -> None:
    with _life(seed, steps):
        pass


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(min_value=0, max_value=2**48), steps=st.integers(min_value=1, max_value=40))
def test_after_any_story_of_a_graph_nobody_waits_for_ever(seed: int, steps: int) -> None:
    with _life(seed, steps) as life:
        _must_come_to_rest(life)


def _must_come_to_rest(life: GraphLife) -> None:
    driver, world = life.driver, life.world
    world.faults.disarm()
    world.targets.answers = [TargetAnswer(status=ExecutionStatus.COMPLETED)]
    for one in life.ids:
        with contextlib.suppress(GnomonError):
            resume_job(driver.services, ADMIN, one)
    driver.run(SETTLE)
    for one in life.ids:
        row = world.jobs.rows[one]
        assert row.attention_at is None, f"{row.status}: {row}"
        assert not row.runs
        assert row.followed is None or row.followed.told == row.followed.ends
