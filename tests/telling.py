"""Somebody who hears the events of every write of a job's row, and compares their story with history's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from functions.adapters.dynamodb_items import definition_attributes, read_job, state_attributes
from functions.adapters.dynamodb_keys import state_key
from functions.domain.event import Attempt, Change, EventType, LifecycleEvent
from functions.domain.events import events_of, in_history
from functions.domain.execution import Execution, ExecutionStatus, SkippedSlots
from functions.domain.ids import execution_id, is_dependent, parse_execution_id, run_id
from functions.domain.job import Job
from functions.domain.run import RunState
from functions.domain.upstream import UNMET

FAILURES = (EventType.FAILED, EventType.PERMANENTLY_FAILED)
ENDS = (*FAILURES, EventType.COMPLETED, EventType.RUN_CANCELLED, EventType.SKIPPED)
Lookup = Callable[[str, int], Execution | None]
"""Slot id and attempt to the history row."""


class ToldWrongError(AssertionError):
    pass


def must(holds: object, rule: str, detail: object) -> None:
    if not holds:
        raise ToldWrongError(f"{rule}: {detail}")


def image(job: Job) -> Job:
    """The row as the stream's image of it reads: a definition of its own row is not in it."""
    inline = job.definition is not None and job.definition_row is None
    definition = definition_attributes(job.definition) if inline and job.definition is not None else {}
    return read_job(state_key(job.id) | state_attributes(job) | definition)


