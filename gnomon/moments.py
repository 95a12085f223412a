"""Instants as a person reads them: in the zone of this machine, with the zone, and how far away they are."""

from __future__ import annotations

from datetime import datetime, timedelta


def parse(instant: str | None) -> datetime | None:
    """RFC 3339 as an aware datetime."""
    return None if instant is None else datetime.fromisoformat(instant)


def moment(instant: str | None, now: datetime) -> str:
    """In `now`'s zone, with the distance: `20:07:20+01:00 (in 3 s)`; with its date when that is another day."""
    at = parse(instant)
    return "" if at is None else f"{clock_time(instant, now)} ({distance(at - now)})"


def away(instant: str | None, now: datetime) -> str:
    """The distance alone, for narrow tables."""
    at = parse(instant)
    return "" if at is None else distance(at - now)


def clock_time(instant: str | None, now: datetime, *, milliseconds: bool = False) -> str:
    """`20:07:20+01:00` in `now`'s zone, with its date when that is another day."""
    at = parse(instant)
    if at is None:
        return ""
    local = at.astimezone(now.tzinfo)
    day, _, time = local.isoformat(timespec="milliseconds" if milliseconds else "seconds").partition("T")
    return ("" if local.date() == now.date() else f"{day} ") + time.replace("+00:00", "Z")


def distance(away: timedelta) -> str:
    """`in 3 s`, `2 min ago`, `in 5 h`, `3 d ago`."""
    total = away.total_seconds()
    size = abs(total)
    if size < 1:
        return "now"
    amount = next(
        f"{int(size // unit)} {name}"
        for unit, name in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
        if size >= unit and (unit == 1 or size >= 2 * unit)
    )
    return f"in {amount}" if total > 0 else f"{amount} ago"


def milliseconds(later: datetime | None, earlier: datetime | None) -> str:
    if later is None or earlier is None:
        return ""
    return f"{round((later - earlier) / timedelta(milliseconds=1))} ms"
