"""Random expressions, zones and instants: compared with a plain scan of all minutes, and with cronsim.

The scan is written from the rule alone and knows nothing of the code under test: it gets the sets of values that a
field's text was made from. cronsim (2.8) is an independent implementation of the same rule.
"""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from functions.domain.cron import CronExpression
from functions.domain.errors import InvalidFieldError

pytestmark = pytest.mark.slow

ZONES = (
    "UTC",
    "Africa/Casablanca",
    "Africa/Cairo",
    "America/Havana",
    "America/New_York",
    "America/Santiago",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/Dublin",
    "Pacific/Auckland",
    "Pacific/Chatham",
)
GAP_AT_MIDNIGHT = {"Africa/Cairo", "America/Havana", "America/Santiago", "Asia/Beirut", "Atlantic/Azores"}
"""cronsim 2.8 leaves out the first hour after it for expressions that keep elapsed time (tests/cases/cron.json)."""
HALF_AN_HOUR = {"Australia/Lord_Howe"}
"""Clocks that change by half an hour: there cronsim 2.8, going hour by hour, leaves out the first half of the next."""
DAYS = 3
MINUTE = 60


@dataclass(frozen=True)
class Field:
    text: str
    values: frozenset[int]

    @property
    def starred(self) -> bool:
        return self.text.startswith("*")


@dataclass(frozen=True)
class Expression:
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def text(self) -> str:
        return " ".join(part.text for part in (self.minute, self.hour, self.day, self.month, self.weekday))

    def names(self, minute: Minute) -> bool:
        return minute.minute in self.minute.values and minute.hour in self.hour.values and self.names_day(minute)

    def names_day(self, minute: Minute) -> bool:
        if minute.month not in self.month.values:
            return False
        day = minute.day in self.day.values or (minute.last and "L" in self.day.text)
        weekday = minute.weekday in self.weekday.values or any(
            self.special(item, minute) for item in self.weekday.text.split(",")
        )
        if self.day.starred or self.weekday.starred:
            return day and weekday
        return day or weekday

    @staticmethod
    def special(item: str, minute: Minute) -> bool:
        if "#" in item:
            weekday, place = item.split("#")
            return minute.weekday == int(weekday) % 7 and (minute.day - 1) // 7 + 1 == int(place)
        if item.endswith("L"):
            return minute.weekday == int(item[:-1]) % 7 and minute.last_week
        return False


@dataclass(frozen=True)
class Minute:
    """What the clocks of a zone show at an instant."""

    month: int
    day: int
    hour: int
    minute: int
    weekday: int
    last: bool
    last_week: bool

    @classmethod
    def of(cls, shown: datetime) -> Minute:
        length = monthrange(shown.year, shown.month)[1]
        return cls(
            shown.month,
            shown.day,
            shown.hour,
            shown.minute,
            shown.isoweekday() % 7,
            shown.day == length,
            shown.day + 7 > length,
        )


@dataclass(frozen=True)
class Window:
    """Every minute of some days in a zone, with what its clocks show, and what they leapt over just before."""

    start: int
    minutes: tuple[tuple[int, Minute, bool, tuple[Minute, ...]], ...]

    @classmethod
    def of(cls, zone: str, start: int) -> Window:
        clocks = ZoneInfo(zone)
        minutes = []
        previous = datetime.fromtimestamp(start - MINUTE, clocks).replace(tzinfo=None)
        for instant in range(start, start + DAYS * 86_400, MINUTE):
            shown = datetime.fromtimestamp(instant, clocks)
            wall = shown.replace(tzinfo=None, fold=0)
            leapt = tuple(
                Minute.of(datetime.fromtimestamp(skipped, UTC))
                for skipped in range(seconds(previous) + MINUTE, seconds(wall), MINUTE)
            )
            minutes.append((instant, Minute.of(wall), shown.fold == 1, leapt))
            previous = wall
        return cls(start, tuple(minutes))

    def slots(self, expression: Expression) -> list[int]:
        """The rule, minute by minute."""
        if expression.minute.starred or expression.hour.starred:
            return [instant for instant, shown, _, _ in self.minutes if expression.names(shown)]
        return [
            instant
            for instant, shown, again, leapt in self.minutes
            if (expression.names(shown) and not again) or any(expression.names(skipped) for skipped in leapt)
        ]


def seconds(wall: datetime) -> int:
    return int(wall.replace(tzinfo=UTC).timestamp())


