"""Whether what is late has a fault that explains it: lost things are late by lease + 2 minutes at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.domain.job import Job
from tests.simulation.life import Life, Since, Wake, startable
from tests.simulation.rows import backoff, must

if TYPE_CHECKING:
    from tests.simulation.actors import Actor, Weather
    from tests.simulation.model import Judge

IN_TIME = 6.0
"""Seconds within which a start follows its due instant where nothing went wrong: slow answers, clocks apart."""
PROMISE = 60 + 15 + 120
"""Lease + 2 minutes, for the longest timeout of the stories."""
STALL = 210
"""Seconds that a fault of the sweep lasts at most: it may begin before something is due."""
VISIT = 70
"""Seconds from the end of a back-off to the next tick of the sweep, and its work."""


class Punctuality:
    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.weather: list[Weather] = []
        self.sweep_faults: list[float] = []

    # --- what is told to it ---

    def hampered(self, weather: Weather) -> None:
        self.weather.append(weather)

    def fault(self, label: str | None, actor: Actor | None, now: float) -> None:
        if actor is not None and actor.kind == "sweep":
            self.sweep_faults.append(now)
        for life in self._judge.lives.values():
            if label is None or life.label == label:
                life.faults.append(now)

    def changed(self, life: Life, before: Job | None, row: Job, actor: Actor, now: float, *, woken: bool) -> None:
        """After each write: what was waiting and is no longer was handled now; what is new waits from now."""
        due = startable(row)
        for one in [one for one in life.since if one not in due]:
            since = life.since.pop(one)
            if row.paused and before is not None and not before.paused:
                continue
            if actor.kind == "caller":
                continue
            self._check(life, (one.slot_id, one.attempt), since, now)
        if actor.kind == "caller" and before is not None and before.paused and not row.paused:
            life.since.clear()
        for one in due:
            life.since.setdefault(one, Since(max(float(one.due_at), now), now))
        if woken and before is not None:
            keys = {(one.slot_id, one.attempt) for one in due if one.due_at <= now + actor.skew}
            last = life.wakes[-1] if life.wakes else None
            if before.wakes and last is not None and not last.disturbed:
                must(now >= last.until - 10, "wakes back off", life, (keys, last, now))
            rest = [one.due_at + 30 for one in due if one.due_at > now + actor.skew]
            if row.silence is not None and row.silence.due_at is not None:
                rest.append(row.silence.due_at)
            wait = backoff(row.wakes)
            life.wakes.append(Wake(now, keys, min([now + wait, *rest]), wait, actor.disturbed))

    def recovered(self, life: Life, key: tuple[str, int], lease: int, now: float) -> None:
        self._check(life, key, Since(lease + 5.0, lease - 90.0), now)

    def closed(self, life: Life, now: float) -> None:
        for one, since in life.since.items():
            self._check(life, (one.slot_id, one.attempt), since, now)

    def is_poison(self, life: Life) -> bool:
        """Whether consumers fail at this job's hints, and at no others."""
        return any(one.kind == f"poison {life.label}" for one in self.weather)

    # --- the rule ---

    def _check(self, life: Life, key: tuple[str, int], since: Since, now: float) -> None:
        late = now - since.due
        if late <= IN_TIME:
            return
        must(self._explained(life, since, now), "what is late has a fault that explains it", life, (key, since, late))
        allowed = self._allowed(life, key, since, now)
        must(late <= allowed, "nothing is later than promised", life, (key, since, late, allowed))

    def _explained(self, life: Life, since: Since, now: float) -> bool:
        faults = any(since.known - 1 <= at <= now for at in life.faults)
        return faults or any(one.begins < now and one.ends > since.known for one in self.weather)

    def _allowed(self, life: Life, key: tuple[str, int], since: Since, now: float) -> float:
        allowed, over = float(PROMISE), 0.0
        for one in self.weather:
            if one.begins < now and one.ends > since.due:
                allowed += min(one.ends, now) - max(one.begins, since.due) + PROMISE
                over = max(over, one.ends)
        allowed += PROMISE * sum(since.due - STALL <= at <= now for at in self.sweep_faults)
        # A back-off that ended while the weather still lasted is in its time.
        wakes = [wake for wake in life.wakes if key in wake.keys and since.due <= wake.at <= now and wake.until > over]
        return allowed + sum(wake.backoff + VISIT for wake in wakes)
