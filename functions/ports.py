"""What the use cases need of the world. Each docstring is the contract that fakes and adapters are tested against.

Instants are epoch seconds, UTC. A port raises domain errors only; anything else is a fault of the platform and goes up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from functions.domain.definition import Priority
    from functions.domain.execution import Execution, SkippedSlots
    from functions.domain.hint import Hint
    from functions.domain.job import Gap, Job
    from functions.domain.job_type import StoredTypeConfig, TypeConfig
    from functions.domain.outcome import Invocation, TargetAnswer
    from functions.domain.progress import Progress
    from functions.domain.run import LastRun
    from functions.domain.step import Step
    from functions.domain.worker import Worker

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """One page of a list; `cursor` names where the next one starts, None on the last."""

    items: Sequence[T]
    cursor: str | None = None


class Clock(Protocol):
    def now(self) -> float:
        """Epoch seconds. Clocks of two functions may differ by 2 s."""
        ...

    def sleep(self, seconds: float) -> None: ...


class JobStore(Protocol):
    """State rows and definitions. Reads are strongly consistent, and of one row raise UnreadableRowError where it
    cannot be read."""

    def create(self, job: Job) -> Job:
        """Put a new job: its definition row first, if it needs one, then the state row if absent; returns what is put.

        Raises JobExistsError when the id is taken by another write than this one: neither the row's `write_id` nor,
        where somebody wrote it since, its `revised_by` is `job.write_id`.
        """
        ...

    def create_all(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Put the rows of at most 100 new jobs in one transaction, their definition rows first: a reader sees all of
        them or none; returns what is put.

        Raises JobExistsError when one of the ids is taken, unless by this very call: a repeat of it is a success.
        """
        ...

    def get(self, job_id: str, *, with_definition: bool = True) -> Job | None:
        """The row; a soft-deleted one too. `definition` is None where it cannot be read, or was not asked for and
        would have cost a read of its own."""
        ...

    def get_many(self, job_ids: Sequence[str]) -> list[Job]:
        """The rows that exist, in the order asked for, at most 100; one that cannot be read is left out."""
        ...

    def get_rows(self, job_ids: Sequence[str]) -> dict[str, Job]:
        """The rows that exist, by id, however many are asked for, without the definitions that would cost a read of
        their own; raises UnreadableRowError for a row that cannot be read."""
        ...

    def save(self, read: Job, new: Job, *, graph: int | None = None) -> Job:
        """Replace the row `read` by `new` in one conditional write; returns `new` with its `seq` (read.seq + 1).

        With `graph`, the version of the owner's graph that was read, both are written in one transaction, the version
        as the next one; raises GraphChangedError when it is another by now, and then nothing was written.

        `new.write_id` is the write's fresh mark. Where `new.definition` is another than `read.definition`, its row is
        put first if it needs one (its name carries the write's mark, so two changes never meet in one row), and the
        superseded one is deleted last, best effort.
        A `new` without a definition, or with that of `read`, leaves the stored one as it is.
        Raises LostRaceError(current) when the row is no longer the one that was read; a repeat of an own write whose
        answer was lost is a success. `current` has its definition, that of `read` where its row is still the same one.
        """
        ...

    def due_for_attention(self, shard: int, *, until: int) -> Iterator[str]:
        """Ids of jobs of this shard with `attention_at <= until`, earliest first, read page by page as they are taken.

        Read from an index that may lag.
        """
        ...

    def set_aside(self, job_id: str, *, until: int) -> bool | None:
        """Have the sweep pass over a row that cannot be read until then, in one conditional write that touches nothing
        a release that can read it goes by but `attention_at` and `seq`.

        True where the row had not been set aside since it was last written, False where it had; None, and nothing is
        written, where the row can be read, is gone, or was written meanwhile.
        """
        ...

    @property
    def shards(self) -> int:
        """How many shards the attention index has."""
        ...

    def waiting_for(self, what: str, shard: int, *, limit: int) -> list[tuple[str, str]]:
        """(place, job id) of jobs of this shard with a run that waits for `what`, in the order of their places: by
        priority, then who has waited longest. Read from an index that may lag."""
        ...

    @property
    def waiting_shards(self) -> int:
        """How many shards the waiting index has for each thing."""
        ...

    def list_by_owners(self, owners: Sequence[str], *, limit: int, cursor: str | None) -> Page[str]:
        """Ids of these owners' jobs, newest first, from an index that may lag. Soft-deleted ones are not in it.

        Raises InvalidFieldError("cursor", …) for a cursor this method did not hand out.
        """
        ...


