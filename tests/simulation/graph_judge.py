"""The judge of graphs: what docs/workflows.md promises, told of every write, call and end.

What depends on nothing but rows is compared after each write; how the jobs of a story without interference end is
foretold by the plan (graph_rules.py) and compared when all is over.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from functions.domain.ids import slot_instant
from functions.domain.job import Job
from functions.domain.run import ActiveRun, LastRun, Outcome, RunState
from functions.domain.upstream import ABSORBED
from tests.simulation.graph_patience import Patience
from tests.simulation.graph_plan import PATIENCE, GraphPlan
from tests.simulation.graph_rules import End, foretold, verdict, why_not
from tests.simulation.life import Violation, next_waits

if TYPE_CHECKING:
    from functions.domain.execution import Execution
    from functions.domain.outcome import Invocation
    from tests.simulation.actors import Actor, Weather
    from tests.simulation.world import World

SKEW = 2
SLACK = 30
WAKE = 900
LATE = 1_300
"""Seconds after the last fault by which everything that has ended was told and taken: the longest back-off of the
sweep, and the ordinary repair. Sooner than by the look an hour that forgets nothing."""


def must(fits: object, rule: str, detail: object) -> None:
    if not fits:
        raise Violation(rule, str(detail))


class GraphJudge:
    """Raises Violation at the first promise that is broken."""

    world: World

    def __init__(self, plan: GraphPlan) -> None:
        self.plan = plan
        self.lives: dict[str, Any] = {}
        self.rows: dict[str, Job] = {}
        self.numbers: dict[str, int] = {}
        """Ids of jobs to their numbers in the plan."""
        self.ends: dict[str, list[tuple[LastRun, float]]] = {}
        """The ends of each job that is followed, oldest first, and when each was written."""
        self.made: dict[str, set[str]] = {}
        """Slots of the runs that were made of each job for others' ends."""
        self.taken: dict[str, list[tuple[tuple[str, int], ...]]] = {}
        self.rewired: set[str] = set()
        """Jobs that callers let depend on others than at first."""
        self.patience = Patience(self)
        self.gave_up: set[str] = set()
        """Jobs whose last round was over before what they waited for had ended."""
        self.gated: dict[tuple[str, str], object] = {}
        """Runs that came to their gate, with what was decided of each."""
        self.at_gate: Callable[[str, str], None] = lambda job_id, slot: None
        self.faults = 0
        self.writes = self.runs = 0

    @property
    def now(self) -> float:
        return self.world.scheduler.now

    def label(self, job_id: str) -> str:
        return f"n{self.numbers[job_id]}" if job_id in self.numbers else job_id[:8]

    def document(self, job_id: str) -> Mapping[str, Any]:
        definition = self.world.jobs.stored(job_id).definition
        assert definition is not None
        return definition.document

    # --- rows ---

    def wrote(self, before: Job | None, row: Job, actor: Actor) -> None:
        self.writes += 1
        if row.id not in self.numbers and row.definition is not None:
            self.numbers[row.id] = int(row.definition.name[1:])
        self.rows[row.id] = row
        self.patience.wrote(row)
        if self.world.trace is not None:
            self.world.note(f"    {actor.key} wrote {self.label(row.id)} {_shown(row)}")
        self._attention(row, actor)
        if before is None:
            return
        changed = row.definition is not None and before.definition is not None
        if changed and _edges(before) != _edges(row):
            self.rewired.add(row.id)
        self._counts(before, row)
        for slot in row.runs.keys() - before.runs.keys():
            if slot[10:11] == "d" and row.runs[slot].attempt == 0:
                self._was_made(before, row, slot, actor)
        self._gates(before, row)
        for slot, run in row.runs.items():
            if run.state is RunState.RUNNING and run.attempt > (
                before.runs[slot].attempt if slot in before.runs else 0
            ):
                self.runs += 1
                must(not before.paused or run.manual, "a paused job starts only what was asked for", (row.id, slot))
                must(not before.cancelled, "a cancelled job starts nothing", (row.id, slot))

    def _attention(self, row: Job, actor: Actor) -> None:
        """Absent exactly at rest; not later than its bound, but for what the sweep has woken."""
        looks = [at for at in _looks(row) if at is not None]
        label, at, local = self.label(row.id), row.attention_at, self.now + actor.skew
        must((at is None) == (not looks and row.gap is None), "attention is absent exactly at rest", (label, at, looks))
        if at is None or not looks or at <= min(looks):
            return
        graph = _graph_look(row)
        overdue = graph is not None and graph - SLACK <= local
        must(row.wakes > 0 or overdue, "attention is not later than its bound", (label, at, min(looks), local))
        must(at <= local + WAKE, "a wake is not later than its back-off", (label, at, local))

    def _counts(self, before: Job, row: Job) -> None:
        """Each end of a followed job has the next number, and those before the last are kept."""
        if row.followed is None:
            must(before.followed is None, "who is followed stays so", self.label(row.id))
            return
        ends = self.ends.setdefault(row.id, [])
        if before.followed is None:
            ends += [(row.last_run, self.now)] if row.last_run is not None else []
        elif row.last_run != before.last_run:
            assert row.last_run is not None
            ends.append((row.last_run, self.now))
        elif row.cancelled and not before.cancelled:
            must(False, "a cancel of a followed job is an end", self.label(row.id))
        must(row.followed.ends == len(ends), "each end has its number", (self.label(row.id), row.followed, len(ends)))
        told = row.followed.told
        must(told <= row.followed.ends, "nothing is told before it is", (self.label(row.id), row.followed))
        for number in range(max(1, len(ends) - 2), len(ends)):
            kept = self.world.history.ends.get((row.id, number))
            must(kept == ends[number - 1][0], "an end is kept before the next", (self.label(row.id), number, kept))

    def _gates(self, before: Job, row: Job) -> None:
        """A run waits at its gate once, one decision is stored of it, and only an approved one starts."""
        for slot, run in row.runs.items():
            key, old = (row.id, slot), before.runs.get(slot)
            if run.waits_for == "approval" and key not in self.gated:
                self.gated[key] = None
                self.at_gate(*key)
            if run.approval is not None:
                decided = self.gated[key]
                must(decided in (None, run.approval), "a run is decided about once", (self.label(row.id), slot))
                self.gated[key] = run.approval
            starts = run.state is RunState.RUNNING and (old is None or old.state is not RunState.RUNNING)
            if starts and self.plan.nodes[self.numbers[row.id]].gate is not None:
                approved = run.approval is not None and run.approval.decision == "approved"
                must(approved, "nothing starts before it is approved", (self.label(row.id), slot, run))

    # --- runs that are made for the ends of others ---

    def _was_made(self, before: Job, row: Job, slot: str, actor: Actor) -> None:
        run, label = row.runs[slot], self.label(row.id)
        made = self.made.setdefault(row.id, set())
        must(slot not in made, "a run is made once", (label, slot))
        made.add(slot)
        must(not before.paused and not before.cancelled, "who is paused takes nothing", (label, slot))
        must(not before.runs, "one run after the other", (label, slot, before.runs))
        document = self.document(row.id)
        edges = [(edge["jobId"], edge.get("on", "success"), edge.get("when")) for edge in document["dependsOn"]]
        taken = tuple((edge[0], number) for edge, number in zip(edges, run.took, strict=False) if number)
        reason = self._reason(before, document, edges, run)
        policy = document.get("onUpstreamFailure", "skip")
        judged = None if reason is None else verdict(policy, reason)
        said = None if run.verdict is None else End(run.verdict.value, run.verdict_for)
        must(said == judged, "a run is made, or judged, by the ends it is for", (label, slot, said, judged, run.took))
        self._is_new(row.id, taken, slot, reason)
        if reason not in ("UPSTREAM_TIMEOUT", "UPSTREAM_GONE"):
            must(slot[11:] == _letters(row.id, taken), "a run's slot is derived from its ends", (label, slot, taken))
            latest = max(self._end(parent, number).ended_at for parent, number in taken)
            must(slot_instant(slot) >= latest, "a run's slot is its latest end's", (label, slot, latest))

    def _end(self, parent: str, number: int) -> LastRun:
        ends = self.ends.get(parent, [])
        must(0 < number <= len(ends), "only what has ended is taken", (self.label(parent), number, len(ends)))
        return ends[number - 1][0]

    def _reason(
        self, before: Job, document: Mapping[str, Any], edges: Sequence[tuple[str, str, str | None]], run: ActiveRun
    ) -> str | None:
        """Why the run that takes these ends does not come to an attempt, by the plain rules."""
        said, label = run.verdict_for, self.label(before.id)
        assert before.upstream is not None
        if not run.took:
            return "UPSTREAM_GONE"
        missing = [
            (number, mark) for number, mark in zip(run.took, before.upstream.marks, strict=True) if number <= mark
        ]
        reasons = [
            why_not(on, when, self._told(parent, number)) if number else "UPSTREAM_GONE"
            for (parent, on, when), number in zip(edges, run.took, strict=True)
        ]
        any_of = document.get("join") == "any" and len(edges) > 1
        if any_of and sum(1 for number in run.took if number) == 1 and None in reasons:
            return None
        if said == "UPSTREAM_TIMEOUT" or (said is None and self._is_timeout(before, edges, run)):
            since = before.upstream.since or 0
            timeout = document.get("upstreamTimeoutSeconds", 7 * 86_400)
            must(since + timeout <= self.now + SKEW and missing, "nobody gives up before the time", (label, since))
            return "UPSTREAM_TIMEOUT"
        if any_of:
            new = [
                reason
                for reason, number, mark in zip(reasons, run.took, before.upstream.marks, strict=True)
                if number > mark
            ]
            must(None not in new, "an end that meets its condition is not passed over", (label, run.took, reasons))
            return next(iter(new or reasons))
        return next((reason for reason in reasons if reason is not None), None)

    def _is_timeout(self, before: Job, edges: Sequence[tuple[str, str, str | None]], run: ActiveRun) -> bool:
        """Whether a run that is made all the same was made because the time was over."""
        assert before.upstream is not None
        waiting = [
            parent
            for (parent, _, _), number, mark in zip(edges, run.took, before.upstream.marks, strict=True)
            if number <= mark and self._may_come(parent)
        ]
        return bool(waiting) and before.upstream.since is not None and before.upstream.since + PATIENCE <= self.now + 2

    def _told(self, parent: str, number: int) -> End:
        last = self._end(parent, number)
        result = last.result
        if last.ended_by is None:
            execution = self.world.history.executions.get((parent, last.slot_id, last.attempt))
            result = None if execution is None else execution.result
        value = None if result is None else json.loads(result)
        return End(last.outcome.value, n=value.get("n") if isinstance(value, dict) else None)

    def _is_new(self, job_id: str, taken: tuple[tuple[str, int], ...], slot: str, reason: str | None) -> None:
        """No child runs twice for the same ends, and none goes back to an older one."""
        label, before = self.label(job_id), self.taken.setdefault(job_id, [])
        if taken and reason != "UPSTREAM_TIMEOUT" and job_id not in self.rewired:
            must(taken not in before, "no job runs twice for the same ends", (label, slot, taken))
        latest = {parent: number for one in before for parent, number in one}
        for parent, number in taken:
            grows = number >= latest.get(parent, 0) or job_id in self.rewired
            must(grows, "what is taken only grows", (label, taken, latest))
        alone = len(taken) == 1 and len(self.document(job_id)["dependsOn"]) == 1 and job_id not in self.rewired
        if alone and before and before[-1] and reason != "UPSTREAM_TIMEOUT":
            # What was waited for in vain is taken already.
            due = before[-1][0][1] + 1 + (job_id in self.gave_up)
            must(taken[0][1] == due, "each end of a single parent is taken in its turn", (label, taken, due))
        before.append(taken)
        (self.gave_up.add if reason == "UPSTREAM_TIMEOUT" else self.gave_up.discard)(job_id)

    # --- calls and history ---

    def called(self, invocation: Invocation, actor: Actor) -> None:
        run = self.rows[invocation.job_id].runs.get(invocation.slot_id)
        must(run is None or run.verdict is None, "what was judged is not called", invocation.execution_id)

    def recorded(self, execution: Execution, actor: Actor) -> None:
        if self.world.trace is not None:
            self.world.note(f"    {actor.key} recorded {execution.id[24:]} {execution.status} {execution.reason}")

    # --- the end ---

    def in_time(self) -> None:
        """Long enough after the last fault, and before anybody looks because an hour is over."""
        since = self.now - LATE / 2
        for row in self.rows.values():
            label, last = self.label(row.id), row.last_run
            if row.followed is not None and row.followed.told < row.followed.ends:
                must(last is None or last.ended_at > since, "an end is told in time", (label, row.followed))
            if row.upstream is None or row.runs or row.paused or row.cancelled or row.deleted_at is not None:
                continue
            parents = [edge["jobId"] for edge in self.document(row.id)["dependsOn"]]
            new = [
                len(self.ends.get(parent, [])) > mark and self.ends[parent][mark][1] < since
                for parent, mark in zip(parents, row.upstream.marks, strict=True)
            ]
            must(not all(new), "what all parents have ended is taken in time", (label, row.upstream))

    def close(self) -> None:
        self.patience.closed()
        self._no_cycle()
        for row in self.rows.values():
            self._rests(row)
            self._is_as_often(row)
            self._has_its_edges(row)
        if self.plan.exact:
            self._as_foretold()

    def _rests(self, row: Job) -> None:
        label = self.label(row.id)
        if row.followed is not None:
            must(row.followed.told == row.followed.ends, "every end was told", (label, row.followed))
        if row.cancelled or row.paused or row.deleted_at is not None:
            return
        must(not row.runs, "no run is left", (label, row.runs))
        must(row.next_slot is None or row.next_slot > self.now, "no slot is left", (label, row.next_slot))
        up = row.upstream
        if up is None:
            return
        document = self.document(row.id)
        parents = [edge["jobId"] for edge in document["dependsOn"]]
        alone = (
            len(parents) == 1 or document.get("join") != "any"
        )  # what was absorbed for another join counts up to now
        marks = [
            len(self.ends.get(parent, [])) if alone and mark == ABSORBED else mark
            for parent, mark in zip(parents, up.marks, strict=True)
        ]
        may = [self._may_count(parent, mark) for parent, mark in zip(parents, marks, strict=True)]
        if up.look_at is None:
            # A caller may have given a parent that was over others to wait for: its end will be told.
            come = [may and self.rows[parent].revision == 1 for parent, may in zip(parents, may, strict=True)]
            must(not any(come), "who is settled waits for nobody", (label, come))
        else:
            must(any(may), "nobody waits for ever", (label, up))
        for parent, mark, comes in zip(parents, up.marks, may, strict=True):
            ends = len(self.ends.get(parent, []))
            must(
                ends <= mark or any(may),
                "nobody waits for what has ended",
                (label, self.label(parent), mark, ends, comes),
            )

    def _is_as_often(self, row: Job) -> None:
        """Who depends on others runs once where all of these do, and those below it know."""
        if row.followed is None or row.upstream is None or row.cancelled or row.paused or row.deleted_at is not None:
            return
        parents = [self.rows[parent] for parent in _edges(self.world.jobs.stored(row.id)) if parent in self.rows]
        once = all(parent.followed is not None and parent.followed.once for parent in parents)
        must(row.followed.once == once, "a job runs as often as its parents", (self.label(row.id), row.followed, once))

    def _has_its_edges(self, row: Job) -> None:
        """Of a job that lives, to the parents that do: without, it would hear of nothing."""
        if row.deleted_at is not None:
            return
        for parent in _edges(self.world.jobs.stored(row.id)):
            if parent in self.rows and self.rows[parent].deleted_at is None:
                told = self.world.dependents.edges.get(parent, ())
                must(row.id in told, "who lives keeps its edges", (self.label(row.id), self.label(parent)))

    def _no_cycle(self) -> None:
        # What is deleted runs no more: a way through it leads nowhere.
        above = {
            job_id: set() if row.deleted_at is not None else set(_edges(self.world.jobs.stored(job_id)))
            for job_id, row in self.rows.items()
        }
        free: set[str] = set()
        while found := {job_id for job_id, parents in above.items() if job_id not in free and parents <= free}:
            free |= found
        must(free == set(above), "no job depends on itself", [self.label(one) for one in set(above) - free])

    def _may_count(self, parent: str, mark: int) -> bool:
        """Whether an end of it may come that counts: not of one that runs once, after it was waited for in vain, or
        after another was enough."""
        row = self.rows.get(parent)
        once = row is not None and row.followed is not None and row.followed.once
        return self._may_come(parent) and not (once and mark > len(self.ends.get(parent, [])))

    def _may_come(self, job_id: str) -> bool:
        """Whether a run of it may come without a caller who asks for one."""
        row = self.rows.get(job_id)
        if row is None or row.cancelled or row.deleted_at is not None:
            return False
        waits = row.upstream is not None and row.upstream.look_at is not None
        return row.next_slot is not None or bool(row.runs) or waits

    def _as_foretold(self) -> None:
        """Each job ended once, as the plan alone says."""
        ends = foretold(self.plan.nodes)
        for job_id, number in self.numbers.items():
            self._ended_as(self.rows[job_id], ends[number])

    def _ended_as(self, row: Job, end: End | None) -> None:
        label, last = self.label(row.id), row.last_run
        if end is None:
            must(last is None and row.status == "PAUSED", "who is paused does not run", (label, row.status, last))
            return
        must(last is not None, "every job of the graph ends", (label, row.status, row.upstream))
        assert last is not None
        said = End(last.outcome.value, last.reason)
        wanted = End(end.outcome, end.reason)
        must(said == wanted, "every job ends as its plan says", (label, f"{said} and not {wanted}"))
        status = {"PERMANENTLY_FAILED": "FAILED"}.get(end.outcome, end.outcome)
        must(row.status == status, "every job shows how it ended", (label, row.status, status))
        slots = {key[1] for key in self.world.history.executions if key[0] == row.id} | {last.slot_id}
        must(len(slots) == 1, "every job of the graph runs once", (label, slots))
        if row.followed is not None:
            must(row.followed.ends == 1, "every job of the graph ends once", (label, row.followed))
        must(row.attention_at is None, "a graph that is over is at rest", (label, row.attention_at))
        must(last.outcome in Outcome, "every outcome is one", last)

    # --- what other stories are about ---

    def changed(self, *_: object) -> None: ...

    def sends(self, *_: object) -> None: ...

    def skipped(self, *_: object) -> None: ...

    def answered(self, *_: object) -> None: ...

    def replied(self, *_: object) -> None: ...

    def finished(self, *_: object) -> None: ...

    def hampered(self, weather: Weather) -> None: ...

    def fault(self, name: str, label: str | None, actor: Actor | None) -> None:
        self.faults += 1


