"""When a cron expression's slots are, in a time zone. Instants are epoch seconds, UTC.

The rule for clock changes is Debian cron's (cron(8)): a fixed time that does not exist runs once, right after the gap,
together with what meets it there; one that occurs twice runs the first time; an expression with `*` at the start of
minute or hour keeps real elapsed time through both.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from functions.domain.cron_calendar import CronCalendar
from functions.domain.cron_fields import CronFields, is_hashed, parse
from functions.domain.errors import InvalidFieldError
from functions.domain.zones import (
    DAY,
    LAST_INSTANT,
    change_within,
    changes,
    first_instant,
    first_wall,
    offset,
    shown,
    zone,
)

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

__all__ = ["CronExpression", "preview", "zone"]


class CronExpression:
    """An expression in a zone. Immutable and compared by value: what it names, and the name of its zone."""

    def __init__(self, fields: CronFields, clocks: ZoneInfo) -> None:
        self._fields = fields
        self._calendar = CronCalendar(fields)
        self._zone = clocks
        self._elapsed = fields.elapsed
        self._unclear = fields.unclear

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CronExpression):
            return NotImplemented
        return self._fields == other._fields and self._zone.key == other._zone.key

    def __hash__(self) -> int:
        return hash((self._fields, self._zone.key))

    @classmethod
    def of(
        cls,
        expression: str,
        timezone: str = "UTC",
        *,
        job_id: str | None = None,
        field: str = "schedule.expression",
        timezone_field: str = "schedule.timezone",
    ) -> CronExpression:
        """Parse; `H` is hashed by `job_id`.

        Raises InvalidFieldError for unknown zones, bad expressions, and expressions whose dates never occur.
        """
        hashed_by = job_id if is_hashed(expression) else None
        return _parsed(expression, timezone, hashed_by, field, timezone_field)

    def must_be_clear(self, field: str) -> None:
        """Raise InvalidFieldError for what schedulers read differently: a step on a single value.

        Asked of new expressions only: stored jobs of releases that accepted it keep their reading.
        """
        if self._unclear is not None:
            raise InvalidFieldError(field, self._unclear)

    def next_after(self, instant: int) -> int | None:
        """The first slot strictly after `instant`; None when there is none before 2286-11-20 (LAST_INSTANT)."""
        start = max(instant + 1, 0)
        if start > LAST_INSTANT:
            return None
        if self._elapsed:
            slot = self._elapsed_from(start)
        else:
            wall = self._calendar.at_or_after(first_wall(self._zone, start))
            slot = None if wall is None else first_instant(self._zone, wall)
        return slot if slot is not None and slot <= LAST_INSTANT else None

    def last_at_or_before(self, instant: int) -> int | None:
        """The latest slot not after `instant`; None when there is none since 1970."""
        end = min(instant, LAST_INSTANT)
        if end < 0:
            return None
        if self._elapsed:
            slot = self._elapsed_until(end)
        else:
            wall = self._calendar.at_or_before(first_wall(self._zone, end + 1) - 1)
            slot = None if wall is None else first_instant(self._zone, wall)
        return slot if slot is not None and slot >= 0 else None

    def count(self, first: int, last: int) -> int:
        """How many slots are in [first, last]. Takes about 0.3 ms a year, however many they are."""
        first, last = max(first, 0), min(last, LAST_INSTANT)
        if first > last:
            return 0
        return self._count_elapsed(first, last) if self._elapsed else self._count_fixed(first, last)

    def _elapsed_from(self, start: int) -> int | None:
        while start <= LAST_INSTANT:
            ahead = offset(self._zone, start)
            wall = self._calendar.at_or_after(start + ahead)
            if wall is None:
                return None
            slot = wall - ahead
            # Clocks may be set back, and show an earlier match again, or be set forward, for a day after `start`.
            near = min(slot, start + DAY)
            change = change_within(self._zone, start, near)
            if change is not None:
                start = change
            elif near == slot:
                return slot
            else:
                # Offsets are less than a day from UTC, so nothing matches until two days before.
                start = max(near, slot - 2 * DAY)
        return None

    def _elapsed_until(self, end: int) -> int | None:
        while end >= 0:
            ahead = offset(self._zone, end)
            wall = self._calendar.at_or_before(end + ahead)
            if wall is None:
                return None
            slot = wall - ahead
            near = max(slot, end - DAY)
            change = change_within(self._zone, near, end)
            if change is not None:
                end = change - 1
            elif near == slot:
                return slot
            else:
                end = min(near, slot + 2 * DAY)
        return None

    def _count_elapsed(self, first: int, last: int) -> int:
        total, start = 0, first
        for end in (*changes(self._zone, first, last), last + 1):
            ahead = offset(self._zone, start)
            total += self._calendar.count(start + ahead, end - 1 + ahead)
            start = end
        return total

    def _count_fixed(self, first: int, last: int) -> int:
        total = self._calendar.count(first_wall(self._zone, first), first_wall(self._zone, last + 1) - 1)
        for change in changes(self._zone, max(first - 1, 0), last):
            before, after = offset(self._zone, change - 1), offset(self._zone, change)
            if after > before:
                met = self._calendar.count(change + before, change + after)
                total -= max(met - 1, 0)
        return total


@functools.lru_cache(maxsize=1024)
def _parsed(expression: str, timezone: str, job_id: str | None, field: str, timezone_field: str) -> CronExpression:
    clocks = zone(timezone, timezone_field)
    fields = parse(expression, job_id=job_id, field=field)
    if not CronCalendar(fields).ever():
        raise InvalidFieldError(field, f"{shown(expression)} names dates that never occur")
    return CronExpression(fields, clocks)


def preview(expression: str, timezone: str, *, after: int, count: int, job_id: str | None) -> list[int]:
    """The next slots strictly after `after`, at most `count`.

    Raises InvalidFieldError naming `expression` or `timezone`. `H` without a `job_id` is refused: whatever it showed
    would not be the job's times.
    """
    cron = CronExpression.of(expression, timezone, job_id=job_id, field="expression", timezone_field="timezone")
    cron.must_be_clear("expression")
    slots: list[int] = []
    while len(slots) < count:
        slot = cron.next_after(slots[-1] if slots else after)
        if slot is None:
            break
        slots.append(slot)
    return slots
