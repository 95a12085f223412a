"""Reads what is escaped in a text as JSON, HTML or a URL escapes it, and tells where it stands in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

DECODINGS = 3
"""How often what is escaped may be escaped again."""

_JSON_ESCAPE = r'\\(?:u[0-9A-Fa-f]{4}|["\\/bfnrt])'
_PERCENT_ESCAPE = r"%[0-9A-Fa-f]{2}"
_HTML_ESCAPE = r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|amp|lt|gt|quot|apos);"
_ESCAPES = tuple(
    re.compile(escape)
    for escape in (f"{_JSON_ESCAPE}|{_PERCENT_ESCAPE}|{_HTML_ESCAPE}", _JSON_ESCAPE, _PERCENT_ESCAPE, _HTML_ESCAPE)
)
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


class Reading(NamedTuple):
    """A text, and where each of its characters (and its end) begins in the text that it was read from."""

    text: str
    places: tuple[int, ...]


def readings(text: str) -> Iterator[Reading]:
    """The text as it is, and with its escapes read: those of each kind alone, and of all kinds, each several times."""
    plain = Reading(text, tuple(range(len(text) + 1)))
    yield plain
    once = _read(plain, _ESCAPES[0])
    if once is None:
        return
    yield once
    kinds = [escapes for escapes in _ESCAPES[1:] if escapes.search(text)]
    for escapes in kinds if len(kinds) > 1 else ():
        yield from _read_again(plain, escapes, DECODINGS)
    yield from _read_again(once, _ESCAPES[0], DECODINGS - 1)


def _read_again(reading: Reading, escapes: re.Pattern[str], times: int) -> Iterator[Reading]:
    """What comes of reading the same escapes so many times, as long as there are any."""
    for _ in range(times):
        again = _read(reading, escapes)
        if again is None:
            return
        yield again
        reading = again


def _read(reading: Reading, escapes: re.Pattern[str]) -> Reading | None:
    """None where nothing is escaped."""
    text, places = reading
    matches = [(match.start(), match.end()) for match in escapes.finditer(text)]
    if not matches:
        return None
    read: list[str] = []
    at: list[int] = []
    for (_, last), (start, end) in pairwise([(0, 0), *matches, (len(text), len(text))]):
        read.append(text[last:start])
        at += places[last:start]
        if start < end:
            read.append(_character(text[start:end]))
            at.append(places[start])
    return Reading("".join(read), (*at, places[-1]))


@lru_cache(1_024)
def _character(escape: str) -> str:
    """The one character that an escape stands for."""
    if escape.startswith("%"):
        return chr(int(escape[1:], 16))
    name = escape.strip("\\&;")
    if escape.startswith("\\"):
        return chr(int(name[1:], 16)) if len(escape) == len("\\u0000") else _CONTROLS.get(name, escape[1])
    if name.startswith("#"):
        number = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
        return chr(number) if number <= 0x10FFFF else "\ufffd"
    return _ENTITIES[name]