@dataclass
class Heard:
    """What was told of one job."""

    events: list[LifecycleEvent] = field(default_factory=list)

    def hear(self, before: Job | None, after: Job, at: float, lookup: Lookup) -> None:
        change = Change(before=before, after=after, at=at)
        history = {ended: row for ended in in_history(change) if (row := lookup(*ended)) is not None}
        told = events_of(change, history)
        must(told == events_of(change, history), "a change read twice tells the same", told)
        must([event.index for event in told] == list(range(len(told))), "events of a write are counted", told)
        self.events += told

    def of(self, *types: EventType) -> list[LifecycleEvent]:
        return [event for event in self.events if event.type in types]

    def check(self, row: Job, executions: Iterable[Execution], gaps: Iterable[SkippedSlots]) -> None:
        """Raises ToldWrongError where the events tell more, less or something else than row and history do."""
        places = [(event.seq, event.index) for event in self.events]
        must(places == sorted(set(places)), "events come in order, each once", places)
        must(self.events[0].type is EventType.SCHEDULED, "a story begins with its schedule", self.events[0])
        known = {(one.slot_id, one.attempt): one for one in executions}
        self._attempts(row, known)
        self._gaps(row, gaps)
        self._graph(row, known)
        self._gates(row, known)
        self._switches(row)
        self._silences(row)

    def _attempts(self, row: Job, known: dict[tuple[str, int], Execution]) -> None:
        stories: dict[tuple[str, int], list[LifecycleEvent]] = {}
        for event in self.of(EventType.STARTED, *ENDS):
            if "execution_id" not in event.facts:
                continue  # skipped slots
            key = parse_execution_id(event.facts["execution_id"])
            assert key is not None
            stories.setdefault((key.slot_id, key.attempt), []).append(event)
        for (slot, attempt), story in stories.items():
            types = [event.type for event in story]
            execution = known.get((slot, attempt))
            if execution is None:
                run = row.runs.get(slot)
                running = run is not None and run.state is RunState.RUNNING and run.attempt == attempt
                must(types == [EventType.STARTED] and running, "what ends is in history", (slot, attempt, types))
                continue
            under_way = slot in row.runs
            ends = types[1:] if types[0] is EventType.STARTED else types
            must(len(ends) == 1 or (under_way and not ends), "an attempt ends once", (slot, attempt, types))
            must(
                ends in ([], [expected(execution)]),
                "an attempt ends as history says",
                (slot, attempt, types, execution),
            )
            if execution.started_at is not None:
                must(types[0] is EventType.STARTED, "an attempt starts before it ends", (slot, attempt, types))
                must(story[0].time == execution.started_at, "it started when history says", (story[0], execution))
            for end in story[len(types) - len(ends) :]:
                must(end.time == execution.completed_at, "it ended when history says", (end, execution))
        for key, execution in known.items():
            told = key in stories or key[0] in row.runs
            must(told, "what history says is told", (key, execution, row))
        self._retries(known)

    def _retries(self, known: dict[tuple[str, int], Execution]) -> None:
        for event, following in itertools.pairwise([*self.events, None]):
            if event is None or event.type not in FAILURES:
                continue
            key = parse_execution_id(event.facts["execution_id"])
            assert key is not None
            lost = event.facts["error_code"] == "WORKER_LOST"
            before = self.events[self.events.index(event) - 1]
            must((before.type is EventType.WORKER_LOST) == lost, "a lost owner is told first", (before, event))
            if event.type is EventType.FAILED:
                must(following is not None and following.type is EventType.RETRY_SCHEDULED, "then the retry", event)
                assert following is not None
                wanted = execution_id(key.job_id, key.slot_id, key.attempt + 1)
                must(following.facts["execution_id"] == wanted, "the retry is of the same run", following)
                at = known[key.slot_id, key.attempt].next_retry_at
                must(following.facts["next_retry_at"] == at, "the retry waits as history says", (following, at))

    def _gaps(self, row: Job, gaps: Iterable[SkippedSlots]) -> None:
        stored = {gap.first: (gap.first, gap.last, gap.count, gap.reason.value) for gap in gaps}
        if row.gap is not None:
            stored[row.gap.first] = (row.gap.first, row.gap.last, row.gap.count, row.gap.reason.value)
        told: dict[int, int] = {}
        for event in self.of(EventType.SKIPPED):
            if "execution_id" in event.facts:
                continue
            first, last, reason = event.facts["first"], event.facts["last"], event.facts["reason"]
            inside = [one for one in stored.values() if one[0] <= first <= last <= one[1] and one[3] == reason]
            must(len(inside) == 1, "what is skipped is in one gap", (event, stored))
            told[inside[0][0]] = told.get(inside[0][0], 0) + event.facts["count"]
        must(told == {gap[0]: gap[2] for gap in stored.values()}, "skips are told slot by slot", (told, stored))

    def _graph(self, row: Job, known: dict[tuple[str, int], Execution]) -> None:
        """A run that was made for others' runs is told once, unless it was made to end at once."""
        told = [event.facts["run_id"] for event in self.of(EventType.UNBLOCKED)]
        must(len(told) == len(set(told)), "what is unblocked is told once", told)
        made = {run_id(row.id, slot) for slot, _ in known if is_dependent(slot)}
        ended = {run_id(row.id, slot) for (slot, _), one in known.items() if one.reason in UNMET}
        active = {run_id(row.id, slot) for slot, run in row.runs.items() if run.took and run.verdict is None}
        must(made - ended <= set(told) <= (made - ended) | active, "runs are told as they are made", (told, known, row))
        waits = False
        for event in self.events:
            if event.type is EventType.BLOCKED:
                must(not waits, "a wait is told once", event)
                waits = True
            elif event.type in (EventType.UNBLOCKED, EventType.CHANGED, EventType.RETRY_SCHEDULED, *ENDS):
                waits = False

    def _gates(self, row: Job, known: dict[tuple[str, int], Execution]) -> None:
        """A run at its gate is told before it is decided about, and each decision once."""
        waiting: set[str] = set()
        decided: dict[str, str] = {}
        for event in self.of(EventType.APPROVAL_NEEDED, EventType.APPROVED, EventType.REJECTED):
            run = event.facts["run_id"]
            if event.type is EventType.APPROVAL_NEEDED:
                must(run not in waiting, "a gate is told once", event)
                waiting.add(run)
                continue
            must(run in waiting, "who decides was asked", event)
            waiting.discard(run)
            decided[run] = event.type.value
        for (slot, _), one in known.items():
            if one.approval is not None:
                words = (run_id(row.id, slot), f"job.{one.approval.decision.value}")
                must(words in decided.items(), "a decision is told", (words, decided))

    def _silences(self, row: Job) -> None:
        """Told once; then the job recovers by a success, or somebody changes or cancels it."""
        silent: bool | None = False  # None: a change may have ended it, or not
        ends = (EventType.RECOVERED, EventType.CHANGED, EventType.CANCELLED, EventType.DELETED)
        for place, event in enumerate(self.events):
            if event.type is EventType.SILENT:
                must(silent is not True, "a silence is told once", event)
                silent = True
            if event.type is EventType.RECOVERED:
                must(silent is not False, "only a silent job recovers", event)
                before = [one.type for one in self.events[place - event.index : place]]
                must(EventType.COMPLETED in before, "a success recovers", (before, event))
            if event.type is EventType.CHANGED:
                silent = None if silent else silent
            elif event.type in ends:
                silent = False
        must(silent is None or silent is row.is_silent, "a silent row was told", row)

    def _switches(self, row: Job) -> None:
        paused = self.events[0].facts["paused"]
        for event in self.of(EventType.PAUSED, EventType.RESUMED):
            must(paused is (event.type is EventType.RESUMED), "pauses and resumes take turns", event)
            paused = not paused
        must(paused is row.paused, "the last switch is the row's", (paused, row))
        must(len(self.of(EventType.CANCELLED)) == row.cancelled, "a cancel is told once", row)
        must(len(self.of(EventType.DELETED)) == (row.deleted_at is not None), "a deletion is told once", row)


def expected(execution: Execution) -> EventType:
    if execution.status is ExecutionStatus.COMPLETED:
        return EventType.COMPLETED
    if execution.status is ExecutionStatus.CANCELLED:
        return EventType.RUN_CANCELLED
    if execution.status is ExecutionStatus.SKIPPED:
        return EventType.SKIPPED
    return EventType.PERMANENTLY_FAILED if execution.final else EventType.FAILED


__all__ = ["Attempt", "Heard", "ToldWrongError", "image"]
