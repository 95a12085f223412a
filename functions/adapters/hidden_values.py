"""Hides what was sent to a target and nobody may see, wherever the target's answer repeats it.

An answer may spell a value in another way than it was sent: escaped as JSON, HTML or a URL does, or in base64 or hex.
"""

from __future__ import annotations

import base64
import binascii
import enum
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from functions.domain.masking import MASK, is_shown

WORD_CHARACTERS = 8
"""A shorter value is hidden as a whole word only: inside other words it is there by chance."""
TINY_CHARACTERS = 4
"""A shorter value is hidden only where it is given as a value, such as a whole JSON string: `a` and `1` are everywhere.
Shorter numbers and parts of values stay."""
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
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]")
_BEFORE_VALUES = ("", '"', "'", "=", ":", ">", "\n")
_AFTER_VALUES = ("", '"', "'", "&", ";", ",", "<", "\r", "\n")
_SEPARATORS = re.compile(r"[;,&]")


class _Reading(NamedTuple):
    """A text, and where each of its characters (and its end) begins in the text that it was read from."""

    text: str
    places: tuple[int, ...]


class HiddenValues:
    """What of a request must not be shown."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        spellings = {spelling for value in values if value.strip() for spelling in _spellings(value)}
        self._spellings = tuple(sorted(spellings, key=lambda one: (-len(one.text), one)))

    @classmethod
    def of_request(cls, headers: Mapping[str, str], target: Mapping[str, object], *more: str | None) -> HiddenValues:
        """Of what was sent: secrets, headers and query parameters, whole and in the parts that a receiver takes them
        apart into.

        Args:
            headers: The target's headers, with their secrets filled in.
            target: The target as it is stored.
            more: Other values to hide, None for none.
        """
        written = target.get("headers")
        references = written if isinstance(written, Mapping) else {}
        sent = [
            value for name, value in headers.items() if not is_shown(name) or isinstance(references.get(name), Mapping)
        ]
        hidden = {value for value in more if value} | set(sent)
        for value in sent:
            hidden.update(part for part in _parts(value) if len(part) >= TINY_CHARACTERS)
        for parameter in str(target.get("url", "")).partition("?")[2].split("&"):
            name, sign, value = parameter.partition("=")
            text = value if sign else name
            hidden |= {text, unquote_plus(text)}
        return cls(hidden)

    def hide(self, text: str) -> str:
        """The text with `***` for each of the values, whatever its spelling. JSON stays JSON."""
        if not self._spellings or not text:
            return text
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return _hide(text, self._spellings)
        try:
            texts = list(_texts(value))
        except RecursionError:
            return _hide(text, self._spellings)
        found = _found("\0".join(texts), self._spellings)
        return json.dumps(_hidden(value, found), ensure_ascii=False) if found else text


class _Where(enum.IntEnum):
    """Where a spelling counts."""

    ANYWHERE = enum.auto()
    AS_WORD = enum.auto()
    AS_VALUE = enum.auto()
    IN_BASE64 = enum.auto()
    """Anywhere, and the base64 characters around it tell of the value, too."""


class _Spelling(NamedTuple):
    text: str
    where: _Where


def _parts(value: str) -> Iterator[str]:
    """What a receiver makes of a header: credentials without their scheme, parameters and cookies."""
    scheme, space, credentials = value.partition(" ")
    if space:
        yield credentials.strip()
        yield value.rsplit(" ", maxsplit=1)[-1]
    if scheme.lower() == "basic":
        try:
            decoded = base64.b64decode(credentials.strip(), validate=True).decode("utf-8", "replace")
        except binascii.Error:
            decoded = ""
        yield decoded
        yield decoded.partition(":")[2]
    for part in _SEPARATORS.split(value):
        yield part.partition("=")[2].strip(' "')
        yield part.strip()


def _spellings(value: str) -> Iterator[_Spelling]:
    where = _Where.ANYWHERE
    if len(value) < WORD_CHARACTERS:
        where = _Where.AS_WORD if len(value) >= TINY_CHARACTERS else _Where.AS_VALUE
    raw = value.encode(errors="replace")
    for text in {value, value.replace(" ", "+"), raw.decode("latin-1"), raw.hex(), raw.hex().upper()}:
        yield _Spelling(text, where)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(raw).decode()
        yield _Spelling(whole, where)
        yield _Spelling(whole.rstrip("="), where)
        for before in range(3):
            # The value inside longer bytes that were encoded as a whole: without the characters that depend on them.
            inner = encode(bytes(before) + raw).decode()
            core = inner[(0, 2, 3)[before] : (before + len(raw)) * 8 // 6]
            if len(core) >= WORD_CHARACTERS:
                yield _Spelling(core, _Where.IN_BASE64)


def _found(text: str, spellings: Iterable[_Spelling]) -> tuple[_Spelling, ...]:
    """Those that are somewhere in the text."""
    readings = [reading.text for reading in _readings(text)]
    return tuple(one for one in spellings if any(one.text in reading for reading in readings))


def _hide(text: str, spellings: tuple[_Spelling, ...]) -> str:
    spans: list[tuple[int, int]] = []
    for reading in _readings(text):
        for spelling in spellings:
            spans += ((reading.places[start], reading.places[end]) for start, end in _spans(reading.text, spelling))
    if not spans:
        return text
    shown, at = [], 0
    for start, end in sorted(spans):
        if start >= at:
            shown += [text[at:start], MASK]
        at = max(at, end)
    return "".join([*shown, text[at:]])


def _spans(text: str, spelling: _Spelling) -> Iterator[tuple[int, int]]:
    start = text.find(spelling.text)
    while start >= 0:
        end = start + len(spelling.text)
        if spelling.where is _Where.IN_BASE64:
            while start and _BASE64.match(text[start - 1]):
                start -= 1
            while end < len(text) and _BASE64.match(text[end]):
                end += 1
        if _counts(text, start, end, spelling.where):
            yield start, end
            start = text.find(spelling.text, end)
        else:
            start = text.find(spelling.text, start + 1)


def _counts(text: str, start: int, end: int, where: _Where) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    if where is _Where.AS_VALUE:
        if before == " ":
            before = text[max(start - 2, 0) : start - 1]
        return before in _BEFORE_VALUES and after in _AFTER_VALUES
    return where is not _Where.AS_WORD or not (before.isalnum() or after.isalnum())


def _readings(text: str) -> Iterator[_Reading]:
    """The text as it is, and as it is with its escapes read: of each kind alone, and of all kinds several times."""
    plain = _Reading(text, tuple(range(len(text) + 1)))
    yield plain
    for escapes in _ESCAPES:
        reading = _read(plain, escapes)
        if reading is not None:
            yield reading
    again = _read(plain, _ESCAPES[0])
    for _ in range(DECODINGS - 1):
        again = None if again is None else _read(again, _ESCAPES[0])
        if again is not None:
            yield again


def _read(reading: _Reading, escapes: re.Pattern[str]) -> _Reading | None:
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
    return _Reading("".join(read), (*at, places[-1]))


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


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _hidden(value: Any, found: tuple[_Spelling, ...]) -> Any:
    if isinstance(value, str):
        return _hide(value, found)
    if isinstance(value, dict):
        return {_hide(name, found): _hidden(inner, found) for name, inner in value.items()}
    if isinstance(value, list):
        return [_hidden(inner, found) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = str(value)
        return MASK if len(text) >= TINY_CHARACTERS and _hide(text, found) != text else value
    return value
