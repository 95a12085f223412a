"""Strict JSON: what is accepted comes back with the value and kind of each number; anything doubtful is refused.

Python's own reader takes duplicate keys, NaN, numbers that overflow and lone surrogates. Each of those is a request
that means something else to the next reader, so here each is a 400.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

from functions.domain.errors import FieldProblem, InvalidRequestError, PayloadTooLargeError
from functions.domain.upstream_values import PAYLOAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_BODY_BYTES = 256 * 1024
MAX_BULK_BODY_BYTES = 4 * 1024 * 1024
"""Of a body with many items: an invocation takes 6 MB, the event's own text included (Lambda quotas)."""
MAX_PAYLOAD_BYTES = PAYLOAD_BYTES
MAX_DEPTH = 100
MAX_INTEGER_DIGITS = 4_300
"""CPython's own limit for reading integers (`sys.int_info.default_max_str_digits`)."""

_LONG_INTEGER = re.compile(rf"(?<!\d)\d{{{MAX_INTEGER_DIGITS + 1}}}")
"""Tried at the first digit of each number only, so that the search takes time linear in the size of the body."""
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def invalid(field: str, message: str) -> InvalidRequestError:
    """The error for one field that is wrong."""
    return InvalidRequestError((FieldProblem(field, message),))


def read_text(body: str, *, is_base64: bool, limit: int = MAX_BODY_BYTES) -> str:
    """The body as text; raises PayloadTooLargeError, or InvalidRequestError for what is no UTF-8."""
    if is_base64:
        try:
            raw = base64.b64decode(body, validate=True)
        except (binascii.Error, ValueError):
            raise invalid("body", "is not readable: the base64 of its transport is broken") from None
        _must_fit(len(raw), limit)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise invalid("body", f"is not UTF-8: byte {error.start} cannot be read") from None
    _must_fit(len(body), limit)
    if not body.isascii():
        _must_fit(len(_encoded(body)), limit)
    return body


def parse(text: str) -> Any:
    """The value of a JSON text; raises InvalidRequestError naming what is wrong with it."""
    # The hook that tells integers from digits in a string or a fraction costs a call for every integer.
    counting = len(text) > MAX_INTEGER_DIGITS and _LONG_INTEGER.search(text) is not None
    decoder = _COUNTING_DECODER if counting else _DECODER
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        raise invalid("body", f"is not JSON: {error.msg}: line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise _too_deep() from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise _too_deep()
    if _SURROGATE_ESCAPE.search(text):
        _encoded(compact(value))
    return value


compact: Callable[[Any], str] = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
).encode
"""JSON text without spaces and without needless escapes."""


def payload_text(value: Any) -> str:
    """The payload as it is stored and sent back; raises PayloadTooLargeError."""
    text = compact(value)
    size = len(text) if text.isascii() else len(text.encode())
    if size > MAX_PAYLOAD_BYTES:
        raise PayloadTooLargeError(
            f"payload: it is {size} bytes of UTF-8 as compact JSON; the limit is {MAX_PAYLOAD_BYTES}."
        )
    return text


def canonical_hash(value: Any) -> str:
    """Hash that is equal for equal bodies, whatever the order of their keys; `1` and `1.0` differ."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _must_fit(size: int, limit: int) -> None:
    if size > limit:
        raise PayloadTooLargeError(f"body: it is over the limit of {limit} bytes.")


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise invalid("body", "holds a lone surrogate, which is no character") from None


def _too_deep() -> InvalidRequestError:
    return invalid("body", f"is nested more than {MAX_DEPTH} levels deep")


def _depth(value: Any) -> int:
    depth, level = 0, [value] if isinstance(value, (dict, list)) else []
    while level:
        depth += 1
        children = chain.from_iterable(node.values() if isinstance(node, dict) else node for node in level if node)
        level = [child for child in children if isinstance(child, (dict, list))]
    return depth


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # add returns None
        raise invalid("body", f"has the key {json.dumps(twice)[:64]} twice in one object")
    return members


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise invalid("body", "holds a number beyond ±1.7976931348623157e308")
    return number


def _int(digits: str) -> int:
    if len(digits.removeprefix("-")) > MAX_INTEGER_DIGITS:
        raise invalid("body", f"holds an integer of more than {MAX_INTEGER_DIGITS} digits")
    return int(digits)


def _constant(name: str) -> NoReturn:
    raise invalid("body", f"is not JSON: {name} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
_COUNTING_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_float, parse_int=_int, parse_constant=_constant
)
