"""Workflows for tests: bodies, and the whole of API and engine over one world."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.outcome import Invocation, TargetAnswer
from tests.api_client import Api, Reply
from tests.driver import Driver
from tests.factories import NOW
from tests.fakes import FakeClock, InMemoryRateLimits, World
from tests.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PATH = "/v1/workflows"
TARGET = {"type": "http", "url": "https://example.com/hook"}
NEVER = {"retryConfig": {"maxRetries": 0}}
"""No retry: the first failure is the last."""
OK = TargetAnswer(status=ExecutionStatus.COMPLETED, result='{"rows":3}')
FAILED = TargetAnswer(
    status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_500", message="500 Internal Server Error")
)


def job(*after: str, **fields: Any) -> dict[str, Any]:
    """A job that depends on those, by local names."""
    edges = {"dependsOn": [{"job": one} for one in after]} if after else {}
    return {"target": TARGET, **edges, **fields}


def diamond(**jobs: Any) -> dict[str, Any]:
    """A, then B and C, then D. Keywords replace jobs."""
    return workflow(**{"a": job(), "b": job("a"), "c": job("a"), "d": job("b", "c"), **jobs})


def workflow(**jobs: Any) -> dict[str, Any]:
    return {"name": "etl", "jobs": jobs}


class Played:
    """API and engine over one world, in virtual time."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.world = World(clock=FakeClock(NOW), faults=faults or Faults())
        self.world.limits = InMemoryRateLimits(
            reads_per_minute=10_000, creations_per_day=100_000, faults=self.world.faults
        )
        self.api = Api(self.world)
        self.other = Api(self.world)
        """Another process of the API."""
        self.driver = Driver(self.world)
        self.failing: set[str] = set()
        """Names of jobs whose target fails."""
        self.results: dict[str, str] = {}
        """What the target answers, as JSON text, by the job's name."""
        self.slow: dict[str, float] = {}
        """Seconds that a job's target takes, by its name."""
        self.on_call: Callable[[str], None] = lambda _name: None
        """Called with the job's name while its target works."""
        self.called: list[str] = []
        self.sent: dict[str, Any] = {}
        """The payload that each job's target was called with last, by the job's name."""
        self.world.targets.answers = [self._answer]

    def _answer(self, invocation: Invocation) -> TargetAnswer:
        name = self.name_of(invocation.job_id).rpartition("/")[2]
        self.called.append(name)
        self.sent[name] = json.loads(invocation.payload)
        self.world.clock.advance(self.slow.get(name, 0))
        self.on_call(name)
        if name in self.failing:
            return FAILED
        return dataclasses.replace(OK, result=self.results[name]) if name in self.results else OK

    def name_of(self, job_id: str) -> str:
        row = self.driver.row(job_id)
        return row.defined.name

    def create(self, body: Mapping[str, Any], **options: Any) -> str:
        """The path of the workflow that is made of the body."""
        reply = self.api.post(PATH, body, **options)
        assert reply.status == 201, reply.text
        return f"{PATH}/{reply.json['id']}"

    def run(self, seconds: float = 300) -> None:
        self.driver.run(seconds)

    def seen(self, path: str) -> dict[str, Any]:
        reply: Reply = self.api.get(path)
        assert reply.status == 200, reply.text
        found: dict[str, Any] = reply.json
        return found

    def statuses(self, path: str) -> dict[str, str]:
        return {one["name"]: one["status"] for one in self.seen(path)["jobs"]}

    def ids(self, path: str) -> dict[str, str]:
        return {one["name"]: one["jobId"] for one in self.seen(path)["jobs"]}


class After:
    """Does something once, after so many writes: `faults.on_step = After(3, action)`."""

    def __init__(self, writes: int, act: Callable[[], Any]) -> None:
        self._left = writes
        self._act = act
        self.done = False
        self.result: Any = None

    def __call__(self, when: str, _name: str) -> None:
        self._left -= when == "after"
        if when == "after" and self._left == 0 and not self.done:
            self.done = True
            self.result = self._act()
