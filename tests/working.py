"""A worker, and a target that reports later, of the flows: they work on the real use cases, in virtual time."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from functions.domain.claims import Holder
from functions.domain.errors import GnomonError
from functions.domain.execution import ExecutionStatus
from functions.domain.ids import execution_id
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.progress import Progress
from functions.usecases.claiming import Claimed, Poll, poll
from functions.usecases.reports import end_execution, report_progress
from functions.usecases.workers import heartbeat, register_worker
from tests.driver import SCHEDULER, Driver

OK = TargetAnswer(status=ExecutionStatus.COMPLETED, result="true")
Repeated = Callable[[Driver, Callable[[], Any]], Any]
"""Asks, and asks again where the function died."""


@dataclass
class FlowWorker:
    driver: Driver
    repeated: Repeated
    answers: list[TargetAnswer]
    """One an execution, the last for ever."""
    queue: str = "reports"
    polls: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        def register() -> Any:
            return register_worker(self.driver.services, SCHEDULER, name="", queues=(self.queue,), max_items=2)

        self.id: str = self.repeated(self.driver, register).id

    def work_until(self, instant: float) -> None:
        while self.driver.clock.now() < instant:
            for claimed in self.poll():
                self.work_on(claimed)
            self.driver.run(5)

    def poll(self) -> list[Claimed]:
        wanted = Poll(worker_id=self.id, poll_id=f"p{next(self.polls)}")
        services = self.driver.services
        found: list[Claimed] | None = self.repeated(
            self.driver, lambda: poll(services, SCHEDULER, wanted, shuffle=lambda _: None)
        )
        return found or []

    def work_on(self, claimed: Claimed) -> None:
        """With a heartbeat and a report of progress on the way; what is refused was lost."""
        services, run = self.driver.services, claimed.run
        execution = execution_id(claimed.job.id, claimed.slot_id, run.attempt)
        holder = Holder(worker_id=self.id, fence=run.fence)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.driver.run(40)
        progress = Progress(percent=50)
        try:
            held = ((execution, run.fence),)
            self.repeated(self.driver, lambda: heartbeat(services, SCHEDULER, self.id, held))
            self.repeated(self.driver, lambda: report_progress(services, SCHEDULER, execution, holder, progress))
            self.driver.run(5)
            self.repeated(self.driver, lambda: end_execution(services, SCHEDULER, execution, holder, answer))
        except GnomonError:
            return


@dataclass
class LateReports:
    """A target that accepts each call, and reports its outcome after a while."""

    driver: Driver
    repeated: Repeated
    answers: list[TargetAnswer]
    accepted: list[tuple[Invocation, float]] = field(default_factory=list)

    def accept(self, invocation: Invocation) -> TargetAnswer:
        self.accepted.append((invocation, self.driver.clock.now()))
        return OK

    def report_until(self, instant: float, *, after: int = 30) -> None:
        while self.driver.clock.now() < instant:
            due = [each for each in self.accepted if each[1] + after <= self.driver.clock.now()]
            for each in due:
                self.accepted.remove(each)
                self._report(each[0])
            self.driver.run(5)

    def _report(self, invocation: Invocation) -> None:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        holder = Holder(token=invocation.callback_token)
        services = self.driver.services
        try:
            self.repeated(
                self.driver, lambda: end_execution(services, SCHEDULER, invocation.execution_id, holder, answer)
            )
        except GnomonError:
            return
