"""What people write in JMESPath out of habit is refused with what to write instead."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.api.body import payload_text
from functions.domain.condition import holds
from functions.domain.errors import InvalidFieldError
from functions.domain.expression import check
from tests.api_client import Api, make_body
from tests.factories import new_id
from tests.stored import redefine

COMPARATORS = ["==", "!=", "<", "<=", ">", ">="]
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name not in ("true", "false", "null", "none", "nil", "not", "and", "or")
)


def refusal(expression: str) -> str:
    with pytest.raises(InvalidFieldError) as refused:
        check(expression, "when")
    assert refused.value.field == "when"
    return refused.value.message


@given(
    NAMES,
    st.sampled_from(COMPARATORS),
    st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
    st.sampled_from(["{} {} {}", "a && {}{}{}", "[?{} {} {}]", "length([?{} {} {}]) > `0`"]),
    st.booleans(),
)
def test_a_number_without_backquotes_is_refused_with_the_number_as_to_be_written(
    name: str, comparator: str, number: float, around: str, turned: bool
) -> None:
    written = json.dumps(number)
    sides = (written, name) if turned else (name, written)
    message = refusal(around.format(sides[0], comparator, sides[1]))
    [(shown,)] = [match.groups() for match in re.finditer(r"write numbers in backquotes: (`[^`]+`)", message)]
    assert json.loads(shown.strip("`")) == number
    sides = (shown, name) if turned else (name, shown)
    check(around.format(sides[0], comparator, sides[1]), "when")


@given(NAMES, st.sampled_from(COMPARATORS), st.text(max_size=12), st.booleans())
def test_text_in_double_quotes_beside_a_name_is_refused_with_both_that_it_may_mean(
    name: str, comparator: str, text: str, turned: bool
) -> None:
    quoted = json.dumps(text, ensure_ascii=False)
    sides = (quoted, name) if turned else (name, quoted)
    expression = f"{sides[0]} {comparator} {sides[1]}"
    if not text.isprintable() or any(letter in text for letter in "\"\\'"):
        with pytest.raises(InvalidFieldError):
            check(expression, "when")
        return
    message = refusal(expression)
    as_text, as_field = f"'{text}'", f'@."{text}"'
    assert f"Write {as_text} for text, or {as_field} for the field" in message
    for operand in (as_text, as_field):
        check(f"{name} {comparator} {operand}", "when")
    if comparator == "==":
        assert holds(f"{name} == {as_text}", json.dumps({name: text}))
        assert holds(f"{name} == {as_field}", json.dumps({name: 1, text: 1}) if text != name else '{"' + name + '": 1}')


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("rows > 0", "In JMESPath, write numbers in backquotes: `0`."),
        ("rows >= -1", "write numbers in backquotes: `-1`"),
        ("rows>007", "write numbers in backquotes: `7`"),
        ("rows > .5", "write numbers in backquotes: `0.5`"),
        ("contains(tags, 5)", "write numbers in backquotes: `5`"),
        ("rows.0.name", "write [0] for an element of a list"),
        ("status = 'ok'", "write == for equal"),
        ("status === 'ok'", "write == for equal"),
        ("status is 'ok'", "write == for equal"),
        ("rows => `0`", "write >="),
        ("rows <> `0`", "write != for not equal"),
        ("a and b", "write && for and"),
        ("rows > `0` AND b", "write && for and"),
        ("a & b", "write && for and"),
        ("a or b", "write || for or"),
        ("not a", "write !(…) for not"),
        ("not(a)", "write !(…) for not"),
        ("len(a) > `3`", "write length(…)"),
        ("'x' in tags", "write contains(list, value)"),
        ("$.rows", "begin with the name of a field: there is no $"),
        ("status == \u2018ok\u2019", "write text in straight single quotes: 'ok'"),
        ("status == `ok`", "write JSON in backquotes, and text in single quotes: 'ok'"),
        ("status == 'ok", "close the single quote"),
        ("rows > `0", "close the backquote"),
        ("row-count > `0`", 'write a name that has a hyphen in double quotes: "row-count"'),
        ("rows + `1`", "there is no arithmetic"),
        ("a ? b : c", "there is no ?"),
        ("done == true", "Write `true` for the value"),
        ("False != done", "Write `false` for the value"),
        ("error == None", "Write `null` for the value"),
        ("a && true", "Write `true` for the value"),
        ('contains(tags, "urgent")', "Write 'urgent' for text"),
        ('rows[?state == "open"] | [0]', "Write 'open' for text"),
        ('starts_with(name, "x")', "Write 'x' for text"),
        ('join(", ", names)', "Write ', ' for text"),
    ],
)
def test_habits_are_refused_with_what_to_write(expression: str, hint: str) -> None:
    assert hint in refusal(expression)


@pytest.mark.parametrize(
    "expression",
    ["rows > `0`", "status == 'ok'", "\"row-count\" > `0`", "'ok' == \"a b\"", '@."ok" == status', "a.true == 'x'",
     '{"true": a, null: b}', "not_null(a, b)", 'contains("my-tags", \'x\')', 'length("a-b") > `3`', "none.x", "nil",
     'contains(["a b"], \'x\')', '"a"."b" == c', "max_by(rows, &n).n"],
)  # fmt: skip
def test_what_means_what_it_says_is_accepted(expression: str) -> None:
    check(expression, "when")


def test_what_a_job_has_keeps_its_meaning_and_a_new_one_is_checked() -> None:
    api = Api()
    parent = api.create().rsplit("/", 1)[1]
    body = make_body(schedule=None, dependsOn=[{"jobId": parent, "when": 'state == "ok"'}])
    body["payload"] = {"open": {"$from": parent, "path": 'rows[?state == "open"]'}}
    refused = api.post("/v1/jobs", body)
    assert "payload.open.path" in refused.fields
    assert "dependsOn[0].when" in api.post("/v1/jobs", {**body, "payload": None}).fields
    good = make_body(schedule=None, dependsOn=[{"jobId": parent, "when": "state == 'ok'"}])
    child = api.post("/v1/jobs", {**good, "payload": {"open": {"$from": parent}}}).json["id"]
    redefine(api.world.jobs, child, dependsOn=body["dependsOn"], payload=payload_text(body["payload"]))
    assert api.patch(f"/v1/jobs/{child}", {"description": "as before"}).status == 200
    assert api.put(f"/v1/jobs/{child}", body).status == 200
    worse = [{"jobId": parent, "when": 'state == "done"'}]
    assert "Write 'done' for text" in api.patch(f"/v1/jobs/{child}", {"dependsOn": worse}).fields["dependsOn[0].when"]
    other = {"open": {"$from": parent, "path": "[?done == true]"}}
    assert "Write `true`" in api.patch(f"/v1/jobs/{child}", {"payload": other}).fields["payload.open.path"]
    assert api.get(f"/v1/jobs/{new_id()}").status == 404
