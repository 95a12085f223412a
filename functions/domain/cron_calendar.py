"""The wall times that a cron expression names, whatever the zone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import monthrange
from datetime import date
from typing import TYPE_CHECKING

from functions.domain.zones import DAY, LAST_INSTANT

if TYPE_CHECKING:
    from functions.domain.cron_fields import CronFields

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_LAST_DAY = _EPOCH_DAY + LAST_INSTANT // DAY + 1
_LEAP_CYCLE = range(2000, 2400)
"""Years after which dates and their weekdays repeat."""


class CronCalendar:
    """The wall times (seconds since 1970-01-01T00:00 of the clock) that an expression names."""

    def __init__(self, fields: CronFields) -> None:
        self._fields = fields
        self._any_day = fields.both and len(fields.days) == 31 and len(fields.weekdays) == 7
        self._first_time = fields.hours[0] * 3600 + fields.minutes[0] * 60
        self._last_time = fields.hours[-1] * 3600 + fields.minutes[-1] * 60
        self._times_a_day = len(fields.hours) * len(fields.minutes)

    def ever(self) -> bool:
        return any(self._days_of(year, month) for year in _LEAP_CYCLE for month in self._fields.months)

    def at_or_after(self, wall: int) -> int | None:
        day, second = divmod(wall, DAY)
        day += _EPOCH_DAY
        if second <= self._last_time and self._names(day):
            time = self._time_at_or_after(second)
        else:
            following = self._day_from(day + 1)
            if following is None:
                return None
            day, time = following, self._first_time
        return (day - _EPOCH_DAY) * DAY + time

    def at_or_before(self, wall: int) -> int | None:
        day, second = divmod(wall, DAY)
        day += _EPOCH_DAY
        if second >= self._first_time and self._names(day):
            time = self._time_at_or_before(second)
        else:
            preceding = self._day_until(day - 1)
            if preceding is None:
                return None
            day, time = preceding, self._last_time
        return (day - _EPOCH_DAY) * DAY + time

    def count(self, first: int, last: int) -> int:
        """Named wall times in [first, last]."""
        return self._count_before(last + 1, since=first) if first <= last else 0

    def _count_before(self, end: int, *, since: int) -> int:
        (first_day, first_second), (end_day, end_second) = divmod(since, DAY), divmod(end, DAY)
        first_day += _EPOCH_DAY
        end_day += _EPOCH_DAY
        total = self._times_a_day * self._count_days(first_day, end_day)
        if self._names(first_day):
            total -= self._times_before(first_second)
        if self._names(end_day):
            total += self._times_before(end_second)
        return total

    def _count_days(self, first: int, end: int) -> int:
        if self._any_day and len(self._fields.months) == 12:
            return end - first
        total, day = 0, first
        while day < end:
            here = date.fromordinal(day)
            length = monthrange(here.year, here.month)[1]
            stop = min(day - here.day + length + 1, end)
            if here.month in self._fields.months:
                total += sum(
                    here.day <= named < here.day + stop - day for named in self._days_of(here.year, here.month)
                )
            day = stop
        return total

    def _time_at_or_after(self, second: int) -> int:
        hours, minutes = self._fields.hours, self._fields.minutes
        hour, rest = divmod(second, 3600)
        at = bisect_left(hours, hour)
        if hours[at] == hour:
            if rest <= minutes[-1] * 60:
                return hour * 3600 + minutes[bisect_left(minutes, -(-rest // 60))] * 60
            at += 1
        return hours[at] * 3600 + minutes[0] * 60

    def _time_at_or_before(self, second: int) -> int:
        hours, minutes = self._fields.hours, self._fields.minutes
        hour, rest = divmod(second, 3600)
        at = bisect_right(hours, hour) - 1
        if hours[at] == hour:
            if rest >= minutes[0] * 60:
                return hour * 3600 + minutes[bisect_right(minutes, rest // 60) - 1] * 60
            at -= 1
        return hours[at] * 3600 + minutes[-1] * 60

    def _times_before(self, second: int) -> int:
        hours, minutes = self._fields.hours, self._fields.minutes
        hour, rest = divmod(second, 3600)
        at = bisect_left(hours, hour)
        within = bisect_left(minutes, -(-rest // 60)) if at < len(hours) and hours[at] == hour else 0
        return at * len(minutes) + within

    def _names(self, day: int) -> bool:
        here = date.fromordinal(day)
        if here.month not in self._fields.months:
            return False
        return self._any_day or self._matches(here.day, day % 7, monthrange(here.year, here.month)[1])

    def _matches(self, day: int, weekday: int, length: int) -> bool:
        fields = self._fields
        by_month = day in fields.days or (fields.last_day and day == length)
        if by_month is not fields.both:
            # One of them decides: true where either is enough, false where both are needed.
            return by_month
        return (
            weekday in fields.weekdays
            or (weekday, (day + 6) // 7) in fields.nth_weekdays
            or (day + 7 > length and weekday in fields.last_weekdays)
        )

    def _days_of(self, year: int, month: int) -> list[int]:
        """Days of the month that are named, in order."""
        first, length = monthrange(year, month)
        days = range(1, length + 1)
        # Python's weekday 0 is Monday, cron's is Sunday.
        return [day for day in days if self._any_day or self._matches(day, (first + day) % 7, length)]

    def _day_from(self, day: int) -> int | None:
        here = date.fromordinal(day)
        year, month, start = here.year, here.month, here.day
        while day <= _LAST_DAY:
            if month in self._fields.months:
                for named in self._days_of(year, month):
                    if named >= start:
                        return date(year, month, named).toordinal()
            year, month, start = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)
            day = date(year, month, 1).toordinal()
        return None

    def _day_until(self, day: int) -> int | None:
        here = date.fromordinal(day)
        year, month, end = here.year, here.month, here.day
        while day >= _EPOCH_DAY - 1:
            if month in self._fields.months:
                for named in reversed(self._days_of(year, month)):
                    if named <= end:
                        return date(year, month, named).toordinal()
            day = date(year, month, 1).toordinal() - 1
            year, month, end = (year, month - 1, 31) if month > 1 else (year - 1, 12, 31)
        return None
