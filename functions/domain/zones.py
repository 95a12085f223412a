"""IANA time zones: which names are known, and what their clocks do. Instants are epoch seconds, UTC.

A *wall* time is what a clock of the zone shows, in seconds since 1970-01-01T00:00 of that clock.
"""

from __future__ import annotations

import functools
import json
import zoneinfo
from datetime import datetime, timedelta
from importlib import resources
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from functions.domain.errors import InvalidFieldError

if TYPE_CHECKING:
    from collections.abc import Iterator


LAST_INSTANT = 9_999_999_999
"""2286-11-20T17:46:39Z: a slot's id is its epoch in 10 digits."""
DAY = 86_400
_NO_PLACE = frozenset({"Factory", "localtime", "posixrules"})
"""Names in the database that are no place's time."""
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock's own zero


def shown(value: object) -> str:
    """A refused value as messages show it: its JSON, cut at 64 characters."""
    return json.dumps(value, ensure_ascii=False, default=str)[:64]


@functools.lru_cache(maxsize=256)
def zone(name: str, field: str) -> ZoneInfo:
    """The zone of an IANA name, in its exact case; raises InvalidFieldError(field, …) for any other text."""
    # The list is asked first: ZoneInfo opens any file of that name, and in any case where the file system does.
    if name in _names() and name not in _NO_PLACE:
        try:
            return ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise InvalidFieldError(field, f"{shown(name)} is no IANA time zone, as Europe/Berlin is (names in exact case)")


@functools.cache
def _names() -> frozenset[str]:
    try:
        # What zoneinfo.available_timezones() takes 30 ms to collect.
        return frozenset(resources.files("tzdata").joinpath("zones").read_text(encoding="ascii").split())
    except (ModuleNotFoundError, FileNotFoundError):
        return frozenset(zoneinfo.available_timezones())


def offset(zone: ZoneInfo, instant: int) -> int:
    """Seconds that the zone's clocks are ahead of UTC at the instant."""
    ahead = datetime.fromtimestamp(instant, zone).utcoffset()
    return ahead.days * DAY + ahead.seconds if ahead else 0


def wall_datetime(wall: int) -> datetime:
    """The wall time as a naive datetime."""
    return _EPOCH + timedelta(seconds=wall)


def wall_offsets(zone: ZoneInfo, wall: int) -> tuple[int, int]:
    """Offsets (first, second) by which a wall time can be read: equal unless it occurs twice or not at all (PEP 495).

    They shrink where it occurs twice, and grow where it does not exist.
    """
    local = wall_datetime(wall).replace(tzinfo=zone)
    first, second = local.utcoffset(), local.replace(fold=1).utcoffset()
    return (
        first.days * DAY + first.seconds if first else 0,
        second.days * DAY + second.seconds if second else 0,
    )


def first_instant(zone: ZoneInfo, wall: int) -> int:
    """When the zone's clocks first show this wall time or, if they leap over it, the instant right after the leap."""
    before, after = wall_offsets(zone, wall)
    if after > before:
        change = change_within(zone, wall - after, wall - before)
        if change is not None:
            return change
    return wall - before


def first_wall(zone: ZoneInfo, instant: int) -> int:
    """The smallest wall time whose `first_instant` is not before `instant`.

    It is what the clocks show, but for two cases: in a repeated stretch it is that stretch's end, and at the very
    end of a leap it is the leap's beginning.
    """
    after = offset(zone, instant)
    change = change_within(zone, max(instant - DAY, -DAY), instant)
    if change is not None:
        before = offset(zone, change - 1)
        if instant < change + max(before - after, 1):
            return change + before
    return instant + after


def change_within(zone: ZoneInfo, start: int, end: int) -> int | None:
    """The instant in (start, end], at most a day, from which the offset is another one; None if there is none.

    No zone has changed its offset twice within a day since 1970.
    """
    old = offset(zone, start)
    if offset(zone, end) == old:
        return None
    while end - start > 1:
        middle = (start + end) // 2
        if offset(zone, middle) == old:
            start = middle
        else:
            end = middle
    return end


def changes(zone: ZoneInfo, start: int, end: int) -> Iterator[int]:
    """Every instant in (start, end] from which the offset is another one, in order."""
    while start < end:
        stop = min(start + DAY, end)
        change = change_within(zone, start, stop)
        if change is not None:
            yield change
        start = stop
