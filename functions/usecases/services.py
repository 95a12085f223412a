"""The ports a use case works with, bundled by who uses them. Bundles are neither compared nor shown."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from functions.domain import ids
from functions.domain.execution import Execution
from functions.domain.retry import Uniform
from functions.graph_ports import Dependents, Graphs, WorkflowStore
from functions.limit_ports import Circuits, Shares, Slots
from functions.ports import (
    Clock,
    IdempotencyKeys,
    JobStore,
    JobTypes,
    Machine,
    Owners,
    ProgressBoard,
    RetryConfigs,
    RunHistory,
    Targets,
    Timetable,
    Workers,
)

if TYPE_CHECKING:
    from functions.key_ports import WebhookKeyStore  # with what it makes, which most functions never load


def _nobody_counts(execution: Execution) -> None:
    """Of those who are told of ends: it does nothing."""


def _lasts(error: Exception) -> bool:  # noqa: ARG001 - a default of `is_transient`
    """For processes that leave it to their caller to come again."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Engine:
    """What it takes to change a job's row and do what follows from it."""

    jobs: JobStore
    history: RunHistory
    timetable: Timetable
    slots: Slots
    circuits: Circuits
    clock: Clock
    types: JobTypes
    new_write_id: Callable[[], str] = ids.new_write_id
    uniform: Uniform = random.uniform
    ended: Callable[[Execution], None] = _nobody_counts
    """Is told of each attempt by whoever's write took it out of the row, in whatever thread that runs."""
    is_transient: Callable[[Exception], bool] = _lasts
    """Whether the platform refused a call for a while, so that it is worth another try within the process."""
    parallel: int = 8
    """Jobs that are looked at, or changed, side by side: a graph's."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Polls(Engine):
    """What it takes to give executions to workers."""

    workers: Workers
    waiting_polls: int = 10
    """Polls of one owner that may wait at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Services(Polls):
    """What the API's use cases need besides."""

    progress: ProgressBoard
    idempotency: IdempotencyKeys
    owners: Owners
    retry_configs: RetryConfigs
    machine: Machine
    dependents: Dependents
    graphs: Graphs
    workflows: WorkflowStore
    webhook_keys: WebhookKeyStore
    new_webhook_secret: Callable[[], str] = ids.new_webhook_secret
    recurring_jobs: int = 1_000
    """Of one owner that are not over."""
    new_job_id: Callable[[], str] = ids.new_job_id
    new_manual_slot_id: Callable[[float], str] = ids.new_manual_slot_id


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Attempts(Engine):
    """What calling a target, and recording what came of it, needs besides."""

    targets: Targets


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Executor(Attempts):
    """What starting an attempt, and looking at graphs of jobs, needs besides."""

    machine: Machine
    shares: Shares
    dependents: Dependents
