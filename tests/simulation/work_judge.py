"""What is promised of workers and callbacks (docs/workers.md, docs/protocol.md 1.6), told of all that happens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from functions.domain.claims import Holder
from functions.domain.execution import Execution, ExecutionStatus, SkippedSlots
from functions.domain.ids import execution_id
from functions.domain.job import Job
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.run import ActiveRun, RunState
from tests.simulation.work_gates import Gates
from tests.simulation.work_holds import GRACE, LEASE, MARGIN, SKEW, Attempt, Holds, is_for_lateness, must

if TYPE_CHECKING:
    from functions.usecases.claiming import Claimed
    from tests.simulation.actors import Actor
    from tests.simulation.world import World

IN_TIME = 10
"""Seconds from its deadline to the end of an attempt where nothing went wrong: the grace for its report, slow answers,
clocks apart."""
LONGEST_WAIT = 200
"""Seconds after which a worker who always polls has what waits for it."""


def _running(run: ActiveRun | None) -> int | None:
    """The attempt that runs."""
    return run.attempt if run is not None and run.state is RunState.RUNNING else None


class WorkJudge(Holds, Gates):
    world: World

    def __init__(self) -> None:
        Holds.__init__(self)
        Gates.__init__(self)
        self.rows: dict[str, Job] = {}
        self.history: dict[str, Execution] = {}
        self.reports: dict[str, list[tuple[Holder, TargetAnswer]]] = {}

    # --- the row ---

    def wrote(self, before: Job | None, row: Job, actor: Actor) -> None:
        self.rows[row.id] = row
        old = before.runs if before is not None else {}
        for slot in old.keys() | row.runs.keys():
            self._run(row, slot, old.get(slot), row.runs.get(slot), actor)

    def _run(self, row: Job, slot: str, old: ActiveRun | None, new: ActiveRun | None, actor: Actor) -> None:
        self.gate(row, slot, old, new)
        begins = new is not None and new.state is RunState.RUNNING and _running(old) != new.attempt
        if new is not None and begins:
            self._started(row, slot, old, new, actor)
        if old is not None and old.state is RunState.RUNNING:
            key = execution_id(row.id, slot, old.attempt)
            over = new is None or new.state is not RunState.RUNNING
            self.attempts[key].versions.append((self.now, None if over else new))
            if over:
                must(key in self.history or self._lean(row, slot), "a run goes on once history has its attempt", key)
            elif new is not None and new.lease_expires_at != old.lease_expires_at:
                self.prolonged(key, old, new, actor, self.history.get(key))

    @staticmethod
    def _lean(row: Job, slot: str) -> bool:
        """Its first attempt has succeeded, and the row has all of it (docs/protocol.md)."""
        return row.last_run is not None and row.last_run.slot_id == slot

    def _started(self, row: Job, slot: str, old: ActiveRun | None, new: ActiveRun, actor: Actor) -> None:
        key = execution_id(row.id, slot, new.attempt)
        must(key not in self.attempts, "an attempt starts once", (key, actor.key))
        must(key not in self.history or self.history[key].status is ExecutionStatus.CANCELLED, "it had not ended", key)
        timeout = row.defined.timeout_seconds
        started, lease, deadline = new.started_at or 0.0, new.lease_expires_at or 0, new.deadline_at
        if actor.kind == "worker":
            must((new.worker_id and new.worker_id in actor.action) or new.worker_id, "a claim has its worker", key)
            must(old is not None and (old.waits_for or "").startswith("worker:"), "what is claimed was offered", key)
            must(lease <= started + 1 + LEASE, "a claim holds for 90 s", (key, lease, started))
        must(deadline is not None or actor.kind != "worker", "a claim has its deadline", key)
        if deadline is not None:
            must(started <= deadline - timeout <= started + 1, "the deadline is the start + timeout", (key, deadline))
            must(lease <= deadline + MARGIN, "no lease outlives the deadline by more than 15 s", (key, lease, deadline))
        self._has_permit(row, new)
        self.started(key, new, timeout)
        self.attempts[key] = Attempt(new, versions=[(self.now, new)])

    @staticmethod
    def _has_permit(row: Job, new: ActiveRun) -> None:
        """What starts under a key has a permit of it, whoever starts it, and one that counts under its own limit."""
        document = row.defined.document
        if "concurrencyKey" in document:
            permits = [f"key:{row.owner}|{document['concurrencyKey']}#{n}" for n in range(document["maxConcurrency"])]
            must(set(permits) & set(new.holds), "a start under a key holds a permit of it", (row.id, new))

    # --- history ---

    def recorded(self, execution: Execution, actor: Actor) -> None:
        key = execution.id
        self.world.note(f"    {actor.key} recorded {key[-15:]} {execution.status} {execution.reason}")
        if key in self.history:
            return
        self.history[key] = execution
        self.gate_ended(execution)
        self._in_time(key)
        attempt = self.attempts.get(key)
        if attempt is None:
            must(execution.status is not ExecutionStatus.COMPLETED, "what is completed had started", key)
            return
        code = execution.error.code if execution.error is not None else None
        self.ended(key, execution, actor)
        run = attempt.last
        if code == "WORKER_LOST":
            must(
                self.now >= (run.lease_expires_at or 0) + GRACE - SKEW, "nothing is lost before its lease is over", key
            )
        elif code == "TIMEOUT" and attempt.run.deadline_at is not None and attempt.token is None:
            must(self.now >= attempt.run.deadline_at - SKEW, "nothing times out before its deadline", key)
        elif execution.status is ExecutionStatus.COMPLETED and attempt.run.deadline_at is not None:
            self._completed(key, attempt, execution)
        elif code == "TARGET_ERROR" and attempt.run.deadline_at is not None:
            must(self._reported(key, attempt, ExecutionStatus.FAILED), "a failure was reported by its holder", key)

    def _in_time(self, key: str) -> None:
        """Whoever is silent is timed out at the deadline; where hint or claim met a fault, it is the sweep's."""
        attempt = self.attempts.get(key)
        deadline = None if attempt is None else attempt.run.deadline_at
        if attempt is None or deadline is None or self.now <= deadline + IN_TIME:
            return
        label, since = self.world.label(key[:36]), (attempt.run.started_at or 0) - IN_TIME
        explained = any(at >= since and whose in (None, label) for at, whose, _ in self.faults)
        must(explained, "an attempt ends at its deadline at the latest", (key, self.now - deadline))

    def _completed(self, key: str, attempt: Attempt, execution: Execution) -> None:
        must(self._reported(key, attempt, ExecutionStatus.COMPLETED), "a success was reported by its holder", key)
        limit = (attempt.run.deadline_at or 0) + SKEW + SKEW
        must(execution.completed_at <= limit, "a report after the deadline is too late", (key, execution, limit))

    def _reported(self, key: str, attempt: Attempt, status: ExecutionStatus) -> bool:
        return any(
            answer.status is status and self._is_holder(holder, attempt) for holder, answer in self.reports.get(key, ())
        )

    @staticmethod
    def _is_holder(holder: Holder, attempt: Attempt) -> bool:
        if holder.token is not None:
            return holder.token == attempt.token
        return (holder.worker_id, holder.fence) == (attempt.run.worker_id, attempt.run.fence)

    # --- workers ---

    def given(self, worker: str, most: int, found: Iterable[Claimed], began: float, *, skew: float) -> None:
        """What a poll was answered."""
        found = list(found)
        must(len(found) <= most, "a poll gets no more than it asks for", (worker, len(found), most))
        for claimed in found:
            key = execution_id(claimed.job.id, claimed.slot_id, claimed.run.attempt)
            attempt = self.attempts[key]
            must(attempt.run.worker_id == worker, "an execution is given to one worker", (key, worker))
            must(attempt.run.fence == claimed.run.fence, "it is given with its fence", (key, claimed.run.fence))
            holder = Holder(worker_id=worker, fence=claimed.run.fence)
            self.heard(key, holder, began, skew=skew, refused=False)

    def reporting(self, execution: str, holder: Holder, answer: TargetAnswer) -> None:
        self.reports.setdefault(execution, []).append((holder, answer))

    def told(
        self, execution: str, holder: Holder, answer: TargetAnswer, began: float, *, skew: float, refused: bool
    ) -> None:
        """What a report was answered."""
        stored, attempt = self.history.get(execution), self.attempts.get(execution)
        said = (answer.status, answer.error, answer.result)
        same = stored is not None and (stored.status, stored.error, stored.result) == said
        mine = attempt is not None and self._is_holder(holder, attempt)
        if not refused:
            must(mine, "only the holder's report counts", (execution, holder))
            must(same, "what is answered is recorded", (execution, stored, said))
            return
        if mine and same and stored is not None and stored.worker_id is not None:
            must(False, "the same report again is answered well", (execution, holder, stored))
        if mine and (stored is None or is_for_lateness(stored)):
            late = not self.in_time(execution, holder, began, skew)
            must(late, "a report that comes in time is taken", (execution, holder, stored))

    def sent_token(self, invocation: Invocation, token: str) -> None:
        attempt = self.attempts[invocation.execution_id]
        must(attempt.token is None, "an attempt is called once", invocation.execution_id)
        must(all(other.token != token for other in self.attempts.values()), "each attempt has its own token", token)
        attempt.token = token

    # --- what World tells every judge ---

    def skipped(self, gap: SkippedSlots) -> None: ...

    def called(self, invocation: Invocation, actor: Actor) -> None: ...

    def answered(self, invocation: Invocation, answer: TargetAnswer, actor: Actor) -> None:
        if answer.status is ExecutionStatus.COMPLETED:
            self.accepted.add(invocation.execution_id)

    def finished(self, actor: Actor) -> None: ...

    def sends(self, hint: Any, due_at: int, actor: Actor) -> None: ...

    def fault(self, name: str, label: str | None, actor: Actor | None) -> None:
        self.faults.append((self.now, label, "message" if actor is None else actor.kind))

    # --- the end ---

    def _has_no_permit(self, row: Job) -> bool:
        """Whether attempts and cancelled calls, whose leases go on, hold all permits of the job's key."""
        document = {} if row.definition is None else row.definition.document
        if "concurrencyKey" not in document:
            return False
        key = f"key:{row.owner}|{document['concurrencyKey']}"
        held = {
            name
            for other in self.rows.values()
            for one in (*other.runs.values(), *other.cancelled_calls.values())
            if one.state is RunState.RUNNING and (one.lease_expires_at or 0) > self.now
            for name in one.holds
        }
        return held >= {f"{key}#{index}" for index in range(document["maxConcurrency"])}

    def close(self) -> None:
        """The faults are long over, and a worker has polled each second since."""
        for row in self.rows.values():
            for slot, run in row.runs.items():
                if row.cancelled or row.holds(run):
                    continue
                lease = run.lease_expires_at
                left = run.state is RunState.RUNNING and lease is not None and lease + LONGEST_WAIT < self.now
                must(not left, "no run is left behind", (row.id, slot, run))
                waits = run.state is RunState.WAITING and (run.due_at or 0) + LONGEST_WAIT < self.now
                waits = waits and not self._has_no_permit(row)
                must(not waits, "nothing that waits is forgotten", (row.id, slot, run, self.now))
        for key in self.attempts:
            job_id, slot, attempt = key[:36], key[37:-5], int(key[-4:])
            now = self.rows[job_id].runs.get(slot)
            runs = now is not None and now.state is RunState.RUNNING and now.attempt == attempt
            must(key in self.history or runs or self._lean(self.rows[job_id], slot), "every attempt has its end", key)
            if key not in self.history and runs:
                self._in_time(key)
                self.is_swept(key)
