"""Steps on a single value, as `5/15` or `MON/2`: refused for new schedules, read as ever in stored ones."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.cron import CronExpression, preview
from functions.domain.cron_fields import parse
from functions.domain.errors import InvalidFieldError
from functions.domain.schedule import Schedule
from tests.api_client import Api, make_body
from tests.factories import NOW
from tests.stored import redefine

JOB = "6f1d2c3b-0a4e-4f5d-8c7b-9a8b7c6d5e4f"
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
LAST = (59, 23, 31, 12, 6)
FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")


def values(position: int) -> st.SearchStrategy[str]:
    low = 1 if position in (2, 3) else 0
    numbers = st.integers(low, 7 if position == 4 else LAST[position]).map(str)
    names = st.sampled_from([[], [], [], MONTHS, DAYS][position] or ["0"])
    return st.one_of(numbers, names) if position > 2 else numbers


@st.composite
def expressions(draw: st.DrawFn) -> tuple[int, str, str]:
    """(position, the item with its step, an expression with it)."""
    position = draw(st.integers(0, 4))
    item = f"{draw(values(position))}/{draw(st.integers(1, 70))}"
    item = draw(st.sampled_from([item, item.lower()]))
    beside = draw(st.lists(values(position), max_size=2))
    parts = ["0", "0", "*", "*", "*"]
    parts[position] = ",".join(draw(st.permutations([*beside, item])))
    return position, item.upper(), " ".join(parts)


def refusal(expression: str) -> str:
    with pytest.raises(InvalidFieldError) as caught:
        preview(expression, "UTC", after=int(NOW), count=1, job_id=JOB)
    assert caught.value.field == "expression"
    return caught.value.message


@given(expressions())
def test_a_step_on_a_single_value_is_refused_with_what_to_write(drawn: tuple[int, str, str]) -> None:
    position, item, expression = drawn
    message = refusal(expression)
    assert message.startswith(f'{FIELDS[position]} "{item}": a step on a single value')
    alone = item.partition("/")[0]
    suggestions = re.findall(r'Write "([^"]+)"(?: or "([^"]+)")?', message)
    assert suggestions[0][-1] in (alone, "")
    ranged, single = suggestions[0] if suggestions[0][1] else (None, suggestions[0][0])
    assert single == alone
    for written in filter(None, (ranged, single)):
        parts = ["0", "0", "*", "*", "*"]
        parts[position] = written
        assert preview(" ".join(parts), "UTC", after=int(NOW), count=1, job_id=JOB)
    parts[position] = item
    reading = replace(parse(" ".join(parts), job_id=JOB, field="expression"), unclear=None)
    parts[position] = ranged or single
    assert reading == parse(" ".join(parts), job_id=JOB, field="expression")


@given(expressions())
def test_a_stored_one_keeps_its_reading(drawn: tuple[int, str, str]) -> None:
    _, _, expression = drawn
    document = {"schedule": {"type": "cron", "expression": expression}}
    schedule = Schedule.read(document, job_id=JOB, created_at=int(NOW))
    assert schedule.next_after(int(NOW)) == CronExpression.of(expression, job_id=JOB).next_after(int(NOW))
    with pytest.raises(InvalidFieldError) as caught:
        schedule.check(now=NOW)
    assert caught.value.field == "schedule.expression"


def test_the_message_names_the_reading_and_both_ways_to_write_it() -> None:
    assert refusal("0 9 * * MON/2") == (
        'day-of-week "MON/2": a step on a single value is read as MON-SAT/2 (MON, WED, FRI) by some schedulers and as '
        'MON alone by others. Write "MON-SAT/2" or "MON".'
    )
    assert "5-59/15 (5, 20, 35, 50)" in refusal("5/15 * * * *")
    assert "0-23/2 (0, 2, 4, 6, 8, …)" in refusal("0 0/2 * * *")
    assert refusal("0 0 * * 7/2") == 'day-of-week "7/2": a step on a single value has no effect. Write "7".'


@pytest.mark.parametrize("item", ["FRI#2/2", "5#2/1", "5L/2", "FRIL/2", "fri#2/"])
def test_a_step_on_a_single_day_of_the_month_is_refused(item: str) -> None:
    assert "a step needs a range, and L and # name single days" in refusal(f"0 9 * * {item}")


def test_a_step_on_the_last_day_is_refused() -> None:
    assert "a step needs a range" in refusal("0 9 L/2 * *")


@pytest.mark.parametrize(
    "expression",
    ["*/15 * * * *", "H/15 * * * *", "H(0-29)/10 * * * *", "5-59/15 * * * *", "0-0/1 3 * * *", "0 9 * * MON-SAT/2",
     "0 0 1,11-20/5 */3 *", "0 0 * * 5-7/2", "0 0 L * *", "0 0 * * FRI#2"],
)  # fmt: skip
def test_steps_on_a_range_stay_accepted(expression: str) -> None:
    assert preview(expression, "UTC", after=int(NOW), count=1, job_id=JOB)


def test_create_and_preview_refuse_it_and_a_change_of_something_else_does_not() -> None:
    api = Api()
    body = make_body(schedule={"type": "cron", "expression": "0 9 * * MON/2"})
    assert "MON-SAT/2" in api.post("/v1/jobs", body).fields["schedule.expression"]
    assert "MON-SAT/2" in api.get("/v1/schedule/preview", query="expression=0+9+*+*+MON/2").fields["expression"]
    made = api.post("/v1/jobs", make_body(schedule={"type": "cron", "expression": "0 9 * * MON-SAT/2"})).json["id"]
    schedule = {"type": "cron", "expression": "0 9 * * MON/2"}
    redefine(api.world.jobs, made, schedule=schedule)
    assert api.patch(f"/v1/jobs/{made}", {"description": "as before"}).status == 200
    assert api.get(f"/v1/jobs/{made}").json["schedule"] == schedule
    assert api.patch(f"/v1/jobs/{made}", {"schedule": {"expression": "0 9 * * TUE/2"}}).status == 400
