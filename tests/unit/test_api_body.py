from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.api.body import canonical_hash, compact, parse, payload_text, read_text
from functions.domain.errors import InvalidRequestError, PayloadTooLargeError
from tests.api_client import Api, make_body

HOSTILE = {
    "empty object key twice": '{"name":"a","name":"b"}',
    "nested key twice": '{"payload":{"a":1,"a":1}}',
    "escaped key twice": '{"a":1,"\\u0061":2}',
    "NaN": '{"payload":NaN}',
    "Infinity": '{"payload":Infinity}',
    "-Infinity": '{"payload":-Infinity}',
    "float that overflows": '{"payload":1e400}',
    "negative float that overflows": '{"payload":-1e400}',
    "integer of 5 000 digits": '{"payload":' + "9" * 5_000 + "}",
    "negative integer of 5 000 digits": '{"payload":-' + "9" * 5_000 + "}",
    "100 000 arrays": "[" * 100_000,
    "100 000 arrays, closed": "[" * 100_000 + "]" * 100_000,
    "40 000 objects": '{"a":' * 40_000 + "1" + "}" * 40_000,
    "101 levels": '{"payload":' + "[" * 100 + "]" * 100 + "}",
    "900 levels": '{"payload":' + "[" * 899 + "]" * 899 + "}",
    "lone surrogate": '{"payload":"\\ud800"}',
    "lone surrogate as a key": '{"payload":{"\\udfff":1}}',
    "surrogates in the wrong order": '{"payload":"\\udc00\\ud800"}',
    "lone surrogate unescaped": '{"payload":"\ud800"}',
    "bad UTF-8": b'{"name":"\xff"}',
    "UTF-8 of a surrogate": b'{"name":"\xed\xa0\x80"}',
    "UTF-16": '{"name":"a"}'.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf{}",
    "no JSON": "name=a",
    "cut off": '{"name":',
    "two values": "{} {}",
    "comment": "{} // hello",
    "trailing comma": '{"a":1,}',
    "single quotes": "{'a':1}",
    "leading zero": '{"payload":01}',
    "control character": '{"name":"a\nb"}',
    "an array": "[]",
    "null": "null",
    "a string": '"a"',
    "a number": "1",
    "only spaces": "   ",
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/jobs"), ("PUT", "job"), ("PATCH", "job"), ("POST", "retry")]
)
def test_hostile_bodies_are_refused(method: str, path: str, body: str | bytes) -> None:
    api = Api()
    job = api.create()
    target = {"job": job, "retry": f"{job}/retry"}.get(path, path)

    reply = api.call(method, target, body)

    assert (reply.status, reply.code) == (400, "VALIDATION_ERROR")
    assert list(reply.fields) == ["body"]
    assert len(reply.message) < 300


def test_a_number_that_overflows_is_not_stored_as_null() -> None:
    assert Api().post("/v1/jobs", '{"name":"a","payload":{"x":1e309}}').message.startswith("body: holds a number")


@pytest.mark.parametrize("encode", [False, True])
def test_a_body_over_256_kilobytes_is_too_large(encode: bool) -> None:
    api = Api()
    reply = api.post("/v1/jobs", json.dumps(make_body(description="x" * 300_000)), encode=encode)
    assert (reply.status, reply.code) == (413, "PAYLOAD_TOO_LARGE")
    assert "262144" in reply.message


def test_the_size_of_a_body_is_counted_in_bytes() -> None:
    assert read_text("é" * 131_072, is_base64=False)
    with pytest.raises(PayloadTooLargeError):
        read_text("é" * 131_073, is_base64=False)


@pytest.mark.case(23)
def test_a_payload_is_limited_in_bytes_of_utf8() -> None:
    api = Api()
    body = json.dumps(make_body(payload="é" * 140_000), ensure_ascii=False)
    assert api.post("/v1/jobs", body).status == 413
    fits = "é" * 65_535
    assert api.post("/v1/jobs", json.dumps(make_body(payload=fits), ensure_ascii=False)).json["payload"] == fits
    too_long = json.dumps(make_body(payload=fits + "a"), ensure_ascii=False)
    assert "131073 bytes" in api.post("/v1/jobs", too_long).message


@pytest.mark.case(22)
def test_numbers_keep_value_and_kind() -> None:
    payload = '{"lat":33.10318374633789,"n":170141183460469231731687303715884105728,"r":1.0}'
    api = Api()
    created = api.post("/v1/jobs", '{"payload":' + payload + "," + json.dumps(make_body())[1:])
    assert payload in (created.text or "")
    assert payload in (api.get(f"/v1/jobs/{created.json['id']}").text or "")


@pytest.mark.parametrize(
    ("sent", "kept"), [("-0.0", "-0.0"), ("1E2", "100.0"), ("1e16", "1e+16"), ("5e-324", "5e-324"), ("9" * 4_300, None)]
)
def test_spelling_of_numbers_may_change_and_nothing_else(sent: str, kept: str | None) -> None:
    assert payload_text(parse(sent)) == (kept or sent)


@pytest.mark.case(23)
def test_characters_and_depth_are_kept() -> None:
    payload: Any = {"null": "\u0000", "emoji": "🚀", "line": "\u2028"}
    for _ in range(10):
        payload = {"in": [payload]}
    api = Api()
    job = api.create(payload=payload)
    assert api.get(job).json["payload"] == payload
    assert api.post("/v1/jobs", '{"payload":"\\ud83d"}').status == 400


def test_a_hundred_levels_are_taken() -> None:
    assert parse("[" * 100 + "]" * 100)
    with pytest.raises(InvalidRequestError):
        parse("[" * 101 + "]" * 101)
    assert parse(json.dumps(["[{" * 500, [[]] * 500]))


def test_integers_are_limited_whatever_the_interpreter_allows() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        with pytest.raises(InvalidRequestError):
            parse("9" * 4_301)
    finally:
        sys.set_int_max_str_digits(before)


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


@given(_VALUES)
def test_what_is_written_is_read_again(value: object) -> None:
    read = parse(compact(value))
    assert repr(read) == repr(value)
    assert parse(json.dumps(value)) == read


def test_the_hash_of_a_body_ignores_the_order_of_keys_and_tells_kinds_of_numbers() -> None:
    assert canonical_hash(parse('{"a":1,"b":{"c":2,"d":3}}')) == canonical_hash(parse('{"b":{"d":3,"c":2},"a":1}'))
    assert canonical_hash({"a": 1}) != canonical_hash({"a": 1.0})
    assert canonical_hash({"a": -0.0}) != canonical_hash({"a": 0.0})


def test_many_digits_that_are_no_integer_are_taken() -> None:
    text = "1" * 5_000
    assert parse(json.dumps({"digits": text})) == {"digits": text}
    assert parse("0." + text) == pytest.approx(1 / 9)
    assert parse("-" + "9" * 4_300) == -int("9" * 4_300)


def test_a_broken_transport_encoding_is_refused() -> None:
    with pytest.raises(InvalidRequestError):
        read_text("e30", is_base64=True)
    with pytest.raises(PayloadTooLargeError):
        read_text("AAAA" * 90_000, is_base64=True)
