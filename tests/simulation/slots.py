"""The slots of a schedule, worked out anew from docs/architecture.md: a plain scan of the zone's minutes.

For the expressions the stories use: minute and hour are `*`, `*/n` or lists; the other fields are `*`.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

DAY = 86_400


def slots_between(document: Mapping[str, Any], created_at: int, after: int, until: int) -> list[int]:
    """All slots in (after, until], ascending."""
    schedule = document["schedule"]
    if schedule["type"] == "once":
        at = int(datetime.fromisoformat(schedule["at"]).timestamp())
        found = [at] if after < at <= until else []
    elif schedule["type"] == "interval":
        every = schedule["everySeconds"]
        first = max(1, (after - created_at) // every + 1)
        found = list(range(created_at + first * every, until + 1, every))
    else:
        found = _cron(schedule["expression"], schedule.get("timezone", "UTC"), after, until)
    end = document.get("endAt")
    return found if end is None else [slot for slot in found if slot <= datetime.fromisoformat(end).timestamp()]


def _cron(expression: str, zone: str, after: int, until: int) -> list[int]:
    found: list[int] = []
    for number in range((after - DAY) // DAY, (until + DAY) // DAY + 1):
        found += _day(expression, zone, number)
    found = sorted(set(found))
    return found[bisect.bisect_right(found, after) : bisect.bisect_right(found, until)]


@functools.lru_cache(maxsize=4096)
def _day(expression: str, zone: str, number: int) -> tuple[int, ...]:
    """The slots of a UTC day (elapsed time), or of a calendar day of the zone (fixed times)."""
    minute, hour, *_ = expression.split()
    minutes, hours, clocks = _values(minute, 60), _values(hour, 24), ZoneInfo(zone)
    if minute.startswith("*") or hour.startswith("*"):
        shown = ((at, datetime.fromtimestamp(at, clocks)) for at in range(number * DAY, (number + 1) * DAY, 60))
        return tuple(at for at, wall in shown if wall.minute in minutes and wall.hour in hours)
    day = date(1970, 1, 1) + timedelta(days=number)
    return tuple(
        _first_instant(datetime(day.year, day.month, day.day, h, m, tzinfo=clocks), clocks)
        for h in hours
        for m in minutes
    )


def _first_instant(wall: datetime, clocks: ZoneInfo) -> int:
    """The first time the clocks show it; right after the gap where they never do."""
    at = int(wall.replace(fold=0).timestamp())
    if datetime.fromtimestamp(at, clocks).replace(tzinfo=None) == wall.replace(tzinfo=None):
        return at
    at = int(wall.astimezone(UTC).timestamp())
    before = datetime.fromtimestamp(at - 3 * 3600, clocks).utcoffset()
    low, high = at - 3 * 3600, at + 3 * 3600
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, clocks).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high


def _values(field: str, size: int) -> list[int]:
    if field.startswith("*"):
        return list(range(0, size, int(field[2:] or 1) if "/" in field else 1))
    return sorted(int(value) for value in field.split(","))
