"""The handlers there are, by name, and the modules that register them.

A module is imported when one of its handlers is called first. What goes wrong then is an error of its own handlers
alone.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

MANIFEST = Path(__file__).with_name("_manifest.json")
"""Which module registers which handlers, as the check of the bundle found (infra/handlers.py). Where there is none, as
in the sources, every module is imported."""

_PACKAGE = "functions.jobs"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class NonRetryable(Exception):  # noqa: N818 - a handler says with it what the failure is, not that it is one
    """Raise it (or a subclass) in a handler for a failure that another attempt cannot repair."""


class UnknownHandler(NonRetryable):
    """No handler of this name is registered."""


class AmbiguousHandler(NonRetryable):
    """Several modules register a handler of this name."""


class ModuleError(Exception):
    """A module of this package cannot be imported. `cause` is what it raised."""

    def __init__(self, module: str, cause: BaseException) -> None:
        super().__init__(f"functions/jobs/{module}.py cannot be imported: {type(cause).__name__}: {cause}")
        self.cause = cause


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
_registered: dict[str, dict[str, Handler]] = {}
"""Handlers by name and module: several for a name that more than one module has registered."""


class Manifest(NamedTuple):
    """What the check of the bundle found."""

    handlers: Mapping[str, Sequence[str]]
    """Modules of this package by the names that they register."""
    broken: Mapping[str, str]
    """Why modules cannot be imported."""


@cache
def manifest() -> Manifest | None:
    """None outside of a bundle."""
    try:
        found = json.loads(MANIFEST.read_text(encoding="utf-8"))
        return Manifest(handlers=found["handlers"], broken=found["broken"])
    except (FileNotFoundError, ValueError, KeyError):
        return None


def job(name: str) -> Callable[[Handler], Handler]:
    """Register a function `(payload, run) -> JSON` under a name (1 to 64 letters, digits, `.`, `-`, `_`).

    Raises ValueError for another name, or one that this module has registered already, TypeError for a coroutine
    function. A name that another module has registered fails its own calls: the other handlers of both modules work.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a handler: 1 to 64 letters, digits, '.', '-' or '_'")
    module = _running_module()

    def register(handler: Handler) -> Handler:
        if inspect.iscoroutinefunction(handler):
            raise TypeError(f"handler {name!r} is a coroutine function: it must return its result itself")
        if name not in _handlers:
            _registered[name] = {}
        if _registered[name].setdefault(module, handler) is not handler:
            raise ValueError(f"handler {name!r} is registered twice in {module}")
        _handlers.setdefault(name, handler)
        return handler

    return register


def registered() -> dict[str, list[str]]:
    """The modules that have registered each name."""
    return {name: sorted({_top(module) for module in modules}) for name, modules in _registered.items()}


def load(*, without: Container[str] = ()) -> dict[str, ModuleError]:
    """Import the modules of this package, so that their handlers are registered; returns what failed, by module."""
    failed = {}
    for module in pkgutil.iter_modules(importlib.import_module(_PACKAGE).__path__):
        if module.name not in without:
            try:
                _import(module.name)
            except ModuleError as error:
                failed[module.name] = error
    return failed


def find(name: str) -> Handler:
    """The handler of this name; imports its module, or all of them where no manifest says which it is.

    Raises ModuleError where the module cannot be imported, AmbiguousHandler where several register the name,
    UnknownHandler with the names there are.
    """
    known = manifest() or Manifest({}, {})
    modules = known.handlers.get(name, ())
    reasons = list(known.broken.values())
    if len(modules) == 1:
        _import(modules[0])
    elif name not in _handlers:
        reasons += map(str, load(without=known.broken).values())
    among = {*modules, *registered().get(name, ())}
    if len(among) > 1:
        raise AmbiguousHandler(f"handler {name!r} is registered in several modules: {', '.join(sorted(among))}")
    if (handler := _handlers.get(name)) is None:
        names = ", ".join(sorted({*_handlers, *known.handlers})) or "none"
        raise UnknownHandler("; ".join([f"no handler is registered as {name!r}; there are: {names}", *reasons]))
    return handler


def _import(module: str) -> None:
    full = f"{_PACKAGE}.{module}"
    try:
        importlib.import_module(full)
    except BaseException as error:
        # It is imported again by the next call, and then registers anew.
        for name, handlers in list(_registered.items()):
            if handlers.pop(full, None) is not None:
                _handlers.pop(name, None)
            if name not in _handlers and handlers:
                _handlers[name] = next(iter(handlers.values()))
        raise ModuleError(module, error) from error


def _top(module: str) -> str:
    """The module, or package, of this package that a module belongs to."""
    return module.removeprefix(f"{_PACKAGE}.").partition(".")[0]


def _running_module() -> str:
    """Name of the module whose top level is being executed."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return "" if frame is None else str(frame.f_globals.get("__name__", ""))
