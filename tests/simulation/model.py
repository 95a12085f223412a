"""The judge: told of everything that happens in a story, it compares with the promises.

It is written from docs/architecture.md and docs/protocol.md, not from the code. Times are the world's; where a decision
was made by a function's own clock, the judge knows the instants between which that clock was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.domain.errors import ConflictError, GnomonError, NotFoundError
from functions.domain.execution import Execution, ExecutionStatus, SkippedSlots
from functions.domain.hint import Hint
from functions.domain.ids import is_manual, slot_instant
from functions.domain.job import Job, JobStatus
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.run import Outcome, RunState
from tests.simulation.kinds import rules_of
from tests.simulation.life import Life, Violation, decided, delays, is_wake, new_period, startable
from tests.simulation.listening import Listening
from tests.simulation.poison import check_poison
from tests.simulation.punctuality import Punctuality
from tests.simulation.refusals import refuses, shown
from tests.simulation.rows import check_row, check_step, must
from tests.telling import ToldWrongError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.actors import Actor, Weather
    from tests.simulation.world import World

GRACE = 5
SUCCESS = ExecutionStatus.COMPLETED
__all__ = ["Judge", "Violation"]


class Judge:
    """Raises Violation at the first promise that is broken."""

    world: World

    def __init__(self) -> None:
        self.lives: dict[str, Life] = {}
        self.time = Punctuality(self)
        self.silence = Listening(self)
        self.writes = self.runs = 0
        self._answers: dict[tuple[str, str, int], TargetAnswer] = {}

    @property
    def now(self) -> float:
        return self.world.scheduler.now

    def life(self, job_id: str) -> Life:
        return self.lives[job_id]

    # --- the row ---

    def wrote(self, before: Job | None, row: Job, actor: Actor) -> None:
        self.writes += 1
        now, rescheduled = self.now, False
        if before is None:
            life = self.lives[row.id] = Life(self.world.label(row.id), row)
            life.periods.append(
                new_period(row.defined.document, row.created_at, *decided(actor, now), spread=row.spread)
            )
        else:
            life = self.lives[row.id]
            must(actor.action != "same", "a change that changes nothing writes nothing", life, (actor.key, shown(row)))
            self._kept(life, before, row, actor)
            rescheduled = self._rescheduled(life, row, actor)
        if self.world.trace is not None:
            self.world.note(f"    {actor.key} wrote {life.label} {shown(row)}")
        life.row = row
        life.versions.append((now, row))
        if before is not None:
            check_step(life, before, row, actor, now, rescheduled=rescheduled)
            if row.last_run is not None and row.last_run.error_code == "QUARANTINED":
                life.quarantined = True
        check_row(life, row, actor, now)
        actor.wrote += 1
        old = startable(before) if before is not None else set()
        due = startable(row)
        woken = is_wake(before, row, actor)
        actor.credits |= {tuple(one) for one in (due if woken or actor.kind == "caller" else due - old)}
        self.runs += sum(
            run.state is RunState.RUNNING and (before is None or before.runs.get(slot) != run)
            for slot, run in row.runs.items()
        )
        self.time.changed(life, before, row, actor, now, woken=woken)
        self.silence.changed(life, before, row, actor, now)
        self._tell(lambda: life.heard.hear(before, row, now, lambda slot, attempt: life.history.get((slot, attempt))))

    @staticmethod
    def _tell(listen: Callable[[], None]) -> None:
        try:
            listen()
        except ToldWrongError as wrong:
            raise Violation("events tell what happened", str(wrong)) from wrong

    def _rescheduled(self, life: Life, row: Job, actor: Actor) -> bool:
        document = row.definition.document if row.definition is not None else life.period.document
        if document == life.period.document:
            return False
        keys = ("schedule", "maxRuns", "startAt", "endAt", "spreadSeconds")
        same = all(document.get(key) == life.period.document.get(key) for key in keys)
        if same:
            life.period.document = document
            return False
        earliest, latest = decided(actor, self.now)
        latest = max(latest, float((row.last_slot or 0) + row.spread))
        life.periods.append(new_period(document, row.created_at, earliest, latest, spread=row.spread))
        return True

    # --- history ---

    def _kept(self, life: Life, before: Job, row: Job, actor: Actor) -> None:
        """A row that keeps an execution is its history; it may lose one that has a row of history by then."""
        if before.last_run == row.last_run:
            return
        if before.last_run is not None and before.last_run.ended_by is not None:
            key = (row.id, before.last_run.slot_id, before.last_run.attempt)
            must(key in self.world.history.executions, "what the row alone knew is in history", life, key)
        last = row.last_run
        if last is None or last.ended_by is None:
            return
        must((row.id, last.slot_id, last.attempt) in actor.started, "owners alone end lean", life, (last, actor.key))
        must(last.outcome is Outcome.COMPLETED, "only a success is kept in the row", life, last)
        execution = Execution(
            job_id=row.id,
            slot_id=last.slot_id,
            attempt=last.attempt,
            status=SUCCESS,
            final=True,
            fence=last.fence,
            write_id=last.ended_by,
            completed_at=last.completed_at or 0.0,
            started_at=last.started_at,
            result=last.result,
        )
        self.recorded(execution, actor, kept=True)
        life.kept[last.slot_id, last.attempt] = execution

    def recorded(self, execution: Execution, actor: Actor, *, kept: bool = False) -> None:
        """`kept`: by the job's row, instead of a row of history."""
        life, now = self.lives[execution.job_id], self.now
        key = slot, attempt = execution.slot_id, execution.attempt
        self.world.note(f"    {actor.key} recorded {life.label} {slot}-{attempt} {execution.status} {execution.reason}")
        known = life.history.get(key) if kept else life.kept.get(key)
        if known is not None:
            same = known.status is execution.status and (known.write_id != execution.write_id or known == execution)
            must(same, "an attempt ends once, in history or in the row", life, (known, execution))
            return
        if key in life.history:  # the row had expired before the job's row followed it: this one decides
            life.history[key] = execution
            if execution.final and slot in life.ended:
                life.ended[slot] = execution
            return
        earlier = life.ended.get(slot)
        for past in range(1, attempt):
            must((slot, past) in life.history, "history has all attempts", life, (key, past))
        if earlier is not None and key not in life.forced:
            must(False, "nothing follows a final attempt", life, (earlier, execution))
        life.history[key] = execution
        life.recorded_at[key] = now
        must(attempt <= life.limits.get(slot, 1), "no more attempts than allowed", life, (key, life.limits.get(slot)))
        self._outcome(life, execution, actor, now)
        self._retry(life, execution)
        if execution.final:
            life.ended[slot] = execution

    def _outcome(self, life: Life, execution: Execution, actor: Actor, now: float) -> None:
        """Each status and reason is given by who may give it, and when it may."""
        key = slot, _ = execution.slot_id, execution.attempt
        if execution.status is SUCCESS:
            must(key in life.succeeded, "a run is completed by its target's success", life, key)
            must(execution.final, "a success is final", life, key)
        elif execution.reason == "RETRY_WINDOW_OVER" and execution.started_at is None:
            window = rules_of(life.period.document).get("retryWindowSeconds")
            over = window is not None and now + 2 >= slot_instant(slot) + window
            must(over or (len(life.versions) > 1 and window is None), "a window is over", life, (key, window))
        elif execution.error is not None and execution.error.code == "WORKER_LOST":
            self._lost(life, execution, actor, now)
        elif execution.reason == "QUARANTINED":
            must(len(life.wakes) >= 10, "quarantine comes after ten wakes", life, (key, life.wakes))
            must(self.time.is_poison(life), "only what consumers alone fail at is quarantined", life, (key, life.wakes))
        elif execution.status is ExecutionStatus.CANCELLED:
            must(actor.kind == "caller", "callers cancel", life, (key, actor.key))

    def _lost(self, life: Life, execution: Execution, actor: Actor, now: float) -> None:
        key = (execution.slot_id, execution.attempt)
        lease = life.leases.get(key)
        must(lease is not None, "a lost attempt had a lease", life, key)
        assert lease is not None
        if actor.kind == "machine":  # it sees its own function die
            return
        must(now >= lease + GRACE - 2, "no attempt is lost before its lease is over", life, (key, lease, now))
        self.time.recovered(life, key, lease, now)
        must(actor.kind == "sweep", "the sweep finds lost attempts", life, (key, actor.key))

    def _retry(self, life: Life, execution: Execution) -> None:
        """A failure's decision: as the policy says, drawn once, within the window."""
        if execution.status not in (ExecutionStatus.FAILED, ExecutionStatus.TIMED_OUT):
            return
        key, reason, at = (execution.slot_id, execution.attempt), execution.reason, execution.next_retry_at
        limit = life.limits.get(execution.slot_id, 1)
        lost = execution.error is not None and execution.error.code == "WORKER_LOST"
        must(execution.final == (at is None), "a retry has its instant", life, execution)
        check_poison(life, execution, changed=self._changed_since(life, key))
        if execution.final:
            if reason == "RETRIES_EXHAUSTED":
                must(execution.attempt >= limit, "all attempts are used", life, (key, limit))
            return
        assert at is not None
        must(execution.attempt < limit, "no retry beyond the limit", life, (key, limit))
        window = rules_of(life.period.document).get("retryWindowSeconds")
        if lost or self._changed_since(life, key):
            return
        low, high = delays(life.period.document, execution.attempt, self._asked(life, key))
        waits = at - execution.completed_at
        must(low - 0.01 <= waits <= high + 1.01, "a retry waits as its policy says", life, (key, waits, low, high))
        if window is not None:
            over = slot_instant(execution.slot_id) + window
            must(at <= over, "no retry is planned after its window", life, (key, at, over))

    def _changed_since(self, life: Life, key: tuple[str, int]) -> bool:
        """Whether a caller has changed the job since the run began: then its owner may have had another policy."""
        began = life.started.get(key[0], 0.0)
        return any(row.revision != life.row.revision for at, row in life.versions if at >= began)

    def _asked(self, life: Life, key: tuple[str, int]) -> int | None:
        answer = self._answers.get((life.label, *key))
        return answer.retry_after if answer is not None else None

    def skipped(self, gap: SkippedSlots) -> None:
        life = self.lives[gap.job_id]
        life.gaps[gap.first] = gap
        for slot in life.started:
            inside = not is_manual(slot) and gap.first <= slot_instant(slot) <= gap.last
            must(not inside, "no slot is both started and skipped", life, (slot, gap))
        if len(life.periods) == 1:
            count = len(life.period.between(gap.first, gap.last))
            must(count == gap.count, "a gap counts its slots", life, (gap, count))

    # --- calls ---

    def called(self, invocation: Invocation, actor: Actor) -> None:
        life = self.lives[invocation.job_id]
        key = (invocation.slot_id, invocation.attempt)
        must(key in life.attempts, "only the winner of a start calls", life, (key, actor.key))
        must(key not in life.called, "an attempt is called once", life, key)
        life.called.add(key)

    def finished(self, actor: Actor) -> None:
        """An actor came to its end without dying: what it won, it did, unless its lease left no time for the call."""
        for job_id, slot, attempt in actor.started:
            life = self.lives[job_id]
            run = life.row.runs.get(slot)
            under_way = run is not None and run.attempt == attempt and run.lease_expires_at is not None
            left = run.lease_expires_at - 5 - self.now - actor.skew if under_way else 0  # type: ignore[union-attr,operator]
            key = (slot, attempt)
            done = key in life.history or (under_way and left < 1 and key not in life.called)
            must(done, "a winner does not walk away", life, (slot, attempt, actor.key))

    def answered(self, invocation: Invocation, answer: TargetAnswer, actor: Actor) -> None:
        life = self.lives[invocation.job_id]
        self._answers[life.label, invocation.slot_id, invocation.attempt] = answer
        if answer.status is SUCCESS:
            life.succeeded.add((invocation.slot_id, invocation.attempt))

    # --- messages ---

    def sends(self, hint: Hint, due_at: int, actor: Actor) -> None:
        """Only who won a write sends, and only what that write made due: otherwise duplicates breed chains."""
        life = self.lives.get(hint.job_id)
        if life is None:
            raise Violation("the row comes first, then the message", f"{hint}")
        key = (hint.slot_id, hint.attempt, due_at)
        must(
            (life.label, *key) not in actor.sent or actor.kind != "sweep", "a visit sends once", life, (key, actor.key)
        )
        actor.sent.add((life.label, *key))
        self.world.note(f"    {actor.key} sends {hint.slot_id}-{hint.attempt} for {due_at}")
        if key in actor.credits:
            actor.credits.discard(key)
            return
        resent = actor.hint is not None and actor.hint == hint and not actor.wrote and not actor.resent
        must(resent, "a message has a write that explains it", life, (key, actor.key, actor.credits))
        must(due_at > self.now + actor.skew, "only an early message is sent again", life, (key, actor.key))
        actor.resent += 1

    # --- faults and callers ---

    def fault(self, name: str, label: str | None, actor: Actor | None) -> None:
        self.time.fault(label, actor, self.now)

    def hampered(self, weather: Weather) -> None:
        self.time.hampered(weather)

    def replied(self, actor: Actor, job_id: str | None, error: GnomonError | None) -> None:
        """A caller's answer fits the row at some instant of the request."""
        life = self.lives.get(job_id or "")
        if life is None:
            return
        began = actor.began
        last = [row for at, row in life.versions if at < began][-1:]
        rows = last + [row for at, row in life.versions if at >= began]
        kind = actor.action
        if isinstance(error, NotFoundError):
            if kind != "cancel execution":
                must(any(row.deleted_at for row in rows), "what is there is found", life, actor.key)
        elif isinstance(error, ConflictError):
            refused = any(refuses(kind, row, life) for row in rows)
            must(refused, "a refusal fits the job's state", life, (actor.key, str(error), rows[-1]))
        elif error is None:
            wanted = {
                "pause": lambda row: row.paused,
                "resume": lambda row: not row.paused,
                "cancel": lambda row: row.cancelled,
                "delete": lambda row: row.deleted_at is not None,
            }.get(kind)
            must(wanted is None or any(wanted(row) for row in rows), "what is answered is done", life, actor.key)

    # --- the end ---

    def close(self) -> None:
        """Nothing is under way any more, but for what comes due from now on."""
        for life in self.lives.values():
            self._closed(life)

    def _closed(self, life: Life) -> None:
        row, now = life.row, self.now
        self.time.closed(life, now)
        must(life.quarantined or not self.time.is_poison(life), "what consumers fail at is quarantined", life, row)
        self.silence.closed(life, now)
        for slot, run in row.runs.items():
            lease = run.lease_expires_at
            over = run.state is RunState.RUNNING and lease is not None and lease + 200 < now
            must(not over, "no run is left behind", life, (slot, run))
        for slot in life.started:
            must(slot in life.ended or slot in row.runs, "every run that started has an outcome", life, slot)
        if row.gap is not None:
            must(row.attention_at is not None, "no gap is forgotten", life, row.gap)
        if row.status in (JobStatus.COMPLETED, JobStatus.FAILED) and row.last_run is not None:
            last = row.last_run
            known = (last.slot_id, last.attempt) in life.history or last.outcome is Outcome.SKIPPED
            must(known, "a final state is in history", life, last)
        self._every_slot(life)
        self._tell(lambda: life.heard.check(row, life.history.values(), life.gaps.values()))

    def _every_slot(self, life: Life) -> None:
        """Slots of each schedule while it was surely in force: run or skipped, or still to come."""
        row, now = life.row, self.now
        for number, period in enumerate(life.periods):
            last = number == len(life.periods) - 1
            begins = period.latest - (period.spread if number else 0)
            ends = now - 60 - period.spread if last else life.periods[number + 1].earliest
            for slot in period.between(int(begins) + 1, int(ends)):
                beyond = row.next_slot is not None and slot >= row.next_slot
                over = row.next_slot is None and slot > (row.last_slot or 0)
                if (beyond or over) and last:
                    must(beyond or self._may_end(life), "a recurring job goes on", life, (slot, row))
                    break
                name = f"{slot:010d}"
                has_outcome = name in life.ended or name in row.runs or life.skipped(slot) or slot == row.next_slot
                if not last and over:
                    continue
                must(has_outcome or self._ran_out(life, number), "every due slot has an outcome", life, slot)

    def _may_end(self, life: Life) -> bool:
        once = life.period.document["schedule"]["type"] == "once"
        return life.row.cancelled or once or self._ran_out(life, len(life.periods) - 1)

    def _ran_out(self, life: Life, number: int) -> bool:
        document = life.periods[number].document
        runs = {*life.started, *life.ended, *life.row.runs}
        most = document.get("maxRuns")
        return most is not None and sum(not is_manual(slot) for slot in runs) >= most
