"""Two requests at the same time, one port call after another, in an order that the test says.

    turns = Turns(first_stops_at=3, second_stops_at=2)
    answers = turns.run(lambda services: …, lambda services: …, services)

The first runs until it is about to make its third call of a port, then the second until its second, then the first to
its end, then the second. `turns.counts` says how many calls each would have made, so that a test can try them all.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from functions.domain.errors import GnomonError
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import SCHEDULER
from tests.factories import make_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from functions.domain.job import Job
    from functions.usecases.services import Services
    from tests.driver import Driver

Request: TypeAlias = "Callable[[Services], Any]"
Race: TypeAlias = "tuple[Driver, Request, Request]"

WATCHED = ("jobs", "dependents", "graphs")
_PATIENCE = 30
"""Seconds after which a test that hangs fails."""


class _Watched:
    """A port, each call of which is a turn."""

    def __init__(self, port: Any, step: Callable[[], None]) -> None:
        self._port, self._step = port, step

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._step()
            return method(*args, **kwargs)

        return call


class Turns:
    def __init__(self, *, first_stops_at: int, second_stops_at: int) -> None:
        self._stops = (first_stops_at, second_stops_at)
        self.counts = [0, 0]
        self._goes = [threading.Event(), threading.Event()]
        self._stopped = [threading.Event(), threading.Event()]

    def run(
        self, first: Callable[[Services], Any], second: Callable[[Services], Any], services: Services
    ) -> list[Any | GnomonError]:
        """What each returned, or the error it raised."""
        answers: list[Any] = [None, None]

        def work(who: int, request: Callable[[Services], Any]) -> None:
            ports = {name: _Watched(getattr(services, name), lambda: self._step(who)) for name in WATCHED}
            try:
                answers[who] = request(replace(services, **ports))
            except GnomonError as error:
                answers[who] = error
            finally:
                self._stopped[who].set()

        threads = [threading.Thread(target=work, args=(who, one)) for who, one in enumerate((first, second))]
        for who, thread in enumerate(threads):
            thread.start()
            assert self._stopped[who].wait(_PATIENCE)
        for who, thread in enumerate(threads):
            self._goes[who].set()
            thread.join(_PATIENCE)
            assert not thread.is_alive()
        return answers

    def _step(self, who: int) -> None:
        self.counts[who] += 1
        if self.counts[who] == self._stops[who]:
            self._stopped[who].set()
            assert self._goes[who].wait(_PATIENCE)


def giving(child: str, *parents: str) -> Callable[[Services], Job]:
    """The request that gives `child` these parents."""
    document = make_document(name=child[:4], schedule=None, dependsOn=[{"jobId": one} for one in parents])
    draft = JobDraft(document=document, payload="{}")
    return lambda services: change_job(services, SCHEDULER, child, change=lambda _: draft)


def interleaved(begin: Callable[[], Race]) -> Iterator[tuple[Driver, list[Any]]]:
    """Each way to stop two requests once each."""
    first_stops_at = second_stops_at = 1
    while True:
        driver, first, second = begin()
        turns = Turns(first_stops_at=first_stops_at, second_stops_at=second_stops_at)
        yield driver, turns.run(first, second, driver.services)
        if turns.counts[1] >= second_stops_at:
            second_stops_at += 1
        elif turns.counts[0] >= first_stops_at:
            first_stops_at, second_stops_at = first_stops_at + 1, 1
        else:
            break
