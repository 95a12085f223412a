"""What is promised of approval gates (docs/job-lifecycle.md), and who decides at them in the stories of workers.

Gates meet forced retries, changes of the payload, moves to other queues, keys, and all that goes wrong with workers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from functions.domain.errors import GnomonError
from functions.domain.execution import Execution, ExecutionStatus
from functions.domain.ids import run_id
from functions.domain.run import Decision
from functions.usecases.approvals import GateDecision, decide_run
from tests.driver import ADMIN
from tests.simulation.work_holds import SKEW, must

if TYPE_CHECKING:
    from functions.domain.job import Job
    from functions.domain.run import ActiveRun, Approval
    from tests.simulation.work import WorkStory
    from tests.simulation.world import World

Run = tuple[str, str]
"""Job and slot."""
AT_GATE = "approval"


def called(row: Job) -> str:
    """What the job calls: an approval is about that, and about nothing else."""
    return json.dumps([row.defined.document["target"], row.defined.payload], sort_keys=True)


class Gates:
    """The judge of gates: it is told each write of a run, each end, and each answer to a decision."""

    world: World
    story: WorkStory

    def __init__(self) -> None:
        self.passed: dict[Run, str] = {}
        """What was approved, of each run that an approval let go on."""
        self.approvals: dict[Run, Approval] = {}
        self.rejected: set[Run] = set()
        self.seen: dict[Run, list[tuple[float, ActiveRun | None]]] = {}
        """Each run that came to a gate, as each write since has left it."""

    def gate(self, row: Job, slot: str, old: ActiveRun | None, new: ActiveRun | None) -> None:
        """`old` became `new` by a write of the row."""
        key, gated = (row.id, slot), row.definition is not None and "approval" in row.definition.document
        if new is not None and new.waits_for == AT_GATE and (old is None or old.waits_for != AT_GATE):
            must(gated, "only a job with a gate has runs that wait at one", key)
            must(self.passed.pop(key, None) != called(row), "what was approved is not asked about again", (key, new))
            again = key in self.seen
            self.world.note(f"    {slot} comes to its gate{' again' * again}{' forced' * new.forced}")
            self.rejected.discard(key)
            self.seen.setdefault(key, [])
            self._ask_people(row.id, slot, new)
        if key in self.seen:
            self.seen[key].append((self.world.scheduler.now, new))
        if new is not None and new.approval is not None and (old is None or old.approval != new.approval):
            waited = old is not None and old.waits_for == AT_GATE
            # A run that has ended comes back by a forced retry, with the decision that it had.
            kept = old is None and new.approval == self.approvals.get(key)
            must(waited or kept, "what waits at its gate is decided about", (key, old, new))
            self.approvals[key] = new.approval
            self.world.note(f"    {slot} {'was' if kept else 'is'} {new.approval.decision} by {new.approval.by}")
            if kept:
                must(new.approval.decision is Decision.APPROVED, "what was rejected is asked about again", (key, new))
            elif new.approval.decision is Decision.APPROVED:
                self.passed[key] = called(row)
            else:
                self.rejected.add(key)
        starts = new is not None and new.lease_expires_at is not None and (old is None or old.fence != new.fence)
        if starts and gated:
            must(key not in self.rejected, "what was rejected does not start", (key, new))
            must(self.passed.get(key) == called(row), "nothing is called but what was approved", (key, new))

    def gate_ended(self, execution: Execution) -> None:
        if (execution.job_id, execution.slot_id) in self.rejected:
            must(execution.status is ExecutionStatus.CANCELLED, "what was rejected is cancelled", execution)

    def answered_decision(self, key: Run, decision: Decision, began: float, *, skew: float, refused: bool) -> None:
        """A decision that is answered well is stored; one that comes in time is not refused."""
        since = [run for at, run in self.seen[key] if at <= began][-1:]
        since += [run for at, run in self.seen[key] if at > began]
        if refused:
            late = self.world.scheduler.now + skew
            gone = any(run is None or run.waits_for != AT_GATE or (run.due_at or 0) <= late for run in since)
            must(gone, "a decision that comes in time is taken", (key, decision, since))
            return
        stored = [run.approval for run in since if run is not None and run.approval is not None]
        mine = any((one.decision, one.by) == (decision, ADMIN.id) for one in stored)
        must(mine, "a decision that is answered is stored", (key, decision, since))

    # --- people ---

    def _ask_people(self, job_id: str, slot: str, run: ActiveRun) -> None:
        """Nobody decides, or one does, or two at about the same time, perhaps around the deadline."""
        choose = self.world.draw(f"gate {self.world.label(job_id)} {slot} {len(self.seen[job_id, slot])}")
        decisions = choose.choice(
            [(), (Decision.APPROVED,), (Decision.APPROVED,), (Decision.REJECTED,), tuple(Decision), tuple(Decision)]
        )
        left = (run.due_at or 0) - self.world.scheduler.now
        after = choose.choice([0.1, 3.0, 20.0, *(max(0.1, left + by) for by in (-3.0, -0.5, 0.5, SKEW + 0.5))])
        for decision in decisions:
            later = after + choose.choice([0.0, 0.02, 1.0])
            self.world.scheduler.after(later, lambda decision=decision: self._decide(job_id, slot, decision))

    def _decide(self, job_id: str, slot: str, decision: Decision, *, tries: int = 3) -> None:
        began, wanted = self.world.scheduler.now, GateDecision(decision=decision, run=run_id(job_id, slot))
        asked = self.story.ask(
            f"{decision} {slot}", lambda services, _: decide_run(services, ADMIN, job_id, wanted), kind="caller"
        )
        if asked.answer is not None:
            refused = isinstance(asked.answer, GnomonError)
            self.answered_decision((job_id, slot), decision, began, skew=asked.actor.skew, refused=refused)
        elif tries:
            again = lambda: self._decide(job_id, slot, decision, tries=tries - 1)  # noqa: E731
            self.world.scheduler.after(2, again)


def gated(document: dict[str, Any], patience: int, on_timeout: str) -> dict[str, Any]:
    """The document with a gate at which the stories' caller decides, who created the job, too."""
    gate = {"role": "admin", "timeoutSeconds": patience, "onTimeout": on_timeout, "fourEyes": False}
    return {**document, "approval": gate}