def random_field(draw: random.Random, low: int, high: int, *, star: float, focus: tuple[int, ...] = ()) -> Field:
    """A field as text and as the values it means."""
    everything = frozenset(range(low, high + 1))
    kind = draw.random()
    if kind < star:
        step = draw.choice([1, 1, 1, 2, 3, 5, 7, 15, high])
        return Field("*" if step == 1 else f"*/{step}", frozenset(range(low, high + 1, step)))
    one = draw.choice(focus) if focus and draw.random() < 0.6 else draw.randint(low, high)
    if kind < star + (1 - star) * 0.4:
        return Field(str(one), frozenset({one}))
    if kind < star + (1 - star) * 0.7:
        values = {one, *(draw.randint(low, high) for _ in range(draw.randint(1, 3)))}
        shuffled = draw.sample(sorted(values), len(values))
        return Field(",".join(map(str, shuffled)), frozenset(values))
    top = draw.randint(one, high)
    # cronsim 2.8 reads `3-3/1` as `3/1` (tests/cases/cron.json).
    step = draw.choice([1, 1, 2, 3, 4]) if top > one else 1
    text = f"{one}-{top}" if step == 1 else f"{one}-{top}/{step}"
    return Field(text, frozenset(range(one, top + 1, step)) & everything)


def random_weekday(draw: random.Random) -> Field:
    kind = draw.random()
    if kind < 0.1:
        return Field(f"{draw.randint(0, 7)}#{draw.randint(1, 5)}", frozenset())
    if kind < 0.2:
        return Field(f"{draw.randint(0, 7)}L", frozenset())
    if kind < 0.7:
        return Field("*", frozenset(range(7)))
    found = random_field(draw, 0, 7, star=0.1)
    return Field(found.text, frozenset(value % 7 for value in found.values))


def random_expression(draw: random.Random, *, sparse: bool) -> Expression:
    day = Field("L", frozenset()) if draw.random() < 0.08 else random_field(draw, 1, 31, star=0.7)
    return Expression(
        minute=random_field(draw, 0, 59, star=0.35, focus=(0, 1, 15, 30, 45, 59)),
        hour=random_field(draw, 0, 23, star=0.35, focus=(0, 1, 2, 3, 23)),
        day=day,
        month=random_field(draw, 1, 12, star=0.5) if sparse else Field("*", frozenset(range(1, 13))),
        weekday=random_weekday(draw),
    )


def clock_changes(zone: str) -> list[int]:
    """Midnights, UTC, of the days of 2027 and 2028 in which the zone's offset changes."""
    clocks = ZoneInfo(zone)
    days = range(seconds(datetime(2027, 1, 1)), seconds(datetime(2029, 1, 1)), 86_400)  # noqa: DTZ001 - a wall time
    offsets = [datetime.fromtimestamp(day, clocks).utcoffset() for day in days]
    return [day for day, (before, after) in zip(days, itertools.pairwise(offsets), strict=False) if before != after]


ALL_DATES = [Minute.of(datetime(2000, 1, 1, tzinfo=UTC) + timedelta(days=day)) for day in range(28 * 366)]
"""Every date on every weekday."""


def occurring_expression(draw: random.Random, *, sparse: bool) -> Expression:
    while True:
        expression = random_expression(draw, sparse=sparse)
        if any(map(expression.names_day, ALL_DATES)):
            return expression
        with pytest.raises(InvalidFieldError, match="never occur"):
            CronExpression.of(expression.text)


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_equals_the_scan_of_all_minutes(zone):
    draw = random.Random(f"scan {zone}")
    starts = [change - 86_400 for change in clock_changes(zone)] + [seconds(datetime(2028, 2, 27))]  # noqa: DTZ001
    compared = 0
    for start in starts:
        window = Window.of(zone, start)
        end = start + DAYS * 86_400 - 1
        for _ in range(120 // len(starts)):
            expression = occurring_expression(draw, sparse=False)
            expected = window.slots(expression)
            cron = CronExpression.of(expression.text, zone)
            found, at = [], start - 1
            while (at := cron.next_after(at)) is not None and at <= end:
                found.append(at)
            assert found == expected, expression.text
            for _ in range(8):
                first, last = sorted(draw.randint(start, end) for _ in range(2))
                assert cron.count(first, last) == sum(first <= slot <= last for slot in expected), expression.text
                place = bisect_right(expected, last)
                if place:
                    assert cron.last_at_or_before(last) == expected[place - 1], expression.text
            compared += bool(expected)
    assert compared > 25, "expressions with slots in the window"


@pytest.mark.parametrize("zone", ZONES)
def test_equals_cronsim(zone):
    draw = random.Random(f"cronsim {zone}")
    clocks = ZoneInfo(zone)
    changes = clock_changes(zone) or [seconds(datetime(2027, 6, 1))]  # noqa: DTZ001 - a wall time
    compared = 0
    while compared < 200:
        expression = occurring_expression(draw, sparse=True)
        elapsed = expression.minute.starred or expression.hour.starred
        if elapsed and zone in GAP_AT_MIDNIGHT | HALF_AN_HOUR:
            continue
        after = draw.choice(changes) + draw.randint(-2 * 86_400, 2 * 86_400) // MINUTE * MINUTE
        theirs = CronSim(expression.text, datetime.fromtimestamp(after, clocks))
        cron, at = CronExpression.of(expression.text, zone), after
        for _ in range(4):
            expected = int(next(theirs).timestamp())
            if expected <= at:
                # cronsim starts again from the wall time: within a repeated hour it repeats what was.
                continue
            at = cron.next_after(at)
            assert at == expected, (expression.text, after)
        compared += 1
