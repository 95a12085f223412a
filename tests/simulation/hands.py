"""The workers of a story: processes that poll, beat, report progress and outcomes, and die, stall or forget to."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from functions.domain.claims import Holder
from functions.domain.errors import NotYoursError
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.ids import execution_id
from functions.domain.outcome import TargetAnswer
from functions.usecases.claiming import Claimed, Poll, poll
from functions.usecases.workers import drain_worker, heartbeat, register_worker
from tests.driver import ADMIN

if TYPE_CHECKING:
    from tests.simulation.work import WorkStory

BEAT = 30
GOOD = TargetAnswer(status=ExecutionStatus.COMPLETED, result="true")
BAD = TargetAnswer(status=ExecutionStatus.FAILED, error=ExecutionError(code="TARGET_ERROR", message="it did not work"))


@dataclass
class Hand:
    """One worker's process, as long as it lives."""

    name: str
    queues: tuple[str, ...]
    choose: random.Random
    steady: bool = False
    """Works at once, well, and for ever."""
    id: str = ""
    dead: bool = False
    drained: bool = False
    poll_id: str = ""
    polls: int = 0
    taken: set[tuple[str, int]] = field(default_factory=set)


class Hands:
    def __init__(self, story: WorkStory) -> None:
        self._story = story

    def register(self, hand: Hand) -> None:
        made = self._story.ask(
            f"{hand.name} register",
            lambda services, _: register_worker(services, ADMIN, name=hand.name, queues=hand.queues, max_items=2),
        ).answer
        if made is None:
            self._story.world.scheduler.after(2, lambda: self.register(hand))
            return
        hand.id = made.id
        self._look(hand)

    def _look(self, hand: Hand) -> None:
        if hand.dead:
            return
        story, choose = self._story, hand.choose
        if not hand.poll_id:
            hand.polls += 1
            hand.poll_id = f"p{hand.polls}"
        wanted = Poll(worker_id=hand.id, poll_id=hand.poll_id, max_items=choose.choice([1, 2, 5]))
        began = story.world.scheduler.now
        actor, found = story.ask(
            f"{hand.name} poll",
            lambda services, actor: poll(services, ADMIN, wanted, shuffle=actor.choose.shuffle),
        )
        if found is not None:
            # Now and then its answer does not arrive, and it is repeated after a while.
            if not hand.steady and choose.random() < 0.05:
                story.world.scheduler.after(choose.choice([2.0, 40.0, 91.0]), lambda: self._look(hand))
                return
            hand.poll_id = ""
            story.judge.given(hand.id, wanted.max_items or 0, found, began, skew=actor.skew)
            for claimed in found:
                self._take(hand, claimed)
        elif choose.random() < 0.2:
            hand.poll_id = ""  # it does not repeat it
        if not hand.steady and choose.random() < 0.02:
            hand.dead = True
            story.world.note(f"FAULT {hand.name} is dead")
            return
        if not hand.steady and not hand.drained and choose.random() < 0.01:
            hand.drained = True
            story.ask(f"{hand.name} drain", lambda services, _: drain_worker(services, ADMIN, hand.id))
        story.world.scheduler.after(choose.choice([1.0, 3.0, 10.0]), lambda: self._look(hand))

    def _take(self, hand: Hand, claimed: Claimed) -> None:
        story, run = self._story, claimed.run
        execution = execution_id(claimed.job.id, claimed.slot_id, run.attempt)
        if (execution, run.fence) in hand.taken:
            return
        hand.taken.add((execution, run.fence))
        choose, after = hand.choose, story.world.scheduler.after
        holder = Holder(worker_id=hand.id, fence=run.fence)
        lasts = 1.0 if hand.steady else choose.choice([0.5, 4, 25, 70, 130, 300, 700])
        answer = GOOD if hand.steady or choose.random() < 0.6 else BAD
        if hand.steady or choose.random() < 0.8:
            end = story.world.scheduler.now + lasts
            after(BEAT, lambda: self._beat(hand, execution, run.fence, end))
        elif choose.random() < 0.5:
            self._say_all(hand, execution, holder, answer)
        if hand.steady or choose.random() < 0.9:
            times = choose.choice([1, 1, 2])
            for time in range(times):
                later = lasts + time * choose.choice([0.0, 0.1, 40.0])
                after(later, lambda: story.report(hand.name, execution, holder, answer, dead=lambda: hand.dead))
        if not hand.steady and choose.random() < 0.2:
            after(lasts / 2, lambda: story.show_progress(hand.name, execution, holder))
        if not hand.steady and choose.random() < 0.1:
            wrong = Holder(worker_id=hand.id, fence=run.fence + choose.choice([-1, 1]))
            after(lasts / 2, lambda: story.report(hand.name, execution, wrong, GOOD))

    def _say_all(self, hand: Hand, execution: str, holder: Holder, answer: TargetAnswer) -> None:
        """Silent until about the end of its lease or its deadline, it then says all that it can."""
        story, choose, fence = self._story, hand.choose, holder.fence or 0
        calls = [
            lambda: self._beat(hand, execution, fence, 0.0, once=True),
            lambda: story.show_progress(hand.name, execution, holder),
            lambda: story.report(hand.name, execution, holder, answer),
        ]
        choose.shuffle(calls)
        begins = choose.choice(story.near_the_end(execution) or [1.0])
        for number, call in enumerate(calls):
            story.world.scheduler.after(begins + number * choose.choice([0.01, 0.5, 2.0]), call)

    def _beat(self, hand: Hand, execution: str, fence: int, end: float, *, once: bool = False) -> None:
        story = self._story
        began = story.world.scheduler.now
        if hand.dead or (not once and began > end):
            return
        asked = story.ask(
            f"{hand.name} beat",
            lambda services, _: heartbeat(services, ADMIN, hand.id, ((execution, fence),)),
        )
        refused = isinstance(asked.answer, NotYoursError)
        if asked.answer is not None:
            holder = Holder(worker_id=hand.id, fence=fence)
            story.judge.heard(execution, holder, began, skew=asked.actor.skew, refused=refused)
        if once or refused:
            return
        late = 0 if hand.steady else hand.choose.choice([0, 0, 5, 50, 65, 100])
        story.world.scheduler.after(BEAT + late, lambda: self._beat(hand, execution, fence, end))
