"""What a process writes of its use of a share, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError

from functions.adapters.process_shares import KEEP, LOOK_EVERY, ProcessShares
from functions.domain.definition import Priority
from functions.domain.shares import Refusal, Share
from tests.factories import NOW
from tests.fakes import FakeClock
from tests.share_fakes import InMemoryShareRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from functions.limit_ports import Entry

SHARE = Share(processes=2, starts_per_minute=1_000)
MINUTE = NOW - NOW % 60


class Later:
    """What is to be called, until it is cancelled."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Stage:
    """Processes that share rows and a clock."""

    def __init__(self, share: Share = SHARE) -> None:
        self.clock = FakeClock(MINUTE)
        self.rows = InMemoryShareRows()
        self.share = share
        self.pending: list[Later] = []

    def process(self) -> ProcessShares:
        return ProcessShares(
            self.rows, dict.fromkeys(Priority, self.share), clock=self.clock, call_later=self._call_later
        )

    def _call_later(self, seconds: float, call: Callable[[], None]) -> Later:
        assert seconds == LOOK_EVERY
        self.pending.append(Later(call))
        return self.pending[-1]

    def tick(self) -> None:
        """LOOK_EVERY goes by."""
        self.clock.advance(LOOK_EVERY)
        pending, self.pending = self.pending, []
        for later in pending:
            if later.call is not None:
                later.call()

    @property
    def calls(self) -> list[str]:
        calls, self.rows.calls = self.rows.calls, []
        return calls


def enter(process: ProcessShares, owner: str = "team-a", *, lasts: float = 40) -> Entry:
    entry = process.enter(owner, Priority.NORMAL, lasts=lasts)
    assert not isinstance(entry, Refusal)
    return entry


def is_refused(process: ProcessShares, owner: str = "team-a") -> bool:
    return isinstance(process.enter(owner, Priority.NORMAL, lasts=40), Refusal)


def test_a_batch_of_short_calls_costs_one_write() -> None:
    stage = Stage()
    process = stage.process()

    for entry in [enter(process) for _ in range(10)]:
        entry.leave()

    assert stage.calls == ["enter"]


def test_batches_that_follow_at_once_cost_no_more() -> None:
    stage = Stage()
    process = stage.process()

    for _ in range(5):
        for entry in [enter(process) for _ in range(10)]:
            entry.leave()
        stage.clock.advance(0.5)

    assert stage.calls == ["enter"]


def test_a_process_whose_calls_go_on_keeps_its_place() -> None:
    stage = Stage()
    one, other, third = stage.process(), stage.process(), stage.process()
    mine = [enter(one), enter(other)]

    for _ in range(20):
        assert is_refused(third)
        stage.tick()

    assert stage.rows.calls.count("stay") == 2
    mine[0].leave()
    stage.clock.advance(1)
    enter(third)


def test_a_process_that_is_done_makes_room_by_itself() -> None:
    stage = Stage()
    one, other, third = stage.process(), stage.process(), stage.process()
    enter(one).leave()
    long = enter(other)
    assert is_refused(third)

    stage.clock.advance(KEEP)

    enter(third)
    assert stage.calls == ["enter", "enter", "enter", "enter"]
    long.leave()


def test_a_process_that_found_the_last_place_gives_it_back_when_it_is_done() -> None:
    """Short calls that land on one process after the other are not held up by those that have nothing to do."""
    stage = Stage()
    for _ in range(20):
        enter(stage.process()).leave()

    assert stage.calls == ["enter", *["enter", "leave"] * 19]


def test_a_process_whose_last_call_is_over_makes_room_at_once() -> None:
    stage = Stage()
    one, other, third = stage.process(), stage.process(), stage.process()
    first, second = enter(one), enter(one)
    enter(other)
    stage.tick()
    first.leave()
    assert is_refused(third)

    second.leave()
    stage.clock.advance(1)

    enter(third)


def test_a_process_that_left_is_counted_when_it_comes_again() -> None:
    stage = Stage()
    one, other, third = stage.process(), stage.process(), stage.process()
    entry = enter(one)
    stage.tick()
    entry.leave()

    enter(one)
    enter(other)

    assert is_refused(third)


def test_a_process_that_died_makes_room_when_its_calls_must_be_over() -> None:
    stage = Stage()
    one, other, third = stage.process(), stage.process(), stage.process()
    enter(one, lasts=40)
    enter(other, lasts=400)
    stage.tick()
    stage.pending.clear()

    stage.clock.time = MINUTE + 39.9
    assert is_refused(third)
    stage.clock.time = MINUTE + 41
    enter(third)


def test_a_refusal_is_remembered_for_a_second() -> None:
    stage = Stage()
    one, other, third = stage.process(), stage.process(), stage.process()
    enter(one)
    enter(other)
    assert stage.calls == ["enter", "enter"]

    for _ in range(10):
        assert is_refused(third)
    assert stage.calls == ["enter"]

    stage.clock.advance(1)
    assert is_refused(third)
    assert stage.calls == ["enter"]


def test_one_owner_s_refusal_is_no_other_s() -> None:
    stage = Stage()
    one, other, third = stage.process(), stage.process(), stage.process()
    enter(one)
    enter(other)
    assert is_refused(third)

    enter(third, "team-b")


@pytest.mark.parametrize(("limit", "most"), [(20, 24), (1_000, 1_200)])
def test_a_minute_has_a_fifth_more_starts_than_its_limit_at_most(limit: int, most: int) -> None:
    stage = Stage(Share(processes=2, starts_per_minute=limit))
    processes = [stage.process(), stage.process()]
    started = 0
    for _ in range(20):
        for process in processes:
            for _ in range(limit // 10):
                entered = process.enter("team-a", Priority.NORMAL, lasts=40)
                if not isinstance(entered, Refusal):
                    started += 1
                    entered.leave()
        stage.clock.advance(1)

    assert limit <= started <= most

    stage.clock.time = MINUTE + 60
    assert not is_refused(processes[0])


class FailingRows(InMemoryShareRows):
    def enter(self, *_: object, **__: object) -> Refusal | None:
        raise ClientError({"Error": {"Code": "ThrottlingException"}}, "UpdateItem")


def test_a_share_that_cannot_be_counted_holds_up_nothing(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.rows = FailingRows()

    enter(stage.process())

    assert "the share of team-a cannot be counted" in caplog.text
