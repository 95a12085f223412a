"""The silence alarm: a job that has had no success for `alertAfterSeconds` is silent, for whatever reason.

The job's row carries all it takes, so a definition that cannot be read hides nothing. Instants are epoch seconds, UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from functions.domain.definition import Definition


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    after: int
    """Seconds without a success after which the job is silent."""
    since: int
    """The last success; before the first one, and after a change of the alarm, when it was set."""
    last_success_at: int | None = None
    """None before the first success that this alarm has seen."""
    alerted: bool = False
    """The alarm of this silence was raised."""
    once: bool = False
    """A one-time job's: its success ends the alarm."""

    @property
    def due_at(self) -> int | None:
        """When the alarm is to be raised; None when it was."""
        return None if self.alerted else self.since + self.after


def armed(definition: Definition, *, now: int, next_due: int | None) -> Silence | None:
    """The alarm of a job that gets one. One that would be raised before the next run is due counts from there."""
    after = definition.alert_after
    if after is None:
        return None
    since = next_due if next_due is not None and next_due > now + after else now
    return Silence(after=after, since=since, once=not definition.schedule.recurring)


def broken(silence: Silence | None, *, at: int, next_due: int | None) -> Silence | None:
    """After a success at this instant: it ends the silence and arms the next alarm, where another run may come."""
    if silence is None or (silence.once and next_due is None):
        return None
    since = max(silence.since, at, next_due if silence.once and next_due is not None else 0)
    return replace(silence, since=since, last_success_at=at, alerted=False)


def changed(
    silence: Silence | None,
    old: Definition | None,
    definition: Definition,
    *,
    now: int,
    next_due: int | None,
    succeeded: bool,
) -> Silence | None:
    """After a change of the definition; `succeeded`: so did the last run.

    Only a change of the alarm itself begins anew. A new schedule puts off an alarm that would be raised before its
    first run. A one-time job that has succeeded has none, whatever is changed.
    """
    once = not definition.schedule.recurring
    if once and next_due is None and succeeded:
        return None
    if silence is None or silence.after != definition.alert_after:
        return armed(definition, now=now, next_due=next_due)
    rescheduled = old is None or old.schedule != definition.schedule
    if rescheduled and not silence.alerted and next_due is not None and next_due > silence.since + silence.after:
        silence = replace(silence, since=next_due)
    return replace(silence, once=once)
