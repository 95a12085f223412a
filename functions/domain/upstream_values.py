"""Values that a payload takes from the results of the jobs that its job depends on (docs/workflows.md).

`{"$from": "<jobId>", "path": "<JMESPath>"}`, anywhere in the payload of a job with dependsOn, stands for what the path
finds in the result of that job's run; without a path, for the whole result. In a job that depends on nobody it is data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from functions.domain.errors import InvalidFieldError
from functions.domain.expression import Effort, ExpressionError, check, value_of
from functions.domain.target_url import shown_value

PAYLOAD_BYTES = 131_072
"""Largest payload, as compact JSON in UTF-8; with all that it takes, too."""
MAX_VALUES = 50
"""Values that a payload takes at most."""
MAX_SOURCES = 10
"""Jobs that it takes them from at most."""
STEPS = 500_000
"""Steps that finding the values of one payload may take."""

_FROM, _PATH = "$from", "path"
_MARK = '"$from"'
_KEY_CHARACTERS, _PLACE_CHARACTERS = 64, 256


class PayloadSizeError(ValueError):
    """With the values that it takes, the payload is too large."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"The payload has {size} bytes of JSON with the results that it takes; at most {PAYLOAD_BYTES} are allowed."
        )


class _Value(NamedTuple):
    """One value that is taken, and where it belongs."""

    place: str
    holder: Any
    """The list or object that it is in, under `key`."""
    key: Any
    asked: dict[str, Any]

    @property
    def source(self) -> Any:
        return self.asked[_FROM]

    @property
    def path(self) -> Any:
        return self.asked.get(_PATH)


def may_take(payload: str) -> bool:
    """Whether a payload, as it is stored, may take values: without reading it."""
    return _MARK in payload


def check_taken(payload: str, parents: Iterable[str], *, is_stored: bool = False) -> None:
    """Check what a payload takes; `parents` are the jobs that its job depends on, none for none. `is_stored`: the job
    has this payload already.

    Raises InvalidFieldError naming the place, the value and what is allowed.
    """
    allowed = set(parents)
    if not allowed or not may_take(payload):
        return
    values = list(_values([json.loads(payload)]))
    for one in values:
        _check_value(one, allowed, is_stored=is_stored)
    if len(values) > MAX_VALUES:
        raise InvalidFieldError("payload", f"takes {len(values)} values by $from; at most {MAX_VALUES} are allowed.")
    sources = {one.source for one in values}
    if len(sources) > MAX_SOURCES:
        raise InvalidFieldError(
            "payload", f"takes values from {len(sources)} jobs by $from; at most {MAX_SOURCES} are allowed."
        )


def sources_of(payload: str, parents: Iterable[str]) -> list[str]:
    """The jobs whose results the payload takes values from; those that are no parents are data."""
    allowed, found = set(parents), {}
    if allowed and may_take(payload):
        found = {one.source: None for one in _values([json.loads(payload)]) if _is_taken(one, allowed)}
    return list(found)


def resolved(payload: str, results: Mapping[str, str | None]) -> str:
    """The payload with what it takes from these results, JSON text or None each, by the jobs that they are of.

    What a path does not find is null. Raises PayloadSizeError.
    """
    root = [json.loads(payload)]
    effort, read = (
        Effort(STEPS),
        {source: None if text is None else json.loads(text) for source, text in results.items()},
    )
    for one in list(_values(root)):
        if _is_taken(one, results):
            one.holder[one.key] = _found(read[one.source], one.path, effort)
    text = _compact(root[0])
    if (size := len(text.encode())) > PAYLOAD_BYTES:
        raise PayloadSizeError(size)
    return text


def _found(result: Any, path: str | None, effort: Effort) -> Any:
    if path is None:
        return result
    try:
        value = value_of(path, result, effort)
        _compact(value).encode()
    except (ExpressionError, TypeError, ValueError, RecursionError):
        return None  # nothing there, or nothing that JSON can carry: infinity, half a character
    return value


_compact: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _values(root: list[Any]) -> Iterator[_Value]:
    """The values that what is in `root` takes, in no order; it is walked without recursion."""
    left: list[tuple[str, Any, Any]] = [("payload", root, 0)]
    while left:
        place, holder, key = left.pop()
        value = holder[key]
        if isinstance(value, dict):
            if _FROM in value:
                yield _Value(place, holder, key, value)
            else:
                left.extend((f"{place}.{_shown_key(name)}", value, name) for name in value)
        elif isinstance(value, list):
            left.extend((f"{place}[{index}]", value, index) for index in range(len(value)))


def _shown_key(key: str) -> str:
    return key if len(key) <= _KEY_CHARACTERS else f"{key[: _KEY_CHARACTERS - 1]}…"


def _is_taken(one: _Value, allowed: Iterable[str]) -> bool:
    return isinstance(one.source, str) and one.source in allowed and set(one.asked) <= {_FROM, _PATH}


def _check_value(one: _Value, allowed: set[str], *, is_stored: bool) -> None:
    place = one.place if len(one.place) <= _PLACE_CHARACTERS else f"{one.place[: _PLACE_CHARACTERS - 1]}…"
    if more := set(one.asked) - {_FROM, _PATH}:
        raise InvalidFieldError(
            place, f"has {shown_value(min(more))} beside $from; only path is allowed there, in a job with dependsOn."
        )
    if not isinstance(one.source, str) or one.source not in allowed:
        raise InvalidFieldError(
            f"{place}.$from", f"{shown_value(one.source)} is none of the jobs in dependsOn; it has to be one of them."
        )
    if _PATH in one.asked:
        if not isinstance(one.path, str):
            raise InvalidFieldError(f"{place}.path", f"{shown_value(one.path)} is no JMESPath: it has to be a string.")
        check(one.path, f"{place}.path", is_stored=is_stored)
