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
