"""When a job is due. Instants are whole epoch seconds, UTC; a slot is an instant at which a job is due."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from functions.domain.cron import CronExpression
from functions.domain.errors import InvalidFieldError
from functions.domain.instants import parse_instant, rfc3339
from functions.domain.zones import DAY, shown, zone

MAX_INTERVAL = 365 * DAY
ONCE_GRACE = 60
"""Seconds that a one-time instant may be past: it runs now."""
MAX_AHEAD = 3653 * DAY
"""Ten years: how far ahead a one-time instant may be."""
MAX_ONCE_SPREAD = DAY
_DISTANCES_LOOKED_AT = 100
"""Slots of a cron expression whose distances bound `spreadSeconds`."""


class ScheduleType(enum.StrEnum):
    CRON = "cron"
    INTERVAL = "interval"
    ONCE = "once"
    UPSTREAM = "upstream"
    """None of its own: the job runs when those that it depends on have. Nobody gives it: it is left out."""


_OWN_FIELDS = {
    ScheduleType.CRON: "expression",
    ScheduleType.INTERVAL: "everySeconds",
    ScheduleType.ONCE: "at",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    type: ScheduleType
    cron: CronExpression | None = None
    every: int | None = None
    """Seconds between the slots of an interval."""
    anchor: int = 0
    """An interval's slots are anchor + k * every: k = 0, 1, … from `startAt`, else k = 1, 2, … from the creation."""
    at: int | None = None
    """The one slot of a one-time job."""
    start_at: int | None = None
    end_at: int | None = None
    """No slot is before `start_at` or after `end_at`; both may be slots."""
    spread_seconds: int = 0
    job_id: str

    @classmethod
    def read(cls, document: Mapping[str, Any], *, job_id: str, created_at: int) -> Schedule:
        """Read `schedule`, `startAt`, `endAt` and `spreadSeconds` of a job's contract document.

        Raises InvalidFieldError naming field, value and limit. What depends on the time of day is `check`'s.
        """
        schedule = document.get("schedule")
        if schedule is None and document.get("dependsOn"):
            return cls(type=ScheduleType.UPSTREAM, job_id=job_id)
        if not isinstance(schedule, Mapping):
            raise InvalidFieldError("schedule", f"{shown(schedule)} is no object with type cron, interval or once")
        kind = _type(schedule.get("type"))
        _refuse_foreign_fields(schedule, kind)
        timezone = _timezone(schedule.get("timezone"))
        start_at = _optional_instant(document, "startAt", timezone)
        own = schedule.get(_OWN_FIELDS[kind])
        return cls(
            type=kind,
            cron=_cron(own, timezone, job_id) if kind is ScheduleType.CRON else None,
            every=_whole(own, "schedule.everySeconds", 1, MAX_INTERVAL) if kind is ScheduleType.INTERVAL else None,
            anchor=created_at if start_at is None else start_at,
            at=_instant(own, "schedule.at", timezone) if kind is ScheduleType.ONCE else None,
            start_at=start_at,
            end_at=_optional_instant(document, "endAt", timezone),
            spread_seconds=_whole(document.get("spreadSeconds") or 0, "spreadSeconds", 0, MAX_INTERVAL),
            job_id=job_id,
        )

    def check(self, *, now: float) -> None:
        """Raise InvalidFieldError for what is refused only when a job is made or its schedule changed."""
        if self.type is ScheduleType.UPSTREAM:
            return
        if self.cron is not None:
            self.cron.must_be_clear("schedule.expression")
        if self.at is not None:
            _check_once(self.at, now)
        if self.end_at is not None:
            if self.start_at is not None and self.end_at < self.start_at:
                raise InvalidFieldError(
                    "endAt", f"{rfc3339(self.end_at)} is before startAt, which is {rfc3339(self.start_at)}"
                )
            if self.end_at < now - ONCE_GRACE or (self.recurring and self.end_at <= now):
                raise InvalidFieldError("endAt", f"{rfc3339(self.end_at)} is past: it is {rfc3339(int(now))}")
        if self.first(now=now) is None:
            if self.start_at is None and self.end_at is None:
                raise InvalidFieldError("schedule", "the schedule has no slot from now on")
            field = "startAt" if self.end_at is None else "endAt"
            raise InvalidFieldError(field, f"the schedule has no slot from now on {self._limits()}")
        limit = self._spread_limit(now)
        if self.spread_seconds > limit:
            raise InvalidFieldError(
                "spreadSeconds",
                f"{self.spread_seconds} is more than {limit}, "
                + ("the seconds between two slots" if self.recurring else "the most a one-time job may have"),
            )

    def first(self, *, now: float) -> int | None:
        """The first slot of a job that is made or changed at `now`; None when there is none.

        A one-time job's is its instant, past or not. A recurring job's is strictly after now.
        """
        if self.at is not None:
            return self.at if self._allows(self.at) else None
        return self.next_after(int(now // 1))

    def next_after(self, instant: int) -> int | None:
        """The first slot strictly after `instant`; None when there is none."""
        if self.start_at is not None:
            instant = max(instant, self.start_at - 1)
        slot = self._next_after(instant)
        return slot if slot is not None and self._allows(slot) else None

    def last_at_or_before(self, instant: int) -> int | None:
        """The latest slot not after `instant`; None when there is none."""
        if self.end_at is not None:
            instant = min(instant, self.end_at)
        slot = self._last_at_or_before(instant)
        return slot if slot is not None and self._allows(slot) else None

    def count(self, first: int, last: int) -> int:
        """How many slots are in [first, last]; fast, however many they are."""
        if self.start_at is not None:
            first = max(first, self.start_at)
        if self.end_at is not None:
            last = min(last, self.end_at)
        if first > last:
            return 0
        if self.cron is not None:
            return self.cron.count(first, last)
        if self.every is not None:
            earliest = self._first_of_interval(self.every)
            if last < earliest:
                return 0
            return (last - self.anchor) // self.every - (max(first, earliest) - 1 - self.anchor) // self.every
        return int(self.at is not None and first <= self.at <= last)

    @property
    def recurring(self) -> bool:
        return self.type is not ScheduleType.ONCE

    @property
    def spread_offset(self) -> int:
        """Seconds, in [0, spreadSeconds), that this job's runs start after their slots: the same for all of them."""
        if self.spread_seconds == 0:
            return 0
        digest = hashlib.sha256(f"spread:{self.job_id}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % self.spread_seconds

    def _next_after(self, instant: int) -> int | None:
        if self.cron is not None:
            return self.cron.next_after(instant)
        if self.every is not None:
            following = self.anchor + ((instant - self.anchor) // self.every + 1) * self.every
            return max(following, self._first_of_interval(self.every))
        return self.at if self.at is not None and self.at > instant else None

    def _last_at_or_before(self, instant: int) -> int | None:
        if self.cron is not None:
            return self.cron.last_at_or_before(instant)
        if self.every is not None:
            latest = self.anchor + (instant - self.anchor) // self.every * self.every
            return latest if latest >= self._first_of_interval(self.every) else None
        return self.at if self.at is not None and self.at <= instant else None

    def _first_of_interval(self, every: int) -> int:
        return self.anchor if self.start_at is not None else self.anchor + every

    def _allows(self, slot: int) -> bool:
        return (self.start_at is None or slot >= self.start_at) and (self.end_at is None or slot <= self.end_at)

    def _limits(self) -> str:
        start = "" if self.start_at is None else f"from startAt {rfc3339(self.start_at)}"
        end = "" if self.end_at is None else f"until endAt {rfc3339(self.end_at)}"
        return f"{start} {end}".strip()

    def _spread_limit(self, now: float) -> int:
        """The smallest distance between two slots: a run never starts after the slot that follows its own."""
        if self.every is not None:
            return self.every
        if self.cron is None:
            return MAX_ONCE_SPREAD
        if self.spread_seconds <= 60:
            return 60  # No two slots of a cron expression are closer; saves looking at them.
        smallest, slot = MAX_INTERVAL, self.first(now=now)
        for _ in range(_DISTANCES_LOOKED_AT):
            following = None if slot is None else self.next_after(slot)
            if slot is None or following is None:
                break
            smallest, slot = min(smallest, following - slot), following
        return smallest


def _type(value: object) -> ScheduleType:
    if isinstance(value, str) and value in _OWN_FIELDS:
        return ScheduleType(value)
    raise InvalidFieldError("schedule.type", f"{shown(value)} is not one of cron, interval, once")


def _refuse_foreign_fields(schedule: Mapping[str, Any], kind: ScheduleType) -> None:
    for other, name in _OWN_FIELDS.items():
        if other is not kind and schedule.get(name) is not None:
            raise InvalidFieldError(
                f"schedule.{name}",
                f"{shown(schedule[name])} is set, but a schedule of type {kind} takes {_OWN_FIELDS[kind]}: "
                "leave it out, or set it to null in a merge patch",
            )
    if schedule.get(_OWN_FIELDS[kind]) is None:
        raise InvalidFieldError(
            f"schedule.{_OWN_FIELDS[kind]}", f"null: a schedule of type {kind} needs {_OWN_FIELDS[kind]}"
        )


def _timezone(value: object) -> str | None:
    if value is None:
        return None
    name = _text(value, "schedule.timezone", "an IANA time zone, as Europe/Berlin")
    zone(name, "schedule.timezone")
    return name


def _cron(value: object, timezone: str | None, job_id: str) -> CronExpression:
    return CronExpression.of(_text(value, "schedule.expression", "five cron fields"), timezone or "UTC", job_id=job_id)


def _text(value: object, field: str, what: str) -> str:
    if isinstance(value, str):
        return value
    raise InvalidFieldError(field, f"{shown(value)} is no text: it takes {what}")


def _instant(value: object, field: str, timezone: str | None) -> int:
    return parse_instant(_text(value, field, "an RFC 3339 time"), field=field, timezone=timezone)


def _optional_instant(document: Mapping[str, Any], field: str, timezone: str | None) -> int | None:
    value = document.get(field)
    return None if value is None else _instant(value, field, timezone)


def _whole(value: object, field: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidFieldError(field, f"{shown(value)} is no whole number from {low} to {high}")
    return value


def _check_once(at: int, now: float) -> None:
    if at < now - ONCE_GRACE:
        raise InvalidFieldError(
            "schedule.at",
            f"{rfc3339(at)} is past by more than {ONCE_GRACE} seconds: it is {rfc3339(int(now))}",
        )
    if at > now + MAX_AHEAD:
        raise InvalidFieldError(
            "schedule.at", f"{rfc3339(at)} is more than 10 years ahead: at most {rfc3339(int(now) + MAX_AHEAD)}"
        )
