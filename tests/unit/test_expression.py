"""JMESPath over results: what is refused, what it finds, and that no expression takes much work."""

from __future__ import annotations

from typing import Any

import jmespath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.condition import holds
from functions.domain.errors import InvalidFieldError
from functions.domain.expression import CHARACTERS, LEVELS, STEPS, Effort, ExpressionError, check, value_of

BIG = [0] * 16_000
"""As long a list as a result may be."""


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("", "cannot be empty"),
        ("a.", "at character 3, the expression ends too early"),
        ("a b", 'at character 3, "b"'),
        ("rows[?x", "ends too early"),
        ("a=b", "at character 2"),
        ("`{`", "at character 1"),
        ("`NaN`", "at character 1"),
        ("`1e999`", "at character 1"),
        ("a.frobnicate(@)", 'no function "frobnicate"'),
        ("&a", "`&`"),
        ("!a.b", "write `!(a.b)`"),
        ("c && !a.b.c", "write `!(a.b)`"),
        ("!a.*", "write `!(a.b)`"),
        ("[&a]", "`&`"),
        ("(" * 200, f"{LEVELS} levels"),
        ("!" * 500, f"{LEVELS} levels"),
        ("a|" * 500 + "a", f"{LEVELS} levels"),
        ("x" * (CHARACTERS + 1), f"has {CHARACTERS + 1} characters; at most {CHARACTERS}"),
    ],
)
def test_what_is_no_expression_is_refused_with_its_place(expression: str, says: str) -> None:
    with pytest.raises(InvalidFieldError) as refused:
        check(expression, "dependsOn[0].when")
    assert refused.value.field == "dependsOn[0].when"
    assert says in refused.value.message
    assert len(refused.value.message) < 300


@given(
    st.lists(
        st.sampled_from([*"abc.*[]{}()|&!@,:`'\"<>=-?01 ", "length(", "&&", "||", "[?", "`1`", "[*]"]), max_size=12
    )
)
def test_any_text_is_refused_or_has_a_value_or_none(parts: list[str]) -> None:
    expression = "".join(parts)
    try:
        check(expression, "when")
    except InvalidFieldError:
        return
    document = {"a": [{"b": 1}, {"b": "x"}], "b": {"c": [1, 2]}, "c": "abc"}
    try:
        found = value_of(expression, document)
    except ExpressionError:
        return
    try:
        assert found == jmespath.search(expression, document)
    except TypeError:  # the library's own, where a number is ordered against a string
        assert "<" in expression or ">" in expression


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("[@,@][]|" * 40 + "@", BIG),
        ("[@,@]|" * 45 + "to_string(@)", [1]),
        ("[@,@]|" * 45 + "@==@", [1]),
        ("[@,@]|" * 45 + "[@, @] | contains(@, `1`)", [1]),
        ("join('',[@,@])|" * 45 + "@", "x" * 30_000),
        ("[s,s][]|" + "[@,@][]|" * 14 + "[?contains(@,'zz')]", {"s": "a" * 30_000}),
        ("[@,@,@,@,@,@,@,@][][][::-1]", BIG),
    ],
)
def test_work_is_bounded(expression: str, value: object) -> None:
    check(expression, "when")
    with pytest.raises(ExpressionError, match="too much work"):
        value_of(expression, value)


@pytest.mark.parametrize(
    "expression", ["[?@ > `5`]", "length([?@ == `0`])", "sum(map(&to_number(@), @))", "sort_by(@, &@)"]
)
def test_one_pass_over_the_largest_result_is_allowed(expression: str) -> None:
    value_of(expression, BIG)


def test_several_evaluations_share_an_effort() -> None:
    effort = Effort(STEPS)
    value_of("[?@ > `5`]", BIG, effort)
    value_of("[?@ > `5`]", BIG, effort)
    with pytest.raises(ExpressionError, match="too much work"):
        value_of("[?@ > `5`]", BIG, effort)


@pytest.mark.parametrize(
    ("expression", "result", "expected"),
    [
        ("@", None, False),
        ("@", "null", False),
        ("@", "false", False),
        ("@", '""', False),
        ("@", "[]", False),
        ("@", "{}", False),
        ("@", "0", True),
        ("@", "0.0", True),
        ("@", "true", True),
        ("@", '" "', True),
        ("@", "[0]", True),
        ("count > `10`", '{"count":11}', True),
        ("count > `10`", '{"count":10}', False),
        ("count > `10`", '{"count":"11"}', False),
        ("count > `10`", '"count"', False),
        ("count > `10`", None, False),
        ("!failed", '{"failed":[]}', True),
        ("!(a.failed) && !rows[0]", '{"a":{"failed":[]}}', True),
        ("rows[?state == 'bad']", '{"rows":[{"state":"good"}]}', False),
        ("rows[?state == 'bad']", '{"rows":[{"state":"bad"}]}', True),
        ("length(rows)", "{}", False),
        ("ceil(to_number('inf'))", "1", False),
        ("[::0]", "[1]", False),
    ],
)
def test_what_is_true(expression: str, result: str | None, expected: Any) -> None:
    check(expression, "when")
    assert holds(expression, result) is expected
