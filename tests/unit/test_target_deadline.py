from __future__ import annotations

import threading
import time

import pytest

from functions.adapters.deadline import Deadline, DeadlineError, within


def test_what_the_work_returns_or_raises_comes_through() -> None:
    assert within(5, lambda deadline: deadline.remaining() > 4)
    with pytest.raises(ZeroDivisionError):
        within(5, lambda _: 1 // 0)


def test_a_timeout_of_the_work_itself_is_not_the_deadline() -> None:
    def work(_: Deadline) -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        within(5, work)


def test_the_caller_goes_on_when_the_time_is_over() -> None:
    over = threading.Event()
    started = time.monotonic()
    with pytest.raises(DeadlineError):
        within(0.05, lambda _: over.wait(10))
    assert time.monotonic() - started < 1
    over.set()


def test_what_is_there_at_the_end_is_taken_within_the_grace() -> None:
    def work(deadline: Deadline) -> str:
        time.sleep(0.1)
        assert deadline.remaining() == 0
        return "as far as it came"

    assert within(0.05, work, grace=5) == "as far as it came"
    with pytest.raises(DeadlineError):
        within(0.05, work, grace=0.01)


def test_an_error_at_the_end_is_the_deadline() -> None:
    def work(_: Deadline) -> None:
        time.sleep(0.1)
        raise ConnectionError("a moment later")

    with pytest.raises(DeadlineError):
        within(0.05, work, grace=5)
