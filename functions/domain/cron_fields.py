"""From a cron expression's text to the days and times it names.

croniter expands lists, ranges, steps and names. What it reads otherwise than this scheduler promises is refused or
rewritten before it: ranges of one value (`3-3`, to croniter the whole field), `5L` (its `L5`), 7 beside `#` and `L`,
and `H`, which it draws from neighbouring bits of one CRC, so that hours and minutes of all jobs would go together.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import NamedTuple

from functions.domain.errors import InvalidFieldError
from functions.domain.zones import shown

MAX_LENGTH = 256
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = {
    "JAN": 1,
    "FEB": 2,
    "MAR": 3,
    "APR": 4,
    "MAY": 5,
    "JUN": 6,
    "JUL": 7,
    "AUG": 8,
    "SEP": 9,
    "OCT": 10,
    "NOV": 11,
    "DEC": 12,
}
_DAYS = {"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    hash_high: int
    """`H` draws from low to this: a day that every month has."""
    names: dict[str, int]


_FIELDS = (
    _Field("minute", 0, 59, 59, {}),
    _Field("hour", 0, 23, 23, {}),
    _Field("day-of-month", 1, 31, 28, {}),
    _Field("month", 1, 12, 12, _MONTHS),
    _Field("day-of-week", 0, 7, 6, _DAYS),
)
_WEEKDAY_FIELD = _FIELDS[4]
_SHOWN_VALUES = 5
"""Values of a refused reading that its message names."""
_ITEM = re.compile(r"(?:\*|(?P<low>\d{1,4}|[A-Z]{3})(?:-(?P<high>\d{1,4}|[A-Z]{3}))?)(?:/(?P<step>\d{1,4}))?", re.ASCII)
_HASHED = re.compile(r"H(?:\((?P<low>\d{1,4})-(?P<high>\d{1,4})\))?(?:/(?P<step>\d{1,4}))?", re.ASCII)
_NTH = re.compile(r"(?P<day>\d|[A-Z]{3})#(?P<nth>\d{1,4})", re.ASCII)
_STEP_ON_A_DAY = re.compile(r"(?:L|\w{1,4}L|\w{1,4}#\d{1,4})/\d{0,4}", re.ASCII)
_LAST = re.compile(r"(?P<day>\d|[A-Z]{3})L", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronFields:
    """What an expression names, expanded. Days of the week are 0 (Sunday) to 6."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    last_day: bool
    """The last day of the month is named (`L`)."""
    months: frozenset[int]
    weekdays: frozenset[int]
    nth_weekdays: frozenset[tuple[int, int]]
    """(weekday, n-th of the month)."""
    last_weekdays: frozenset[int]
    both: bool
    """Day-of-month and day-of-week must both match: one of them begins with `*` (Debian crontab(5))."""
    elapsed: bool
    """Minute or hour begins with `*`: runs keep real elapsed time when the clocks change (Debian cron(8))."""
    unclear: str | None = None
    """Why a new job may not use it although stored jobs may: it has a step on a single value (`5/15`)."""


def parse(expression: str, *, job_id: str | None, field: str) -> CronFields:
    """Expand an expression of five fields or an alias; `H` is hashed by the job's id.

    Raises InvalidFieldError(field, …) naming the value and the limit. Dates that never occur are not found here.
    """
    # Lazy: it costs some 20 ms, and jobs without cron do not need it.
    from croniter import CroniterError, croniter  # noqa: PLC0415 - as above

    parts = _split(expression, field)
    rewritten = [_rewrite(part, kind, job_id, field) for part, kind in zip(parts, _FIELDS, strict=True)]
    try:
        expanded, nth = croniter.expand(" ".join(rewritten))
    except CroniterError as error:
        raise InvalidFieldError(field, f"{shown(expression)} is no cron expression of five fields") from error
    values = [_values(found, kind) for found, kind in zip(expanded, _FIELDS, strict=True)]
    return CronFields(
        minutes=tuple(sorted(values[0])),
        hours=tuple(sorted(values[1])),
        days=values[2],
        last_day="l" in expanded[2],
        months=values[3],
        weekdays=values[4].difference(nth),
        nth_weekdays=frozenset((day, n) for day, places in nth.items() for n in places if n != "l"),
        last_weekdays=frozenset(day for day, places in nth.items() if "l" in places),
        both=parts[2].startswith("*") or parts[4].startswith("*"),
        elapsed=parts[0].startswith("*") or parts[1].startswith("*"),
        unclear=_step_on_one_value(parts),
    )


def is_hashed(expression: str) -> bool:
    """Whether the expression may say `H`, so that it means another thing for each job (`THU` counts too)."""
    return "H" in expression.upper()


def _split(expression: str, field: str) -> list[str]:
    if len(expression) > MAX_LENGTH:
        raise InvalidFieldError(
            field, f"{shown(expression)} has {len(expression)} characters; at most {MAX_LENGTH} are allowed"
        )
    text = expression.strip(" \t")
    if text.startswith("@"):
        if text.lower() not in ALIASES:
            raise InvalidFieldError(field, f"{shown(expression)} is not one of {', '.join(ALIASES)}")
        text = ALIASES[text.lower()]
    parts = re.split(r"[ \t]+", text.upper()) if text else []
    if len(parts) != len(_FIELDS):
        raise InvalidFieldError(
            field,
            f"{shown(expression)} has {len(parts)} fields; exactly 5 are allowed: "
            f"{' '.join(kind.name for kind in _FIELDS)}",
        )
    return parts


