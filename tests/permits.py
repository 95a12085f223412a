"""A key with one permit, a job that holds it, and two that have waited for it for long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from functions.domain.circuit import Circuit, Probe
from functions.domain.concurrency import Slot
from functions.domain.hint import Hint
from functions.domain.ids import slot_id
from functions.domain.instants import rfc3339
from functions.domain.job import Job
from functions.domain.job_type import StoredTypeConfig
from functions.usecases import concurrency
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW, make_run
from tests.fakes import FakeClock, World

KEY = "key:team-a|database"
TYPE = "type:report"
CIRCUIT = "http:example.com:443@team-a"
LIMIT = {"concurrencyKey": "database", "maxConcurrency": 1}
WAITED = 3_000
"""Seconds that the runs have waited: the sweep looks at them each 15 minutes only."""


class Queue:
    """One job runs on the key's permit; two have waited for it for long. It ends, and it is the first one's turn, whose
    hint does not come."""

    def __init__(self, *, lost: bool = True, since: int = NOW + WAITED, **document: Any) -> None:
        self.driver = Driver(World(clock=FakeClock(NOW)))
        self.world = self.driver.world
        configure(self.driver, "report", 1)
        self.runner = self.running()
        self.first = self.create(NOW + 10, **document)
        self.second = self.create(NOW + 20)
        self.driver.run_until(since)
        assert self.waiting(self.first)
        assert self.waiting(self.second)
        self.granted_at = self.driver.clock.now()
        self.ends()
        if lost:
            self.lose_hints(self.first)

    def running(self) -> str:
        """A job whose attempt holds the permit for as long as it takes."""
        job = self.create(NOW + 5)
        row = self.driver.row(job)
        run = make_run(holds=(f"{KEY}#0",), lease_expires_at=NOW + 10**6, started_by="w", fence=1)
        slot = slot_id(NOW + 5)
        self.world.jobs.put(replace(row, runs={slot: run}, next_slot=None, last_slot=NOW + 5, fence=1))
        taken = Slot(index=0, holder=f"{job}-{slot}-0001", mark="w", at=NOW, until=NOW + 10**6)
        self.world.slots.take(KEY, taken, instead_of=None)
        self.world.timetable.armed.clear()
        return job

    def ends(self) -> None:
        row = self.driver.row(self.runner)
        self.world.jobs.put(replace(row, runs={}, attention_at=None))
        self.world.slots.free(KEY, 0, holder=self.world.slots.held(KEY)[0].holder)
        concurrency.drain(self.driver.executor, KEY)
        assert self.holder == self.first

    def create(self, at: int, **document: Any) -> str:
        wanted = {"schedule": {"type": "once", "at": rfc3339(at)}, "timeoutSeconds": 20} | LIMIT | document
        return self.driver.create(**wanted).id

    def waiting(self, job: str) -> bool:
        return any(run.waits_for in (KEY, TYPE) for run in self.driver.row(job).runs.values())

    def lose_hints(self, job: str) -> None:
        for delivery in list(self.world.timetable.armed):
            if delivery.hint.job_id == job:
                self.world.timetable.drop(delivery)

    def lose_all_hints(self, job: str) -> None:
        """None of the job's hints comes from now on."""
        arm = self.world.timetable.arm

        def loses(hint: Hint, *, due_at: int, priority: Any) -> None:
            if hint.job_id != job:
                arm(hint, due_at=due_at, priority=priority)

        self.world.timetable.arm = loses  # type: ignore[method-assign]

    @property
    def holder(self) -> str | None:
        slots = self.world.slots.held(KEY)
        return slots[0].holder[:36] if slots else None

    def started(self, job: str) -> float | None:
        """Seconds after the grant at which the job's run started."""
        starts = [one.started_at - self.granted_at for one in self.driver.executions(job) if one.started_at is not None]
        return min(starts, default=None)

    def change(self, job: str, **document: Any) -> None:
        change(self.driver, job, **document)

    def open_circuit(self, *, probe: bool = False) -> None:
        now = int(self.driver.clock.now())
        until = now - 1 if probe else now + 10**6
        circuit = Circuit(key=CIRCUIT, seq=1, failures=5, since=NOW, open_until=until)
        if probe:
            circuit = replace(circuit, probe=Probe(execution_id=f"{self.runner}-{NOW}-0001", until=now + 10**6))
        self.world.circuits.rows[CIRCUIT] = circuit

    def hint(self, job: str, attempt: int = 1) -> None:
        [slot] = self.driver.row(job).runs
        self.driver.deliver_hint(Hint(job, slot, attempt))


def change(driver: Driver, job: str, **document: Any) -> None:
    def changed(row: Job) -> JobDraft:
        wanted = {**row.defined.document, **document}
        return JobDraft(document={name: word for name, word in wanted.items() if word is not None}, payload="{}")

    change_job(driver.services, SCHEDULER, job, change=changed)


def configure(driver: Driver, job_type: str, most: int) -> None:
    document = {"maxConcurrency": most}
    driver.world.retry_configs.put(StoredTypeConfig(job_type=job_type, document=document, updated_at=0, updated_by="r"))


def holder_of(job: str) -> str:
    return f"{job}-{slot_id(NOW + 5)}-0001"
