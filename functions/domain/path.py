"""Which way an attempt goes once it has started: called by the executor itself, run by the state machine, or held by
whoever pulls it. docs/decisions/0023-which-attempts-the-state-machine-runs.md says what each way costs.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

from functions.domain.errors import InvalidFieldError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from functions.domain.definition import Definition

DIRECT_SECONDS = 60
"""Longest `timeoutSeconds` of an attempt that the executor waits for: its function lives 90 s."""
WAITED_SECONDS = 840
"""Longest `timeoutSeconds` of an attempt that any function waits for: Lambda's 15 minutes, and what is around it."""
LONGEST_SECONDS = 86_400
"""Longest `timeoutSeconds` at all: of attempts that nobody waits for."""

_CALLED_BACK = ("http", "lambda")


class PathKind(enum.StrEnum):
    DIRECT = "DIRECT"
    """The executor calls the target and records what came of it."""
    STATE_MACHINE = "STATE_MACHINE"
    """The executor starts an execution of the state machine, which does."""
    PULLED = "PULLED"
    """A worker takes it, and reports what came of it."""


class Path(NamedTuple):
    kind: PathKind
    reason: str


def path_of(definition: Definition) -> Path:
    """The way of the job's attempts. The first rule that applies decides."""
    if definition.target.get("type") == "worker":
        return Path(PathKind.PULLED, "WORKER_TARGET")
    if definition.completion == "callback":
        return Path(PathKind.DIRECT, "CALLBACK")  # a short call; nothing runs while it waits for its outcome
    if definition.orchestrated:
        return Path(PathKind.STATE_MACHINE, "ASKED_FOR")
    if definition.timeout_seconds > DIRECT_SECONDS:
        return Path(PathKind.STATE_MACHINE, "LONG_TIMEOUT")
    return Path(PathKind.DIRECT, "SHORT")


def check_timeout(document: Mapping[str, Any]) -> None:
    """Raise InvalidFieldError where the job's `timeoutSeconds` is more than its kind of target can be given.

    More than 840 s are for attempts that nobody waits for: workers', and `http` or `lambda` that call back.
    """
    seconds, kind = document.get("timeoutSeconds", DIRECT_SECONDS), document["target"].get("type")
    called_back = document.get("completion") == "callback" and kind in _CALLED_BACK
    if seconds > WAITED_SECONDS and kind != "worker" and not called_back:
        raise InvalidFieldError(
            "timeoutSeconds",
            f"timeoutSeconds {seconds} is over the limit of {WAITED_SECONDS} for a target of type {kind}: "
            f"up to {LONGEST_SECONDS} take worker targets, and http and lambda with completion callback.",
        )
