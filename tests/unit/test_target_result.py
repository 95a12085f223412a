from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.condition import holds
from functions.domain.result import RESULT_BYTES, ResultTooLargeError, json_text, kept_result, whole_result


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"", None),
        (b"  null\n", None),
        (b' {"a": 1.0, "n": 170141183460469231731687303715884105728, "z": -0.0} ',
         '{"a":1.0,"n":170141183460469231731687303715884105728,"z":-0.0}'),
        ('"é😀"'.encode(), '"é😀"'),
        (b"\xef\xbb\xbf[1]", "[1]"),
        (b"OK", '"OK"'),
        (b"NaN", '"NaN"'),
        (b"[1e400]", '"[1e400]"'),
        (b'"\\ud800"', '"\\"\\\\ud800\\""'),
        (b"\xff", '"\ufffd"'),
    ],
)  # fmt: skip
def test_what_is_kept_of_an_answer(body: bytes, kept: str | None) -> None:
    assert kept_result(body) == kept


@pytest.mark.parametrize(
    "body", [b"[" * 60_000, b"[" * 101 + b"]" * 101, b"9" * 5_000, b'{"a":"' + b"x" * 40_000 + b'"}']
)
def test_json_that_cannot_be_kept_becomes_a_string(body: bytes) -> None:
    kept = kept_result(body)
    assert kept is not None
    assert len(kept.encode()) <= RESULT_BYTES
    assert body.decode().startswith(json.loads(kept))


@pytest.mark.parametrize(
    ("body", "whole", "said"),
    [
        (b'{"a":"' + b"x" * 40_000 + b'"}', True, "^40008 bytes"),
        (json.dumps("x" * (RESULT_BYTES - 1)).encode(), True, "^32769 bytes"),
        (b"{}", False, "^over 2 bytes"),
    ],
)
def test_declared_json_that_is_too_large_is_not_kept(body: bytes, whole: bool, said: str) -> None:
    with pytest.raises(ResultTooLargeError, match=said):
        kept_result(body, declared=True, whole=whole)
    assert kept_result(body, whole=whole) is not None, "undeclared, as ever"


@pytest.mark.parametrize("body", [b"", b"null", b' {"a": 1}' + b" " * 40_000, b"x" * 40_000, b"[" * 101 + b"]" * 101])
def test_what_is_declared_json_and_not_too_large_is_kept_as_any(body: bytes) -> None:
    assert kept_result(body, declared=True) == kept_result(body)


def test_json_up_to_the_limits_is_kept() -> None:
    deep = "[" * 100 + "]" * 100
    assert kept_result(deep.encode()) == deep
    largest = json.dumps("x" * (RESULT_BYTES - 2))
    assert kept_result(largest.encode()) == largest


@given(st.binary(max_size=200).map(lambda part: part * 400))
def test_every_answer_becomes_json_of_at_most_32_kb(body: bytes) -> None:
    kept = kept_result(body)
    if kept is not None:
        assert len(kept.encode()) <= RESULT_BYTES
        json.loads(kept)


def test_json_text_names_the_limit() -> None:
    with pytest.raises(ValueError, match="32768"):
        json_text("x" * RESULT_BYTES)
    with pytest.raises(ValueError, match="100 levels"):
        json_text(json.loads("[" * 101 + "]" * 101))


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b' {"a": 1.0}', b"OK", b"NaN", b"[" * 101 + b"]" * 101, b'"' + b"x" * (RESULT_BYTES - 2) + b'"'],
)
def test_a_whole_result_is_kept_as_an_answer_is(body: bytes) -> None:
    assert whole_result(body) == kept_result(body)


@pytest.mark.parametrize(
    ("body", "size"),
    [(b'{"a":"' + b"x" * 40_000 + b'"}', 40_008), (b"x" * RESULT_BYTES, RESULT_BYTES + 2), (b"9" * 40_000, 40_002)],
)
def test_a_whole_result_is_refused_where_it_would_be_cut(body: bytes, size: int) -> None:
    with pytest.raises(ResultTooLargeError, match=f"{size} bytes of JSON; at most {RESULT_BYTES} are kept"):
        whole_result(body)


def test_what_was_cut_is_no_json_to_a_condition() -> None:
    rows = [{"ok": True, "n": number} for number in range(3_000)]
    kept = kept_result(json.dumps({"ok": True, "rows": rows}).encode())
    assert holds("type(@) == 'string'", kept)
    for expression in ("ok", "rows", "length(rows)", "rows[0]", "[0]", "*"):
        assert not holds(expression, kept)
