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
    from functions.domain.outcome import Invocation, TargetAnswer
    from functions.domain.step import Step

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
    """State rows and definitions. Reads are strongly consistent."""

    def create(self, job: Job) -> Job:
        """Put a new job: its definition row first, if it needs one, then the state row if absent; returns what is put.

        Raises JobExistsError when the id is taken by another write than this one: neither the row's `write_id` nor,
        where somebody wrote it since, its `revised_by` is `job.write_id`.
        """
        ...

    def get(self, job_id: str, *, with_definition: bool = True) -> Job | None:
        """The row; a soft-deleted one too. `definition` is None where it cannot be read, or was not asked for and
        would have cost a read of its own."""
        ...

    def get_many(self, job_ids: Sequence[str]) -> list[Job]:
        """The rows that exist, in the order asked for, at most 100; one that cannot be read is left out."""
        ...

    def save(self, read: Job, new: Job) -> Job:
        """Replace the row `read` by `new` in one conditional write; returns `new` with its `seq` (read.seq + 1).

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

    def list_by_owner(self, owner: str, *, limit: int, cursor: str | None) -> Page[str]:
        """Ids of the owner's jobs, newest first, from an index that may lag. Soft-deleted ones are not in it.

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

    def list(
        self, job_id: str, *, limit: int, cursor: str | None, beside: Execution | None = None
    ) -> Page[Execution | SkippedSlots]:
        """Newest first; `beside` is shown in its place, as if it had a row.

        Raises InvalidFieldError("cursor", …) for a cursor this method did not hand out.
        """
        ...


class ArmedHint(NamedTuple):
    """One of many hints that are armed together."""

    hint: Hint
    due_at: int
    priority: Priority


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
        """Hints that are due and not yet taken, over all run queues, approximately. The sweep feeds nothing while it
        is over 1 000: SQS tells the age of the oldest message only as a metric, minutes late."""
        ...


class Targets(Protocol):
    def call(self, invocation: Invocation, target: dict[str, object]) -> TargetAnswer:
        """Call the job's target once and wait for its answer, at most `timeout_seconds`. Never raises."""
        ...


class Workflows(Protocol):
    """Attempts that the state machine runs. Names of its executions are derived: `Step.execution_name`."""

    def start(self, step: Step) -> None:
        """Have the attempt run. Started already, or ended, is no error: the name is refused for 90 days.

        Raises NotStartedError when it is certain that it was not started, UnavailableError when it may have been.
        """
        ...

    def stop(self, step: Step) -> None:
        """End the attempt's execution where it is, best effort; never raises. One that is over is a no-op."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What is left of a caller's limit, for the `RateLimit-*` headers."""

    limit: int
    remaining: int
    reset_seconds: int


class RateLimits(Protocol):
    def take(self, caller: str, kind: str, *, now: float, creations: int = 0) -> Allowance:
        """Count one request of `kind` ("read" or "write") and `creations` created jobs in one conditional write.

        Raises RateLimitedError; then nothing was counted.
        """
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


class Owners(Protocol):
    """Registry of everybody who owns jobs, for `owner=*`."""

    def register(self, owner: str) -> None:
        """Remember the owner; costs a call only the first time in a process."""
        ...

    def all(self) -> Iterator[str]: ...


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
