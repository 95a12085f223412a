"""The handlers there are, by name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class NonRetryable(Exception):  # noqa: N818 - a handler says with it what the failure is, not that it is one
    """Raise it (or a subclass) in a handler for a failure that another attempt cannot repair."""


class UnknownHandler(NonRetryable):
    """No handler of this name is registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Which run a handler is called for. `run_id` is the same in all attempts: use it as idempotency key."""

    job_id: str
    run_id: str
    attempt: int
    """From 1."""
    scheduled_for: str
    """The instant at which the job was due, RFC 3339, UTC."""
    execution_id: str = ""
    callback_token: str | None = field(default=None, repr=False)
    """With completion `callback`: what reports the outcome later by `/v1/executions/{id}/complete` or `/fail`."""
    report: Callable[[float, str], None] = field(default=lambda _percent, _message: None, repr=False, compare=False)

    def report_progress(self, percent: float, message: str = "") -> None:
        """Show how far the run is: 0 to 100, and a message of at most 256 characters.

        At most one report a second is kept; one that cannot be kept is left out. Raises ValueError for other values.
        """
        self.report(percent, message)


Handler = Callable[[Any, Run], Any]

_handlers: dict[str, Handler] = {}


def job(name: str) -> Callable[[Handler], Handler]:
    """Register a function `(payload, run) -> JSON` under a name (1 to 64 letters, digits, `.`, `-`, `_`).

    Raises ValueError for another name or one that is taken, TypeError for a coroutine function.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a handler: 1 to 64 letters, digits, '.', '-' or '_'")

    def register(handler: Handler) -> Handler:
        if inspect.iscoroutinefunction(handler):
            raise TypeError(f"handler {name!r} is a coroutine function: it must return its result itself")
        if (first := _handlers.setdefault(name, handler)) is not handler:
            raise ValueError(f"handler {name!r} is registered twice: in {first.__module__} and {handler.__module__}")
        return handler

    return register


def load() -> None:
    """Import every module of this package, so that its handlers are registered."""
    package = importlib.import_module("functions.jobs")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"functions.jobs.{module.name}")


def find(name: str) -> Handler:
    """The handler of this name; raises UnknownHandler with the names there are."""
    if (handler := _handlers.get(name)) is None:
        known = ", ".join(sorted(_handlers)) or "none"
        raise UnknownHandler(f"no handler is registered as {name!r}; there are: {known}")
    return handler