def _edges(row: Job) -> list[str]:
    return [edge["jobId"] for edge in row.defined.document.get("dependsOn", ())]


def _letters(child: str, taken: Sequence[tuple[str, int]]) -> str:
    text = json.dumps([child, *map(list, taken)], separators=(",", ":"))
    return base64.b32encode(hashlib.sha256(text.encode()).digest()[:5]).decode().lower()


def _looks(row: Job) -> list[int | None]:
    """When somebody must look at the row, by docs/protocol.md, 1.2 and 6."""
    looks: list[int | None] = [_graph_look(row)]
    for run in row.runs.values():
        if run.state is RunState.RUNNING:
            looks.append(run.lease_expires_at)
        elif run.state is RunState.WAITING and (run.manual or not row.paused):
            looks.append((run.due_at or 0) + SLACK)
    if row.next_slot is not None and not row.paused and not next_waits(row):
        looks.append(row.next_slot + row.spread + SLACK)
    return looks


def _graph_look(row: Job) -> int | None:
    """When its parents, or its dependents, must be looked at."""
    found = []
    if row.followed is not None and row.followed.told < row.followed.ends:
        found.append(row.created_at if row.last_run is None else row.last_run.ended_at)
    up = row.upstream
    if up is not None and up.look_at is not None and not row.runs and not row.paused and not row.cancelled:
        found.append(up.look_at)
    return min(found) + SLACK if found else None


def _shown(row: Job) -> str:
    runs = ", ".join(
        f"{slot}:{run.state}{run.attempt} due {run.due_at} {run.took} {run.verdict_for or ''}"
        for slot, run in row.runs.items()
    )
    last = row.last_run and f"{row.last_run.slot_id} {row.last_run.outcome} {row.last_run.reason or ''}"
    flags = f"{'paused ' if row.paused else ''}{'cancelled ' if row.cancelled else ''}"
    return f"seq {row.seq} {flags}at {row.attention_at} [{runs}] last {last} up {row.upstream} fo {row.followed}"
