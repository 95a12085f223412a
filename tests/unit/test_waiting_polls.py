"""So many polls of an owner wait at the same time; others are answered at once."""

from __future__ import annotations

from typing import Any

from functions.domain.concurrency import Slot
from functions.usecases.waiting_polls import ANSWER_SECONDS
from tests.api_client import SCHEDULER, user
from tests.unit.test_api_workers import Stage

OTHER = user("bob", "scheduler", "team-b")
OWNER = str(SCHEDULER["sub"])
MOST = 10
"""As the services of these tests have it."""


class Polls(Stage):
    """Whatever a poll does while it waits happens at its first look after a second."""

    def waited(self, worker: str, seconds: int = 12, **options: Any) -> float:
        """How long the poll took."""
        began = self.clock.now()
        reply = self.api.post(f"/v1/workers/{worker}/poll", {"waitSeconds": seconds}, **options)
        assert reply.status == 200, reply.text
        return self.clock.now() - began

    def occupy(self, count: int, owner: str = OWNER, seconds: int = 20) -> None:
        """Polls that wait in other processes."""
        now = int(self.clock.now())
        rows = self.api.world.slots.rows.setdefault(f"poll:{owner}", {})
        for index in range(count):
            rows[index] = Slot(index=index, holder=f"h{index}", mark=f"m{index}", at=now, until=now + seconds)


def test_a_poll_waits_while_few_of_its_owner_do() -> None:
    stage = Polls()
    stage.occupy(MOST - 1)

    assert stage.waited(stage.register()) >= 11


def test_a_poll_beyond_the_limit_does_not_wait() -> None:
    stage = Polls()
    stage.occupy(MOST)

    assert stage.waited(stage.register()) == 0


def test_a_poll_beyond_the_limit_is_given_what_is_there() -> None:
    stage = Polls()
    stage.occupy(MOST)
    stage.job()

    assert len(stage.poll(stage.register(), waitSeconds=12)) == 1


def test_polls_of_another_owner_wait() -> None:
    stage = Polls()
    stage.occupy(MOST)
    reply = stage.api.post("/v1/workers", {"queues": ["reports"]}, claims=OTHER)

    assert stage.waited(reply.json["id"], claims=OTHER) >= 11


def test_a_poll_that_is_over_makes_room() -> None:
    stage = Polls()
    stage.occupy(MOST - 1, seconds=1_000)
    worker = stage.register()

    assert [stage.waited(worker) >= 11 for _ in range(3)] == [True] * 3
    assert len(stage.api.world.slots.rows[f"poll:{OWNER}"]) == MOST - 1


def test_a_poll_that_died_makes_room_once_it_would_be_over() -> None:
    stage = Polls()
    stage.occupy(MOST, seconds=20)
    worker = stage.register()

    stage.clock.advance(19)
    assert stage.waited(worker) == 0
    stage.clock.advance(4)
    assert stage.waited(worker) >= 11


def test_a_poll_that_does_not_wait_asks_for_no_place() -> None:
    stage = Polls()
    worker = stage.register()
    stage.api.world.slots.calls.clear()

    assert stage.waited(worker, 0) == 0
    assert stage.api.world.slots.calls == []


def test_a_place_lasts_as_long_as_its_poll_may() -> None:
    stage = Polls()
    seen: list[int] = []
    sleep = stage.clock.sleep

    def look(seconds: float) -> None:
        seen.extend(slot.until for slot in stage.api.world.slots.rows[f"poll:{OWNER}"].values())
        sleep(seconds)

    stage.clock.sleep = look  # type: ignore[method-assign]
    began = int(stage.clock.now())
    stage.waited(stage.register(), 5)

    assert set(seen) == {began + 5 + ANSWER_SECONDS}
