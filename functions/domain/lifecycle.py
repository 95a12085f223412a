"""How a job and its runs may move from state to state: one table, drawn in docs/job-lifecycle.md.

Both states are derived from the job's row, so nothing sets them; this table says which changes of the row are sound.
"""

from __future__ import annotations

from typing import NamedTuple

from functions.domain.job import JobStatus
from functions.domain.run import RunState


class Transition(NamedTuple):
    """`before` is None for a job that is made."""

    before: JobStatus | None
    after: JobStatus
    event: str


class RunTransition(NamedTuple):
    """`before` is None for a run that is made, `after` for one that has ended."""

    before: RunState | None
    after: RunState | None
    event: str


TRANSITIONS = (
    Transition(None, JobStatus.SCHEDULED, "create"),
    Transition(None, JobStatus.PAUSED, "create, enabled false"),
    Transition(None, JobStatus.BLOCKED, "create, dependsOn"),
    Transition(JobStatus.BLOCKED, JobStatus.SCHEDULED, "a run for others' is made, approved, execute"),
    Transition(JobStatus.BLOCKED, JobStatus.RUNNING, "an approved run starts"),
    Transition(JobStatus.BLOCKED, JobStatus.RETRYING, "forced retry, an approved one"),
    Transition(JobStatus.BLOCKED, JobStatus.PAUSED, "pause"),
    Transition(JobStatus.BLOCKED, JobStatus.COMPLETED, "nothing comes of others any more"),
    Transition(JobStatus.BLOCKED, JobStatus.FAILED, "the same, rejected"),
    Transition(JobStatus.BLOCKED, JobStatus.SKIPPED, "the same, the last run was skipped"),
    Transition(JobStatus.BLOCKED, JobStatus.CANCELLED, "cancel"),
    Transition(JobStatus.SCHEDULED, JobStatus.RUNNING, "an attempt starts"),
    Transition(JobStatus.RUNNING, JobStatus.RETRYING, "it failed, another follows"),
    Transition(JobStatus.RETRYING, JobStatus.RUNNING, "the retry starts"),
    Transition(JobStatus.RUNNING, JobStatus.SCHEDULED, "the run ended, a slot is left"),
    Transition(JobStatus.RUNNING, JobStatus.BLOCKED, "the run ended, others may bring another"),
    Transition(JobStatus.RUNNING, JobStatus.PAUSED, "paused meanwhile, the attempt ended"),
    Transition(JobStatus.RUNNING, JobStatus.COMPLETED, "the last run completed"),
    Transition(JobStatus.RUNNING, JobStatus.FAILED, "the last run failed for good"),
    Transition(JobStatus.RUNNING, JobStatus.CANCELLED, "cancel, or the last run was cancelled"),
    Transition(JobStatus.RETRYING, JobStatus.SCHEDULED, "the waiting run was cancelled, a slot is left"),
    Transition(JobStatus.RETRYING, JobStatus.BLOCKED, "the waiting run was cancelled, or has to be approved"),
    Transition(JobStatus.RETRYING, JobStatus.PAUSED, "pause holds the retry"),
    Transition(JobStatus.RETRYING, JobStatus.FAILED, "quarantined"),
    Transition(JobStatus.RETRYING, JobStatus.CANCELLED, "cancel"),
    Transition(JobStatus.SCHEDULED, JobStatus.BLOCKED, "a run has to be approved, ends without an attempt, dependsOn"),
    Transition(JobStatus.SCHEDULED, JobStatus.RETRYING, "forced retry"),
    Transition(JobStatus.SCHEDULED, JobStatus.PAUSED, "pause"),
    Transition(JobStatus.SCHEDULED, JobStatus.COMPLETED, "the last slots were skipped"),
    Transition(JobStatus.SCHEDULED, JobStatus.FAILED, "a one-time slot was skipped, or quarantined"),
    Transition(JobStatus.SCHEDULED, JobStatus.CANCELLED, "cancel"),
    Transition(JobStatus.PAUSED, JobStatus.SCHEDULED, "resume"),
    Transition(JobStatus.PAUSED, JobStatus.BLOCKED, "resume"),
    Transition(JobStatus.PAUSED, JobStatus.RETRYING, "resume with a held retry, forced retry"),
    Transition(JobStatus.PAUSED, JobStatus.RUNNING, "a manual run starts"),
    Transition(JobStatus.PAUSED, JobStatus.COMPLETED, "new schedule without a slot left"),
    Transition(JobStatus.PAUSED, JobStatus.FAILED, "new schedule without a slot left"),
    Transition(JobStatus.PAUSED, JobStatus.CANCELLED, "cancel"),
    Transition(JobStatus.COMPLETED, JobStatus.SCHEDULED, "execute, new schedule"),
    Transition(JobStatus.COMPLETED, JobStatus.BLOCKED, "dependsOn, one of others ended again"),
    Transition(JobStatus.COMPLETED, JobStatus.PAUSED, "the same while paused"),
    Transition(JobStatus.FAILED, JobStatus.SCHEDULED, "execute, new schedule"),
    Transition(JobStatus.FAILED, JobStatus.BLOCKED, "dependsOn, one of others ended again"),
    Transition(JobStatus.FAILED, JobStatus.PAUSED, "the same while paused"),
    Transition(JobStatus.FAILED, JobStatus.RETRYING, "forced retry"),
    Transition(JobStatus.CANCELLED, JobStatus.SCHEDULED, "only its last run was cancelled; execute, new schedule"),
    Transition(JobStatus.CANCELLED, JobStatus.BLOCKED, "the same with dependsOn"),
    Transition(JobStatus.CANCELLED, JobStatus.PAUSED, "the same while paused"),
    Transition(JobStatus.SKIPPED, JobStatus.SCHEDULED, "others ended again, execute, new schedule"),
    Transition(JobStatus.SKIPPED, JobStatus.BLOCKED, "other dependsOn, one of others ended again"),
    Transition(JobStatus.SKIPPED, JobStatus.PAUSED, "the same while paused"),
    Transition(JobStatus.SKIPPED, JobStatus.FAILED, "new schedule without a slot left"),
)
RUN_TRANSITIONS = (
    RunTransition(None, RunState.RUNNING, "a slot starts"),
    RunTransition(None, RunState.WAITING, "manual run, forced retry, deferral"),
    RunTransition(None, RunState.QUEUED, "another run is active"),
    RunTransition(RunState.WAITING, RunState.RUNNING, "its attempt starts"),
    RunTransition(RunState.WAITING, RunState.QUEUED, "another attempt of the job runs"),
    RunTransition(RunState.RUNNING, RunState.WAITING, "the attempt failed, another follows"),
    RunTransition(RunState.QUEUED, RunState.WAITING, "the run before it ended"),
    RunTransition(RunState.RUNNING, None, "the run ended"),
    RunTransition(RunState.WAITING, None, "cancelled, or quarantined"),
    RunTransition(RunState.QUEUED, None, "cancelled"),
)


def may_become(before: JobStatus | None, after: JobStatus) -> bool:
    """Whether one write may change a job's status so; staying as it is always may be."""
    return before is after or any((one.before, one.after) == (before, after) for one in TRANSITIONS)


def run_may_become(before: RunState | None, after: RunState | None) -> bool:
    """Whether one write may change a run so."""
    return before is after or any((one.before, one.after) == (before, after) for one in RUN_TRANSITIONS)


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = [f"    {one.before or '[*]'} --> {one.after}: {one.event}" for one in TRANSITIONS]
    return "\n".join(["stateDiagram-v2", *lines, "    CANCELLED --> [*]"])