class RunHistory(Protocol):
    """Executions, append-only. The stored row is the decision about its attempt. Reads are strongly consistent."""

    def record(self, execution: Execution) -> Execution:
        """Put the row if absent; returns the row that is stored: this one, or the one that came first."""
        ...

    def record_gap(self, job_id: str, gap: Gap, *, now: float) -> None:
        """Put the gap's row if absent or if the stored one ends earlier. Repeating it changes nothing."""
        ...

    def get(self, job_id: str, slot_id: str, attempt: int) -> Execution | None: ...

    def record_end(self, job_id: str, number: int, last: LastRun) -> None:
        """Keep the end of a followed job's run under its number, if absent, for those that depend on the job."""
        ...

    def end(self, job_id: str, number: int) -> LastRun | None: ...

    def list(
        self, job_id: str, *, limit: int, cursor: str | None, beside: Sequence[Execution | SkippedSlots] = ()
    ) -> Page[Execution | SkippedSlots]:
        """Newest first; what is `beside` is shown in its place, as if it had a row: instead of one that is there,
        unless that is of a gap which ends later.

        Raises InvalidFieldError("cursor", …) for a cursor this method did not hand out.
        """
        ...


class ArmedHint(NamedTuple):
    """One of many hints that are armed together."""

    hint: Hint
    due_at: int
    priority: Priority
    owner: str
    """Of the job: queues deliver the hints of one owner no later for the backlog of another."""


class Timetable(Protocol):
    """Delayed hints: the queue's own delay up to 15 minutes, EventBridge Scheduler beyond."""

    def arm_all(self, hints: Sequence[ArmedHint]) -> int:
        """Have each hint delivered at its `due_at`, not before; at once when it is past. Armed already is no error.

        Those of one queue are sent together. Returns how many could not be sent: the sweep brings them.
        """
        ...

    def disarm(self, hint: Hint, *, due_at: int) -> None:
        """Take back a hint beyond the queue's delay, best effort; never raises. A late one is a no-op."""
        ...

    def backlog(self) -> int:
        """Hints that are due and wait for a consumer, over all run queues, approximately: those that can be taken, and
        those that were taken, failed, and come again. Not those that consumers are at work on.

        The sweep fills it up to 1 000: SQS tells the age of the oldest message only as a metric, minutes late."""
        ...


class TakenMessages(Protocol):
    """Messages that a consumer has taken from its queue."""

    def hand_back(self, queue_arn: str, receipt_handle: str, *, receives: int) -> int | None:
        """Let a message that could not be handled just now come again after some seconds, which are returned: more of
        them, the more often it was taken. None where that was refused; never raises."""
        ...


class Targets(Protocol):
    def call(self, invocation: Invocation, target: dict[str, object]) -> TargetAnswer:
        """Call the job's target once and wait for its answer, at most `timeout_seconds`. Never raises.

        A target that jobs of `invocation.owner` may not use is not called: the answer is TARGET_ERROR, not retryable.
        """
        ...


class Machine(Protocol):
    """Attempts that the state machine runs. Names of its executions are derived: `Step.execution_name`."""

    def start(self, step: Step) -> None:
        """Have the attempt run. Started already, or ended, is no error: the name is refused for 90 days.

        Raises NotStartedError when it is certain that it was not started, UnavailableError when it may have been.
        """
        ...

    def stop(self, step: Step) -> None:
        """End the attempt's execution where it is, best effort; never raises. One that is over is a no-op."""
        ...


