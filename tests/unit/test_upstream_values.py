"""Values that payloads take from results: which are allowed, and what they become."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.errors import InvalidFieldError
from functions.domain.upstream_values import (
    MAX_SOURCES,
    MAX_VALUES,
    PAYLOAD_BYTES,
    PayloadSizeError,
    check_taken,
    resolved,
    sources_of,
)
from tests.factories import new_id

A, B = new_id(), new_id()


def taking(*path: str, source: str = A) -> dict[str, str]:
    return {"$from": source} | ({"path": path[0]} if path else {})


def resolve(payload: Any, **results: Any) -> Any:
    texts = {{"a": A, "b": B}[name]: None if value is None else json.dumps(value) for name, value in results.items()}
    return json.loads(resolved(json.dumps(payload), texts))


def test_values_are_replaced_wherever_they_stand() -> None:
    payload = {"sum": taking("total"), "all": [1, taking(), {"deep": [taking("rows[?ok].id")]}], "b": taking(source=B)}
    rows = [{"id": 1, "ok": True}, {"id": 2, "ok": False}]
    assert resolve(payload, a={"total": 3, "rows": rows}, b="text") == {
        "sum": 3,
        "all": [1, {"total": 3, "rows": rows}, {"deep": [[1]]}],
        "b": "text",
    }
    assert resolve(taking("total"), a={"total": 3}) == 3


def test_numbers_keep_their_kind_and_value() -> None:
    result = '{"r":1.0,"n":170141183460469231731687303715884105728,"z":-0.0,"e":[0,false]}'
    assert resolved(f'{{"x":2.0,"y":{{"$from":"{A}"}}}}', {A: result}) == f'{{"x":2.0,"y":{result}}}'


@pytest.mark.parametrize(
    ("path", "result"),
    [
        ("total", None),
        ("total", "text"),
        ("total.more", {"total": 1}),
        ("sum(@)", [1e308, 1e308]),
        ("sum(@)", ["a"]),
        ("[::0]", [1]),
        ("{\"\\ud800\":@}", 1),
        ("[@,@]|" * 40 + "@", 1),
    ],
)  # fmt: skip
def test_what_is_not_there_is_null(path: str, result: Any) -> None:
    check_taken(json.dumps(taking(path)), [A])
    assert resolve([taking(path)], a=result) == [None]


def test_no_result_is_null() -> None:
    assert resolve({"x": taking()}, a=None) == {"x": None}


@pytest.mark.parametrize("other", [{"$from": A, "more": 1}, {"$from": 5}, {"$from": B}, {"from": A}, {"$from": None}])
def test_all_else_stays_as_it_is(other: Any) -> None:
    assert resolve([other, {"x": other}], a=1) == [other, {"x": other}]


def test_results_are_not_looked_through_again() -> None:
    assert resolve([taking()], a=[taking()]) == [[taking()]]


def test_a_payload_that_grows_too_large_says_how_large() -> None:
    part = "x" * 30_000
    assert len(resolve([taking()] * 4, a=part)) == 4
    with pytest.raises(PayloadSizeError, match=rf"has 150016 bytes .* at most {PAYLOAD_BYTES} "):
        resolve([taking()] * 5, a=part)


def test_each_source_is_read_once() -> None:
    payload = json.dumps([taking(), taking("x"), taking(source=B), taking(source="other")])
    assert sorted(sources_of(payload, [B, A, new_id()])) == sorted([A, B])
    assert sources_of(payload, []) == []
    assert sources_of('{"x":1}', [A]) == []


@pytest.mark.parametrize(
    ("payload", "field", "says"),
    [
        ({"a": [{"$from": "x"}]}, "payload.a[0].$from", '"x" is none of the jobs in dependsOn'),
        ({"$from": new_id()}, "payload.$from", "none of the jobs"),
        ({"a": {"$from": 5}}, "payload.a.$from", "5 is none"),
        ({"a": taking("b.")}, "payload.a.path", '"b." is no JMESPath: at character 3'),
        ({"a": taking("")}, "payload.a.path", "cannot be empty"),
        ({"a": {"$from": A, "path": 5}}, "payload.a.path", "5 is no JMESPath: it has to be a string"),
        ({"a": {"$from": A, "pth": "b"}}, "payload.a", 'has "pth" beside $from'),
        ([taking()] * (MAX_VALUES + 1), "payload", f"takes {MAX_VALUES + 1} values by $from; at most {MAX_VALUES}"),
    ],
)  # fmt: skip
def test_what_is_refused_names_its_place(payload: Any, field: str, says: str) -> None:
    with pytest.raises(InvalidFieldError) as refused:
        check_taken(json.dumps(payload), [A, B])
    assert refused.value.field == field
    assert says in refused.value.message
    check_taken(json.dumps(payload), [])  # of a job that depends on nobody it is data


def test_sources_are_counted() -> None:
    many = [new_id() for _ in range(MAX_SOURCES + 1)]
    check_taken(json.dumps([taking(source=one) for one in many[1:]]), many)
    with pytest.raises(InvalidFieldError, match=rf"from {MAX_SOURCES + 1} jobs by \$from; at most {MAX_SOURCES} "):
        check_taken(json.dumps([taking(source=one) for one in many]), many)


def test_long_places_are_cut() -> None:
    payload = {"k" * 5_000: {"l" * 5_000: [{"m" * 5_000: [{"n" * 500: {"$from": "x"}}]}]}}
    with pytest.raises(InvalidFieldError) as refused:
        check_taken(json.dumps(payload), [A])
    assert len(refused.value.field) < 300


def test_deep_payloads_are_walked() -> None:
    payload: Any = taking("x")
    for _ in range(99):
        payload = [payload]
    check_taken(json.dumps(payload), [A])
    assert json.dumps(resolve(payload, a={"x": 7})) == "[" * 99 + "7" + "]" * 99


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(_JSON, _JSON, st.sampled_from(["@", "*", "[]", "a", "[?@]", "keys(@)", "to_string(@)"]))
def test_every_payload_stays_json_in_utf_8(payload: Any, result: Any, path: str) -> None:
    wanted = json.loads(json.dumps([payload, taking(path)]))
    found = resolve(wanted, a=result)
    assert json.dumps(found[0]) == json.dumps(payload)
