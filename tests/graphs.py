"""Graphs of jobs in tests: each job's target does what its plan says, job by job and attempt by attempt."""

from __future__ import annotations

from collections import Counter
from typing import Any

from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.job import Job
from functions.domain.outcome import Invocation, TargetAnswer
from tests.driver import Driver
from tests.factories import NOW

REFUSED = TargetAnswer(
    status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_400", message="no"), retryable=False
)
BUSY = TargetAnswer(status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_503", message="not now"))
ONCE = {"type": "once", "at": "2027-01-15T08:00:10Z"}
DAY = 86_400


class Graph:
    """A driven world whose jobs are called by names."""

    def __init__(self, driver: Driver | None = None) -> None:
        self.driver = driver or Driver()
        self.world = self.driver.world
        self.ids: dict[str, str] = {}
        self.fails: set[str] = set()
        """Names of jobs whose attempts fail for good, as long as they are in here."""
        self.retries: dict[str, int] = {}
        """Attempts by name that fail, and are to be retried."""
        self.results: dict[str, str] = {}
        self.not_kept: dict[str, str] = {}
        """Error codes by the names of jobs that succeed with a result that is not kept."""
        self.world.targets.answers = [self._answer]

    def _answer(self, invocation: Invocation) -> TargetAnswer:
        name = self.name_of(invocation.job_id)
        if name in self.fails:
            return REFUSED
        if self.retries.get(name):
            self.retries[name] -= 1
            return BUSY
        if name in self.not_kept:
            error = ExecutionError(code=self.not_kept[name], message="nothing of it")
            return TargetAnswer(status=ExecutionStatus.COMPLETED, error=error)
        return TargetAnswer(status=ExecutionStatus.COMPLETED, result=self.results.get(name, "null"))

    def name_of(self, job_id: str) -> str:
        return next(name for name, one in self.ids.items() if one == job_id)

    def job(self, name: str, *parents: str | tuple[str, str], when: str | None = None, **document: Any) -> Job:
        """Create a job that depends on `parents`, each a name or (name, on); without any, it runs once soon."""
        if parents:
            given = [parent if isinstance(parent, tuple) else (parent, "success") for parent in parents]
            edges = [{"jobId": self.ids[parent], "on": on} for parent, on in given]
            document["dependsOn"] = [edge | ({} if when is None else {"when": when}) for edge in edges]
            document.setdefault("schedule", None)
        job = self.driver.create(**{"schedule": ONCE, **document})
        self.ids[name] = job.id
        return job

    def row(self, name: str) -> Job:
        return self.driver.row(self.ids[name])

    def run(self, seconds: float = 600) -> None:
        self.driver.run(seconds)

    def run_to(self, instant: float) -> None:
        """Until `instant` seconds after the beginning."""
        self.driver.run_until(NOW + instant)

    def leap_to(self, instant: float) -> None:
        """So long nothing runs and nobody looks."""
        self.driver.leap_to(NOW + instant)
        self.driver.run(1)

    @property
    def calls(self) -> Counter[str]:
        """Attempts by name."""
        return Counter(self.name_of(call.job_id) for call in self.world.targets.calls)

    def status(self, *names: str) -> list[str]:
        return [self.row(name).status.value for name in names]

    def outcomes(self, name: str) -> list[tuple[str, str | None]]:
        """How each run of the job ended, oldest first, with the reason of one that came to no attempt."""
        final = [one for one in self.driver.executions(self.ids[name]) if one.final]
        return [(one.status.value, None if one.started_at else one.reason) for one in final]

    def runs(self, name: str) -> int:
        """How many runs of it came to an attempt."""
        return len({one.slot_id for one in self.driver.executions(self.ids[name]) if one.started_at})

    def at_rest(self, *names: str) -> bool:
        """Whether nobody has to look at any of these any more."""
        return all(self.row(name).attention_at is None for name in names)
