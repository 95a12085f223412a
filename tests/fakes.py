"""In-memory ports for tests of use cases. tests/contract/ runs one suite over these and over the adapters.

They model what only AWS does: a refused condition hands out the row that refused it, the SDK repeats a write whose
answer was lost, indexes lag, a schedule's name conflicts until it is deleted, messages come twice, late or early.
Faults are injected through tests/faults.py.

    clock = FakeClock(1_800_000_000)
    world = World(clock)                           # all ports, one `faults`
    world.timetable.take_due()                     # deliveries that are visible now, taken off the queue
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import threading
import zlib
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from functions.domain.circuit import Circuit, CircuitPolicy
from functions.domain.circuit_key import CircuitKey
from functions.domain.concurrency import Slot, place_of
from functions.domain.cursor import newest, owners_scope, read_cursor, write_cursor
from functions.domain.errors import (
    CorruptDefinitionError,
    GraphChangedError,
    HintNotSentError,
    IdempotencyKeyReusedError,
    JobExistsError,
    LostRaceError,
    NotStartedError,
    RateLimitedError,
    RevokedError,
    UnavailableError,
    UnreadableRowError,
)
from functions.domain.execution import Execution, ExecutionStatus, SkippedSlots
from functions.domain.job_type import StoredTypeConfig, TypeConfig
from functions.domain.limits import Bucket, microseconds
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.progress import MIN_INTERVAL, Progress
from functions.domain.timing import OneTimeSchedule, one_time_schedule, route
from functions.limit_ports import Allowance
from functions.ports import ArmedHint, BusEvent, Claim, Page, RecurringCount
from tests.faults import Faults
from tests.graph_fakes import InMemoryDependents, InMemoryGraphs, InMemoryWorkflows
from tests.share_fakes import FakeShares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from functions.domain.definition import Definition, Priority
    from functions.domain.hint import Hint
    from functions.domain.job import Gap, Job
    from functions.domain.run import LastRun
    from functions.domain.step import Step
    from functions.domain.webhook_key import WebhookKeys
from functions.domain.webhook_key import StoredKeys
from functions.domain.worker import Worker

SHARDS = 8
INLINE_LIMIT = 500
"""Bytes of definition and payload above which a definition gets a row of its own."""
AUTO_DELETION = 60
"""Seconds after its firing for which EventBridge Scheduler still holds a schedule's name."""
IDEMPOTENCY_TTL = 3600


class FakeClock:
    """Stands still until a test moves it. `sleep` moves it too."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.time = float(now)
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += max(0.0, seconds)

    def advance(self, seconds: float) -> float:
        self.time += seconds
        return self.time


def must_fit_hash_key(text: str) -> str:
    """As DynamoDB does: 1 to 2 048 bytes for a partition's key."""
    if not 0 < len(text.encode()) <= 2_048:
        raise ValueError(f"ValidationException: a hash key of {len(text.encode())} bytes")
    return text


def must_fit_range_key(text: str) -> str:
    """As DynamoDB does: 1 to 1 024 bytes for a sort key."""
    if not 0 < len(text.encode()) <= 1_024:
        raise ValueError(f"ValidationException: a range key of {len(text.encode())} bytes")
    return text


