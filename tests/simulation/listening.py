"""The silence alarm, from docs/job-lifecycle.md: raised once a silence, in time, and by nothing but silence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from functions.domain.job import Job
from functions.domain.run import Outcome
from tests.simulation.life import Life, decided
from tests.simulation.punctuality import STALL
from tests.simulation.rows import must

if TYPE_CHECKING:
    from tests.simulation.actors import Actor
    from tests.simulation.model import Judge

PROMISE = 130
"""Two minutes of the sweep, and its own work."""


@dataclass
class Alarm:
    after: int
    since: int
    once: bool
    told: bool = False


class Listening:
    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._alarms: dict[str, Alarm] = {}

    def changed(self, life: Life, before: Job | None, row: Job, actor: Actor, now: float) -> None:
        """After each write."""
        if before is None:
            self._set(life, row, (row.created_at, row.created_at))
        elif row.definition != before.definition and actor.kind == "caller":
            self._set(life, row, decided(actor, now))
        alarm = self._alarms.get(row.id)
        last = row.last_run
        if before is not None and last is not None and last != before.last_run and last.outcome is Outcome.COMPLETED:
            alarm = self._succeeded(life, row, int(life.history[last.slot_id, last.attempt].completed_at))
        if row.cancelled or row.deleted_at is not None:
            alarm = None
        if alarm is None:
            self._alarms.pop(row.id, None)
        must((alarm is None) == (row.silence is None), "a job listens for its silence", life, (alarm, row.silence))
        if alarm is None or row.silence is None:
            return
        if row.is_silent and not alarm.told:
            self._told(life, alarm, actor, now)
        must(alarm.told == row.is_silent, "a success ends a silence, nothing else", life, (alarm, row.silence))
        must(alarm.since == row.silence.since, "silence counts from the last success", life, (alarm, row.silence))

    def closed(self, life: Life, now: float) -> None:
        alarm = self._alarms.get(life.row.id)
        if alarm is not None and not alarm.told:
            must(alarm.since + alarm.after + PROMISE > now, "no silence is kept", life, (alarm, now, life.row))

    def _set(self, life: Life, row: Job, window: tuple[float, float]) -> None:
        """A job is made or changed: what it says of its alarm."""
        document = row.defined.document
        after, once = document.get("alertAfterSeconds"), document["schedule"]["type"] == "once"
        old = self._alarms.get(row.id)
        over = once and row.next_slot is None and row.last_run is not None and row.last_run.outcome is Outcome.COMPLETED
        if after is None or over:
            self._alarms.pop(row.id, None)
            return
        must(row.silence is not None, "a job that asks for an alarm has one", life, row)
        assert row.silence is not None
        since, low = row.silence.since, int(window[0])
        if old is not None and old.after == after:
            low, since_old = old.since, since == old.since
        else:
            old, since_old = None, int(window[0]) <= since <= int(window[1])
        put_off = row.next_due is not None and since == row.next_due > low + after
        must(since_old or put_off, "an alarm counts from its setting, or the first run", life, (row.silence, low, row))
        self._alarms[row.id] = Alarm(after, since, once, told=old is not None and old.told)

    def _succeeded(self, life: Life, row: Job, at: int) -> Alarm | None:
        alarm = self._alarms.get(row.id)
        if alarm is None or (alarm.once and row.next_slot is None):
            return None
        alarm.told = False
        alarm.since = max(alarm.since, at, row.next_due or 0 if alarm.once else 0)
        return alarm

    def _told(self, life: Life, alarm: Alarm, actor: Actor, now: float) -> None:
        due = alarm.since + alarm.after
        must(actor.kind == "sweep", "the sweep raises alarms", life, actor.key)
        must(now + actor.skew >= due, "no alarm before its time", life, (alarm, now))
        late = now - due
        if late > PROMISE:
            weather = any(one.begins < now and one.ends > due - STALL for one in self._judge.time.weather)
            faults = any(due - STALL <= at <= now for at in (*life.faults, *self._judge.time.sweep_faults))
            must(weather or faults, "an alarm is late by two minutes of the sweep at most", life, (alarm, late))
        alarm.told = True
