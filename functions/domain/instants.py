"""Instants as text: RFC 3339 in and out. Instants are epoch seconds, UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from functions.domain.errors import InvalidFieldError
from functions.domain.zones import LAST_INSTANT, first_instant, shown, wall_datetime, wall_offsets, zone

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d)?)(?:\.\d+)?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)?", re.ASCII
)


def rfc3339(instant: float) -> str:
    """The instant as `2027-01-31T14:59:42Z`, or `…:42.123Z` where it has a fraction (rounded to milliseconds)."""
    whole, thousandths = (instant, 0) if isinstance(instant, int) else divmod(round(instant * 1000), 1000)
    text = datetime.fromtimestamp(whole, UTC).isoformat().removesuffix("+00:00")
    return f"{text}.{thousandths:03d}Z" if thousandths else f"{text}Z"


def local_rfc3339(instant: int, timezone_name: str, *, field: str = "timezone") -> str:
    """The instant on the zone's clocks, with their offset: `2027-03-14T03:00:00-04:00`."""
    return datetime.fromtimestamp(instant, zone(timezone_name, field)).isoformat()


def parse_instant(text: str, *, field: str, timezone: str | None = None) -> int:
    """Whole epoch seconds of an RFC 3339 text; fractions are cut. Seconds may be left out.

    A text without an offset is read on the clocks of `timezone`: where they show it twice, the first time counts.
    Raises InvalidFieldError(field, …) for any other text, for one without offset and zone, for a time that those
    clocks leap over, and for instants outside 1970-01-01 to 2286-11-20 (LAST_INSTANT).
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise InvalidFieldError(field, f"{shown(text)} is no RFC 3339 time, as 2027-01-31T14:59:42Z is")
    date, time, ahead = match.groups()
    try:
        wall = datetime.fromisoformat(f"{date}T{time}+00:00")
    except ValueError as error:
        raise InvalidFieldError(field, f"{shown(text)} is no time: {error}") from error
    seconds = int(wall.timestamp())
    if ahead is not None:
        instant = seconds - _seconds_ahead(ahead)
    elif timezone is None:
        raise InvalidFieldError(field, f"{shown(text)} has neither an offset (or Z) nor a time zone beside it")
    else:
        instant = _on_clocks(zone(timezone, "timezone"), seconds, text, field)
    if not 0 <= instant <= LAST_INSTANT:
        raise InvalidFieldError(field, f"{shown(text)} is outside 1970-01-01T00:00:00Z to {rfc3339(LAST_INSTANT)}")
    return instant


def _seconds_ahead(text: str) -> int:
    if text in "Zz":
        return 0
    seconds = int(text[1:3]) * 3600 + int(text[4:]) * 60
    return -seconds if text[0] == "-" else seconds


def _on_clocks(clocks: ZoneInfo, wall: int, text: str, field: str) -> int:
    before, after = wall_offsets(clocks, wall)
    if after > before:
        earlier = wall_datetime(wall - (after - before)).replace(tzinfo=_fixed(before)).isoformat()
        later = wall_datetime(wall + (after - before)).replace(tzinfo=_fixed(after)).isoformat()
        raise InvalidFieldError(
            field, f"{shown(text)} does not exist in {clocks.key}, whose clocks leap over it: use {earlier} or {later}"
        )
    return first_instant(clocks, wall)


def _fixed(seconds: int) -> timezone:
    return timezone(timedelta(seconds=seconds))
