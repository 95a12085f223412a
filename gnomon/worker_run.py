"""The execution that a worker's function is called for, and what the function may raise."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gnomon.errors import GnomonError

if TYPE_CHECKING:
    from collections.abc import Callable


class NonRetryable(Exception):  # noqa: N818 - a function says with it what the failure is, not that it is one
    """Raise it (or a subclass) for a failure that another attempt cannot repair."""


class LeaseLost(Exception):  # noqa: N818 - it is no failure of the function
    """The execution is no longer this worker's: cancelled, timed out, or given to another. Its result is dropped."""


class UnreportedError(GnomonError):
    """The worker has stopped, and the API did not take what its last executions came to."""

    code = "UNREPORTED"


class InvalidResult(NonRetryable):
    """The function returned what is no JSON, or too much of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The execution a function is called for. `run_id` is the same in all attempts: use it as idempotency key."""

    execution_id: str
    job_id: str
    run_id: str
    attempt: int
    """From 1."""
    scheduled_for: str
    """RFC 3339, UTC, as is `deadline_at`."""
    deadline_at: str
    """When the attempt times out."""
    fence: int
    claimed: float
    """`time.monotonic()` of the claim."""
    report: Callable[[Run, float, str], None] = field(repr=False)
    lost: threading.Event = field(default_factory=threading.Event, repr=False)

    def report_progress(self, percent: float, message: str = "") -> None:
        """Show how far the execution is: 0 to 100, and at most 256 characters. At most one report a second is sent.

        Raises LeaseLost where the execution is no longer this worker's.
        """
        self.must_hold()
        self.report(self, percent, message)
        self.must_hold()

    @property
    def is_lost(self) -> bool:
        """Whether the execution is no longer this worker's: whatever the function does now is in vain."""
        return self.lost.is_set()

    def must_hold(self) -> None:
        """Raises LeaseLost where the execution is no longer this worker's."""
        if self.is_lost:
            raise LeaseLost(f"execution {self.execution_id} is no longer this worker's")


def sendable(text: str) -> str:
    """The text without lone surrogates, which JSON in UTF-8 does not take."""
    return text.encode("utf-8", "replace").decode()
