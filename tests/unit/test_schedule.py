"""Schedules of jobs: what is read, what is refused, and which slots they have."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.errors import InvalidFieldError
from functions.domain.instants import local_rfc3339, parse_instant, rfc3339
from functions.domain.schedule import MAX_AHEAD, Schedule, ScheduleType

JOB = "6f1d2c3b-0a4e-4f5d-8c7b-9a8b7c6d5e4f"


def instant(text: str) -> int:
    return parse_instant(text, field="x")


NOW = instant("2027-02-01T12:00:00Z")
CREATED = NOW - 86_400


def read(schedule: dict[str, object], *, job_id: str = JOB, created_at: int = CREATED, **policies: object) -> Schedule:
    return Schedule.read({"schedule": schedule, **policies}, job_id=job_id, created_at=created_at)


def cron(expression: str, timezone: str | None = None, **policies: object) -> Schedule:
    schedule = {"type": "cron", "expression": expression}
    return read(schedule if timezone is None else {**schedule, "timezone": timezone}, **policies)


def interval(every: int, *, created_at: int = CREATED, **policies: object) -> Schedule:
    return read({"type": "interval", "everySeconds": every}, created_at=created_at, **policies)


def once(at: str, **schedule: object) -> Schedule:
    return read({"type": "once", "at": at, **schedule})


def listed(schedule: Schedule, after: str, count: int) -> list[str]:
    slots, at = [], instant(after)
    while len(slots) < count and (following := schedule.next_after(at)) is not None:
        at = following
        slots.append(rfc3339(at))
    return slots


def refused_reading(schedule: object, **policies: object) -> InvalidFieldError:
    with pytest.raises(InvalidFieldError) as caught:
        read(schedule, **policies)
    return caught.value


def refused_making(schedule: Schedule, now: float = NOW) -> InvalidFieldError:
    with pytest.raises(InvalidFieldError) as caught:
        schedule.check(now=now)
    return caught.value


class TestOnce:
    def test_fractions_are_cut_and_the_offset_counts(self):
        schedule = once("2027-01-31T15:59:42.123+01:00")
        assert rfc3339(schedule.first(now=CREATED)) == "2027-01-31T14:59:42Z"

    @pytest.mark.case(2)
    def test_up_to_a_minute_past_runs_now_older_is_refused(self):
        for past in (5, 60):
            schedule = once(rfc3339(NOW - past))
            schedule.check(now=NOW)
            assert schedule.first(now=NOW) == NOW - past
        for past in (61, 3600):
            error = refused_making(once(rfc3339(NOW - past)))
            assert error.field == "schedule.at"
            assert rfc3339(NOW - past) in error.message
            assert "60 seconds" in error.message

    @pytest.mark.case(2)
    def test_inside_a_gap_is_refused_with_its_neighbours(self):
        error = refused_reading({"type": "once", "at": "2027-03-14T02:30:00", "timezone": "America/New_York"})
        assert error.field == "schedule.at"
        assert "2027-03-14T01:30:00-05:00" in error.message
        assert "2027-03-14T03:30:00-04:00" in error.message

    def test_a_time_that_occurs_twice_is_the_first(self):
        schedule = once("2027-11-07T01:30:00", timezone="America/New_York")
        assert rfc3339(schedule.at) == "2027-11-07T05:30:00Z"

    def test_naive_with_a_zone_and_offset_beside_a_zone(self):
        assert rfc3339(once("2027-07-01T12:00:00", timezone="Asia/Kolkata").at) == "2027-07-01T06:30:00Z"
        assert rfc3339(once("2027-07-01T12:00:00Z", timezone="Asia/Kolkata").at) == "2027-07-01T12:00:00Z"

    def test_ten_years_ahead_at_most(self):
        once(rfc3339(NOW + MAX_AHEAD)).check(now=NOW)
        error = refused_making(once(rfc3339(NOW + MAX_AHEAD + 1)))
        assert error.field == "schedule.at"
        assert "10 years" in error.message

    def test_has_one_slot(self):
        schedule = once("2027-02-01T13:00:00Z")
        at = NOW + 3600
        assert schedule.type is ScheduleType.ONCE
        assert not schedule.recurring
        assert schedule.next_after(at - 1) == at
        assert schedule.next_after(at) is None
        assert schedule.last_at_or_before(at) == at
        assert schedule.last_at_or_before(at - 1) is None
        assert schedule.count(at, at) == 1
        assert schedule.count(at + 1, at + 9) == 0


class TestInterval:
    @pytest.mark.case(3)
    def test_a_day_is_24_elapsed_hours(self):
        schedule = read(
            {"type": "interval", "everySeconds": 86_400, "timezone": "America/New_York"}, startAt="2027-03-13T09:00"
        )
        assert listed(schedule, "2027-03-13T09:00:00Z", 2) == ["2027-03-13T14:00:00Z", "2027-03-14T14:00:00Z"]

    def test_slots_keep_to_the_anchor_whenever_runs_begin_or_end(self):
        schedule = interval(900, created_at=instant("2027-02-01T12:00:00Z"))
        slot, day = schedule.first(now=instant("2027-02-01T12:00:01Z")), []
        for _ in range(96):
            day.append(slot)
            started = slot + 1
            assert schedule.next_after(started + 92) == slot + 900
            slot = schedule.next_after(slot)
        assert rfc3339(day[0]) == "2027-02-01T12:15:00Z"
        assert rfc3339(day[-1]) == "2027-02-02T12:00:00Z"
        assert schedule.next_after(day[0] + 1000) == day[0] + 1800, "the slot at 900 s came due in the run"
        assert schedule.count(day[0], day[-1]) == 96

    def test_a_changed_interval_keeps_its_anchor(self):
        created = NOW - 5 * 3600 - 7
        before, after = interval(43_200, created_at=created), interval(60, created_at=created)
        assert before.next_after(NOW) == created + 43_200
        assert NOW < after.first(now=NOW) <= NOW + 60
        assert (after.first(now=NOW) - created) % 60 == 0

    def test_counted_from_the_creation_the_first_is_one_interval_later(self):
        schedule = interval(600)
        assert schedule.next_after(CREATED - 10_000) == CREATED + 600
        assert schedule.next_after(CREATED) == CREATED + 600
        assert schedule.last_at_or_before(CREATED + 599) is None
        assert schedule.last_at_or_before(CREATED + 600) == CREATED + 600
        assert schedule.count(CREATED - 5, CREATED + 1800) == 3

    def test_counted_from_start_at_the_first_is_start_at(self):
        start = NOW + 100
        schedule = interval(600, startAt=rfc3339(start))
        assert schedule.first(now=NOW) == start
        assert schedule.next_after(start) == start + 600
        assert schedule.last_at_or_before(start) == start
        assert schedule.last_at_or_before(start - 1) is None
        assert schedule.count(0, start + 600) == 2

    def test_start_at_may_be_past(self):
        assert interval(600, startAt=rfc3339(NOW - 601)).first(now=NOW) == NOW + 599

    def test_first_is_strictly_later_than_a_now_with_a_fraction(self):
        schedule = interval(1)
        assert schedule.first(now=NOW + 0.7) == NOW + 1
        assert schedule.first(now=float(NOW)) == NOW + 1

    @pytest.mark.parametrize("every", [0, -5, 31_536_001, 1.5, 60.0, True, "60", float("nan"), [60]])
    def test_refused(self, every):
        error = refused_reading({"type": "interval", "everySeconds": every})
        assert error.field == "schedule.everySeconds"
        assert "1 to 31536000" in error.message

    def test_limits(self):
        assert interval(31_536_000).next_after(0) == CREATED + 31_536_000
        assert interval(1).next_after(NOW) == NOW + 1

    @given(
        st.integers(1, 10_000),
        st.booleans(),
        st.integers(-5000, 50_000),
        st.integers(0, 50_000),
        st.integers(0, 40_000),
    )
    def test_next_last_and_count_agree(self, every, started, offset, length, end):
        policies = {"startAt": rfc3339(CREATED)} if started else {}
        schedule = interval(every, endAt=rfc3339(CREATED + end), **policies)
        slots = [CREATED + k * every for k in range(0 if started else 1, end // every + 1)]
        first, last = CREATED + offset, CREATED + offset + length
        assert schedule.next_after(first) == next((slot for slot in slots if slot > first), None)
        assert schedule.last_at_or_before(first) == next((slot for slot in reversed(slots) if slot <= first), None)
        assert schedule.count(first, last) == sum(first <= slot <= last for slot in slots)


class TestCron:
    def test_default_zone_is_utc(self):
        assert listed(cron("0 9 * * *"), "2027-07-01T00:00:00Z", 1) == ["2027-07-01T09:00:00Z"]
        assert listed(cron("0 9 * * *", "Europe/Berlin"), "2027-07-01T00:00:00Z", 1) == ["2027-07-01T07:00:00Z"]

    def test_a_manual_run_between_slots_has_no_say(self):
        schedule = cron("0 1 * * *")
        assert listed(schedule, "2027-02-01T11:30:00Z", 1) == ["2027-02-02T01:00:00Z"]

    def test_start_and_end(self):
        schedule = cron("0 * * * *", startAt="2027-02-01T15:00:00Z", endAt="2027-02-01T18:00:00Z")
        hours = [f"2027-02-01T{hour}:00:00Z" for hour in (15, 16, 17, 18)]
        assert listed(schedule, "2027-02-01T00:00:00Z", 9) == hours
        assert schedule.first(now=NOW) == instant(hours[0])
        assert schedule.last_at_or_before(instant("2027-03-01T00:00:00Z")) == instant(hours[-1])
        assert schedule.last_at_or_before(instant(hours[0]) - 1) is None
        assert schedule.count(0, NOW + 10**9) == 4
        assert schedule.count(instant(hours[1]), instant(hours[2])) == 2
        assert schedule.count(NOW + 10**8, NOW + 10**9) == 0

    def test_start_between_slots(self):
        schedule = cron("0 * * * *", startAt="2027-02-01T15:00:01Z")
        assert rfc3339(schedule.first(now=NOW)) == "2027-02-01T16:00:00Z"
        assert schedule.last_at_or_before(instant("2027-02-01T15:30:00Z")) is None

    def test_naive_start_and_end_are_of_the_jobs_zone(self):
        schedule = cron("0 * * * *", "Asia/Tokyo", startAt="2027-02-01T09:00:00", endAt="2027-02-01T10:00:00")
        assert listed(schedule, "2027-01-01T00:00:00Z", 9) == ["2027-02-01T00:00:00Z", "2027-02-01T01:00:00Z"]

    def test_hashed_by_the_job(self):
        minutes = {cron("H * * * *", job_id=str(uuid.UUID(int=n))).first(now=NOW) for n in range(200)}
        assert len(minutes) > 40

    def test_never_occurring_in_its_zone_is_refused_when_it_is_made(self):
        schedule = cron("*/5 2 8-14 3 */7", "America/New_York")
        assert schedule.first(now=NOW) is None
        assert refused_making(schedule).field == "schedule"


class TestSpread:
    @pytest.mark.case(7)
    def test_a_thousand_jobs_of_one_hour(self):
        ids = [str(uuid.uuid5(uuid.NAMESPACE_DNS, str(n))) for n in range(1000)]
        schedules = [cron("0 * * * *", spreadSeconds=300, job_id=job_id) for job_id in ids]
        again = [cron("0 * * * *", spreadSeconds=300, job_id=job_id) for job_id in ids]
        starts = Counter(schedule.spread_offset for schedule in schedules)
        assert max(starts.values()) <= 15
        assert min(starts) < 10
        assert 290 < max(starts) < 300
        assert [schedule.spread_offset for schedule in again] == [schedule.spread_offset for schedule in schedules]
        assert {schedule.first(now=NOW) for schedule in schedules} == {NOW + 3600}
        for schedule in schedules:
            schedule.check(now=NOW)

    def test_is_the_same_in_every_process(self):
        script = (
            "from functions.domain.schedule import Schedule;"
            "document = {'schedule': {'type': 'interval', 'everySeconds': 600}, 'spreadSeconds': 600};"
            f"print(Schedule.read(document, job_id='{JOB}', created_at=0).spread_offset)"
        )
        root = Path(__file__).parents[2]
        found = {
            subprocess.run(
                [sys.executable, "-c", script], cwd=root, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
            ).stdout
            for seed in ("1", "2")
        }
        assert found == {f"{interval(600, spreadSeconds=600).spread_offset}\n".encode()}

    def test_none_without_it(self):
        assert interval(600).spread_offset == 0
        assert interval(600, spreadSeconds=0).spread_offset == 0
        assert interval(600, spreadSeconds=1).spread_offset == 0

    @pytest.mark.parametrize(
        ("schedule", "limit"),
        [
            ({"type": "interval", "everySeconds": 600}, 600),
            ({"type": "interval", "everySeconds": 5}, 5),
            ({"type": "cron", "expression": "* * * * *"}, 60),
            ({"type": "cron", "expression": "0,10 9 * * *"}, 600),
            ({"type": "cron", "expression": "0 9 * * MON-FRI"}, 86_400),
            ({"type": "once", "at": "2027-02-01T13:00:00Z"}, 86_400),
        ],
        ids=lambda value: json.dumps(value) if isinstance(value, dict) else None,
    )
    def test_at_most_the_distance_of_two_slots(self, schedule, limit):
        read(schedule, spreadSeconds=limit).check(now=NOW)
        error = refused_making(read(schedule, spreadSeconds=limit + 1))
        assert error.field == "spreadSeconds"
        assert f"{limit + 1} is more than {limit}," in error.message

    @pytest.mark.parametrize("spread", [-1, 1.5, True, "5", 31_536_001])
    def test_refused(self, spread):
        assert refused_reading({"type": "interval", "everySeconds": 600}, spreadSeconds=spread).field == "spreadSeconds"


class TestRefused:
    @pytest.mark.parametrize(
        ("schedule", "field"),
        [
            (None, "schedule"),
            ("0 * * * *", "schedule"),
            ({}, "schedule.type"),
            ({"type": "weekly"}, "schedule.type"),
            ({"type": ["cron"]}, "schedule.type"),
            ({"type": "CRON", "expression": "* * * * *"}, "schedule.type"),
            ({"type": "cron"}, "schedule.expression"),
            ({"type": "cron", "expression": 5}, "schedule.expression"),
            ({"type": "cron", "expression": "61 * * * *"}, "schedule.expression"),
            ({"type": "cron", "expression": "* * * * *", "timezone": "PST"}, "schedule.timezone"),
            ({"type": "cron", "expression": "* * * * *", "timezone": 7}, "schedule.timezone"),
            ({"type": "cron", "expression": "* * * * *", "everySeconds": 5}, "schedule.everySeconds"),
            ({"type": "interval"}, "schedule.everySeconds"),
            ({"type": "interval", "everySeconds": 60, "at": "2027-03-01T00:00:00Z"}, "schedule.at"),
            ({"type": "interval", "everySeconds": 60, "timezone": "../etc/passwd"}, "schedule.timezone"),
            ({"type": "once"}, "schedule.at"),
            ({"type": "once", "at": 1_800_000_000}, "schedule.at"),
            ({"type": "once", "at": "tomorrow"}, "schedule.at"),
            ({"type": "once", "at": "2027-03-01T00:00:00"}, "schedule.at"),
        ],
    )
    def test_names_the_field(self, schedule, field):
        assert refused_reading(schedule).field == field

    def test_null_counts_as_left_out(self):
        schedule = {"type": "interval", "everySeconds": 60, "expression": None, "at": None, "timezone": None}
        assert read(schedule, startAt=None, endAt=None, spreadSeconds=None).first(now=NOW) == NOW + 60

    @pytest.mark.parametrize("field", ["startAt", "endAt"])
    @pytest.mark.parametrize("value", ["soon", 5, "2027-02-30T00:00:00Z", "2027-02-03T00:00:00", {"at": 1}])
    def test_start_and_end(self, field, value):
        assert refused_reading({"type": "interval", "everySeconds": 60}, **{field: value}).field == field

    @pytest.mark.parametrize(
        ("policies", "field"),
        [
            ({"endAt": "2027-02-01T11:59:59Z"}, "endAt"),
            ({"endAt": "2027-02-01T12:00:00Z"}, "endAt"),
            ({"endAt": "2027-02-01T12:30:00Z"}, "endAt"),
            ({"startAt": "2027-02-03T00:00:00Z", "endAt": "2027-02-02T00:00:00Z"}, "endAt"),
            ({"startAt": "2027-02-01T12:10:00Z", "endAt": "2027-02-01T12:50:00Z"}, "endAt"),
            ({"startAt": "2286-11-20T17:46:00Z"}, "startAt"),
        ],
    )
    def test_no_slot_left(self, policies, field):
        error = refused_making(cron("0 * * * *", **policies))
        assert error.field == field

    def test_one_time_outside_its_own_limits(self):
        schedule = read({"type": "once", "at": "2027-02-01T13:00:00Z"}, startAt="2027-02-01T14:00:00Z")
        assert schedule.first(now=NOW) is None
        assert refused_making(schedule).field == "startAt"

    def test_a_one_time_job_may_end_with_its_only_slot(self):
        schedule = read({"type": "once", "at": rfc3339(NOW - 30)}, endAt=rfc3339(NOW - 30))
        schedule.check(now=NOW)
        assert schedule.first(now=NOW) == NOW - 30


class TestInstants:
    @pytest.mark.parametrize(
        ("text", "meant"),
        [
            ("2027-01-31T14:59:42Z", "2027-01-31T14:59:42Z"),
            ("2027-01-31t14:59:42z", "2027-01-31T14:59:42Z"),
            ("2027-01-31 14:59Z", "2027-01-31T14:59:00Z"),
            ("2027-01-31T14:59:42.999999999999Z", "2027-01-31T14:59:42Z"),
            ("2027-01-01T00:30:00+05:45", "2026-12-31T18:45:00Z"),
            ("2026-12-31T20:00:00-11:00", "2027-01-01T07:00:00Z"),
            ("2027-01-31T14:59:42-00:00", "2027-01-31T14:59:42Z"),
            ("1969-12-31T23:00:00-01:00", "1970-01-01T00:00:00Z"),
        ],
    )
    def test_read(self, text, meant):
        assert rfc3339(parse_instant(text, field="x")) == meant

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "2027-01-31",
            "2027-01-31T14:59:60Z",
            "2027-01-31T24:00:00Z",
            "2027-13-01T00:00:00Z",
            "0000-01-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2286-11-20T17:46:40Z",
            "9999-12-31T23:59:59-23:59",
            "0001-01-01T00:00:00+23:59",
            "2027-01-31T14:59:42+24:00",
            "2027-01-31T14:59:42+0100",
            "2027-01-31T14:59:42.Z",
            "2027-01-31T14:59:42Z\n",
            "\u0662\u0660\u0662\u0667-01-31T14:59:42Z",
            "2027-W05-1T00:00:00Z",
            "1800000000",
        ],
    )
    def test_refused(self, text):
        with pytest.raises(InvalidFieldError) as caught:
            parse_instant(text, field="startAt")
        assert caught.value.field == "startAt"

    def test_naive_at_the_ends_of_time(self):
        for text in ("0001-01-01T00:00:00", "9999-12-31T23:59:59"):
            with pytest.raises(InvalidFieldError, match="outside"):
                parse_instant(text, field="x", timezone="Pacific/Kiritimati")

    def test_value_is_cut_in_messages(self):
        with pytest.raises(InvalidFieldError) as caught:
            parse_instant("x" * 5000, field="x")
        assert "x" * 63 in caught.value.message
        assert len(caught.value.message) < 200

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (0, "1970-01-01T00:00:00Z"),
            (1_800_000_000, "2027-01-15T08:00:00Z"),
            (1_800_000_000.0, "2027-01-15T08:00:00Z"),
            (1_800_000_000.25, "2027-01-15T08:00:00.250Z"),
            (1_800_000_000.123, "2027-01-15T08:00:00.123Z"),
            (1_800_000_000.9999, "2027-01-15T08:00:01Z"),
        ],
    )
    def test_written(self, value, text):
        assert rfc3339(value) == text

    def test_written_on_a_zones_clocks(self):
        assert local_rfc3339(instant("2027-03-14T07:00:00Z"), "America/New_York") == "2027-03-14T03:00:00-04:00"

    @given(st.integers(0, 9_999_999_999))
    def test_what_is_written_is_read(self, value):
        assert parse_instant(rfc3339(value), field="x") == value

    def test_one_time_and_interval_jobs_do_not_load_croniter(self):
        script = (
            "import sys; from functions.domain.schedule import Schedule;"
            "Schedule.read({'schedule': {'type': 'interval', 'everySeconds': 6}}, job_id='x', created_at=0);"
            "print('croniter' in sys.modules)"
        )
        root = Path(__file__).parents[2]
        done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, check=True)
        assert done.stdout == b"False\n"
