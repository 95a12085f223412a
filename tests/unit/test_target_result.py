from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.condition import holds
from functions.domain.result import (
    RESULT_BYTES,
    Extent,
    ResultTooLargeError,
    ResultUnreadableError,
    json_text,
    kept_result,
    whole_result,
)

DEEP = "[" * 101 + "]" * 101
NOT_TO_BE_KEPT = ["NaN", "[-Infinity]", "[1e400]", '"\\ud800"', "9" * 5_000, DEEP, "[" * 60_000]
"""JSON to Python, of a kind that cannot be kept as JSON."""


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", None),
        ("  null\n", None),
        (' {"a": 1.0, "n": 170141183460469231731687303715884105728, "z": -0.0} ',
         '{"a":1.0,"n":170141183460469231731687303715884105728,"z":-0.0}'),
        ('"é😀"', '"é😀"'),
        (' {"a": 1}' + " " * 40_000, '{"a":1}'),
        ("[" * 100 + "]" * 100, "[" * 100 + "]" * 100),
        (json.dumps("x" * (RESULT_BYTES - 2)), json.dumps("x" * (RESULT_BYTES - 2))),
    ],
)  # fmt: skip
def test_json_is_kept_declared_or_not(text: str, kept: str | None, declared: bool) -> None:
    assert kept_result(text, declared=declared) == kept


@pytest.mark.parametrize("text", ["OK", "\ufffd", '{"a":"' + "x" * 40_000 + '"}', '{"a": 1', *NOT_TO_BE_KEPT])
def test_what_is_not_declared_becomes_a_string_of_its_text(text: str) -> None:
    kept = kept_result(text)
    assert kept is not None
    assert len(kept.encode()) <= RESULT_BYTES
    assert text.startswith(json.loads(kept))


@pytest.mark.parametrize("text", ["OK", "'a'", '{"a": 1', '{"a": 1}}', "x" * 40_000, *NOT_TO_BE_KEPT])
def test_declared_json_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ResultUnreadableError):
        kept_result(text, declared=True)


@pytest.mark.parametrize(
    ("text", "extent", "said"),
    [
        ('{"a":"' + "x" * 40_000 + '"}', Extent.WHOLE, "^40008 bytes"),
        (json.dumps("x" * (RESULT_BYTES - 1)), Extent.WHOLE, "^32769 bytes"),
        ("{}", Extent.LONGER, "^over 2 bytes"),
    ],
)
def test_declared_json_that_is_too_large_is_not_kept(text: str, extent: Extent, said: str) -> None:
    with pytest.raises(ResultTooLargeError, match=said):
        kept_result(text, declared=True, extent=extent)
    assert kept_result(text, extent=extent) is not None, "undeclared, as ever"


@pytest.mark.parametrize("text", ["", " ", "{}", "12", "null"])
def test_declared_json_whose_end_did_not_come_is_refused(text: str) -> None:
    with pytest.raises(ResultUnreadableError, match="end did not come"):
        kept_result(text, declared=True, extent=Extent.CUT)


@pytest.mark.parametrize("extent", [Extent.CUT, Extent.LONGER])
@pytest.mark.parametrize("text", ["12", '{"a":1}', "true", "[1]", '"x"'])
def test_the_beginning_of_a_text_is_never_taken_for_json(text: str, extent: Extent) -> None:
    assert kept_result(text, extent=extent) == json.dumps(text)


def test_nothing_of_a_body_is_not_an_empty_one() -> None:
    with pytest.raises(ResultUnreadableError):
        kept_result("", extent=Extent.CUT)


@given(st.text(max_size=200).map(lambda part: part * 400), st.sampled_from(Extent))
def test_every_answer_becomes_json_of_at_most_32_kb(text: str, extent: Extent) -> None:
    for declared in (True, False):
        try:
            kept = kept_result(text, declared=declared, extent=extent)
        except (ResultTooLargeError, ResultUnreadableError):
            assert declared or extent is Extent.CUT
            continue
        if kept is not None:
            assert len(kept.encode()) <= RESULT_BYTES
            json.loads(kept)


def test_json_text_names_the_limit() -> None:
    with pytest.raises(ValueError, match="32768"):
        json_text("x" * RESULT_BYTES)
    with pytest.raises(ValueError, match="100 levels"):
        json_text(json.loads(DEEP))


@pytest.mark.parametrize("text", ["", "null", ' {"a": 1.0}', "OK", "é", "'a'", '"' + "x" * (RESULT_BYTES - 2) + '"'])
def test_a_whole_result_is_kept_as_an_answer_is(text: str) -> None:
    assert whole_result(text.encode()) == kept_result(text)
    assert whole_result(text.encode("utf-8-sig")) == kept_result(text)


@pytest.mark.parametrize(
    ("body", "size"), [(b'{"a":"' + b"x" * 40_000 + b'"}', 40_008), (b"x" * RESULT_BYTES, RESULT_BYTES + 2)]
)
def test_a_whole_result_is_refused_where_it_would_be_cut(body: bytes, size: int) -> None:
    with pytest.raises(ResultTooLargeError, match=f"{size} bytes of JSON; at most {RESULT_BYTES} are kept"):
        whole_result(body)


@pytest.mark.parametrize("body", [b'"\xff"', *(text.encode() for text in NOT_TO_BE_KEPT)])
def test_a_whole_result_that_cannot_be_kept_as_json_is_not_another_value(body: bytes) -> None:
    with pytest.raises(ResultUnreadableError):
        whole_result(body)


def test_what_was_cut_is_no_json_to_a_condition() -> None:
    rows = [{"ok": True, "n": number} for number in range(3_000)]
    kept = kept_result(json.dumps({"ok": True, "rows": rows}))
    assert holds("type(@) == 'string'", kept)
    for expression in ("ok", "rows", "length(rows)", "rows[0]", "[0]", "*"):
        assert not holds(expression, kept)