class IdempotencyKeys(Protocol):
    def claim(self, scope: str, key: str, *, body_hash: str, ids: Sequence[str], now: float) -> Claim:
        """Store `ids` under the key for an hour, if absent or expired; returns the ids that are stored.

        Raises IdempotencyKeyReusedError when the stored body hash is another.
        """
        ...

    def release(self, scope: str, key: str, claim: Claim) -> None:
        """Take back a claim of this very request, which was refused (4xx)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    ids: tuple[str, ...]
    replayed: bool
    """Whether an earlier request stored these ids."""


class RetryConfigs(Protocol):
    """Configurations of job types, by type. Reads are strongly consistent."""

    def get(self, job_type: str) -> StoredTypeConfig | None:
        """Raises CorruptDefinitionError where what is stored cannot be read."""
        ...

    def put(self, config: StoredTypeConfig) -> None:
        """Store it in the place of what was there; the last of two writers wins."""
        ...

    def delete(self, job_type: str) -> bool:
        """Whether there was one. A repeat of an own deletion whose answer was lost may say that there was none."""
        ...

    def list(self, *, limit: int, cursor: str | None) -> Page[StoredTypeConfig]:
        """In the order of the types' names; one that cannot be read is left out.

        Raises InvalidFieldError("cursor", …) for a cursor this method did not hand out.
        """
        ...


class JobTypes(Protocol):
    def get(self, job_type: str | None) -> TypeConfig:
        """What holds for the jobs of this type where they say nothing: its configuration over the stage's defaults.

        For None the stage's defaults, at no cost. Read from a memory of a few seconds, and never raises for a store
        that does not answer: what was known last, else the stage's defaults serve.
        """
        ...


class RecurringCount(NamedTuple):
    """How many recurring jobs an owner has made, as its row says."""

    made: int
    recounted_at: int | None
    """When a count of the jobs themselves last began; None for never."""


class Owners(Protocol):
    """Registry of everybody who owns jobs, for `owner=*`."""

    def register(self, owner: str) -> None:
        """Remember the owner; costs a call only the first time in a process."""
        ...

    def all(self) -> Iterator[str]: ...

    def add_recurring(self, owner: str, more: int, *, most: int) -> RecurringCount | None:
        """Count so many more recurring jobs of the owner, in one conditional write, which registers it too.

        It may count up to a hundredth of `most` ahead, so that the next ones cost no call.

        Where that would be more than `most`, the count as it is; then nothing was counted.
        """
        ...

    def correct_recurring(self, owner: str, count: int, *, instead_of: RecurringCount, now: int) -> bool:
        """Put the count, as of `now`, in the place of the one that was read; False where that has changed since."""
        ...


class Workers(Protocol):
    """Rows of workers. Reads are strongly consistent; a row that was not heard of for a day is gone."""

    def register(self, worker: Worker) -> None:
        """Put a new worker's row."""
        ...

    def get(self, worker_id: str) -> Worker | None: ...

    def seen(self, worker_id: str, *, now: float) -> Worker | None:
        """Note that the worker lives, and return its row; None where there is none. `seen_at` never goes back."""
        ...

    def save(self, read: Worker, new: Worker) -> Worker | None:
        """Write `draining`, `poll_id` and `intended` on condition that the row has the `version` that was read; returns
        `new` with the next one, None where another write came first. A repeat of an own write whose answer was lost is
        a success."""
        ...

    def list(self, owners: Sequence[str] | None, *, limit: int, cursor: str | None) -> Page[Worker]:
        """Those of these owners, of all for None, by id; one that cannot be read is left out.

        A cursor names a worker of these owners. Raises InvalidFieldError("cursor", …) for one this method did not hand
        out.
        """
        ...


class ProgressBoard(Protocol):
    """How far running executions are, as they say themselves. Nothing decides by it."""

    def report(self, execution_id: str, progress: Progress, *, now: float) -> bool:
        """Keep it in place of the one before, its percent to three decimals; False where that one is less than a second
        old: then nothing is written."""
        ...

    def read(self, execution_id: str) -> Progress | None:
        """From a read that may lag."""
        ...


class DeadLetters(Protocol):
    def announce(self, messages: Iterable[dict[str, object]]) -> None:
        """Send each to the dead-letter queue; raises when one could not be sent."""
        ...


class BusEvent(NamedTuple):
    """An event as it goes to the bus."""

    key: str
    """What it is about: events of one key are put one after the other."""
    type: str
    time: float
    """Epoch seconds."""
    detail: str
    """JSON text."""


class EventBus(Protocol):
    def put(self, events: Sequence[BusEvent]) -> frozenset[int]:
        """Put each event on the bus; returns the places of those that it refused, to be put again.

        A call that fails as a whole refuses all of its events; never raises. What was accepted may arrive twice, and
        in any order: so the events given have different keys.
        """
        ...
