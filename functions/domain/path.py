"""Which way an attempt goes once it has started: called by the executor itself, run by the state machine, or held by
whoever pulls it. docs/decisions/0023-which-attempts-the-state-machine-runs.md says what each way costs.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from functions.domain.definition import Completion, Definition

DIRECT_SECONDS = 60
"""Longest `timeoutSeconds` of an attempt that the executor waits for: its function lives 90 s."""


class PathKind(enum.StrEnum):
    DIRECT = "direct"
    """The executor calls the target and records what came of it."""
    STATE_MACHINE = "state machine"
    """The executor starts an execution of the state machine, which does."""
    PULLED = "pulled"
    """A worker takes it, and reports what came of it."""


class Path(NamedTuple):
    kind: PathKind
    reason: str


def path_of(definition: Definition) -> Path:
    """The way of the job's attempts. The first rule that applies decides."""
    if definition.worker_queue is not None:
        return Path(PathKind.PULLED, "WORKER_TARGET")
    if definition.completion is Completion.CALLBACK:
        return Path(PathKind.DIRECT, "CALLBACK")  # a short call; nothing runs while it waits for its outcome
    if definition.orchestrated:
        return Path(PathKind.STATE_MACHINE, "ASKED_FOR")
    if definition.timeout_seconds > DIRECT_SECONDS:
        return Path(PathKind.STATE_MACHINE, "LONG_TIMEOUT")
    return Path(PathKind.DIRECT, "SHORT")


def call_seconds(definition: Definition) -> int:
    """How long a call of the target may take: less than the attempt, where that waits for a callback after it."""
    direct = path_of(definition).kind is PathKind.DIRECT
    return min(definition.timeout_seconds, DIRECT_SECONDS) if direct else definition.timeout_seconds