def _step_on_one_value(parts: list[str]) -> str | None:
    """What is wrong with the first item such as `5/15` or `MON/2`, and what to write instead; None without one.

    Some schedulers read it as every step from that value on (as this one does), others as that value alone.
    """
    for part, kind in zip(parts, _FIELDS, strict=True):
        for item in part.split(","):
            match = _ITEM.fullmatch(item)
            if match is None or match["low"] is None or match["high"] is not None or match["step"] is None:
                continue
            low, step = match["low"], match["step"]
            values = range(_number(low, kind), _last_of(kind) + 1, int(step))
            if len(values) < 2:
                return f'{kind.name} {shown(item)}: a step on a single value has no effect. Write "{low}".'
            named = low in kind.names
            names = [_name(value, kind) if named else str(value) for value in (*values, _last_of(kind))]
            found = ", ".join(names[: min(len(values), _SHOWN_VALUES)]) + (", …" if len(values) > _SHOWN_VALUES else "")
            written = f"{low}-{names[-1]}/{step}"
            return (
                f"{kind.name} {shown(item)}: a step on a single value is read as {written} ({found}) by some "
                f'schedulers and as {low} alone by others. Write "{written}" or "{low}".'
            )
    return None


def _number(text: str, kind: _Field) -> int:
    return kind.names[text] if text in kind.names else int(text)


def _name(value: int, kind: _Field) -> str:
    return next(name for name, named in kind.names.items() if named == value)


def _last_of(kind: _Field) -> int:
    """Where `n/step` ends: the week's last day is Saturday."""
    return 6 if kind is _WEEKDAY_FIELD else kind.high


def _rewrite(text: str, kind: _Field, job_id: str | None, field: str) -> str:
    """The field as croniter reads it rightly; raises for what is not allowed."""
    items = [_Item(item, kind, field) for item in text.split(",")]
    rewritten = [item.rewrite(job_id) for item in items]
    special = {item for item in rewritten if kind is _WEEKDAY_FIELD and ("#" in item or "L" in item)}
    if special and len(special) < len(set(rewritten)):
        raise InvalidFieldError(
            field, f"{kind.name} {shown(text)}: days with # or L and days without cannot be in one list"
        )
    return ",".join(rewritten)


class _Item:
    """One item of a field's list."""

    def __init__(self, text: str, kind: _Field, field: str) -> None:
        self._text = text
        self._kind = kind
        self._field = field

    def rewrite(self, job_id: str | None) -> str:
        return self._special() or self._hashed(job_id) or self._plain()

    def _special(self) -> str | None:
        """`L`, `5L`, `FRI#2`."""
        if self._kind.name == "day-of-month" and self._text == "L":
            return "L"
        if self._kind is not _WEEKDAY_FIELD:
            return None
        if match := _NTH.fullmatch(self._text):
            if not 1 <= int(match["nth"]) <= 5:
                raise self._error(f"#{match['nth']} is outside #1 to #5")
            return f"{self._value(match['day']) % 7}#{match['nth']}"
        if match := _LAST.fullmatch(self._text):
            return f"L{self._value(match['day']) % 7}"
        return None

    def _plain(self) -> str:
        match = _ITEM.fullmatch(self._text)
        if match is None:
            if _STEP_ON_A_DAY.fullmatch(self._text):
                raise self._error("a step needs a range, and L and # name single days")
            raise self._error(self._limit())
        step = self._step(match["step"])
        if match["low"] is None:
            return self._text
        low = self._value(match["low"])
        if match["high"] is None:
            return f"{low}" if match["step"] is None else self._range(low, _last_of(self._kind), step)
        high = self._value(match["high"])
        if high < low:
            raise self._error("a range must not run backwards")
        return self._range(low, high, step)

    def _hashed(self, job_id: str | None) -> str | None:
        match = _HASHED.fullmatch(self._text)
        if match is None:
            return None
        low, high = self._kind.low, self._kind.hash_high
        if match["low"] is not None:
            low, high = self._value(match["low"]), self._value(match["high"])
            if high <= low:
                raise self._error("H needs a range that runs upwards")
        step = self._step(match["step"])
        if job_id is None:
            raise self._error("H is hashed by the job's id: a jobId is needed to know its time")
        digest = hashlib.sha256(f"{self._kind.name}:{job_id}".encode()).digest()
        drawn = int.from_bytes(digest[:8], "big")
        if match["step"] is None:
            return f"{low + drawn % (high - low + 1)}"
        return self._range(low + drawn % min(step, high - low + 1), high, step)

    def _range(self, low: int, high: int, step: int) -> str:
        return f"{low}" if low + step > high else f"{low}-{high}/{step}"

    def _value(self, text: str) -> int:
        value = self._kind.names.get(text, -1) if text.isalpha() else int(text)
        if not self._kind.low <= value <= self._kind.high:
            raise self._error(self._limit())
        return value

    def _step(self, text: str | None) -> int:
        step = 1 if text is None else int(text)
        if step < 1:
            raise self._error("a step is at least 1")
        return step

    def _limit(self) -> str:
        kind = self._kind
        names = f", {next(iter(kind.names))} to {list(kind.names)[-1]}" if kind.names else ""
        return f"allowed are {kind.low} to {kind.high}{names}, *, lists, ranges and /steps"

    def _error(self, why: str) -> InvalidFieldError:
        return InvalidFieldError(self._field, f"{self._kind.name} {shown(self._text)}: {why}")


def _values(found: list[int | str], kind: _Field) -> frozenset[int]:
    if "*" in found:
        return frozenset(range(kind.low, 7 if kind is _WEEKDAY_FIELD else kind.high + 1))
    return frozenset(value for value in found if isinstance(value, int))