class InMemoryJobs:
    """State rows, definition rows, and the two indexes, which lag while `lagging` is True."""

    shards = SHARDS
    waiting_shards = 2

    def __init__(self, *, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.rows: dict[str, Job] = {}
        """The rows, without the definitions that have rows of their own."""
        self.definitions: dict[tuple[str, str], Definition] = {}
        """(job id, row name) to definition."""
        self.lagging = False
        self.graphs = InMemoryGraphs()
        self._lock = threading.RLock()
        self._attention: dict[str, int] = {}
        self._owned: dict[str, tuple[str, str]] = {}
        self._waiting: dict[str, tuple[str, str]] = {}
        self._behind: list[Job] = []
        self.calls: list[str] = []
        self._unreadable: set[str] = set()
        self._set_aside: dict[str, int] = {}

    # --- what tests do to it ---

    def spoil(self, job_id: str, *, mended: bool = False) -> None:
        """Make the job's row unreadable, or readable again."""
        if mended:
            self._unreadable.discard(job_id)
        else:
            self._unreadable.add(job_id)

    def catch_up(self) -> None:
        """The indexes show every write made so far."""
        for row in self._behind:
            self._index(row)
        self._behind.clear()
        self.lagging = False

    def put(self, job: Job) -> Job:
        """Set a row as it is, without condition or step; returns it as a read would."""
        with self._lock:
            name = self._row_name(job)
            if name is not None and job.definition is not None:
                self.definitions[job.id, name] = job.definition
            self._store(dataclasses.replace(job, definition_row=name))
        return self._read(job.id)

    def lose_definition(self, job_id: str) -> None:
        """Make the job's definition unreadable."""
        row = self.rows[job_id]
        self.rows[job_id] = dataclasses.replace(row, definition=None)
        if row.definition_row is not None:
            self.definitions.pop((job_id, row.definition_row), None)

    # --- the port ---

    def create(self, job: Job) -> Job:
        stored = dataclasses.replace(job, definition_row=self._row_name(job))
        self._put_definition(stored)

        def apply() -> None:
            with self._lock:
                row = self.rows.get(job.id)
                if row is None:
                    self._store(stored)
                elif job.write_id not in (row.write_id, row.revised_by):
                    raise JobExistsError

        try:
            self.faults.run("jobs.create", apply)
        except JobExistsError:
            self._forget_definition(stored, unless=self.rows[job.id].definition_row)
            raise
        return stored

    def create_all(self, jobs: Sequence[Job]) -> Sequence[Job]:
        stored = [dataclasses.replace(job, definition_row=self._row_name(job)) for job in jobs]
        for job in stored:
            self._put_definition(job)

        def apply() -> None:
            with self._lock:
                taken = [row for job in jobs if (row := self.rows.get(job.id)) is not None]
                if not taken:
                    for job in stored:
                        self._store(job)
                elif any(not self._is_of(job) for job in jobs):
                    raise JobExistsError

        try:
            self.faults.run("jobs.create_all", apply)
        except JobExistsError:
            for job in stored:
                row = self.rows.get(job.id)
                self._forget_definition(job, unless=None if row is None else row.definition_row)
            raise
        return stored

    def _is_of(self, job: Job) -> bool:
        row = self.rows.get(job.id)
        return row is not None and job.write_id in (row.write_id, row.revised_by)

    def get_rows(self, job_ids: Sequence[str]) -> dict[str, Job]:
        self.calls.append("get_rows")
        with self._lock:
            return {one: self._read(one, with_definition=False) for one in job_ids if one in self.rows}

    def get(self, job_id: str, *, with_definition: bool = True) -> Job | None:
        self.calls.append("get")
        with self._lock:
            return self._read(job_id, with_definition=with_definition) if job_id in self.rows else None

    def get_many(self, job_ids: Sequence[str]) -> list[Job]:
        self.calls.append("get_many")
        with self._lock:
            readable = [one for one in job_ids if one in self.rows and one not in self._unreadable]
            return [self._read(job_id) for job_id in readable]

    def save(self, read: Job, new: Job, *, graph: int | None = None) -> Job:
        changed = new.definition is not None and not same_definition(new.definition, read.definition)
        name = self._row_name(new) if changed else read.definition_row
        definition = new.definition or read.definition
        saved = dataclasses.replace(new, seq=read.seq + 1, definition=definition, definition_row=name)
        if changed:
            self._put_definition(saved)

        def apply() -> None:
            with self._lock:
                row = self.rows.get(read.id)
                if row is not None and row.write_id == new.write_id:
                    return
                row = self._as_read(read, graph)
                if not changed:
                    # A write that names no other definition leaves what is stored, even if it cannot be read.
                    kept = dataclasses.replace(saved, definition=row.definition, definition_row=row.definition_row)
                    self._store(kept)
                else:
                    self._store(saved)

        try:
            self.faults.run("jobs.save", apply)
        except LostRaceError as lost:
            if changed:
                self._forget_definition(saved, unless=lost.current and lost.current.definition_row)
            raise
        except GraphChangedError:
            self._forget_definition(saved, unless=read.definition_row)
            raise
        if changed:
            self._forget_definition(read, unless=name)
        return saved

    def _as_read(self, read: Job, graph: int | None) -> Job:
        row = self.rows.get(read.id)
        if row is None or row.seq != read.seq:
            raise LostRaceError(None if row is None else self._current(row, read))
        if graph is not None:
            self.graphs.advance(read.owner, graph)
        return row

    def due_for_attention(self, shard: int, *, until: int) -> Iterator[str]:
        self.calls.append("due_for_attention")
        with self._lock:
            due = sorted(
                (at, job_id) for job_id, at in self._attention.items() if at <= until and shard_of(job_id) == shard
            )
        return iter([job_id for _, job_id in due])

    def set_aside(self, job_id: str, *, until: int) -> bool | None:
        def apply() -> bool | None:
            with self._lock:
                row = self.rows.get(job_id)
                if row is None or job_id not in self._unreadable:
                    return None
                anew = self._set_aside.get(job_id) != row.seq
                self._store(dataclasses.replace(row, attention_at=until, seq=row.seq + 1))
                self._set_aside[job_id] = row.seq + 1
                return anew

        return self.faults.run("jobs.set_aside", apply, repeats=False)

    def waiting_for(self, what: str, shard: int, *, limit: int) -> list[tuple[str, str]]:
        self.calls.append("waiting_for")
        with self._lock:
            waiting = sorted(
                (place, job_id)
                for job_id, (waits_for, place) in self._waiting.items()
                if waits_for == what and zlib.crc32(job_id.encode()) % self.waiting_shards == shard
            )
        return waiting[:limit]

    def list_by_owners(self, owners: Sequence[str], *, limit: int, cursor: str | None) -> Page[str]:
        self.calls.append("list_by_owners")
        scope = owners_scope("owner", owners)
        before = None if cursor is None else read_cursor(cursor, scope=scope)
        for owner in owners:
            must_fit_hash_key(owner)
        with self._lock:
            owned = [place for who, place in self._owned.values() if who in owners]
        places, more = newest((place for place in owned if before is None or place < before), limit)
        return Page(
            items=[place.split("#", 1)[1] for place in places],
            cursor=write_cursor(places[-1], scope=scope) if more else None,
        )

    def _put_definition(self, job: Job) -> None:
        if job.definition_row is None or job.definition is None:
            return
        key, definition = (job.id, job.definition_row), job.definition
        self.faults.run("jobs.put_definition", lambda: self.definitions.__setitem__(key, definition))

    def _forget_definition(self, job: Job, *, unless: str | None) -> None:
        if job.definition_row is not None and job.definition_row != unless:
            key = (job.id, job.definition_row)
            self.faults.run("jobs.delete_definition", lambda: self.definitions.pop(key, None))

    @staticmethod
    def _row_name(job: Job) -> str | None:
        if job.definition is None or _definition_size(job.definition) <= INLINE_LIMIT:
            return None
        return f"D#{job.revision}#{job.write_id}"

    def _read(self, job_id: str, *, with_definition: bool = True) -> Job:
        if job_id in self._unreadable:
            raise UnreadableRowError(job_id)
        row = self.rows[job_id]
        if row.definition_row is None or not with_definition:
            return _as_stored(row)
        return _as_stored(dataclasses.replace(row, definition=self.definitions.get((job_id, row.definition_row))))

    def _current(self, row: Job, read: Job) -> Job:
        if row.definition_row is not None and row.definition_row == read.definition_row:
            return dataclasses.replace(row, definition=read.definition)
        return self._read(row.id)

    def _store(self, job: Job) -> None:
        row = job if job.definition_row is None else dataclasses.replace(job, definition=None)
        self.rows[job.id] = row
        if self.lagging:
            self._behind.append(row)
        else:
            self._index(row)

    def _index(self, row: Job) -> None:
        self._attention.pop(row.id, None)
        self._owned.pop(row.id, None)
        self._waiting.pop(row.id, None)
        if row.waiting is not None:
            run = row.waiting[1]
            self._waiting[row.id] = (str(run.waits_for), place_of(row.priority, run.deferred_at or 0))
        if row.attention_at is not None:
            self._attention[row.id] = row.attention_at
        if row.deleted_at is None:
            self._owned[row.id] = (row.owner, f"{row.created_at:010d}#{row.id}")


class InMemoryHistory:
    """Executions and gaps; the first row of an attempt stays."""

    def __init__(self, *, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.executions: dict[tuple[str, str, int], Execution] = {}
        self.gaps: dict[tuple[str, int], SkippedSlots] = {}
        self.ends: dict[tuple[str, int], LastRun] = {}
        self._lock = threading.RLock()

    def record(self, execution: Execution) -> Execution:
        key = (execution.job_id, execution.slot_id, execution.attempt)

        def apply() -> Execution:
            with self._lock:
                return self.executions.setdefault(key, execution)

        return self.faults.run("history.record", apply)

    def record_gap(self, job_id: str, gap: Gap, *, now: float) -> None:
        row = SkippedSlots(
            job_id=job_id, first=gap.first, last=gap.last, count=gap.count, reason=gap.reason, recorded_at=now
        )

        def apply() -> None:
            with self._lock:
                stored = self.gaps.get((job_id, gap.first))
                if stored is None or stored.last < gap.last:
                    self.gaps[job_id, gap.first] = row

        self.faults.run("history.record_gap", apply)

    def record_end(self, job_id: str, number: int, last: LastRun) -> None:
        self.faults.run("history.record_end", lambda: self.ends.setdefault((job_id, number), last))

    def end(self, job_id: str, number: int) -> LastRun | None:
        return self.ends.get((job_id, number))

    def get(self, job_id: str, slot_id: str, attempt: int) -> Execution | None:
        return self.executions.get((job_id, slot_id, attempt))

    def list(
        self, job_id: str, *, limit: int, cursor: str | None, beside: Sequence[Execution | SkippedSlots] = ()
    ) -> Page[Execution | SkippedSlots]:
        scope = f"history {job_id}"
        before = None if cursor is None else read_cursor(cursor, scope=scope)
        with self._lock:
            rows: dict[str, Execution | SkippedSlots] = {
                f"{slot}-{attempt:04d}": row for (job, slot, attempt), row in self.executions.items() if job == job_id
            }
            rows |= {f"{first:010d}-0000": gap for (job, first), gap in self.gaps.items() if job == job_id}
        for one in beside:
            gap = isinstance(one, SkippedSlots)
            key = f"{one.first:010d}-0000" if isinstance(one, SkippedSlots) else f"{one.slot_id}-{one.attempt:04d}"
            stored = rows.get(key)
            if not (gap and isinstance(stored, SkippedSlots) and stored.last > one.last):
                rows[key] = one
        keys = [key for key in sorted(rows, reverse=True) if before is None or key < before]
        more = len(keys) > limit
        keys = keys[:limit]
        return Page(items=[rows[key] for key in keys], cursor=write_cursor(keys[-1], scope=scope) if more else None)

    @property
    def dead_letters(self) -> list[Execution]:
        return [row for row in self.executions.values() if row.is_dead_letter]

    def of(self, job_id: str) -> list[Execution]:
        """The job's executions, oldest first."""
        return [row for key, row in sorted(self.executions.items()) if key[0] == job_id]


@dataclass
class Delivery:
    """A message in a run queue, or one that a schedule will put there."""

    hint: Hint
    due_at: int
    priority: Priority
    visible_at: float
    """When a consumer can take it."""
    schedule: str | None = None
    """Name of the schedule that brings it; None for the queue's own delay."""
    receives: int = 1
    """How often it was delivered, this time included: more than once, it failed before, and is in flight until then."""


class FakeTimetable:
    """Keeps armed hints. A test takes what is due, or delivers any hint twice, late or early as it likes."""

    def __init__(self, clock: FakeClock, *, faults: Faults | None = None) -> None:
        self.clock = clock
        self.faults = faults or Faults()
        self.armed: list[Delivery] = []
        """Not yet taken, in the order of arming."""
        self.sent: list[Delivery] = []
        """Everything ever armed that was new."""
        self.failing = False
        """While True every arm raises HintNotSentError."""
        self.strangers = 0
        """Visible messages of other jobs."""
        self.untaken: frozenset[Priority] = frozenset()
        """Queues that no consumer takes from."""
        self._names: dict[str, float] = {}
        self._lock = threading.RLock()

    def arm(self, hint: Hint, *, due_at: int, priority: Priority) -> None:
        if self.failing:
            raise HintNotSentError
        self.faults.run("timetable.arm", lambda: self._arm(hint, due_at, priority))

    def _arm(self, hint: Hint, due_at: int, priority: Priority) -> None:
        now = self.clock.now()
        way = route(hint, due_at=due_at, now=now)
        with self._lock:
            if isinstance(way, OneTimeSchedule):
                if self._names.get(way.name, 0.0) > now:
                    return  # ConflictException: armed already
                self._names[way.name] = way.fires_at + AUTO_DELETION
                delivery = Delivery(hint, due_at, priority, float(way.fires_at), way.name)
            else:
                delivery = Delivery(hint, due_at, priority, now + way.seconds)
            self.armed.append(delivery)
            self.sent.append(delivery)

    def arm_all(self, hints: Sequence[ArmedHint]) -> int:
        failed = 0
        for hint, due_at, priority, _ in hints:
            try:
                self.arm(hint, due_at=due_at, priority=priority)
            except HintNotSentError:
                failed += 1
        return failed

    def disarm(self, hint: Hint, *, due_at: int) -> None:
        name = one_time_schedule(hint, due_at=due_at).name

        def apply() -> None:
            with self._lock:
                waiting = [one for one in self.armed if one.schedule == name and one.visible_at > self.clock.now()]
                for delivery in waiting:
                    self.armed.remove(delivery)
                    self._names.pop(name, None)

        self.faults.run("timetable.disarm", apply)

    def backlog(self) -> int:
        now = self.clock.now()
        with self._lock:
            return self.strangers + sum(one.visible_at <= now or one.receives > 1 for one in self.armed)

    # --- what tests do to it ---

    def deliverable(self, now: float | None = None) -> list[Delivery]:
        """What a consumer could take, earliest first."""
        at = self.clock.now() if now is None else now
        with self._lock:
            due = [one for one in self.armed if one.visible_at <= at and one.priority not in self.untaken]
        return sorted(due, key=lambda one: one.visible_at)

    def take_due(self, now: float | None = None) -> list[Delivery]:
        """Take what is visible off the queues."""
        due = self.deliverable(now)
        taken = {id(delivery) for delivery in due}
        with self._lock:
            self.armed = [one for one in self.armed if id(one) not in taken]
        return due

    def drop(self, delivery: Delivery) -> None:
        """Lose a message: it never comes."""
        with self._lock:
            self.armed = [one for one in self.armed if one is not delivery]

    def duplicate(self, delivery: Delivery, *, later: float = 0.0) -> Delivery:
        """The queue delivers it once more, `later` seconds after the first."""
        copy = dataclasses.replace(delivery, visible_at=delivery.visible_at + later)
        with self._lock:
            self.armed.append(copy)
        return copy

    def hints(self, job_id: str) -> list[Hint]:
        """The job's armed hints."""
        return [one.hint for one in self.armed if one.hint.job_id == job_id]

    def next_visible(self) -> float | None:
        return min((one.visible_at for one in self.armed if one.priority not in self.untaken), default=None)

    @property
    def schedules(self) -> list[str]:
        """Names of the schedules that have not fired."""
        now = self.clock.now()
        return [one.schedule for one in self.armed if one.schedule is not None and one.visible_at > now]


class FakeTargets:
    """Answers as told, by default with success; remembers what it was called with.

    `answers` are given one a call, the last one for ever; a callable is called with the invocation.
    """

    def __init__(self, *answers: TargetAnswer | Callable[[Invocation], TargetAnswer], faults: Faults | None = None):
        self.faults = faults or Faults()
        self.answers = list(answers) or [TargetAnswer(status=ExecutionStatus.COMPLETED, result="null")]
        self.calls: list[Invocation] = []
        self.targets: list[dict[str, object]] = []

    def call(self, invocation: Invocation, target: dict[str, object]) -> TargetAnswer:
        def apply() -> TargetAnswer:
            self.calls.append(invocation)
            self.targets.append(target)
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            return answer(invocation) if callable(answer) else answer

        return self.faults.run("targets.call", apply, repeats=False)


NAME_REFUSED = 90 * 86_400
"""Seconds for which Step Functions refuses the name of an execution that has ended."""


class FakeMachine:
    """Executions of the state machine by name. What a test takes with `take` it runs, or leaves running."""

    def __init__(self, clock: FakeClock, *, faults: Faults | None = None) -> None:
        self.clock = clock
        self.faults = faults or Faults()
        self.refusal: NotStartedError | UnavailableError | None = None
        """While there is one, every start raises it."""
        self.waiting: list[Step] = []
        """Started, and not taken by the test."""
        self.started: list[Step] = []
        """Every execution there ever was."""
        self.running: set[str] = set()
        """Names of executions that have not ended."""
        self.stopped: list[str] = []
        self._closed: dict[str, float] = {}
        self._lock = threading.RLock()

    def start(self, step: Step) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.faults.run("machine.start", lambda: self._start(step))

    def _start(self, step: Step) -> None:
        with self._lock:
            name = step.execution_name
            if name in self.running or self._closed.get(name, -NAME_REFUSED) + NAME_REFUSED > self.clock.now():
                return  # the same execution, or ExecutionAlreadyExists
            self.running.add(name)
            self.started.append(step)
            self.waiting.append(step)

    def stop(self, step: Step) -> None:
        def apply() -> None:
            if step.execution_name in self.running:
                self.stopped.append(step.execution_name)
                self.ended(step)

        self.faults.run("machine.stop", apply)

    # --- what tests do to it ---

    def take(self) -> list[Step]:
        """What was started since the last look and was not stopped."""
        with self._lock:
            taken = [step for step in self.waiting if step.execution_name in self.running]
            self.waiting.clear()
            return taken

    def ended(self, step: Step) -> None:
        """The execution is over: its name is refused from here on."""
        with self._lock:
            self.running.discard(step.execution_name)
            self._closed[step.execution_name] = self.clock.now()


class InMemoryRateLimits:
    """Token buckets per caller. The defaults are those of docs/http-api.md."""

    def __init__(
        self,
        *,
        reads_per_minute: int = 500,
        writes_per_minute: int = 100,
        work_per_minute: int = 6000,
        creations_per_day: int = 1000,
        faults: Faults | None = None,
    ) -> None:
        self.faults = faults or Faults()
        self.buckets = {
            "read": Bucket(limit=reads_per_minute, period_seconds=60),
            "write": Bucket(limit=writes_per_minute, period_seconds=60),
            "work": Bucket(limit=work_per_minute, period_seconds=60),
            "creation": Bucket(limit=creations_per_day, period_seconds=86_400),
        }
        self._arrivals: dict[tuple[str, str], int] = {}
        self.revoked: dict[str, float] = {}
        self._lock = threading.Lock()

    def take(self, caller: str, kind: str, *, now: float, creations: int = 0) -> Allowance:
        at = microseconds(now)
        arrivals = self._take(caller, {kind: 1} | ({"creation": creations} if creations else {}), at)
        bucket, arrival = self.buckets[kind], arrivals[kind]
        return Allowance(
            limit=bucket.limit,
            remaining=bucket.remaining(arrival, now=at),
            reset_seconds=bucket.reset_seconds(arrival, now=at),
        )

    def create(self, caller: str, creations: int, *, now: float) -> None:
        self._take(caller, {"creation": creations}, microseconds(now))

    def revoke(self, subject: str, *, now: float) -> float:
        must_fit_range_key(subject)
        return self.revoked.setdefault(subject, round(now, 3))

    def restore(self, subject: str, *, now: float) -> None:
        self.revoked.pop(subject, None)

    def _take(self, caller: str, wanted: dict[str, int], at: int) -> dict[str, int]:
        done: list[dict[str, int]] = []

        def apply() -> None:
            with self._lock:
                if done:
                    return
                if caller in self.revoked:
                    raise RevokedError
                arrivals = {}
                for name, tokens in wanted.items():
                    bucket, old = self.buckets[name], self._arrivals.get((caller, name), 0)
                    new = bucket.take(old, tokens, now=at)
                    if new is None:
                        wait = bucket.seconds_until(old, tokens, now=at)
                        raise RateLimitedError(retry_after=wait, limit=bucket.limit)
                    arrivals[name] = new
                self._arrivals |= {(caller, name): new for name, new in arrivals.items()}
                done.append(arrivals)

        self.faults.run("limits.take", apply)
        return done[0]

    def give_back(self, caller: str, *, creations: int) -> None:
        done: list[bool] = []

        def apply() -> None:
            with self._lock:
                if not done and (caller, "creation") in self._arrivals:
                    self._arrivals[caller, "creation"] -= self.buckets["creation"].cost(creations)
                done.append(True)

        self.faults.run("limits.give_back", apply)


@dataclass
class _Claimed:
    body_hash: str
    ids: tuple[str, ...]
    until: float


class InMemoryIdempotencyKeys:
    def __init__(self, *, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.rows: dict[tuple[str, str], _Claimed] = {}
        self._lock = threading.Lock()

    def claim(self, scope: str, key: str, *, body_hash: str, ids: Sequence[str], now: float) -> Claim:
        mine = _Claimed(body_hash, tuple(ids), now + IDEMPOTENCY_TTL)

        def apply() -> Claim:
            with self._lock:
                stored = self.rows.get((scope, key))
                if stored is None or stored.until < now:
                    self.rows[scope, key] = stored = mine
                if stored is mine:
                    return Claim(ids=mine.ids, replayed=False)
                if stored.body_hash != body_hash:
                    raise IdempotencyKeyReusedError
                return Claim(ids=stored.ids, replayed=True)

        return self.faults.run("idempotency.claim", apply)

    def release(self, scope: str, key: str, claim: Claim) -> None:
        def apply() -> None:
            with self._lock:
                stored = self.rows.get((scope, key))
                if not claim.replayed and stored is not None and stored.ids == claim.ids:
                    del self.rows[scope, key]

        self.faults.run("idempotency.release", apply)


class InMemoryRetryConfigs:
    def __init__(self, *, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.rows: dict[str, StoredTypeConfig] = {}
        self.broken: set[str] = set()
        """Types whose rows cannot be read."""

    def get(self, job_type: str) -> StoredTypeConfig | None:
        must_fit_range_key(job_type)
        if job_type in self.broken:
            raise CorruptDefinitionError
        return self.rows.get(job_type)

    def put(self, config: StoredTypeConfig) -> None:
        self.faults.run("retry_configs.put", lambda: self.rows.__setitem__(config.job_type, config))

    def delete(self, job_type: str) -> bool:
        return self.faults.run("retry_configs.delete", lambda: self.rows.pop(job_type, None) is not None)

    def list(self, *, limit: int, cursor: str | None) -> Page[StoredTypeConfig]:
        scope = "retry configurations"
        after = "" if cursor is None else read_cursor(cursor, scope=scope)
        names = sorted(name for name in self.rows if name > after)
        more, names = len(names) > limit, names[:limit]
        return Page(
            items=[self.rows[name] for name in names if name not in self.broken],
            cursor=write_cursor(names[-1], scope=scope) if more else None,
        )


class FakeJobTypes:
    """Reads the rows themselves, so that a change counts at once."""

    def __init__(self, configs: InMemoryRetryConfigs, defaults: TypeConfig | None = None) -> None:
        self.configs = configs
        self.defaults = defaults or TypeConfig()
        self.asked: list[str] = []
        """The types that were asked for."""

    def get(self, job_type: str | None) -> TypeConfig:
        if job_type is None:
            return self.defaults
        self.asked.append(job_type)
        stored = self.configs.rows.get(job_type)
        return self.defaults if stored is None else TypeConfig.read(stored.document).over(self.defaults)

    def set_circuits(self, *shared: str, **thresholds: int) -> None:
        """Set what the stage says of circuits: thresholds in the words of the contract, targets that are shared."""
        policy = CircuitPolicy().under(thresholds)
        self.defaults = dataclasses.replace(self.defaults, stage_circuit=policy, shared_circuits=frozenset(shared))

    def put(self, job_type: str, **document: Any) -> None:
        """Configure a type, as an admin would."""
        self.configs.rows[job_type] = StoredTypeConfig(
            job_type=job_type, document=document, updated_at=0, updated_by="root"
        )


class InMemoryWebhookKeys:
    def __init__(self, *, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.rows: dict[str, StoredKeys] = {}
        self.calls: list[str] = []
        self._lock = threading.RLock()
        self._versions = itertools.count(1)

    def get(self, owner: str) -> StoredKeys | None:
        self.calls.append(f"get {owner}")
        with self._lock:
            return self.rows.get(owner)

    def create(self, owner: str, keys: WebhookKeys) -> StoredKeys:
        def put() -> StoredKeys:
            with self._lock:
                return self.rows.setdefault(owner, StoredKeys(keys, f"v{next(self._versions)}"))

        return self.faults.run("webhook_keys.create", put)

    def replace(self, owner: str, read: StoredKeys, keys: WebhookKeys) -> StoredKeys:
        def put() -> StoredKeys:
            with self._lock:
                if self.rows[owner].version == read.version:
                    self.rows[owner] = StoredKeys(keys, f"v{next(self._versions)}")
                return self.rows[owner]

        return self.faults.run("webhook_keys.replace", put)


class InMemoryOwners:
    def __init__(self, *, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.known: set[str] = set()
        self.recurring: dict[str, RecurringCount] = {}
        self._lock = threading.Lock()

    def add_recurring(self, owner: str, more: int, *, most: int) -> RecurringCount | None:
        with self._lock:
            stored = self.recurring.get(owner, RecurringCount(0, None))
            if stored.made + more > most:
                return stored
            self.recurring[owner] = stored._replace(made=stored.made + more)
            self.known.add(owner)
            return None

    def correct_recurring(self, owner: str, count: int, *, instead_of: RecurringCount, now: int) -> bool:
        with self._lock:
            if self.recurring.get(owner) != instead_of:
                return False
            self.recurring[owner] = RecurringCount(count, now)
            return True

    def register(self, owner: str) -> None:
        must_fit_range_key(owner)
        if owner not in self.known:
            self.faults.run("owners.register", lambda: self.known.add(owner))

    def all(self) -> Iterator[str]:
        yield from sorted(self.known)


class InMemoryCircuits:
    def __init__(self, *, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.rows: dict[str, Circuit] = {}
        self.calls: list[str] = []
        self._lock = threading.RLock()

    def get(self, key: str) -> Circuit:
        must_fit_range_key(key)
        self.calls.append("get")
        with self._lock:
            return self.rows.get(key, Circuit(key=key))

    def save(self, read: Circuit, new: Circuit, *, now: float) -> Circuit:
        return self.faults.run("circuits.save", lambda: self._put(read, new))

    def _put(self, read: Circuit, new: Circuit) -> Circuit:
        with self._lock:
            stored = self.rows.get(read.key, Circuit(key=read.key))
            if stored.seq == read.seq:
                self.rows[read.key] = stored = dataclasses.replace(new, seq=read.seq + 1)
            return stored

    def list(self, owner: str | None, *, limit: int, cursor: str | None) -> Page[Circuit]:
        scope = f"circuits {owner}"
        after = "" if cursor is None else read_cursor(cursor, scope=scope)
        keys = sorted(key for key in self.rows if CircuitKey.parse(key).owner == owner and key > after)
        more = len(keys) > limit
        circuits = [self.rows[key] for key in keys[:limit]]
        return Page(items=circuits, cursor=write_cursor(circuits[-1].key, scope=scope) if more else None)


class InMemorySlots:
    def __init__(self, *, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.rows: dict[str, dict[int, Slot]] = {}
        """Key to index to slot."""
        self.calls: list[str] = []
        self._lock = threading.RLock()

    def held(self, key: str) -> Sequence[Slot]:
        self.calls.append("held")
        with self._lock:
            return [slot for _, slot in sorted(self.rows.get(key, {}).items())]

    def take(self, key: str, slot: Slot, *, instead_of: Slot | None) -> bool:
        def apply() -> bool:
            with self._lock:
                stored = self.rows.setdefault(key, {}).get(slot.index)
                if stored is None:
                    fits = instead_of is None
                else:
                    fits = instead_of is not None and (stored.holder, stored.mark) == (
                        instead_of.holder,
                        instead_of.mark,
                    )
                if fits:
                    self.rows[key][slot.index] = slot
                return fits or (stored is not None and stored.mark == slot.mark)

        return self.faults.run("slots.take", apply)

    def free(self, key: str, index: int, *, holder: str, mark: str | None = None) -> None:
        def apply() -> None:
            with self._lock:
                stored = self.rows.get(key, {}).get(index)
                if stored is not None and stored.holder == holder and mark in (None, stored.mark):
                    del self.rows[key][index]

        self.faults.run("slots.free", apply)


class InMemoryWorkers:
    def __init__(self, *, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.rows: dict[str, Worker] = {}
        self._marks: dict[str, object] = {}
        self._lock = threading.RLock()

    def register(self, worker: Worker) -> None:
        self.faults.run("workers.register", lambda: self.rows.__setitem__(worker.id, worker))

    def get(self, worker_id: str) -> Worker | None:
        return self.rows.get(worker_id)

    def seen(self, worker_id: str, *, now: float) -> Worker | None:
        def apply() -> Worker | None:
            with self._lock:
                row = self.rows.get(worker_id)
                if row is None:
                    return None
                self.rows[worker_id] = row = dataclasses.replace(row, seen_at=max(row.seen_at, int(now)))
                return row

        return self.faults.run("workers.seen", apply)

    def save(self, read: Worker, new: Worker) -> Worker | None:
        mark = object()

        def apply() -> Worker | None:
            with self._lock:
                row = self.rows.get(read.id)
                if row is not None and self._marks.get(read.id) is mark:
                    return dataclasses.replace(new, version=read.version + 1)
                if row is None or row.version != read.version:
                    return None
                self._marks[read.id] = mark
                self.rows[read.id] = dataclasses.replace(
                    row,
                    draining=new.draining,
                    poll_id=new.poll_id or row.poll_id,
                    intended=new.intended,
                    version=read.version + 1,
                )
                return dataclasses.replace(new, version=read.version + 1)

        return self.faults.run("workers.save", apply)

    def list(self, owners: Sequence[str] | None, *, limit: int, cursor: str | None) -> Page[Worker]:
        scope = "workers" if owners is None else owners_scope("workers", owners)
        after = "" if cursor is None else read_cursor(cursor, scope=scope)
        rows = [row for row in self.rows.values() if owners is None or row.owner in owners]
        ids = sorted(row.id for row in rows if row.id > after)
        more = len(ids) > limit
        found = [self.rows[worker_id] for worker_id in ids[:limit]]
        return Page(items=found, cursor=write_cursor(found[-1].id, scope=scope) if more else None)


class InMemoryProgress:
    def __init__(self, *, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.rows: dict[str, tuple[Progress, int]] = {}
        self._lock = threading.RLock()

    def report(self, execution_id: str, progress: Progress, *, now: float) -> bool:
        at = int(now * 1000)

        def apply() -> bool:
            with self._lock:
                stored = self.rows.get(execution_id)
                if stored is not None and stored[1] > at - int(MIN_INTERVAL * 1000):
                    return False
                kept = Progress(percent=round(progress.percent, 3), message=progress.message)
                self.rows[execution_id] = (kept, at)
                return True

        return self.faults.run("progress.report", apply)

    def read(self, execution_id: str) -> Progress | None:
        stored = self.rows.get(execution_id)
        return None if stored is None else stored[0]


class FakeDeadLetters:
    """While `failing`, announcing raises UnavailableError."""

    def __init__(self, *, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.announced: list[dict[str, object]] = []
        self.failing = False

    def announce(self, messages: Iterable[dict[str, object]]) -> None:
        for message in messages:
            if self.failing:
                raise UnavailableError
            self.faults.run("dead_letters.announce", lambda message=message: self.announced.append(message))


class FakeEventBus:
    """Refuses the events of the keys in `refuses`; while `failing`, all of them."""

    def __init__(self, *, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.events: list[BusEvent] = []
        """What was accepted, in that order."""
        self.refuses: set[str] = set()
        self.failing = False
        self.puts: list[list[BusEvent]] = []

    def put(self, events: Sequence[BusEvent]) -> frozenset[int]:
        def apply() -> frozenset[int]:
            self.puts.append(list(events))
            refused = {place for place, event in enumerate(events) if self.failing or event.key in self.refuses}
            self.events += [event for place, event in enumerate(events) if place not in refused]
            return frozenset(refused)

        return self.faults.run("bus.put", apply) if events else frozenset()


@dataclass
class World:
    """All ports of one test, with one `faults`."""

    clock: FakeClock = field(default_factory=FakeClock)
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self.jobs = InMemoryJobs(faults=self.faults)
        self.history = InMemoryHistory(faults=self.faults)
        self.timetable = FakeTimetable(self.clock, faults=self.faults)
        self.targets = FakeTargets(faults=self.faults)
        self.machine = FakeMachine(self.clock, faults=self.faults)
        self.limits = InMemoryRateLimits(faults=self.faults)
        self.idempotency = InMemoryIdempotencyKeys(faults=self.faults)
        self.owners = InMemoryOwners(faults=self.faults)
        self.circuits = InMemoryCircuits(faults=self.faults)
        self.slots = InMemorySlots(faults=self.faults)
        self.webhook_keys = InMemoryWebhookKeys(faults=self.faults)
        self.shares = FakeShares(self.clock)
        self.retry_configs = InMemoryRetryConfigs(faults=self.faults)
        self.types = FakeJobTypes(self.retry_configs)
        self.dead_letters = FakeDeadLetters(faults=self.faults)
        self.workers = InMemoryWorkers(faults=self.faults)
        self.progress = InMemoryProgress(faults=self.faults)
        self.graphs = self.jobs.graphs
        self.dependents = InMemoryDependents(faults=self.faults)
        self.workflows = InMemoryWorkflows(faults=self.faults)


def _as_stored(row: Job) -> Job:
    """What is stored of a definition is what the caller wrote, and nothing of its type's configuration."""
    if row.definition is None or row.definition.policy is None:
        return row
    return dataclasses.replace(row, definition=dataclasses.replace(row.definition, policy=None))


@cache
def shard_of(job_id: str) -> int:
    return zlib.crc32(job_id.encode()) % SHARDS


def same_definition(one: Definition, other: Definition | None) -> bool:
    """Whether two definitions store the same text (1 and 1.0 are not the same)."""
    return one is other or (other is not None and _text(one) == _text(other))


def _text(definition: Definition) -> tuple[str, str]:
    return json.dumps(definition.document, sort_keys=True), definition.payload


def _definition_size(definition: Definition) -> int:
    document: Any = definition.document
    return len(json.dumps(document, separators=(",", ":")).encode()) + len(definition.payload.encode())
